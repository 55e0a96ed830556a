"""What ended leader terms is set aside by the next leader, shown to operators, and let in again by them."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import BackendUnavailable, NotAllowedNow, NotFound
from argosy_eventlog import QuarantinedLogRecord
from argosy_store import Effects, LeaderStore
from argosy_store.terms.suspects import drop_set_aside, list_set_aside, retry_set_aside
from argosy_testkit.store_world import StoreWorld


def changes(world: StoreWorld) -> list[tuple[int, bytes]]:
    """Return the changes that can be read, without the one of the queue that was made."""
    return [(change_id, payload) for change_id, payload in world.leader.read_changes(10) if payload != b"queue"]


def shown(url: str) -> list[tuple[str, str, str]]:
    """Return what operators see, without times."""
    return [(row.kind, row.key, row.error) for row in list_set_aside(url)]


def test_suspects_are_loaded_once_each_and_their_first_error_stays(world: StoreWorld, database_url: str) -> None:
    """A text with a zero byte is no hindrance."""
    world.leader.note_suspects(world.epoch, [("job", "7"), ("class", "3")], "KeyError: why\0")
    world.leader.note_suspects(world.epoch, [("job", "7")], "another")
    assert world.leader.load().suspects == (("class", "3"), ("job", "7"))
    assert world.leader.count_suspects() == 2
    assert sorted(shown(database_url)) == [("class", "3", "KeyError: why "), ("job", "7", "KeyError: why ")]
    other = LeaderStore(database_url, "other")
    assert other.count_suspects() == 0
    other.close()


def test_suspect_change_is_not_read_until_somebody_lets_it_in_again(world: StoreWorld, database_url: str) -> None:
    """Its payload is loaded, so that the jobs that it accepts are left out."""
    world.submit_jobs(1)
    world.submit_jobs(1)
    (first, payload), second = changes(world)
    world.leader.note_suspects(world.epoch, [("change", str(first))], "why")
    assert changes(world) == [second]
    assert world.leader.load().suspect_changes == (payload,)
    retry_set_aside(database_url, "default", kind="change", key=str(first))
    assert changes(world) == [(first, payload), second]
    assert world.leader.load().suspect_changes == ()


def test_dropped_change_is_gone(world: StoreWorld, database_url: str) -> None:
    """Nobody reads it any more, and nobody is told of it."""
    world.submit_jobs(1)
    ((change_id, _),) = changes(world)
    world.leader.note_suspects(world.epoch, [("change", str(change_id))], "why")
    drop_set_aside(database_url, "default", kind="change", key=str(change_id))
    assert changes(world) == []
    assert list_set_aside(database_url) == []


@pytest.mark.parametrize("role", ["sampler", "executor"])
def test_peer_that_ended_a_term_is_refused_until_somebody_lets_it_in_again(
    world: StoreWorld, database_url: str, role: str
) -> None:
    """Only that one; the refusal names the command and not the error."""
    world.leader.note_suspects(world.epoch, [(role, "east")], "KeyError: secret")
    with pytest.raises(BackendUnavailable, match=f"argosy admin quarantine retry {role} east") as refusal:
        world.leader.bind_cluster(world.epoch, "east", uid="u", role=role, process=bytes(16), keep_s=1.0)
    assert "secret" not in refusal.value.message
    world.leader.bind_cluster(world.epoch, "west", uid="w", role=role, process=bytes(16), keep_s=1.0)
    retry_set_aside(database_url, "default", kind=role, key="east")
    world.leader.bind_cluster(world.epoch, "east", uid="u", role=role, process=bytes(16), keep_s=1.0)


def test_quarantined_change_is_put_back_and_a_record_is_only_dropped(world: StoreWorld, database_url: str) -> None:
    """The runs of a record were taken back when it was met."""
    bad = [
        QuarantinedLogRecord(position=position, payload=b"bad", error="why", create_time_us=1 + position)
        for position in (0, 9)
    ]
    world.leader.apply(world.epoch, Effects(quarantined=bad))
    (change, record) = list_set_aside(database_url)
    assert (change.kind, record.kind) == ("unread change", "unread record")
    with pytest.raises(NotAllowedNow, match="drop it"):
        retry_set_aside(database_url, "default", kind=record.kind, key=record.key)
    drop_set_aside(database_url, "default", kind=record.kind, key=record.key)
    retry_set_aside(database_url, "default", kind=change.kind, key=change.key)
    assert [payload for _, payload in changes(world)] == [b"bad"]
    assert list_set_aside(database_url) == []


def test_what_is_not_set_aside_is_not_found_and_a_job_is_not_dropped(world: StoreWorld, database_url: str) -> None:
    """Nothing is changed by a slip."""
    world.leader.note_suspects(world.epoch, [("job", "7")], "why")
    with pytest.raises(NotFound):
        retry_set_aside(database_url, "default", kind="job", key="8")
    with pytest.raises(NotAllowedNow, match="retry"):
        drop_set_aside(database_url, "default", kind="job", key="7")
    assert np.size(list_set_aside(database_url)) == 1

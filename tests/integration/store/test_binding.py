"""Which process speaks for a cluster: issue 11, number 8, and issue 10, B6."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from argosy_core.errors import NotAllowedNow, QuotaExceeded, StateConflict
from argosy_store.binding import Binding
from argosy_store.terms.effects import Effects
from argosy_store.terms.ended_sessions import list_ended_sessions
from argosy_store.terms.leader import LeaderStore
from argosy_testkit.store_world import StoreWorld

FIRST, SECOND, THIRD = (bytes([number] * 16) for number in (1, 2, 3))
FENCE_S = 600.0


def bind(world: StoreWorld, process: bytes, *, role: str = "executor", uid: str = "one", host: str = "h") -> Binding:
    """Bind a process to cluster east in the world's pool."""
    return world.leader.bind_cluster(
        world.epoch, "east", uid=uid, role=role, process=process, keep_s=FENCE_S, host=host
    )


def contact(world: StoreWorld, role: str, *, heard_us: int, held_us: int) -> None:
    """Let the leader store that a process of cluster east was heard."""
    world.leader.apply(world.epoch, Effects(contacts={("east", role): (heard_us, held_us)}))


@pytest.fixture(name="other")
def other_pool(world: StoreWorld) -> Iterator[tuple[LeaderStore, int]]:
    """Give the leader of another pool on the same database, and its epoch."""
    store = LeaderStore(world.url, "gpu")
    leadership = store.try_lead("leader-2", "localhost:2", 600)
    assert leadership is not None
    yield store, leadership.epoch
    store.close()


def test_a_name_is_bound_to_a_uid_that_no_refusal_tells(world: StoreWorld) -> None:
    """Another uid under a bound name is refused without either uid; forgetting the cluster frees the name."""
    bind(world, FIRST, uid="secret-one")
    with pytest.raises(NotAllowedNow) as caught:
        bind(world, FIRST, uid="secret-two")
    assert "secret" not in caught.value.message
    contact(world, "executor", heard_us=1, held_us=1)
    world.api.forget_cluster("east", encode=lambda names: repr(names).encode())
    assert world.leader.read_clusters() == []
    again = bind(world, SECOND, uid="secret-two", role="sampler")
    assert (again.cluster.uid, again.cluster.forgotten, again.incarnation, again.is_first) == (
        "secret-two", False, 1, True,
    )  # fmt: skip


def test_the_incumbent_keeps_its_session_while_it_is_heard(world: StoreWorld) -> None:
    """A second deployment of the name is refused and told who holds it, however often it asks; then it is let in."""
    first = bind(world, FIRST, host="node-a")
    for _ in range(3):
        with pytest.raises(StateConflict, match="process 01010101 on host node-a; pool default hears it"):
            bind(world, SECOND)
        assert bind(world, FIRST, host="node-a").incarnation == first.incarnation == 1
    contact(world, "executor", heard_us=5, held_us=1)  # nothing was heard of it for the fence's time
    second = bind(world, SECOND)
    assert (second.incarnation, second.is_first, first.is_first) == (2, False, True)
    with pytest.raises(StateConflict):
        bind(world, FIRST)


def test_roles_are_held_apart(world: StoreWorld) -> None:
    """Sampler and executor are different processes, or one."""
    bind(world, FIRST)
    assert bind(world, SECOND, role="sampler").is_first
    assert bind(world, FIRST).is_first, "the first one has no predecessor, also when it dials again"


def test_numbers_outlive_what_was_forgotten(world: StoreWorld) -> None:
    """A leader that remembers what nodes meant under a number never meets the number again."""
    bind(world, FIRST, role="sampler")
    contact(world, "sampler", heard_us=1, held_us=1)
    world.api.forget_cluster("east", encode=lambda names: repr(names).encode())
    assert bind(world, FIRST, role="sampler", uid="two").incarnation == 2


def test_a_cluster_that_is_heard_is_not_forgotten(world: StoreWorld) -> None:
    """It could still run its pods; the database knows, whoever leads."""
    bind(world, FIRST)
    with pytest.raises(NotAllowedNow, match="is connected"):
        world.api.forget_cluster("east", encode=lambda names: repr(names).encode())
    assert not world.api.get_cluster("east").forgotten


def test_one_process_speaks_to_the_leaders_of_all_pools(world: StoreWorld, other: tuple[LeaderStore, int]) -> None:
    """Two pools share a cluster by one sampler and one executor; another process is refused by either leader."""
    store, epoch = other
    bind(world, FIRST, host="node-a")
    with pytest.raises(StateConflict, match="on host node-a; pool default hears it"):
        store.bind_cluster(epoch, "east", uid="one", role="executor", process=SECOND, keep_s=FENCE_S)
    bound = store.bind_cluster(epoch, "east", uid="one", role="executor", process=FIRST, keep_s=FENCE_S)
    assert (bound.incarnation, bound.cluster.pools) == (1, ("default", "gpu"))
    assert [row.name for row in store.read_clusters()] == [row.name for row in world.leader.read_clusters()] == ["east"]
    contact(world, "executor", heard_us=5, held_us=1)
    with pytest.raises(StateConflict, match="pool gpu hears it"):
        bind(world, SECOND)


def test_every_pool_hears_what_is_decided_about_a_cluster(world: StoreWorld, other: tuple[LeaderStore, int]) -> None:
    """A cordon is of the cluster, so the leaders of all its pools are told."""
    store, epoch = other
    bind(world, FIRST)
    store.bind_cluster(epoch, "east", uid="one", role="executor", process=FIRST, keep_s=FENCE_S)
    world.api.set_cluster_cordon("east", cordoned=True, reason="old", encode=lambda names: repr(list(names)).encode())
    for leader in (world.leader, store):
        assert leader.read_changes(10)[-1][1] == b"['east']"
    assert store.load().clusters == world.leader.load().clusters


def test_contacts_are_of_one_pool_and_never_go_back(world: StoreWorld, other: tuple[LeaderStore, int]) -> None:
    """The last contact is the latest with any pool's leader; a goodbye moves nothing back."""
    store, epoch = other
    bind(world, FIRST)
    store.bind_cluster(epoch, "east", uid="one", role="executor", process=FIRST, keep_s=FENCE_S)
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("UPDATE cluster_pools SET heard_time_us = 1")
        contact(world, "executor", heard_us=9, held_us=20)
        contact(world, "executor", heard_us=0, held_us=0)
        rows = connection.execute("SELECT pool, heard_time_us, held_until_us FROM cluster_pools ORDER BY pool")
        assert [row[:2] for row in rows] == [("default", 9), ("gpu", 1)]
    assert world.api.get_cluster("east").contact_time_us == 9


def test_no_clock_but_the_databases_decides_who_is_let_in(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with a fast clock locks nobody out, nor does one with a slow clock let anybody in."""
    bind(world, FIRST)
    for ahead_s in (-1e9, 1e9):
        monkeypatch.setattr("time.time", lambda at_s=1.8e9 + ahead_s: at_s)
        with pytest.raises(StateConflict):
            bind(world, SECOND)
    contact(world, "executor", heard_us=1, held_us=1)
    assert bind(world, SECOND).incarnation == 2
    monkeypatch.undo()
    contact(world, "executor", heard_us=1, held_us=1)
    assert bind(world, THIRD).incarnation == 3


def test_clusters_are_bounded_and_one_that_is_forgotten_makes_room(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dials may call itself anything; who is known already is let in however many there are."""
    monkeypatch.setattr("argosy_store.binding.MAX_CLUSTERS", 1)
    bind(world, FIRST)

    def bind_west() -> Binding:
        return world.leader.bind_cluster(
            world.epoch, "west", uid="two", role="executor", process=SECOND, keep_s=FENCE_S, host="h"
        )

    with pytest.raises(QuotaExceeded, match="cluster west is not known, and there are 1 already"):
        bind_west()
    bind(world, FIRST, role="sampler")
    contact(world, "executor", heard_us=1, held_us=1)
    contact(world, "sampler", heard_us=1, held_us=1)
    world.api.forget_cluster("east", encode=lambda names: repr(names).encode())
    assert bind_west().cluster.name == "west"


def test_ended_sessions_are_remembered_the_newest_of_each_cluster(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that dials again and again fills no table, and pushes nobody else's out of it."""
    monkeypatch.setattr("argosy_store.terms.ended_sessions.KEPT_COUNT", 2)
    for cluster, reason in (("west", "w"), ("east", "1"), ("east", "2"), ("east", "3\0"), ("east", "x" * 5000)):
        world.leader.note_ended_session(cluster=cluster, role="sampler", host="h", reason=reason)
    noted = [(row.pool, row.cluster, row.role, row.host, row.reason) for row in list_ended_sessions(world.url)]
    assert noted == [
        ("default", "west", "sampler", "h", "w"),
        ("default", "east", "sampler", "h", "3 "),
        ("default", "east", "sampler", "h", "x" * 1000),
    ]


def test_a_clusters_wish_to_be_delegated_holds_until_an_operator_speaks(world: StoreWorld) -> None:
    """Its sampler says so at each hello, and the audit tells of changes; an operator's word stays until it is gone."""

    def said(*wish: bool) -> bool:
        bound = world.leader.bind_cluster(
            world.epoch, "east", uid="u", role="sampler", process=FIRST, keep_s=FENCE_S, delegated=(*wish, None)[0]
        )
        return bound.cluster.delegated

    wishes = [(), (False,), (True,), (True,), (), (False,), (True,)]
    assert [said(*wish) for wish in wishes] == [False, False, True, True, True, False, True]
    with psycopg.connect(world.url) as connection:
        told = connection.execute("SELECT principal, detail FROM audit_records ORDER BY id").fetchall()
    assert told == [("sampler of east", text) for text in ("delegated", "not delegated", "delegated")]
    world.api.set_delegated("east", delegated=False, encode=lambda names: repr(names).encode())
    assert [said(wish) for wish in (True, False, True)] == [False, False, False]
    world.api.set_delegated("east", delegated=True, encode=lambda names: repr(names).encode())
    assert said(False)
    row = world.api.set_delegated("east", delegated=None, encode=lambda names: repr(names).encode())
    assert row.delegated, "until its sampler says hello again"
    assert [said(wish) for wish in (False, True)] == [False, True]
    world.api.set_delegated("east", delegated=True, encode=lambda names: repr(names).encode())
    contact(world, "sampler", heard_us=1, held_us=1)
    world.api.forget_cluster("east", encode=lambda names: repr(names).encode())
    assert not said(False)

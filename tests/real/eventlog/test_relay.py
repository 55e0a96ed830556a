"""The relay of job events, from a real database to a real broker.

Source: design section 4, job_set_events; `docs/events.md`.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pulsar
import pytest

from argosy.api.v1 import access_pb2, event_pb2, job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.access import Grant
from argosy_core.errors import ArgosyError, BackendUnavailable, StateConflict
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi, set_up_events
from argosy_server.config import ServerConfig
from argosy_server.relay import AuditRelay, EventRelay
from argosy_store import Effects, LeaderStore
from argosy_store.replicas.audit import ACTOR, Actor
from argosy_store.terms.effects import EventRow
from argosy_testkit.store_world import StoreWorld

DAY_US = 86_400_000_000
POOL = "default"


class RelayWorld:
    """A database with a leader, and a topic of its own."""

    def __init__(self, url: str, broker: Any) -> None:
        """Make the topic and take the lead."""
        self.broker = broker
        self.settings = PulsarSettings(
            tenant=f"t{secrets.token_hex(4)}",
            admin_url=broker.admin_url,
            publish_timeout_s=3.0,
            operation_timeout_s=3.0,
        )
        set_up_events(AdminApi(broker.service_url, self.settings), self.settings, [POOL])
        self.store = StoreWorld(url)
        self.leader = LeaderStore(url, POOL, relays_events=True)
        self.config = ServerConfig(database_url=url, role="relay", events_url=broker.service_url, pulsar=self.settings)
        self._relays: list[EventRelay | AuditRelay] = []

    def relay(self) -> EventRelay:
        """Return a relay."""
        made = EventRelay(self.config)
        self._relays.append(made)
        return made

    def audit_relay(self) -> AuditRelay:
        """Return a relay of the audit."""
        made = AuditRelay(self.config)
        self._relays.append(made)
        return made

    def change(self, *groups: str) -> None:
        """Have alice let groups watch the queue, one after the other."""
        actor = Actor(
            method="/argosy.api.v1.AccessService/AddGrants", principal="alice", acted_by="", host="ipv4:10.0.0.7"
        )
        token = ACTOR.set(actor)
        for group in groups:
            self.store.api.add_grants([Grant(subject=f"group:{group}", verb="watch", queue="team")])
        ACTOR.reset(token)

    def write(self, job_set: str, first: int, count: int) -> None:
        """Store events of a job set in one transaction."""
        (job_set_id,) = self.store.api.job_set_ids([(self.store.queue.queue_id, job_set)])
        ones = np.ones(count, dtype=np.int32)
        payload = lease_pb2.EventBatch(
            handle_column=np.arange(first, first + count, dtype="<i8").tobytes(),
            id_high_column=np.full(count, 0x0192_0000_0000_7000, dtype="<i8").tobytes(),
            kind_column=np.full(count, event_pb2.JOB_EVENT_KIND_LEASED, dtype="<i1").tobytes(),
            attempt_column=ones.astype("<i4").tobytes(),
            time_us_column=np.full(count, 1_700_000_000_000_000, dtype="<i8").tobytes(),
            cluster_column=np.zeros(count, dtype="<i4").tobytes(),
            node_column=ones.astype("<i4").tobytes(),
            reason_column=np.full(count, -1, dtype="<i4").tobytes(),
            texts=["c1", "n1"],
            from_state_column=np.full(count, job_pb2.JOB_STATE_QUEUED, dtype="<i1").tobytes(),
            to_state_column=np.full(count, job_pb2.JOB_STATE_LEASED, dtype="<i1").tobytes(),
        ).SerializeToString()
        row = EventRow(
            job_set_id=job_set_id,
            first_number=first,
            last_number=first + count - 1,
            create_time_us=self.store.day * DAY_US,
            payload=payload,
        )
        self.leader.apply(self.store.epoch, Effects(events=[row]))

    def messages(self) -> list[tuple[str, dict[str, str], list[int]]]:
        """Return (key, properties, event numbers) of everything on the topic."""
        read = event_pb2.WatchJobSetResponse.FromString
        return [
            (message.partition_key(), message.properties(), [event.number for event in read(message.data()).events])
            for message in self._read_all(self.settings.events_topic(POOL))
        ]

    def audit(self) -> list[tuple[str, access_pb2.AuditRecord]]:
        """Return (key, record) of everything on the audit's topic."""
        read = access_pb2.AuditRecord.FromString
        return [(one.partition_key(), read(one.data())) for one in self._read_all(self.settings.audit_topic)]

    def _read_all(self, topic: str) -> list[Any]:
        client = pulsar.Client(self.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(timeout_millis=30_000))
        reader.close()
        client.close()
        return found

    async def close(self) -> None:
        """Close everything."""
        for relay in self._relays:
            await relay.close()
        self.leader.close()
        self.store.api.close()
        self.store.leader.close()


@pytest.fixture
async def relay_world(database_url: str, pulsar_broker: Any) -> Any:
    """Give a world with nothing to relay."""
    world = RelayWorld(database_url, pulsar_broker)
    yield world
    await world.close()


async def test_events_reach_the_topic_as_they_are_documented(relay_world: RelayWorld) -> None:
    """Key, properties and payload; one message holds at most 2,000 events; the outbox is empty afterwards."""
    relay_world.write("nightly", 1, 2)
    relay_world.write("nightly", 3, 4_500)
    relay_world.write("other", 1, 1)
    relay = relay_world.relay()
    assert relay.relay_once() == 3
    assert relay.relay_once() == 0
    found = relay_world.messages()
    assert [(key, len(numbers)) for key, _, numbers in found] == [
        ("team/nightly", 2),
        ("team/nightly", 2_000),
        ("team/nightly", 2_000),
        ("team/nightly", 500),
        ("team/other", 1),
    ]
    assert [number for key, _, numbers in found if key == "team/nightly" for number in numbers] == list(range(1, 4_503))
    assert found[0][1] == {
        "pool": "default",
        "queue": "team",
        "job_set": "nightly",
        "first_number": "1",
        "last_number": "2",
    }


async def test_a_relay_that_dies_before_it_deletes_repeats_with_the_same_numbers(
    relay_world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least once: what a reader has had it knows by its number."""
    relay_world.write("nightly", 1, 3)
    dying = relay_world.relay()

    def die(ids: object) -> None:
        raise BackendUnavailable("the database is gone")

    monkeypatch.setattr(dying._outbox, "delete", die)
    with pytest.raises(BackendUnavailable):
        dying.relay_once()
    await dying.close()
    assert _insist(relay_world.relay()) == 1
    assert [numbers for _, _, numbers in relay_world.messages()] == [[1, 2, 3], [1, 2, 3]]


async def test_two_relays_never_publish_at_once(relay_world: RelayWorld) -> None:
    """The second is refused until the first has gone, so events stand in order."""
    relay_world.write("nightly", 1, 1)
    first, second = relay_world.relay(), relay_world.relay()
    assert first.relay_once() == 1
    relay_world.write("nightly", 2, 1)
    with pytest.raises(StateConflict):
        second.relay_once()
    await first.close()
    assert _insist(second) == 1
    assert [numbers for _, _, numbers in relay_world.messages()] == [[1], [2]]


async def test_audit_reaches_its_own_topic_in_order_and_once_more_after_a_death(
    relay_world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records come by their numbers; what a relay did not note as published comes again, and nothing is passed over."""
    relay_world.change("one", "two")
    dying = relay_world.audit_relay()

    def die(ids: object) -> None:
        raise BackendUnavailable("the database is gone")

    monkeypatch.setattr(dying._outbox, "delete", die)
    with pytest.raises(BackendUnavailable):
        dying.relay_once()
    relay_world.change("three")
    standing_by = relay_world.audit_relay()
    with pytest.raises(StateConflict):
        standing_by.relay_once()
    await dying.close()
    assert _insist(standing_by) == 3
    assert standing_by.relay_once() == 0
    found = relay_world.audit()
    assert [record.name.removeprefix("group:") for _, record in found] == ["one", "two", "one", "two", "three"]
    key, last = found[-1]
    assert (key, last.principal, last.kind, last.detail) == ("Grant/group:three", "alice", "Grant", "watch on team")
    assert (last.method, last.host) == ("/argosy.api.v1.AccessService/AddGrants", "ipv4:10.0.0.7")
    assert [record.number for _, record in found[2:]] == sorted(record.number for _, record in found[2:])
    assert relay_world.messages() == []


@pytest.mark.timeout(180)
async def test_events_wait_in_the_database_while_the_broker_is_away(
    relay_world: RelayWorld, pulsar_broker: Any
) -> None:
    """The leader writes on; nothing is lost, and closing does not hang."""
    relay_world.write("nightly", 1, 1)
    relay = relay_world.relay()
    assert relay.relay_once() == 1
    pulsar_broker.kill()
    try:
        for first in (2, 3):
            relay_world.write("nightly", first, 1)
        with pytest.raises(ArgosyError):
            relay.relay_once()
        other = relay_world.relay()
        with ThreadPoolExecutor(1) as threads:
            failing = threads.submit(other.relay_once)
            await other.close()
            assert isinstance(failing.exception(100), ArgosyError)
    finally:
        pulsar_broker.start()
    assert _insist(relay) == 2
    numbers = [number for _, _, part in relay_world.messages() for number in part]
    assert sorted(set(numbers)) == [1, 2, 3]
    assert numbers[-1] == 3


def _insist(relay: EventRelay | AuditRelay) -> int:
    """Return what relaying answers once it can."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return relay.relay_once()
        except ArgosyError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)

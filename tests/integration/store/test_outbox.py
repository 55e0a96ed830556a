"""The outbox of job events: written with the events, read in order, deleted once relayed.

Source: design section 4, job_set_events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from argosy_core.errors import StateConflict
from argosy_store import Effects, LeaderStore
from argosy_store.postgres.connection import READ_SETTINGS, connect
from argosy_store.replicas.audit import ACTOR, Actor, AuditOutbox, forget_audit, note_changes
from argosy_store.terms.effects import EventRow
from argosy_store.terms.outbox import EventOutbox, forget_outbox
from argosy_testkit.postgres import set_database_time
from argosy_testkit.store_world import StoreWorld

DAY_US = 86_400_000_000


@pytest.fixture
def outbox(world: StoreWorld) -> Iterator[EventOutbox]:
    """Give the pool's outbox."""
    made = EventOutbox(world.url, "default")
    yield made
    made.close()


@pytest.fixture
def leader(world: StoreWorld) -> Iterator[LeaderStore]:
    """Give the leader's store, in an installation that relays events."""
    made = LeaderStore(world.url, "default", relays_events=True)
    yield made
    made.close()


def _row(world: StoreWorld, payload: bytes, *, job_set_id: int = 0, first: int = 1, last: int = 1) -> EventRow:
    return EventRow(
        job_set_id=job_set_id or world.job_set_id,
        first_number=first,
        last_number=last,
        create_time_us=world.day * DAY_US + 5,
        payload=payload,
    )


def test_events_are_given_out_in_the_order_of_their_transactions(
    world: StoreWorld, outbox: EventOutbox, leader: LeaderStore
) -> None:
    """With the names of their job sets, again and again until they are deleted."""
    other = world.api.job_set_ids([(world.queue.queue_id, "other")])[0]
    leader.apply(world.epoch, Effects(events=[_row(world, b"a", last=2), _row(world, b"b", job_set_id=other)]))
    leader.apply(world.epoch, Effects(events=[_row(world, b"c", first=3, last=3)]))
    first = outbox.read(1)
    assert [(e.queue, e.job_set, e.first_number, e.payload) for e in first.events] == [
        ("team", "nightly", 1, b"a"),
        ("team", "other", 1, b"b"),
    ]
    assert outbox.read(1) == first
    outbox.delete(first.ids)
    rest = outbox.read(10)
    assert [event.payload for event in rest.events] == [b"c"]
    outbox.delete(rest.ids)
    assert outbox.read(10).ids == ()


def test_oldest_row_says_for_how_long_events_wait(world: StoreWorld, outbox: EventOutbox, leader: LeaderStore) -> None:
    """By the database's clock, whatever that of the machine says; what is relayed waits no more."""
    set_database_time(world.url, world.day * DAY_US + 90_000_000)
    assert outbox.oldest_age_s() is None
    for number, later_us in ((1, 0), (2, 7_000_000), (3, 99_000_000)):
        row = replace(_row(world, b"a", first=number, last=number), create_time_us=world.day * DAY_US + later_us)
        leader.apply(world.epoch, Effects(events=[row]))
    ages = []
    while (age_s := outbox.oldest_age_s()) is not None:
        ages.append(age_s)
        outbox.delete(outbox.read(1).ids)
    assert ages == [90.0, 83.0, 0.0]


def test_nothing_is_noted_where_events_are_not_relayed(world: StoreWorld, outbox: EventOutbox) -> None:
    """Nor for another pool."""
    world.leader.apply(world.epoch, Effects(events=[_row(world, b"a")]))
    assert outbox.read(10).ids == ()


def test_what_a_replaced_leader_wrote_is_not_noted(world: StoreWorld, outbox: EventOutbox, leader: LeaderStore) -> None:
    """The outbox is part of the transaction that checks the epoch."""
    old = world.epoch
    assert world.leader.try_lead("leader-1", "localhost:1", 600) is not None
    with pytest.raises(StateConflict):
        leader.apply(old, Effects(events=[_row(world, b"a")]))
    assert outbox.read(10).ids == ()


def test_what_nobody_relayed_leaves_with_its_events(
    world: StoreWorld, outbox: EventOutbox, leader: LeaderStore
) -> None:
    """An installation whose relay never runs does not fill its disk."""
    leader.apply(world.epoch, Effects(events=[_row(world, b"a")]))
    set_database_time(world.url, (world.day + 7) * DAY_US)
    assert forget_outbox(world.url, 7) == 0
    set_database_time(world.url, (world.day + 7) * DAY_US + 6)
    assert forget_outbox(world.url, 7) == 1
    assert outbox.read(10).ids == ()


def test_audit_is_given_out_until_it_is_deleted_and_leaves_with_its_records(world: StoreWorld) -> None:
    """A change that is taken back is never given out; one that commits late is, though its number is lower."""
    token = ACTOR.set(Actor(method="/m", principal="alice", acted_by="", host="h"))
    audit = AuditOutbox(world.url)
    with connect(world.url, READ_SETTINGS) as late, connect(world.url, READ_SETTINGS) as early:
        late.execute("BEGIN")
        note_changes(late, [("Queue", "late", "")])
        note_changes(early, [("Queue", "early", ""), ("Queue", "more", "")])
        assert [row.name for row in audit.read(10)] == ["early", "more"]
        audit.delete([row.id for row in audit.read(1)])
        late.execute("COMMIT")
        early.execute("BEGIN")
        note_changes(early, [("Queue", "taken back", "")])
        early.execute("ROLLBACK")
    ACTOR.reset(token)
    rows = audit.read(10)
    assert [(row.name, row.actor.principal) for row in rows] == [("late", "alice"), ("more", "alice")]
    set_database_time(world.url, rows[-1].create_time_us + 3 * DAY_US)
    assert forget_audit(world.url, 2) == 3
    assert audit.read(10) == []
    audit.close()

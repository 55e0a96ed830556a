"""Who is heard: what is stored of it, and where work goes."""

from __future__ import annotations

import pytest
from tests.unit.core.leader.told import (
    C1,
    EXECUTOR,
    NOBODY,
    SAMPLER,
    connect,
    connect_sampler,
    lead,
    store_all,
    submitted,
)

from argosy_core.job.tables.members import Members
from argosy_core.leader import instructions as say
from argosy_core.leader.events import Bound, Heard, Session, SessionLost, Stored


def test_contacts_are_stored_now_and_then() -> None:
    """When an executor was last heard is in the database, though nothing happens."""
    told = lead()
    connect(told)
    told.pass_time(60.0)
    told.tell(Heard(session=EXECUTOR))
    first = told.one(say.Store)
    us = told.moment.db_us
    assert first.transaction.contacts == {("c1", "executor"): (us, us + 15_000_000)}
    told.tell(Stored(number=first.number, refused=NOBODY))
    told.tell(Heard(session=EXECUTOR))
    assert told.kinds() == []
    assert told.machine.due_s() == pytest.approx(told.now_s + told.settings.contact_period_s)


def test_a_cluster_gets_work_only_where_an_executor_is_heard() -> None:
    """A sampler alone is asked for nothing: what is placed where nobody makes it waits in vain."""
    told = lead()
    connect_sampler(told)
    store_all(told, told.tell(submitted(5, 10)))
    store_all(told, told.pass_time(60.0))
    assert not any(isinstance(said, say.SendSample) for said in told.said)
    told.tell(Bound(session=EXECUTOR, settings=C1, known=Members.of([], [])))
    store_all(told, told.pass_time(told.settings.window_max_s))
    told.pass_time(told.settings.window_max_s)
    assert told.machine.state.clusters.connected.tolist() == [True]


@pytest.mark.parametrize(("idle_s", "left_s"), [(0.0, 15.0), (9.0, 6.0), (20.0, 0.0)])
def test_an_executor_that_left_counts_until_it_was_not_heard_for_the_fences_time(idle_s: float, left_s: float) -> None:
    """A restart within that time stops no lease; the time counts from when it was heard, not from when it left."""
    told = lead()
    connect(told)
    told.tell(Heard(session=EXECUTOR))
    told.now_s += idle_s
    told.tell(SessionLost(session=EXECUTOR))
    if left_s:
        told.pass_time(left_s - 0.1)
        assert told.machine.state.clusters.connected.tolist() == [True]
        due_s = told.machine.due_s()
        assert due_s is not None
        assert due_s <= told.now_s + 0.1 + 1e-6
    told.pass_time(0.2)
    assert told.machine.state.clusters.connected.tolist() == [False]


@pytest.mark.parametrize("session", [SAMPLER, EXECUTOR], ids=["sampler", "executor"])
@pytest.mark.parametrize("kept_s", [0.0, 2.0], ids=["goodbye", "broken"])
def test_whoever_leaves_keeps_its_place_no_longer_than_it_says(session: Session, kept_s: float) -> None:
    """It is stored at once, because a successor waits for it."""
    told = lead()
    connect(told)
    store_all(told, told.tell(Heard(session=EXECUTOR), Heard(session=SAMPLER)))
    told.tell(SessionLost(session=session, kept_s=kept_s))
    key = session.cluster, session.role
    assert told.one(say.Store).transaction.contacts[key] == (0, told.moment.db_us + round(kept_s * 1e6))

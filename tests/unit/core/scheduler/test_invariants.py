"""What tests and simulated worlds ask after each step tells each thing that is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.live import IN_FLIGHT, PENDING, STOP_SENT
from argosy_core.scheduler import PoolState, check_invariants
from argosy_testkit.leader_world import LeaderWorld

HELD, HEAD, QUEUED = 0, 4, 5
"""Slots by the order of submission: a job that runs, the waiting head, and one behind it."""


def _full() -> PoolState:
    """Return a pool of four cores: four jobs of one core run, one is pending, one is queued."""
    world = LeaderWorld(clusters={"a": 1}, queues={"q": 1})
    handles = world.submit(6)
    world.round()
    live = world.state.live
    assert live.slots(np.array(handles, dtype=np.int64)).tolist() == list(range(6))
    assert world.state.pending_slots().tolist() == [HEAD]
    check_invariants(world.state)
    return world.state


def _flag(slot: int, flag: int) -> Callable[[PoolState], None]:
    def spoil(state: PoolState) -> None:
        state.live.flags[slot] |= np.uint8(flag)

    return spoil


def _column(name: str, slot: int, value: int) -> Callable[[PoolState], None]:
    def spoil(state: PoolState) -> None:
        getattr(state.live, name)[slot] = value

    return spoil


def _count(table: str, column: str) -> Callable[[PoolState], None]:
    def spoil(state: PoolState) -> None:
        getattr(getattr(state, table), column)[0] += 1

    return spoil


def _elect_twice(state: PoolState) -> None:
    state.heads = np.concatenate([state.heads, state.heads])


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_flag(HEAD, IN_FLIGHT), "pending and in flight"),
        (_flag(HELD, PENDING), "queued by state"),
        (_column("state", QUEUED, 5), "no terminal job is live"),
        (_column("run_state", HELD, 0), "have a run"),
        (_column("run_state", QUEUED, 1), "no run state"),
        (_column("cluster", HELD, -1), "runs have a cluster"),
        (_column("cluster", QUEUED, 0), "waiting jobs have no cluster"),
        (_flag(HELD, STOP_SENT), "only jobs that shall end are stopped"),
        (_column("bag", HELD, 0), "have a bag row"),
        (_column("charge_core_s", HELD, 5), "charged"),
        (_count("queues", "queued_count"), "queued_count per queue"),
        (_count("queues", "leased_count"), "leased_count per queue"),
        (_count("queues", "usage"), "usage per queue"),
        (_count("queues", "queued_usage"), "queued_usage per queue"),
        (_count("queues", "on_hold_count"), "on_hold_count per queue"),
        (_count("queues", "held"), "what is held per queue"),
        (_count("classes", "job_count"), "job count per class"),
        (_count("classes", "waiting_count"), "waiting count per class"),
        (_count("job_sets", "job_count"), "job count per job set"),
        (_column("job_set_limit", QUEUED, 3), "limit their job sets"),
        (_column("priority", QUEUED, 7), "every queued job stands in its order"),
        (_flag(QUEUED, PENDING), "exactly the waiting heads are marked"),
        (_elect_twice, "no job is pending twice"),
    ],
)  # fmt: skip
def test_check_says_what_does_not_hold(spoil: Callable[[PoolState], None], what: str) -> None:
    """A check that passes over what is wrong would let every test and world that asks it pass, too."""
    state = _full()
    spoil(state)
    with pytest.raises(InvariantViolation, match=what):
        check_invariants(state)


def test_check_says_that_a_flow_is_no_number() -> None:
    """One that is none would give its queue everything, or nothing."""
    state = _full()
    state.queues.flow[0] = np.nan
    with pytest.raises(InvariantViolation, match="flows are numbers"):
        check_invariants(state)

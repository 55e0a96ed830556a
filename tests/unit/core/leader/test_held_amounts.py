"""Pods that were resized in place: what runs hold counts, is stored, and outlives the leader."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members, ordinal_of
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.leader import instructions as say
from argosy_core.scheduler import LeasePlan, take_held_amounts
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SUCCEEDED, LOST = int(ObjectState.SUCCEEDED), int(ObjectState.LOST)


def _used(world: LeaderWorld) -> tuple[float, int]:
    """Return the cores that the queue holds, and the millicores free by the leader's account."""
    cpu = world.state.classes.axis.index("cpu")
    return int(world.state.queues.usage.sum()) / 1e6, int(world.state.clusters.free[:, cpu].sum())


def _row(world: LeaderWorld, handle: int, ordinal: int = 1) -> dict[str, int]:
    return world.job(handle).runs[ordinal].held


@pytest.mark.parametrize("takes_over", [False, True])
def test_resized_pod_counts_with_what_it_holds_until_it_ends(*, takes_over: bool) -> None:
    """More or less than its class says; it is stored, so a new leader counts the same, and all of it comes free."""
    world = LeaderWorld(clusters={"a": 2})
    grown, shrunk, plain = world.submit(3)
    world.round()
    world.tell_amounts("a", {(grown, 1): 2500, (shrunk, 1): 200})
    assert _used(world) == (3.7, 4300)
    world.round()
    assert [_row(world, handle) for handle in (grown, shrunk, plain)] == [{"cpu": 2500}, {"cpu": 200}, {}]
    if takes_over:
        world.take_over()
        assert _used(world)[0] == 3.7
        world.clusters["a"].sampling.release(world.machine.epoch, Members.of([], []))
    free = _used(world)[1]
    world.report("a", [Report(handle=handle, state=SUCCEEDED) for handle in (grown, shrunk, plain)])
    assert _used(world) == (0.0, free + 3700)
    assert len(world.state.demands) == 0
    world.check()


def test_pod_that_is_as_its_class_again_costs_no_row() -> None:
    """Neither in memory nor in the database."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.round()
    world.tell_amounts("a", {(handle, 1): 3000})
    world.round()
    assert (_row(world, handle), len(world.state.demands)) == ({"cpu": 3000}, 1)
    world.tell_amounts("a", {(handle, 1): -1})
    world.round()
    assert (_row(world, handle), len(world.state.demands), _used(world)[0]) == ({}, 0, 1.0)


def test_what_is_said_twice_before_it_is_stored_is_stored_once_as_said_last() -> None:
    """However often a sampler speaks, what waits to be stored is a row for each run."""
    world = LeaderWorld(clusters={"a": 1})
    one, two = world.submit(2)
    world.round()
    before = len(world.stored)
    world.tell_amounts("a", {(one, 1): 1500, (two, 1): 1600})
    world.tell_amounts("a", {(one, 1): 1700})
    world.tell_amounts("a", {(one, 1): 9}, "memory")
    world.round()
    (held,) = [one.held for one in world.stored[before:] if one.held is not None]
    assert len(held.members) == 2
    assert (_row(world, one), _row(world, two)) == ({"memory": 9}, {"cpu": 1600})


def test_job_whose_grown_run_is_lost_waits_as_it_was() -> None:
    """Its next pod is made from its manifest; what the last one held is no demand of the job."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.round()
    world.tell_amounts("a", {(handle, 1): 3000})
    world.report("a", [Report(handle=handle, state=LOST)])
    assert (_used(world), world.state.queues.queued_usage.sum()) == ((0.0, 4000), 1_000_000)
    world.now_s += 60
    world.round()
    assert _used(world) == (1.0, 3000)
    world.take_over()
    assert _used(world)[0] == 1.0


@pytest.mark.parametrize("takes_over", [False, True])
def test_members_of_a_run_hold_amounts_of_their_own(*, takes_over: bool) -> None:
    """The job holds the sum over those that have not ended, whichever leader counts."""
    world = LeaderWorld(clusters={"a": 2})
    (handle,) = world.submit(1)
    world.take_over(unread=_of_two(world.plan()))
    world.tell_amounts("a", {(handle, 1): 500, (handle, ordinal_of(1, 1)): 2000})
    world.round()
    assert _used(world)[0] == 2.5
    assert (_row(world, handle), _row(world, handle, ordinal_of(1, 1))) == ({"cpu": 500}, {"cpu": 2000})
    if takes_over:
        world.take_over()
    assert _used(world)[0] == 2.5
    world.report("a", [Report(handle=handle, member=0, state=SUCCEEDED)])
    assert _used(world)[0] == 2.0
    if takes_over:
        world.take_over()
        assert _used(world)[0] == 2.0
    world.report("a", [Report(handle=handle, member=1, state=SUCCEEDED)])
    assert (_used(world)[0], len(world.state.demands)) == (0.0, 0)


def _of_two(plan: LeasePlan) -> LeasePlan:
    """Return a plan of one lease with a member on each of two nodes."""
    from dataclasses import replace

    return replace(
        plan,
        handle=np.repeat(plan.handle, 2),
        attempt=np.repeat(plan.attempt, 2),
        cluster=np.repeat(plan.cluster, 2),
        member=np.arange(2, dtype=np.int16),
        node=np.arange(2, dtype=np.int32),
        nodes=("a-0", "a-1"),
    )


def test_what_is_late_or_of_others_changes_nothing() -> None:
    """A run that ended, another attempt, a member that there is not, a run of another cluster, more than there is."""
    world = LeaderWorld(clusters={"a": 1, "b": 1})
    handles = world.submit(8)
    world.round()
    of_a = [handle for handle, _ in world.live_runs("a")]
    of_b = next(handle for handle in handles if handle not in of_a)
    world.report("a", [Report(handle=of_a[0], state=SUCCEEDED)])
    before = _used(world)
    world.tell_amounts(
        "a", {(of_a[0], 1): 7, (of_a[1], 2): 7, (of_a[2], ordinal_of(1, 1)): 7, (of_b, 1): 7, (999, 1): 7}
    )
    world.tell_amounts("a", {(of_a[3], 1): 4001})
    assert _used(world) == before
    assert not any(isinstance(one, say.Close) for one in world.said)


def test_amounts_that_cannot_be_counted_end_the_session() -> None:
    """Nothing of them is counted, and what happened is noted of the cluster."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.round()
    world.tell_amounts("a", {(handle, 1): -2})
    (closed,) = [one for one in world.said if isinstance(one, say.Close)]
    assert closed.is_fault
    assert _used(world)[0] == 1.0
    twice = Members.of([handle, handle], [1, 1])
    with pytest.raises(InvalidRequest, match="twice"):
        take_held_amounts(
            world.state, HeldAmounts(members=twice, names=("cpu",), amounts=np.ones((2, 1), np.int64)), world.now_s
        )


def test_runs_of_a_cluster_hold_no_more_beyond_what_they_ask_for_than_it_has() -> None:
    """A lie about many runs counts no more than the cluster is large; what shrinks counts, and makes room again."""
    world = LeaderWorld(clusters={"a": 2, "b": 2})  # of 8 cores each
    handles = world.submit(8)
    world.round()
    of_a = [key for handle in handles for key in [(handle, 1)] if key in world.store_runs("a")]
    one, two, three = of_a[:3]
    world.tell_amounts("a", dict.fromkeys((one, two, three), 4000))  # 9 cores more, of 8
    assert _used(world)[0] == 8.0
    world.tell_amounts("a", {one: 4000, two: 6000})
    assert _used(world)[0] == 16.0
    world.tell_amounts("a", {three: 2000})
    assert _used(world)[0] == 16.0
    world.tell_amounts("a", {two: 500, three: 2000})
    assert _used(world)[0] == 11.5
    assert not any(isinstance(said, say.Close) for said in world.said)
    world.check()

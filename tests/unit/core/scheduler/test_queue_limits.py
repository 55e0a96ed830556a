"""Limits of what a queue holds at once, in the leader's memory."""

from __future__ import annotations

from argosy_core.placement import WaitReason
from argosy_core.queueing import QueueLimits
from argosy_core.scheduler import Explanation, QueueView, count_waiting, explain, next_due_s, set_queues, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


def limit(world: LeaderWorld, count: int = 0, **amounts: int) -> None:
    """Limit the first queue."""
    limits = QueueLimits(max_running_count=count, max_running_amounts=tuple(amounts.items()))
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1.0, limits=limits)])


def why(world: LeaderWorld, handle: int) -> Explanation:
    """Explain a job."""
    answer = explain(world.state, handle, world.now_s)
    assert answer is not None
    return answer


def test_a_queue_runs_no_more_jobs_than_its_limit() -> None:
    """Three of ten at a time though sixteen fit; the next begins when one has ended."""
    world = LeaderWorld()
    limit(world, 3)
    jobs = world.submit(10)
    assert world.round().handle.tolist() == jobs[:3]
    assert world.round().handle.size == 0
    answer = why(world, jobs[3])
    assert answer.reason == WaitReason.LIMIT
    assert "its queue runs 3 of at most 3 jobs" in answer.summary
    assert count_waiting(world.state)[WaitReason.LIMIT] == 7
    (share,) = shares(world.state, world.now_s).queues
    assert (share.limited_count, share.max_running_count) == (7, 3)
    world.report(world_cluster(world, jobs[0]), [Report(handle=jobs[0], state=4)])
    assert world.round().handle.tolist() == jobs[3:4]


def world_cluster(world: LeaderWorld, handle: int) -> str:
    """Return where a job runs."""
    slot = int(world.state.live.slots(_array(handle))[0])
    return world.state.clusters.names[int(world.state.live.cluster[slot])]


def _array(handle: int):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a column of one
    import numpy as np

    return np.array([handle], dtype=np.int64)


def test_what_fits_below_a_limit_of_a_resource_passes_what_does_not() -> None:
    """Of five cores: four and, behind a job of two, one."""
    world = LeaderWorld()
    limit(world, cpu=5000)
    world.define_class(1, cpu=1000)
    world.define_class(2, cpu=2000)
    large = world.submit(3, class_id=2)
    small = world.submit(2, class_id=1)
    assert sorted(world.round().handle.tolist()) == sorted([*large[:2], small[0]])
    assert "it asks for 2 of cpu, and its queue holds 5 of at most 5" in why(world, large[2]).summary


def test_a_limit_holds_back_nobody_else() -> None:
    """Neither other queues nor the waiting heads: what may not start keeps no place."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1.0, "bob": 1.0})
    limit(world, 1)
    world.submit(5, queue=1)
    other = world.submit(5, queue=2, job_set="of-bob")
    assert len(set(world.round().handle.tolist()) & set(other)) == 3
    world.round()
    assert world.state.live.handle[world.state.pending_slots()].tolist() == [other[3]]


def test_a_pool_whose_jobs_are_all_held_back_rests_until_something_changes() -> None:
    """No round is due before; a higher limit is such a change, and so is a takeover."""
    world = LeaderWorld()
    limit(world, 1)
    jobs = world.submit(4)
    world.round()
    world.round()
    assert next_due_s(world.state, world.now_s) > world.now_s
    limit(world, 2)
    assert next_due_s(world.state, world.now_s) == world.now_s
    assert world.round().handle.tolist() == jobs[1:2]

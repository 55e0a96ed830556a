"""How many jobs of a queue begin in a second, in the leader's memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.placement import WaitReason
from argosy_core.queueing import QueueLimits
from argosy_core.scheduler import count_waiting, explain, next_due_s, set_queues, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


def limited(world: LeaderWorld, rate_per_s: float) -> None:
    """Give the first queue a lease rate."""
    world.job_index.plan = replace(world.job_index.plan, limits={"alice": QueueLimits(lease_rate_per_s=rate_per_s)})
    set_queues(world.state, world.job_index.queues())


def begun(world: LeaderWorld, after_s: float) -> int:
    """Let time pass, and return how many jobs a round begins."""
    world.now_s += after_s
    return int(world.round().handle.size)


@pytest.mark.parametrize(
    ("rate_per_s", "counts"),
    [(0.5, [5, 0, 1, 2]), (0.05, [1, 0, 0, 0]), (100.0, [16])],
    ids=["half a job", "one in twenty seconds", "more than there is room"],
)
def test_jobs_begin_at_the_rate_after_ten_seconds_worth(rate_per_s: float, counts: list[int]) -> None:
    """At once what the bucket holds, at least one; then one by one as it fills."""
    world = LeaderWorld()
    limited(world, rate_per_s)
    world.submit(20)
    assert [begun(world, after_s) for after_s in (0.0, 1.0, 1.0, 4.0)][: len(counts)] == counts


def test_rate_is_a_reason_to_wait_of_its_own_with_the_numbers_and_ends_by_itself() -> None:
    """No round is due before the next job may begin, and one is due then without any other news."""
    world = LeaderWorld()
    limited(world, 0.05)
    jobs = world.submit(3)
    world.round()
    world.round()
    answer = explain(world.state, jobs[1], world.now_s)
    assert answer is not None
    assert answer.reason == WaitReason.RATE
    assert "its queue begins at most 0.05 jobs a second, and the next in 20 s" in answer.summary
    counts = count_waiting(world.state)
    assert (counts[WaitReason.RATE], counts[WaitReason.NONE]) == (2, 0)
    (share,) = shares(world.state, world.now_s).queues
    assert (share.rate_limited_count, share.limited_count, share.lease_rate_per_s) == (2, 0, 0.05)
    assert world.state.pending_slots().size == 0, "what may not begin is no waiting head"
    world.round()
    assert next_due_s(world.state, world.now_s) == pytest.approx(world.now_s + 20.0)
    assert begun(world, 19.0) == 0
    assert begun(world, 1.0) == 1


def test_rate_of_one_queue_holds_back_no_other() -> None:
    """The other one has all that is free."""
    world = LeaderWorld(queues={"alice": 1.0, "bob": 1.0})
    limited(world, 0.1)
    world.submit(20)
    other = world.submit(20, queue=2, job_set="of-bob")
    assert len(set(world.round().handle.tolist()) & set(other)) == 15


@pytest.mark.parametrize("seed", range(2))
def test_no_more_begin_than_the_rate_lets_over_any_time_and_change_of_leader(seed: int) -> None:
    """In no stretch of time more than it is worth and a bucket; a new leader begins with an empty one."""
    rng = np.random.default_rng(seed)
    world = LeaderWorld(clusters={"a": 8})
    rate_per_s = float(rng.choice([0.3, 1.0, 2.5]))
    limited(world, rate_per_s)
    world.submit(400)
    moments_s: list[float] = []
    for turn in range(60):
        count = begun(world, float(rng.exponential(1.0)))
        moments_s += [world.now_s] * count
        for handle, _ in world.live_runs("a"):
            world.report("a", [Report(handle=handle, state=4)])
        if turn % 15 == 14:
            world.take_over()
    times = np.array(moments_s)
    assert times.size > 10
    most = 10.0 * rate_per_s + 1.0 + rate_per_s * (times[None, :] - times[:, None])
    counts = np.arange(times.size)[None, :] - np.arange(times.size)[:, None] + 1
    assert (counts <= most + 1e-6)[counts > 0].all()

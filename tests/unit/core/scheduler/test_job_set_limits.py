"""How many jobs of a job set run at once, in the leader's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from argosy_core.placement import WaitReason
from argosy_core.queueing import QueueLimits
from argosy_core.scheduler import QueueView, count_waiting, explain, next_due_s, set_queues
from argosy_core.scheduler.explain.views import standings
from argosy_core.scheduler.turns import limits
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SUCCEEDED = 4


def at_once(count: int) -> tuple[int, ...]:
    """Return the options of jobs of which at most `count` of their set run at once."""
    return (-1, -1, -1, -1, count)


def end(world: LeaderWorld, handles: Sequence[int]) -> None:
    """Have runs succeed."""
    for handle in handles:
        world.report(world.place(handle)[0], [Report(handle=handle, state=SUCCEEDED)])


def test_no_more_jobs_of_a_set_run_than_they_say() -> None:
    """Three of ten at a time though sixteen fit; the next one begins when one has ended; explain has the numbers."""
    world = LeaderWorld()
    jobs = world.submit(10, options=at_once(3))
    assert world.round().handle.tolist() == jobs[:3]
    assert world.round().handle.size == 0
    answer = explain(world.state, jobs[3], world.now_s)
    assert answer is not None
    assert (answer.reason, "its job set runs 3 of at most 3 jobs" in answer.summary) == (WaitReason.LIMIT, True)
    free = world.submit(2, job_set="free")
    counts = count_waiting(world.state)
    assert (counts[WaitReason.LIMIT], counts[WaitReason.NONE]) == (7, len(free))
    world.round()
    end(world, jobs[1:2])
    assert world.round().handle.tolist() == jobs[3:4]
    world.check()


def test_job_that_no_node_can_hold_is_counted_so_though_a_limit_is_reached() -> None:
    """The end of the limit would not start it."""
    world = LeaderWorld()
    world.define_class(7, cpu=1 << 30)
    world.submit(5, options=at_once(1))
    world.submit(2, options=at_once(1), class_id=7)
    world.round()
    counts = count_waiting(world.state)
    assert (counts[WaitReason.LIMIT], counts[WaitReason.MISMATCH], counts[WaitReason.NONE]) == (4, 2, 0)


def test_a_limit_of_one_set_holds_back_no_other_job_of_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if more wait before it than are looked at in one round; reasons of jobs of one class are told apart."""
    monkeypatch.setattr(limits, "_MOST_LOOKED_AT", 64)
    world = LeaderWorld(clusters={"a": 2})
    first = world.submit(500, options=at_once(2), job_set="array")
    others = world.submit(3, job_set="others")
    world.round()
    later = world.submit(1, options=at_once(1), job_set="third")
    started = {*world.round().handle.tolist(), *(handle for _, handle in running(world))}
    assert started == {*first[:2], *others, *later}
    blocked = world.submit(1, options=at_once(1), job_set="third")
    fresh = world.submit(1, options=at_once(1), job_set="fourth")
    waits = standings(world.state, np.array([*first[2:3], *blocked, *fresh]))
    assert [waits[handle][1] for handle in (first[2], *blocked, *fresh)] == [WaitReason.LIMIT] * 2 + [WaitReason.NONE]
    world.check()


def running(world: LeaderWorld) -> list[tuple[str, int]]:
    """Return where jobs run."""
    return [(name, handle) for name in world.clusters for handle, _ in world.live_runs(name)]


def test_pool_rests_while_all_jobs_are_held_back_by_their_set() -> None:
    """No round is due until a run has ended."""
    world = LeaderWorld()
    jobs = world.submit(4, options=at_once(1))
    world.round()
    world.round()
    assert next_due_s(world.state, world.now_s) > world.now_s
    end(world, jobs[:1])
    assert next_due_s(world.state, world.now_s) == world.now_s


def test_next_leader_goes_on_counting() -> None:
    """What ran before the takeover counts, and so does its end."""
    world = LeaderWorld()
    jobs = world.submit(6, options=at_once(2))
    world.round()
    world.take_over()
    assert world.round().handle.size == 0
    end(world, jobs[:1])
    assert world.round().handle.tolist() == jobs[2:3]
    world.check()


def test_job_that_its_queue_holds_back_takes_no_place_of_its_set() -> None:
    """A job of two cores, of a queue that may hold two, leaves the second place of its set to one of one core."""
    world = LeaderWorld()
    two_cores = QueueLimits(max_running_amounts=(("cpu", 2000),))
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1.0, limits=two_cores)])
    world.define_class(1, cpu=1000)
    world.define_class(2, cpu=2000)
    first = world.submit(1, class_id=1, options=at_once(2))
    world.submit(1, class_id=2, options=at_once(2))
    third = world.submit(1, class_id=1, options=at_once(2))
    assert world.round().handle.tolist() == [*first, *third]


def test_each_job_goes_by_the_limit_that_it_says_itself() -> None:
    """One of at most four begins beside two of at most two, and one that says nothing beside them all."""
    world = LeaderWorld()
    strict = world.submit(4, options=at_once(2))
    wide = world.submit(4, options=at_once(4))
    free = world.submit(2)
    started = [handle for _ in range(3) for handle in world.round().handle.tolist()]
    assert sorted(started) == sorted([*strict[:2], *wide[:2], *free])


@pytest.mark.parametrize("seed", range(2))
def test_limits_hold_in_drawn_worlds(seed: int) -> None:
    """Through starts, ends, priorities, holds and takeovers no set ever runs more than it says, and all jobs end."""
    rng = np.random.default_rng(seed)
    world = LeaderWorld(clusters={"a": 2, "b": 1}, queues={"alice": 1.0, "bob": 2.0})
    most_of = {f"set-{number}": int(rng.integers(1, 4)) for number in range(4)}
    set_of: dict[int, str] = {}
    for name, most in most_of.items():
        handles = world.submit(int(rng.integers(2, 7)), queue=1 + most % 2, job_set=name, options=at_once(most))
        set_of |= dict.fromkeys(handles, name)
    ended: set[int] = set()
    for turn in range(60):
        world.now_s += 1.0
        world.round()
        live = [handle for _, handle in running(world) if handle not in ended]
        counts = Counter(set_of[handle] for handle in live)
        assert all(count <= most_of[name] for name, count in counts.items())
        over = [handle for handle in live if rng.random() < 0.5]
        end(world, over)
        ended |= set(over)
        if waiting := sorted(set_of.keys() - ended - set(live)):
            world.reprioritize([int(rng.choice(waiting))], int(rng.integers(3)))
        if turn % 8 == 5:
            world.take_over()
            world.check()
        if len(ended) == len(set_of):
            break
    assert ended == set(set_of)


def test_counting_ends_with_the_last_job_that_limits_and_begins_anew_with_the_next() -> None:
    """What ran before and meanwhile counts then."""
    world = LeaderWorld()
    first = world.submit(1, options=at_once(1))
    world.round()
    end(world, first)
    assert not world.state.job_set_limits.queues
    others = world.submit(2)
    world.round()
    later = world.submit(3, options=at_once(3))
    assert world.round().handle.tolist() == later[:1]
    end(world, others)
    assert world.round().handle.tolist() == later[1:]
    world.check()

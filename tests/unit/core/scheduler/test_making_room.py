"""Waiting heads of queues under their shares get room from runs past their lifetimes of queues over theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.reading.options import UNSET
from argosy_core.job.states import JobState, ObjectState, RunState
from argosy_core.leader.instructions import SendStops
from argosy_core.scheduler import RoundSettings, explain, next_due_s, set_queues
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

NODE = {"cpu": 4000, "memory": 16 << 30}


def make_world(lifetime_s: int = 0, *, minimum_run_s: float = 0.0, count: int = 8) -> tuple[LeaderWorld, list[int]]:
    """Return a world of eight cores that are full of one queue's jobs, which run since just now, and these jobs."""
    world = LeaderWorld(
        clusters={"a": 2}, node_amounts=NODE, queues={"alice": 1.0, "bob": 1.0},
        settings=RoundSettings(minimum_run_s=minimum_run_s, half_time_s=1.0),
    )  # fmt: skip
    handles = world.submit(count, options=(lifetime_s, UNSET, UNSET))
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.RUNNING) for handle in handles])
    return world, handles


def stops(world: LeaderWorld) -> list[int]:
    """Return the handles of the stops that went to executors, in order."""
    return [handle for _, handle, _ in world.sent(SendStops)]


def settle(world: LeaderWorld, rounds: int = 12) -> None:
    """Let rounds follow each other, in which the pods of stopped runs go and those of new ones run."""
    told = 0
    for _ in range(rounds):
        world.round()
        gone, told = stops(world)[told:], len(stops(world))
        leased = [handle for handle in world.store.open_handles if world.job_state(handle) == JobState.LEASED]
        ends = dict.fromkeys(leased, ObjectState.RUNNING) | dict.fromkeys(gone, ObjectState.CANCELLED)
        reports = [
            Report(handle=handle, state=state, attempt=world.store.jobs[handle].live_attempt)
            for handle, state in ends.items()
        ]
        if reports:
            world.report("a", reports)
        world.tell_news()
        world.now_s += 0.5


def running(world: LeaderWorld, handles: list[int]) -> int:
    """Return how many of some jobs have a run."""
    return sum(world.job_state(handle) in {JobState.LEASED, JobState.RUNNING} for handle in handles)


def test_queue_under_its_share_gets_it_from_one_that_is_over_and_no_more() -> None:
    """Of eight cores each gets four, however much more is wanted, and then nobody is stopped any more."""
    world, first = make_world()
    second = world.submit(8, queue=2)
    settle(world, 30)
    assert (running(world, first), running(world, second)) == (4, 4)
    count = len(stops(world))
    assert count == 4
    settle(world, 10)
    assert len(stops(world)) == count
    states = [run.state for handle in first for run in world.store.jobs[handle].runs.values() if run.ended]
    assert states == [RunState.PREEMPTED] * 4


def test_head_is_nominated_at_once_and_leased_when_the_victim_is_gone() -> None:
    """One victim for one job: nothing else is stopped for it, and explanations say what happens."""
    world, first = make_world()
    (waiting,) = world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    (victim,) = stops(world)
    assert victim in first
    assert list(world.state.room.nominated) == [waiting]
    told = [explain(world.state, handle, world.now_s) for handle in (waiting, victim)]
    assert told[0] is not None
    assert told[1] is not None
    assert "runs are stopped to make room for it" in told[0].summary
    assert "preempted: makes room for a job of queue bob, which is under its share" in told[1].summary
    world.report("a", [Report(handle=victim, state=ObjectState.CANCELLED)])
    world.tell_news()
    world.round()
    assert world.job_state(waiting) == JobState.LEASED
    assert world.job_state(victim) == JobState.QUEUED


@pytest.mark.parametrize(("lifetime_s", "minimum_run_s"), [(60, 0.0), (0, 60.0)], ids=["lifetime", "least-run-time"])
def test_run_is_safe_until_its_lifetime_is_over_and_a_round_begins_then(lifetime_s: int, minimum_run_s: float) -> None:
    """Nobody has to send news for that; a setting lengthens short lifetimes."""
    world, _ = make_world(lifetime_s, minimum_run_s=minimum_run_s)
    began_s = world.now_s
    world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    assert stops(world) == []
    world.state.waits.next_end_s = float("inf")
    world.state.promises.heads_due_s = float("inf")
    assert next_due_s(world.state, world.now_s) == pytest.approx(began_s + 60.0)
    world.now_s += 61
    world.round()
    world.round()
    assert len(stops(world)) == 1


def test_work_without_a_lifetime_is_never_preempted() -> None:
    """However far its queue is over its share."""
    world, _ = make_world(UNSET)
    world.submit(1, queue=2)
    world.now_s += 1e6
    for _ in range(4):
        world.round()
    assert stops(world) == []


def test_youngest_run_makes_room() -> None:
    """The least work per core is lost with it."""
    world, _ = make_world(count=7)
    world.now_s += 100
    (late,) = world.submit(1, options=(0, UNSET, UNSET))
    world.tell_news()
    world.round()
    world.report("a", [Report(handle=late, state=ObjectState.RUNNING)])
    world.now_s += 1
    world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    assert stops(world) == [late]


def test_runs_on_cordoned_nodes_make_no_room() -> None:
    """What they would free nobody could use."""
    world, _ = make_world()
    world.state.room.cordoned_nodes[0] = frozenset({"a-0", "a-1"})
    world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    assert stops(world) == []


def test_victim_that_ends_by_itself_makes_room_all_the_same() -> None:
    """Its success counts, and nothing else is stopped for the head."""
    world, _ = make_world()
    (waiting,) = world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    (victim,) = stops(world)
    world.report("a", [Report(handle=victim, state=ObjectState.SUCCEEDED)])
    world.tell_news()
    world.round()
    assert (world.job_state(victim), world.job_state(waiting)) == (JobState.SUCCEEDED, JobState.LEASED)
    assert stops(world) == [victim]


def test_leader_that_dies_between_nomination_and_the_end_of_the_victim_changes_nothing_in_the_end() -> None:
    """The victim's job waits again without a failure, and the head has its room."""
    world, first = make_world()
    (waiting,) = world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    (victim,) = stops(world)
    world.take_over()
    world.report("a", [Report(handle=victim, state=ObjectState.CANCELLED)])
    world.tell_news()
    settle(world, 6)
    assert world.job_state(waiting) in {JobState.LEASED, JobState.RUNNING}
    assert running(world, first) == 7
    assert not world.state.live.failures.any()


def test_victim_on_a_lost_cluster_frees_its_head_for_another() -> None:
    """The nomination falls with time; the victim counts as preempted."""
    world, _ = make_world()
    (waiting,) = world.submit(1, queue=2)
    for _ in range(4):
        world.round()
    (victim,) = stops(world)
    world.forget("a")
    assert [run.state for run in world.store.jobs[victim].runs.values()] == [RunState.PREEMPTED]
    assert not world.state.room.preempted
    world.now_s += 61
    world.round()
    assert waiting not in world.state.room.nominated


def test_queues_below_others_have_the_shares_of_their_branch() -> None:
    """Of eight cores a lone queue keeps four, and two that stand together get two each."""
    world = LeaderWorld(
        clusters={"a": 2}, node_amounts=NODE, settings=RoundSettings(half_time_s=1.0),
        queues={"one": 1.0, "two": 1.0, "alice": 1.0, "bob": 1.0, "carol": 1.0},
        parents={"alice": "one", "bob": "two", "carol": "two"},
    )  # fmt: skip
    first = world.submit(12, queue=3, options=(0, UNSET, UNSET))
    settle(world, 3)
    others = [world.submit(8, queue=queue, options=(0, UNSET, UNSET)) for queue in (4, 5)]
    settle(world, 40)
    assert [running(world, handles) for handles in (first, *others)] == [4, 2, 2]


def _may_preempt(world: LeaderWorld, queue: str, *, unexpired: bool = False, endless: bool = False) -> None:
    """Give a queue the right that more than what is past its lifetime makes room for its jobs."""
    views = [
        replace(view, preempts_unexpired=unexpired, preempts_endless=endless) if view.name == queue else view
        for view in world.job_index.queues()
    ]
    set_queues(world.state, views)


@pytest.mark.parametrize(
    ("lifetime_s", "rights", "count"),
    [
        pytest.param(3600, {}, 0, id="unexpired, without the right"),
        pytest.param(3600, {"endless": True}, 0, id="unexpired, with the other right"),
        pytest.param(3600, {"unexpired": True}, 4, id="unexpired, with the right"),
        pytest.param(UNSET, {"unexpired": True}, 0, id="endless, with the other right"),
        pytest.param(UNSET, {"endless": True}, 4, id="endless, with the right"),
    ],
)
def test_queue_with_the_right_has_what_is_not_past_its_lifetime_make_room(
    lifetime_s: int, rights: dict[str, bool], count: int
) -> None:
    """Up to its share and no further, and explain says why a run was stopped; the other side never strikes back."""
    world, first = make_world(lifetime_s)
    _may_preempt(world, "bob", **rights)
    second = world.submit(8, queue=2, options=(0, UNSET, UNSET))
    settle(world, 30)
    assert (len(stops(world)), running(world, second)) == (count, count)
    settle(world, 10)
    assert (len(stops(world)), running(world, first)) == (count, 8 - count)
    reasons = [run.reason for handle in first for run in world.store.jobs[handle].runs.values() if run.ended]
    assert all("and may stop what is not past its lifetime" in reason for reason in reasons)


def test_queues_with_the_same_right_are_safe_from_each_other() -> None:
    """Only what is past its lifetime makes room among them."""
    world, _ = make_world(3600)
    limits = [replace(view, preempts_unexpired=True) for view in world.job_index.queues()]
    set_queues(world.state, limits)
    world.submit(8, queue=2)
    settle(world, 20)
    assert stops(world) == []


def test_what_is_past_its_lifetime_makes_room_first() -> None:
    """Though the other run is younger."""
    world = LeaderWorld(
        clusters={"a": 1}, node_amounts=NODE, queues={"alice": 1.0, "bob": 1.0}, settings=RoundSettings()
    )
    _may_preempt(world, "bob", unexpired=True)
    old = world.submit(2, options=(0, UNSET, UNSET))
    young = world.submit(2, options=(3600, UNSET, UNSET))
    world.round()
    for handles in (old, young):
        world.now_s += 10.0
        world.report("a", [Report(handle=handle, state=ObjectState.RUNNING) for handle in handles])
    world.submit(1, queue=2)
    settle(world, 6)
    assert stops(world)[0] in old


def _contend(seed: int) -> list[tuple[int, int]]:
    """Let queues that all want more share nodes for long, with drawn jobs, and return (round, queue) of each stop."""
    rng = np.random.default_rng(seed)
    weights = {name: float(rng.integers(1, 4)) for name in ("alice", "bob", "carol")[: int(rng.integers(2, 4))]}
    settings = RoundSettings(half_time_s=float(rng.choice([1e-3, 3.0, 30.0])), non_preemptible_excess_ratio=1e9)
    world = LeaderWorld(clusters={"a": 3}, node_amounts=NODE, queues=weights, settings=settings)
    for size in (1, 2, 3):
        world.define_class(size, cpu=1000 * size)
    queue_of: dict[int, int] = {}
    for turn in range(len(weights)):
        for _ in range(12):
            queue, size = turn + 1, int(rng.integers(1, 4))
            handles = world.submit(1, queue=queue, class_id=size, job_set=f"of-{queue}", options=(0, UNSET, UNSET))
            queue_of |= dict.fromkeys(handles, queue)
        settle(world, 6)
    told: list[tuple[int, int]] = []
    for number in range(30):
        before = len(stops(world))
        settle(world, 1)
        told += [(number, queue_of[handle]) for handle in stops(world)[before:]]
        world.now_s += 3.0
    return told


@pytest.mark.parametrize("seed", range(1, 4))
def test_queues_that_all_want_more_come_to_rest_and_evict_nobody_any_more(seed: int) -> None:
    """With unlike weights, jobs and half times: six rounds after the last queue came nobody evicts anybody in turn."""
    assert _contend(seed) == []

"""What is expected of runs, learned from those that have ended."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.identity import NOBODY
from argosy_core.job.states import ObjectState
from argosy_core.scheduler.memory.run_history import RunHistory
from argosy_core.scheduler.memory.work_ends import expected_run_time_s
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

KEYS = np.array([[7, 8]], dtype=np.int64)
OTHERS = np.array([[9, 8]], dtype=np.int64)


def learned(run_time_s: float, said_s: float, count: int) -> RunHistory:
    """Return a history of equal runs."""
    history = RunHistory(3600.0)
    for _ in range(count):
        history.note_ended(KEYS, np.array([run_time_s]), np.array([said_s]))
        history.knows(KEYS[:, 0])  # which learns it
    return history


def corrected(history: RunHistory, said_s: float, elapsed_s: float | None = None, keys: np.ndarray = KEYS) -> float:
    """Return what is expected of a run of which something is said."""
    elapsed = None if elapsed_s is None else np.array([elapsed_s])
    return float(history.correct_s(keys, np.array([said_s]), elapsed)[0])


def test_who_says_a_hundred_times_too_much_is_expected_to_do_so_again() -> None:
    """The part of what is said that others like it took is expected, by less than a quarter octave more."""
    history = learned(600.0, 60_000.0, count=30)
    assert 600.0 <= corrected(history, 60_000.0) <= 720.0
    assert 60.0 <= corrected(history, 6_000.0) <= 72.0


@pytest.mark.parametrize("run_time_s", [600.0, 605.0, 1200.0])
def test_what_is_said_is_expected_at_most(run_time_s: float) -> None:
    """Who says what is exact, or too little, is taken at their word."""
    assert corrected(learned(run_time_s, 600.0, count=30), 600.0) == 600.0


def test_what_few_runs_have_shown_says_little() -> None:
    """One job that failed early does not have all others promised away."""
    assert corrected(learned(1.0, 1000.0, count=3), 1000.0) == 1000.0


def test_others_behind_the_same_key_are_expected_to_take_as_much() -> None:
    """Until they have shown otherwise."""
    assert corrected(learned(10.0, 1000.0, count=30), 1000.0, keys=OTHERS) < 20.0


def test_a_run_that_takes_longer_than_its_like_is_expected_to_take_all_that_is_said() -> None:
    """The part is of those that ran as long, and nobody did."""
    assert corrected(learned(10.0, 1000.0, count=30), 1000.0, elapsed_s=500.0) == 1000.0


def test_job_sets_are_told_apart() -> None:
    """Jobs of one class and queue whose sets take a minute and an hour are expected to go on so."""
    world = LeaderWorld(clusters={"a": 4})
    for _ in range(12):
        for job_set, run_time_s in (("short", 60.0), ("long", 3600.0)):
            [handle] = world.submit(1, job_set=job_set)
            world.round()
            world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
            world.now_s += run_time_s
            world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    world.submit(16)  # which fill the nodes
    world.round()
    waiting = [world.submit(1, job_set=job_set)[0] for job_set in ("short", "long", "set")]
    slots = world.state.live.slots(np.array([*waiting, waiting[0]], dtype=np.int64))
    short_s, long_s, other_s, again_s = expected_run_time_s(world.state, slots).tolist()
    assert 60.0 <= short_s <= 75.0
    assert 3600.0 <= long_s <= 4400.0
    assert short_s < other_s <= 4400.0
    assert again_s == short_s
    for at, expected_s in enumerate((short_s, long_s, other_s)):
        elapsed = np.zeros(1)
        assert expected_run_time_s(world.state, slots[at : at + 1], elapsed).tolist() == [expected_s]


def expected_of_two(first: int, second: int) -> tuple[float, float]:
    """Return what is expected of jobs of two submitters, of one class and queue, whose jobs took 60 s and 6,000 s."""
    world = LeaderWorld(clusters={"a": 4})
    who = ((first, 60.0), (second, 6000.0))
    for turn in range(12):
        for submitter, run_time_s in who:
            [handle] = world.submit(1, submitter=submitter, job_set=f"{run_time_s}-{turn}")
            world.round()
            world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
            world.now_s += run_time_s
            world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    slots = world.state.live.slots(
        np.array([world.submit(1, submitter=submitter, job_set="new")[0] for submitter, _ in who], dtype=np.int64)
    )
    one_s, other_s = expected_run_time_s(world.state, slots).tolist()
    assert expected_run_time_s(world.state, slots, np.zeros(2)).tolist() == [one_s, other_s]
    return one_s, other_s


def test_submitters_of_one_class_and_queue_are_told_apart() -> None:
    """Who submits jobs of a minute and who submits some of an hour and a half are expected to go on so."""
    short_s, long_s = expected_of_two(5, 9)
    assert 60.0 <= short_s <= 75.0
    assert 6000.0 <= long_s <= 7200.0


def test_jobs_of_unknown_submitters_share_what_is_expected() -> None:
    """Where nobody is asked who they are, a class in a queue has one estimate."""
    one_s, other_s = expected_of_two(NOBODY, NOBODY)
    assert one_s == other_s


def test_what_a_class_took_counts_before_what_its_submitter_took_of_others() -> None:
    """A submitter's first job of a class is expected to take what others' of it did, not what theirs of others did."""
    world = LeaderWorld(clusters={"a": 4})
    for _ in range(12):
        for submitter, class_id, run_time_s in ((5, 1, 60.0), (9, 2, 6000.0)):
            [handle] = world.submit(1, submitter=submitter, class_id=class_id, job_set=f"{submitter}")
            world.round()
            world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
            world.now_s += run_time_s
            world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    slots = world.state.live.slots(np.array(world.submit(1, submitter=5, class_id=2, job_set="new"), dtype=np.int64))
    assert expected_run_time_s(world.state, slots)[0] >= 6000.0

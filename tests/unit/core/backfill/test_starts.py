"""Who starts now, and who is promised what: worked examples on one node of four cores."""

import numpy as np
import pytest

from argosy_core.backfill import (
    BackfillPolicy,
    OrderPolicy,
    Promise,
    PromiseKind,
    RunningWork,
    Starts,
    WaitingWork,
    choose_starts,
)
from argosy_core.errors import InvalidRequest

NOW_S = 100.0
Job = tuple[int, float, float]
"""Cores, limit and estimate."""


def decide(
    waiting: list[Job],
    running: list[Job],
    *,
    promises: tuple[Promise, ...] = (),
    policy: BackfillPolicy | None = None,
    cores: int = 4,
    now_s: float = NOW_S,
) -> Starts:
    """Decide for jobs submitted one second after the other; running ones are given by what is left of them."""
    held, firm_s, expected_s = np.array(running, dtype=np.float64).reshape(-1, 3).T
    asked, limit_s, estimate_s = np.array(waiting, dtype=np.float64).T
    return choose_starts(
        now_s,
        free=np.array([[cores - int(held.sum())]], dtype=np.int64),
        running=RunningWork(
            node=np.zeros(len(running), dtype=np.int32),
            demand=held.astype(np.int64)[:, None],
            firm_end_s=now_s + firm_s,
            expected_end_s=now_s + expected_s,
        ),
        waiting=WaitingWork(
            job=np.arange(len(waiting)),
            demand=asked.astype(np.int64)[:, None],
            size=asked,
            submit_s=np.arange(len(waiting), dtype=np.float64),
            limit_s=limit_s,
            estimate_s=estimate_s,
        ),
        promises=promises,
        policy=policy,
    )


def test_head_is_promised_the_moment_at_which_limits_free_its_room() -> None:
    """Three of four cores are free after 50 s at the latest, though earlier is expected: 50 s is firm."""
    starts = decide([(3, 9.0, 9.0)], [(2, 50.0, 10.0), (1, 80.0, 80.0)])
    (promise,) = starts.promises
    assert (promise.kind, promise.moment_s, promise.nodes.tolist()) == (PromiseKind.FIRM, NOW_S + 50.0, [0])


def test_promise_is_only_expected_where_something_has_no_limit() -> None:
    """What may run for ever is over when its estimate says, as far as anybody knows."""
    starts = decide([(4, 9.0, 9.0)], [(2, np.inf, 30.0)])
    assert [(one.kind, one.moment_s) for one in starts.promises] == [(PromiseKind.EXPECTED, NOW_S + 30.0)]


def test_nothing_is_promised_where_nothing_is_known() -> None:
    """Without limits and estimates no moment can be named, and jobs that have room start."""
    starts = decide([(4, np.inf, np.inf), (1, np.inf, np.inf)], [(2, np.inf, np.inf)])
    assert not starts.promises
    assert starts.rows.tolist() == [1]


@pytest.mark.parametrize(
    ("job", "passes"),
    [
        ((1, 50.0, 5.0), True),
        ((1, 51.0, 5.0), True),
        ((2, 50.0, 50.0), True),
        ((2, 51.0, 5.0), False),
        ((2, 0.0, 900.0), True),
    ],
    ids=["gone by then", "needs only what is spare", "wide and gone by then", "would delay it", "preemptible at once"],
)
def test_job_passes_a_firm_promise_only_if_it_cannot_delay_it(job: Job, passes: bool) -> None:  # noqa: FBT001
    """Three cores are promised after 50 s, so one is spare; whatever is over by then may use both that are free."""
    starts = decide([(3, 9.0, 9.0), job], [(2, 50.0, 50.0)])
    assert (starts.rows.tolist() == [1]) is passes


def test_what_is_spare_beside_a_promise_is_given_once() -> None:
    """One core is spare, so of two jobs of one core that run on beyond the moment, one passes."""
    long = (1, 900.0, 900.0)
    assert decide([(3, 9.0, 9.0), long, long], [(2, 50.0, 50.0)]).rows.tolist() == [1]


def test_expected_promise_is_passed_by_what_is_expected_to_end() -> None:
    """Against a promise from estimates, a job's own estimate counts, not its limit."""
    assert decide([(4, 9.0, 9.0), (1, 500.0, 20.0)], [(2, np.inf, 30.0)]).rows.tolist() == [1]


def test_promised_job_starts_before_all_others_when_it_has_room() -> None:
    """A promise is kept as soon as it can be, also before its moment."""
    promise = decide([(3, 9.0, 9.0)], [(2, 50.0, 50.0)]).promises
    starts = decide([(3, 9.0, 9.0), (2, 1.0, 1.0)], [], promises=promise, now_s=NOW_S + 20.0)
    assert starts.rows.tolist() == [0]
    assert [promise.job for promise in starts.promises] == [1]


def test_promise_outlasts_a_job_whose_turn_comes_earlier() -> None:
    """Who was promised a start keeps it when a smaller job arrives that would be next."""
    smallest = BackfillPolicy(turns=OrderPolicy(size_exponent=1.0))
    promise = decide([(3, 9.0, 9.0)], [(4, 50.0, 50.0)], policy=smallest).promises
    starts = decide([(3, 9.0, 9.0), (2, 99.0, 99.0)], [(2, 40.0, 40.0)], promises=promise, policy=smallest)
    assert starts.promises == promise
    assert not starts.rows.size


def test_promise_that_lost_its_capacity_is_told_and_given_anew() -> None:
    """What runs past its limit breaks even a firm promise; the job is promised the next moment."""
    (promise,) = decide([(3, 9.0, 9.0)], [(2, 50.0, 50.0)]).promises
    starts = decide([(3, 9.0, 9.0)], [(2, 60.0, 60.0)], promises=(promise,))
    assert starts.broken == (promise,)
    assert [one.moment_s for one in starts.promises] == [NOW_S + 60.0]


def test_promise_of_a_job_that_left_is_gone() -> None:
    """Nothing is kept free for a job that does not wait any more."""
    (promise,) = decide([(3, 9.0, 9.0)], [(2, 50.0, 50.0)]).promises
    gone = Promise(job=77, kind=promise.kind, moment_s=promise.moment_s, nodes=promise.nodes, demand=promise.demand)
    starts = decide([(2, 99.0, 99.0)], [(2, 50.0, 50.0)], promises=(gone,))
    assert starts.rows.tolist() == [0]
    assert not starts.promises
    assert not starts.broken


def test_expected_promise_comes_forward_when_work_ends_early() -> None:
    """An estimate that was too long does not keep the machine empty."""
    (promise,) = decide([(4, 9.0, 9.0)], [(2, np.inf, 30.0), (2, np.inf, 20.0)]).promises
    starts = decide([(4, 9.0, 9.0), (1, 15.0, 15.0)], [(2, np.inf, 10.0)], promises=(promise,))
    assert [one.moment_s for one in starts.promises] == [NOW_S + 10.0]
    assert not starts.rows.size


def test_largest_of_those_whose_turn_it_is_is_promised() -> None:
    """With a choice of two, the larger second job is promised; with none, the first is."""
    jobs = [(2, 9.0, 9.0), (4, 9.0, 9.0)]
    chosen = [decide(jobs, [(3, 50.0, 50.0)], policy=BackfillPolicy(head_choice=count)).promises for count in (1, 2)]
    assert [promise.job for (promise,) in chosen] == [0, 1]


def test_slack_lets_later_jobs_go_first_until_the_promised_moment() -> None:
    """With slack 1, 50 s are promised as 100 s: what ends by then goes first, what does not is held back."""
    policy = BackfillPolicy(turns=OrderPolicy(size_exponent=1.0), passing=OrderPolicy(size_exponent=1.0), slack_ratio=1)
    promises = decide([(3, 9.0, 9.0)], [(2, 50.0, 50.0)], policy=policy).promises
    assert [promise.moment_s for promise in promises] == [NOW_S + 100.0]
    for limit_s, expected in ((90.0, [1]), (110.0, [])):
        starts = decide([(3, 9.0, 9.0), (2, limit_s, limit_s)], [(2, 50.0, 50.0)], promises=promises, policy=policy)
        assert starts.rows.tolist() == expected
    due = decide([(3, 9.0, 9.0), (2, 9.0, 9.0)], [], promises=promises, policy=policy, now_s=NOW_S + 100.0)
    assert due.rows.tolist() == [0]


def test_with_slack_the_job_whose_turn_it_is_is_not_passed_for_nothing() -> None:
    """Beside a far promise, what would delay the next job in turn waits, and what is over by then does not."""
    shortest = OrderPolicy(run_time_exponent=1.0)
    policy = BackfillPolicy(turns=shortest, passing=shortest, slack_ratio=9.0)
    promises = decide([(4, 20.0, 20.0)], [(2, 50.0, 50.0)], policy=policy).promises
    jobs = [(4, 20.0, 20.0), (3, 9.0, 9.0), (2, 90.0, 90.0)]
    starts = decide(jobs, [(2, 50.0, 50.0)], promises=promises, policy=policy)
    assert not starts.rows.size
    assert starts.promises == promises
    beside = decide([jobs[0], jobs[1], (2, 40.0, 40.0)], [(2, 50.0, 50.0)], promises=promises, policy=policy)
    assert beside.rows.tolist() == [2]


def test_whole_node_starts_beside_a_stream_of_small_jobs() -> None:
    """Jobs of one core and 10 s arrive without end; one that wants all four cores waits no longer than one of them."""
    running = [(index, 4, NOW_S + 10.0 - index) for index in range(4)]
    promises: tuple[Promise, ...] = ()
    for second in range(20):
        now_s = NOW_S + second
        running = [one for one in running if one[2] > now_s]
        left = [(1, end - now_s, end - now_s) for _, _, end in running]
        starts = decide([(4, 10.0, 10.0), *[(1, 10.0, 10.0)] * 3], left, promises=promises, now_s=now_s)
        if 0 in starts.rows:
            assert second == 10
            return
        promises = starts.promises
        running += [(1, 1, now_s + 10.0) for _ in starts.rows]
    pytest.fail("the whole-node job never started")


def test_job_takes_the_node_that_it_fills_most() -> None:
    """Of nodes that have room, the one on which least is left is taken, so that large jobs find room on others."""
    starts = choose_starts(
        NOW_S,
        free=np.array([[4], [2], [3]]),
        running=RunningWork(
            node=np.zeros(0, dtype=np.int32),
            demand=np.zeros((0, 1), dtype=np.int64),
            firm_end_s=np.zeros(0),
            expected_end_s=np.zeros(0),
        ),
        waiting=WaitingWork(
            job=np.array([1]),
            demand=np.array([[2]]),
            size=np.ones(1),
            submit_s=np.zeros(1),
            limit_s=np.ones(1),
            estimate_s=np.ones(1),
        ),
    )
    assert starts.nodes.tolist() == [1]


@pytest.mark.parametrize("wrong", [{"head_choice": 0}, {"promise_count": -1}, {"slack_ratio": -0.5}])
def test_policy_out_of_range_is_refused(wrong: dict[str, int]) -> None:
    """A policy that means nothing is refused when it is made."""
    with pytest.raises(InvalidRequest):
        BackfillPolicy(**wrong)  # type: ignore[arg-type]

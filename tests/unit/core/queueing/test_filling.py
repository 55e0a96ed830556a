"""Progressive filling: worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.queueing import MICRO, Filled, FillingQueues, StopRule, fill

_NO_LIMIT = StopRule(
    pending_count=0,
    pending_usage=0,
    usage_limit=10**15,
    min_count=1,
    max_pending=10**9,
)


def _fill(
    queues: list[tuple[int, float, float, list[float]]],
    *,
    rule: StopRule = _NO_LIMIT,
    used: dict[int, float] | None = None,
    blocked: set[int] = frozenset(),
) -> list[int]:
    """Fill from (id, weight, flow, job sizes in cores); return the ids of the queues in order of moving."""
    sizes = [size for _, _, _, jobs in queues for size in jobs]
    starts = np.cumsum([0] + [len(jobs) for _, _, _, jobs in queues])
    usage = np.array(sizes) * MICRO

    def heads(row: int, count: int) -> tuple[np.ndarray, bool]:
        jobs = np.arange(starts[row], starts[row + 1], dtype=np.int32)
        return jobs[:count], count >= jobs.size

    filled: Filled = fill(
        FillingQueues(
            queue_id=np.array([queue_id for queue_id, *_ in queues], dtype=np.int64),
            weight=np.array([weight for _, weight, *_ in queues]),
            flow=np.array([flow for _, _, flow, _ in queues]),
            usage=np.array([round((used or {}).get(queue_id, 0) * MICRO) for queue_id, *_ in queues], dtype=np.int64),
            heads=heads,
            job_usage=lambda slots: usage.astype(np.int64)[slots],
            is_blocked=lambda slots: np.isin(slots, list(blocked)),
        ),
        rule,
    )
    return [queues[row][0] for row in filled.rows.tolist()]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        pytest.param([(1, 1, 0, [1, 1, 1]), (2, 1, 0, [1, 1, 1])], [1, 2, 1, 2, 1, 2], id="equal-queues-take-turns"),
        pytest.param([(2, 1, 0, [1, 1]), (1, 1, 0, [1, 1])], [1, 2, 1, 2], id="ties-go-by-queue-id"),
        pytest.param([(1, 3, 0, [1] * 6), (2, 1, 0, [1] * 2)], [1, 1, 1, 2, 1, 1, 1, 2], id="by-weight"),
        pytest.param([(1, 1, 0, [4, 4]), (2, 1, 0, [1] * 8)], [2, 2, 2, 1, 2, 2, 2, 2, 1, 2], id="large-jobs-wait"),
        pytest.param([(1, 1, 3, [1] * 4), (2, 1, 0, [1] * 4)], [2, 2, 1, 1, 1, 2, 1, 2], id="past-flow-waits"),
        pytest.param([(1, 0, 0, [1, 1]), (2, 1, 50, [1, 1])], [2, 2, 1, 1], id="weight-zero-after-all-others"),
        pytest.param([(1, 1, 0, []), (2, 1, 0, [1])], [2], id="empty-queue"),
        pytest.param([], [], id="no-queue"),
    ],
)
def test_filling_takes_the_queue_with_the_smallest_flow_if_scheduled(
    queues: list[tuple[int, float, float, list[float]]], expected: list[int]
) -> None:
    """The head whose queue's flow / weight would be smallest moves first; flow never lies below usage."""
    assert _fill(queues) == expected


def test_filling_counts_what_the_queue_uses_already() -> None:
    """A queue that runs 2 cores lets the other catch up first."""
    assert _fill([(1, 1, 2, [1, 1]), (2, 1, 0, [1] * 4)], used={1: 2}) == [2, 2, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        pytest.param({"usage_limit": 3 * MICRO}, 4, id="stops-when-pending-exceeds-the-limit"),
        pytest.param({"usage_limit": 0, "min_count": 3}, 3, id="but-not-below-the-minimum"),
        pytest.param(
            {"usage_limit": 0, "min_count": 3, "pending_count": 3, "pending_usage": 5}, 0, id="counts-pending"
        ),
        pytest.param({"max_pending": 5}, 5, id="bounded"),
    ],
)
def test_filling_stops_by_the_look_ahead(rule: dict[str, int], count: int) -> None:
    """Checked before each job."""
    fields = {name: getattr(_NO_LIMIT, name) for name in _NO_LIMIT.__slots__}
    assert len(_fill([(1, 1, 0, [1] * 100)], rule=StopRule(**{**fields, **rule}))) == count


def test_filling_lets_blocked_jobs_not_keep_back_others() -> None:
    """Jobs of blocked classes do not count for the look-ahead."""
    fields = {name: getattr(_NO_LIMIT, name) for name in _NO_LIMIT.__slots__}
    rule = StopRule(**{**fields, "usage_limit": 2 * MICRO})
    queues = [(1, 1.0, 0.0, [10.0] * 3 + [1.0] * 9)]
    assert len(_fill(queues, rule=rule, blocked={0, 1, 2})) == 3 + 3


def test_filling_looks_further_than_its_first_window() -> None:
    """Runs longer than the first look move whole, in the same order."""
    assert len(_fill([(1, 1, 0, [1] * 500)])) == 500
    assert _fill([(1, 1, 0, [1] * 500), (2, 4, 0, [1] * 500)]).count(2) == 500
    assert _fill([(1, 1, 0, [1] * 500), (2, 4, 0, [1] * 500)])[:5] == [2, 2, 2, 1, 2]

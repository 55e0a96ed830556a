"""Progressive filling and the walk: worked examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.queueing import MICRO, Filled, FillingLimits, FillingQueues, fill, walk

_CLASS_COUNT = 8
_MANY = np.full(_CLASS_COUNT, 10**9, dtype=np.int64)
_NO_LIMIT = FillingLimits(
    usage_limit=10**15,
    min_count=1,
    max_count=10**9,
    room=_MANY,
    waiting=_MANY,
    counted=np.ones(_CLASS_COUNT, dtype=np.bool_),
)


def _queues(
    queues: list[tuple[int, float, float, list[float]]],
    used: dict[int, float] | None = None,
    classes: list[int] | None = None,
) -> FillingQueues:
    """Queues from (id, weight, flow, job sizes in cores); `classes` of all jobs, 0 if not given."""
    sizes = [size for _, _, _, jobs in queues for size in jobs]
    starts = np.cumsum([0] + [len(jobs) for _, _, _, jobs in queues])
    usage = (np.array(sizes) * MICRO).astype(np.int64)
    kinds = np.array(classes or [0] * len(sizes), dtype=np.int32)

    def heads(rows: list[int], count: int) -> list[tuple[np.ndarray, bool]]:
        jobs = [np.arange(starts[row], starts[row + 1], dtype=np.int32) for row in rows]
        return [(part[:count], count >= part.size) for part in jobs]

    return FillingQueues(
        queue_id=np.array([queue_id for queue_id, *_ in queues], dtype=np.int64),
        weight=np.array([weight for _, weight, *_ in queues], dtype=np.float64),
        flow=np.array([flow for _, _, flow, _ in queues], dtype=np.float64),
        usage=np.array([round((used or {}).get(queue_id, 0) * MICRO) for queue_id, *_ in queues], dtype=np.int64),
        least_usage=int(usage.min(initial=MICRO)),
        heads=heads,
        job_usage=lambda slots: usage[slots],
        job_class=lambda slots: kinds[slots],
    )


def _fill(
    queues: list[tuple[int, float, float, list[float]]],
    *,
    limits: FillingLimits = _NO_LIMIT,
    used: dict[int, float] | None = None,
    classes: list[int] | None = None,
) -> list[int]:
    """Return the ids of the queues in order of their jobs' turns."""
    filled: Filled = fill(_queues(queues, used, classes), limits)
    return [queues[row][0] for row in filled.rows.tolist()]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        pytest.param([(1, 1, 0, [1, 1, 1]), (2, 1, 0, [1, 1, 1])], [1, 2, 1, 2, 1, 2], id="equal-queues-take-turns"),
        pytest.param([(2, 1, 0, [1, 1]), (1, 1, 0, [1, 1])], [1, 2, 1, 2], id="ties-go-by-queue-id"),
        pytest.param([(1, 3, 0, [1] * 6), (2, 1, 0, [1] * 2)], [1, 1, 1, 2, 1, 1, 1, 2], id="by-weight"),
        pytest.param([(1, 1, 0, [4, 4]), (2, 1, 0, [1] * 8)], [2, 2, 2, 1, 2, 2, 2, 2, 1, 2], id="large-jobs-wait"),
        pytest.param([(1, 1, 3, [1] * 4), (2, 1, 0, [1] * 4)], [2, 2, 2, 1, 1, 1, 2, 1], id="past-flow-waits"),
        pytest.param([(1, 1, 0.9, [1]), (2, 1, 0, [1])], [2, 1], id="ties-go-to-who-had-less-until-now"),
        pytest.param([(1, 0, 0, [1, 1]), (2, 1, 50, [1, 1])], [2, 2, 1, 1], id="weight-zero-after-all-others"),
        pytest.param([(1, 1, 0, []), (2, 1, 0, [1])], [2], id="empty-queue"),
        pytest.param([], [], id="no-queue"),
    ],
)
def test_filling_takes_the_queue_with_the_smallest_flow_if_scheduled(
    queues: list[tuple[int, float, float, list[float]]], expected: list[int]
) -> None:
    """The head whose queue's flow / weight would be smallest is next; flow never lies below usage."""
    assert _fill(queues) == expected


def test_filling_counts_what_the_queue_uses_already() -> None:
    """A queue that runs 2 cores lets the other catch up first."""
    assert _fill([(1, 1, 2, [1, 1]), (2, 1, 0, [1] * 4)], used={1: 2}) == [2, 2, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        pytest.param({"usage_limit": 3 * MICRO}, 4, id="stops-when-usage-exceeds-the-limit"),
        pytest.param({"usage_limit": 0, "min_count": 3}, 3, id="but-not-below-the-minimum"),
        pytest.param({"max_count": 5}, 5, id="bounded"),
        pytest.param({"room": np.full(_CLASS_COUNT, 7)}, 7, id="no-more-than-there-is-room-for"),
    ],
)
def test_filling_stops_by_its_limits(changes: dict[str, object], count: int) -> None:
    """Checked before each job."""
    assert len(_fill([(1, 1, 0, [1] * 100)], limits=replace(_NO_LIMIT, **changes))) == count  # type: ignore[arg-type]


@pytest.mark.parametrize("expected_count", [0, 40_000])
def test_one_queue_fills_all_that_the_limits_let_it(expected_count: int) -> None:
    """However many jobs a queue is looked at for otherwise."""
    limits = replace(_NO_LIMIT, max_count=40_000, expected_count=expected_count)
    assert len(_fill([(1, 1, 0, [1] * 50_000)], limits=limits)) == 40_000


def test_class_without_much_room_does_not_keep_others_from_being_asked_for() -> None:
    """Jobs beyond the room of their class are passed over, however many stand in front."""
    room = _MANY.copy()
    room[1] = 2
    limits = replace(_NO_LIMIT, room=room, usage_limit=30 * MICRO)
    queues = [(1, 1.0, 0.0, [1.0] * 5000 + [1.0] * 9)]
    filled = fill(_queues(queues, classes=[1] * 5000 + [0] * 9), limits)
    assert filled.classes.tolist() == [1] * 2 + [0] * 9


def test_jobs_without_room_do_not_put_off_those_of_their_queue_behind_them() -> None:
    """Hundreds of jobs for the two devices that are free stand before a queue's plain jobs; another queue has more."""
    room = _MANY.copy()
    room[1] = 2
    limits = replace(_NO_LIMIT, room=room, usage_limit=39 * MICRO)
    queues = [(1, 1.0, 0.0, [1.0] * 540), (2, 1.0, 0.0, [1.0] * 540)]
    filled = fill(_queues(queues, classes=[1] * 500 + [0] * 40 + [0] * 540), limits)
    assert np.bincount(filled.rows).tolist() == [20, 20]
    assert filled.classes.tolist().count(1) == 2


def test_each_kind_of_a_class_may_take_all_its_room() -> None:
    """Some may start where others may not, so that those in front do not hide those behind them."""
    room = _MANY.copy()
    room[1] = 2
    limits = replace(_NO_LIMIT, room=room, kind_count=2)
    classes = [1] * 5 + [1 + _CLASS_COUNT] * 5 + [0]
    filled = fill(_queues([(1, 1.0, 0.0, [1.0] * 11)], classes=classes), limits)
    assert filled.slots.tolist() == [0, 1, 5, 6, 10]
    assert len(_fill([(1, 1, 0, [1] * 11)], limits=replace(limits, max_count=3), classes=classes)) == 3


def test_what_kinds_have_beyond_the_room_of_their_class_takes_nothing_from_others() -> None:
    """It uses up no limit of usage, and does not put off what stands behind it in its queue."""
    room = _MANY.copy()
    room[1] = 2
    limits = replace(_NO_LIMIT, room=room, kind_count=4, usage_limit=39 * MICRO)
    kinds = [1 + _CLASS_COUNT * kind for kind in range(4) for _ in range(2)]
    queues = [(1, 1.0, 0.0, [1.0] * 50), (2, 1.0, 0.0, [1.0] * 50)]
    filled = fill(_queues(queues, classes=kinds + [0] * 42 + [0] * 50), limits)
    assert np.bincount(filled.rows).tolist() == [20 + 6, 20]


def test_classes_that_do_not_count_use_up_no_limit() -> None:
    """What is tried beside the others takes nothing from them."""
    counted = np.ones(_CLASS_COUNT, dtype=np.bool_)
    counted[1] = False
    limits = replace(_NO_LIMIT, counted=counted, usage_limit=2 * MICRO)
    queues = [(1, 1.0, 0.0, [10.0] * 3 + [1.0] * 9)]
    assert len(_fill(queues, limits=limits, classes=[1] * 3 + [0] * 9)) == 3 + 3


def test_filling_looks_further_than_its_first_window() -> None:
    """Runs longer than the first look come whole, in the same order."""
    assert len(_fill([(1, 1, 0, [1] * 500)])) == 500
    assert _fill([(1, 1, 0, [1] * 500), (2, 4, 0, [1] * 500)]).count(2) == 500
    assert _fill([(1, 1, 0, [1] * 500), (2, 4, 0, [1] * 500)])[:5] == [2, 2, 2, 1, 2]


def test_filling_opens_no_queue_whose_turn_is_far_away() -> None:
    """A thousand queues cost no more than those that get something."""
    queues = [(number, 1.0, float(number), [1.0] * 3) for number in range(1, 1001)]
    filling, looked = _queues(queues), []

    def heads(rows: list[int], count: int) -> list[tuple[np.ndarray, bool]]:
        looked.extend(rows)
        return filling.heads(rows, count)

    limits = replace(_NO_LIMIT, usage_limit=4 * MICRO)
    assert fill(replace(filling, heads=heads), limits).rows.tolist() == [0, 0, 1, 1, 0]
    assert len(set(looked)) == 64


def test_job_without_a_place_raises_nothing_for_its_queue() -> None:
    """Its class is exhausted; the queue's next job of another class is tried at the place that its usage gives."""
    queues = _queues([(1, 1, 0, [8, 8, 1, 1]), (2, 1, 0, [1, 1, 1])], classes=[1, 1, 0, 0, 0, 0, 0])
    jobs = fill(queues, _NO_LIMIT)
    tried: list[int] = []

    def place(job: int, class_index: int) -> bool:
        tried.append(int(jobs.slots[job]))
        return class_index != 1

    placed = walk(queues, jobs, place)
    assert jobs.slots[placed].tolist() == [4, 5, 6, 2, 3]
    assert tried == [4, 5, 6, 0, 2, 3]


@pytest.mark.parametrize(("room", "expected"), [(2, [5, 6, 7]), (4, [5, 6, 7, 0, 2, 3])])
def test_walk_tries_no_job_once_none_can_find_a_place(room: int, expected: list[int]) -> None:
    """Be it the first no that says so or a later one: the jobs behind it, of other classes too, are left alone."""
    queues = _queues([(1, 1, 0, [8, 8, 1, 1, 1]), (2, 1, 0, [1, 1, 1])], classes=[1, 1, 0, 0, 2, 0, 0, 0])
    jobs, tried, placed = fill(queues, _NO_LIMIT), list[int](), list[int]()

    def place(job: int, class_index: int) -> bool:
        tried.append(int(jobs.slots[job]))
        if class_index == 1 or len(placed) == room:
            return False
        placed.append(job)
        return True

    assert walk(queues, jobs, place, is_over=lambda: len(placed) == room).tolist() == placed
    assert tried == expected


@pytest.mark.parametrize("flow", [0.0, 1.0])
def test_ties_are_won_by_other_queues_in_each_turn(flow: float) -> None:
    """Of twenty equal queues eight may run one job at a time: over a hundred rounds each has about its forty."""
    had = np.zeros(20, dtype=np.int64)
    for turn in range(100):
        queues = replace(_queues([(number, 1, flow, [1]) for number in range(1, 21)]), turn=turn)
        had += np.bincount(fill(queues, replace(_NO_LIMIT, max_count=8)).rows, minlength=20)
    assert had.sum() == 800
    assert 25 <= had.min() <= had.max() <= 55

"""Progressive filling and the walk against the rule as a loop, and against exact max-min fairness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.queueing import MICRO, FillingLimits, FillingQueues, fill, fill_water, flow_keys, to_cores, walk

_CLASS_COUNT = 5
_SIZES = st.sampled_from([0, 1, 250_000, 500_000, MICRO, MICRO, MICRO, 3 * MICRO, 16 * MICRO])
_RUNS = st.lists(
    st.tuples(_SIZES, st.sampled_from([1, 2, 7, 31, 32, 33, 60]), st.integers(0, _CLASS_COUNT - 1)), max_size=4
)
_QUEUES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.7]),
        st.sampled_from([0.0, 0.0, 1.0, 7.25, 40.0]),
        st.sampled_from([0, 0, MICRO, 5 * MICRO]),
        _RUNS,
    ),
    min_size=1,
    max_size=6,
)
_COUNTED = np.ones(_CLASS_COUNT, dtype=np.bool_)
_MANY = np.full(_CLASS_COUNT, 10**9, dtype=np.int64)
_LIMITS = st.builds(
    lambda usage, least, most, expected: FillingLimits(
        usage_limit=usage,
        min_count=least,
        max_count=most,
        room=_MANY,
        waiting=_MANY,
        counted=_COUNTED,
        expected_count=expected,
    ),
    st.integers(0, 120 * MICRO),
    st.integers(1, 30),
    st.integers(1, 300),
    st.sampled_from([0, 1, 100, 10_000]),
)
_NO_LIMIT = FillingLimits(usage_limit=10**15, min_count=1, max_count=10**9, room=_MANY, waiting=_MANY, counted=_COUNTED)
Drawn = list[tuple[float, float, int, list[tuple[int, int, int]]]]


class _World:
    """Queues with ids in falling order; each run of jobs is of one size and class."""

    def __init__(self, rows: Drawn) -> None:
        jobs = [[(size, kind) for size, count, kind in runs for _ in range(count)] for *_, runs in rows]
        starts = np.cumsum([0] + [len(part) for part in jobs])
        self.sizes = np.array([size for part in jobs for size, _ in part], dtype=np.int64)
        self.classes = np.array([kind for part in jobs for _, kind in part], dtype=np.int32)
        self.jobs = [list(range(begin, end)) for begin, end in pairwise(starts.tolist())]
        self.rows = np.repeat(np.arange(len(rows)), np.diff(starts))
        used = np.array([used for _, _, used, _ in rows], dtype=np.int64)
        self.queues = FillingQueues(
            queue_id=np.arange(len(rows), 0, -1, dtype=np.int64),
            weight=np.array([weight for weight, *_ in rows]),
            flow=np.maximum([flow for _, flow, *_ in rows], to_cores(used)),
            usage=used,
            least_usage=int(self.sizes.min(initial=MICRO)),
            heads=lambda rows, count: [
                (np.array(self.jobs[row][:count], dtype=np.int32), count >= len(self.jobs[row])) for row in rows
            ],
            job_usage=lambda slots: self.sizes[slots],
            job_class=lambda slots: self.classes[slots],
        )

    def one_by_one(
        self, place: Callable[[int, int], bool], stop: Callable[[list[int]], bool] = lambda _: False
    ) -> list[int]:
        """The rule as a loop: a head that finds no place exhausts its class and raises nothing."""
        queues, usage, placed = self.queues, self.queues.usage.copy(), []
        lines = [list(part) for part in self.jobs]
        until_now = flow_keys(queues.flow, queues.usage, queues.weight)
        while any(lines) and not stop(placed):
            turns = []
            for row, line in enumerate(lines):
                if line:
                    after = usage[row : row + 1] + self.sizes[line[0]]
                    key = flow_keys(queues.flow[row : row + 1], after, queues.weight[row : row + 1])[0]
                    tie = until_now[row], queues.usage[row] > 0, queues.queue_id[row]
                    turns.append((queues.weight[row] <= 0, key, *tie, row))
            row = min(turns)[-1]
            job = lines[row][0]
            if place(job, int(self.classes[job])):
                placed.append(lines[row].pop(0))
                usage[row] += self.sizes[job]
            else:
                kind = self.classes[job]
                lines = [[other for other in line if self.classes[other] != kind] for line in lines]
        return placed


@given(rows=_QUEUES, limits=_LIMITS)
def test_filling_equals_the_one_by_one_rule(rows: Drawn, limits: FillingLimits) -> None:
    """Same jobs, same order, whatever the sizes and however many are expected, as long as every job fits."""
    world = _World(rows)

    def stop(placed: list[int]) -> bool:
        usage = int(world.sizes[placed].sum())
        return (usage > limits.usage_limit and len(placed) >= limits.min_count) or len(placed) >= limits.max_count

    assert fill(world.queues, limits).slots.tolist() == world.one_by_one(lambda _job, _kind: True, stop)


@given(rows=_QUEUES, rooms=st.lists(st.integers(0, 70), min_size=_CLASS_COUNT, max_size=_CLASS_COUNT))
def test_walk_equals_the_one_by_one_rule_however_much_room_there_is(rows: Drawn, rooms: list[int]) -> None:
    """Jobs without a place never change the order of the others, nor let a queue starve."""
    world = _World(rows)
    jobs = fill(world.queues, _NO_LIMIT)
    assert sorted(jobs.slots.tolist()) == list(range(world.sizes.size))

    def placing() -> Callable[[int, int], bool]:
        left = list(rooms)

        def place(_job: int, kind: int) -> bool:
            left[kind] -= 1
            return left[kind] >= 0

        return place

    placed = jobs.slots[walk(world.queues, jobs, placing())].tolist()
    assert placed == world.one_by_one(placing())
    for kind, room in enumerate(rooms):
        of_kind = int((world.classes[placed] == kind).sum())
        assert of_kind == min(room, int((world.classes == kind).sum()))


@given(
    rows=st.lists(st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.7]), _RUNS), min_size=1, max_size=6),
    capacity_cores=st.integers(1, 200),
)
def test_filling_is_never_more_than_one_largest_job_from_max_min(
    rows: list[tuple[float, list[tuple[int, int, int]]]], capacity_cores: int
) -> None:
    """No queue's flow / weight exceeds exact weighted max-min over the demands by more than one largest job."""
    world = _World([(weight, 0.0, 0, runs) for weight, runs in rows])
    # Filling stops with the first job that brings the usage above the capacity.
    filled = fill(world.queues, replace(_NO_LIMIT, usage_limit=capacity_cores * MICRO))
    given_micro = np.zeros(len(rows), dtype=np.int64)
    np.add.at(given_micro, filled.rows, filled.usage)
    demands = np.array([sum(size * count for size, count, _ in runs) for _, runs in rows], dtype=float) / MICRO
    # What was chosen is compared with the fair division of as much; the common level is that of the least satisfied.
    fair = fill_water(demands, world.queues.weight, float(to_cores(given_micro).sum()))
    largest = int(world.sizes.max(initial=0)) / MICRO
    level = float((fair / world.queues.weight).max())
    assert (to_cores(given_micro) / world.queues.weight <= level + largest / world.queues.weight.min() + 1e-6).all()

"""Progressive filling against the rule as a loop, and against exact max-min fairness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.queueing import MICRO, FillingQueues, StopRule, fill, fill_water, flow_keys, to_cores

_SIZES = st.sampled_from([0, 1, 250_000, 500_000, MICRO, MICRO, MICRO, 3 * MICRO, 16 * MICRO])
_RUNS = st.lists(st.tuples(_SIZES, st.sampled_from([1, 2, 7, 31, 32, 33, 60])), max_size=4)
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
_RULES = st.builds(
    StopRule,
    pending_count=st.integers(0, 20),
    pending_usage=st.integers(0, 20 * MICRO),
    usage_limit=st.integers(0, 120 * MICRO),
    min_count=st.integers(1, 30),
    max_pending=st.integers(1, 300),
)


def _queues(
    rows: list[tuple[float, float, int, list[tuple[int, int]]]], modulus: int
) -> tuple[FillingQueues, np.ndarray]:
    """Return queues with ids in falling order, and the sizes of all jobs; every modulus-th job is blocked."""
    sizes = [[size for size, count in runs for _ in range(count)] for *_, runs in rows]
    starts = np.cumsum([0] + [len(jobs) for jobs in sizes])
    usage = np.array([size for jobs in sizes for size in jobs], dtype=np.int64)

    def heads(row: int, count: int) -> tuple[np.ndarray, bool]:
        jobs = np.arange(starts[row], starts[row + 1], dtype=np.int32)
        return jobs[:count], count >= jobs.size

    used = np.array([used for _, _, used, _ in rows], dtype=np.int64)
    queues = FillingQueues(
        queue_id=np.arange(len(rows), 0, -1, dtype=np.int64),
        weight=np.array([weight for weight, *_ in rows]),
        flow=np.maximum(np.array([flow for _, flow, *_ in rows]), to_cores(used)),
        usage=used,
        heads=heads,
        job_usage=lambda slots: usage[slots],
        is_blocked=lambda slots: slots % modulus == modulus - 1,
    )
    return queues, usage


def _one_by_one(queues: FillingQueues, rule: StopRule) -> list[int]:
    """The rule as it is written: one job at a time."""
    used = queues.usage.copy()
    waiting = [queues.heads(row, 10**9)[0].tolist() for row in range(queues.queue_id.size)]
    moved: list[int] = []
    state = rule
    while True:
        one = np.ones(1, dtype=np.int64)
        if state.stop(one, np.zeros(1, dtype=np.bool_)) == 0:
            return moved
        best = None
        for row, jobs in enumerate(waiting):
            if jobs:
                after = used[row] + queues.job_usage(np.array(jobs[:1]))[0]
                key = float(flow_keys(float(queues.flow[row]), after, float(queues.weight[row])))
                candidate = (queues.weight[row] <= 0, key, int(queues.queue_id[row]), row)
                best = candidate if best is None else min(best, candidate)
        if best is None:
            return moved
        row = best[3]
        job = waiting[row].pop(0)
        size = int(queues.job_usage(np.array([job]))[0])
        used[row] += size
        if not queues.is_blocked(np.array([job]))[0]:
            state = replace(state, pending_count=state.pending_count + 1, pending_usage=state.pending_usage + size)
        moved.append(job)


@given(_QUEUES, _RULES, st.integers(2, 9))
def test_filling_in_one_step_equals_filling_one_by_one(
    rows: list[tuple[float, float, int, list[tuple[int, int]]]], rule: StopRule, modulus: int
) -> None:
    """Exactly the same jobs in exactly the same order, identical or not."""
    queues, _ = _queues(rows, modulus)
    assert fill(queues, rule).slots.tolist() == _one_by_one(queues, rule)


@given(
    st.lists(st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.7]), _RUNS), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_filling_is_never_more_than_one_largest_job_from_max_min(
    rows: list[tuple[float, list[tuple[int, int]]]], capacity_cores: int
) -> None:
    """No queue's flow / weight exceeds exact weighted max-min over the demands by more than one largest job."""
    queues, usage = _queues([(weight, 0.0, 0, runs) for weight, runs in rows], 10**9)
    # Filling stops with the first job that brings pending above the capacity.
    rule = StopRule(
        pending_count=0,
        pending_usage=0,
        usage_limit=capacity_cores * MICRO,
        min_count=1,
        max_pending=10**9,
    )
    filled = fill(queues, rule)
    given_micro = np.zeros(len(rows), dtype=np.int64)
    np.add.at(given_micro, filled.rows, filled.usage)
    demands = np.array([sum(size * count for size, count in runs) for _, runs in rows], dtype=float) / MICRO
    # What was moved is compared with the fair division of as much; the common level is that of the least satisfied.
    fair = fill_water(demands, queues.weight, float(to_cores(given_micro).sum()))
    largest = (usage.max() if usage.size else 0) / MICRO
    level = float((fair / queues.weight).max())
    assert (to_cores(given_micro) / queues.weight <= level + largest / queues.weight.min() + 1e-6).all()

"""Prints, as JSON, what the executor's reconcile step costs: intake, passes with few changes, idle passes, memory.

Usage: python tests/benchmarks/reconcile_step.py [RUNS]

Half of the measurements are of runs of one pod, the others of bags of a config map and a pod. Times are medians.
"""

import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from argosy_core.job.states import ObjectState
from argosy_core.reconcile import CreateAnswers, Creates, DeleteAnswers, Instant, Observations, Reconciler
from argosy_testkit.cluster_model import make_observations
from argosy_testkit.reconcile_world import rows_of

CHANGED_RATIO = 0.01
PASSES = 25
SETTLED_S = 100.0


class Bench:
    """A reconciler with as many runs as asked for, whose calls are all answered."""

    def __init__(self, runs: int, kinds: tuple[str, ...]) -> None:
        """Start with an empty cluster."""
        self.runs, self.kinds = runs, kinds
        self.now_s = SETTLED_S
        self.reconciler = Reconciler(keep_finished_s=0.0)
        self.reconciler.take_listing(make_observations([]), started_s=self.now_s, now=self.now)
        self.next_handle = 1

    @property
    def now(self) -> Instant:
        """The present."""
        return Instant(self.now_s, int(self.now_s * 1e6))

    def give(self, count: int) -> list[int]:
        """Take rows of new runs in messages of 5,000; return their handles."""
        handles = list(range(self.next_handle, self.next_handle + count))
        self.next_handle += count
        for start in range(0, count, 5_000):
            self.reconciler.take_rows(rows_of(handles[start : start + 5_000], *self.kinds), self.now)
        return handles

    def step(self) -> int:
        """Act until nothing is left to do, report, and have all of it answered and stored; return the actions."""
        done = 0
        while True:
            actions = self.reconciler.next_actions(self.now, may_act=True)
            if actions.creates is not None:
                done += len(actions.creates)
                self.reconciler.take_create_answers(actions.creates, made(actions.creates), self.now)
            if actions.deletes is not None:
                done += len(actions.deletes)
                accepted = np.zeros(len(actions.deletes), np.bool_)
                answers = DeleteAnswers(accepted_column=accepted, gone_column=~accepted)
                self.reconciler.take_delete_answers(actions.deletes, answers, self.now)
            if actions.creates is None and actions.deletes is None:
                break
        self.now_s += 0.25
        while (batch := self.reconciler.next_reports(self.now)) is not None:
            self.reconciler.acknowledge(batch.number)
        return done

    def observed(self, handles: list[int], state: ObjectState) -> Observations:
        """Return what a watch says of the pods of some runs."""
        count, position = len(handles), len(self.kinds) - 1
        uids = np.zeros((count, 16), np.uint8)
        uids[:, :8] = (np.array(handles, np.int64) * 64 + position + 1).view(np.uint8).reshape(-1, 8)
        return Observations(
            gone_column=np.zeros(count, np.bool_),
            handle_column=np.array(handles, np.int64),
            attempt_column=np.ones(count, np.int32),
            object_column=np.full(count, position, np.int16),
            kind_column=np.zeros(count, np.int16),
            state_column=np.full(count, state, np.int8),
            uid_column=uids,
            time_us_column=np.full(count, self.now.wall_us, np.int64),
            exit_code_column=np.zeros(count, np.int32),
            failure_column=np.zeros(count, np.int8),
            message_column=np.full(count, -1, np.int32),
            kinds=("Pod",),
            texts=(),
        )


def made(creates: Creates) -> CreateAnswers:
    """Return the answer that all of some objects were made; a uid follows from handle and position."""
    count = len(creates)
    none = np.zeros(count, np.bool_)
    uids = np.zeros((count, 16), np.uint8)
    numbers = creates.handle_column * 64 + creates.object_column + 1
    uids[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
    return CreateAnswers(
        exists_column=~none,
        refused_column=none,
        later_column=none,
        uid_column=uids,
        message_column=np.full(count, -1, np.int32),
        messages=(),
    )


def timed_ms(work: Callable[[], object]) -> float:
    """Return how long something takes, milliseconds."""
    started_s = time.perf_counter()
    work()
    return (time.perf_counter() - started_s) * 1e3


def measure(runs: int, kinds: tuple[str, ...]) -> dict[str, float]:
    """Measure one shape of runs."""
    gc.collect()
    tracemalloc.start()
    bench = Bench(runs, kinds)
    handles = bench.give(runs)
    waiting_bytes = tracemalloc.get_traced_memory()[0]
    bench.step()
    bench.reconciler.take_observed(bench.observed(handles, ObjectState.RUNNING), bench.now)
    bench.step()
    gc.collect()
    running_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    bench = Bench(runs, kinds)
    intake_ms = timed_ms(lambda: bench.give(runs))
    create_ms = timed_ms(bench.step)
    handles = list(range(1, runs + 1))
    running_ms = timed_ms(lambda: bench.reconciler.take_observed(bench.observed(handles, ObjectState.RUNNING), bench.now))
    bench.step()
    change_ms, pass_ms, idle_ms, list_ms = [], [], [], []
    changed = max(1, int(runs * CHANGED_RATIO))
    for number in range(PASSES):
        bench.now_s += 1.0
        some = handles[number * changed : (number + 1) * changed]
        seen = bench.observed(some, ObjectState.SUCCEEDED)
        change_ms.append(timed_ms(lambda seen=seen: bench.reconciler.take_observed(seen, bench.now)))
        pass_ms.append(timed_ms(bench.step))
        bench.give(changed)
        bench.step()
        idle_ms.append(timed_ms(lambda: bench.reconciler.next_actions(bench.now, may_act=True)))
    bench.now_s += 60.0
    idle_sweep_ms = timed_ms(lambda: bench.reconciler.next_actions(bench.now, may_act=True))
    live = handles[PASSES * changed :]
    listing = bench.observed(live, ObjectState.RUNNING)
    if len(kinds) == 1:
        for _ in range(5):
            seen = replace(listing, time_us_column=listing.time_us_column + 1)
            started_s = bench.now_s - 1e6  # a listing so old that it judges nothing
            list_ms.append(
                timed_ms(lambda seen=seen, at=started_s: bench.reconciler.take_listing(seen, started_s=at, now=bench.now))
            )
    return {
        "intake_ms": intake_ms,
        "create_all_ms": create_ms,
        "all_running_ms": running_ms,
        "changes_ms": statistics.median(change_ms),
        "pass_ms": statistics.median(pass_ms),
        "idle_pass_ms": statistics.median(idle_ms),
        "idle_sweep_ms": idle_sweep_ms,
        "relist_ms": statistics.median(list_ms) if list_ms else 0.0,
        "waiting_bytes_per_run": waiting_bytes / runs,
        "running_bytes_per_run": running_bytes / runs,
        "peak_bytes_per_run": peak_bytes / runs,
    }


def main() -> None:
    """Measure runs of one pod and bags of two objects."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    figures = {"pods": measure(runs, ("Pod",)), "bags": measure(runs // 2, ("ConfigMap", "Pod"))}
    print(json.dumps({name: {key: round(value, 3) for key, value in row.items()} for name, row in figures.items()}, indent=2))  # noqa: T201,E501


if __name__ == "__main__":
    main()

"""Prints, as JSON, what the executor's reconcile step costs: intake, passes with few changes, idle passes, memory.

Usage: python tests/benchmarks/reconcile_step.py [RUNS]

`pods` are runs of one pod, `bags` of a config map and a pod. `plain_objects` is what the same transitions cost
with one Python object per Kubernetes object, without the rest. `small_batches` is what each step costs for a few
objects at a time, as a watch brings them. Times are of the processor, medians; see decision 0013.
"""

import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from argosy_core.job.states import RUN_MAY_FOLLOW, ObjectState
from argosy_core.reconcile import Actions, CreateResponses, Creates, DeleteResponses, Instant, Observations, Reconciler
from argosy_core.reconcile.machine import TRANSITIONS, Action, Event, Phase
from argosy_testkit.cluster_model import make_observations
from argosy_testkit.reconcile_world import rows_of

CHANGED_RATIO = 0.01
PASSES = 25
SMALL_BATCHES = (1, 8, 25, 100)
SMALL_CYCLES = 200
NEIGHBOURS = 300
"""Pods that are there meanwhile."""
SETTLED_S = 100.0
MAY_FOLLOW = RUN_MAY_FOLLOW.tolist()


T = TypeVar("T")


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
                self.reconciler.take_create_responses(actions.creates, made(actions.creates), self.now)
            if actions.deletes is not None:
                done += len(actions.deletes)
                accepted = np.zeros(len(actions.deletes), np.bool_)
                answers = DeleteResponses(accepted_column=accepted, gone_column=~accepted)
                self.reconciler.take_delete_responses(actions.deletes, answers, self.now)
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
            ordinal_column=np.ones(count, np.int64),
            object_column=np.full(count, position, np.int16),
            kind_column=np.zeros(count, np.int16),
            state_column=np.full(count, state, np.int8),
            uid_column=uids,
            time_us_column=np.full(count, self.now.wall_us, np.int64),
            exit_code_column=np.zeros(count, np.int32),
            failure_column=np.zeros(count, np.int8),
            message_column=np.full(count, -1, np.int32),
            namespace_column=np.zeros(count, np.int32),
            kinds=("Pod",),
            texts=("default",),
        )


def made(creates: Creates) -> CreateResponses:
    """Return the answer that all of some objects were made; a uid follows from handle and position."""
    count = len(creates)
    none = np.zeros(count, np.bool_)
    uids = np.zeros((count, 16), np.uint8)
    numbers = creates.handle_column * 64 + creates.object_column + 1
    uids[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
    return CreateResponses(
        exists_column=~none,
        refused_column=none,
        later_column=none,
        uid_column=uids,
        message_column=np.full(count, -1, np.int32),
        messages=(),
    )


def measure_small(count: int) -> dict[str, float]:
    """Measure each step of the life of some pods that are made, run and go together, microseconds; see SMALL_CYCLES."""
    bench = Bench(count, ("Pod",))
    reconciler, costs_us = bench.reconciler, defaultdict[str, list[float]](list)

    def timed(name: str, work: Callable[[], T]) -> T:
        started_ns = time.process_time_ns()
        result = work()
        costs_us[name].append((time.process_time_ns() - started_ns) / 1e3)
        return result

    def act(name: str) -> Actions:
        return timed(name, lambda: reconciler.next_actions(bench.now, may_act=True))

    def report() -> None:
        bench.now_s += 0.25
        batch = timed("report", lambda: reconciler.next_reports(bench.now))
        if batch is not None:
            timed("stored", partial(reconciler.acknowledge, batch.number))

    bench.give(NEIGHBOURS)
    bench.step()
    for _ in range(SMALL_CYCLES):
        rows = rows_of(list(range(bench.next_handle, bench.next_handle + count)))
        bench.next_handle += count
        timed("take_rows", partial(reconciler.take_rows, rows, bench.now))
        creates = act("make").creates
        assert creates is not None
        timed("made", partial(reconciler.take_create_responses, creates, made(creates), bench.now))
        for state in (ObjectState.RUNNING, ObjectState.SUCCEEDED):
            seen = bench.observed(creates.handle_column.tolist(), state)
            timed(f"see_{state.name.lower()}", partial(reconciler.take_observed, seen, bench.now))
            act("nothing_to_do")
            report()
        deletes = act("delete").deletes
        assert deletes is not None
        accepted = np.ones(len(deletes), np.bool_)
        answers = DeleteResponses(accepted_column=accepted, gone_column=~accepted)
        timed("deleted", partial(reconciler.take_delete_responses, deletes, answers, bench.now))
        seen = replace(bench.observed(creates.handle_column.tolist(), ObjectState.SUCCEEDED), gone_column=accepted)
        timed("see_gone", partial(reconciler.take_observed, seen, bench.now))
        act("forget")
        timed("nothing", lambda: None)
    assert reconciler.object_count == NEIGHBOURS
    clock_us = statistics.median(costs_us.pop("nothing"))
    return {f"{name}_us": statistics.median(cost_us) - clock_us for name, cost_us in costs_us.items()}


def timed_ms(work: Callable[[], object]) -> float:
    """Return how long something takes, milliseconds."""
    started_s = time.process_time()
    work()
    return (time.process_time() - started_s) * 1e3


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
    all_running = bench.observed(handles, ObjectState.RUNNING)
    running_ms = timed_ms(lambda: bench.reconciler.take_observed(all_running, bench.now))
    bench.step()
    change_ms, pass_ms, idle_ms, list_ms = [], [], [], []
    changed = max(1, int(runs * CHANGED_RATIO))
    for number in range(PASSES):
        bench.now_s += 1.0
        some = handles[number * changed : (number + 1) * changed]
        seen = bench.observed(some, ObjectState.SUCCEEDED)
        change_ms.append(timed_ms(partial(bench.reconciler.take_observed, seen, bench.now)))
        # Reported and stored; deleted; forgotten.
        pass_ms.append(timed_ms(lambda: [bench.step() for _ in range(3)]))
        bench.give(changed)
        bench.step()
        idle_ms.append(timed_ms(lambda: bench.reconciler.next_actions(bench.now, may_act=True)))
    bench.now_s += 60.0
    idle_sweep_ms = timed_ms(lambda: bench.reconciler.next_actions(bench.now, may_act=True))
    live = handles[PASSES * changed :]
    listing = bench.observed(live, ObjectState.RUNNING)
    old_s = bench.now_s - 1e6  # a listing so old that it judges nothing
    for number in range(5):
        seen = replace(listing, time_us_column=listing.time_us_column + number)
        work = partial(bench.reconciler.take_listing, seen, started_s=old_s, now=bench.now)
        list_ms.append(timed_ms(work))
    return {
        "intake_ms": intake_ms,
        "create_all_ms": create_ms,
        "all_running_ms": running_ms,
        "changes_ms": statistics.median(change_ms),
        "pass_ms": statistics.median(pass_ms),
        "idle_pass_ms": statistics.median(idle_ms),
        "idle_sweep_ms": idle_sweep_ms,
        "relist_ms": statistics.median(list_ms),
        "waiting_bytes_per_run": waiting_bytes / runs,
        "running_bytes_per_run": running_bytes / runs,
        "peak_bytes_per_run": peak_bytes / runs,
    }


@dataclass(slots=True)
class PlainObject:
    """One Kubernetes object as one Python object, with the columns of the table as its fields."""

    key: int
    position: int = 0
    kind: int = 0
    phase: Phase = Phase.ABSENT
    state: int = 1
    stored_state: int = 0
    stop: int = 0
    has_row: bool = True
    calls_until_s: float = 0.0
    not_before_s: float = 0.0
    seen_s: float = 0.0
    present_s: float = 0.0
    time_us: int = 0
    uid: bytes = b""
    trouble: object = None

    def see(self, state: int, uid: bytes, now_s: float, time_us: int) -> bool:
        """Take what the cluster shows; return whether it is to be reported."""
        event = Event.SEEN_FIRST if not self.uid else Event.SEEN if uid == self.uid else Event.SEEN_OTHER
        self.phase, action = TRANSITIONS[self.phase, event]
        if action not in (Action.TAKE, Action.APPEAR):
            return False
        self.uid, self.seen_s = uid, now_s
        if action == Action.APPEAR:
            self.present_s = now_s
        is_move = bool(MAY_FOLLOW[self.state][state])
        if is_move:
            self.state, self.time_us = state, time_us
        return is_move


def measure_plain(runs: int) -> dict[str, float]:
    """Measure plain objects: memory, and taking one change for every object."""
    gc.collect()
    tracemalloc.start()
    uids = [number.to_bytes(16, "little") for number in range(runs)]
    tracemalloc.reset_peak()
    before_bytes = tracemalloc.get_traced_memory()[0]
    objects = {(key, 0): PlainObject(key << 8) for key in range(1_000_000, 1_000_000 + runs)}
    for number, item in enumerate(objects.values()):
        item.see(ObjectState.CREATED, uids[number], 1.0 + number, 1_000_000_000 + number)
    waiting_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    tracemalloc.stop()
    changes = [(key, uids[number], 2.0, 2_000_000_000) for number, key in enumerate(objects)]

    def take() -> None:
        for key, uid, now_s, time_us in changes:
            objects[key].see(ObjectState.RUNNING, uid, now_s, time_us)

    all_running_ms = timed_ms(take)
    return {"all_running_ms": all_running_ms, "running_bytes_per_run": waiting_bytes / runs}


def main() -> None:
    """Measure runs of one pod, bags of two objects, and plain objects."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    figures = {
        "pods": measure(runs, ("Pod",)),
        "bags": measure(runs // 2, ("ConfigMap", "Pod")),
        "plain_objects": measure_plain(runs),
    }
    figures |= {f"small_batches_{count}": measure_small(count) for count in SMALL_BATCHES}
    rounded = {name: {key: round(value, 3) for key, value in row.items()} for name, row in figures.items()}
    print(json.dumps(rounded, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()

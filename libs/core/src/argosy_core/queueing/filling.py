"""Progressive filling: in what order jobs of several queues get their turn.

The rule is a loop: of all queues with work, take the one whose flow divided by weight would be smallest if its head
were scheduled (ties: less flow by weight until now, so that more queues than cores take turns, then queues that hold
nothing, in an order of ids that is another one in each round, then the smaller id; queues of weight 0 after all
others), try that head, repeat. Flow if scheduled is the
flow formula at this moment with the job in the usage: `max(flow, usage + job)`. A job that finds a place raises its
queue's usage for what follows. One that finds none raises nothing: its class is exhausted, and the next job of another
class is its queue's head.

`fill` says whom to ask for: the order as if every job found a place, up to what is free. It touches nothing. `walk` is
the rule itself over those jobs, once it can be tried where they fit.

Within one queue the key never falls from one job to the next, so as long as every job finds a place the loop is a merge
of sorted sequences, and its order that of one sort by (key, flow until now, queue id). That is how it is computed here:
with the same arithmetic per job as the loop, so with the same result, whether jobs are identical or not.

Source: 003 "Global prioritisation"; design section 6, "filling".
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins, has_true, run_sizes, true_places
from argosy_core.queueing.flow import flow_keys
from argosy_core.queueing.tree import QueueTree
from argosy_core.queueing.usage import MICRO

__all__ = ["Filled", "FillingLimits", "FillingQueues", "fill", "next_turn", "walk"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
_NO_JOBS: Final = np.zeros(0, dtype=np.int64)
Floats = npt.NDArray[np.float64]

_FIRST_CHUNK: Final = 32
_FIRST_QUEUES: Final = 64
_SPARE: Final = 2
"""So many times its even share of what is expected is looked at first of each queue."""
_MIXERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MAX_CHUNK: Final = 1 << 14
"""Jobs of one queue that are looked at, where filling does not end at more, beyond those of which enough was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingQueues:
    """Queues with work that may be placed; q queues, in any order. None of them is cordoned."""

    queue_id: Int64s
    """Ids; with `turn` they decide ties of queues with equal flow."""
    weight: Floats
    """Weights; queues of weight 0 come after all others."""
    flow: Floats
    """Flows brought up to this moment, cores."""
    usage: Int64s
    """Usage of held jobs, micro-cores."""
    least_usage: int
    """No job that may be placed has less usage, micro-cores."""
    heads: Callable[[list[int], int], list[tuple[Int32s, bool]]]
    """(positions here, count) -> of each the first jobs that may be placed, and whether these are all it has."""
    job_usage: Callable[[Int32s], Int64s]
    """Usage of jobs, micro-cores, 0 or more."""
    job_class: Callable[[Int32s], Int32s]
    """Class index of jobs."""
    tree: QueueTree | None = None
    """What stands above the queues, which are its leaves; None if they all stand side by side."""
    turn: int = 0
    """Number of the round: by ids alone the same queues that hold nothing would win each tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingLimits:
    """When filling ends; what is given by class is by class index.

    Jobs of one class may be of several kinds, some of which may start where others may not: kind k of class c is told
    as class `c + k x classes`. Each kind may take all that is free for its class. What a class has beyond its room uses
    up no limit but the count of jobs, puts nobody off, and is chosen as far as jobs were looked at until filling ends.
    """

    usage_limit: int
    """Filling ends when the usage of the jobs chosen is above this, micro-cores, and ..."""
    min_count: int
    """... at least so many jobs are chosen."""
    max_count: int
    """Filling ends at so many jobs."""
    room: Int64s
    """By class: most jobs of each kind that may be chosen, an upper bound of what is free; jobs beyond it are passed
    over."""
    waiting: Int64s
    """By class: how many jobs wait, at least."""
    counted: Bools
    """By class: whether its jobs count for the limits; the others are bounded by their room alone."""
    expected_count: int = 0
    """About how many jobs will be chosen. What is chosen of one kind does not depend on it, only how often is looked
    for more."""
    kind_count: int = 1
    """Kinds of each class."""

    def class_of(self, kinds: Int32s) -> Int32s:
        """Return the class indices of kinds."""
        return kinds if self.kind_count == 1 else kinds % self.room.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Jobs to ask for, in the order in which they would be placed if every one fitted; n jobs."""

    slots: Int32s
    """(n,) the jobs."""
    rows: Int64s
    """(n,) position of each job's queue among the queues given."""
    usage: Int64s
    """(n,) usage of each job, micro-cores."""
    classes: Int32s
    """(n,) class index of each job."""

    def take(self, chosen: npt.NDArray[np.integer] | Bools) -> Filled:
        """Return some of the jobs."""
        return Filled(
            slots=self.slots[chosen], rows=self.rows[chosen], usage=self.usage[chosen], classes=self.classes[chosen]
        )


def _ranks(queues: FillingQueues) -> Int64s:
    """Return the rank of each queue, or entity of the tree, which ties go by: flow until now, then the turn."""
    of, ids = queues.tree or queues, queues.tree.entity_id if queues.tree else queues.queue_id
    keys = [ids, flow_keys(of.flow, of.usage, of.weight)]
    holds_nothing = of.usage <= 0
    if has_true(holds_nothing):  # among them alone: it is they whom the same order would pass over again and again
        keys.insert(1, np.where(holds_nothing, _shuffled(ids, queues.turn), np.iinfo(np.uint64).max))
    ranks = np.empty(ids.size, dtype=np.int64)
    ranks[np.lexsort(keys)] = np.arange(ids.size)
    return ranks


def _shuffled(ids: Int64s, turn: int) -> npt.NDArray[np.uint64]:
    """Return numbers of ids whose order is another one for each turn, mixed as the generator SplitMix64 does."""
    mixed = ids.astype(np.uint64) * np.uint64(turn)
    for factor in _MIXERS:
        mixed = (mixed ^ (mixed >> np.uint64(30))) * factor
    return mixed >> np.uint64(32)


def _order(queues: FillingQueues, ranks: Int64s, rows: Int64s, usage: Int64s) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the filling order of jobs that stand queue by queue, and the key of each.

    Args:
        queues: The queues.
        ranks: Rank of each.
        rows: Queue of each job; jobs of one queue stand together, in its order.
        usage: Usage of each job.
    """
    if queues.tree is not None:
        return queues.tree.order(ranks, rows, usage)
    running, begins = usage.cumsum(), find_begins(rows)
    before = running[begins] - usage[begins]
    after = queues.usage[rows] + running - np.repeat(before, run_sizes(begins, rows.size))
    keys = flow_keys(queues.flow[rows], after, queues.weight[rows])
    return np.lexsort((ranks[rows], keys, queues.weight[rows] <= 0)), keys


class _Window:
    """The jobs at the heads of queues, as far as they were looked at.

    Queues are opened in the order in which their turn can come at the earliest, so that those whose turn is far away
    cost nothing. Below a tree all are opened at once: the turn of one depends on its whole branch.
    """

    def __init__(self, queues: FillingQueues, limits: FillingLimits) -> None:
        """Look at nothing yet."""
        self._queues = queues
        # One queue may fill all; nobody is looked at beyond what its class waits for, so large limits cost nothing.
        self._most_count = max(_MAX_CHUNK, min(limits.max_count, int(limits.waiting.sum())))
        self._ranks = _ranks(queues)
        self._earliest = flow_keys(queues.flow, queues.usage + queues.least_usage, queues.weight)
        self._zero = queues.weight <= 0
        self._turn = np.lexsort((self._ranks[: self._zero.size], self._earliest, self._zero))
        self._opened = 0
        self._first_queues = _FIRST_QUEUES if queues.tree is None else max(1, queues.queue_id.size)
        first_count = math.ceil(_SPARE * limits.expected_count / max(1, min(queues.queue_id.size, self._first_queues)))
        self._first_count = min(max(first_count, _FIRST_CHUNK), self._most_count)
        self._counts: dict[int, int] = {}
        """Queue -> jobs asked of it."""
        self._ends = np.zeros((2, 0), dtype=np.int64)
        """Opened queues with jobs not seen, and behind how many jobs of the merged order the last one seen stands."""
        self._parts: dict[int, Int32s] = {}
        self._exhausted = np.zeros(queues.queue_id.size, dtype=np.bool_)

    def open_more(self) -> bool:
        """Open more queues; return whether there were any left."""
        end = max(2 * self._opened, self._first_queues)
        rows = self._turn[self._opened : end]
        self._opened += rows.size
        self._look(rows.tolist(), self._first_count)
        return bool(rows.size)

    def _look(self, rows: list[int], count: int) -> None:
        for row, (slots, is_all) in zip(rows, self._queues.heads(rows, count), strict=True):
            self._counts[row], self._parts[row], self._exhausted[row] = count, slots, is_all

    def widen(self, wanted: int) -> bool:
        """Look at twice as many jobs of the queues that leave less than `wanted` jobs certain; tell if there were any.

        Those whose jobs seen reach beyond are left alone: most queues of unlike flows are.
        """
        rows = self._ends[0, self._ends[1] < wanted].tolist()
        rows = [row for row in rows if self._counts[row] < self._most_count]
        for row in rows:
            self._look([row], 2 * self._counts[row])
        return bool(rows)

    def merge(self, limits: FillingLimits) -> tuple[Filled, int, int]:
        """Return the jobs seen in filling order, and up to where they are certain.

        Jobs beyond what their kind has room for in all, counted within their queue, are left out: none of them can be
        placed, and those behind them have their turn as if they were not there. The last job seen of a queue stays, to
        tell how far was seen.

        A job seen is certain if no job not yet seen can come before it: none of the queues that were opened (first
        number), and none of the others (second number).
        """
        queues = self._queues
        opened = np.fromiter(self._parts, dtype=np.int64, count=len(self._parts))
        sizes = np.fromiter((part.size for part in self._parts.values()), dtype=np.int64, count=opened.size)
        slots = np.concatenate([np.zeros(0, dtype=np.int32), *self._parts.values()])
        rows = np.repeat(opened, sizes)
        classes = queues.job_class(slots)
        room = limits.room
        hopeful = _count_before(rows * (room.size * limits.kind_count) + classes) < room[limits.class_of(classes)]
        if not hopeful.all():
            hopeful[np.cumsum(sizes)[sizes > 0] - 1] = True
            sizes = np.bincount(np.repeat(np.arange(opened.size), sizes)[hopeful], minlength=opened.size)
            slots, rows, classes = slots[hopeful], rows[hopeful], classes[hopeful]
        usage = weighed = queues.job_usage(slots)
        if limits.kind_count > 1:
            of = limits.class_of(classes)
            weighed = np.where(_count_before(rows * room.size + of) < room[of], usage, 0)
        order, keys = _order(queues, self._ranks, rows, weighed)
        certain = before_others = slots.size
        self._ends = self._ends[:, :0]
        more = ~self._exhausted[opened] & (sizes > 0)
        if has_true(more):
            # The last job seen of a queue with more to come is certain, what stands behind it is not.
            position = np.empty(slots.size, dtype=np.int64)
            position[order] = np.arange(slots.size)
            ends = position[np.cumsum(sizes)[more] - 1] + 1
            certain = int(ends.min())
            self._ends = np.stack([opened[more], ends])
        if self._opened < self._turn.size:
            following = self._turn[self._opened]
            zero = self._zero[rows[order]]
            first = (zero < self._zero[following]) | (
                (zero == self._zero[following]) & (keys[order] < self._earliest[following])
            )
            before_others = int(np.count_nonzero(first))
        seen = Filled(slots=slots[order], rows=rows[order], usage=usage[order], classes=classes[order])
        return seen, certain, before_others


def _count_before(values: npt.NDArray[np.integer]) -> Int64s:
    """Return for each value how many equal ones stand before it."""
    order = np.argsort(values, kind="stable")
    begins = find_begins(values[order])
    counts = np.empty(values.size, dtype=np.int64)
    counts[order] = np.arange(values.size) - np.repeat(begins, run_sizes(begins, values.size))
    return counts


def _end(seen: Filled, kept: Bools, limits: FillingLimits) -> int | None:
    """Return behind how many of the jobs seen filling ends, None if it goes on behind them."""
    classes = limits.class_of(seen.classes)
    counted = chosen = kept & limits.counted[classes]
    if limits.kind_count > 1:
        places = true_places(kept)
        counted = chosen.copy()
        counted[places] &= _count_before(classes[places]) < limits.room[classes[places]]
    usage = np.where(counted, seen.usage, 0)
    usage_before = np.cumsum(usage) - usage
    count_before: Int64s = np.cumsum(counted) - counted
    ended = (usage_before > limits.usage_limit) & (count_before >= limits.min_count)
    ended |= np.cumsum(chosen) - chosen >= limits.max_count
    return int(np.argmax(ended)) if has_true(ended) else None


def fill(queues: FillingQueues, limits: FillingLimits) -> Filled:
    """Return the jobs to ask for, in order; nothing is changed.

    As long as no class has more jobs in line than its room, these are exactly the jobs, in exactly the order, that the
    one-by-one rule gives if every job fits. Jobs beyond their class's room are passed over, and what their queue
    has beyond it raises nothing for the jobs behind them.

    Args:
        queues: Queues with work.
        limits: When to stop.

    Complexity: O(k log k) in NumPy for k jobs looked at: at most twice as many per queue as it contributes and 32; more
    only where jobs are passed over, up to a bound. One call per queue opened and doubling.

    Source: 003 "Global prioritisation".
    """
    window = _Window(queues, limits)
    window.open_more()
    available = np.minimum(limits.room, limits.waiting)
    while True:
        seen, certain, before_others = window.merge(limits)
        classes = limits.class_of(seen.classes)
        kept: Bools = _count_before(seen.classes) < limits.room[classes]
        end = _end(seen, kept, limits)
        sure = min(certain, before_others)
        if end is not None and end <= sure:
            return seen.take(true_places(kept[:end]))
        taken = np.bincount(classes[:sure][kept[:sure]], minlength=available.size)
        if (taken >= available).all():
            return seen.take(true_places(kept[:sure]))
        wanted = seen.slots.size + 1 if end is None else end
        went_on = before_others < wanted and window.open_more()
        if certain < wanted:
            went_on |= window.widen(wanted)
        if not went_on:
            return seen.take(true_places(kept if end is None else kept[:end]))


def walk(
    queues: FillingQueues,
    jobs: Filled,
    place: Callable[[int, int], bool],
    first: Int64s = _NO_JOBS,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> npt.NDArray[np.intp]:
    """Try jobs one by one in the order of the rule; return those that found a place, in the order of their turns.

    Args:
        queues: As given to `fill`.
        jobs: The jobs; those of one queue stand in its order.
        place: (position in `jobs`, class index) -> whether the job found a place, which is then taken. After a no, no
            job of that class is tried any more.
        first: Positions of jobs whose turn is before all others', whatever the rule says, until one finds no place.
        is_over: Asked after each no: whether no job will find a place any more, so that none need be tried.

    Complexity: O(n log n) in NumPy until a first job finds no place; then O(log q) in Python per job, and the queues
    whose head was of the class per class that is exhausted.

    Source: 003 "Global prioritisation".
    """
    by_queue = np.argsort(jobs.rows, kind="stable")
    ranks = _ranks(queues)
    order, _ = _order(queues, ranks, jobs.rows[by_queue], jobs.usage[by_queue])
    turns = by_queue[order]
    if first.size:
        turns = np.concatenate([first, turns[~np.isin(turns, first)]])
    classes = jobs.classes[turns].tolist()
    for count, (job, class_index) in enumerate(zip(turns.tolist(), classes, strict=True)):
        if not place(job, class_index):
            placed = turns[:count]
            if is_over():
                return placed
            rest = turns[count + 1 :]
            rest = rest[jobs.classes[rest] != class_index]
            usage = _with_placed(queues, jobs.take(placed))
            further = _Turns(queues, ranks, jobs, rest, usage=usage).run(place, is_over)
            return np.concatenate([placed, np.array(further, dtype=np.intp)])
    return turns


def next_turn(queues: FillingQueues, jobs: Filled) -> int:
    """Return the position of the job whose turn is first, of at least one.

    Args:
        queues: The queues.
        jobs: Jobs, at most one of each queue.

    Complexity: O(n log n) in NumPy.
    """
    order, _ = _order(queues, _ranks(queues), jobs.rows, jobs.usage)
    return int(order[0])


def _with_placed(queues: FillingQueues, placed: Filled) -> Int64s:
    """Return the usage of each queue, or entity of the tree, once some jobs are placed."""
    if queues.tree is not None:
        return queues.tree.with_placed(placed.rows, placed.usage)
    usage = queues.usage.copy()
    np.add.at(usage, placed.rows, placed.usage)
    return usage


class _Turns:
    """The one-by-one rule with heaps of siblings, from the moment on when some class is exhausted.

    Entities are queues, and what stands above them if there is a tree. Each has its next job, and stands with it in
    the heap of its parent; where it changes, the entries above are made anew and the old ones void.
    """

    def __init__(
        self, queues: FillingQueues, ranks: Int64s, jobs: Filled, rest: npt.NDArray[np.intp], *, usage: Int64s
    ) -> None:
        """Begin with the jobs that are left.

        Args:
            queues: The queues.
            ranks: Rank of each entity.
            jobs: All jobs.
            rest: Positions of those left, of one queue in its order.
            usage: Usage of each entity by now.
        """
        rest = rest[np.argsort(jobs.rows[rest], kind="stable")]
        rows = jobs.rows[rest]
        begins = find_begins(rows)
        self._jobs = rest.tolist()
        self._queue = rows.tolist()
        self._classes = jobs.classes[rest].tolist()
        self._sizes = jobs.usage[rest].tolist()
        present = rows[begins].tolist()
        self._next = dict(zip(present, begins.tolist(), strict=True))
        self._end = dict(zip(present, np.append(begins, rows.size)[1:].tolist(), strict=True))
        of = queues.tree or queues
        self._parent = queues.tree.parent.tolist() if queues.tree else [-1] * usage.size
        self._usage = usage.tolist()
        self._flow = of.flow.tolist()
        self._weight = np.where(of.weight > 0, of.weight, 1.0).tolist()
        self._is_last = (of.weight <= 0).tolist()
        self._rank = ranks.tolist()
        self._exhausted: set[int] = set()
        self._led_by: dict[int, set[int]] = {}
        """Class -> queues whose head is of that class."""
        self._head = [-1] * usage.size
        """Place of the next job of each entity, -1 if it has none."""
        self._stamp = [0] * usage.size
        """Grows with each new entry of an entity; older ones are void."""
        self._heaps: dict[int, list[tuple[bool, float, int, int, int]]] = {}
        """Parent -> (weight 0, key, rank, entity, stamp) of those below it."""

    def run(self, place: Callable[[int, int], bool], is_over: Callable[[], bool]) -> list[int]:
        """Return the jobs that found a place, in the order of their turns."""
        for queue in self._next:
            self._line_up(queue)
        placed: list[int] = []
        while (first := self._first(-1)) >= 0:
            at = self._head[first]
            queue, class_index = self._queue[at], self._classes[at]
            if place(self._jobs[at], class_index):
                placed.append(self._jobs[at])
                entity = queue
                while entity >= 0:
                    self._usage[entity] += self._sizes[at]
                    entity = self._parent[entity]
                self._led_by[class_index].discard(queue)
                self._next[queue] = at + 1
                self._line_up(queue)
            elif is_over():
                break
            else:
                self._exhausted.add(class_index)
                for other in self._led_by.pop(class_index):
                    self._line_up(other)
        return placed

    def _first(self, parent: int) -> int:
        """Return which entity below a parent, -1 for the root, comes first; -1 if there is none with a job."""
        heap = self._heaps.setdefault(parent, [])
        while heap and heap[0][4] != self._stamp[heap[0][3]]:
            heapq.heappop(heap)
        return heap[0][3] if heap else -1

    def _line_up(self, queue: int) -> None:
        """Put a queue into line with its first job that may still find a place, and what is above it accordingly."""
        at, end, classes = self._next[queue], self._end[queue], self._classes
        while at < end and classes[at] in self._exhausted:
            at += 1
        self._next[queue] = at
        self._head[queue] = at if at < end else -1
        if at < end:
            self._led_by.setdefault(classes[at], set()).add(queue)
        entity = queue
        while True:
            self._stamp[entity] += 1
            at, parent = self._head[entity], self._parent[entity]
            if at >= 0:
                flow = max(self._flow[entity], (self._usage[entity] + self._sizes[at]) / MICRO)
                key = flow / self._weight[entity]
                item = (self._is_last[entity], key, self._rank[entity], entity, self._stamp[entity])
                heapq.heappush(self._heaps.setdefault(parent, []), item)
            if parent < 0:
                return
            first = self._first(parent)
            self._head[parent] = self._head[first] if first >= 0 else -1
            entity = parent

"""The candidates of one round, merged from the samplers' answers and sorted by class, and the choice among them.

Candidates are kept sorted per class and touched only when their turn comes, so the cost of a run does not grow with the
number of candidates.

Source: seed 000 "Decision Phase"; design section 5, "Round" 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush, heapreplace
from operator import itemgetter
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins, has_true, run_sizes, true_places
from argosy_core.errors import InvalidRequest, NotFound
from argosy_core.framework import DECISION, CandidateCycle, Entries, Fault, Framework, Point
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.nodes import Room

__all__ = ["CandidatePool", "CandidateQueue", "Candidates", "DecisionProfile", "choose", "choose_first"]

Bools = npt.NDArray[np.bool_]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SCORE_STEPS: Final = 1000
_TIE_BITS: Final = 20
_TIES: Final = (1 << _TIE_BITS) - 1
_MAX_SCORE: Final = 2**40
_MOST_COUNTED: Final = 1 << 16
_ENTRY: Final = itemgetter(2)
"""Entry of an item of a queue's heap."""
_FULL: Final = -2
"""Stamp of an entry that is looked at no more: most of a full pool's are, by each of many classes."""


class Candidates(Protocol):
    """What the decision reads of a sampler's answer; `SampleReply` has it."""

    @property
    def node(self) -> Int32s:
        """(n,) node indices."""
        ...

    @property
    def free(self) -> Int64s:
        """(n, r) free on them."""
        ...

    @property
    def offset(self) -> Int32s:
        """(c + 1,) positions in `candidate`."""
        ...

    @property
    def candidate(self) -> Int32s:
        """(k,) positions in `node`."""
        ...

    @property
    def score(self) -> npt.NDArray[np.float32]:
        """(k,) scores."""
        ...

    @property
    def total_free(self) -> Int64s:
        """(r,) free in the whole cluster."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionProfile:
    """Global policies of the decision phase."""

    framework: Framework = field(default_factory=partial(Framework, kind=DECISION))
    """Filters and scores over the candidates of all clusters; scores are added to the samplers' scores."""
    spread: bool = True
    """A node's score shrinks with what it has been given in this round, so that runs spread as the sampling score
    means them to; those that ask for devices fill the best node first. False keeps all scores as sampled (packing
    profiles)."""


@dataclass(slots=True)
class CandidateQueue:
    """The candidates of one class: those whose turn has not come, sorted, and a heap of those in play."""

    asked: list[tuple[int, int]]
    """(resource, amount) pairs that a pod of the class asks for."""
    ports: tuple[HostPort, ...]
    """Host ports that it takes."""
    position: int
    """Where the candidate whose turn is next stands in the pool's keys."""
    end: int
    """Where the candidates of the class end."""
    begin: int = 0
    """Where they begin."""
    spreads: bool = True
    """Whether a candidate falls behind others by what it is given: see `DecisionProfile.spread`."""
    heap: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(key now, key as sampled, entry, stamp of the entry when it was last known to fit)."""


class CandidatePool:
    """The candidates of one round, from all samplers that answered.

    Args:
        class_ids: Classes that wait, each once.
        requests: (classes, r) base units that a pod of each asks for.
        profile: Global filters and scores.
        ports: Host ports that a pod of each class takes, by class id; those that take none may be left out.
        definition: Returns the class of an id, for plugins.
        cluster_names: Names of the clusters by number, for plugins.
        devices: Columns of `requests` that are devices: classes that ask for one fill the best node first.
    """

    def __init__(
        self,
        class_ids: Int32s,
        requests: Int64s,
        profile: DecisionProfile | None = None,
        *,
        ports: Mapping[int, tuple[HostPort, ...]] | None = None,
        definition: Callable[[int], SchedulingClass] | None = None,
        cluster_names: Sequence[str] = (),
        devices: Sequence[int] = (),
    ) -> None:
        """Start without candidates."""
        if len(class_ids) != len(requests):
            raise InvalidRequest("there must be one request per class")
        self.profile = profile or DecisionProfile()
        self._requests = requests
        self._class_ids = class_ids
        self._ports = ports or {}
        self._definition = definition or _undefined
        self._cluster_names = cluster_names
        self._devices = frozenset(devices)
        self._answers: list[tuple[int, Int32s, Candidates]] = []
        self._places: dict[int, tuple[int, int, int]] | None = None
        """By class id, once decided upon: row in `requests`, and where its candidates begin and end."""
        self._queues: dict[int, CandidateQueue] = {}
        """By class id, of those asked for: most of a full pool's classes never are."""
        self.cluster = np.zeros(0, np.int16)
        """(entries,) cluster of each entry, once decided upon."""
        self.node = np.zeros(0, np.int32)
        """(entries,) node index of each entry, once decided upon."""
        self.room = Room([], requests.shape[1])
        """What is left at each entry; falls as runs are decided."""
        self.sampled: list[int] = []
        """By entry and resource (at `entry * width + resource`): base units free when sampled."""
        self.load: list[float] = []
        """By entry: share of what was free that was given away in this round, mean over the resources asked for."""
        self.stamp: list[int] = []
        """By entry: how often something was given away; `_FULL` once no class fits any more."""
        self._open_count = 0
        self.least = _pairs(requests.min(axis=0).tolist()) if len(requests) else []
        """What every class asks for, at least."""
        self.keys: list[int] = []
        """Keys of all candidates, by class, ascending within it: best first."""
        self.entries: list[int] = []
        """Entry of each key."""
        self.entry_column = np.zeros(0, np.int32)
        """The same as an array."""
        self.faults: dict[int, Fault] = {}
        """By class id, once decided upon: which plugin turned the whole class away, and why."""

    def add(self, cluster: int, class_ids: Int32s, reply: Candidates) -> None:
        """Add the answer of one sampler.

        Args:
            cluster: Number of the cluster, 0 or more; each answers once.
            class_ids: Classes that it was asked for, in the order of its answer.
            reply: The answer; resource columns as in `requests`.

        Raises:
            InvalidRequest: The answer does not fit the request, or the pool was decided upon before.
        """
        if self._places is not None:
            raise InvalidRequest("the round has begun to decide; candidates come too late")
        if len(reply.offset) != len(class_ids) + 1 or reply.free.shape[1:] != self._requests.shape[1:]:
            raise InvalidRequest("the sampler's answer does not fit what it was asked")
        if len(reply.candidate):
            self._answers.append((cluster, class_ids, reply))

    @property
    def is_full(self) -> bool:
        """Return whether what was given away left no entry that any class fits; False before the first was given."""
        return self._places is not None and not self._open_count

    def note_full(self, entry: int) -> None:
        """Take note that no class fits an entry any more."""
        self.stamp[entry] = _FULL
        self._open_count -= 1

    def queue(self, class_id: int, rng: np.random.Generator) -> CandidateQueue | None:
        """Return the candidates of a class; None if it has none."""
        self.merge(rng)
        assert self._places is not None
        queue = self._queues.get(class_id)
        if queue is None and (place := self._places.get(class_id)) is not None:
            queue = self._queues[class_id] = self._make_queue(class_id, *place)
        return queue

    def merge(self, rng: np.random.Generator) -> None:
        """Take no more answers: from now on `cluster` and `node` say what the entries are."""
        if self._places is None:
            self._places = self._build(rng)

    def _build(self, rng: np.random.Generator) -> dict[int, tuple[int, int, int]]:
        """Merge the answers, apply the global policies, and sort each class's candidates; return their places."""
        rows, entry, scores, entries = self._merge()
        if not len(rows):
            return {}
        keep: Bools | None = None
        framework = self.profile.framework
        if framework.has(Point.FILTER, Point.SCORE):
            by_class = np.argsort(rows, kind="stable")
            rows, entry, scores = rows[by_class], entry[by_class], scores[by_class]
            cycle = CandidateCycle(self._class_ids[rows], entry, entries, self._definition)
            keep = framework.filter(cycle)
            scores += framework.score(cycle)
            self.faults = cycle.faults
        if scores.min() < 0:
            # The share of a node that was given away is taken off its points, so these must not be below 0.
            lowest = np.zeros(len(self._requests))
            np.minimum.at(lowest, rows, scores)
            scores -= lowest[rows]
        steps = np.rint(np.minimum(scores, _MAX_SCORE / _SCORE_STEPS) * _SCORE_STEPS).astype(np.int64)
        keys = (-steps << _TIE_BITS) | self._ties(rows, entry, rng)
        order = np.argsort(keys) if keep is None else true_places(keep)[np.argsort(keys[keep])]
        # Of numbers of 16 bits NumPy counts how often each occurs, which costs a fifth of comparing them.
        width = np.uint16 if len(self._requests) <= _MOST_COUNTED else np.int32
        order = order[np.argsort(rows[order].astype(width), kind="stable")]
        self.entry_column = entry[order]
        self.keys, self.entries = keys[order].tolist(), self.entry_column.tolist()
        return self._split(rows[order])

    def _ties(self, rows: Int32s, entry: Int32s, rng: np.random.Generator) -> Int64s:
        """Return what orders candidates of equal score: drawn for each, or by node where devices are asked for."""
        ties = rng.integers(0, 1 << _TIE_BITS, len(rows))
        if self._devices:
            asking = np.any(self._requests[:, sorted(self._devices)] > 0, axis=1)[rows]
            if has_true(asking):
                ties[asking] = rng.integers(0, 1 << _TIE_BITS, len(self.node))[entry[asking]]
        return ties

    def _merge(self) -> tuple[Int32s, Int32s, Floats, Entries]:
        """Return class row, entry and score of the candidates whose class waits, and the entries."""
        sizes = [len(reply.node) for _, _, reply in self._answers]
        begins = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))[: len(sizes)].tolist()
        width = self.room.width
        free = np.concatenate([np.zeros((0, width), np.int64), *(reply.free for _, _, reply in self._answers)])
        self.cluster = np.repeat(np.array([number for number, _, _ in self._answers], np.int16), sizes)
        self.node = np.concatenate([np.zeros(0, np.int32), *(reply.node for _, _, reply in self._answers)])
        self.room = Room(free.ravel().tolist(), width)
        self.sampled = self.room.free.copy()
        self.load = [0.0] * len(free)
        self.stamp = [0] * len(free)
        self._open_count = len(free)
        cluster_free = np.zeros((1 + max((number for number, _, _ in self._answers), default=0), width), np.int64)
        for number, _, reply in self._answers:
            cluster_free[number] = reply.total_free
        entries = Entries(
            cluster=self.cluster,
            node=self.node,
            free=free,
            cluster_free=cluster_free,
            cluster_names=self._cluster_names,
        )
        counts = [reply.offset[1:] - reply.offset[:-1] for _, _, reply in self._answers]
        none = np.zeros(0, np.int32)
        asked = np.concatenate([none, *(ids for _, ids, _ in self._answers)])
        rows = np.repeat(self._rows(asked), np.concatenate([none, *counts]))
        entry = [reply.candidate + begin for begin, (_, _, reply) in zip(begins, self._answers, strict=True)]
        scores = np.concatenate([np.zeros(0), *(reply.score for _, _, reply in self._answers)])
        waits = true_places(rows >= 0)
        return (
            rows[waits],
            np.concatenate([none, *entry]).astype(np.int32)[waits],
            np.nan_to_num(scores[waits].astype(np.float64)),
            entries,
        )

    def _rows(self, class_ids: Int32s) -> Int32s:
        """Return the row in `requests` of each class id, -1 where it does not wait."""
        if not self._class_ids.size:
            return np.full(class_ids.size, -1, dtype=np.int32)
        by_id = np.argsort(self._class_ids)
        ids = self._class_ids[by_id]
        places = np.minimum(ids.searchsorted(class_ids), ids.size - 1)
        return np.where(ids[places] == class_ids, by_id[places], -1).astype(np.int32)

    def _split(self, rows: Int32s) -> dict[int, tuple[int, int, int]]:
        """Return row, begin and end of the candidates of each class by its id; `rows` are of the sorted candidates."""
        begins = find_begins(rows)
        used, ends = rows[begins], begins + run_sizes(begins, len(rows))
        places = zip(used.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return dict(zip(self._class_ids[used].tolist(), places, strict=True))

    def _make_queue(self, class_id: int, row: int, begin: int, end: int) -> CandidateQueue:
        """Return the candidates of a class, none of which has had its turn."""
        asked, devices = _pairs(self._requests[row].tolist()), self._devices
        return CandidateQueue(
            asked=asked,
            ports=self._ports.get(class_id, ()),
            position=begin,
            end=end,
            begin=begin,
            spreads=self.profile.spread and (not devices or devices.isdisjoint(column for column, _ in asked)),
        )


def _pairs(amounts: list[int]) -> list[tuple[int, int]]:
    """Return (resource, amount) of what is asked for."""
    return [(column, amount) for column, amount in enumerate(amounts) if amount > 0]


def _undefined(class_id: int) -> SchedulingClass:
    """Stand in for definitions that the pool was not given."""
    raise NotFound(f"class {class_id} is not defined")


def choose_first(pool: CandidatePool, queue: CandidateQueue) -> int:
    """Give one run the best candidate of its class and return it; -1 if there is none.

    The same choice as `choose` makes for one candidate of which none stands apart. The candidate stays where it is in
    the heap, since its key falls only when it is looked at again; rounds spend most of their time here.
    """
    entries, keys, stamp = pool.entries, pool.keys, pool.stamp
    heap, position, end = queue.heap, queue.position, queue.end
    last = position + 2
    while True:
        # Keys as sampled bound keys now from below, so the next in line is due when it beats the heap.
        is_new = position < end and (not heap or (position < last and keys[position] <= heap[0][0]))
        if is_new:
            now = key = keys[position]
            entry, known = entries[position], -1
            position += 1
        elif heap:
            now, key, entry, known = heap[0]
        else:
            queue.position = position
            return -1
        version = stamp[entry]
        if known != version:
            fresh = _key_now(pool, queue, key, entry) if version != _FULL else None
            if fresh is None:
                if not is_new:
                    heappop(heap)
                continue
            item = (max(fresh, now), key, entry, version)
            if is_new:
                heappush(heap, item)
            elif fresh > now:
                heapreplace(heap, item)
            else:
                heap[0] = item  # no other item has this key and entry, so it stays the least
            if fresh > now:
                continue
        queue.position = position
        _give(pool, entry, queue)
        return entry


def _key_now(pool: CandidatePool, queue: CandidateQueue, key: int, entry: int) -> int | None:
    """Return the key of a candidate by what its entry was given until now; None if it is out for this round."""
    version = pool.stamp[entry]
    if version == _FULL:
        return None
    free, base = pool.room.free, entry * pool.room.width
    for column, amount in queue.asked:  # as `Room.fits` does
        if free[base + column] < amount:
            return None
    if queue.ports and not pool.room.claims.is_free(entry, queue.ports):
        return None
    if not version or not queue.spreads:
        return key
    # The score shrinks by the share of the node that was given away.
    return int((key >> _TIE_BITS) * (1.0 - pool.load[entry])) << _TIE_BITS | (key & _TIES)


def choose(
    pool: CandidatePool,
    queue: CandidateQueue,
    count: int,
    chosen: list[int],
    *,
    last_choice: frozenset[int],
    barred: frozenset[int],
) -> None:
    """Append up to `count` candidates of one run, those of last choice behind all others, and give it its first."""
    entries, keys, stamp = pool.entries, pool.keys, pool.stamp
    heap = queue.heap
    position, end = queue.position, queue.end
    apart = last_choice | barred if barred else last_choice
    # Enough to choose well among; without a bound a run would look at every node that others were given.
    last = position + 2 * count + len(apart)
    picked: list[tuple[int, int, int, int]] = []
    put_off: list[tuple[int, int, int, int]] = []
    while len(picked) < count:
        # Keys as sampled bound keys now from below, so the next in line is due when it beats the heap.
        if position < end and (not heap or (position < last and keys[position] <= heap[0][0])):
            now = key = keys[position]
            entry, known = entries[position], -1
            position += 1
        elif heap:
            now, key, entry, known = heappop(heap)
        else:
            break
        version = stamp[entry]
        if known != version:
            fresh = _key_now(pool, queue, key, entry)
            if fresh is None:
                continue
            if fresh > now:
                heappush(heap, (fresh, key, entry, version))
                continue
        (put_off if entry in apart else picked).append((now, key, entry, version))
    queue.position = position
    picked += _put_back(heap, put_off, barred) if barred else put_off
    if not picked:
        return
    chosen += [item[2] for item in picked[:count]]
    for item in picked:
        heappush(heap, item)
    _give(pool, picked[0][2], queue)


def _put_back(
    heap: list[tuple[int, int, int, int]], items: list[tuple[int, int, int, int]], barred: frozenset[int]
) -> list[tuple[int, int, int, int]]:
    """Put the items of barred entries back, for other runs, and return the others."""
    for item in items:
        if item[2] in barred:
            heappush(heap, item)
    return [item for item in items if item[2] not in barred]


def _give(pool: CandidatePool, entry: int, queue: CandidateQueue) -> None:
    """Take a pod of a class off what is left of an entry."""
    room, sampled, asked = pool.room, pool.sampled, queue.asked
    free = room.free
    given, base = 0.0, entry * room.width
    for column, amount in asked:  # as `Room.take` does
        at = base + column
        free[at] -= amount
        given += amount / sampled[at]
    if queue.ports:
        room.claims.take(entry, queue.ports)
    load = pool.load[entry] + given / (len(asked) or 1)
    pool.load[entry] = min(1.0, load)
    for column, amount in pool.least:
        if free[base + column] < amount:
            pool.note_full(entry)
            return
    pool.stamp[entry] += 1

"""The decision phase on the leader: which nodes each run is tried on, best first.

The leader tries waiting runs in fairness order (never class by class) over the candidates that the samplers answered. A
run gets up to m candidates that can hold it, over all clusters; the first one is taken off what is free there, so that
the next runs, of whatever class, see what is left. Candidates of equal score come in random order.

Candidates are kept sorted per class and touched only when their turn comes, so the cost of a run does not grow with the
number of candidates.

Source: seed 000 "Decision Phase"; design section 5, "Round" 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush, heapreplace
from itertools import chain
from operator import itemgetter
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins, true_places
from argosy_core.errors import InvalidRequest, NotFound
from argosy_core.framework import DECISION, CandidateCycle, Entries, Fault, Framework, Point
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.interning import distinct
from argosy_core.nodes import Room

__all__ = [
    "CandidatePool",
    "Candidates",
    "Decider",
    "Decision",
    "DecisionProfile",
    "decide",
]

Bools = npt.NDArray[np.bool_]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SCORE_STEPS: Final = 1000
_TIE_BITS: Final = 20
_TIES: Final = (1 << _TIE_BITS) - 1
_MAX_SCORE: Final = 2**40
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
    means them to. False keeps scores as sampled: fill the best node first (packing profiles)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Commit candidates per run, best first; n runs, k candidates."""

    offset: Int32s
    """(n + 1,) positions in the columns below."""
    cluster: Int16s
    """(k,) cluster."""
    node: Int32s
    """(k,) node index in that cluster."""


@dataclass(slots=True)
class _Queue:
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
        self._row_of = {class_id: row for row, class_id in enumerate(class_ids.tolist())}
        self._answers: list[tuple[int, Int32s, Candidates]] = []
        self._queues: dict[int, _Queue] | None = None
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
        self.least = _pairs(requests.min(axis=0).tolist()) if len(requests) else []
        """What every class asks for, at least."""
        self.keys: list[int] = []
        """Keys of all candidates, by class, ascending within it: best first."""
        self.entries: list[int] = []
        """Entry of each key."""
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
        if self._queues is not None:
            raise InvalidRequest("the round has begun to decide; candidates come too late")
        if len(reply.offset) != len(class_ids) + 1 or reply.free.shape[1:] != self._requests.shape[1:]:
            raise InvalidRequest("the sampler's answer does not fit what it was asked")
        if len(reply.candidate):
            self._answers.append((cluster, class_ids, reply))

    def queue(self, class_id: int, rng: np.random.Generator) -> _Queue | None:
        """Return the candidates of a class; None if it has none."""
        self.merge(rng)
        assert self._queues is not None
        return self._queues.get(class_id)

    def merge(self, rng: np.random.Generator) -> None:
        """Take no more answers: from now on `cluster` and `node` say what the entries are."""
        if self._queues is None:
            self._queues = self._build(rng)

    def _build(self, rng: np.random.Generator) -> dict[int, _Queue]:
        """Merge the answers, apply the global policies, and sort each class's candidates."""
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
        keys = (-steps << _TIE_BITS) | rng.integers(0, 1 << _TIE_BITS, len(steps))
        order = np.argsort(keys) if keep is None else true_places(keep)[np.argsort(keys[keep])]
        order = order[np.argsort(rows[order], kind="stable")]
        self.keys, self.entries = keys[order].tolist(), entry[order].tolist()
        return self._split(rows[order])

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
        class_ids = [np.repeat(ids, np.diff(reply.offset)) for _, ids, reply in self._answers]
        entry = [reply.candidate + begin for begin, (_, _, reply) in zip(begins, self._answers, strict=True)]
        scores = np.concatenate([np.zeros(0), *(reply.score for _, _, reply in self._answers)])
        rows = self._rows(np.concatenate([np.zeros(0, np.int32), *class_ids]))
        waits = true_places(rows >= 0)
        return (
            rows[waits],
            np.concatenate([np.zeros(0, np.int32), *entry]).astype(np.int32)[waits],
            np.nan_to_num(scores[waits].astype(np.float64)),
            entries,
        )

    def _rows(self, class_ids: Int32s) -> Int32s:
        """Return the row in `requests` of each class id, -1 where it does not wait."""
        ids, which = distinct(class_ids)
        rows = np.array([self._row_of.get(class_id, -1) for class_id in ids.tolist()], dtype=np.int32)
        return np.asarray(rows[which])

    def _split(self, rows: Int32s) -> dict[int, _Queue]:
        """Return the queues by class id; `rows` are those of the sorted candidates."""
        begins = find_begins(rows)
        used = rows[begins]
        ends = np.append(begins, len(rows))[1:]
        asked = [_pairs(amounts) for amounts in self._requests[used].tolist()]
        columns = (self._class_ids[used].tolist(), asked, begins.tolist(), ends.tolist())
        return {
            class_id: _Queue(asked=pairs, ports=self._ports.get(class_id, ()), position=begin, end=end, begin=begin)
            for class_id, pairs, begin, end in zip(*columns, strict=True)
        }


def _pairs(amounts: list[int]) -> list[tuple[int, int]]:
    """Return (resource, amount) of what is asked for."""
    return [(column, amount) for column, amount in enumerate(amounts) if amount > 0]


def _undefined(class_id: int) -> SchedulingClass:
    """Stand in for definitions that the pool was not given."""
    raise NotFound(f"class {class_id} is not defined")


class Decider:
    """Chooses commit candidates run by run; what is given away is taken off the pool, so later runs see what is left.

    The first candidate of each run is the best. Its further ones are nodes that have room left once all runs have their
    first choices, each held for one run alone as long as there are enough, drawn at random and from the cluster of the
    first one if it has some. Were they the next best, they would be the first choices of the runs behind it and of
    other leaders: who loses its own node would take theirs, and so on.

    Args:
        pool: Candidates of the round.
        commit_candidate_count: m, at least 1.
        rng: Orders candidates of equal score, and draws further candidates.
        takes_best: Further candidates are chosen with the first one, the next best, so that `chosen_last` has them all.

    Complexity: about 4 us a run for m = 3, plus about 1 us a candidate of the round.
    """

    def __init__(
        self,
        pool: CandidatePool,
        commit_candidate_count: int,
        rng: np.random.Generator,
        *,
        takes_best: bool = False,
    ) -> None:
        """Start with no run decided.

        Raises:
            InvalidRequest: m is below 1.
        """
        if commit_candidate_count < 1:
            raise InvalidRequest(f"commit_candidate_count is {commit_candidate_count}, but must be 1 or more")
        self._pool = pool
        self._count = commit_candidate_count
        self._rng = rng
        self._takes_best = takes_best
        self._chosen: list[list[int]] = []
        """Entries of each run."""
        self._lacking: list[tuple[int, int]] = []
        """(run, its class) of those that are to get further candidates."""
        self._class_id = -1
        self._queue: _Queue | None = None

    def place(
        self, class_id: int, last_choice: frozenset[int] = frozenset(), barred: frozenset[int] = frozenset()
    ) -> bool:
        """Choose candidates for one more run; return whether there is any. A run without one is not counted.

        Args:
            class_id: Its class.
            last_choice: Entries that it gets only where there are not enough others.
            barred: Entries that it does not get.
        """
        if class_id != self._class_id:
            self._class_id, self._queue = class_id, self._pool.queue(class_id, self._rng)
        if self._queue is None:
            return False
        if not (self._takes_best or last_choice or barred):
            entry = _choose_first(self._pool, self._queue)
            if entry < 0:
                return False
            if self._count > 1:
                self._lacking.append((len(self._chosen), class_id))
            self._chosen.append([entry])
            return True
        chosen: list[int] = []
        _choose(self._pool, self._queue, self._count, chosen, last_choice=last_choice, barred=barred)
        if chosen:
            self._chosen.append(chosen)
        return bool(chosen)

    def chosen_last(self) -> list[int]:
        """Return the entries of the last run that was placed, as far as they are chosen."""
        return self._chosen[-1]

    def decision(self) -> Decision:
        """Return the candidates of the runs that have any, in the order in which they were placed."""
        # All look before any takes, so that no class is without only since another one was asked about before it.
        spares: dict[int, _Spares] = {}
        for class_id in dict.fromkeys(class_id for _, class_id in self._lacking):
            queue = self._pool.queue(class_id, self._rng)
            assert queue is not None
            spares[class_id] = _Spares(self._pool, queue, self._rng)
        for run, class_id in self._lacking:
            if (spare := spares[class_id]).has_any:
                spare.add(self._chosen[run], self._count)
        self._lacking.clear()
        pool, sizes = self._pool, [len(entries) for entries in self._chosen]
        entries = np.fromiter(chain.from_iterable(self._chosen), np.int64, sum(sizes))
        offset = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        return Decision(offset=offset, cluster=pool.cluster[entries], node=pool.node[entries])


class _Spares:
    """Candidates of one class that first choices leave room on, by cluster and in random order.

    Args:
        pool: Candidates of the round, all first choices taken off.
        queue: Those of the class.
        rng: Orders them.
    """

    def __init__(self, pool: CandidatePool, queue: _Queue, rng: np.random.Generator) -> None:
        """Find them."""
        self._pool = pool
        self._queue = queue
        self._clusters: dict[int, list[int]] = {}
        entries = pool.entries[queue.begin : queue.end]
        drawn = [entries[place] for place in rng.permutation(len(entries)).tolist()]
        self._all = [entry for entry in drawn if pool.room.fits(entry, queue.asked, queue.ports)]
        for entry, cluster in zip(self._all, pool.cluster[self._all].tolist(), strict=True):
            self._clusters.setdefault(cluster, []).append(entry)
        self.has_any = bool(self._all)
        self._next = 0
        self._rank = {entry: rank for rank, entry in enumerate(entries)}

    def add(self, chosen: list[int], count: int) -> None:
        """Give a run candidates until it has `count`, best first: its own, and then what others have as well."""
        first = chosen[0]
        own = int(self._pool.cluster[first])
        self._take(own, chosen, count)
        for cluster in list(self._clusters) if len(chosen) < count else ():
            self._take(cluster, chosen, count)
        for _ in range(len(self._all) if len(chosen) < count else 0):
            entry = self._all[self._next]
            self._next = (self._next + 1) % len(self._all)
            if entry not in chosen:
                chosen.append(entry)
                if len(chosen) == count:
                    break
        chosen[1:] = sorted(chosen[1:], key=self._rank.__getitem__)

    def _take(self, cluster: int, chosen: list[int], count: int) -> None:
        """Give a run candidates of a cluster that nobody else gets."""
        spare, room, queue = self._clusters.get(cluster, []), self._pool.room, self._queue
        put_back = []
        while spare and len(chosen) < count:
            entry = spare.pop()
            if entry in chosen:
                put_back.append(entry)
            elif room.fits(entry, queue.asked, queue.ports):
                room.take(entry, queue.asked, queue.ports)
                chosen.append(entry)
        spare += put_back
        if not spare:
            self._clusters.pop(cluster, None)


def decide(pool: CandidatePool, waiting: Int32s, commit_candidate_count: int, rng: np.random.Generator) -> Decision:
    """Choose commit candidates for runs in a given order; a run without a candidate has an empty part.

    Args:
        pool: Candidates of the round.
        waiting: n class ids, in the order of the runs.
        commit_candidate_count: m, at least 1.
        rng: Orders candidates of equal score.

    Raises:
        InvalidRequest: m is below 1.
    """
    decider = Decider(pool, commit_candidate_count, rng)
    placed = [decider.place(class_id) for class_id in waiting.tolist()]
    decision = decider.decision()
    counts = np.zeros(len(placed), np.int32)
    counts[np.array(placed, np.bool_)] = np.diff(decision.offset)
    offset = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return Decision(offset=offset, cluster=decision.cluster, node=decision.node)


def _choose_first(pool: CandidatePool, queue: _Queue) -> int:
    """Give one run the best candidate of its class and return it; -1 if there is none.

    The same choice as `_choose` makes for one candidate of which none stands apart. The candidate stays where it is in
    the heap, since its key falls only when it is looked at again; rounds spend most of their time here.
    """
    spread, free, load, stamp = pool.profile.spread, pool.room.free, pool.load, pool.stamp
    entries, keys, width = pool.entries, pool.keys, pool.room.width
    heap, asked, ports = queue.heap, queue.asked, queue.ports
    position, end = queue.position, queue.end
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
            fresh = key
            is_out = version == _FULL
            if not is_out:
                base = entry * width
                for column, amount in asked:  # as `Room.fits` does
                    if free[base + column] < amount:
                        is_out = True
                        break
                is_out = is_out or bool(ports and not pool.room.claims.is_free(entry, ports))
            if is_out:  # and will be in all of this round
                if not is_new:
                    heappop(heap)
                continue
            if spread and version:
                # The score shrinks by the share of the node that was given away.
                fresh = int((key >> _TIE_BITS) * (1.0 - load[entry])) << _TIE_BITS | (key & _TIES)
            if fresh > now:
                item = (fresh, key, entry, version)
                heappush(heap, item) if is_new else heapreplace(heap, item)
                continue
            item = (now, key, entry, version)
            if is_new:
                heappush(heap, item)
            else:
                heap[0] = item  # no other item has this key and entry, so it stays the least
        queue.position = position
        _give(pool, entry, queue)
        return entry


def _choose(
    pool: CandidatePool,
    queue: _Queue,
    count: int,
    chosen: list[int],
    *,
    last_choice: frozenset[int],
    barred: frozenset[int],
) -> None:
    """Append up to `count` candidates of one run, those of last choice behind all others, and give it its first."""
    spread, fits, load, stamp = pool.profile.spread, pool.room.fits, pool.load, pool.stamp
    entries, keys = pool.entries, pool.keys
    heap, asked, ports = queue.heap, queue.asked, queue.ports
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
            if version == _FULL or not fits(entry, asked, ports):
                continue  # nor will it do so again in this round
            fresh = key
            if spread and version:
                # The score shrinks by the share of the node that was given away.
                fresh = int((key >> _TIE_BITS) * (1.0 - load[entry])) << _TIE_BITS | (key & _TIES)
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


def _give(pool: CandidatePool, entry: int, queue: _Queue) -> None:
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
            pool.stamp[entry] = _FULL
            return
    pool.stamp[entry] += 1

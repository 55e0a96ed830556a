"""Which clusters may be asked for which classes, why others are not, and whom a round asks.

A class is asked of a cluster that may be given work, whose nodes are large enough per resource, whose free sums are
large enough, and which has not said why it has no node for the class (`waits`).

Source: design section 5, "Round" 2 and 5; seed 000 "Sampling Phase".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.job.tables.interning import distinct
from argosy_core.job.tables.live import PENDING
from argosy_core.job.tables.members import Members
from argosy_core.placement import SampleRequest, WaitReason
from argosy_core.scheduler.columns.codes import REASON_NO_ROOM, REASON_NONE, REASON_RETURNED
from argosy_core.scheduler.memory.results import ClassResult
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "Asking",
    "askable",
    "choose",
    "count_room",
    "count_wanted",
    "find_placeable",
    "find_unjudged",
    "hold_up",
    "reasons_at",
]

_BLOCK: Final = 1 << 14
_MOST_ROOM: Final = np.iinfo(np.int32).max
_SOONER_HALF_S: Final = 0.5
_LATER_HALF_S: Final = 3.0
_MOST_UNJUDGED: Final = 256
"""Classes that a round asks for just to learn whether any node matches them."""
_NO_CLASSES: Final = np.zeros(0, dtype=np.int32)
_NO_FLAGS: Final = np.zeros(0, dtype=np.bool_)
_NO_NODES: Final = np.zeros(0, dtype=np.int32)
_NOBODY: Final = Members.of([], [])
_MOST_EXTRA: Final = 64
"""Candidates asked for beyond the usual, at most, because nodes are a last choice."""


def _holds(needs: Int64s, have: Int64s) -> Bools:
    """Return (class, cluster): where there is as much of every resource as a pod asks for."""
    fits = np.ones((needs.shape[0], have.shape[0]), dtype=np.bool_)
    for column in true_places(np.logical_or.reduce(needs, axis=0)).tolist():
        fits &= needs[:, column, None] <= have[:, column]
    return fits


def _has_room(state: PoolState, classes: npt.NDArray[np.integer]) -> Bools:
    """Return (class, cluster): where a job may find room, as far as sums and the largest node tell."""
    clusters, needs = state.clusters, state.classes.requests.take(classes, axis=0)
    if not state.classes.gangs:
        return _holds(needs, np.minimum(clusters.largest, clusters.free))
    return _holds(needs, clusters.free) & _holds(state.classes.node_needs(classes), clusters.largest)


def _is_large_enough(state: PoolState, classes: npt.NDArray[np.integer], needs: Int64s) -> Bools:
    """Return (class, cluster): where a job, which needs so much, may find room if nothing else runs there."""
    if not state.classes.gangs:
        return _holds(needs, state.clusters.largest)
    return _holds(state.classes.node_needs(classes), state.clusters.largest) & _holds(needs, state.clusters.total)


def askable(state: PoolState, classes: npt.NDArray[np.integer]) -> Bools:
    """Return (class, cluster): which clusters may be asked for which classes.

    Args:
        state: The pool.
        classes: Class indices.

    Complexity: O(classes * clusters * resources) in NumPy.
    """
    clusters = state.clusters
    state.ensure_class_grid()
    fits = _has_room(state, classes) & clusters.usable()
    fits &= state.waits.reason.take(classes, axis=0)[:, : len(clusters)] == REASON_NONE
    if state.held_classes.size:
        fits[np.isin(state.classes.class_id[classes], state.held_classes)] = False
    return fits


def hold_up(state: PoolState, classes: Int64s, text: str, *, now_s: float, rng: np.random.Generator) -> None:
    """Have the classes of a round that failed wait at every cluster, as at a fault of a plugin.

    Half of several wait longer, so that each failure halves the company of the one that causes it: the others are
    served again after a few seconds, and it waits alone, ever longer.

    Args:
        state: The pool, without a round.
        classes: Class indices, each once.
        text: What happened, for people.
        now_s: Now.
        rng: Chooses the half.
    """
    state.ensure_class_grid()
    reasons = np.full(classes.size, WaitReason.FAULT, dtype=np.int8)
    until_s = now_s + np.where(rng.permutation(classes.size) * 2 >= classes.size, _LATER_HALF_S, _SOONER_HALF_S)
    for index in range(len(state.clusters)):
        state.waits.wait(classes, index, reasons, retry_after_s=np.zeros(classes.size), now_s=now_s)
        if classes.size > 1:
            state.waits.until_s[classes, index] = until_s
            state.waits.next_end_s = min(state.waits.next_end_s, float(until_s.min()))
        for row in classes.tolist():
            state.answers[row, index] = ClassResult(reason=WaitReason.FAULT, text=text, round_number=state.round_number)
    state.totals["faults"] += int(classes.size)


def reasons_at(state: PoolState, classes: npt.NDArray[np.integer]) -> npt.NDArray[np.int8]:
    """Return (class, cluster) WaitReason: why clusters are not asked; CORDONED or AWAY where nobody may be placed.

    A class too large for every node is a mismatch, and one that the free sums do not hold has no room, whether its
    sampler was asked or not.

    Args:
        state: The pool.
        classes: Class indices.
    """
    clusters = state.clusters
    state.ensure_class_grid()
    needs = state.classes.requests[classes]
    reasons = state.waits.reason[classes, : len(clusters)].copy()
    unknown = reasons == REASON_NONE
    reasons[unknown & ~_holds(needs, clusters.free)] = WaitReason.NO_ROOM
    reasons[~_is_large_enough(state, classes, needs)] = WaitReason.MISMATCH
    if state.held_classes.size:
        reasons[np.isin(state.classes.class_id[classes], state.held_classes)] = WaitReason.FAULT
    reasons[:, ~clusters.connected] = WaitReason.AWAY
    reasons[:, clusters.cordoned] = WaitReason.CORDONED
    return reasons


def find_unjudged(state: PoolState) -> tuple[Int32s, Bools]:
    """Return classes of queued jobs of which a cluster that is too full for them never said whether its nodes match.

    Without that word a job that can never run there would wait as for room, and be a waiting head.

    Returns:
        n class indices, at most 256, and (n, cluster) whom to ask.

    Complexity: O(classes with queued jobs * clusters * resources) in NumPy.
    """
    clusters, end = state.clusters, state.classes.ids.end
    state.ensure_class_grid()
    waiting = true_places(state.classes.waiting_count[:end] > 0)
    unsaid = (state.waits.reason[waiting, : len(clusters)] == REASON_NONE) & clusters.usable()
    unsaid &= ~state.waits.judged[waiting, : len(clusters)]
    some = true_places(unsaid.any(axis=1))
    waiting, unsaid = waiting[some], unsaid[some]
    needs = state.classes.requests[waiting]
    unsaid &= ~_holds(needs, clusters.free)
    if not has_true(unsaid):  # as in every round of a pool with room
        return _NO_CLASSES, unsaid[:0]
    unsaid &= _is_large_enough(state, waiting, needs)
    chosen = true_places(unsaid.any(axis=1))[:_MOST_UNJUDGED]
    return waiting[chosen].astype(np.int32), np.asarray(unsaid[chosen])


def count_room(state: PoolState, classes: npt.NDArray[np.integer], where: Bools) -> Int64s:
    """Return per class an upper bound of how many pods clusters hold now.

    Args:
        state: The pool.
        classes: Class indices.
        where: (class, cluster) the clusters that count.

    Complexity: O(classes * clusters * resources) in NumPy.
    """
    count = np.zeros(classes.size, dtype=np.int64)
    free = np.maximum(state.clusters.free, 0)
    for start in range(0, classes.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        needs = state.classes.requests.take(classes[part], axis=0)
        told = state.waits.room.take(classes[part], axis=0)[:, : len(state.clusters)]
        room = np.minimum(told, _MOST_ROOM).astype(np.int64)
        for column in range(needs.shape[1]):
            asking = true_places(needs[:, column])
            if asking.size == room.shape[0]:  # mostly all ask for the same resources, and nothing need be picked out
                np.minimum(room, free[:, column] // needs[:, column, None], out=room)
            elif asking.size:
                room[asking] = np.minimum(room[asking], free[:, column] // needs[asking, column, None])
        count[part] = (room * where[part]).sum(axis=1)
    return count


def count_wanted(state: PoolState, slots: Int32s) -> tuple[Int32s, Int32s]:
    """Return the classes of jobs, each once, and how many pods of each to ask for.

    Beside waiting heads that is no more than there may be room for, though more jobs are tried where promises let some
    start and others not: asked for more than its nodes hold, a sampler would say that there is no room.

    Args:
        state: The pool.
        slots: Jobs of a round.
    """
    classes, which = distinct(state.live.class_index[slots])
    counts = np.bincount(which, minlength=classes.size)
    if state.promises.keep_nodes and classes.size:
        heads = np.bincount(which[(state.live.flags[slots] & PENDING) != 0], minlength=classes.size)
        counts = np.minimum(counts - heads, count_room(state, classes, askable(state, classes))) + heads
    return classes.astype(np.int32), counts.astype(np.int32)


def find_placeable(state: PoolState) -> tuple[Int32s, Bools]:
    """Find out which classes of queued jobs some cluster may be asked for, and note it in `state.placeable`.

    Returns:
        n class indices, and (n, cluster) which clusters may be asked for each.

    Complexity: O(classes with queued jobs * clusters * resources) in NumPy.
    """
    end = state.classes.ids.end
    placeable = np.zeros(end, dtype=np.bool_)
    waiting = true_places(state.classes.waiting_count[:end] > 0)
    found = [np.zeros((0, len(state.clusters)), dtype=np.bool_)]
    for start in range(0, waiting.size, _BLOCK):
        part = waiting[start : start + _BLOCK]
        where = askable(state, part)
        chosen = where.any(axis=1)
        placeable[part[chosen]] = True
        found.append(where[chosen])
    before = state.placeable
    if has_true(placeable[: before.size] & ~before) or has_true(placeable[before.size :]):
        state.wake_count += 1
    state.placeable = placeable
    return true_places(placeable).astype(np.int32), np.concatenate(found)


class Asking:
    """The requests of one round: rows are classes, columns clusters."""

    def __init__(self, state: PoolState, classes: Int32s, *, wanted: Int32s, asked: Bools, complete: Bools) -> None:
        """Keep what is asked, with the state of the clusters at this moment.

        Args:
            state: The pool.
            classes: Class indices, each once.
            wanted: How many pods of each wait.
            asked: (class, cluster) what is asked of whom.
            complete: Per class, whether every node must be taken into account.
        """
        self.classes = classes
        self.class_ids = state.classes.class_id[classes]
        self.wanted = wanted
        self.asked = asked
        self.complete = complete
        self.for_promise: Bools | None = None
        """(class, cluster) of which classes the nodes are wanted that could hold them; None if of none."""
        self.kept: Mapping[int, Int32s] = {}
        """By cluster, the sampler's indices of nodes that are kept for others than the gangs of `for_promise`."""
        self.going: Mapping[int, Members] = {}
        """By cluster, members of runs that may be stopped for the gang of `for_promise`."""
        self.axis = state.classes.axis
        self.incarnation = state.clusters.incarnation.copy()

    def rows(self, cluster: int) -> npt.NDArray[np.int64]:
        """Return the rows asked of a cluster, in the order of its request."""
        if cluster >= self.asked.shape[1]:
            return np.zeros(0, dtype=np.int64)
        return true_places(self.asked[:, cluster])

    def requests(self, state: PoolState) -> tuple[SampleRequest, ...]:
        """Return one request per cluster that is asked anything."""
        settings = state.settings
        requests: list[SampleRequest] = []
        if not self.asked.size:
            return ()
        last_choices = Counter(
            (class_id, job_set, node[0]) for job_set, class_id, node in state.node_failures.all_nodes()
        )
        for cluster in np.flatnonzero(self.asked.any(axis=0)).tolist():
            rows = self.rows(cluster)
            requests.append(
                SampleRequest(
                    cluster=state.clusters.names[cluster],
                    round_number=state.round_number,
                    class_ids=self.class_ids[rows],
                    wanted=self.wanted[rows],
                    complete=self.complete[rows].astype(np.int8),
                    resources=self.axis.names,
                    nodes_to_sample_ratio=settings.nodes_to_sample_ratio,
                    deadline_ms=settings.sample_deadline_ms,
                    strategy=settings.strategy,
                    node_score=settings.node_score,
                    is_delegated=bool(state.clusters.delegated[cluster]),
                    for_promise=_NO_FLAGS if self.for_promise is None else self.for_promise[rows, cluster],
                    kept=self.kept.get(cluster, _NO_NODES),
                    going=self.going.get(cluster, _NOBODY),
                    extra_count=_extra_count(last_choices, self.class_ids[rows], cluster) if last_choices else 0,
                )
            )
        return tuple(requests)


def _extra_count(last_choices: Counter[tuple[int, int, int]], class_ids: Int32s, cluster: int) -> int:
    """Return how many nodes of a cluster are at most the last choice for some jobs of the classes asked for."""
    asked = set(class_ids.tolist())
    counts = (n for (class_id, _, at), n in last_choices.items() if at == cluster and class_id in asked)
    return min(max(counts, default=0), _MOST_EXTRA)


def choose(
    state: PoolState,
    classes: Int32s,
    wanted: Int32s,
    *,
    heads: npt.NDArray[np.integer],
    unjudged: tuple[Int32s, Bools],
    for_promise: tuple[Int32s, Bools],
    rng: np.random.Generator,
) -> Asking:
    """Return whom to ask: per class, ceil(Cp x clusters) drawn among those that may be asked.

    All classes draw from one random order of the clusters, so that a round needs few messages. Classes of waiting heads
    are asked of every cluster that is asked anything and may hold them, so that nobody takes before them what has come
    free. A class that is being explained is asked of every cluster that may be given work, in full, whether it seems to
    fit or not.

    Args:
        state: The pool.
        classes: Class indices wanted, each once.
        wanted: How many pods of each wait.
        heads: Class indices of waiting heads, among `classes`.
        unjudged: More classes, and whom to ask for them, as `find_unjudged` says.
        for_promise: Classes, and whom to ask which nodes could hold them if nothing else ran there.
        rng: Draws the order.
    """
    clusters = state.clusters
    if not (classes.size or unjudged[0].size or for_promise[0].size or state.explained):
        rng.permutation(len(clusters))  # as when somebody is asked, so that chance does not depend on idle rounds
        nothing = np.zeros((0, len(clusters)), dtype=np.bool_)
        return Asking(state, classes, wanted=wanted, asked=nothing, complete=np.zeros(0, dtype=np.bool_))
    explained = np.array(sorted(state.explained), dtype=np.int32)
    named = np.concatenate([explained, unjudged[0], for_promise[0]])
    extra = np.unique(named[~are_among(named, classes)])
    classes = np.concatenate([classes, extra]).astype(np.int32)
    wanted = np.concatenate([wanted, np.ones(extra.size, dtype=np.int32)]).astype(np.int32)
    allowed = askable(state, classes)
    count = math.ceil(state.settings.clusters_to_sample_ratio * int(clusters.usable().sum()))
    drawn = rng.permutation(len(clusters))
    in_order = allowed[:, drawn]
    asked = np.zeros_like(allowed)
    asked[:, drawn] = in_order & (np.cumsum(in_order, axis=1) <= count)
    heading = are_among(classes, heads)
    if has_true(heading):
        promised = are_among(classes[heading], np.array([kind for _, kind in state.promises.kinds], dtype=np.int32))
        reason = state.waits.reason[classes[heading], : len(clusters)]
        hopeful = (reason == REASON_NONE) | (reason == REASON_NO_ROOM)
        # What is free is known a little later here than there; who was promised starts cannot wait for that.
        has_room = _has_room(state, classes[heading])
        has_room |= promised[:, None] & _is_large_enough(
            state, classes[heading], state.classes.requests[classes[heading]]
        )
        hopeful &= has_room & clusters.usable()
        asked[heading] |= hopeful & asked.any(axis=0)
    complete = are_among(classes, np.array(sorted(state.asked_complete | state.explained), dtype=np.int32))
    for more, where in (unjudged, for_promise):
        if more.size:
            position = {class_index: row for row, class_index in enumerate(classes.tolist())}
            asked[[position[class_index] for class_index in more.tolist()]] |= where
    asked[are_among(classes, explained)] = clusters.usable()
    if len(state.returns):  # what was returned is not leased there again because somebody asks why it waits
        asked &= state.waits.reason[classes, : len(clusters)] != REASON_RETURNED
    state.explained.clear()
    asking = Asking(state, classes, wanted=wanted, asked=asked, complete=complete)
    if for_promise[0].size:
        asking.for_promise = np.zeros_like(asked)
        asking.for_promise[are_among(classes, for_promise[0])] = True
    return asking

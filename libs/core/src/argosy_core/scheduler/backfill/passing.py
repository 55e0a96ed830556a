"""Which jobs of a round may start on nodes that others were promised.

A job may start there if it is over by the promised moment, or needs no more than is spare from then on. Against a firm
promise its time limit counts, against an expected one what is expected of it.

Source: design section 5, "Round" 5; section 7, invariant 13; decision 0017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s, are_among
from argosy_core.backfill import Promise, PromiseKind, Releases, Reservations, find_earliest
from argosy_core.placement import CandidatePool
from argosy_core.queueing import Filled
from argosy_core.scheduler.memory.promised import PromisedStart
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import (
    WorkEnds,
    allocatable_of,
    are_over,
    expected_run_time_s,
    find_work,
    free_beside,
    latest_run_time_s,
)
from argosy_core.scheduler.turns.head_choice import find_turn

__all__ = ["Passing"]


class Passing:
    """The promised nodes among the candidates of a round.

    Jobs are judged by *kind*: those of one class that are over in time for the same promises are of one.
    """

    def __init__(
        self,
        state: PoolState,
        pool: CandidatePool,
        jobs: Filled,
        now_s: float,
        *,
        kept: Mapping[int, frozenset[int]] | None = None,
    ) -> None:
        """Find the promised nodes, what is spare there, and the kinds of the jobs.

        Args:
            state: The pool.
            pool: Candidates of the round, merged.
            jobs: The jobs of the round.
            now_s: Now.
            kept: By handle of gangs, entries of the candidates that are kept for them: for who is over by the moment of
                that gang, and for nobody else.

        Complexity: O(live jobs) in NumPy per promise among the candidates, O(jobs) in NumPy.
        """
        width = pool.room.width
        held = list(_reserved_places(state, pool, now_s))
        promises = [one.promise for one in held]
        self.entries = [one.entry for one in held]
        """Entries of the candidates that are promised, once for each reservation there."""
        self.clusters = {promise.cluster for promise in promises}
        """Clusters of these."""
        # Each is a place of its own: who is over by one moment may not be by another.
        self._reserved = Reservations([(one.told(), at, one.spare) for at, one in enumerate(held)], width)
        # Behind the promises of single nodes, as the last columns of `is_over`.
        gathered = [state.promises.gathered[handle] for handle in kept or ()]
        is_over = are_over(state, jobs.slots, [*promises, *gathered], now_s)
        for column, one in enumerate(held):
            is_over[:, column] |= are_among(jobs.slots, one.free_of)
        self._kept = list(enumerate((kept or {}).values(), start=len(promises)))
        kinds, first, which = np.unique(
            np.column_stack([jobs.classes, is_over]), axis=0, return_index=True, return_inverse=True
        )
        self.class_of: list[int] = kinds[:, 0].tolist()
        """Class index of each kind."""
        self.jobs = Filled(slots=jobs.slots, rows=jobs.rows, usage=jobs.usage, classes=which.ravel().astype(np.int32))
        """The jobs of the round, with their kinds for classes."""
        self._is_over: Bools = is_over[first]
        self._demand: Int64s = state.classes.requests[kinds[:, 0], :width]
        self._barred: dict[int, frozenset[int]] = {}

    def barred(self, kind: int) -> frozenset[int]:
        """Return the entries that jobs of a kind may not have, as far as things stand."""
        found = self._barred.get(kind)
        if found is None:
            promised = (entry for place, entry in enumerate(self.entries) if not self._may_pass(kind, place))
            kept = (entries for column, entries in self._kept if not self._is_over[kind, column])
            found = self._barred[kind] = frozenset(promised).union(*kept)
        return found

    def _may_pass(self, kind: int, place: int) -> bool:
        end_s = np.full(1, self._end_s(kind, place))
        return bool(self._reserved.may_pass(self._demand[kind : kind + 1], end_s, end_s, node=place)[0])

    def _end_s(self, kind: int, place: int) -> float:
        """Return an end that says whether jobs of a kind are over by the moment of a promise."""
        return -np.inf if self._is_over[kind, place] else np.inf

    def take(self, kind: int, chosen: list[int]) -> None:
        """Take note of the entries on which a job of a kind may be placed."""
        for place, entry in enumerate(self.entries):
            if entry in chosen and not self._is_over[kind, place]:
                self._reserved.take(self._demand[kind], np.inf, np.inf, node=place)
                self._barred.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reserved:
    """What is reserved on a promised node."""

    promise: PromisedStart
    """For whom, and from when on."""
    free_of: Int32s
    """Jobs that it does not hold back: who is promised the node, and who has its turn before."""
    entry: int
    """Entry of the candidates."""
    demand: Int64s
    """(r,) what is reserved."""
    spare: Int64s
    """(r,) what is left then."""

    def told(self) -> Promise:
        """Return it as `Reservations` take it."""
        promise, nodes = self.promise, np.array([self.promise.node], dtype=np.int32)
        return Promise(
            job=promise.handle, kind=promise.kind, moment_s=promise.moment_s, nodes=nodes, demand=self.demand
        )


def _reserved_places(state: PoolState, pool: CandidatePool, now_s: float) -> Iterator[_Reserved]:
    """Yield what is reserved on promised nodes: for whom they are promised, and, within slack, for whose turn it is."""
    for place in _promised_places(state, pool, now_s):
        promise = place.tighten(state, now_s)
        yield place.reserve(state, promise)
        if state.settings.promise_slack_ratio and promise.kind == PromiseKind.FIRM:
            turn = place.find_turn(state, _only_at(state, pool, place.entry), now_s)
            if turn is not None:
                yield turn


def _only_at(state: PoolState, pool: CandidatePool, entry: int) -> Bools:
    """Return by class index of which classes jobs have no room now on candidates other than one."""
    width = pool.room.width
    free = np.array(pool.room.free, dtype=np.int64).reshape(-1, width)
    requests = state.classes.requests[: state.classes.ids.end, :width]
    fits = np.zeros(len(requests), dtype=np.bool_)
    for others in np.unique(np.delete(free, entry, axis=0), axis=0):
        fits |= (requests <= others).all(axis=1)
    return ~fits


def _promised_places(state: PoolState, pool: CandidatePool, now_s: float) -> Iterator[_Place]:
    """Yield the promised nodes that are among the candidates."""
    standing = sorted(state.promises.standing.values(), key=lambda promise: promise.cluster)
    for cluster, group in groupby(standing, key=lambda promise: promise.cluster):
        promises = list(group)
        nodes = np.array([promise.node for promise in promises], dtype=np.int32)
        work = find_work(state, cluster, nodes, now_s)
        at_cluster = np.flatnonzero(pool.cluster == cluster)
        names = state.clusters.nodes[cluster].translate(pool.node[at_cluster])
        for at, promise in enumerate(promises):
            for entry in at_cluster[names == promise.node].tolist():
                yield _Place(state, promise, pool, entry=entry, work=work.on(at))


class _Place:
    """A promised node among the candidates of a round."""

    def __init__(
        self, state: PoolState, promise: PromisedStart, pool: CandidatePool, *, entry: int, work: WorkEnds
    ) -> None:
        """Look at what is free there, what its job needs, and what comes free."""
        width = pool.room.width
        self.entry = entry
        self._promise = promise
        free = np.array(pool.room.free[entry * width : (entry + 1) * width], dtype=np.int64)
        node = np.array([promise.node], dtype=np.int32)
        self._free: Int64s = free_beside(state, promise.cluster, node, free=free[None], work=work)[0]
        slot = state.live.slots(np.array([promise.handle], dtype=np.int64))
        self._demand = state.requested_vectors(slot)[0, :width]
        self._work = work

    def tighten(self, state: PoolState, now_s: float) -> PromisedStart:
        """Return the promise with an earlier moment if what is known by now allows it, and let that one stand.

        With slack it stays: until its moment order decides.
        """
        if state.settings.promise_slack_ratio and self._promise.kind == PromiseKind.FIRM:
            return self._promise
        found = find_earliest(self._free[None], self._releases_by(self._promise.kind), self._demand, now_s=now_s)
        if found is None or not now_s < found.moment_s < self._promise.moment_s:
            return self._promise
        earlier = state.promises.standing[self._promise.handle] = replace(self._promise, moment_s=found.moment_s)
        return earlier

    def find_turn(self, state: PoolState, classes: Bools, now_s: float) -> _Reserved | None:
        """Return what is reserved here, in this round, for the job whose turn it is in the promised job's queue.

        Args:
            state: The pool.
            classes: By class index, which classes have no room elsewhere.
            now_s: Now.
        """
        promise, width = self._promise, self._demand.size
        owner = state.live.slots(np.array([promise.handle], dtype=np.int64))
        largest = allocatable_of(state, promise.cluster, np.array([promise.node], dtype=np.int32))[0, :width]
        holds = (state.classes.requests[: classes.size, :width] <= largest).all(axis=1)
        slot, before = find_turn(state, int(state.live.queue[owner[0]]), classes & holds, self._free)
        if slot < 0:
            return None
        of_turn = np.array([slot], dtype=np.int32)
        demand, begun = state.requested_vectors(of_turn)[0, :width], state.requested_vectors(before)[:, :width]
        latest_s = latest_run_time_s(state, before)
        ends_s = {
            PromiseKind.FIRM: now_s + latest_s,
            PromiseKind.EXPECTED: now_s + np.minimum(latest_s, expected_run_time_s(state, before)),
        }
        free = self._free - begun.sum(axis=0)
        for kind in PromiseKind:
            releases = self._releases_by(kind)
            releases = Releases(
                node=np.append(releases.node, np.zeros(before.size, dtype=np.int32)),
                amount=np.concatenate([releases.amount, begun]),
                end_s=np.append(releases.end_s, ends_s[kind]),
            )
            found = find_earliest(free[None], releases, demand, now_s=now_s)
            if found is not None:
                return _Reserved(
                    promise=replace(promise, handle=int(state.live.handle[slot]), kind=kind, moment_s=found.moment_s),
                    free_of=np.concatenate([before, owner, of_turn]),
                    entry=self.entry,
                    demand=demand,
                    spare=free + releases.free_at(0, found.moment_s) - demand,
                )
        return None

    def reserve(self, state: PoolState, promise: PromisedStart) -> _Reserved:
        """Return what is reserved here for the promised job."""
        return _Reserved(
            promise=promise,
            free_of=state.live.slots(np.array([promise.handle], dtype=np.int64)),
            entry=self.entry,
            demand=self._demand,
            spare=self._free + self._releases_by(promise.kind).free_at(0, promise.moment_s) - self._demand,
        )

    def _releases_by(self, kind: PromiseKind) -> Releases:
        """Return what comes free here."""
        work = self._work
        return Releases(node=work.node, amount=work.amount[:, : self._demand.size], end_s=work.ends_s(kind))

"""Which jobs of a round may start on nodes that others were promised.

A job may start there if it is over by the promised moment, or needs no more than is spare from then on. Against a firm
promise its time limit counts, against an expected one what is expected of it.

Source: design section 5, "Round" 5; section 7, invariant 13; decision 0017.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.backfill import Promise, PromiseKind, Releases, Reservations, find_earliest
from argosy_core.placement import CandidatePool
from argosy_core.queueing import Filled
from argosy_core.scheduler.promised import PromisedStart
from argosy_core.scheduler.state import PoolState
from argosy_core.scheduler.work_ends import WorkEnds, expected_run_time_s, find_work, latest_run_time_s

__all__ = ["Passing"]


class Passing:
    """The promised nodes among the candidates of a round.

    Jobs are judged by *kind*: those of one class that are over in time for the same promises are of one.
    """

    def __init__(self, state: PoolState, pool: CandidatePool, jobs: Filled, now_s: float) -> None:
        """Find the promised nodes, what is spare there, and the kinds of the jobs.

        Args:
            state: The pool.
            pool: Candidates of the round, merged.
            jobs: The jobs of the round.
            now_s: Now.

        Complexity: O(live jobs) in NumPy per promise among the candidates, O(jobs) in NumPy.
        """
        width = pool.room.width
        places = [
            (_tighten(state, promise, pool, entry=entry, now_s=now_s), entry)
            for promise in tuple(state.promises.standing.values())
            for entry in _entries(state, pool, promise).tolist()
        ]
        self.entries = [entry for _, entry in places]
        """Entries of the candidates that are promised."""
        self.clusters = {promise.cluster for promise, _ in places}
        """Clusters of these."""
        reserved = [_reserve(state, promise, pool, entry=entry, now_s=now_s) for promise, entry in places]
        self._reserved = Reservations(reserved, width)
        is_over = _are_over(state, jobs.slots, [promise for promise, _ in places], now_s)
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
            found = self._barred[kind] = frozenset(
                entry for place, entry in enumerate(self.entries) if not self._may_pass(kind, place, entry)
            )
        return found

    def _may_pass(self, kind: int, place: int, entry: int) -> bool:
        end_s = np.full(1, self._end_s(kind, place))
        return bool(self._reserved.may_pass(self._demand[kind : kind + 1], end_s, end_s, node=entry)[0])

    def _end_s(self, kind: int, place: int) -> float:
        """Return an end that says whether jobs of a kind are over by the moment of a promise."""
        return -np.inf if self._is_over[kind, place] else np.inf

    def take(self, kind: int, chosen: list[int]) -> None:
        """Take note of the entries on which a job of a kind may be placed."""
        for place, entry in enumerate(self.entries):
            if entry in chosen and not self._is_over[kind, place]:
                self._reserved.take(self._demand[kind], np.inf, np.inf, node=entry)
                self._barred.clear()


def _entries(state: PoolState, pool: CandidatePool, promise: PromisedStart) -> Int64s:
    """Return the entry of a promised node, if it is among the candidates."""
    rows = np.flatnonzero(state.clusters.nodes[promise.cluster].by_sampler == promise.node)
    return np.flatnonzero((pool.cluster == promise.cluster) & np.isin(pool.node, rows))


def _tighten(
    state: PoolState, promise: PromisedStart, pool: CandidatePool, *, entry: int, now_s: float
) -> PromisedStart:
    """Return a promise with an earlier moment if what is known by now allows it, and let that one stand."""
    free, demand, work = _look(state, promise, pool, entry=entry, now_s=now_s)
    width = pool.room.width
    releases = Releases(node=work.node, amount=work.amount[:, :width], end_s=work.ends_s(promise.kind))
    found = find_earliest(free[None], releases, demand, now_s=now_s)
    if found is None or not now_s < found.moment_s < promise.moment_s:
        return promise
    earlier = state.promises.standing[promise.handle] = replace(promise, moment_s=found.moment_s)
    return earlier


def _reserve(
    state: PoolState, promise: PromisedStart, pool: CandidatePool, *, entry: int, now_s: float
) -> tuple[Promise, int, Int64s]:
    """Return a promise with its entry and what is spare there from the promised moment on."""
    free, demand, work = _look(state, promise, pool, entry=entry, now_s=now_s)
    coming = work.amount[work.ends_s(promise.kind) <= promise.moment_s].sum(axis=0)[: pool.room.width]
    nodes = np.array([promise.node], dtype=np.int32)
    told = Promise(job=promise.handle, kind=promise.kind, moment_s=promise.moment_s, nodes=nodes, demand=demand)
    return told, entry, free + coming - demand


def _look(
    state: PoolState, promise: PromisedStart, pool: CandidatePool, *, entry: int, now_s: float
) -> tuple[Int64s, Int64s, WorkEnds]:
    """Return what is free on a promised node, what its job needs, and what runs there."""
    width = pool.room.width
    work = find_work(state, promise.cluster, np.array([promise.node], dtype=np.int32), now_s)
    demand = state.requested_vectors(state.live.slots(np.array([promise.handle], dtype=np.int64)))[0, :width]
    free = np.array(pool.room.free[entry * width : (entry + 1) * width], dtype=np.int64)
    return free, demand, work


def _are_over(state: PoolState, slots: Int32s, promises: list[PromisedStart], now_s: float) -> Bools:
    """Return (job, promise): which jobs, if they start now, are over by the moment of a promise, or have it."""
    firm_s = now_s + latest_run_time_s(state, slots)
    expected_s = np.minimum(firm_s, now_s + expected_run_time_s(state, slots))
    handles = state.live.handle[slots]
    columns = [
        ((firm_s if promise.kind == PromiseKind.FIRM else expected_s) <= promise.moment_s) | (handles == promise.handle)
        for promise in promises
    ]
    return np.column_stack([np.zeros((slots.size, 0), dtype=np.bool_), *columns])

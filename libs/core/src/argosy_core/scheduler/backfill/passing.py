"""Which jobs of a round may start on nodes that others were promised.

A job may start there if it is over by the promised moment, or needs no more than is spare from then on. Against a firm
promise its time limit counts, against an expected one what is expected of it.

Source: design section 5, "Round" 5; section 7, invariant 13; decision 0017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.backfill import Promise, PromiseKind, Releases, Reservations, find_earliest
from argosy_core.placement import CandidatePool
from argosy_core.queueing import Filled
from argosy_core.scheduler.memory.promised import GatheredNodes, PromisedStart
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import (
    WorkEnds,
    expected_run_time_s,
    find_work,
    free_beside,
    latest_run_time_s,
)

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
        found = list(_promised_places(state, pool, now_s))
        promises = [place.tighten(state, now_s) for place in found]
        self.entries = [place.entry for place in found]
        """Entries of the candidates that are promised."""
        self.clusters = {promise.cluster for promise in promises}
        """Clusters of these."""
        reserved = [place.reserve(promise) for place, promise in zip(found, promises, strict=True)]
        self._reserved = Reservations(reserved, width)
        # Behind the promises of single nodes, as the last columns of `is_over`.
        gathered = [state.promises.gathered[handle] for handle in kept or ()]
        is_over = _are_over(state, jobs.slots, [*promises, *gathered], now_s)
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
            promised = (entry for place, entry in enumerate(self.entries) if not self._may_pass(kind, place, entry))
            kept = (entries for column, entries in self._kept if not self._is_over[kind, column])
            found = self._barred[kind] = frozenset(promised).union(*kept)
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
        self._releases = Releases(
            node=work.node,
            amount=work.amount[:, :width],
            end_s=work.ends_s(promise.kind),
        )

    def tighten(self, state: PoolState, now_s: float) -> PromisedStart:
        """Return the promise with an earlier moment if what is known by now allows it, and let that one stand."""
        found = find_earliest(self._free[None], self._releases, self._demand, now_s=now_s)
        if found is None or not now_s < found.moment_s < self._promise.moment_s:
            return self._promise
        earlier = state.promises.standing[self._promise.handle] = replace(self._promise, moment_s=found.moment_s)
        return earlier

    def reserve(self, promise: PromisedStart) -> tuple[Promise, int, Int64s]:
        """Return the promise with its entry and what is spare there from the promised moment on."""
        nodes = np.array([promise.node], dtype=np.int32)
        told = Promise(
            job=promise.handle, kind=promise.kind, moment_s=promise.moment_s, nodes=nodes, demand=self._demand
        )
        return told, self.entry, self._free + self._releases.free_at(0, promise.moment_s) - self._demand


def _are_over(
    state: PoolState, slots: Int32s, promises: Sequence[PromisedStart | GatheredNodes], now_s: float
) -> Bools:
    """Return (job, promise): which jobs, if they start now, are over by the moment of a promise, or have it."""
    firm_s = now_s + latest_run_time_s(state, slots)
    expected_s = np.minimum(firm_s, now_s + expected_run_time_s(state, slots))
    handles = state.live.handle[slots]
    columns = []
    for promise in promises:
        # A gang has many nodes to lose: what is only expected of others does not put them there.
        is_firm = promise.kind == PromiseKind.FIRM or isinstance(promise, GatheredNodes)
        columns.append(((firm_s if is_firm else expected_s) <= promise.moment_s) | (handles == promise.handle))
    return np.column_stack([np.zeros((slots.size, 0), dtype=np.bool_), *columns])

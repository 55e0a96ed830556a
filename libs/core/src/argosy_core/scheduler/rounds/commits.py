"""The commit phase's bookkeeping: which candidate of which run is tried when.

In each stage a run goes to the cluster of its best remaining candidate, with all candidates of that cluster that follow
without another cluster between them. A run that meets conflicts on all of them goes on in the next stage.

A gang's candidates are clusters. Each is asked for all its members at once, and told in place of candidates which nodes
it may not have: those that others are promised. That it has no room there is no failure of its own.

Source: design section 5, "Round" 4; seed 000 "Commit Phase"; decision 0018.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int16s, Int32s, Int64s, has_true, true_places
from argosy_core.job.tables.members import Members
from argosy_core.placement import CommitReply, CommitRequest, Decision
from argosy_core.scheduler.columns.codes import (
    COMMIT_CONFLICT,
    COMMIT_NODE_UNAVAILABLE,
    COMMIT_PLACED,
    COMMIT_REFUSED,
)
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["CommitStages", "Placed", "kept_nodes", "promised_nodes"]

_WAITING: Final = 0
_PLACED: Final = 1
_CONFLICTED: Final = 2
_UNDECIDED: Final = 3
_NO_CANDIDATE: Final = 4
_REFUSED: Final = 5
_NO_NODES: Final = np.zeros(0, dtype=np.int32)
_NO_FLAGS: Final = np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What one answer placed."""

    cluster: int
    """Cluster index."""
    rows: npt.NDArray[np.int64]
    """n runs that were placed."""
    first: npt.NDArray[np.int64]
    """(n,) where the members of each begin."""
    number: Int16s
    """(m,) number of each member in its run."""
    sampler_node: Int32s
    """(m,) sampler node index of each member."""
    lost: npt.NDArray[np.int64]
    """Runs of which nothing is known: to be released there."""
    conflict_count: int
    """Runs that met a conflict."""


class CommitStages:
    """The runs of a round on their way through their candidates; rows are runs in the order of the decision."""

    def __init__(self, state: PoolState, slots: Int32s, decision: Decision) -> None:
        """Start before the first stage.

        Args:
            state: The pool.
            slots: Pending jobs in order.
            decision: Their candidates.
        """
        live = state.live
        self.slots = slots
        self.handle: Int64s = live.handle[slots]
        self.attempt = live.attempt[slots].astype(np.int32) + 1
        self.class_id = state.classes.class_id[live.class_index[slots]]
        self._decision = decision
        self._cursor = decision.offset[:-1].astype(np.int64)
        self._end = decision.offset[1:].astype(np.int64)
        self._stage_end = self._cursor.copy()
        self._placed_cluster = np.full(slots.size, -1, dtype=np.int64)
        self._was_refused = np.zeros(slots.size, dtype=np.bool_)
        self._was_full = np.zeros(slots.size, dtype=np.bool_)
        self.status = np.where(self._cursor < self._end, _WAITING, _NO_CANDIDATE).astype(np.int8)
        self.stage = 0
        self._asked: dict[int, npt.NDArray[np.int64]] = {}
        self._clusters = state.clusters
        self._session = state.clusters.session.copy()
        self._is_gang = state.classes.are_gangs(live.class_index[slots])
        self._has_gangs = has_true(self._is_gang)
        self._sizes = np.ones(slots.size, dtype=np.int64)
        for row in true_places(self._is_gang).tolist() if self._has_gangs else ():
            self._sizes[row] = state.classes.gangs[int(live.class_index[slots[row]])].least_count
        self._avoided = promised_nodes(state) if self._has_gangs else {}
        self._gathered = _gathered_nodes(state) if self._has_gangs else {}

    @property
    def decided_count(self) -> int:
        """Return how many runs have a candidate."""
        return int((self.status != _NO_CANDIDATE).sum())

    def conflicted(self) -> npt.NDArray[np.int64]:
        """Return the runs all of whose candidates conflicted."""
        return true_places(self.status == _CONFLICTED)

    def refused(self) -> npt.NDArray[np.int64]:
        """Return the runs that got no candidate, some of which plugins refused: no failure of theirs."""
        return true_places(self.status == _REFUSED)

    def members(self, rows: npt.NDArray[np.int64]) -> Members:
        """Return the members that runs consist of."""
        line, number = self._lines(rows)
        return Members.of(self.handle[rows][line], self.attempt[rows][line], number)

    def _lines(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Int16s]:
        """Return the place of the run and the number of each member of runs."""
        if not self._has_gangs:
            return np.arange(rows.size), np.zeros(rows.size, dtype=np.int16)
        sizes = self._sizes[rows]
        line = np.repeat(np.arange(rows.size), sizes)
        return line, (np.arange(line.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.int16)

    def placed_cluster(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where runs were placed, -1 for those that were not."""
        return self._placed_cluster[rows]

    def next_requests(self, round_number: int) -> tuple[CommitRequest, ...]:
        """Begin the next stage and return its requests; empty once no run waits.

        Runs whose cluster has not answered the last stage count as unknown (see `unanswered`).
        """
        rows = true_places(self.status == _WAITING)
        self._asked = {}
        if rows.size == 0:
            return ()
        self._session = self._clusters.session.copy()
        self.stage += 1
        clusters = self._decision.cluster
        target = clusters[self._cursor[rows]]
        end = self._cursor[rows] + 1
        further = np.ones(rows.size, dtype=np.bool_)
        while has_true(further):
            inside = end < self._end[rows]
            further = inside & (clusters[np.where(inside, end, 0)] == target)
            end = end + further
        self._stage_end[rows] = end
        requests = []
        for cluster in np.unique(target).tolist():
            part = rows[target == cluster]
            self._asked[cluster] = part
            requests.append(self._request(cluster, part, round_number))
        return tuple(requests)

    def _request(self, cluster: int, rows: npt.NDArray[np.int64], round_number: int) -> CommitRequest:
        """Return the request for one cluster."""
        counts = self._stage_end[rows] - self._cursor[rows]
        offset = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(offset[-1]) + np.repeat(self._cursor[rows] - offset[:-1], counts)
        candidate = self._decision.node[places]
        line, of_gang = self._lines(rows)[0], _NO_FLAGS
        if self._has_gangs and has_true(self._is_gang[rows]):
            offset, candidate = self._with_gangs(cluster, rows, np.split(candidate, offset[1:-1]))
            of_gang = self._is_gang[rows][line]
        return CommitRequest(
            cluster=self._clusters.names[cluster],
            round_number=round_number,
            stage=self.stage,
            members=self.members(rows),
            class_ids=self.class_id[rows][line],
            offset=offset.astype(np.int32),
            candidate=candidate,
            of_gang=of_gang,
        )

    def _with_gangs(
        self, cluster: int, rows: npt.NDArray[np.int64], candidates: list[Int32s]
    ) -> tuple[npt.NDArray[np.int64], Int32s]:
        """Return offsets and candidates of the members of runs, gangs with the nodes that they may not have."""
        line, number = self._lines(rows)
        avoided = self._avoided.get(cluster, _NO_NODES)
        kept = self._gathered.get(cluster, {})
        parts = [
            own
            if not is_gang
            else np.unique(np.concatenate([avoided, *(nodes for owner, nodes in kept.items() if owner != handle)]))
            for is_gang, handle, own in zip(
                self._is_gang[rows].tolist(), self.handle[rows].tolist(), candidates, strict=True
            )
        ]
        counts = np.where(number == 0, np.array([part.size for part in parts])[line], 0)
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate(parts).astype(np.int32)

    def take(self, cluster: int, reply: CommitReply | None) -> Placed | None:
        """Take the answer of a cluster to the present stage; None if it was not asked.

        Args:
            cluster: Cluster index.
            reply: The answer; None, or one of another incarnation, session or length says nothing. A sampler that began
                a new session meanwhile was told its placements without these.
        """
        rows = self._asked.pop(cluster, None)
        if rows is None:
            return None
        nothing = np.zeros(0, dtype=np.int64)
        sizes = self._sizes[rows]
        known = reply is not None and reply.outcome.size == sizes.sum() == reply.node.size
        same_session = self._session[cluster] == self._clusters.session[cluster]
        if not same_session or reply is None or not known or reply.incarnation != self._clusters.incarnation[cluster]:
            self.status[rows] = _UNDECIDED
            return Placed(
                cluster=cluster,
                rows=nothing,
                first=nothing,
                number=nothing.astype(np.int16),
                sampler_node=_NO_NODES,
                lost=rows,
                conflict_count=0,
            )
        placed = reply.outcome == COMMIT_PLACED
        if placed.size == rows.size and placed.all():
            self.status[rows], self._placed_cluster[rows] = _PLACED, cluster
            first, number = self._lines(rows)
            return Placed(
                cluster=cluster,
                rows=rows,
                first=first,
                number=number,
                sampler_node=reply.node,
                lost=nothing,
                conflict_count=0,
            )
        first = np.cumsum(sizes) - sizes
        outcome = reply.outcome[first]
        in_part = np.zeros(rows.size, dtype=np.bool_)
        if placed.size > rows.size:
            in_part = np.logical_or.reduceat(placed, first) & ~np.logical_and.reduceat(placed, first)
        placed = (outcome == COMMIT_PLACED) & ~in_part
        conflict = ((outcome == COMMIT_CONFLICT) | (outcome == COMMIT_NODE_UNAVAILABLE)) & ~in_part
        refused = (outcome == COMMIT_REFUSED) & ~in_part
        self.status[rows[placed]] = _PLACED
        self._placed_cluster[rows[placed]] = cluster
        # A class that the sampler does not know is the leader's omission, not the run's failure.
        self.status[rows[~placed & ~conflict & ~refused]] = _UNDECIDED
        self._was_refused[rows[refused]] = True
        again = rows[conflict | refused]
        self._cursor[again] = self._stage_end[again]
        ended = again[self._cursor[again] >= self._end[again]]
        self.status[ended] = np.where(self._was_refused[ended], _REFUSED, _CONFLICTED)
        # What a gang found too little room for says the next answer about its class; on promised nodes it may see some.
        gangs = ended[self._is_gang[ended] & ~self._was_refused[ended]]
        self.status[gangs] = _REFUSED if self._avoided or self._gathered else _UNDECIDED
        if self._clusters.delegated[cluster]:
            # It stands for all its nodes, of which nobody took just one before the run.
            self._was_full[again] = True
        self.status[ended[self._was_full[ended] & (self.status[ended] == _CONFLICTED)]] = _UNDECIDED
        _, number = self._lines(rows[placed])
        kept = sizes[placed]
        return Placed(
            cluster=cluster,
            rows=rows[placed],
            first=np.cumsum(kept) - kept,
            number=number,
            sampler_node=reply.node[np.repeat(placed, sizes)],
            lost=rows[in_part],
            conflict_count=int(conflict.sum()),
        )

    def unanswered(self) -> tuple[int, ...]:
        """Return the clusters that have not answered the present stage."""
        return tuple(self._asked)


def promised_nodes(state: PoolState) -> dict[int, Int32s]:
    """Return by cluster the sampler node indices of the nodes that waiting heads are promised."""
    promised: dict[int, list[int]] = {}
    for promise in state.promises.standing.values():
        promised.setdefault(promise.cluster, []).append(promise.node)
    return {
        cluster: true_places(np.isin(state.clusters.nodes[cluster].by_sampler, nodes)).astype(np.int32)
        for cluster, nodes in promised.items()
    }


def _gathered_nodes(state: PoolState) -> dict[int, dict[int, Int32s]]:
    """Return by cluster, and by handle of gangs, the sampler node indices of the nodes that are kept for them."""
    kept: dict[int, dict[int, Int32s]] = {}
    for gathered in state.promises.gathered.values():
        names = state.clusters.nodes[gathered.cluster]
        rows = true_places(np.isin(names.by_sampler, names.intern(gathered.nodes))).astype(np.int32)
        kept.setdefault(gathered.cluster, {})[gathered.handle] = rows
    return kept


def kept_nodes(state: PoolState, besides: Container[int]) -> dict[int, Int32s]:
    """Return by cluster the sampler node indices of what is promised to heads or kept for gangs, besides some gangs."""
    kept = {cluster: [rows] for cluster, rows in promised_nodes(state).items()}
    for cluster, gathered in _gathered_nodes(state).items():
        kept.setdefault(cluster, []).extend(rows for owner, rows in gathered.items() if owner not in besides)
    return {cluster: np.unique(np.concatenate([_NO_NODES, *rows])) for cluster, rows in kept.items()}

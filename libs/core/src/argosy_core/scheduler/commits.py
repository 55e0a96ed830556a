"""The commit phase's bookkeeping: which candidate of which run is tried when.

In each stage a run goes to the cluster of its best remaining candidate, with all candidates of that cluster that follow
without another cluster between them. A run that meets conflicts on all of them goes on in the next stage.

Source: design section 5, "Round" 4; seed 000 "Commit Phase".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.members import Members
from argosy_core.placement import CommitReply, CommitRequest, Decision
from argosy_core.scheduler.codes import (
    COMMIT_CONFLICT,
    COMMIT_NODE_UNAVAILABLE,
    COMMIT_PLACED,
    COMMIT_REFUSED,
)
from argosy_core.scheduler.state import PoolState

__all__ = ["CommitStages", "Placed"]

_WAITING: Final = 0
_PLACED: Final = 1
_CONFLICTED: Final = 2
_UNDECIDED: Final = 3
_NO_CANDIDATE: Final = 4
_REFUSED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What one answer placed."""

    cluster: int
    """Cluster index."""
    rows: npt.NDArray[np.int64]
    """Runs that were placed."""
    sampler_node: Int32s
    """Their sampler node indices."""
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
        self.status = np.where(self._cursor < self._end, _WAITING, _NO_CANDIDATE).astype(np.int8)
        self.stage = 0
        self._asked: dict[int, npt.NDArray[np.int64]] = {}
        self._clusters = state.clusters
        self._session = state.clusters.session.copy()

    @property
    def decided_count(self) -> int:
        """Return how many runs have a candidate."""
        return int((self.status != _NO_CANDIDATE).sum())

    def conflicted(self) -> npt.NDArray[np.int64]:
        """Return the runs all of whose candidates conflicted."""
        return np.flatnonzero(self.status == _CONFLICTED)

    def refused(self) -> npt.NDArray[np.int64]:
        """Return the runs that got no candidate, some of which plugins refused: no failure of theirs."""
        return np.flatnonzero(self.status == _REFUSED)

    def members(self, rows: npt.NDArray[np.int64]) -> Members:
        """Return the members that runs consist of."""
        return Members.of(self.handle[rows], self.attempt[rows])

    def placed_cluster(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where runs were placed, -1 for those that were not."""
        return self._placed_cluster[rows]

    def next_requests(self, round_number: int) -> tuple[CommitRequest, ...]:
        """Begin the next stage and return its requests; empty once no run waits.

        Runs whose cluster has not answered the last stage count as unknown (see `unanswered`).
        """
        rows = np.flatnonzero(self.status == _WAITING)
        self._asked = {}
        if rows.size == 0:
            return ()
        self._session = self._clusters.session.copy()
        self.stage += 1
        clusters = self._decision.cluster
        target = clusters[self._cursor[rows]]
        end = self._cursor[rows] + 1
        further = np.ones(rows.size, dtype=np.bool_)
        while further.any():
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
        return CommitRequest(
            cluster=self._clusters.names[cluster],
            round_number=round_number,
            stage=self.stage,
            members=self.members(rows),
            class_ids=self.class_id[rows],
            offset=offset.astype(np.int32),
            candidate=self._decision.node[places],
        )

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
        known = reply is not None and reply.outcome.size == rows.size == reply.node.size
        same_session = self._session[cluster] == self._clusters.session[cluster]
        if not same_session or reply is None or not known or reply.incarnation != self._clusters.incarnation[cluster]:
            self.status[rows] = _UNDECIDED
            none = np.zeros(0, dtype=np.int32)
            return Placed(cluster=cluster, rows=nothing, sampler_node=none, lost=rows, conflict_count=0)
        placed = reply.outcome == COMMIT_PLACED
        conflict = (reply.outcome == COMMIT_CONFLICT) | (reply.outcome == COMMIT_NODE_UNAVAILABLE)
        refused = reply.outcome == COMMIT_REFUSED
        self.status[rows[placed]] = _PLACED
        self._placed_cluster[rows[placed]] = cluster
        # A class that the sampler does not know is the leader's omission, not the run's failure.
        self.status[rows[~placed & ~conflict & ~refused]] = _UNDECIDED
        self._was_refused[rows[refused]] = True
        again = rows[conflict | refused]
        self._cursor[again] = self._stage_end[again]
        ended = again[self._cursor[again] >= self._end[again]]
        self.status[ended] = np.where(self._was_refused[ended], _REFUSED, _CONFLICTED)
        return Placed(
            cluster=cluster,
            rows=rows[placed],
            sampler_node=reply.node[placed],
            lost=nothing,
            conflict_count=int(conflict.sum()),
        )

    def unanswered(self) -> tuple[int, ...]:
        """Return the clusters that have not answered the present stage."""
        return tuple(self._asked)

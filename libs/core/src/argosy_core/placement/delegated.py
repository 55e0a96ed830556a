"""Placing on a delegated cluster: its leader names the cluster, its sampler chooses the node when its executor asks.

A class is answered as one candidate that stands for the cluster (`ANY_NODE`) while a pod of it fits some node and what
is leased and not placed leaves room for it in the sums. Leases are booked on `ANY_NODE` at the commit, so what several
leaders lease together is never more than the sums hold. Which node holds a pod is decided once for all when the
executor asks: nodes in use first, and of these the one that is left with least. What fits nowhere is returned.

Gangs are placed at their commit, all or nothing, as on every cluster.

Source: seed 003 "Executor implementation"; design section 5, "Delegated clusters"; decision 0022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int32s, Int64s, has_true, true_places
from argosy_core.framework import Cycle, Framework, PlacementBatch, Point
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.placement.messages import CommitRequest, PlaceReply, SampleReply
from argosy_core.placement.multibind import CommitOutcome
from argosy_core.placement.needs import count_room
from argosy_core.placement.reasons import WaitReason
from argosy_core.plugins.scores import fewest_nodes
from argosy_core.resources import PODS

__all__ = ["MOST_PLACED", "ClusterPlacer"]

MOST_PLACED: Final = 5_000
"""Members that one request may have placed; more are answered by the next."""
_BLOCK: Final = 1 << 16
"""(class, node) pairs that are evaluated in one go."""
_NO_SLOTS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a class has to choose among, as nodes are now."""

    cycle: Cycle
    """Filters were asked for it."""
    fits: Bools
    """(n,) which of its nodes hold a pod."""
    fault: str
    """What a plugin said that turned the whole class away, or nothing."""


class ClusterPlacer:
    """Places what leaders lease to the cluster as a whole.

    Args:
        ledger: The cluster's ledger.
        framework: Filters of the sampling profile, post-score and reserve functions.
        explain: Returns why classes, by slot, fit nowhere now, for people.
        checks: Check-conflicts functions of the commit profile.
    """

    def __init__(
        self,
        ledger: NodeLedger,
        framework: Framework,
        explain: Callable[[Int32s], tuple[str, ...]],
        *,
        checks: Framework,
    ) -> None:
        """Start with nothing to tell."""
        self._checks = checks
        self._ledger = ledger
        self._framework = framework
        self._explain = explain
        self.returned: list[int] = []
        """Slots of classes that were returned, and that wait for a change from now on."""

    # --- sampling -------------------------------------------------------------------------------------------------

    def answer(self, reply: SampleReply, slots: Int32s, wanted: Int32s) -> tuple[SampleReply, Bools]:
        """Return an answer with one candidate, the cluster, for each class that may be leased to it.

        Args:
            reply: The answer by nodes.
            slots: (c,) slots of the classes asked for, -1 for those that are not to be answered so.
            wanted: (c,) how many pods of each wait.

        Returns:
            The answer; (c,) which classes wait for capacity to rise.

        Complexity: O(classes x nodes) in NumPy.
        """
        row = self._ledger.nodes.hold_any()
        known = true_places(slots >= 0)
        room = np.zeros(slots.size, np.int64)
        room[known] = self.count_room(slots[known])
        fits = room > 0
        reason, complete = reply.reason.copy(), reply.complete.copy()
        short = (slots >= 0) & (room < wanted) & (reason == WaitReason.NONE)
        reason[short] = WaitReason.NO_ROOM
        complete[known] = 1
        offered = bool(has_true(fits))
        return replace(
            reply,
            node=np.full(int(offered), row, np.int32),
            free=reply.total_free[None, :].repeat(int(offered), axis=0),
            offset=np.append(0, np.cumsum(fits)).astype(np.int32),
            candidate=np.zeros(int(fits.sum()), np.int32),
            score=np.full(int(fits.sum()), self._score(), np.float32),
            complete=complete,
            reason=reason,
            could_hold_offset=np.zeros(slots.size + 1, np.int32) if reply.could_hold_offset.size else _NO_SLOTS,
            could_hold=_NO_SLOTS,
        ), short

    def _score(self) -> float:
        """Return the mean share of the cluster that is free, in points, as `least-allocated` scores its nodes."""
        totals = self._ledger.totals()
        used = totals.allocatable > 0
        used[self._ledger.axis.index(PODS)] = False
        return float(100.0 * (totals.free[used] / totals.allocatable[used]).mean()) if has_true(used) else 0.0

    def count_room(self, slots: Int32s) -> Int64s:
        """Return how many more pods of each class may be leased to the cluster, each class by itself.

        That is what its nodes hold one by one, less what waits of the class already, and no more than is left in the
        sums of what is free.
        """
        ledger, rows = self._ledger, true_places(self._ledger.nodes.usable())
        best = np.zeros(slots.size, np.int64)
        step = max(1, _BLOCK // max(1, rows.size))
        for begin in range(0, slots.size if rows.size else 0, step):
            part = slots[begin : begin + step]
            cycle = Cycle(ledger.nodes, ledger.classes.batch(part), rows[None, :])
            self._framework.pre_filter(cycle)
            self._framework.filter(cycle)
            self._framework.post_filter(cycle)
            ranks = np.where(cycle.alive, rows.astype(np.int64)[None, :], -1)
            best[begin : begin + step] = count_room(ledger.nodes, ledger.classes, part, ranks).sum(axis=1)
        best -= ledger.count_unplaced(slots)
        requests = ledger.classes.requests[slots]
        free = ledger.totals().free
        for column in np.flatnonzero(requests.any(axis=0)).tolist():
            asked = requests[:, column]
            held = np.where(asked > 0, free[column] // np.maximum(asked, 1), best)
            np.minimum(best, held, out=best)
        return np.maximum(best, 0)

    # --- committing -----------------------------------------------------------------------------------------------

    def admit(self, request: CommitRequest, pool: int) -> tuple[Int32s, Int8s]:
        """Book members on the cluster as long as there is room for them, in the order given.

        One that has a placement is answered as placed, so that a commit may be repeated.

        Returns:
            (n,) row of `ANY_NODE`, or -1; (n,) values of CommitOutcome.
        """
        ledger, row = self._ledger, self._ledger.nodes.hold_any()
        members, slots = request.members, self._ledger.classes.slots(request.class_ids)
        known = ledger.claim(members, pool) >= 0
        outcomes = np.full(len(members), CommitOutcome.CONFLICT, np.int8)
        outcomes[slots < 0] = CommitOutcome.UNKNOWN_CLASS
        outcomes[known] = CommitOutcome.PLACED
        first = np.zeros(len(members), np.bool_)
        first[members.waves()[0] if len(members) else []] = True
        todo = true_places(first & ~known & (slots >= 0))
        chosen = todo[self._have_room(slots[todo])]
        rows = np.full(chosen.size, row, np.int32)
        ledger.reserve(slots[chosen], rows)
        ledger.keep(members[chosen], slots[chosen], rows, pool)
        outcomes[chosen] = CommitOutcome.PLACED
        has = ledger.nodes_of(members) >= 0
        outcomes[has] = CommitOutcome.PLACED  # those that stand twice in the request
        return np.where(has, np.int32(row), np.int32(-1)), outcomes

    def _have_room(self, slots: Int32s) -> Bools:
        """Return which pods, given by their classes, the cluster has room for if they come in this order."""
        kinds, which, counts = np.unique(slots, return_inverse=True, return_counts=True)
        left = self.count_room(kinds.astype(np.int32))
        requests, free = self._ledger.classes.requests[kinds], self._ledger.totals().free.copy()
        asked = counts @ requests
        if (counts <= left).all() and (asked <= np.where(asked > 0, free, asked)).all():
            return np.ones(slots.size, np.bool_)
        admitted = np.zeros(slots.size, np.bool_)
        for place, kind in enumerate(which.tolist()):
            one = requests[kind]
            if left[kind] > 0 and (one <= np.where(one > 0, free, one)).all():
                left[kind] -= 1
                free -= one
                admitted[place] = True
        return admitted

    # --- placing --------------------------------------------------------------------------------------------------

    def place(self, members: Members) -> PlaceReply:
        """Choose the nodes of members that are leased to the cluster, the largest first; what fits nowhere is returned.

        What has a node keeps it, so that a request may be repeated; of what has no placement nothing is said.

        Args:
            members: At most `MOST_PLACED` members; further ones are not answered.

        Complexity: O(classes x nodes) in NumPy, and that of one class for each node that is filled.
        """
        ledger = self._ledger
        nodes = ledger.nodes_of(members)
        slots = ledger.classes_of(members)
        reasons = [""] * len(members)
        todo = true_places((nodes == ledger.nodes.any_row) & (nodes >= 0) & (slots >= 0))
        if len(members):
            distinct = np.zeros(len(members), np.bool_)
            distinct[members.waves()[0]] = True
            todo = todo[distinct[todo]]
        for slot in self._largest_first(np.unique(slots[todo])):
            mine = todo[slots[todo] == slot][:MOST_PLACED]
            chosen, why = self._place_class(int(slot), members[mine])
            nodes[mine] = chosen
            for place in mine[chosen < 0].tolist():
                reasons[place] = why
            if has_true(chosen < 0):
                self.returned.append(int(slot))
        unsettled = nodes == ledger.nodes.any_row
        nodes[unsettled] = -1
        names = ledger.nodes.names
        return PlaceReply(nodes=tuple(names[row] if row >= 0 else "" for row in nodes.tolist()), reasons=tuple(reasons))

    def _largest_first(self, slots: Int32s) -> list[int]:
        """Return classes in the order of the largest share of any resource of the cluster that a pod asks for."""
        total = np.maximum(self._ledger.totals().allocatable, 1)
        shares = (self._ledger.classes.requests[slots] / total).max(axis=1, initial=0.0)
        return [int(slot) for slot in slots[np.argsort(-shares, kind="stable")].tolist()]

    def _place_class(self, slot: int, members: Members) -> tuple[Int32s, str]:
        """Place members of one class; return the node of each, or -1, and why not."""
        nodes = np.full(len(members), -1, np.int32)
        placed, refused = 0, _NO_SLOTS
        while placed < len(members):
            judged = self._judge(slot, refused)
            if not has_true(judged.fits):
                break
            rows = judged.cycle.nodes[0][judged.fits]
            scores = np.broadcast_to(fewest_nodes(judged.cycle), judged.cycle.shape)[0][judged.fits]
            row = int(rows[int(np.argmax(scores))])
            count = self._fill_node(slot, row, members[placed:])
            nodes[placed : placed + count] = row
            placed += count
            if not count:
                refused = np.append(refused, np.int32(row))
        if placed == len(members):
            return nodes, ""
        if refused.size:
            return nodes, "plugins of the cluster refused every node that holds it"
        why = judged.fault or self._explain(np.array([slot], np.int32))[0]
        return nodes, why or "no node of the cluster holds it now"

    def _judge(self, slot: int, refused: Int32s) -> _Judged:
        """Ask the filters which nodes hold a pod of a class."""
        ledger = self._ledger
        rows = true_places(ledger.nodes.usable())
        rows = rows[~np.isin(rows, refused)] if refused.size else rows
        cycle = Cycle(ledger.nodes, ledger.classes.batch(np.array([slot], np.int32)), rows[None, :])
        if not rows.size:
            return _Judged(cycle, np.zeros(0, np.bool_), "")
        self._framework.pre_filter(cycle)
        self._framework.filter(cycle)
        self._framework.post_filter(cycle)
        fault = next((f"{fault.plugin}: {fault.reason}" for fault in cycle.faults.values()), "")
        return _Judged(cycle, cycle.alive[0], fault)

    def _fill_node(self, slot: int, row: int, members: Members) -> int:
        """Place as many members of a class on a node as it holds, the first ones; return how many."""
        ledger, one = self._ledger, np.array([slot], np.int32)
        most = 1
        if self._framework.filters_read_nodes_only and not ledger.classes.whole[slot]:
            most = int(count_room(ledger.nodes, ledger.classes, one, np.array([[row]], np.int64))[0, 0])
        some = members[: max(1, most)]
        slots, rows = one.repeat(len(some)), np.full(len(some), row, np.int32)
        lines = PlacementBatch(table=ledger.nodes, classes=ledger.classes, members=some, class_slots=slots, nodes=rows)
        if self._framework.has(Point.POST_SCORE) and not self._framework.post_score(lines).all():
            return 0
        ledger.reserve(slots, rows)
        if self._checks.has(Point.CHECK_CONFLICTS) and not self._checks.check_conflicts(lines).all():
            ledger.roll_back(slots, rows)
            fewer = some[: len(some) // 2]  # together they may be too many where some are not
            return self._fill_node(slot, row, fewer) if len(fewer) else 0
        if self._framework.has(Point.RESERVE):
            standing = self._framework.reserve(lines)
            if not standing.all():
                self._framework.unreserve(lines.take(standing))
                ledger.roll_back(slots, rows)
                return 0
        ledger.move(some, rows)
        return len(some)

"""Permits in the node ledger: how much pods that are resized may have, out of the same room that placements come from.

What a pod is booked at (see `scaled_pods`) is taken off its node's free amounts like any placement's, so a permit and a
placement can never both have what was left. Per node and resource, in the words of the seed:

- *reserved* is what is taken in all; *buffer* what of that is booked only because nobody knows who may still give it.
- A permit is raised only while reserved stays within total - system. What does not fit is *deferred*: it is the node's
  capacity pressure, shared out as soon as room comes, by the queues' weights (see `sharing`).
- Facts are booked whatever they leave: a pod that is larger than its permit, a node that shrank, a start of the ledger.

Transitions, r the booking, b the buffer, p what is deferred, q what is asked for:

| what happens | r | b | p |
|---|---|---|---|
| q at most the permit (told after shrinking) | most of q and what is observed | 0 | 0 |
| q above it, and there is room | q | 0 | 0 |
| q above it, and there is less | raised by whole units that fit, by itself or as a bundle | 0 | q - permit |
| refused | as it was | as it was | 0 |
| first list after a start | maximum, or more if its note says so | r - observed | 0 |
| its note is ours | what the note says, never more than r was | r - observed | 0 |
| its agent reports a ceiling | most of ceiling and observed, never more than r was | 0 | 0 |
| its agent is cut off | as it was | r - observed | 0 |
| no lease can last any more | observed | 0 | 0 |
| the agent says goodbye | as it was until the margin is over, then observed | r - observed | 0 |
| named to be moved | as it was; q other than the permit is refused | 0 | as it was; both are accounted for |
| a move fails | as it was | 0 | as it was, and not accounted for |
| bounds changed, nobody holds it | most of old and new maximum | r - observed | 0 |
| bounds changed, held | as it was | 0 | at most up to the new maximum |
| not scaled any more | as it was until no lease can last, then observed | r - observed | 0 |
| the pod is gone | 0 | 0 | 0 |

A change of watermark, system or unit changes no booking, so reserved may be above total - system then; a request is
checked against the unit last told. Above the watermark no pod is placed where pods are scaled (see `pressure`).

Owns the transitions; what is left for permits, and what is booked, is in `permit_room`.

Source: seed 001 "Deep dive into resource management"; design sections 5 "Resize", 7 invariant 8.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int32s, Int64s
from argosy_core.errors import InvalidRequest, InvariantViolation
from argosy_core.job.reading.scaling import SCALED, Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger.permit_notes import NotedPermits
from argosy_core.ledger.permit_records import PermitSettings, RefusalReason, refuse, sums_by_node
from argosy_core.ledger.permit_room import PermitRoom
from argosy_core.ledger.placements import PlacementTable
from argosy_core.ledger.pod_notices import PodNotices
from argosy_core.ledger.queue_weights import QueueWeights
from argosy_core.ledger.records import PodEvents
from argosy_core.ledger.scaled_pods import ScaledPodTable
from argosy_core.nodes import NodeFlag, NodeTable

__all__ = ["PermitLedger"]

_BURST_S: Final = 10.0
"""How many seconds' worth of asking for more a pod may do at once."""


class PermitLedger:
    """Permits of one cluster.

    Args:
        placements: Who takes how much; bookings of scaled pods are kept there.
        nodes: What is free.
        settings: How permits are given.
    """

    def __init__(self, placements: PlacementTable, nodes: NodeTable, settings: PermitSettings) -> None:
        """Start with no scaled pod, at second 0 of the ledger's clock."""
        self.pods = ScaledPodTable()
        """The scaled pods; change them through this ledger only."""
        self.room = PermitRoom(self.pods, placements, nodes, settings)
        """What is left for permits, and what the pods are booked at."""
        self.notes = NotedPermits(self.pods, settings.noted_by, quiet_s=settings.note_quiet_s)
        """What pods may have at most, as it is noted on them."""
        self.now_s = 0.0
        """The ledger's clock; see `advance`."""
        self.queues = QueueWeights()
        """What queues weigh where room is shared out."""
        self.notices = PodNotices(self.pods, placements, nodes)
        """What agents are to be told of their pods beside permits."""
        self.has_listed = False
        """The first full list of pods was taken in; what comes later was never permitted anything by another ledger."""
        self._uncertain_until_s = settings.lease_s + settings.margin_s
        self._leases_s: dict[int, float] = {}
        """By session: how long its leases last, as its agent was told."""
        self._placements = placements
        self._nodes = nodes
        self._columns = self.room.columns
        self._settled_at = 0

    @property
    def settings(self) -> PermitSettings:
        """How permits are given; a unit that changes counts from the next answer on."""
        return self.room.settings

    @settings.setter
    def settings(self, settings: PermitSettings) -> None:
        """Give permits otherwise from now on."""
        self.room.settings = settings

    # --- time ---------------------------------------------------------------------------------------------------------

    def start(self, now_s: float) -> None:
        """Begin to count at a time; what was permitted before it may last for a lease and the margin."""
        self.now_s = now_s
        self._uncertain_until_s = now_s + self.settings.lease_s + self.settings.margin_s

    def set_time(self, now_s: float) -> None:
        """Say what time it is; a clock that goes back stands still."""
        self.now_s = max(self.now_s, now_s)

    def advance(self, now_s: float) -> None:
        """Let time pass; what nobody can give any more is given back.

        Complexity: O(scaled pods) in NumPy.
        """
        self.set_time(now_s)
        pods, rows = self.pods, self.pods.live()
        rows = rows[(pods.session[rows] == 0) & (pods.floor_until_s[rows] <= self.now_s)]
        self._rebook_without_floor(rows[pods.floor[:, rows].any(axis=0)])
        # Until the leader was told that it is as it is, which it is from now on, a pod is kept.
        is_told = ((pods.told[:, rows] == -1) | (pods.told[:, rows] == pods.observed[:, rows])).all(axis=0)
        self._switch_off(rows[pods.is_off[rows] & is_told])
        self.room.withhold()

    # --- facts, from the ledger ---------------------------------------------------------------------------------------

    def take_observed(self, slots: Int32s, events: PodEvents, positions: Int64s, amounts: Int64s) -> Int64s:
        """Take in how pods are, and return what they are to be booked at.

        Args:
            slots: n placements.
            events: What was observed.
            positions: n positions in the events.
            amounts: (resource of the axis, n) what they would be booked at unless they are scaled.

        Complexity: Python work only for pods that are scaled.
        """
        scaled = self._placements.scaled
        rows = scaled[slots]
        if not events.scalings and not rows.any():
            return amounts
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        booked = amounts.copy()
        pods = self.pods
        for at, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            scaling, row = events.scalings.get(position), int(rows[at])
            if row and (pods.uid[row] != uids[position]).any():
                self.forget(slots[at : at + 1])
                row = 0
            observed = events.requests[position][self._columns]
            if not row and (scaling is None or (self.has_listed and (amounts[self._columns, at] > observed).any())):
                continue  # a new pod that is less than its run asks for has others beside it, still to come
            if not row:
                row = scaled[slot] = self._add(uids[position], slot)
            self._take_scaling(row, scaling)
            pods.observed[:, row] = amounts[self._columns, at] if pods.is_off[row] else observed
            booked[self._columns, at] = pods.booked(np.array([row], np.int32))[:, 0]
        return booked

    def forget(self, slots: Int32s) -> None:
        """Forget the pods of placements that end or are another pod's; their bookings are the caller's matter."""
        rows = self._placements.scaled[slots]
        rows = rows[rows > 0]
        if len(rows):
            self._placements.scaled[self.pods.slot[rows]] = 0
            self.pods.drop(rows)

    # --- agents -------------------------------------------------------------------------------------------------------

    def join(
        self, rows: Int32s, ceilings: Int64s, held: Bools, *, numbers: Int64s, session: int, process: int
    ) -> Int8s:
        """Let a session hold pods, each at a ceiling that its agent keeps; return what is refused, by RefusalReason.

        Args:
            rows: n distinct rows of pods, 0 for unknown ones.
            ceilings: (resource, n) ceilings; no booking rises by them.
            held: (n,) the process has a lease on the pod that has not ended.
            numbers: (n,) numbers of what the agent says of each.
            session: Number of the session, above 0.
            process: Number of the agent's process, not 0.
        """
        pods = self.pods
        refused = np.zeros(len(rows), np.int8)
        awaited = pods.floor[:, rows].any(axis=0) & (pods.floor_until_s[rows] > self.now_s)
        awaited &= pods.process[rows] != process
        awaited &= ~(held & (pods.process[rows] == 0))
        other = (pods.session[rows] != 0) & (pods.session[rows] != session)
        refuse(refused, rows == 0, RefusalReason.UNKNOWN_POD)
        refuse(refused, pods.is_off[rows], RefusalReason.NOT_SCALED)
        refuse(refused, other | awaited, RefusalReason.HELD_BY_ANOTHER)
        taken = refused == 0
        rows = rows[taken]
        pods.permit[:, rows] = np.clip(ceilings[:, taken], 0, pods.booked(rows))
        pods.wanted[:, rows] = pods.permit[:, rows]
        pods.number[rows] = numbers[taken]
        pods.session[rows], pods.process[rows] = session, process
        pods.unit[:, rows] = self.room.units(rows)
        self._rebook_without_floor(rows)
        return refused

    def check_numbers(self, rows: Int32s, numbers: Int64s, session: int) -> None:
        """Do nothing if the numbers of a session's pods rise.

        Raises:
            InvalidRequest: One does not: the message came twice, or late.
        """
        pods = self.pods
        ours = pods.session[rows] == session
        if (numbers[ours] <= pods.number[rows[ours]]).any():
            raise InvalidRequest("the number of a pod does not rise")

    def request(self, rows: Int32s, wanted: Int64s, bundle: Bools, *, numbers: Int64s, session: Int64s) -> Int8s:
        """Take in what pods are to have; return what is refused, by RefusalReason.

        What was lowered is given back at once. What is asked for is deferred demand until `settle`, which gives all
        that comes together its turn, whoever came first.

        Args:
            rows: n rows of pods, 0 for unknown ones; those of one session distinct.
            wanted: (resource, n) what each is to have in all.
            bundle: (n,) all resources in equal steps, or none.
            numbers: (n,) numbers of what the agents say of each; they rise (`check_numbers`).
            session: (n,) numbers of the sessions that ask.
        """
        pods = self.pods
        ours = (rows > 0) & (pods.session[rows] == session)
        refused = np.zeros(len(rows), np.int8)
        permit, least, most = pods.permit[:, rows], pods.least[:, rows], pods.most[:, rows]
        differs = wanted != permit
        in_units = (wanted % pods.unit[:, rows] == 0) | (wanted == least) | (wanted == most)
        refuse(refused, rows == 0, RefusalReason.UNKNOWN_POD)
        refuse(refused, ~ours, RefusalReason.NOT_IN_INVENTORY)
        refuse(refused, pods.is_off[rows], RefusalReason.NOT_SCALED)
        refuse(refused, pods.is_moving[rows] & differs.any(axis=0), RefusalReason.MOVING)
        refuse(refused, (differs & (wanted < least)).any(axis=0), RefusalReason.BELOW_MINIMUM)
        refuse(refused, (differs & (wanted > most)).any(axis=0), RefusalReason.ABOVE_MAXIMUM)
        refuse(refused, (differs & ~in_units).any(axis=0), RefusalReason.NOT_IN_UNITS)
        rising = (refused == 0) & (wanted > permit).any(axis=0)
        refused[rising] = np.where(self._is_too_often(rows[rising]), np.int8(RefusalReason.TOO_OFTEN), np.int8(0))
        known = rows[ours]
        pods.number[known] = numbers[ours]
        pods.wanted[:, known] = pods.permit[:, known]
        pods.unit[:, known] = self.room.units(known)
        taken = refused == 0
        rows = rows[taken]
        pods.wanted[:, rows] = wanted[:, taken]
        pods.is_bundle[rows] = bundle[taken]
        pods.permit[:, rows] = np.minimum(permit[:, taken], wanted[:, taken])
        self.room.rebook(rows)
        return refused

    def settle(self, rows: Int32s | None = None) -> Int32s:
        """Give deferred demand what room there is, on the nodes of some pods and wherever room came since.

        Nodes that are cordoned, not ready or gone give nothing.

        Args:
            rows: Pods whose nodes are looked at in any case; all nodes if not given.

        Returns:
            The rows of pods whose permit rose, ascending.

        Complexity: O(scaled pods) in NumPy; Python work only on nodes that cannot give all that is asked.
        """
        pods, nodes = self.pods, self._nodes
        waiting = np.flatnonzero((pods.wanted > pods.permit).any(axis=0) & (pods.session != 0) & ~pods.is_moving)
        waiting_at = self._placements.node[pods.slot[waiting]]
        open_nodes = nodes.flags == NodeFlag.READY
        if rows is not None:
            touched = np.zeros(len(nodes), np.bool_)
            touched[nodes.risen_since(self._settled_at)] = True
            touched[self._placements.node[pods.slot[rows]]] = True
            open_nodes &= touched
        chosen = open_nodes[waiting_at]
        waiting, waiting_at = waiting[chosen].astype(np.int32), waiting_at[chosen]
        before = pods.permit[:, waiting]
        if len(waiting):
            self._give(waiting, waiting_at)
        self._settled_at = nodes.generation
        risen: Int32s = waiting[(pods.permit[:, waiting] > before).any(axis=0)]
        return risen

    def held_by(self, session: int) -> Int32s:
        """Return the rows that a session holds, ascending."""
        return np.flatnonzero(self.pods.session == session).astype(np.int32) if session else np.zeros(0, np.int32)

    def open_session(self, session: int) -> float:
        """Return how long the leases of a new session last, seconds; it keeps them whatever is configured later."""
        self._leases_s[session] = self.settings.lease_s
        return self.settings.lease_s

    def lease_s(self, session: int) -> float:
        """Return how long the leases of a session last, seconds."""
        return self._leases_s.get(session, self.settings.lease_s)

    def cut_off(self, session: int, renewed_s: float) -> None:
        """Note that a session is over, whose agent may give what it was permitted for a lease since it was heard."""
        self._orphan(self.held_by(session), renewed_s + self.lease_s(session))
        self._leases_s.pop(session, None)

    def leave(self, session: int) -> None:
        """Note that an agent gave its permits back; what it did last may not have been seen."""
        self._orphan(self.held_by(session), self.now_s)
        self._leases_s.pop(session, None)

    def end_note(self, uid: bytes, found: str | None) -> int:
        """Take in how a note was written; return the row of a held pod whose permit may be told now, else 0.

        Args:
            uid: The pod.
            found: Note that it has now; None if that is not known.
        """
        row = self.notes.end(uid, found, self.now_s)
        if not row:
            return 0
        pods, rows = self.pods, np.array([row], np.int32)
        if pods.process[row] == 0 and pods.floor[:, row].any():
            pods.floor[:, row] = np.minimum(pods.floor[:, row], self._may_have(row))
            self.room.rebook(rows)
        return row if pods.session[row] else 0

    def forget_told(self, pool: int) -> None:
        """Let a pool's leader be told anew what its pods hold, as on a new stream."""
        rows = self.pods.live()
        self.pods.told[:, rows[self._placements.pool[self.pods.slot[rows]] == pool]] = -2

    def take_held(self, pool: int, class_requests: Int64s) -> tuple[Members, Int64s]:
        """Return what members of a pool's runs hold that its leader was not told, each once.

        Uncertainty is left out: it takes room, but nobody has it.

        Args:
            pool: Number of the pool.
            class_requests: (class slot, resource of the axis) what classes ask for.

        Returns:
            n members; (resource of SCALED, n) base units, -1 for what the class says.
        """
        pods, table = self.pods, self._placements
        rows = pods.live()
        slots = pods.slot[rows]
        ours = (table.pool[slots] == pool) & (table.class_slot[slots] >= 0) & (table.handle[slots] >= 0)
        rows, slots = rows[ours], slots[ours]
        held = np.maximum(pods.permit[:, rows], pods.observed[:, rows])
        held[held == class_requests[table.class_slot[slots]][:, self._columns].T] = -1
        news = (held != pods.told[:, rows]).any(axis=0)
        pods.told[:, rows[news]] = held[:, news]
        return table.keys(slots[news]), held[:, news]

    def move(self, rows: Int32s, *, is_moving: bool) -> None:
        """Name pods that are to be moved, or give their moves up."""
        self.pods.is_moving[rows] = is_moving
        self.pods.moving_s[rows] = self.now_s
        self.notices.note_moved(rows, is_moving=is_moving)

    # --- reading ------------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Compare bookings with what they are made of.

        Raises:
            InvariantViolation: A pod is not booked at the most of permit, observed and floor, or one that nobody holds
                has a permit.
        """
        pods, rows = self.pods, self.pods.live()
        if len(rows) != len(pods) or (self._placements.scaled[pods.slot[rows]] != rows).any():
            raise InvariantViolation("a scaled pod is not that of its placement")
        if np.count_nonzero(self._placements.scaled[self._placements.live()]) != len(rows):
            raise InvariantViolation("a placement is of a scaled pod that was forgotten")
        wrong = np.argwhere(self._placements.amounts[np.ix_(self._columns, pods.slot[rows])] != pods.booked(rows))
        if len(wrong):
            raise InvariantViolation(f"a scaled pod's {SCALED[wrong[0, 0]]} is not booked as permitted")
        held = pods.session[rows] != 0
        if pods.permit[:, rows[~held]].any() or pods.floor[:, rows[held]].any():
            raise InvariantViolation("a pod has a permit that nobody holds, or is uncertain though somebody holds it")

    # --- parts --------------------------------------------------------------------------------------------------------

    def _add(self, uid: Int64s, slot: int) -> int:
        row = self.pods.add(uid, slot)
        self.pods.since_s[row] = self.now_s
        return row

    def _take_scaling(self, row: int, scaling: Scaling | None) -> None:
        """Take in the bounds of a pod, None where it is not scaled any more."""
        pods = self.pods
        if scaling is None:
            if not pods.is_off[row]:
                pods.is_off[row] = True
                if pods.session[row]:
                    self.notices.note_stopped(int(pods.session[row]), row)
                    leases_end_s = self.now_s + self.lease_s(int(pods.session[row]))
                    self._orphan(np.array([row], np.int32), leases_end_s)
            return
        pods.is_off[row] = False
        pods.least[:, row], pods.most[:, row] = scaling.least, scaling.most
        pods.own_unit[:, row] = scaling.unit or 0
        pods.is_movable[row], pods.queue[row] = scaling.is_movable, self.queues.index(scaling.queue)
        self.notes.see(row, scaling.note.text, is_first_list=not self.has_listed)
        if pods.session[row]:
            limit = np.maximum(pods.most[:, row], pods.permit[:, row])
            pods.wanted[:, row] = np.minimum(pods.wanted[:, row], limit)
        elif pods.process[row] == 0 and pods.floor[:, row].any():
            pods.floor[:, row] = np.maximum(pods.floor[:, row], self._may_have(row))
        elif not self.has_listed and self.now_s < self._uncertain_until_s:
            pods.floor[:, row], pods.floor_until_s[row] = self._may_have(row), self._uncertain_until_s

    def _may_have(self, row: int) -> Int64s:
        """Return (resource,) what a pod may have been permitted before this ledger began."""
        rows = np.array([row], np.int32)
        return self.notes.limit(rows, self.pods.most[:, rows])[:, 0]

    def _orphan(self, rows: Int32s, leases_end_s: float) -> None:
        """Take pods from whoever holds them; bookings stay for the margin after their leases."""
        pods = self.pods
        pods.floor[:, rows] = pods.permit[:, rows]
        pods.floor_until_s[rows] = leases_end_s + self.settings.margin_s
        pods.permit[:, rows] = 0
        pods.wanted[:, rows] = 0
        pods.session[rows] = 0

    def _switch_off(self, rows: Int32s) -> None:
        """Forget pods that are not scaled any more; they are booked as observed."""
        self._placements.scaled[self.pods.slot[rows]] = 0
        self.pods.drop(rows)

    def _is_too_often(self, rows: Int32s) -> Bools:
        """Return which of pods that ask for more do so too often, and count that they do."""
        pods, rate = self.pods, self.settings.rises_per_s
        level = np.maximum(pods.asked[rows] - (self.now_s - pods.asked_s[rows]) * rate, 0.0)
        too_often = level >= _BURST_S * rate
        pods.asked[rows] = np.where(too_often, level, level + 1)
        pods.asked_s[rows] = self.now_s
        return np.asarray(too_often)

    def _rebook_without_floor(self, rows: Int32s) -> None:
        self.pods.floor[:, rows] = 0
        self.room.rebook(rows)

    def _give(self, rows: Int32s, at: Int32s) -> None:
        """Raise the permits of pods that want more, on nodes whose demand is all among them."""
        pods = self.pods
        missing = np.maximum(pods.wanted[:, rows] - pods.booked(rows), 0)
        # Nothing is given where less than nothing is free, not even what a pod has already: what is seen may be of
        # yesterday, and a permit would make it last.
        is_enough = np.asarray(sums_by_node(missing, at, len(self._nodes)) <= self.room.left()).all(axis=0)
        fits: Bools = np.asarray(is_enough)[at]
        pods.permit[:, rows[fits]] = np.maximum(pods.permit[:, rows[fits]], pods.wanted[:, rows[fits]])
        self.room.rebook(rows[fits])
        for node in np.unique(at[~fits]).tolist():
            self.room.share(rows[~fits & (at == node)], node, self.queues.weights)

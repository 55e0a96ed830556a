"""Pods as the cluster shows them: which placement each is, what it is booked at, and which placements end with them.

An observed pod with a run's label replaces the run's placement and never adds to it; an unmanaged pod counts with what
it asks for; a pod that ended frees what it took.

Owns what is remembered of pods that ended while a leader holds their runs. May import placements, bookings and permits.

Source: design sections 5 "Sampler session" and 6 "ledger transitions".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s, Objects, has_true, true_places
from argosy_core.job.tables.members import Members, MemberSet
from argosy_core.ledger.bookings import Bookings
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import Hold, PlacementTable, unmanaged_keys
from argosy_core.ledger.records import ObserveOutcome, PodEvents
from argosy_core.ledger.run_pods import FoldedPod, RunPods, rewrite

__all__ = ["PodObserver", "keys_of"]

# NumPy takes a member of an IntFlag for an int64.
_LEADER: Final = np.uint8(Hold.LEADER)
_POD: Final = np.uint8(Hold.POD)


class PodObserver:
    """Takes in the pods of one cluster.

    Args:
        placements: Who takes how much.
        bookings: What placements take of their nodes.
        pool_count: How many pools place here.
    """

    def __init__(self, placements: PlacementTable, bookings: Bookings, pool_count: int) -> None:
        """Start with no pod seen."""
        self._placements = placements
        self._bookings = bookings
        self.ended = tuple(MemberSet() for _ in range(pool_count))
        """By pool: members whose pod ended while its leader holds them."""
        self.unlisted_pools = set(range(pool_count))
        """Pools whose leaders have not listed their placements."""
        self.run_pods = RunPods(placements)
        """Pods of members that have several."""
        self._has_disowned = False

    def observe(self, events: PodEvents, permits: PermitLedger) -> ObserveOutcome:
        """Take in pods, whose requests have one column per resource of the axis."""
        keys = keys_of(events)
        added = replaced = ended = 0
        for wave in keys.waves():
            part, of_wave = keys[wave], events.part(wave)
            slots = self._placements.slots(part)
            outcome = self._observe_distinct(
                part, slots, of_wave, is_same=self._are_same(slots, of_wave), permits=permits
            )
            added += outcome.added_count
            replaced += outcome.replaced_count
            ended += outcome.ended_count
        return ObserveOutcome(added_count=added, replaced_count=replaced, ended_count=ended)

    def take(self, events: PodEvents, permits: PermitLedger, *, shapes: Int64s, shape_column: Int32s) -> PodEvents:
        """Take in pods as `observe` does, those of one member as one, and what claims others' runs as unmanaged.

        Returns:
            The events as they count.
        """
        keys = keys_of(events)
        slots = self._placements.slots(keys)
        is_elsewhere = self._are_elsewhere(events, slots)
        if has_true(is_elsewhere):
            events = self._without_claims(events, is_elsewhere)
            keys = keys_of(events)
            slots = self._placements.slots(keys)
        asked = self.run_pods.own_requests(shapes, shape_column)
        if keys.are_distinct():
            return self._take_distinct(keys, slots, events, asked=asked, permits=permits)[0]
        folded: list[FoldedPod] = []
        for wave in keys.waves():
            part, places = keys[wave], wave.tolist()
            slots = self._placements.slots(part)
            _, of_wave = self._take_distinct(part, slots, events.part(wave), asked=asked[wave], permits=permits)
            folded.extend((places[place], *counts) for place, *counts in of_wave)
        return rewrite(events, folded)

    def _take_distinct(
        self, keys: Members, slots: Int32s, events: PodEvents, *, asked: Objects, permits: PermitLedger
    ) -> tuple[PodEvents, list[FoldedPod]]:
        """Take in events of distinct pods, given their placements and what each asks for; return what counts."""
        is_same = self._are_same(slots, events)
        folded = self.run_pods.fold(events, asked, slots, is_same)
        if folded:
            events = rewrite(events, folded)
            is_same = self._are_same(slots, events)
        self._observe_distinct(keys, slots, events, is_same=is_same, permits=permits, asked=asked)
        return events, folded

    def disown(self, events: PodEvents) -> PodEvents:
        """Return events in which pods that claim a run placed elsewhere are unmanaged ones.

        Whoever may make pods can write the labels and the name of a run, and a pod's node never changes. So the run
        keeps its placement, and such a pod counts with what it asks for, where it is, until it ends.
        """
        is_elsewhere = self._are_elsewhere(events, self._placements.slots(events.members))
        return self._without_claims(events, is_elsewhere) if has_true(is_elsewhere) else events

    def _are_elsewhere(self, events: PodEvents, slots: Int32s) -> Bools:
        """Return which pods claim a run placed elsewhere, given the placements of what they claim."""
        table = self._placements
        is_elsewhere: Bools = table.node[slots] != events.nodes
        is_elsewhere &= events.nodes >= 0
        if has_true(is_elsewhere):
            is_elsewhere &= (slots >= 0) & (table.hold[slots] & _LEADER > 0)
        if self._has_disowned:  # the run may have ended before the pod that claimed it
            is_elsewhere |= (events.members.ordinal > 0) & (table.slots(unmanaged_keys(events.uids)) >= 0)
        return is_elsewhere

    def _without_claims(self, events: PodEvents, is_claim: Bools) -> PodEvents:
        self._has_disowned = True
        handle, ordinal = (np.where(is_claim, 0, column) for column in events.members.columns)
        return replace(events, members=Members(handle, ordinal))

    def end(self, slots: Int32s, permits: PermitLedger) -> None:
        """End distinct placements because their pods ended."""
        if not len(slots):
            return
        table = self._placements
        self._bookings.unbook(slots)
        permits.forget(slots)
        # Until the leader lets go it may list such a run again; what ended must not come back.
        held = slots[table.hold[slots] & _LEADER > 0]
        if len(held):
            keys, pools = table.keys(held), table.pool[held]
            for pool, ended in enumerate(self.ended):
                ended.add(keys[pools == pool])
        table.drop(slots)

    def _are_same(self, slots: Int32s, events: PodEvents) -> Bools:
        """Return which events are of the pod that stands for the placement, or of the first that is seen of it."""
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        before, known = self._placements.uid[slots], slots >= 0
        first, second = before[:, 0], before[:, 1]
        is_same: Bools = first == uids[:, 0]
        is_same &= second == uids[:, 1]
        is_same &= known
        if np.count_nonzero(is_same) < np.count_nonzero(known):
            is_same |= known & (first == 0) & (second == 0)
        return is_same

    def _observe_distinct(
        self,
        keys: Members,
        slots: Int32s,
        events: PodEvents,
        *,
        is_same: Bools,
        permits: PermitLedger,
        asked: Objects | None = None,
    ) -> ObserveOutcome:
        """Take in events of distinct pods, given their placements and, where known, what each asks for by itself."""
        table = self._placements
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        known = slots >= 0
        ending = true_places(events.ended & is_same)
        for pool in self.unlisted_pools:
            self.ended[pool].add(keys[events.ended & ~known & (keys.handle >= 0)])
        self.end(slots[ending], permits)
        there = (events.nodes >= 0) & ~events.ended
        stays_at, replaced = true_places(there & known), 0
        if len(stays_at):
            stays = slots[stays_at]
            replaced = self._replace(stays, events, stays_at, permits)
            table.hold[stays] |= _POD
            table.uid[stays] = uids[stays_at]
            table.asks[stays] = None if asked is None else asked[stays_at]
        added = true_places(there & ~known)
        if len(added):
            slots = self._add_pods(keys[added], events, added, permits)
            if asked is not None:
                table.asks[slots] = asked[added]
        return ObserveOutcome(added_count=len(added), replaced_count=replaced, ended_count=len(ending))

    def _replace(self, slots: Int32s, events: PodEvents, positions: npt.NDArray[np.intp], permits: PermitLedger) -> int:
        """Book placements as their observed pods are; return how many differed."""
        table = self._placements
        nodes = events.nodes[positions]
        requests = self._bookings.at_least_class(events.requests[positions].T, table.class_slot[slots], nodes)
        requests = permits.take_observed(slots, events, positions, requests)
        differs = table.node[slots] != nodes
        differs |= np.logical_or.reduce(table.amounts[:, slots] != requests)
        moved = slots[differs]
        if len(moved):
            self._bookings.unbook(moved)
            table.node[moved] = nodes[differs]
            table.amounts[:, moved] = requests[:, differs]
            self._bookings.book(moved)
        return len(moved)

    def _add_pods(
        self, keys: Members, events: PodEvents, positions: npt.NDArray[np.intp], permits: PermitLedger
    ) -> Int32s:
        """Book pods that nothing was known of; return where they stand."""
        table = self._placements
        slots = table.add(keys, _POD)
        table.node[slots] = events.nodes[positions]
        table.class_slot[slots] = -1
        table.uid[slots] = np.ascontiguousarray(events.uids[positions]).view(np.int64)
        table.amounts[:, slots] = permits.take_observed(slots, events, positions, events.requests[positions].T)
        if events.host_ports:
            table.port[slots] = [
                self._bookings.classes.ports.intern(events.host_ports.get(position, ()))
                for position in positions.tolist()
            ]
        for ended in self.ended:
            ended.discard(keys)
        self._bookings.book(slots)
        return slots


def keys_of(events: PodEvents) -> Members:
    """Return the placement key of each event."""
    is_ours = events.members.ordinal > 0
    if np.count_nonzero(is_ours) == is_ours.size:
        return events.members
    unmanaged = unmanaged_keys(events.uids)
    return Members(
        np.where(is_ours, events.members.handle, unmanaged.handle),
        np.where(is_ours, events.members.ordinal, unmanaged.ordinal),
    )

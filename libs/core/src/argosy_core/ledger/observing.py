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

from argosy_core.arrays import Int32s, has_true, true_places
from argosy_core.job.tables.members import Members, MemberSet
from argosy_core.ledger.bookings import Bookings
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import Hold, PlacementTable, unmanaged_keys
from argosy_core.ledger.records import ObserveOutcome, PodEvents

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
        self._has_disowned = False

    def observe(self, events: PodEvents, permits: PermitLedger) -> ObserveOutcome:
        """Take in pods, whose requests have one column per resource of the axis."""
        counts = np.zeros(3, np.int64)
        keys = keys_of(events)
        waves = keys.waves()
        for wave in waves:
            part = (keys, events) if len(waves) == 1 else (keys[wave], events.part(wave))
            counts += self._observe_distinct(*part, permits)
        added, replaced, ended = counts.tolist()
        return ObserveOutcome(added_count=added, replaced_count=replaced, ended_count=ended)

    def disown(self, events: PodEvents) -> PodEvents:
        """Return events in which pods that claim a run placed elsewhere are unmanaged ones.

        Whoever may make pods can write the labels and the name of a run, and a pod's node never changes. So the run
        keeps its placement, and such a pod counts with what it asks for, where it is, until it ends.
        """
        table = self._placements
        slots = table.slots(events.members)
        is_elsewhere = (slots >= 0) & (table.hold[slots] & _LEADER > 0) & (events.nodes >= 0)
        is_elsewhere &= table.node[slots] != events.nodes
        if self._has_disowned:  # the run may have ended before the pod that claimed it
            is_elsewhere |= (events.members.ordinal > 0) & (table.slots(unmanaged_keys(events.uids)) >= 0)
        if not has_true(is_elsewhere):
            return events
        self._has_disowned = True
        handle, ordinal = (np.where(is_elsewhere, 0, column) for column in events.members.columns)
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
        for pool, ended in enumerate(self.ended):
            ended.add(table.keys(held[table.pool[held] == pool]))
        table.drop(slots)

    def _observe_distinct(self, keys: Members, events: PodEvents, permits: PermitLedger) -> tuple[int, int, int]:
        """Take in events of distinct pods; return how many were added, replaced, ended."""
        table = self._placements
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        slots = table.slots(keys)
        known = slots >= 0
        same_pod = known & ((table.uid[slots] == uids).all(axis=1) | (table.uid[slots] == 0).all(axis=1))
        ending = events.ended & same_pod
        for pool in self.unlisted_pools:
            self.ended[pool].add(keys[events.ended & ~known & (keys.handle >= 0)])
        self.end(slots[ending], permits)
        there = ~events.ended & (events.nodes >= 0)
        stays = there & known
        if has_true(stays):
            stays_at = true_places(stays)
            replaced = self._replace(slots[stays_at], events, stays_at, permits)
            table.hold[slots[stays_at]] |= _POD
            table.uid[slots[stays_at]] = uids[stays_at]
        else:
            replaced = 0
        added = true_places(there & ~known)
        if len(added):
            self._add_pods(keys[added], events, added, permits)
        return len(added), replaced, int(ending.sum())

    def _replace(self, slots: Int32s, events: PodEvents, positions: npt.NDArray[np.intp], permits: PermitLedger) -> int:
        """Book placements as their observed pods are; return how many differed."""
        table = self._placements
        nodes = events.nodes[positions]
        requests = self._bookings.at_least_class(events.requests[positions].T, table.class_slot[slots], nodes)
        requests = permits.take_observed(slots, events, positions, requests)
        differs = (table.node[slots] != nodes) | (table.amounts[:, slots] != requests).any(axis=0)
        moved = slots[differs]
        if len(moved):
            self._bookings.unbook(moved)
            table.node[moved] = nodes[differs]
            table.amounts[:, moved] = requests[:, differs]
            self._bookings.book(moved)
        return len(moved)

    def _add_pods(
        self, keys: Members, events: PodEvents, positions: npt.NDArray[np.intp], permits: PermitLedger
    ) -> None:
        """Book pods that nothing was known of."""
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


def keys_of(events: PodEvents) -> Members:
    """Return the placement key of each event."""
    is_ours = events.members.ordinal > 0
    if is_ours.all():
        return events.members
    unmanaged = unmanaged_keys(events.uids)
    return Members(
        np.where(is_ours, events.members.handle, unmanaged.handle),
        np.where(is_ours, events.members.ordinal, unmanaged.ordinal),
    )

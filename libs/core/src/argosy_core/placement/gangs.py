"""Gangs on one cluster: whether one fits now and what it lacks, and the reservation of all its members or of none.

What a sampler says of a gang stands for the whole cluster, see `gang_answers`. Where its pods go is found when all
members of a run are committed at once, over the whole table. Nothing is held for some of them meanwhile, so gangs
cannot wait for each other.

Source: 003 "Distributed jobs"; decision 0018; design section 7, invariant 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Int8s, Int32s, Int64s
from argosy_core.framework import COMMIT, Cycle, Framework, PlacementBatch, Point
from argosy_core.gang import GangPlaces, SubGroup, Topology, place_gang
from argosy_core.job.tables.members import Members, place_of
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeTable
from argosy_core.placement.gang_answers import GangAnswer, merge_answers
from argosy_core.placement.messages import SampleReply
from argosy_core.placement.multibind import CommitOutcome
from argosy_core.placement.reasons import WaitReason

__all__ = ["GangPlacer"]

_MOST_TRIED: Final = 16
"""Gangs that wait which are tried at once after a rise of capacity; the others have their turn with the next."""
_MOST_WAITING: Final = 10_000
_NO_NODES: Final = np.zeros(0, np.int32)
_NOBODY: Final = Members.of([], [])


class GangPlacer:
    """Places the gangs of one cluster.

    Args:
        ledger: The cluster's ledger.
        framework: Filters of the sampling profile, post-score and reserve functions.
        checks: Check-conflicts functions of the commit profile; none if not given.
    """

    def __init__(self, ledger: NodeLedger, framework: Framework, checks: Framework | None = None) -> None:
        """Start without gangs."""
        self._checks = checks or Framework(kind=COMMIT)
        self._ledger = ledger
        self._framework = framework
        self._topology: tuple[int, Topology] | None = None
        self._waiting: dict[int, None] = {}
        """Slots of gangs that wait for capacity, the one that was tried last behind the others."""
        self._tried = 0
        self._when_empty: dict[int, bool] = {}
        """Slot -> whether the gang fits if nothing runs, as of `_described`."""
        self._described = -1

    @property
    def waiting_count(self) -> int:
        """Return how many gangs wait for capacity."""
        return len(self._waiting)

    def clear(self) -> None:
        """Forget which gangs wait: a new leader asks for everything."""
        self._waiting.clear()

    def rename(self, moved: Int32s) -> None:
        """Take over another table of classes; see `WaitingClasses.rename`."""
        self._waiting = {slot: None for slot in moved[list(self._waiting)].tolist() if slot >= 0}
        self._when_empty.clear()

    # --- sampling -------------------------------------------------------------------------------------------------

    def answer(
        self, reply: SampleReply, slots: Int32s, kinds_of: Callable[[Int32s], Int64s], should_stop: Callable[[], bool]
    ) -> SampleReply:
        """Return an answer with what is said of the gangs among its classes.

        Args:
            reply: The answer about the others.
            slots: (c,) slots of the classes asked for, gangs included.
            kinds_of: Returns the kinds of nodes that classes fit if nothing else runs there.
            should_stop: Whether the time to look is up.

        Complexity: as `place_gang` for each gang that fits; twice that for those that do not.
        """
        gangs = self._ledger.classes.gangs
        positions = [position for position, slot in enumerate(slots.tolist()) if slot in gangs]
        if not positions:
            return reply
        if not self._waiting:
            self._tried = self._ledger.nodes.generation
        said: dict[int, GangAnswer] = {}
        for position in positions:
            if should_stop():
                break
            said[position] = self._look(int(slots[position]), kinds_of)
        return merge_answers(reply, said, self._live_count(), self._most_hops())

    def _look(self, slot: int, kinds_of: Callable[[Int32s], Int64s]) -> GangAnswer:
        """Say whether a gang fits now, and remember it if it waits for capacity."""
        table, gang = self._ledger.nodes, self._ledger.classes.gangs[slot]
        self._waiting.pop(slot, None)
        groups, cycles = self._groups(slot, table)
        for cycle in cycles:
            for fault in cycle.faults.values():
                reason = WaitReason.PLUGIN if fault.is_objection else WaitReason.FAULT
                text = f"{fault.plugin}: {fault.reason}"
                return GangAnswer(reason=reason, text=text, retry_after_s=fault.retry_after_s)
        places = place_gang(self._tree(), table.free, groups)
        eligible_count = int(np.count_nonzero(np.any([group.eligible for group in groups], axis=0)))
        if places is not None:
            return GangAnswer(hops=max(places.hops), eligible_count=eligible_count)
        self._waiting[slot] = None
        while len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        fits_empty = self._fits_when_empty(slot)
        return GangAnswer(
            reason=WaitReason.NO_ROOM if fits_empty else WaitReason.MISMATCH,
            kinds=int(np.bitwise_or.reduce(kinds_of(gang.pods))) if fits_empty else 0,
            miss=self._miss(slot, table, groups) + " now" if fits_empty else self._miss_when_empty(slot),
            eligible_count=eligible_count,
        )

    def _miss_when_empty(self, slot: int) -> str:
        """As `_miss`, if nothing ran in the cluster."""
        empty = self._ledger.nodes.emptied()
        return self._miss(slot, empty, self._groups(slot, empty, is_empty=True)[0]) + " even if nothing else runs"

    def _miss(self, slot: int, table: NodeTable, groups: list[SubGroup]) -> str:
        """Return how many pods of each sub-group fit by themselves where they are nearest, for people."""
        free, parts = table.free, []
        for group, told in zip(groups, self._ledger.classes.gangs[slot].groups, strict=True):
            fitting = _most_together(self._tree(), free, group)
            name = f" of {told.name}" if told.name else ""
            limit = f" within {group.max_hops} hops" if group.max_hops >= 0 else ""
            whole = " on whole nodes" if told.whole_nodes else ""
            parts.append(f"{fitting} of {group.minimum} pods{name} fit{whole}{limit}")
        return ", ".join(parts) + ("" if len(parts) == 1 else ", each by itself")

    def _fits_when_empty(self, slot: int) -> bool:
        """Return whether a gang fits if nothing else runs in the cluster."""
        table = self._ledger.nodes
        if table.described_since(self._described).size or not self._framework.filters_read_nodes_only:
            self._when_empty.clear()
            self._described = table.generation
        if slot not in self._when_empty:
            empty = table.emptied()
            groups, _ = self._groups(slot, empty, is_empty=True)
            self._when_empty[slot] = place_gang(self._tree(), empty.free, groups) is not None
        return self._when_empty[slot]

    def could_hold(self, slot: int, kept: Int32s = _NO_NODES, going: Members = _NOBODY) -> Int32s:
        """Return a node for each pod of a gang's minimum if some runs were gone, or all; none if there is no room then.

        If it fits once as few as may be of the first of those that may be stopped are gone, it is that; else where no
        runs are, on nodes that lack least. What a node lacks is the largest share of it that runs must give back; of
        the nodes in that order the fewest are taken among which the gang fits.

        Args:
            slot: The gang.
            kept: Nodes that are kept for others.
            going: Members that may be stopped for it, in order.

        Complexity: as `place_gang`, times the logarithm of the nodes, and of those that may be stopped.
        """
        cleared = self._when_gone(slot, kept, going) if len(going) else None
        if cleared is not None:
            return np.concatenate(cleared.nodes).astype(np.int32)
        table, empty = self._ledger.nodes, self._ledger.without_runs()
        lacking = (empty.free - table.free) / np.maximum(table.allocatable, 1)
        order = np.argsort(lacking.max(axis=0, initial=0.0), kind="stable").astype(np.int32)
        order = order[~np.isin(order, kept)]
        groups, _ = self._groups(slot, empty, is_empty=True)
        found: GangPlaces | None = None
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            avoided = np.concatenate([kept, order[middle + 1 :]]).astype(np.int32)
            places = place_gang(self._tree(), empty.free, _without(groups, avoided))
            if places is None:
                low = middle + 1
            else:
                high, found = middle, places
        return np.concatenate(found.nodes).astype(np.int32) if found is not None else _NO_NODES

    def _when_gone(self, slot: int, kept: Int32s, going: Members) -> GangPlaces | None:
        """Return where a gang fits once the fewest of some members are gone, in their order; None if nowhere."""

        def place(count: int) -> GangPlaces | None:
            gone = going[:count]
            table = self._ledger.without_runs(gone)
            groups = _without(self._groups(slot, table, gone=gone)[0], kept)
            return place_gang(self._tree(), table.free, groups)

        low, high, found = 0, len(going), place(len(going))
        while found is not None and low < high:
            middle = (low + high) // 2
            places = place(middle)
            if places is None:
                low = middle + 1
            else:
                high, found = middle, places
        return found

    def take_fitting(self) -> tuple[Int32s, Int64s]:
        """Return gangs that wait and fit by now, each told once: slots, and how many of each fit at least.

        Complexity: as `place_gang` for at most 16 gangs a call, if capacity has risen.
        """
        table, found = self._ledger.nodes, []
        if self._waiting and table.last_rise > self._tried:
            waiting = list(self._waiting)
            for slot in waiting[:_MOST_TRIED]:
                del self._waiting[slot]
                groups, _ = self._groups(slot, table)
                if place_gang(self._tree(), table.free, groups) is not None:
                    found.append(slot)
                else:
                    self._waiting[slot] = None
            if len(waiting) <= _MOST_TRIED:
                self._tried = table.generation
        return np.array(found, np.int32), np.full(len(found), np.iinfo(np.int32).max, np.int64)

    # --- committing -----------------------------------------------------------------------------------------------

    def commit(
        self, members: Members, class_slots: Int32s, avoided: Sequence[Int32s], pool: int
    ) -> tuple[Int32s, Int8s]:
        """Place the members of runs that are gangs, run by run, in the order given.

        A run that has its placements is answered with them, so that a commit may be repeated. Of one that has them for
        some members only, which nobody asked for so, nothing is placed.

        Args:
            members: n members, those of a run one after the other.
            class_slots: (n,) slot of the gang of each.
            avoided: For each member, rows of nodes; a run gets none of its first member's.
            pool: Number of the pool whose leader commits.

        Returns:
            (n,) row of the node that each has now, or -1; (n,) values of CommitOutcome.

        Complexity: as `place_gang` for each run; gangs of a class that had no room have none for the rest of the call.
        """
        nodes = np.full(len(members), -1, np.int32)
        outcomes = np.full(len(members), CommitOutcome.CONFLICT, np.int8)
        starts = _starts_of_runs(members)
        full: set[tuple[int, bytes]] = set()
        eligible: dict[int, list[SubGroup]] = {}
        for begin, end in zip(starts, [*starts[1:], len(members)], strict=True):
            part, slot = members[begin:end], int(class_slots[begin])
            known = self._ledger.nodes_of(part)
            if (known >= 0).all():
                self._ledger.claim(part, pool)
                nodes[begin:end], outcomes[begin:end] = known, CommitOutcome.PLACED
                continue
            if self._is_addition(part, slot):
                nodes[begin:end], outcomes[begin:end] = self._add(part, slot, avoided[begin], pool=pool)
                continue
            kind = slot, avoided[begin].tobytes()
            if (known >= 0).any() or kind in full or not self._is_whole(part, slot):
                continue
            if slot not in eligible or self._is_asked_anew(slot):
                eligible[slot] = self._groups(slot, self._ledger.nodes)[0]
            groups = _without(eligible[slot], avoided[begin])
            outcome, chosen = self._place(part, slot, groups, pool=pool)
            nodes[begin:end], outcomes[begin:end] = chosen, outcome
            if outcome == CommitOutcome.CONFLICT:
                full.add(kind)
        return nodes, outcomes

    def _is_whole(self, members: Members, slot: int) -> bool:
        """Return whether all members that a gang has at least, and no others, are asked for."""
        return np.array_equal(members.member, np.arange(self._ledger.classes.gangs[slot].least_count))

    def _is_addition(self, members: Members, slot: int) -> bool:
        """Return whether members are to join others of their run: in places of lost ones, or beyond the least."""
        return bool((members.member >= self._ledger.classes.gangs[slot].least_count).all())

    def _add(self, members: Members, slot: int, avoided: Int32s, *, pool: int) -> tuple[Int32s, Int8s]:
        """Place members near the others of their run, each by itself; the first that has no room ends it.

        Raises nothing: a run of which nobody is here gets nobody.

        Complexity: O(placements + levels x nodes) for each.
        """
        ledger, gang = self._ledger, self._ledger.classes.gangs[slot]
        known = ledger.nodes_of(members)
        outcomes = np.where(known >= 0, CommitOutcome.PLACED, CommitOutcome.CONFLICT).astype(np.int8)
        ledger.claim(members[known >= 0], pool)
        places = place_of(members.member)
        for line in np.flatnonzero((known < 0) & (places < gang.members.size)).tolist():
            peers, peer_nodes = ledger.members_of_run(members[line : line + 1])
            if not len(peers):
                break
            group = gang.group_of(int(places[line]))
            told = self._groups(slot, ledger.nodes)[0][group]
            of_group = np.array([gang.group_of(place) == group for place in place_of(peers.member).tolist()])
            near = self._near(_without([told], avoided)[0], peer_nodes[of_group])
            if near is None:
                break
            outcomes[line], (known[line],) = self._keep_one(members[line : line + 1], gang.pods[group], near, pool=pool)
            if outcomes[line] != CommitOutcome.PLACED:
                break
        return known, outcomes

    def _near(self, group: SubGroup, peer_nodes: Int32s) -> int | None:
        """Return the node for one more pod of a sub-group that is nearest to the others, None if none has room."""
        tree, one = self._tree(), replace(group, minimum=1, maximum=1)
        for level in range(tree.highest_level(group.max_hops) + 1):
            near = group.eligible
            if peer_nodes.size:
                subtrees = tree.subtrees[level]
                if (subtrees[peer_nodes] != subtrees[peer_nodes[0]]).any():
                    continue
                near = near & (subtrees == subtrees[peer_nodes[0]])
            places = place_gang(tree, self._ledger.nodes.free, [replace(one, eligible=near)]) if near.any() else None
            if places is not None:
                return int(places.nodes[0][0])
        return None

    def _keep_one(self, member: Members, pod: np.int32, node: int, *, pool: int) -> tuple[CommitOutcome, Int32s]:
        """Reserve one node for one member; return what became of it, and its node or -1."""
        return self._keep(member, np.array([pod], np.int32), np.array([node], np.int32), pool=pool)

    def _is_asked_anew(self, slot: int) -> bool:
        """Return whether nodes are no more what they were for a gang after another was placed."""
        classes = self._ledger.classes
        pods = classes.gangs[slot].pods
        reads_more = not self._framework.filters_read_nodes_only
        return reads_more or bool(classes.whole[pods].any() or classes.port[pods].any())

    def _place(self, members: Members, slot: int, groups: list[SubGroup], *, pool: int) -> tuple[CommitOutcome, Int32s]:
        """Reserve for one run, all or nothing; return what became of it, and the node of each member or -1."""
        ledger, gang = self._ledger, self._ledger.classes.gangs[slot]
        nowhere = np.full(len(members), -1, np.int32)
        places = place_gang(self._tree(), ledger.nodes.free, groups)
        if places is None:
            return CommitOutcome.CONFLICT, nowhere
        return self._keep(members, gang.members[: len(members)], np.concatenate(places.nodes), pool=pool)

    def _keep(self, members: Members, pods: Int32s, nodes: Int32s, *, pool: int) -> tuple[CommitOutcome, Int32s]:
        """Reserve nodes for members, all or nothing; return what became of it, and the node of each or -1."""
        ledger, nowhere = self._ledger, np.full(len(members), -1, np.int32)
        lines = PlacementBatch(
            table=ledger.nodes, classes=ledger.classes, members=members, class_slots=pods, nodes=nodes
        )
        if self._framework.has(Point.POST_SCORE) and not self._framework.post_score(lines).all():
            return CommitOutcome.REFUSED, nowhere
        ledger.reserve(pods, nodes)
        if self._checks.has(Point.CHECK_CONFLICTS) and not self._checks.check_conflicts(lines).all():
            ledger.roll_back(pods, nodes)
            return CommitOutcome.CONFLICT, nowhere
        if self._framework.has(Point.RESERVE):
            standing = self._framework.reserve(lines)
            if not standing.all():
                self._framework.unreserve(lines.take(standing))
                ledger.roll_back(pods, nodes)
                return CommitOutcome.REFUSED, nowhere
        ledger.keep(members, pods, nodes, pool)
        return CommitOutcome.PLACED, nodes

    # --- parts ----------------------------------------------------------------------------------------------------

    def _groups(
        self, slot: int, table: NodeTable, *, is_empty: bool = False, gone: Members | None = None
    ) -> tuple[list[SubGroup], list[Cycle]]:
        """Return the sub-groups of a gang as nodes are now, or once members are gone, and the cycles of the filters."""
        classes, rows = self._ledger.classes, np.flatnonzero(self._ledger.nodes.usable())
        gang, groups, cycles = classes.gangs[slot], [], []
        closed = self._ledger.occupied(gone) if classes.whole[gang.pods].any() and not is_empty else None
        for pod, told in zip(gang.pods.tolist(), gang.groups, strict=True):
            cycle = Cycle(table, classes.batch(np.array([pod], np.int32)), rows[None, :])
            eligible = np.zeros(len(table), np.bool_)
            if rows.size:
                self._framework.pre_filter(cycle)
                self._framework.filter(cycle)
                self._framework.post_filter(cycle)
                eligible[rows] = cycle.alive[0]
            if told.whole_nodes and closed is not None:
                eligible &= ~closed
            cycles.append(cycle)
            groups.append(
                SubGroup(
                    request=classes.requests[pod],
                    minimum=told.minimum,
                    maximum=told.maximum,
                    eligible=eligible,
                    max_hops=told.max_hops,
                    most_on_a_node=1 if told.pod.host_ports else told.maximum,
                )
            )
        return groups, cycles

    def _tree(self) -> Topology:
        """Return the tree of the nodes as their labels are now; levels whose label no node has are left out."""
        table = self._ledger.nodes
        if self._topology is None or self._topology[0] != table.membership:
            levels = [self._labels(key) for key in self._ledger.topology]
            self._topology = table.membership, Topology.of(len(table), [values for values in levels if any(values)])
        return self._topology[1]

    def _labels(self, key: str) -> list[str]:
        table = self._ledger.nodes
        used = np.unique(table.group).tolist()
        values = {number: dict(table.groups[number].labels).get(key, "") for number in used}
        return [values[number] for number in table.group.tolist()]

    def _live_count(self) -> int:
        return len(self._ledger.nodes.live())

    def _most_hops(self) -> int:
        tree = self._tree()
        return tree.hops_of(tree.level_count - 1)


def _without(groups: list[SubGroup], avoided: Int32s) -> list[SubGroup]:
    """Return sub-groups that do not get some nodes."""
    if not avoided.size:
        return groups
    rows = np.arange(groups[0].eligible.size)
    return [replace(group, eligible=group.eligible & ~np.isin(rows, avoided)) for group in groups]


def _starts_of_runs(members: Members) -> list[int]:
    """Return where the members of each run begin."""
    handle, attempt = members.handle, members.attempt
    other = (handle[1:] != handle[:-1]) | (attempt[1:] != attempt[:-1])
    return np.flatnonzero(np.append(np.ones(min(1, len(members)), np.bool_), other)).tolist()


def _most_together(topology: Topology, free: Int64s, group: SubGroup) -> int:
    """Return how many pods of a sub-group fit at most within its limit of hops, up to its minimum."""
    counts = np.zeros(group.eligible.size, np.int64)
    asked = np.flatnonzero(group.request)
    rows = np.flatnonzero(group.eligible)
    if rows.size:
        counts[rows] = np.maximum((free[np.ix_(asked, rows)] // group.request[asked, None]).min(axis=0), 0)
    np.minimum(counts, min(group.minimum, group.most_on_a_node), out=counts)
    sums = topology.sums(topology.highest_level(group.max_hops), counts)
    return min(group.minimum, int(sums.max(initial=0)))

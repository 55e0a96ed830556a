"""The node ledger: the one place that says what is taken of each node of a cluster, and by whom.

Booking follows seed 001: `reserved` is an upper bound on what pods take; a commit is kept only while
`reserved <= total - system` for every resource that its pod asks for. A reservation is made at once, before it is
checked, and may drive what is free below zero; only then is it kept or rolled back, so that nobody else is offered what
is about to be taken. Facts (an observed pod, the list of a new leader, a node that shrank) are always booked, even if
that leaves less than nothing free.

A placement ends by fact: its leader released it, the full list of a new leader lacks it, or its pod ended. A pod that
was observed and not seen to end keeps its amounts booked whatever the leader says, because it is there.

The leaders of several pools may place on one cluster. There is one account of what is taken, so together they cannot
over-commit; each holds placements of its own, and its list and its releases say nothing of the others'.

Owns the tables of a cluster and why a placement begins or ends; what it is booked at is in `bookings`, what pods say in
`observing`.

Source: seed 001 "Basics"; seed 000 "Commit Phase"; design sections 5 "Sampler session" and 6 "ledger transitions".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s, has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.framework import ClassTable
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import SCALED
from argosy_core.job.tables.members import Members
from argosy_core.ledger.bookings import Bookings
from argosy_core.ledger.class_memory import ClassMemory, with_overheads
from argosy_core.ledger.invariants import check_ledger
from argosy_core.ledger.observing import PodObserver, keys_of
from argosy_core.ledger.permit_records import PermitSettings
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import Hold, PlacementTable
from argosy_core.ledger.pod_sizes import PodSizes, pod_sizes
from argosy_core.ledger.pressure import MoveLedger
from argosy_core.ledger.records import LedgerTotals, ListOutcome, ObserveOutcome, PodEvents
from argosy_core.ledger.run_pods import rewrite
from argosy_core.ledger.whole_nodes import whole_node_amounts
from argosy_core.nodes import NodeSpec, NodeTable
from argosy_core.resources import DEFAULT_AXIS, ResourceAxis

__all__ = ["NodeLedger"]

# NumPy takes a member of an IntFlag for an int64.
_LEADER: Final = np.uint8(Hold.LEADER)
_POD: Final = np.uint8(Hold.POD)


class NodeLedger:
    """Nodes, scheduling classes and placements of one cluster.

    Args:
        axis: Resource columns to begin with; nodes and classes add theirs.
        pool_count: How many pools place here; they are called by numbers from 0.
        permits: How permits are given to pods that are resized.
        topology: Node labels whose values say what is near in the network, the lowest level first.
        nodes: Nodes to begin with, the ledger's own from now on; none if None.
    """

    def __init__(
        self,
        axis: ResourceAxis = DEFAULT_AXIS,
        *,
        pool_count: int = 1,
        permits: PermitSettings | None = None,
        topology: Sequence[str] = (),
        nodes: NodeTable | None = None,
    ) -> None:
        """Start with nothing placed."""
        self.topology = tuple(topology)
        """Labels of the levels of the network, for gangs."""
        self.nodes = NodeTable(axis) if nodes is None else nodes
        """The node table; change it through the ledger only."""
        axis = self.nodes.axis
        self.classes = ClassTable(axis)
        """The scheduling classes that somebody needs; another table takes its place when many have left."""
        self._placements = PlacementTable(len(axis))
        self._configured = permits or PermitSettings()
        self._rules: dict[int, PermitRules] = {}
        self.permits = PermitLedger(self._placements, self.nodes, self._configured)
        """How much pods that are resized may have, out of the same room."""
        self.pressure = MoveLedger(self.permits, self._placements, self.nodes, classes=self.classes)
        """Which pods are to be moved because their nodes are too full."""
        self._class_memory = ClassMemory(pool_count)
        self._specs: dict[str, NodeSpec] = {}
        self._bookings = Bookings(self._placements, self.nodes, self.classes)
        self._observer = PodObserver(self._placements, self._bookings, pool_count)

    # --- definitions and nodes ----------------------------------------------------------------------------------------

    @property
    def axis(self) -> ResourceAxis:
        """Order of all resource columns; grows when a node or a class names a new resource."""
        return self.nodes.axis

    def define_class(self, class_id: int, definition: SchedulingClass, pool: int = 0) -> None:
        """Make a scheduling class known that a pool's leader tells; an id that is known keeps its definition."""
        self._class_memory.tell(class_id, pool)
        self.classes.define(class_id, definition)
        self._sync_axis()

    def forget_classes(self, class_ids: Iterable[int], pool: int = 0) -> None:
        """Let classes leave in time that a pool's leader has dropped, unless somebody else needs them."""
        self._class_memory.forget(class_ids, pool)
        self._use(self._class_memory.without_unneeded(self.classes, self._placements))

    def keep_classes(self, class_ids: Iterable[int], pool: int = 0) -> None:
        """As `forget_classes`, for all that a pool's new leader has not told."""
        self._class_memory.keep(class_ids, pool)
        self._use(self._class_memory.without_unneeded(self.classes, self._placements))

    def set_overheads(self, overheads: Mapping[str, Mapping[str, int]]) -> None:
        """Say what a pod of each RuntimeClass takes beside its containers, base units; also where none was seen yet."""
        if overheads == self.classes.overheads:
            return
        table = self._placements
        self._use(with_overheads(self.classes, table, overheads))
        self._sync_axis()
        slots = true_places((table.hold == _LEADER) & (table.class_slot >= 0) & (table.scaled == 0)).astype(np.int32)
        self._bookings.unbook(slots)
        self._bookings.fill(slots, nodes=table.node[slots], class_slots=table.class_slot[slots])
        self._bookings.book(slots)

    def _use(self, classes: ClassTable) -> None:
        self.classes = self.pressure.classes = self._bookings.classes = classes

    def put_nodes(self, nodes: Sequence[NodeSpec]) -> Int32s:
        """Add nodes or replace what is known of them, and return their rows."""
        self._specs.update((node.name, node) for node in nodes)
        rows = self.nodes.put([self._with_system(node) for node in nodes])
        self._sync_axis()
        return rows

    def remove_nodes(self, names: Iterable[str]) -> Int32s:
        """Take nodes out and return their rows; placements on them stay until they end by fact."""
        gone = list(names)
        for name in gone:
            self._specs.pop(name, None)
        return self.nodes.remove(gone)

    def configure(self, settings: PermitSettings) -> None:
        """Give permits otherwise from now on.

        No booking changes: more that is kept for the system may leave less than nothing free, and a request is checked
        against the unit that its agent was told last.
        """
        before, self.permits.settings = self.permits.settings, settings
        changed = before.node_system.items() ^ settings.node_system.items()
        self.put_nodes([self._specs[name] for name in {name for name, _ in changed} & self._specs.keys()])
        self.permits.advance(self.permits.now_s)

    def take_rules(self, rules: PermitRules, pool: int = 0) -> None:
        """Give permits as a pool's settings say; of what two pools say, that of the lower number counts."""
        if self._rules.get(pool, PermitRules()) == rules:
            return
        self._rules[pool] = rules
        settings = self._configured
        for _, said in sorted(self._rules.items(), reverse=True):
            settings = settings.under(said)
        self.configure(settings)

    def _with_system(self, node: NodeSpec) -> NodeSpec:
        """Return a node with what is configured to be kept for its system."""
        kept = self.permits.settings.node_system.get(node.name)
        if kept is None:
            return node
        return replace(node, system={**node.system, **dict(zip(SCALED, kept, strict=True))})

    def set_cordons(self, names: Iterable[str]) -> None:
        """Say which nodes an administrator cordoned; replaces what was said before."""
        self.nodes.set_cordons(names)

    def rows_of_names(self, names: Iterable[str]) -> Int32s:
        """Return the row of each node name; a name never seen gets the row of a removed node.

        For lists of placements and pods that name a node before the node itself was seen.
        """
        return np.fromiter((self.nodes.hold_name(name) for name in names), np.int32)

    def extend_axis(self, names: Iterable[str]) -> None:
        """Make sure that each resource has a column."""
        self.nodes.extend_axis(names)
        self._sync_axis()

    # --- placing ------------------------------------------------------------------------------------------------------

    def nodes_of(self, members: Members) -> Int32s:
        """Return the node of each member's placement, -1 where it has none."""
        slots = self._placements.slots(members)
        return np.where(slots >= 0, self._placements.node[slots], np.int32(-1))

    def claim(self, members: Members, pool: int = 0) -> Int32s:
        """Return the node of each member's placement, -1 for none, and let a pool's leader hold those that exist."""
        slots = self._placements.slots(members)
        known = slots >= 0
        self._placements.hold[slots[known]] |= _LEADER
        self._placements.pool[slots[known]] = pool
        return np.where(known, self._placements.node[slots], np.int32(-1))

    def reserve(self, class_slots: Int32s, nodes: Int32s) -> None:
        """Reserve for n pods at once whatever the nodes have left; `keep` or `roll_back` must follow.

        Args:
            class_slots: n slots of the class table.
            nodes: n rows of the node table.
        """
        self.nodes.take(nodes, self._bookings.amounts(class_slots, nodes))
        self._bookings.each_port(self.classes.port[class_slots], nodes, take=True)

    def roll_back(self, class_slots: Int32s, nodes: Int32s) -> None:
        """Undo reservations that are not kept."""
        self.nodes.roll_back(nodes, self._bookings.amounts(class_slots, nodes))
        self._bookings.each_port(self.classes.port[class_slots], nodes, take=False)

    def keep(self, members: Members, class_slots: Int32s, nodes: Int32s, pool: int = 0) -> None:
        """Turn n reservations into placements of a pool; the members have none yet and are distinct."""
        slots = self._placements.add(members, _LEADER)
        self._placements.pool[slots] = pool
        self._bookings.fill(slots, nodes=nodes, class_slots=class_slots)

    def move(self, members: Members, nodes: Int32s) -> None:
        """Give n members that stand on `ANY_NODE` the nodes reserved for them; no capacity rises by that."""
        table = self._placements
        slots = table.slots(members)
        before = table.node[slots]
        self.nodes.roll_back(before, table.amounts[:, slots])
        self._bookings.each_port(table.port[slots], before, take=False)
        self._bookings.fill(slots, nodes=nodes, class_slots=table.class_slot[slots])

    def classes_of(self, members: Members) -> Int32s:
        """Return the slot of the class of each member's placement, -1 where it has none."""
        slots = self._placements.slots(members)
        return np.where(slots >= 0, self._placements.class_slot[slots], np.int32(-1))

    def count_unplaced(self, class_slots: Int32s) -> Int64s:
        """Return how many members of each class stand on `ANY_NODE`. Complexity: O(placements) in NumPy."""
        table, row = self._placements, self.nodes.any_row
        there = table.class_slot[(table.hold > 0) & (table.node == row)] if row >= 0 else np.zeros(0, np.int32)
        return np.bincount(there[there >= 0], minlength=int(class_slots.max(initial=0)) + 1)[class_slots]

    def release(self, members: Members, pool: int = 0) -> int:
        """Let a pool's leader go of placements; members without one of its own are ignored, so it may be repeated.

        Args:
            members: n members of runs.
            pool: Whose leader.

        Returns:
            How many placements ended. One whose pod was observed stays until the pod's end is.
        """
        self._observer.ended[pool].discard(members)
        slots = self._placements.slots(members)
        slots = slots[slots >= 0]
        if not slots.size:  # as when the pods ended first
            return 0
        slots = np.unique(slots)
        return self._let_go(slots[self._placements.pool[slots] == pool])

    def members_of_run(self, member: Members) -> tuple[Members, Int32s]:
        """Return the members that are placed of the run of one, and their nodes. Complexity: O(placements) in NumPy."""
        return self._placements.members_of_run(int(member.handle[0]), int(member.attempt[0]))

    def occupied(self, gone: Members | None = None) -> Bools:
        """Return, per node, whether a member of a run is there that is not gone. Complexity: O(placements) in NumPy."""
        return self._placements.occupied(len(self.nodes), gone)

    def without_runs(self, gone: Members | None = None) -> NodeTable:
        """Return the nodes as if no run, or some members, were there; all else stays. Only read it, at once."""
        table, slots = self._placements, self._placements.of_runs(gone)
        free = self.nodes.free.copy()
        for column, amount in zip(free, table.amounts[:, slots], strict=True):
            np.add.at(column, table.node[slots], amount)
        return self.nodes.emptied(free, keeps_ports=gone is not None)

    def whole_nodes(self, pool: int = 0) -> tuple[Members, Int64s]:
        """Return the members of a pool's runs that have their nodes for themselves; see `whole_node_amounts`."""
        return whole_node_amounts(self._placements, self.nodes, self.classes, pool)

    def unseen(self, members: Members) -> tuple[Members, Int32s, Int32s]:
        """Return keys, class slots and nodes of those runs' placements of which no pod was observed."""
        table = self._placements
        slots = np.unique(table.slots(members))
        slots = slots[slots >= 0]
        slots = slots[table.hold[slots] == _LEADER]
        return table.keys(slots), table.class_slot[slots], table.node[slots]

    def take_list(self, members: Members, class_ids: Int32s, nodes: Int32s, pool: int = 0) -> ListOutcome:
        """Take in the full list of placements of a pool's new leader.

        What of the pool's the list lacks is dropped unless a pod of it was observed. What it has is held; where no pod
        was observed the leader's word on node and class counts, otherwise the pod; that a run may be on any node takes
        none from it. Runs whose pod was seen to end stay ended.

        Args:
            members: n members of runs, distinct.
            class_ids: n class ids, all defined.
            nodes: n rows of the node table (see `rows_of_names`).
            pool: Whose leader.

        Raises:
            InvalidRequest: A class is not defined, a row does not exist, or a member stands twice.
        """
        class_slots = self.classes.member_indices(self.classes.slots(class_ids), members.numbers())
        if has_true(class_slots < 0):
            raise InvalidRequest(f"the list names class {class_ids[class_slots < 0][0]}, which was not defined so")
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(self.nodes):
            raise InvalidRequest("the list names a node index that does not exist")
        if not members.are_distinct():
            raise InvalidRequest("the list names a member of a run twice")
        self._observer.ended[pool].keep(members)
        self._observer.unlisted_pools.discard(pool)
        table = self._placements
        known = table.live()
        known = known[(table.handle[known] >= 0) & (table.pool[known] == pool)]
        dropped = known[~table.keys(known).is_in(members)]
        dropped_count = self._let_go(dropped)
        slots = table.slots(members)
        fresh = (slots < 0) & ~self._observer.ended[pool].has(members)
        moved = (slots >= 0) & (table.hold[slots] & _POD == 0)
        if self.nodes.any_row >= 0:
            nodes = np.where((slots >= 0) & (nodes == self.nodes.any_row), table.node[slots], nodes)
        moved &= (table.node[slots] != nodes) | (table.class_slot[slots] != class_slots)
        if has_true(moved):
            self._bookings.unbook(slots[moved])
            self._bookings.fill(slots[moved], nodes=nodes[moved], class_slots=class_slots[moved])
            self._bookings.book(slots[moved])
        self._bookings.hold_listed(slots[slots >= 0], class_slots[slots >= 0])
        table.pool[slots[slots >= 0]] = pool
        self.reserve(class_slots[fresh], nodes[fresh])
        self.keep(members[fresh], class_slots[fresh], nodes[fresh], pool)
        return ListOutcome(added_count=int(fresh.sum()), moved_count=int(moved.sum()), dropped_count=dropped_count)

    # --- observing ----------------------------------------------------------------------------------------------------

    def disown(self, events: PodEvents) -> PodEvents:
        """Return events in which pods that claim a run placed elsewhere are unmanaged ones; see `PodObserver`."""
        return self._observer.disown(events)

    def observe(self, events: PodEvents) -> ObserveOutcome:
        """Take in pods as the cluster shows them.

        An observed pod with a run's label replaces the run's placement and never adds to it; an unmanaged pod counts
        with what it asks for. A pod that ended frees what it took. A pod without a node takes nothing yet.

        Raises:
            InvalidRequest: `requests` has not one column per resource of the axis, or a row does not exist.

        Complexity: about a microsecond an event.
        """
        self._check_events(events)
        return self._observer.observe(events, self.permits)

    def take_pods(self, events: PodEvents, *, shapes: Int64s, shape_column: Int32s) -> PodEvents:
        """Take in pods as `observe` does, of which several may be one member's and some may claim others' runs.

        Args:
            events: n events.
            shapes: (m, resource) distinct requests; give the same array as long as it is the same table.
            shape_column: (n,) row of `shapes`.

        Returns:
            The events as they count: see `disown`; those of members with several pods as one pod's, with one uid,
            summed requests, one end.

        Raises:
            InvalidRequest: As `observe`.
        """
        self._check_events(events)
        return self._observer.take(events, self.permits, shapes=shapes, shape_column=shape_column)

    def take_pod_list(self, events: PodEvents, *, shapes: Int64s, shape_column: Int32s) -> PodEvents:
        """Take in the full list of the cluster's pods: as `take_pods`, then end what is not in it, as `observe_all`.

        Raises:
            InvalidRequest: As `observe`.
        """
        self._check_events(events)
        listed = self.disown(events)
        run_pods = self._observer.run_pods
        asked = run_pods.own_requests(shapes, shape_column)
        counted = rewrite(listed, run_pods.fold_list(listed, asked))
        self.observe_all(counted)
        run_pods.note_list(listed, asked)
        return counted

    def _check_events(self, events: PodEvents) -> None:
        """Raise unless events fit the tables, which get the columns that they lack."""
        self._sync_axis()
        if events.requests.shape != (len(events), len(self.axis)):
            raise InvalidRequest(f"requests are shaped {events.requests.shape}, not ({len(events)}, {len(self.axis)})")
        if has_true(events.nodes >= len(self.nodes)):
            raise InvalidRequest("the events name a node index that does not exist")

    def observe_all(self, events: PodEvents) -> ObserveOutcome:
        """Take in the full list of the cluster's pods: `observe`, then end every observed pod that is not in it.

        A run of which only pods that ended are listed ends too: the pod of a bag that it was known by may be gone.
        """
        outcome = self.observe(events)
        table = self._placements
        observed = table.hold & _POD > 0
        listed = table.slots(keys_of(events)[~events.ended])
        observed[listed[listed >= 0]] = False
        gone = true_places(observed).astype(np.int32)
        self._observer.end(gone, self.permits)
        self.permits.has_listed = True
        return ObserveOutcome(
            added_count=outcome.added_count,
            replaced_count=outcome.replaced_count,
            ended_count=outcome.ended_count + len(gone),
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def placement_count(self) -> int:
        """How many members of runs have a placement."""
        return len(self._placements) - len(self._placements.unmanaged())

    def totals(self) -> LedgerTotals:
        """Return the sums over the cluster."""
        nodes = self.nodes.totals()
        return LedgerTotals(
            allocatable=nodes.allocatable,
            free=nodes.free,
            node_count=nodes.node_count,
            usable_count=nodes.usable_count,
            placement_count=self.placement_count,
        )

    def check_invariants(self) -> None:
        """Compare what is booked with the placements it is made of; see `check_ledger`."""
        check_ledger(self._placements, self.nodes, self.classes, self.permits)

    def pod_sizes(self, pool: int = 0) -> PodSizes:
        """Return the scaled pods of a pool's runs, for people."""
        return pod_sizes(self.permits, self._placements, pool)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _sync_axis(self) -> None:
        """Give nodes, classes and placements the same resource columns."""
        if len(self.nodes.axis) != len(self.classes.axis) or len(self.nodes.axis) != len(self._placements.amounts):
            self.nodes.extend_axis(self.classes.axis.names)
            self.classes.extend_axis(self.nodes.axis.names)
            self._placements.extend_axis(len(self.nodes.axis))

    def _let_go(self, slots: Int32s) -> int:
        """Take the leader's hold off distinct placements; end those that no pod holds, and return how many."""
        table = self._placements
        table.hold[slots] &= _POD
        ending = slots[table.hold[slots] == 0]
        if len(ending):
            self._bookings.unbook(ending)
            self.permits.forget(ending)
            table.drop(ending)
        return len(ending)

"""The memory of a pool's leader, and the few primitives through which everything else changes it.

A job stands in one *stage*: queued (waits in its queue's order) or held (in flight, leased or running). Counts and
usage per queue follow the stages; usage counts held jobs only. *Pending* is a label that each round gives to the next
queued jobs that have no room (see `election`); it changes neither their place nor anything that is counted.

Source: 003 "Scheduler architecture"; design section 5.
"""

from __future__ import annotations

import copy
import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s, find_begins, has_true
from argosy_core.errors import NotAllowedNow
from argosy_core.framework import JobBatch, Point, objects
from argosy_core.job.tables.live import AWAITING, BACKING_OFF, IN_FLIGHT, ON_HOLD, PENDING, LiveJobs
from argosy_core.placement import WaitReason
from argosy_core.placement.candidates import DecisionProfile
from argosy_core.queueing.order import Backlog, Entries
from argosy_core.queueing.usage import weigh_vector
from argosy_core.queueing.weights import ResourceWeights
from argosy_core.scheduler.columns.codes import JOB_QUEUED
from argosy_core.scheduler.memory.caps import Caps
from argosy_core.scheduler.memory.children import Children
from argosy_core.scheduler.memory.cluster_table import ClusterTable
from argosy_core.scheduler.memory.demands import DemandTable
from argosy_core.scheduler.memory.dependencies import Dependencies, Settled
from argosy_core.scheduler.memory.extras import Extras, preemptible_part
from argosy_core.scheduler.memory.job_set_limits import JobSetLimits
from argosy_core.scheduler.memory.job_set_table import JobSetTable
from argosy_core.scheduler.memory.live_classes import LiveClasses
from argosy_core.scheduler.memory.node_failures import NodeFailures
from argosy_core.scheduler.memory.nominations import Nominations
from argosy_core.scheduler.memory.promised import PromisedStarts
from argosy_core.scheduler.memory.queue_table import QueueTable
from argosy_core.scheduler.memory.results import BagFailure, ClassResult, RoundStatistics, Unheard
from argosy_core.scheduler.memory.returns import Returns
from argosy_core.scheduler.memory.run_history import RunHistory
from argosy_core.scheduler.memory.silence import Silence
from argosy_core.scheduler.memory.time_limits import TimeLimits
from argosy_core.scheduler.memory.vacancies import Vacancies
from argosy_core.scheduler.memory.waits import WaitTable
from argosy_core.scheduler.settings import RoundSettings

__all__ = ["PoolState"]

_PROMISED_AGAIN_S: Final = 1.0
"""Jobs that were kept from promised nodes are asked for again at most this often however much else changes, seconds."""


class RoundUnderWay(Protocol):
    """What the memory knows of a round in progress."""

    def note_woken(self, cluster: int, classes: Int32s) -> None:
        """Take note that a sampler's news came in the middle of it."""


class PoolState:
    """Everything a pool's leader holds in memory; changed only by the functions of `argosy_core.scheduler`."""

    def __init__(
        self, settings: RoundSettings | None = None, *, decision_profile: DecisionProfile | None = None
    ) -> None:
        """Start with nothing known.

        Args:
            settings: How rounds work; the defaults if None.
            decision_profile: Plugins of the leader; those that the settings name if None.
        """
        self.settings = settings or RoundSettings()
        self.decision_profile = decision_profile or self.settings.make_profile()
        self.live = LiveJobs()
        self.weights = ResourceWeights(self.settings.resource_weights, self.settings.weight_half_time_s)
        """What a unit of each resource counts."""
        self.classes = LiveClasses(self.weights)
        self.queues = QueueTable(len(self.classes.axis))
        self.job_sets = JobSetTable()
        self.job_set_limits = JobSetLimits()  # how many jobs of a set run at once
        self.demands = DemandTable(len(self.classes.axis))
        """What single jobs ask for and may hold, where that is not what their class says."""
        self.clusters = ClusterTable(len(self.classes.axis))
        self.heads: Int64s = np.zeros(0, dtype=np.int64)
        """Handles of the waiting heads: the pending jobs, in fairness order, as the last round elected them; those that
        were promised a start apart."""
        self.promises = PromisedStarts()
        """Promised starts."""
        self.run_history = RunHistory(self.settings.assumed_run_time_s)
        """How long runs take."""
        self.flow_time_s = 0.0
        """Moment for which the flows are right; 0 before the first."""
        self.back_off: list[tuple[float, int]] = []
        """Heap of (moment, handle): jobs with the flag BACKING_OFF and when it falls."""
        self.time_limits = TimeLimits()
        """When runs that have a time limit reach it."""
        self.head_kinds: Int64s = np.zeros((0, 0), dtype=np.int64)
        """(head, cluster) which kinds of nodes may hold each waiting head, a bit each."""
        self.waits = WaitTable(self.settings.wait_expiry_s)
        """Why classes get no node of clusters."""
        self.placeable: Bools = np.zeros(0, dtype=np.bool_)
        """By class: whether some cluster could be asked for it when that was last found out."""
        self.wake_count = 0
        """Grows whenever a class may be placed that could not be before."""
        self.unheard, self.silence, self.children = Unheard(), Silence(), Children()
        """Runs on nodes, and executors, that are not heard of; jobs that end with others."""
        self.change_count = 0
        """Grows with everything that may let a round place what the last one could not."""
        self.idle_at = -1
        """`change_count` at which a round found nothing to ask."""
        self.attempted: dict[int, None] = {}
        """Handles of waiting jobs whose commits failed."""
        self.answers: dict[tuple[int, int], ClassResult] = {}
        """(class, cluster) -> what it last said of why it has no node."""
        self.asked_complete: set[int] = set()
        """Class indices that had no candidate when only some nodes were looked at: ask for complete answers."""
        self.objections: dict[int, str] = {}
        """Handle -> what a plugin said of a job that it holds back, or turned away when it was placed last."""
        self.explained: set[int] = set()
        """Class indices that somebody asked to explain: the next round asks every cluster."""
        self.bag_failures: dict[int, BagFailure] = {}
        """Handle -> first failure of the current run, for runs of several objects."""
        self.node_failures, self.returns = NodeFailures(), Returns()
        """Where runs failed lately."""
        self.failed_handles: dict[int, None] = {}
        """Handles of the last jobs that this leader failed without a run: a late request is no news of them."""
        self.held_classes: Int64s = np.zeros(0, dtype=np.int64)
        """Ids of classes that are not asked for: a leader term ended with them."""
        self.unfit: dict[int, str] = {}
        """Handle -> why a job cannot be led; it fails with that reason."""
        self.room = Nominations()
        """For which waiting heads runs were stopped."""
        self.caps, self.vacancies, self.extras = Caps(), Vacancies(), Extras()  # caps are as of the last round
        self.dependencies = Dependencies()  # which jobs wait for the ends of others
        self.unsent_stops: dict[int, None] = {}
        """Handles of held jobs whose stop was not decided yet, in order of the change requests and of when
        they reached their time limits."""
        self.round_number = 0
        self.round: RoundUnderWay | None = None
        """The round in progress."""
        self.statistics = RoundStatistics()
        self.totals: Counter[str] = Counter()

    def fork(self) -> PoolState:
        """Return a copy on which rounds may be tried: whatever happens to it, this memory stays as it is.

        What never changes (settings, plugins, definitions, specs, names) is shared; plugins hear of what is tried.

        Raises:
            NotAllowedNow: A round is under way.

        Complexity: O(jobs + nodes) in NumPy; measured: 35 ms for 100,000 jobs and 30,000 nodes.
        """
        if self.round is not None:
            raise NotAllowedNow("a round is under way; a pool can be forked between rounds")
        return copy.deepcopy(self, {id(shared): shared for shared in (self.settings, self.decision_profile)})

    # --- order ----------------------------------------------------------------------------------------------------

    def make_order(self) -> Backlog:
        """Return an empty order for a queue."""
        return Backlog(self._waits, self.job_class)

    def _waits(self, entries: Entries) -> Bools:
        """Return which entries stand for a job that is queued with that priority, not in back-off and not on hold."""
        live, slots = self.live, entries.slot  # `take` costs half of an index for a few, and each queue is a few
        valid: Bools = live.handle.take(slots) == entries.handle
        valid &= live.state.take(slots) == JOB_QUEUED
        valid &= (live.flags.take(slots) & (IN_FLIGHT | BACKING_OFF | ON_HOLD)) == 0
        valid &= live.priority.take(slots) == entries.priority
        return valid

    def entries(self, slots: Int32s) -> Entries:
        """Return entries for jobs as they are now."""
        live, framework = self.live, self.decision_profile.framework
        keys = framework.queue_keys(self.job_batch(slots)) if framework.has(Point.QUEUE_SORT) else None
        if self.queues.job_keys is not None:
            own = self.queues.job_keys(self, slots)
            keys = own if keys is None else np.concatenate([keys, own], axis=1)
        return Entries(live.priority[slots], live.submit_time_us[slots], live.handle[slots], slots, keys)

    def job_batch(self, slots: Int32s) -> JobBatch:
        """Return jobs as plugins see them. Complexity: Python work per job."""
        live, class_ids = self.live, self.classes.class_id[self.live.class_index[slots]]
        class_ids, which = np.unique(class_ids, return_inverse=True)
        definitions = objects(self.classes.definition(class_id) for class_id in class_ids.tolist())
        texts = live.metadata_texts
        return JobBatch(
            handle=live.handle[slots],
            priority=live.priority[slots],
            submit_time_us=live.submit_time_us[slots],
            definition=definitions[which],
            queue=objects(self.queues.names[index] for index in live.queue[slots].tolist()),
            job_set=objects(self.job_sets.names[index] for index in live.job_set[slots].tolist()),
            metadata=objects(texts.value(index) if index >= 0 else b"" for index in live.metadata[slots].tolist()),
        )

    def push_queued(self, slots: Int32s) -> None:
        """Put queued jobs into the orders of their queues. Complexity: one push per queue concerned."""
        if not slots.size:
            return
        queues = self.live.queue[slots]
        self.change_count += 1
        self.queues.idle_at[queues] = -1
        self.hasten_promised(classes=self.live.class_index[slots])
        if (queues == queues[0]).all():
            self.queues.orders[int(queues[0])].push(self.entries(slots))
            return
        by_queue, places = self.entries(slots).grouped(queues)
        begins = find_begins(queues[places]).tolist()
        for begin, end in zip(begins, [*begins[1:], len(by_queue)], strict=True):
            self.queues.orders[int(queues[places[begin]])].push_sorted(by_queue.take(slice(begin, end)))

    def back_off_until(self, slots: Int32s, moments_s: npt.NDArray[np.float64]) -> None:
        """Have jobs passed over until a moment each; they keep their places."""
        self.live.flags[slots] |= BACKING_OFF
        for moment_s, handle in zip(moments_s.tolist(), self.live.handle[slots].tolist(), strict=True):
            heapq.heappush(self.back_off, (moment_s, handle))

    def end_back_offs(self, now_s: float) -> None:
        """Let jobs whose back-off is over take part again."""
        due: list[int] = []
        while self.back_off and self.back_off[0][0] <= now_s:
            due.append(heapq.heappop(self.back_off)[1])
        if due:
            slots = self.live.slots(np.array(due, dtype=np.int64))
            slots = np.unique(slots[slots >= 0])
            slots = slots[(self.live.flags[slots] & BACKING_OFF) != 0]
            self.live.flags[slots] &= np.uint8(0xFF ^ BACKING_OFF)
            # The order passed over the entries of queued jobs meanwhile and may have dropped them.
            self.push_queued(slots[self.stage_is_queued(slots)])

    # --- accounting -----------------------------------------------------------------------------------------------

    def stage_is_queued(self, slots: Int32s) -> Bools:
        """Return which jobs wait in their queue."""
        live = self.live
        queued: Bools = (live.state.take(slots) == JOB_QUEUED) & ((live.flags.take(slots) & IN_FLIGHT) == 0)
        return queued

    def job_usage(self, slots: Int32s) -> Int64s:
        """Return the usage of jobs, micro-cores: of what each is permitted."""
        return self._of_jobs(slots, self.classes.usage, self.demands.usage)

    def job_vectors(self, slots: Int32s) -> Int64s:
        """Return what jobs hold, or may hold, as (n, resource) in axis order, base units."""
        return self._of_jobs(slots, self.classes.requests, self.demands.permitted)

    def requested_vectors(self, slots: Int32s) -> Int64s:
        """Return what jobs ask for as (n, resource) in axis order, base units."""
        return self._of_jobs(slots, self.classes.requests, self.demands.requested)

    def _of_jobs(self, slots: Int32s, of_classes: Int64s, of_demands: Int64s) -> Int64s:
        """Return the values of jobs: those of their classes, but for jobs that own a row of demands."""
        values = of_classes.take(self.live.class_index.take(slots), axis=0)
        if len(self.demands):
            rows = self.live.demand[slots]
            values[rows >= 0] = of_demands[rows[rows >= 0]]
        return values

    def end_permits(self, slots: Int32s) -> None:
        """Permit jobs just what they ask for again, between counting them out of one stage and into another."""
        self._drop_of_members(slots)
        rows = self.live.demand[slots] if len(self.demands) else np.zeros(0, dtype=np.int32)
        narrow = rows >= 0
        if has_true(narrow):
            rows, slots = rows[narrow], slots[narrow]
            requested = self.demands.requested[rows]
            self.demands.permitted[rows] = requested
            self.demands.usage[rows] = self.classes.weigh(requested)
            as_class = (requested == self.classes.requests[self.live.class_index[slots]]).all(axis=1)
            self.demands.drop(rows[as_class])
            self.live.demand[slots[as_class]] = -1

    def _drop_of_members(self, slots: Int32s) -> None:
        """Let go of the rows of demands that members of the runs of jobs own."""
        members = self.live.members
        if len(self.demands) and len(members):
            rows = members.rows(slots)[1]
            self.demands.drop(members.demand[rows])
            members.demand[rows] = -1

    def job_class(self, slots: Int32s) -> Int32s:
        """Return the class index of jobs.

        Waiting heads count as of one class of their own behind all others, and jobs that may not begin since so many of
        their job set run, as of the next.
        """
        heads = (self.live.flags[slots] & PENDING) != 0
        classes = self.live.class_index[slots]
        if self.heads.size or self.promises.keep_nodes:
            classes = np.where(heads, np.int32(self.classes.ids.end), classes)
        if self.job_set_limits.queues:
            full = self.job_set_limits.are_full(self.live, slots)
            classes = np.where(full, np.int32(self.classes.ids.end + 1), classes)
        return classes

    def count_queued(self, slots: Int32s, sign: int) -> None:
        """Count jobs in (+1) or out (-1) of the queued stage; those on hold are counted, and want nothing."""
        rows = self.live.queue[slots]
        np.add.at(self.queues.queued_count, rows, sign)
        on_hold = (self.live.flags[slots] & ON_HOLD) != 0
        if has_true(on_hold):
            np.add.at(self.queues.on_hold_count, rows[on_hold], sign)
            rows, slots = rows[~on_hold], slots[~on_hold]
        np.add.at(self.queues.queued_usage, rows, sign * self.job_usage(slots))
        np.add.at(self.classes.waiting_count, self.live.class_index[slots], sign)

    def count_held(self, slots: Int32s, sign: int) -> None:
        """Count jobs in or out of the held stage; those that go out give back what was charged for them, whole."""
        rows, queues, usage = self.live.queue[slots], self.queues, self.job_usage(slots)
        np.add.at(queues.leased_count, rows, sign)
        np.add.at(queues.usage, rows, sign * usage)
        np.add.at(queues.held, rows, sign * self.job_vectors(slots))
        if sign < 0:
            queues.idle_at[rows] = -1  # its limits may let others start
            for row in self.queues.overstated.keys() & set(rows.tolist()):
                self.queues.overstated[row] = max(self.queues.overstated[row] - int(usage[rows == row].sum()), 0)
        self.job_set_limits.count(self.live, slots, sign, queues.orders)
        if self.room.has_lifetimes:
            ends = self.live.lifetime_s[slots] >= 0
            np.add.at(queues.preemptible_count, rows[ends], sign)
            np.add.at(queues.preemptible_usage, rows, sign * preemptible_part(self.live, self.classes, slots, usage))
            if sign < 0:
                np.subtract.at(queues.charged_core_s, rows, self.live.charge_core_s[slots])
                self.live.charge_core_s[slots] = 0

    def charge(self, slots: Int32s, charges_core_s: Int64s) -> None:
        """Take what runs that begin cost beyond the shares of their queues from the budgets of these, core-seconds."""
        self.live.charge_core_s[slots] += charges_core_s
        np.add.at(self.queues.charged_core_s, self.live.queue[slots], charges_core_s)

    def remove_jobs(self, slots: Int32s, states: Int32s | int) -> None:
        """Take jobs out of every structure; their stage is read from the table, so call before changing it.

        Args:
            slots: The jobs.
            states: JobState that each has ended in, or all have.
        """
        if slots.size == 0:
            return
        handles = self.live.handle[slots]
        queued = self.stage_is_queued(slots)
        self.count_queued(slots[queued], -1)
        self.count_held(slots[~queued], -1)
        live = self.live
        self.job_set_limits.forget(live, slots)
        np.subtract.at(self.classes.job_count, live.class_index[slots], 1)
        np.subtract.at(self.job_sets.job_count, live.job_set[slots], 1)
        if self.unsent_stops or self.bag_failures or self.attempted or self.objections or self.room.preempted:
            for handle in live.handle[slots].tolist():
                self.unsent_stops.pop(handle, None)
                self.bag_failures.pop(handle, None)
                self.attempted.pop(handle, None)
                self.objections.pop(handle, None)
                self.room.preempted.pop(handle, None)
        if len(self.demands):
            self._drop_of_members(slots)
            self.demands.drop(live.demand[slots])
        live.remove(slots)
        self.change_count += (
            bool(has_true(queued)) and self.promises.keep_nodes
        )  # perhaps for one of those that have left
        if len(self.children):
            self.children.end(handles)
        if len(self.dependencies):
            self.settle(self.dependencies.end_live(handles, states))

    def settle(self, settled: Settled) -> None:
        """Let jobs go that wait for no other any more; those that waited in vain fail with the next changes taken."""
        self.unfit.update(settled.doomed)
        self.dependencies.has_doomed |= bool(settled.doomed)
        slots = self.live.slots(np.array(settled.free, dtype=np.int64))
        slots = slots[slots >= 0]
        slots = slots[(self.live.flags[slots] & AWAITING) != 0]
        self.count_queued(slots, -1)
        self.live.flags[slots] &= np.uint8(0xFF ^ AWAITING)
        self.count_queued(slots, 1)
        self.push_queued(slots)

    def pending_slots(self) -> Int32s:
        """Return the slots of the jobs that were promised a start and their followers, then of the waiting heads."""
        handles = self.heads
        if first := [*self.promises.handles, *self.promises.followers]:
            handles = np.append(np.array(first, dtype=np.int64), handles)
        slots = self.live.slots(handles)
        slots = slots[slots >= 0]
        return slots[self.stage_is_queued(slots)]

    # --- capacity -------------------------------------------------------------------------------------------------

    def compact_node_names(self, index: int) -> None:
        """Forget the names of a cluster's nodes that went and on which nothing runs; only between rounds."""
        live = self.live
        slots = live.live_slots()
        slots = slots[(live.cluster[slots] == index) & (live.node[slots] >= 0)]
        others = [*self.node_failures.nodes_of(index), *self.promises.nodes_of(index)]
        moved = self.clusters.nodes[index].compact(np.concatenate([live.node[slots], np.array(others, np.int32)]))
        live.node[slots] = moved[live.node[slots]]
        self.promises.move_nodes(index, moved.tolist())
        self.node_failures.move_nodes(index, moved.tolist())

    def in_axis_order(self, values: npt.NDArray[np.int64], names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return resource columns (..., r) in the order of the axis; the axis must have all names."""
        axis = self.classes.axis
        if tuple(names) == axis.names:
            return values
        result = np.zeros((*values.shape[:-1], len(axis)), dtype=np.int64)
        result[..., [axis.index(name) for name in names]] = values
        return result

    def free_usage(self) -> int:
        """Return the weighted free capacity of all clusters that may be given work, micro-cores."""
        return weigh_vector(self.usable_free(), self.classes.axis.names, self.weights.values)

    def usable_free(self) -> Int64s:
        """Return what is free in all clusters that may be given work, in axis order, base units."""
        free: Int64s = np.maximum(self.clusters.free[self.clusters.usable()], 0).sum(axis=0)
        return free

    def capacity_usage(self) -> int:
        """Return the weighted capacity of all clusters that may be given work, micro-cores."""
        total = self.clusters.total[self.clusters.usable()].sum(axis=0)
        return weigh_vector(np.asarray(total, dtype=np.int64), self.classes.axis.names, self.weights.values)

    def give_back(self, slots: Int32s) -> None:
        """Count the requests of ended runs as free in their clusters.

        That wakes no class which a cluster's sampler has no node for: whether it fits now, only the sampler knows.
        """
        if slots.size:
            np.add.at(self.clusters.free, self.live.cluster[slots], self.job_vectors(slots))
            if len(self.vacancies) or self.classes.elastic:
                self.vacancies.drop(*(handles := self.live.handle[slots].tolist()))
                self.extras.forget(handles)
            if self.promises.keep_nodes:
                self.waits.end(WaitReason.PROMISED, np.unique(self.live.cluster[slots]))
            self.change_count += 1

    def hasten_promised(self, *, classes: Int32s | None = None, cluster: int = -1) -> None:
        """Have jobs that were kept from promised nodes asked for again within a second, since something changed.

        Args:
            classes: Classes of which there are more jobs; all by default.
            cluster: Where more is free; everywhere by default.
        """
        if self.promises.keep_nodes:
            again_s = self.flow_time_s + _PROMISED_AGAIN_S
            self.waits.hasten(WaitReason.PROMISED, again_s, classes=classes, cluster=cluster)

    def ensure_class_grid(self) -> None:
        """Make room for every class and cluster in the table of waits."""
        self.waits.ensure(self.classes.ids.end, len(self.clusters))

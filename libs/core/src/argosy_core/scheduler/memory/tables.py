"""Tables of what jobs refer to: classes, queues, job sets, clusters; each with small dense indices.

Columns are public arrays of this package's own; the functions of `argosy_core.scheduler` alone change them.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s, has_true, true_places
from argosy_core.errors import InvalidRequest, InvariantViolation, NotFound
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.class_columns import ClassColumns
from argosy_core.job.tables.ids import IdTable, grow
from argosy_core.job.tables.interning import distinct
from argosy_core.queueing.limits import QueueLimits
from argosy_core.queueing.order import Backlog
from argosy_core.queueing.usage import weigh_rows
from argosy_core.queueing.weights import ResourceWeights
from argosy_core.resources.axis import DEFAULT_AXIS, ResourceAxis
from argosy_core.scheduler.memory.branches import Branches
from argosy_core.scheduler.memory.capacity_bounds import counted_total

__all__ = [
    "MAX_NODES",
    "MAX_RESOURCES",
    "MAX_TOTAL",
    "ClusterTable",
    "JobSetTable",
    "LiveClasses",
    "NodeNames",
    "QueueTable",
    "check_growth",
]

MAX_RESOURCES: Final = 256
"""Different resources that a pool counts: each is a column of every class, node and request."""
MAX_NODES: Final = 1 << 18
"""Nodes of one cluster, those that went and whose numbers are not used again included."""
MAX_TOTAL: Final = 1 << 60
"""Most of one resource that one cluster may have, base units."""
_MAX_SUM: Final = 1 << 62
"""Most of one resource that all clusters of a pool may have."""
_MAX_CELLS: Final = 1 << 23
"""Nodes times resources of one cluster: 100,000 nodes with 80 resources, 64 MiB in each table of theirs."""
_MAX_REQUESTED: Final = 192
"""How many of them classes may bring, so that there is room for what nodes have."""
_SPARE_NAMES: Final = 1000
_LEAST_IDLE_CLASSES: Final = 2000
"""Classes without live jobs that are kept in any case, as the next of their jobs is likely to come soon."""
_MAX_IDLE_JOB_SETS: Final = 50_000
_IDLE_JOB_SET_S: Final = 60.0
_NOTHING: Final = SchedulingClass(requests=())


def check_growth(node: npt.NDArray[np.integer], known_count: int, resource_count: int) -> None:
    """Do nothing if a table of nodes may grow by what a sampler tells, which must have told the nodes before them.

    Without that, one node with a high number would cost the memory of as many.

    Args:
        node: Numbers of the nodes told, each once.
        known_count: One more than the highest number told before.
        resource_count: Resources that the cluster has told, these included.

    Raises:
        InvalidRequest: The numbers leave a gap, or the cluster has too many nodes with too many resources.
    """
    end = int(node.max(initial=-1)) + 1
    if end > known_count + node.size:
        raise InvalidRequest(f"node {end - 1} is told, but only {known_count + node.size} nodes with those before it")
    if max(end, known_count) * resource_count > _MAX_CELLS:
        raise InvalidRequest(
            f"{max(end, known_count)} nodes with {resource_count} different resources are more than a leader counts"
        )


class LiveClasses(ClassColumns):
    """Scheduling classes that jobs use: what one job takes, and how many there are; others are dropped in time."""

    def __init__(self, weights: ResourceWeights) -> None:
        """Start empty.

        Args:
            weights: What resources count.
        """
        super().__init__(DEFAULT_AXIS)
        self._weights = weights
        self.usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of one job, micro-cores."""
        self.job_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Live jobs of the class."""
        self.waiting_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs of the class."""
        self.definitions: dict[int, bytes] = {}
        """Index -> definition."""
        self.refused: dict[int, str] = {}
        """Index -> why a class cannot be used; its jobs fail with that reason."""
        self.drop_count = 0
        """How often classes were dropped; those that were are found by their ids, which are not held any more."""
        self._ports: dict[int, tuple[HostPort, ...]] = {}

    def define(self, class_id: int, definition: bytes) -> int:
        """Add a class and return its index; a known one is left alone, and one that cannot be used is refused."""
        known = self.ids.find(class_id)
        if known is not None:
            return known
        try:
            parsed = SchedulingClass.parse(definition)
            self.extend_axis([name for name, _ in parsed.requests], _MAX_REQUESTED)
        except (ValueError, InvalidRequest) as error:
            return self.refuse(class_id, f"its scheduling class cannot be used: {error}")
        return self._add(class_id, parsed, definition)

    def refuse(self, class_id: int, reason: str) -> int:
        """Add a class that cannot be used, as one that asks for nothing, and return its index."""
        index = self._add(class_id, _NOTHING, _NOTHING.definition())
        self.refused[index] = reason
        return index

    def _add(self, class_id: int, parsed: SchedulingClass, definition: bytes) -> int:
        index = self._enter(class_id, parsed)
        end = self.ids.end
        self.usage = grow(self.usage, end)
        self.job_count = grow(self.job_count, end)
        self.waiting_count = grow(self.waiting_count, end)
        self.usage[index] = self.weigh(self.requests[index : index + 1])[0]
        self.job_count[index] = self.waiting_count[index] = 0
        self.definitions[index] = definition
        if parsed.host_ports:
            self._ports[index] = parsed.host_ports
        ids = self._pod_ids(parsed)
        pods = zip(ids, parsed.gang, strict=True)
        self._note_gang(index, parsed, [self._add(pod_id, group.pod, b"") for pod_id, group in pods])
        return index

    def node_needs(self, classes: npt.NDArray[np.integer]) -> Int64s:
        """Return (n, resource) what some node must have for a job of each class: of a gang, for its largest pods."""
        needs: Int64s = self.requests[classes]
        for place in true_places(self.are_gangs(classes)).tolist():
            needs[place] = self.requests[self.gangs[int(classes[place])].pods].max(axis=0)
        return needs

    def weigh(self, rows: Int64s) -> Int64s:
        """Return the usage of what each of n jobs requests as (n, resource) in axis order, micro-cores."""
        return weigh_rows(rows, self.axis.names, self._weights.values)

    def weigh_again(self) -> None:
        """Take over changed weights; whoever holds sums of usage adds them up again."""
        self.usage = self.weigh(self.requests)

    def host_ports(self, classes: npt.NDArray[np.integer]) -> dict[int, tuple[HostPort, ...]]:
        """Return the host ports that a pod takes, by class id, of those of some classes that take any."""
        if not self._ports:
            return {}
        return {int(self.class_id[index]): self._ports[index] for index in classes.tolist() if index in self._ports}

    def definition(self, class_id: int) -> SchedulingClass:
        """Return the class of an id.

        Raises:
            NotFound: The class is not defined.
        """
        index = self.ids.find(class_id)
        if index is None:
            raise NotFound(f"class {class_id} is not defined")
        return SchedulingClass.parse(self.definitions[index])

    def extend_axis(self, names: Iterable[str], most: int = MAX_RESOURCES) -> bool:
        """Give new resources a column; return whether there were any.

        Raises:
            InvalidRequest: There would be too many.
        """
        wanted = self.axis.extend(names).names
        if len(self.axis) < len(wanted) > most:
            raise InvalidRequest(f"a pool counts at most {most} different resources; {wanted[-1]!r} is one more")
        return super().extend_axis(wanted)

    def used_columns(self) -> npt.NDArray[np.bool_]:
        """Return which resources every node has or some class asks for."""
        used: npt.NDArray[np.bool_] = (self.requests[[index for _, index in self.ids.items()]] != 0).any(axis=0)
        used[: len(DEFAULT_AXIS)] = True
        return used

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take away the other resources."""
        self.axis = ResourceAxis(tuple(self.axis.names[column] for column in true_places(used).tolist()))
        self.requests = self.requests[:, used]

    def drop_idle(self, most: int | None = None) -> list[int]:
        """Forget classes without live jobs once there are too many; return the indices forgotten.

        Args:
            most: How many there may be; None for as many as have live jobs, and 2,000 at least.
        """
        live = self.job_count[: self.ids.end]
        live_count = int(np.count_nonzero(live))
        if len(self.ids) - live_count <= (max(_LEAST_IDLE_CLASSES, live_count) if most is None else most):
            return []
        idle = [(class_id, index) for class_id, index in self.ids.items() if class_id >= 0 and not live[index]]
        self.drop_count += bool(idle)
        idle += [(int(self.class_id[pod]), pod) for _, index in idle for pod in self._drop_gang(index)]
        for class_id, index in idle:
            self.ids.drop(class_id)
            del self.definitions[index]
            self._ports.pop(index, None)
            self.refused.pop(index, None)
        return [index for _, index in idle]


class QueueTable:
    """Queues with their flow and counts."""

    def __init__(self, column_count: int) -> None:
        """Start empty.

        Args:
            column_count: Resources of the axis.
        """
        self.ids = IdTable()
        self.names: dict[int, str] = {}
        """Index -> name."""
        self.orders: dict[int, Backlog] = {}
        """Index -> waiting jobs in order."""
        self.job_keys: Callable[[Any, Int32s], Int64s] | None = None
        """(pool, n jobs) -> (n, k) keys by which they stand, priority included; None for priority and submission."""
        self.lead_s = 0.0
        """How much earlier a job counts as submitted for each doubling of its usage, by these keys, seconds."""
        self.aged_until_us = 0
        """Who was submitted by then has waited for longer than the age bound, microseconds since the Unix epoch."""
        self.queue_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Id of each index, 0 where the index is free."""
        self.weight: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Weights."""
        self.cordoned: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether nothing may be placed."""
        self.flow: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Flow at the pool's flow time, cores."""
        self.usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of in-flight, leased and running jobs, micro-cores."""
        self.preemptible_usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of those of them that have a lifetime, micro-cores."""
        self.preemptible_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """How many these are."""
        self.charged_core_s: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """What they take of the queue's excess flow budget, core-seconds."""
        self.overstated: dict[int, int] = {}
        """Queue's index -> usage of runs that had ended when the last leader leased their room anew, micro-cores."""
        self.non_preemptible_flow: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Flow of jobs without a lifetime at the pool's flow time, cores; kept once a job had a lifetime."""
        self.held: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """(index, resource) what these hold, base units."""
        self.queued_usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of queued jobs that are not on hold, micro-cores."""
        self.queued_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs."""
        self.on_hold_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs that are held or wait for others: they want nothing now."""
        self.idle_at: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """`PoolState.wake_count` at which no queued job was of a class that may be placed; -1 if that is not known."""
        self.leased_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """In-flight, leased and running jobs."""
        self.limits: dict[int, QueueLimits] = {}
        """Index -> what it may hold at once; those without limits are left out."""
        self.preempts_unexpired: set[int] = set()
        """Indices of those for whose jobs runs make room that are not past their lifetimes yet."""
        self.preempts_endless: set[int] = set()
        """Indices of those for whose jobs runs without a lifetime make room."""
        self.lease_paid_s: dict[int, float] = {}
        """Index -> when all that it has begun is paid for by its lease rate, seconds since the Unix epoch."""
        self.branches = Branches()
        """Which queues stand below which."""
        self.deleted: set[int] = set()
        """Ids of deleted queues whose last jobs are not known to have ended."""

    def add(self, queue_id: int, order: Backlog) -> int:
        """Add a queue that is not known and return its index."""
        index = self.ids.add(queue_id)
        end = self.ids.end
        self.queue_id = grow(self.queue_id, end)
        self.weight = grow(self.weight, end)
        self.cordoned = grow(self.cordoned, end)
        self.flow = grow(self.flow, end)
        self.non_preemptible_flow = grow(self.non_preemptible_flow, end)
        self.usage = grow(self.usage, end)
        self.preemptible_usage = grow(self.preemptible_usage, end)
        self.preemptible_count = grow(self.preemptible_count, end)
        self.charged_core_s = grow(self.charged_core_s, end)
        self.held = grow(self.held, end)
        self.queued_usage = grow(self.queued_usage, end)
        self.queued_count = grow(self.queued_count, end)
        self.on_hold_count = grow(self.on_hold_count, end)
        self.idle_at = grow(self.idle_at, end)
        self.leased_count = grow(self.leased_count, end)
        counts = (self.queued_count, self.on_hold_count, self.leased_count, self.preemptible_count)
        for column in (self.usage, self.preemptible_usage, self.charged_core_s, self.held, self.queued_usage, *counts):
            column[index] = 0
        self.idle_at[index] = -1
        self.flow[index] = self.non_preemptible_flow[index] = 0.0
        self.queue_id[index] = queue_id
        self.orders[index] = order
        return index

    def add_columns(self, count: int) -> None:
        """Give every resource array `count` more columns."""
        self.held = np.pad(self.held, ((0, 0), (0, count)))

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take the other resources out of every resource array."""
        self.held = self.held[:, used]

    def open_count(self, index: int) -> int:
        """Return how many live jobs a queue has."""
        return int(self.queued_count[index] + self.leased_count[index])

    def drop(self, queue_id: int) -> None:
        """Forget a queue without live jobs."""
        index = self.ids.drop(queue_id)
        self.deleted.discard(queue_id)
        self.queue_id[index] = 0
        self.weight[index] = 0.0
        self.flow[index] = self.non_preemptible_flow[index] = 0.0
        del self.names[index], self.orders[index]
        self.limits.pop(index, None)
        self.lease_paid_s.pop(index, None)
        self.preempts_unexpired.discard(index)
        self.preempts_endless.discard(index)
        self.branches.forget(index)
        self.branches.arrange(self.names, self.flow)


class JobSetTable:
    """Job sets and how far their events are numbered."""

    def __init__(self) -> None:
        """Start empty."""
        self.ids = IdTable()
        self.names: dict[int, str] = {}
        """Index -> name."""
        self.job_set_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Id of each index."""
        self.queue_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queue id of each job set."""
        self.last_number: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Number of the last event drafted."""
        self.job_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Live jobs."""
        self.touched_s: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """When events were last drafted."""

    def define(self, job_set_id: int, queue_id: int, name: str, last_number: int) -> int:
        """Add a job set and return its index; a known one keeps its own number, which is never behind."""
        known = self.ids.find(job_set_id)
        if known is not None:
            return known
        index = self.ids.add(job_set_id)
        end = self.ids.end
        self.job_set_id = grow(self.job_set_id, end)
        self.queue_id = grow(self.queue_id, end)
        self.last_number = grow(self.last_number, end)
        self.job_count = grow(self.job_count, end)
        self.touched_s = grow(self.touched_s, end)
        self.names[index] = name
        self.job_set_id[index] = job_set_id
        self.queue_id[index] = queue_id
        self.last_number[index] = last_number
        self.job_count[index] = 0
        self.touched_s[index] = np.inf
        return index

    def drop_idle(self, now_s: float) -> None:
        """Forget job sets without live jobs once there are many, if their last events are surely stored."""
        end = self.ids.end
        if len(self.ids) - int((self.job_count[:end] > 0).sum()) <= _MAX_IDLE_JOB_SETS:
            return
        idle = (self.job_count[:end] == 0) & (self.touched_s[:end] < now_s - _IDLE_JOB_SET_S)
        for job_set_id, index in self.ids.items():
            if idle[index]:
                self.ids.drop(job_set_id)
                del self.names[index]

    def drop_queue(self, queue_id: int) -> None:
        """Forget the job sets of a queue; none has live jobs."""
        for job_set_id, index in list(self.ids.items()):
            if self.queue_id[index] == queue_id:
                self.ids.drop(job_set_id)
                del self.names[index]


class NodeNames:
    """Names of one cluster's nodes; an index means the same name until they are compacted."""

    def __init__(self) -> None:
        """Start empty."""
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.by_sampler: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """Index for each sampler node index of the present incarnation, -1 where none was told."""
        self.told_end = 0
        """One more than the highest sampler node index that was told."""

    def __deepcopy__(self, memo: dict[int, object]) -> NodeNames:
        """Return a copy in a fraction of the time that looking at each name takes."""
        other = copy(self)
        vars(other).update(names=list(self.names), _index=dict(self._index), by_sampler=self.by_sampler.copy())
        return other

    def intern(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the index of each name, adding what is new."""
        result = np.empty(len(names), dtype=np.int32)
        for row, name in enumerate(names):
            index = self._index.get(name)
            if index is None:
                index = len(self.names)
                self.names.append(name)
                self._index[name] = index
            result[row] = index
        return result

    @property
    def is_crowded(self) -> bool:
        """Whether most names may be of nodes that went long ago."""
        return len(self.names) > 2 * self.told_end + _SPARE_NAMES

    def compact(self, used: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Forget the names that neither the sampler has told nor anybody uses.

        Args:
            used: Indices that somebody else holds, distinct or not.

        Returns:
            New index by old index, -1 for those that are forgotten.
        """
        kept = np.unique(np.concatenate([used, self.by_sampler[self.by_sampler >= 0]])).astype(np.int32)
        moved = np.full(len(self.names), -1, dtype=np.int32)
        moved[kept] = np.arange(kept.size, dtype=np.int32)
        self.names = [self.names[index] for index in kept.tolist()]
        self._index = {name: index for index, name in enumerate(self.names)}
        known = self.by_sampler >= 0
        self.by_sampler[known] = moved[self.by_sampler[known]]
        return moved

    def translate(self, sampler_nodes: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return the index for each sampler node index, -1 where none was told."""
        if self.by_sampler.size == 0:
            return np.full(sampler_nodes.size, -1, dtype=np.int32)
        inside = (sampler_nodes >= 0) & (sampler_nodes < self.by_sampler.size)
        return np.where(inside, self.by_sampler[np.where(inside, sampler_nodes, 0)], np.int32(-1))


class ClusterTable:
    """Clusters as their samplers described them."""

    def __init__(self, column_count: int) -> None:
        """Start empty.

        Args:
            column_count: Resources of the axis.
        """
        self._index: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[NodeNames] = []
        self.resources: list[tuple[str, ...]] = []
        """Per cluster, the resources that its sampler has told."""
        self.allocatable: list[npt.NDArray[np.int64]] = []
        """Per cluster, (sampler node, resource of its own) allocatable; zeros for nodes that are gone."""
        self.ready: list[npt.NDArray[np.bool_]] = []
        """Per cluster, (sampler node,) whether it may be given work."""
        self.connected: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether a sampler session stands and is ready."""
        self.cordoned: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether nothing new may be placed."""
        self.delegated: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether leases name the cluster only, and its sampler places when its executor asks."""
        self.forgotten: set[int] = set()
        """Clusters that were declared gone and have not been heard of since."""
        self.incarnation: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Incarnation of the sampler."""
        self.session: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Grows whenever the sampler's session begins or ends; what was asked in another session has no answer."""
        self.node_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Nodes."""
        self.told_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """How often the sampler has told totals of its own accord."""
        self.total: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Sum of allocatable over usable nodes, as far as it counts (`capacity_bounds`)."""
        self.free: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Sum of positive free over usable nodes, kept current with commits and releases."""
        self.largest: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """Largest allocatable of any node, per resource."""
        self.most: dict[int, Mapping[str, int]] = {}
        """What clusters have at most, base units by resource, where an administrator said so."""
        self.told: dict[int, tuple[tuple[str, ...], npt.NDArray[np.int64]]] = {}
        """Resources and totals as samplers told them; `total` is what of it counts."""

    def __len__(self) -> int:
        """Return the number of clusters."""
        return len(self.names)

    def add(self, name: str) -> int:
        """Return the index of a cluster, adding it if it is new."""
        index = self._index.get(name)
        if index is not None:
            return index
        index = len(self.names)
        if index >= np.iinfo(np.int16).max:
            raise InvariantViolation(f"more than {np.iinfo(np.int16).max} clusters in one pool")
        self._index[name] = index
        self.names.append(name)
        self.nodes.append(NodeNames())
        self.resources.append(())
        self.allocatable.append(np.zeros((0, 0), dtype=np.int64))
        self.ready.append(np.zeros(0, dtype=np.bool_))
        count = index + 1
        self.connected = np.append(self.connected, False)
        self.cordoned, self.delegated = np.append(self.cordoned, False), np.append(self.delegated, False)
        columns = ("incarnation", "session", "node_count", "told_count")
        for column in (*columns, "total", "free", "largest"):
            values = getattr(self, column)
            row = np.zeros((count - values.shape[0], *values.shape[1:]), dtype=np.int64)
            setattr(self, column, np.concatenate([values, row]))
        return index

    def node_names(self, cluster: npt.NDArray[np.integer], node: Int32s) -> tuple[list[str], Int64s]:
        """Return the names of the distinct ones of n nodes, and for each node the place of its name.

        Args:
            cluster: Cluster of each node.
            node: Its index there, 0 or more.
        """
        width = int(node.max(initial=0)) + 1
        found, inverse = distinct(cluster.astype(np.int64) * width + node)
        return [self.nodes[key // width].names[key % width] for key in found.tolist()], inverse

    def find(self, name: str) -> int | None:
        """Return the index of a cluster, or None."""
        return self._index.get(name)

    def index(self, name: str) -> int:
        """Return the index of a cluster.

        Raises:
            NotFound: The cluster is not known.
        """
        index = self._index.get(name)
        if index is None:
            raise NotFound(f"cluster {name!r} is not known to the scheduler; hand it to `set_cluster` first")
        return index

    def add_columns(self, count: int) -> None:
        """Give every resource array `count` more columns."""
        self.total = np.pad(self.total, ((0, 0), (0, count)))
        self.free = np.pad(self.free, ((0, 0), (0, count)))
        self.largest = np.pad(self.largest, ((0, 0), (0, count)))

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take the other resources out of every resource array."""
        self.total, self.free, self.largest = (column[:, used] for column in (self.total, self.free, self.largest))

    def counted(
        self, index: int, resources: Sequence[str], total: npt.NDArray[np.int64], *, node_count: int
    ) -> npt.NDArray[np.int64]:
        """Return what of a cluster's told totals counts, if it has named so many nodes."""
        return counted_total(total, resources, node_count=node_count, most=self.most.get(index, {}))

    def uncounted(self, name: str) -> dict[str, tuple[int, int]]:
        """Return what a cluster told and what of it counts, by resource, where that is less."""
        index = self._index.get(name)
        if index not in self.told:
            return {}
        resources, told = self.told[index]
        counted = self.counted(index, resources, told, node_count=self.nodes[index].told_end)
        return {
            resource: (said, most)
            for resource, said, most in zip(resources, told.tolist(), counted.tolist(), strict=True)
            if most < said
        }

    def check_total(self, index: int, total: npt.NDArray[np.int64]) -> None:
        """Do nothing if sums over all clusters stay countable when one has a total, in axis order.

        Raises:
            InvalidRequest: They do not.
        """
        if has_true(total > _MAX_SUM - self.total.sum(axis=0) + self.total[index]):
            raise InvalidRequest("with what this cluster has, its pool has more of a resource than a leader can count")

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return which clusters may be given work."""
        return self.connected & ~self.cordoned

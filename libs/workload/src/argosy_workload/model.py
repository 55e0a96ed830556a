"""Workloads and node sets: what a trace, a profile or a benchmark asks for, and the machines it asks of.

Jobs stand in columns (structure of arrays), sorted by submit time; distinct queues, job sets and shapes stand once in
tables that the columns point into. Nodes stand likewise: distinct models once, a column of models and one of clusters.
Amounts are int64 base units (cpu in millicores, memory in bytes, others whole units); times are seconds since the first
submit of the trace ("trace time").

Source: design section 6, "Data layout".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import GangGroup, MatchExpression, SchedulingClass
from argosy_core.resources import CPU, MEMORY, PODS, ResourceAxis, parse_quantity

__all__ = [
    "ESTIMATES",
    "GPU",
    "GPU_MODEL_LABEL",
    "MAX_TIME_S",
    "JobColumns",
    "NodeModel",
    "NodeSet",
    "Queue",
    "Shape",
    "Workload",
    "build_workload",
    "estimate",
    "queue_name",
    "uniform_nodes",
]

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

GPU: Final = "nvidia.com/gpu-milli"
"""GPUs as a plain quantity, 1000 to a device, so that fractions add up. Which device of a node a pod gets is not
modelled: a node with two half-free devices has room for a pod that asks for one whole device."""
GPU_MODEL_LABEL: Final = "nvidia.com/gpu.product"
"""Node label with the GPU model: the one that real clusters have. Labels below argosy.dev/ are the system's own, and
the server refuses jobs that select by them."""
_LONGEST_ESTIMATE_S: Final = 315_360_000
"""Ten years: the longest that a server takes."""
MAX_TIME_S: Final = 1e11
"""Longest time that is accepted anywhere, seconds (about 3,000 years): larger numbers are damage, not data."""
ESTIMATES: Final = ("user", "exact", "none")
"""What jobs are estimated to take: what their users asked for, what they do take, or nothing is said."""
DEFAULT_POD_ALLOCATABLE: Final = 110
"""Pods per node where a source does not say; the default of Kubernetes."""

_T = TypeVar("_T")
_NOT_QUEUE = re.compile(r"[^a-z0-9]+")
_UNIFORM = re.compile(r"^(?P<count>\d{1,7})x(?P<rest>.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue that jobs of a workload belong to."""

    name: str
    """Lower-case DNS label."""
    weight: float = 1.0
    """Weight of the fair share, > 0."""

    def __post_init__(self) -> None:
        """Refuse weights by which nothing can be divided.

        Raises:
            InvalidRequest: The weight is not a positive number.
        """
        if not 0 < self.weight < float("inf"):
            raise InvalidRequest(f"queue {self.name[:60]!r} has weight {self.weight:g}; a weight is a positive number")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Shape:
    """What a job asks for: equal shapes are one scheduling class."""

    requests: tuple[tuple[str, int], ...]
    """(resource name, base units) of one pod, sorted by name, zeros left out."""
    gpu_models: tuple[str, ...] = ()
    """GPU models of which the node must have one, sorted; empty for any node."""
    platform: str = ""
    """`os/architecture` as in `linux/amd64`; empty for any."""
    member_count: int = 1
    """Pods that begin together, all in one cluster; several are a gang."""

    @staticmethod
    def of(
        amounts: Mapping[str, int], *, gpu_models: Iterable[str] = (), platform: str = "", member_count: int = 1
    ) -> Shape:
        """Return the shape with the given amounts of a pod in base units; order and zeros do not matter."""
        requests = tuple(sorted((name, int(amount)) for name, amount in amounts.items() if amount))
        models = tuple(sorted(set(gpu_models)))
        return Shape(requests=requests, gpu_models=models, platform=platform, member_count=member_count)

    def amount(self, resource: str) -> int:
        """Return base units that a pod asks of a resource, 0 if none."""
        return dict(self.requests).get(resource, 0)

    def total(self) -> dict[str, int]:
        """Return what all its pods ask for together, base units by resource name."""
        return {name: amount * self.member_count for name, amount in self.requests}

    def node_selector(self) -> dict[str, str]:
        """Return the node labels that the platform asks for."""
        if not self.platform:
            return {}
        system, _, architecture = self.platform.partition("/")
        labels = {"kubernetes.io/os": system, "kubernetes.io/arch": architecture}
        return {key: value for key, value in labels.items() if value}

    def scheduling_class(self) -> SchedulingClass:
        """Return the class that jobs of this shape belong to."""
        affinity: tuple[tuple[MatchExpression, ...], ...] = ()
        if self.gpu_models:
            affinity = ((MatchExpression(GPU_MODEL_LABEL, "In", self.gpu_models),),)
        system, _, architecture = self.platform.partition("/")
        platforms = ((system, architecture),) if self.platform else ()
        pod = SchedulingClass(requests=self.requests, affinity=affinity, platforms=platforms)
        if self.member_count == 1:
            return pod
        return SchedulingClass.of_gang([GangGroup(pod=pod, minimum=self.member_count, maximum=self.member_count)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Jobs by submit time. Columns have one length n and are not to be written to."""

    source: str
    """Where the jobs come from, for reports."""
    queues: tuple[Queue, ...]
    """Distinct queues."""
    job_sets: tuple[str, ...]
    """Distinct names of job sets."""
    shapes: tuple[Shape, ...]
    """Distinct shapes."""
    submit_s: FloatArray
    """(n,) submit time, trace seconds, ascending, first one 0."""
    run_s: FloatArray
    """(n,) how long the pod runs, trace seconds, >= 0."""
    queue: Int32Array
    """(n,) index into `queues`."""
    job_set: Int32Array
    """(n,) index into `job_sets`."""
    shape: Int32Array
    """(n,) index into `shapes`."""
    priority: Int32Array
    """(n,) priority within the queue, higher first."""
    estimate_s: FloatArray
    """(n,) the user's estimate of the run time, trace seconds; NaN where there is none."""
    lifetime_s: FloatArray
    """(n,) after how much of its run a job may be preempted, trace seconds; NaN for never."""
    client_ids: tuple[str, ...]
    """n ids, unique in the workload."""
    user: Int32Array | None = None
    """(n,) number of the user who submitted it, -1 where that is not known; None if it is not known of any."""
    estimates_are_limits: bool = False
    """Whether a job that runs longer than its estimate is stopped."""
    notes: tuple[str, ...] = ()
    """What a reader of a report must know: assumptions, defaults, what was left out."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)

    def span_s(self) -> float:
        """Return trace seconds from the first to the last submit."""
        return float(self.submit_s[-1] - self.submit_s[0]) if len(self) else 0.0

    def requests(self, axis: ResourceAxis) -> Int64Array:
        """Return what a pod of each shape asks for, (shapes, resources) base units in the axis' column order, pods = 1.

        Raises:
            KeyError: A shape asks for a resource that is not on the axis.
        """
        table = np.zeros((len(self.shapes), len(axis)), dtype=np.int64)
        for row, shape in enumerate(self.shapes):
            table[row] = axis.vector(dict(shape.requests))
            if PODS in axis.names:
                table[row, axis.index(PODS)] = 1
        return table

    def estimates_s(self, *, speed: float = 1.0) -> Int32Array:
        """Return the estimates in whole seconds of a clock that many times as slow, at least 1; -1 where there is none.

        They are rounded up, so that what is exact remains an upper bound.
        """
        return _whole_s(self.estimate_s / speed, least=1)

    def lifetimes_s(self, *, speed: float = 1.0) -> Int32Array:
        """Return the lifetimes in whole seconds of a clock that many times as slow, rounded up; -1 for none."""
        return _whole_s(self.lifetime_s / speed, least=0)

    def with_notes(self, *notes: str) -> Workload:
        """Return the workload with notes added behind those it has."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(slots=True, kw_only=True)
class JobColumns:
    """Jobs as a reader finds them: any order, names in place of indices."""

    submit_s: FloatArray
    """(n,) submit time on the trace's own clock, seconds."""
    run_s: FloatArray
    """(n,) run time, seconds."""
    queue: Sequence[str]
    """n queue names."""
    shape: Sequence[Shape]
    """n shapes."""
    client_ids: Sequence[str]
    """n ids."""
    job_set: Sequence[str] = ()
    """n names of job sets; empty for one job set of all."""
    priority: Sequence[int] | Int32Array = ()
    """n priorities; empty for 0 everywhere."""
    estimate_s: FloatArray = field(default_factory=lambda: np.empty(0))
    """(n,) estimates, NaN for none; empty for none anywhere."""
    lifetime_s: FloatArray = field(default_factory=lambda: np.empty(0))
    """(n,) lifetimes, NaN for none; empty for none anywhere."""
    user: Sequence[int] | Int32Array = ()
    """n numbers of users, -1 for nobody known; empty if none is known."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight by queue name; 1 where it is missing. Queues named here exist even without jobs."""


def build_workload(columns: JobColumns, *, source: str, notes: Iterable[str] = ()) -> Workload:
    """Return the jobs sorted by submit time (equal times keep their order), with the first submit at 0.

    Args:
        columns: The jobs; all columns of one length.
        source: Where they come from.
        notes: What reports must say about them.

    Raises:
        InvalidRequest: No jobs, a time out of range, or a client id that repeats.

    Complexity: O(n log n).
    """
    count = len(columns.submit_s)
    if count == 0:
        raise InvalidRequest(f"{source}: there are no jobs in it")
    for name, values in (("submit time", columns.submit_s), ("run time", columns.run_s)):
        if not np.isfinite(values).all() or (np.abs(values) > MAX_TIME_S).any():
            raise InvalidRequest(f"{source}: a {name} is not a number of seconds below {MAX_TIME_S:g}")
    if (columns.run_s < 0).any():
        raise InvalidRequest(f"{source}: a run time is negative")
    if len(set(columns.client_ids)) != count:
        seen: set[str] = set()
        twice = next(name for name in columns.client_ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidRequest(f"{source}: the job id {twice!r} stands twice; ids must be unique")
    order = np.argsort(columns.submit_s, kind="stable")
    rows = order.tolist()
    queues, queue = _intern([columns.queue[i] for i in rows], list(columns.weights))
    job_sets, job_set = _intern([columns.job_set[i] for i in rows] if columns.job_set else ["workload"] * count, [])
    shapes, shape = _intern([columns.shape[i] for i in rows], [])
    priority = np.asarray(columns.priority if len(columns.priority) else np.zeros(count), dtype=np.int32)
    estimate_s = columns.estimate_s if len(columns.estimate_s) else np.full(count, np.nan)
    lifetime_s = columns.lifetime_s if len(columns.lifetime_s) else np.full(count, np.nan)
    submit_s = np.asarray(columns.submit_s, dtype=np.float64)[order]
    return Workload(
        source=source,
        queues=tuple(Queue(name=name, weight=float(columns.weights.get(name, 1.0))) for name in queues),
        job_sets=tuple(job_sets),
        shapes=tuple(shapes),
        submit_s=submit_s - submit_s[0],
        run_s=np.asarray(columns.run_s, dtype=np.float64)[order],
        queue=queue,
        job_set=job_set,
        shape=shape,
        priority=priority[order],
        estimate_s=np.asarray(estimate_s, dtype=np.float64)[order],
        lifetime_s=np.asarray(lifetime_s, dtype=np.float64)[order],
        client_ids=tuple([columns.client_ids[i] for i in rows]),
        user=np.asarray(columns.user, dtype=np.int32)[order] if len(columns.user) else None,
        notes=tuple(notes),
    )


def estimate(workload: Workload, kind: str, *, are_limits: bool = False) -> Workload:
    """Return a workload with other estimates.

    Args:
        workload: Jobs.
        kind: One of `ESTIMATES`: `user` leaves those of the trace.
        are_limits: Whether they are time limits, too.

    Raises:
        InvalidRequest: There is no such kind.
    """
    if kind not in ESTIMATES:
        raise InvalidRequest(f"{kind[:40]!r} is no kind of estimate; known are {', '.join(ESTIMATES)}")
    columns = {"user": workload.estimate_s, "exact": workload.run_s, "none": np.full(len(workload), np.nan)}
    changed = replace(workload, estimate_s=columns[kind], estimates_are_limits=are_limits)
    over = int((workload.run_s > changed.estimate_s).sum())
    if are_limits and over:
        return changed.with_notes(
            f"{over:,} of {len(workload):,} jobs run longer than their time limit and fail there."
        )
    return changed


def _whole_s(seconds: FloatArray, *, least: int) -> Int32Array:
    """Return seconds rounded up and within what a server takes, -1 for NaN."""
    whole = np.clip(np.ceil(np.nan_to_num(seconds, nan=1.0)), least, _LONGEST_ESTIMATE_S)
    return np.where(np.isnan(seconds), -1, whole).astype(np.int32)


def _intern(values: Sequence[_T], first: list[_T]) -> tuple[list[_T], Int32Array]:
    """Return distinct values (those of `first` before others, else by first appearance) and each value's index."""
    table: dict[_T, int] = {value: index for index, value in enumerate(dict.fromkeys(first))}
    column = np.fromiter((table.setdefault(value, len(table)) for value in values), dtype=np.int32, count=len(values))
    return list(table), column


def queue_name(text: str) -> str:
    """Return text from a trace as a legal queue name: lower case, other characters than a-z, 0-9 become dashes.

    Raises:
        InvalidRequest: Nothing is left of it.
    """
    name = _NOT_QUEUE.sub("-", text.lower()).strip("-")[:63].strip("-")
    if not name:
        raise InvalidRequest(f"{text[:40]!r} cannot be made a queue name; it needs a letter or a digit")
    return name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeModel:
    """One kind of node."""

    name: str
    """Name of the model, for reports."""
    allocatable: tuple[tuple[str, int], ...]
    """(resource name, base units), sorted by name, `pods` among them."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that every node of the model has, sorted."""

    @staticmethod
    def of(name: str, amounts: Mapping[str, int], *, labels: Mapping[str, str] | None = None) -> NodeModel:
        """Return a model; `pods` is 110, or one per core on larger nodes, unless it is given."""
        pods = amounts.get(PODS, max(DEFAULT_POD_ALLOCATABLE, amounts.get(CPU, 0) // 1000))
        full = {**{resource: int(amount) for resource, amount in amounts.items() if amount}, PODS: int(pods)}
        return NodeModel(
            name=name, allocatable=tuple(sorted(full.items())), labels=tuple(sorted((labels or {}).items()))
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeSet:
    """The nodes of one or several clusters; m nodes."""

    source: str
    """Where the nodes come from, for reports."""
    models: tuple[NodeModel, ...]
    """Distinct models."""
    clusters: tuple[str, ...]
    """Names of the clusters."""
    names: tuple[str, ...]
    """m node names, unique."""
    model: Int32Array
    """(m,) index into `models`."""
    cluster: Int32Array
    """(m,) index into `clusters`."""
    notes: tuple[str, ...] = ()
    """What a reader of a report must know."""

    def __post_init__(self) -> None:
        """Refuse repeated names and indices out of range.

        Raises:
            InvalidRequest: There are no nodes, or a name stands twice.
        """
        if not self.names:
            raise InvalidRequest(f"{self.source}: there are no nodes in it")
        if len(set(self.names)) != len(self.names):
            raise InvalidRequest(f"{self.source}: a node name stands twice")

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)

    def axis(self) -> ResourceAxis:
        """Return the resources that any node has: cpu, memory and pods first."""
        axis = ResourceAxis((CPU, MEMORY, PODS))
        return axis.extend(name for model in self.models for name, _ in model.allocatable)

    def amounts(self, axis: ResourceAxis) -> Int64Array:
        """Return what each node has as (m, resources) base units; resources not on the axis are left out."""
        table = np.zeros((len(self.models), len(axis)), dtype=np.int64)
        for row, model in enumerate(self.models):
            table[row] = axis.vector({name: amount for name, amount in model.allocatable if name in axis.names})
        return table[self.model]

    def capacity(self) -> dict[str, int]:
        """Return the sum over all nodes, base units by resource name."""
        axis = self.axis()
        return axis.amounts(self.amounts(axis).sum(axis=0))

    def rows_of(self, cluster: str) -> Int32Array:
        """Return the rows of one cluster's nodes, ascending.

        Raises:
            ValueError: There is no such cluster.
        """
        return np.flatnonzero(self.cluster == self.clusters.index(cluster)).astype(np.int32)

    def allowed(self, shape: Shape) -> npt.NDArray[np.bool_]:
        """Return an (m,) mask of the nodes whose labels a shape accepts."""
        selector = shape.node_selector().items()
        fits = []
        for model in self.models:
            labels = dict(model.labels)
            on_model = not shape.gpu_models or labels.get(GPU_MODEL_LABEL) in shape.gpu_models
            fits.append(on_model and all(labels.get(key) == value for key, value in selector))
        return np.array(fits, dtype=np.bool_)[self.model]


def uniform_nodes(text: str, *, cluster_count: int = 1, labels: Mapping[str, str] | None = None) -> NodeSet:
    """Return nodes from a short text: `4x32cpu,128Gi` or `10x96cpu,384Gi,nvidia.com/gpu-milli=8000`.

    Args:
        text: Count, `x`, cores with `cpu` behind them, memory (default 4Gi a core), other resources as name=quantity.
        cluster_count: Nodes are dealt out to so many clusters in turn.
        labels: Labels of every node, beside those of the platform (linux, amd64).

    Raises:
        InvalidRequest: The text has another form, or a number is out of range.
    """
    match = _UNIFORM.match(text.strip())
    if match is None or not 1 <= (count := int(match["count"])) <= 1_000_000 or cluster_count < 1:
        raise InvalidRequest(
            f"{text[:60]!r} does not describe nodes; write for example 4x32cpu,128Gi (count x cores, memory)"
        )
    amounts: dict[str, int] = {}
    for part in match["rest"].split(","):
        name, _, quantity = part.strip().rpartition("=")
        if not name and quantity.endswith("cpu"):
            name, quantity = CPU, quantity.removesuffix("cpu")
        amounts[name or MEMORY] = parse_quantity(name or MEMORY, quantity)
    if not amounts.get(CPU):
        raise InvalidRequest(f"{text[:60]!r} names no cores; write for example 4x32cpu,128Gi")
    amounts.setdefault(MEMORY, amounts[CPU] * 4 * 2**30 // 1000)
    every = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **(labels or {})}
    model = NodeModel.of(match["rest"], amounts, labels=every)
    return NodeSet(
        source=text,
        models=(model,),
        clusters=tuple(f"cluster-{i}" for i in range(cluster_count)),
        names=tuple(f"node-{i:05d}" for i in range(count)),
        model=np.zeros(count, dtype=np.int32),
        cluster=(np.arange(count) % cluster_count).astype(np.int32),
    )

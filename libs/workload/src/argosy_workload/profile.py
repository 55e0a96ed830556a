"""Workload profiles: a cluster's load told in counts and quantiles, to be shared without sharing its data.

A profile holds, per request shape, how many jobs there were and in which queues; per node model, how many nodes of each
cluster; and per shape the quantiles of life time and inter-arrival time. Shapes with few jobs share one distribution,
so that no single job can be read back. `argosy_workload.generator` draws workloads from it.

Stretches without any arrival longer than `idle_cut_s` are cut to that length before inter-arrival times are taken: they
tell of holes in a log rather than of load, and would dominate every quantile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest, NotFound
from argosy_core.resources import format_amount, parse_quantity
from argosy_workload.model import MAX_TIME_S, NodeModel, NodeSet, Queue, Shape, Workload
from argosy_workload.tracefile import MAX_ROW_COUNT, refuse

__all__ = [
    "IDLE_CUT_S",
    "LEVELS",
    "PROFILE_VERSION",
    "Distribution",
    "NodeCount",
    "Profile",
    "ShapeCount",
    "bundled_profiles",
    "compute_profile",
    "format_profile",
    "load_profile",
    "parse_profile",
]

FloatArray = npt.NDArray[np.float64]

PROFILE_VERSION: Final = "argosy.dev/workload-profile/v1"
"""Value of `version` in a profile."""
LEVELS: Final = (*(round(0.05 * i, 2) for i in range(20)), 0.975, 0.99, 1.0)
"""Levels of the quantiles: every 5 %, and two more in the tail, where most of the work is."""
IDLE_CUT_S: Final = 3600.0
"""Longest stretch without arrivals that is kept, trace seconds."""
MIN_SHAPE_COUNT: Final = 10
"""Shapes with fewer jobs share one distribution."""
_DIGITS: Final = 4


class QueueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue in the document."""

    name: str
    weight: float


class NodeEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node model in the document; amounts as Kubernetes quantities, nodes by cluster."""

    model: str
    allocatable: dict[str, str]
    labels: dict[str, str]
    counts: dict[str, int]


class DistributionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Quantiles in the document, seconds at the document's levels."""

    life_time_s: list[float]
    inter_arrival_s: list[float]
    mean_inter_arrival_s: float


class ShapeEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shape in the document; jobs by queue."""

    requests: dict[str, str]
    distribution: int
    counts: dict[str, int]
    gpu_models: list[str] = []
    platform: str = ""


class ProfileDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document as it stands in a file."""

    version: str
    source: str
    job_count: int
    node_count: int
    span_s: float
    idle_cut_s: float
    levels: list[float]
    queues: list[QueueEntry]
    nodes: list[NodeEntry]
    distributions: list[DistributionEntry]
    shapes: list[ShapeEntry]
    notes: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """How long jobs live and how they follow each other."""

    life_time_s: FloatArray
    """(levels,) quantiles of the run time, ascending."""
    inter_arrival_s: FloatArray
    """(levels,) quantiles of the time between submits of jobs of this distribution, ascending."""
    mean_inter_arrival_s: float
    """Mean of the time between submits; quantiles alone leave it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """How many nodes of one model there are."""

    model: NodeModel
    """The model."""
    counts: tuple[tuple[str, int], ...]
    """(cluster, number of nodes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeCount:
    """How many jobs of one shape there are."""

    shape: Shape
    """The shape."""
    distribution: int
    """Index of its distribution."""
    counts: tuple[tuple[str, int], ...]
    """(queue, number of jobs)."""

    def job_count(self) -> int:
        """Return the number of jobs over all queues."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A load in counts and quantiles."""

    source: str
    """What it was computed from."""
    span_s: float
    """From first to last submit, idle stretches cut, trace seconds."""
    idle_cut_s: float
    """Longest idle stretch that was kept, trace seconds."""
    levels: tuple[float, ...]
    """Levels of all quantiles, from 0 to 1."""
    queues: tuple[Queue, ...]
    """All queues."""
    nodes: tuple[NodeCount, ...]
    """All nodes."""
    distributions: tuple[Distribution, ...]
    """Distributions that shapes point to."""
    shapes: tuple[ShapeCount, ...]
    """All jobs."""
    notes: tuple[str, ...] = ()
    """What reports must say."""

    def job_count(self) -> int:
        """Return the number of jobs."""
        return sum(shape.job_count() for shape in self.shapes)

    def node_count(self) -> int:
        """Return the number of nodes."""
        return sum(count for node in self.nodes for _, count in node.counts)


def compute_profile(
    workload: Workload, nodes: NodeSet, *, source: str | None = None, idle_cut_s: float = IDLE_CUT_S
) -> Profile:
    """Return the profile of a workload and its nodes.

    Args:
        workload: Jobs.
        nodes: Nodes they ran on.
        source: What to name as source; default: the workload's.
        idle_cut_s: Longest stretch without arrivals that is kept, trace seconds.

    Complexity: O(n log n) in jobs.
    """
    gaps_s = np.diff(workload.submit_s)
    cut_s = float((gaps_s - np.minimum(gaps_s, idle_cut_s)).sum())
    submit_s = np.concatenate([[0.0], np.cumsum(np.minimum(gaps_s, idle_cut_s))])
    job_counts = np.bincount(workload.shape, minlength=len(workload.shapes))
    rare = job_counts < MIN_SHAPE_COUNT
    # One distribution per frequent shape, one more for all rare shapes together.
    group_of_shape = np.cumsum(~rare) - 1
    group_of_shape[rare] = group_of_shape.max() + 1
    groups = group_of_shape[workload.shape]
    shapes = []
    for index, shape in enumerate(workload.shapes):
        in_queues = np.bincount(workload.queue[workload.shape == index], minlength=len(workload.queues))
        counts = tuple((workload.queues[q].name, int(in_queues[q])) for q in np.flatnonzero(in_queues))
        if counts:
            shapes.append(ShapeCount(shape=shape, distribution=int(group_of_shape[index]), counts=counts))
    notes = list(workload.notes)
    if cut_s:
        notes.append(
            f"Stretches of more than {idle_cut_s:g} s without arrivals were cut to that: {cut_s:.0f} s in all."
        )
    if (workload.priority != 0).any():
        notes.append("Priorities are not kept in a profile.")
    return Profile(
        source=source or workload.source,
        span_s=float(submit_s[-1]),
        idle_cut_s=idle_cut_s,
        levels=LEVELS,
        queues=workload.queues,
        nodes=_node_counts(nodes),
        distributions=tuple(
            _distribution(submit_s[groups == group], workload.run_s[groups == group])
            for group in range(int(groups.max()) + 1)
        ),
        shapes=tuple(shapes),
        notes=tuple(dict.fromkeys((*notes, *nodes.notes))),
    )


def _distribution(submit_s: FloatArray, run_s: FloatArray) -> Distribution:
    """Return the distribution of some jobs; submit times ascending."""
    gaps_s = np.diff(submit_s) if len(submit_s) > 1 else np.zeros(1)
    return Distribution(
        life_time_s=_rounded(np.quantile(run_s, LEVELS)),
        inter_arrival_s=_rounded(np.quantile(gaps_s, LEVELS)),
        mean_inter_arrival_s=float(_rounded(np.array([gaps_s.mean()]))[0]),
    )


def _rounded(values: FloatArray) -> FloatArray:
    """Return numbers with four significant digits: enough for a load, and less to read back from."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.tolist()])


def _node_counts(nodes: NodeSet) -> tuple[NodeCount, ...]:
    """Return the nodes by model and cluster."""
    table = np.zeros((len(nodes.models), len(nodes.clusters)), dtype=np.int64)
    np.add.at(table, (nodes.model, nodes.cluster), 1)
    return tuple(
        NodeCount(model=model, counts=tuple((nodes.clusters[c], int(row[c])) for c in np.flatnonzero(row)))
        for model, row in zip(nodes.models, table, strict=True)
    )


def format_profile(profile: Profile) -> str:
    """Return a profile as a JSON document."""
    document = ProfileDocument(
        version=PROFILE_VERSION,
        source=profile.source,
        job_count=profile.job_count(),
        node_count=profile.node_count(),
        span_s=profile.span_s,
        idle_cut_s=profile.idle_cut_s,
        levels=list(profile.levels),
        queues=[QueueEntry(queue.name, queue.weight) for queue in profile.queues],
        nodes=[
            NodeEntry(node.model.name, _texts(node.model.allocatable), dict(node.model.labels), dict(node.counts))
            for node in profile.nodes
        ],
        distributions=[
            DistributionEntry(d.life_time_s.tolist(), d.inter_arrival_s.tolist(), d.mean_inter_arrival_s)
            for d in profile.distributions
        ],
        shapes=[
            ShapeEntry(
                requests=_texts(entry.shape.requests),
                distribution=entry.distribution,
                counts=dict(entry.counts),
                gpu_models=list(entry.shape.gpu_models),
                platform=entry.shape.platform,
            )
            for entry in profile.shapes
        ],
        notes=list(profile.notes),
    )
    # Readable: one line an entry of the lists, not one line a number.
    fields = msgspec.to_builtins(document)
    parts = []
    for name, value in fields.items():
        text = msgspec.json.encode(value).decode()
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(msgspec.json.encode(entry).decode() for entry in value) + "\n ]"
        parts.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _texts(amounts: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return amounts as quantities."""
    return {name: format_amount(name, amount) for name, amount in amounts}


def parse_profile(text: str, *, path: Path = Path("profile")) -> Profile:
    """Return the profile of a JSON document.

    Args:
        text: The document.
        path: Where it came from, for messages.

    Raises:
        InvalidRequest: It is no profile, or contradicts itself; the message names the field.
    """
    try:
        document = msgspec.json.decode(text, type=ProfileDocument)
    except (msgspec.DecodeError, RecursionError) as cause:
        refuse(path, f"not a workload profile: {cause}")
    if document.version != PROFILE_VERSION:
        refuse(path, f"version {document.version[:60]!r} cannot be read; {PROFILE_VERSION} expected")
    _check(path, document)
    try:
        return _profile(document)
    except InvalidRequest as cause:
        refuse(path, cause.message)


def _profile(document: ProfileDocument) -> Profile:
    """Return the values of a checked document.

    Raises:
        InvalidRequest: An amount is no quantity.
    """
    return Profile(
        source=document.source,
        span_s=document.span_s,
        idle_cut_s=document.idle_cut_s,
        levels=tuple(document.levels),
        queues=tuple(Queue(name=queue.name, weight=queue.weight) for queue in document.queues),
        nodes=tuple(
            NodeCount(
                model=NodeModel.of(node.model, _parse_amounts(node.allocatable), labels=node.labels),
                counts=tuple(node.counts.items()),
            )
            for node in document.nodes
        ),
        distributions=tuple(
            Distribution(
                life_time_s=np.array(entry.life_time_s, dtype=np.float64),
                inter_arrival_s=np.array(entry.inter_arrival_s, dtype=np.float64),
                mean_inter_arrival_s=entry.mean_inter_arrival_s,
            )
            for entry in document.distributions
        ),
        shapes=tuple(
            ShapeCount(
                shape=Shape.of(_parse_amounts(entry.requests), gpu_models=entry.gpu_models, platform=entry.platform),
                distribution=entry.distribution,
                counts=tuple(entry.counts.items()),
            )
            for entry in document.shapes
        ),
        notes=tuple(document.notes),
    )


def _parse_amounts(texts: dict[str, str]) -> dict[str, int]:
    """Return quantities as base units."""
    return {name: parse_quantity(name, text) for name, text in texts.items()}


def _check(path: Path, document: ProfileDocument) -> None:
    """Refuse a document that contradicts itself."""
    levels = document.levels
    if len(levels) < 2 or levels[0] != 0 or levels[-1] != 1 or not _ascending(levels):
        refuse(path, "levels must ascend from 0 to 1", field="levels")
    times = [document.span_s, document.idle_cut_s]
    for number, entry in enumerate(document.distributions):
        for name, values in (("life_time_s", entry.life_time_s), ("inter_arrival_s", entry.inter_arrival_s)):
            if len(values) != len(levels) or not _ascending(values):
                what = f"{len(levels)} ascending numbers expected, one a level"
                refuse(path, what, field=f"distributions[{number}].{name}")
            times += values
        times.append(entry.mean_inter_arrival_s)
    if not all(0 <= value <= MAX_TIME_S for value in times):
        refuse(path, f"a time is negative or more than {MAX_TIME_S:g} s")
    queues = {queue.name for queue in document.queues}
    for number, shape in enumerate(document.shapes):
        if not 0 <= shape.distribution < len(document.distributions):
            refuse(path, "there is no such distribution", field=f"shapes[{number}].distribution")
        if unknown := sorted(set(shape.counts) - queues):
            refuse(path, f"there is no queue {unknown[0][:60]!r}", field=f"shapes[{number}].counts")
    _check_counts(path, document)


def _check_counts(path: Path, document: ProfileDocument) -> None:
    """Refuse counts that are negative, too large, or do not add up."""
    for name, stated, tables in (
        ("job_count", document.job_count, [shape.counts for shape in document.shapes]),
        ("node_count", document.node_count, [node.counts for node in document.nodes]),
    ):
        counts = [count for table in tables for count in table.values()]
        if any(not 0 <= count <= MAX_ROW_COUNT for count in counts):
            refuse(path, f"a count is not between 0 and {MAX_ROW_COUNT}", field=name)
        if sum(counts) != stated or not 1 <= stated <= MAX_ROW_COUNT:
            refuse(path, f"{stated} stated, but the counts add up to {sum(counts)}", field=name)


def _ascending(values: Sequence[float]) -> bool:
    """Return whether no number is smaller than the one before it."""
    return all(low <= high for low, high in pairwise(values))


def bundled_profiles() -> tuple[str, ...]:
    """Return the names of the profiles that come with the package."""
    folder = resources.files("argosy_workload") / "profiles"
    names = [
        entry.name.removesuffix(".json").replace("_", "-") for entry in folder.iterdir() if entry.name.endswith(".json")
    ]
    return tuple(sorted(names))


def load_profile(name: str) -> Profile:
    """Return a profile that comes with the package, by name, as `alibaba-gpu-2023`.

    Raises:
        NotFound: There is none of that name.
    """
    if name not in bundled_profiles():
        raise NotFound(f"there is no profile {name!r}; bundled are {', '.join(bundled_profiles())}")
    entry = resources.files("argosy_workload") / "profiles" / f"{name.replace('-', '_')}.json"
    return parse_profile(entry.read_text(encoding="utf-8"), path=Path(entry.name))

"""What runs where: the jobs and nodes that a command names, and node sets as the clusters of a mesh.

Source: design section 9, "replay"; `argosy_kube.simulated.inventory`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import format_amount
from argosy_kube.port import NodeDescription
from argosy_kube.simulated.inventory import format_nodes
from argosy_kube.simulated.node_kinds import parse_node_kinds
from argosy_local.compose import ClusterPlan
from argosy_workload.guess import guess_nodes
from argosy_workload.model import NodeModel, NodeSet, Workload, estimate, uniform_nodes
from argosy_workload.traces import read_nodes, read_trace

__all__ = ["TraceChoice", "cluster_plans", "nodes_of", "read_workload", "select_jobs", "without_impossible"]

_COUNTED: Final = re.compile(r"^\d+:")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceChoice:
    """Which trace is meant, on which nodes."""

    trace: str
    """File, or name of a bundled profile."""
    nodes: str
    """Node list or short text; empty for what the trace says, or what is guessed from it."""
    clusters: int
    """Clusters to deal nodes to."""
    job_limit: int | None
    """Only the first so many jobs."""
    seed: int
    """Draws the jobs of a profile."""
    queue_by: str
    """What is the queue of a job of the Standard Workload Format."""
    trace_format: str | None = None
    """Key of the trace's format; None to find it out."""
    estimates: str = "user"
    """One of `argosy_workload.model.ESTIMATES`."""
    time_limits: bool = False
    """Whether estimates are time limits, too."""


def nodes_of(text: str, *, cluster_count: int) -> NodeSet:
    """Return the nodes that an option names: a file, `4x32cpu,128Gi`, or kinds as `4:cpu=32,memory=128Gi;2:...`.

    Args:
        text: Path or short text.
        cluster_count: Clusters to deal the nodes to, where a file does not tell.

    Raises:
        InvalidRequest: The text is no set of nodes, or the file is not there.
    """
    if not _COUNTED.match(text) or Path(text).exists():
        return read_nodes(text, cluster_count=cluster_count)
    kinds = parse_node_kinds(text)
    if any(kind.taints for kind in kinds):
        raise InvalidRequest(f"{text[:80]!r} has taints, which no job of a trace tolerates; leave them out")
    like = uniform_nodes(f"{sum(kind.count for kind in kinds)}x1cpu", cluster_count=cluster_count)
    return NodeSet(
        source=text,
        models=tuple(
            NodeModel.of(f"kind-{number}", kind.allocatable, labels={**dict(like.models[0].labels), **kind.labels})
            for number, kind in enumerate(kinds, start=1)
        ),
        clusters=like.clusters,
        names=like.names,
        model=np.repeat(np.arange(len(kinds), dtype=np.int32), [kind.count for kind in kinds]),
        cluster=like.cluster,
    )


def cluster_plans(nodes: NodeSet) -> tuple[ClusterPlan, ...]:
    """Return one simulated cluster for each of the set's clusters, with its nodes.

    Complexity: O(nodes).
    """
    plans = []
    for cluster in nodes.clusters:
        rows = nodes.rows_of(cluster)
        described = [_describe(nodes.names[row], nodes.models[nodes.model[row]]) for row in rows.tolist()]
        if described:
            plans.append(ClusterPlan(name=cluster, nodes=format_nodes(described)))
    return tuple(plans)


def select_jobs(workload: Workload, rows: npt.NDArray[np.intp]) -> Workload:
    """Return some jobs of a workload, in its order; submit times stay."""
    columns = ("submit_s", "run_s", "queue", "job_set", "shape", "priority", "estimate_s", "lifetime_s")
    chosen = {name: getattr(workload, name)[rows] for name in columns}
    if workload.user is not None:
        chosen["user"] = workload.user[rows]
    return replace(workload, **chosen, client_ids=tuple(workload.client_ids[row] for row in rows.tolist()))


def without_impossible(workload: Workload, nodes: NodeSet) -> Workload:
    """Return the workload without jobs that do not fit even while all nodes are empty; a note counts them.

    They would wait for ever, and so would a replay that is over when all jobs have ended.

    Raises:
        InvalidRequest: No job fits any node; the message says what the largest job asks for.

    Complexity: O(shapes x nodes).
    """
    axis = nodes.axis().extend(name for shape in workload.shapes for name, _ in shape.requests)
    amounts, requests = nodes.amounts(axis), workload.requests(axis)
    fits = np.array(
        [
            _most_pods(nodes, np.where(nodes.allowed(shape)[:, None], amounts, 0), request) >= shape.member_count
            for shape, request in zip(workload.shapes, requests, strict=True)
        ]
    )
    rows = np.flatnonzero(fits[workload.shape])
    left_out = len(workload) - len(rows)
    if not left_out:
        return workload
    if not len(rows):
        largest = workload.shapes[int(np.argmax((requests / np.maximum(amounts.max(axis=0), 1)).max(axis=1)))]
        wanted = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in largest.requests)
        raise InvalidRequest(
            f"all {left_out:,} jobs fit no node, even an empty one; the largest asks for {wanted}: give larger --nodes"
        )
    return select_jobs(workload, rows).with_notes(
        f"{left_out:,} of {len(workload):,} jobs fit no node, even an empty one, and are left out."
    )


def _most_pods(nodes: NodeSet, amounts: npt.NDArray[np.int64], request: npt.NDArray[np.int64]) -> int:
    """Return how many pods of one kind the empty nodes of one cluster hold at most, by what each of them has."""
    asked = request > 0
    pods = (amounts[:, asked] // request[asked]).min(axis=1)
    return int(np.bincount(nodes.cluster, weights=pods).max())


def read_workload(choice: TraceChoice) -> tuple[Workload, NodeSet]:
    """Return the jobs and nodes that the options name; jobs that fit no node are left out, and a note counts them.

    Nodes that nobody names are guessed from the jobs.

    Raises:
        InvalidRequest: A file is missing or damaged.
    """
    read = read_trace(choice.trace, seed=choice.seed, queue_by=choice.queue_by, trace_format=choice.trace_format)
    workload = read.workload
    nodes = nodes_of(choice.nodes, cluster_count=choice.clusters) if choice.nodes else read.nodes
    if nodes is None:
        nodes = guess_nodes(workload, cluster_count=choice.clusters)
        workload = workload.with_notes(*nodes.notes)
    if choice.job_limit and choice.job_limit < len(workload):
        note = f"Only the first {choice.job_limit:,} of {len(workload):,} jobs."
        workload = select_jobs(workload, np.arange(choice.job_limit)).with_notes(note)
    workload = estimate(workload, choice.estimates, are_limits=choice.time_limits)
    return without_impossible(workload, nodes), nodes


def _describe(name: str, model: NodeModel) -> NodeDescription:
    return NodeDescription(name=name, allocatable=dict(model.allocatable), labels=dict(model.labels))

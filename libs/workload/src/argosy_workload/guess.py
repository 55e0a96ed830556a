"""Nodes for a workload that names none: as large as its largest pods, as many as keep its jobs busy."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.resources import CPU, MEMORY, ResourceAxis
from argosy_workload.model import GPU_MODEL_LABEL, NodeModel, NodeSet, Workload

__all__ = ["guess_nodes"]

_WITHOUT_WAIT: Final = 0.9
"""Share of the jobs that would find room at once if none waited: busy nodes, with queues now and then."""
_LEAST_MILLICORES: Final = 32_000
"""A node has at least so many cores; thousands of machines of one core are nobody's cluster."""
_MOST_NODES: Final = 20_000
"""Most nodes of one kind."""
_GIB: Final = 1 << 30
_PLATFORM: Final = "linux/amd64"


def guess_nodes(workload: Workload, *, cluster_count: int = 1) -> NodeSet:
    """Return nodes on which every job of a workload fits; the set's note says what was guessed.

    Jobs that name a platform or GPU models share nodes of one that all of them accept, as far as there is one. Nodes of
    such a kind are as large per resource as its largest job, or a multiple of that with 32 cores, and so many that nine
    of ten of its jobs would find room at once if none waited.

    Args:
        workload: The jobs.
        cluster_count: The nodes are dealt out to so many clusters in turn; there is one for each.

    Complexity: O(jobs log jobs x resources + shapes x kinds).
    """
    axis = ResourceAxis((CPU, MEMORY)).extend(name for shape in workload.shapes for name, _ in shape.requests)
    requests = workload.requests(axis)
    kinds = _kinds(workload)
    models, counts = [], []
    for (platform, gpu_model), shapes in kinds.items():
        largest = requests[shapes].max(axis=0)
        amounts = axis.amounts(largest * -(-_LEAST_MILLICORES // max(int(largest[axis.index(CPU)]), 1000)))
        amounts[CPU] = max(amounts.get(CPU, 0), _LEAST_MILLICORES)
        amounts[MEMORY] = -(-max(amounts.get(MEMORY, 0), _GIB) // _GIB) * _GIB
        size = axis.vector(amounts)
        wanted = (_held(workload, requests, shapes) / np.maximum(size, 1)).max(axis=1)
        count = np.ceil(np.quantile(wanted, _WITHOUT_WAIT))
        counts.append(int(np.clip(count, cluster_count, _MOST_NODES)))
        system, _, architecture = platform.partition("/")
        labels = {"kubernetes.io/os": system, "kubernetes.io/arch": architecture or "amd64"}
        models.append(NodeModel.of(gpu_model or platform, amounts, labels={**labels, **_gpu_label(gpu_model)}))
    total = sum(counts)
    cores = sum(count * dict(model.allocatable)[CPU] // 1000 for count, model in zip(counts, models, strict=True))
    note = f"The trace names no machines: {total:,} nodes of {cores:,} cores in all are guessed; --nodes names others."
    return NodeSet(
        source="guessed from the jobs",
        models=tuple(models),
        clusters=tuple(f"cluster-{number}" for number in range(cluster_count)),
        names=tuple(f"node-{number:05d}" for number in range(total)),
        model=np.repeat(np.arange(len(models)), counts).astype(np.int32),
        cluster=(np.arange(total) % cluster_count).astype(np.int32),
        notes=(note,),
    )


def _held(workload: Workload, requests: npt.NDArray[np.int64], shapes: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return (job, resource): what jobs of some shapes would hold when each comes, itself included, if none waited."""
    jobs = np.flatnonzero(np.isin(workload.shape, shapes))
    asked = requests[workload.shape[jobs]].astype(np.float64)
    submit_s, end_s = workload.submit_s[jobs], workload.submit_s[jobs] + workload.run_s[jobs]
    order = np.argsort(end_s, kind="stable")
    ended = np.vstack([np.zeros(asked.shape[1]), np.cumsum(asked[order], axis=0)])
    return np.asarray(
        np.cumsum(asked, axis=0) - ended[np.minimum(np.searchsorted(end_s[order], submit_s), np.arange(jobs.size))]
    )


def _gpu_label(gpu_model: str) -> dict[str, str]:
    return {GPU_MODEL_LABEL: gpu_model} if gpu_model else {}


def _kinds(workload: Workload) -> dict[tuple[str, str], npt.NDArray[np.intp]]:
    """Return (platform, GPU model) of each kind of node, few rather than many, with the rows of its shapes.

    Whoever accepts fewest models chooses first; whoever accepts any goes where the choice is the widest.
    """
    rows: dict[tuple[str, str], list[int]] = {}
    shapes = workload.shapes
    order = sorted(range(len(shapes)), key=lambda row: (not shapes[row].gpu_models, len(shapes[row].gpu_models), row))
    for row in order:
        shape = shapes[row]
        platform = shape.platform or _PLATFORM
        fitting = [
            kind for kind in rows if kind[0] == platform and (not shape.gpu_models or kind[1] in shape.gpu_models)
        ]
        kind = fitting[0] if fitting else (platform, shape.gpu_models[0] if shape.gpu_models else "")
        rows.setdefault(kind, []).append(row)
    return {kind: np.array(members) for kind, members in rows.items()}

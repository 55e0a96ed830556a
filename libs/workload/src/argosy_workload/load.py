"""Load for benchmarks of the mesh: endless batches of small jobs, cheap to make.

A manifest is put together from bytes that were made once per scheduling class; a spec that shall be unique differs in
the value of one environment variable.

Source: design section 8; seed 003, "Scheduler metrics" (1,000,000 cores, jobs of at least one core).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY
from argosy_workload.manifests import MAX_BATCH_SIZE, Submission, pod_manifest
from argosy_workload.model import NodeModel, NodeSet, Queue, Shape

__all__ = ["MeshLoad", "mesh_nodes"]

_MARK: Final = "@unique@"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLoad:
    """What the jobs of a benchmark look like."""

    queue_count: int = 100
    """Queues, all of weight 1; jobs choose one at random."""
    class_count: int = 1000
    """Scheduling classes: they differ in the memory they ask for, by 1 MiB each."""
    unique_ratio: float = 0.5
    """Share of the jobs whose spec no other job has."""
    batch_size: int = 100
    """Jobs of one call, each with its own client id."""
    core_count: int = 1
    """Cores of a job."""
    base_memory_bytes: int = 512 * 2**20
    """Memory of the smallest class."""
    run_time: str = "20s-40s"
    """Run time as in the annotation; a range is drawn by the simulated cluster."""
    mean_run_s: float = 30.0
    """Mean of the run time, seconds, for reports and for finding a rate that saturates."""
    job_set: str = "bench"
    """Job set of all jobs."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            InvalidRequest: A number is out of range.
        """
        if not (1 <= self.batch_size <= MAX_BATCH_SIZE and self.queue_count >= 1 and self.class_count >= 1):
            raise InvalidRequest(f"a load needs queues, classes and calls of 1 to {MAX_BATCH_SIZE} jobs")
        if not 0 <= self.unique_ratio <= 1:
            raise InvalidRequest(f"{self.unique_ratio:g} is no ratio of unique specs; 0 to 1 expected")

    def queues(self) -> tuple[Queue, ...]:
        """Return the queues, to be made before the first job."""
        return tuple(Queue(name=f"bench-{number:03d}") for number in range(self.queue_count))

    def shapes(self) -> tuple[Shape, ...]:
        """Return the shape of each class."""
        return tuple(
            Shape.of({CPU: self.core_count * 1000, MEMORY: self.base_memory_bytes + number * 2**20})
            for number in range(self.class_count)
        )

    def submissions(self, seed: int | np.random.Generator, *, prefix: str = "") -> Iterator[Submission]:
        """Yield batches without end; jobs are numbered from 0 on (`rows`).

        Args:
            seed: Chooses queues, classes and which specs are unique.
            prefix: Put before client ids and unique values; give each run and each generator its own.

        Complexity: about 2 us a job.
        """
        rng = np.random.default_rng(seed)
        queues = [queue.name for queue in self.queues()]
        shapes = self.shapes()
        common = [_encode(shape, self.run_time, "common") for shape in shapes]
        marked = [_encode(shape, self.run_time, _MARK).partition(_MARK.encode()) for shape in shapes]
        size = self.batch_size
        fixed = ((self.job_set,) * size, (0,) * size)
        number = 0
        while True:
            classes = rng.integers(self.class_count, size=size).tolist()
            names = [f"{prefix}{row}" for row in range(number, number + size)]
            specs: dict[bytes, int] = {}
            spec = []
            for class_, unique, name in zip(
                classes, (rng.random(size) < self.unique_ratio).tolist(), names, strict=True
            ):
                head, _, tail = marked[class_]
                spec.append(specs.setdefault(head + name.encode() + tail if unique else common[class_], len(specs)))
            yield Submission(
                specs=tuple(specs),
                spec=tuple(spec),
                queue=tuple([queues[q] for q in rng.integers(self.queue_count, size=size).tolist()]),
                job_set=fixed[0],
                priority=fixed[1],
                client_id=tuple(names),
                rows=tuple(range(number, number + size)),
            )
            number += size


def _encode(shape: Shape, run_time: str, value: str) -> bytes:
    """Return the manifest of a class with a value in its environment."""
    return json.dumps(pod_manifest(shape, run_time, environment={"JOB": value}), separators=(",", ":")).encode()


def mesh_nodes(*, cluster_count: int = 10, nodes_per_cluster: int = 3125, core_count: int = 32) -> NodeSet:
    """Return clusters of equal nodes with 4 GiB a core; the defaults are 1,000,000 cores.

    Args:
        cluster_count: Clusters.
        nodes_per_cluster: Nodes of each.
        core_count: Cores of a node.
    """
    amounts = {CPU: core_count * 1000, MEMORY: core_count * 4 * 2**30}
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    cluster = np.repeat(np.arange(cluster_count), nodes_per_cluster)
    return NodeSet(
        source=f"{cluster_count} clusters of {nodes_per_cluster} nodes of {core_count} cores",
        models=(NodeModel.of(f"{core_count}c", amounts, labels=labels),),
        clusters=tuple(f"cluster-{number}" for number in range(cluster_count)),
        names=tuple(f"c{c}-node-{i % nodes_per_cluster:05d}" for i, c in enumerate(cluster.tolist())),
        model=np.zeros(len(cluster), dtype=np.int32),
        cluster=cluster.astype(np.int32),
    )

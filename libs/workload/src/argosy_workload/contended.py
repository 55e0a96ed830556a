"""The demo's workload: four queues that want more than the pool has, and not at the same time.

::

    queue      weight  from ..  what it sends
    research        3  0        jobs of 1 to 4 cores, one after the other
    service         2  12 %     short jobs of one or two cores
    flood           1  25 %     thousands of small jobs in one moment
    training        2  35 %     jobs that need a whole node, which small ones could keep from ever being free

Together they ask for nearly all that the pool gives until `BUSY_RATIO` of the time, and send it in less, so that it is
full while they arrive. Users state limits that are longer than their jobs take, as users do.

Source: seed 003, "Fairness"; design section 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY
from argosy_workload.model import JobColumns, NodeSet, Shape, Workload, build_workload, uniform_nodes

__all__ = ["CONTENDED", "contended"]

FloatArray = npt.NDArray[np.float64]

CONTENDED: Final = "demo"
"""Name by which commands know this workload."""
NODES: Final = "48x8cpu,32Gi"
"""Nodes of the pool."""
CLUSTER_COUNT: Final = 3
"""Clusters that the nodes are dealt to."""
BUSY_RATIO: Final = 0.8
"""Share of the time after which the pool could have done all work, were it always full."""
ARRIVALS_END_RATIO: Final = 0.6
"""Share of the time after which nobody submits any more."""
_LIMIT_FACTORS: Final = (1.2, 4.0)
"""A user's limit is the run time, times a number between these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tenant:
    """What one queue sends; run times are parts of the whole time."""

    name: str
    weight: float
    part: float
    """Of all core-seconds of the workload."""
    from_ratio: float
    """When it begins, of the whole time; it goes on until `ARRIVALS_END_RATIO`, or sends all at once."""
    at_once: bool = False
    cores: tuple[int, ...]
    run_ratio: tuple[float, float]
    """Shortest and longest run, of the whole time."""


_TENANTS: Final = (
    _Tenant(name="research", weight=3, part=0.37, from_ratio=0, cores=(1, 2, 4), run_ratio=(0.02, 0.09)),
    _Tenant(name="service", weight=2, part=0.23, from_ratio=0.12, cores=(1, 2), run_ratio=(0.01, 0.05)),
    _Tenant(name="flood", weight=1, part=0.2, from_ratio=0.25, at_once=True, cores=(1,), run_ratio=(0.02, 0.05)),
    _Tenant(name="training", weight=2, part=0.2, from_ratio=0.35, cores=(8,), run_ratio=(0.06, 0.12)),
)


def contended(seed: int = 0, *, within_s: float = 90.0, job_scale: float = 1.0) -> tuple[Workload, NodeSet]:
    """Return (workload, nodes): the same for the same arguments.

    Args:
        seed: Draws sizes, run times and the moments of submits.
        within_s: Trace seconds within which the last job can have ended; run times grow with it.
        job_scale: Part of the jobs, above 0, at most 1; the nodes are all there.

    Raises:
        InvalidRequest: A number is out of range.

    Complexity: O(jobs), of which there are about 4,000.
    """
    if not within_s > 0 or not 0 < job_scale <= 1:
        raise InvalidRequest(f"a demo of {job_scale:g} of its jobs within {within_s:g} s cannot be made")
    nodes = uniform_nodes(NODES, cluster_count=CLUSTER_COUNT)
    work_core_s = nodes.capacity()[CPU] / 1000 * within_s * BUSY_RATIO
    rng = np.random.default_rng(seed)
    submit_s, run_s, cores, names = [], [], [], []
    for tenant in _TENANTS:
        wanted = work_core_s * tenant.part * job_scale
        shape_count = int(wanted / (np.mean(tenant.cores) * np.mean(tenant.run_ratio) * within_s)) + 1
        drawn = rng.choice(np.array(tenant.cores), shape_count)
        runs_s = rng.uniform(*tenant.run_ratio, shape_count) * within_s
        moments = np.sort(rng.uniform(tenant.from_ratio, ARRIVALS_END_RATIO, shape_count)) * within_s
        submit_s.append(np.full(shape_count, tenant.from_ratio * within_s) if tenant.at_once else moments)
        run_s.append(runs_s)
        cores.append(drawn)
        names += [tenant.name] * shape_count
    shapes = {count: _shape(count) for tenant in _TENANTS for count in tenant.cores}
    runs: FloatArray = np.concatenate(run_s)
    columns = JobColumns(
        submit_s=np.concatenate(submit_s),
        run_s=runs,
        queue=names,
        shape=[shapes[count] for count in np.concatenate(cores).tolist()],
        client_ids=[f"{name}-{number}" for number, name in enumerate(names)],
        estimate_s=runs * rng.uniform(*_LIMIT_FACTORS, len(runs)),
        weights={tenant.name: tenant.weight for tenant in _TENANTS},
    )
    return build_workload(columns, source="the demo: four queues on 48 nodes of 8 cores, more work than room"), nodes


def _shape(core_count: int) -> Shape:
    """Return the shape of a job of so many cores, with a part of a node's memory that is no larger."""
    return Shape.of({CPU: core_count * 1000, MEMORY: core_count * 3 * 2**30})

"""The demo's workload: five queues that want more than the pool has, and not at the same time.

::

    queue      weight  from ..  what it sends
    spare         0.25 0        long jobs of a whole node, which may be preempted at any moment
    research      3    0        jobs of 1 to 4 cores, one after the other
    service       2    12 %     short jobs of one or two cores
    flood         1    25 %     thousands of small jobs in one moment
    training      2    35 %     jobs that need one whole node, two or four, which small ones could keep from being free

Together they ask for nearly all that the pool gives until `BUSY_RATIO` of the time, and send it in less, so that it is
full while they arrive. Users state limits that are longer than their jobs take, as users do.

A node is lost while all of them are there.

Source: seed 003, "Fairness"; design section 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
LOST_AT_RATIO: Final = 0.45
"""When a node is lost, of the time."""
_LIMIT_FACTORS: Final = (1.2, 4.0)
"""A user's limit is the run time, times a number between these."""
_LIMIT_MARGIN_RATIO: Final = 0.1
"""And so much more of the whole time: no job fails because a busy machine is late to see its end."""
_GANGS: Final = (1, 1, 2, 4)
"""Nodes of a job of training, in turn."""


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
    members: tuple[int, ...] = (1,)
    """Pods of its jobs, in turn, each with all the cores."""
    until_ratio: float = ARRIVALS_END_RATIO
    """When it has sent its last job."""
    preemptible: bool = False
    """Whether its jobs may be preempted at any moment."""


_TENANTS: Final = (
    _Tenant(
        name="spare",
        weight=0.25,
        part=0.1,
        from_ratio=0,
        until_ratio=0.02,
        cores=(8,),
        run_ratio=(0.15, 0.25),
        preemptible=True,
    ),
    _Tenant(name="research", weight=3, part=0.34, from_ratio=0, cores=(1, 2, 4), run_ratio=(0.02, 0.09)),
    _Tenant(name="service", weight=2, part=0.2, from_ratio=0.12, cores=(1, 2), run_ratio=(0.01, 0.05)),
    _Tenant(name="flood", weight=1, part=0.16, from_ratio=0.25, at_once=True, cores=(1,), run_ratio=(0.02, 0.05)),
    _Tenant(name="training", weight=2, part=0.2, from_ratio=0.35, cores=(8,), run_ratio=(0.06, 0.12), members=_GANGS),
)


def contended(seed: int = 0, *, within_s: float = 90.0, job_scale: float = 1.0) -> tuple[Workload, NodeSet]:
    """Return (workload, nodes): the same for the same arguments.

    Args:
        seed: Draws sizes, run times and the moments of submits.
        within_s: Trace seconds within which the last job can have ended; run times grow with it.
        job_scale: Part of the jobs, above 0, at most 1; the nodes are all there.

    Raises:
        InvalidRequest: A number is out of range.

    Complexity: O(jobs), of which there are about 3,500.
    """
    if not within_s > 0 or not 0 < job_scale <= 1:
        raise InvalidRequest(f"a demo of {job_scale:g} of its jobs within {within_s:g} s cannot be made")
    nodes = uniform_nodes(NODES, cluster_count=CLUSTER_COUNT)
    work_core_s = nodes.capacity()[CPU] / 1000 * within_s * BUSY_RATIO
    rng = np.random.default_rng(seed)
    submit_s, run_s, lifetime_s, kinds, names = [], [], [], [], []
    for tenant in _TENANTS:
        wanted = work_core_s * tenant.part * job_scale
        size = np.mean(tenant.cores) * np.mean(tenant.members) * np.mean(tenant.run_ratio) * within_s
        count = int(wanted / size) + 1
        drawn = rng.choice(np.array(tenant.cores), count)
        runs_s = rng.uniform(*tenant.run_ratio, count) * within_s
        moments = np.sort(rng.uniform(tenant.from_ratio, tenant.until_ratio, count)) * within_s
        submit_s.append(np.full(count, tenant.from_ratio * within_s) if tenant.at_once else moments)
        run_s.append(runs_s)
        lifetime_s.append(np.full(count, 0.0 if tenant.preemptible else np.nan))
        kinds += list(zip(drawn.tolist(), np.resize(tenant.members, count).tolist(), strict=True))
        names += [tenant.name] * count
    shapes = {kind: _shape(*kind) for kind in kinds}
    runs: FloatArray = np.concatenate(run_s)
    limits = runs * rng.uniform(*_LIMIT_FACTORS, len(runs)) + _LIMIT_MARGIN_RATIO * within_s
    columns = JobColumns(
        submit_s=np.concatenate(submit_s),
        run_s=runs,
        queue=names,
        shape=[shapes[kind] for kind in kinds],
        client_ids=[f"{name}-{number}" for number, name in enumerate(names)],
        estimate_s=limits,
        lifetime_s=np.concatenate(lifetime_s),
        weights={tenant.name: tenant.weight for tenant in _TENANTS},
    )
    workload = build_workload(columns, source="the demo: five queues on 48 nodes of 8 cores, more work than room")
    return replace(workload, estimates_are_limits=True), nodes


def _shape(core_count: int, member_count: int) -> Shape:
    """Return the shape of a job of so many cores a pod, with a part of a node's memory that is no larger."""
    return Shape.of({CPU: core_count * 1000, MEMORY: core_count * 3 * 2**30}, member_count=member_count)

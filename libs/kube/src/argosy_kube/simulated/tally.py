"""What is counted in a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

from argosy_core.resources import ResourceAxis
from argosy_kube.simulated.faults import Audit
from argosy_kube.simulated.tables import NodeTable

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """Counts since the start; `Audit` says what each means."""

    created: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    double: int = 0
    over: int = 0
    unmanaged_pods: int = 0
    running: int = 0
    max_running: int = 0
    running_millicores: int = 0
    core_us: float = 0.0

    def audit(self, nodes: NodeTable, axis: ResourceAxis, *, pod_count: int, now_us: int, speed: float) -> Audit:
        """Return the counts and what nodes hold.

        Args:
            nodes: The nodes.
            axis: Resources of their columns.
            pod_count: Pods that are there.
            now_us: The present, microseconds since the Unix epoch.
            speed: Simulated seconds per real second.
        """
        nodes.fit_axis()
        present = nodes.present_indices()
        return Audit(
            pods_created=self.created,
            pods_succeeded=self.succeeded,
            pods_failed=self.failed,
            pods_killed=self.killed,
            pods_present=pod_count,
            pods_running=self.running,
            max_pods_running=self.max_running,
            double_runs=self.double,
            overcommits=self.over,
            unmanaged_pods=self.unmanaged_pods,
            cpu_core_s=self.core_us / 1e6,
            used=axis.amounts((nodes.allocatable[present] - nodes.free[present]).sum(axis=0)),
            allocatable=axis.amounts(nodes.allocatable[present].sum(axis=0)),
            time_us=now_us,
            speed=speed,
        )

"""What `argosy bench mesh` measures: load, rates and machines, from options and shapes.

Source: design section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from argosy_kube.simulated.recipes import parse_span
from argosy_workload.load import MeshLoad, mesh_nodes
from argosy_workload.model import NodeSet

__all__ = ["BenchPlan", "plan_bench"]

_RATES: Final = (500.0, 1000.0, 1667.0, 2500.0, 4000.0, 6000.0, 8000.0, 10_000.0, 12_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What is measured."""

    load: MeshLoad
    """What the jobs look like."""
    rates: tuple[float, ...]
    """Jobs per second, rising; the first one that is not held is the last."""
    window_s: float
    """How long is counted."""
    warm_up_s: float
    """How long before that the load runs."""
    generator_count: int = 1
    """Processes that send."""
    connection_count: int = 4
    """Connections of each."""
    broker_pid: int = 0
    """Process of the event log's broker, if it runs here and its CPU shall be counted; 0 for none."""
    stops_early: bool = True
    """End at the first rate that is not held; a load that saturates on purpose is never held."""


def plan_bench(options: Mapping[str, Any]) -> tuple[BenchPlan, NodeSet]:
    """Return what to measure, and on what.

    Args:
        options: Values of the options of `argosy bench mesh`; what its shape decides is None or empty.

    Raises:
        InvalidRequest: The run time is none.
    """
    shape = options["shape"]
    is_one_queue = shape == "armada"
    nodes = mesh_nodes(
        cluster_count=options["clusters"] or (1 if is_one_queue else 10),
        nodes_per_cluster=options["nodes"] or (1000 if is_one_queue else 3125),
        core_count=options["cores_per_node"],
    )
    rates = tuple(sorted(options["rates"])) or ((4000.0,) if shape == "saturate" else _RATES)
    run_time = options["run_time"] or ("2s" if is_one_queue else "20s-40s")
    if shape == "saturate" and not options["run_time"]:
        # A fifth more work than cores: they are full however unevenly jobs come, and the rest waits.
        fill_s = len(nodes) * options["cores_per_node"] / rates[0]
        run_time = f"{fill_s:.0f}s-{fill_s * 1.4:.0f}s"
    shortest_s, longest_s = _span_s(run_time)
    load = MeshLoad(
        queue_count=options["queues"] or (1 if is_one_queue else 100),
        class_count=options["classes"] or (1 if is_one_queue else 1000),
        unique_ratio=0.0 if is_one_queue else 0.5,
        batch_size=options["call_size"],
        run_time=run_time,
        mean_run_s=(shortest_s + longest_s) / 2,
    )
    warm_up_s = options["warm_up"] if options["warm_up"] is not None else longest_s + 5.0
    return (
        BenchPlan(
            load=load,
            rates=rates,
            window_s=options["seconds"],
            warm_up_s=warm_up_s,
            generator_count=options["generators"],
            broker_pid=options.get("broker_pid") or 0,
            stops_early=shape != "saturate",
        ),
        nodes,
    )


def _span_s(run_time: str) -> tuple[float, float]:
    shortest_us, longest_us = parse_span(run_time)
    return shortest_us / 1e6, longest_us / 1e6

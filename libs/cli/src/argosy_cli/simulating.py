"""A workload in virtual time, on the same core as the services.

Periods of a mesh that only cost time here (heartbeats, rounds without news) are stretched: a trace of months would
otherwise be mostly heartbeats. Nothing that decides is changed by that: news still starts a round within milliseconds.

Source: design section 2, `simulation`; section 9, "simulate".
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.nodes import NodeSpec
from argosy_core.simulation import START_US, World, WorldPlan, WorldSettings
from argosy_workload.model import NodeSet, Workload
from argosy_workload.records import RunRecords

__all__ = ["SimulationOutcome", "simulate_flow", "world_plan"]

_SETTINGS: Final = WorldSettings(
    round_period_s=60.0,
    heartbeat_s=3600.0,
    fence_s=4 * 3600.0,
    check_steps=0,
    max_steps=2_000_000_000,
)
_MICROSECONDS: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutcome:
    """What a simulation did."""

    records: RunRecords
    """Times of every job, trace seconds."""
    counters: dict[str, int]
    """What was counted."""
    fingerprint: str
    """Hash over everything that happened; equal for equal workload, nodes and seed."""
    virtual_s: float
    """Virtual seconds that passed."""
    elapsed_s: float
    """Real seconds it took."""


def world_plan(workload: Workload, nodes: NodeSet) -> WorldPlan:
    """Return the world in which a workload meets its nodes: one job set per queue, one class per shape.

    Complexity: O(jobs + nodes).
    """
    clusters = tuple(
        (
            cluster,
            tuple(
                NodeSpec(
                    name=nodes.names[row],
                    total=dict(nodes.models[nodes.model[row]].allocatable),
                    labels=dict(nodes.models[nodes.model[row]].labels),
                )
                for row in nodes.rows_of(cluster).tolist()
            ),
        )
        for cluster in nodes.clusters
    )
    count = len(workload)
    return WorldPlan(
        clusters=clusters,
        queues=tuple((queue.name, queue.weight) for queue in workload.queues),
        classes=tuple(shape.scheduling_class() for shape in workload.shapes),
        job_sets=tuple((index, "trace") for index in range(len(workload.queues))),
        submit_s=workload.submit_s,
        run_s=workload.run_s,
        class_index=workload.shape.astype(np.int32),
        job_set=workload.queue.astype(np.int32),
        priority=workload.priority.astype(np.int32),
        exit_code=np.zeros(count, dtype=np.int32),
        layout=np.zeros(count, dtype=np.int32),
    )


def simulate_flow(workload: Workload, nodes: NodeSet, *, seed: int) -> SimulationOutcome:
    """Return what happens to a workload under the flow scheduler.

    Args:
        workload: Jobs; each must fit some node.
        nodes: Machines.
        seed: Source of all chance.

    Raises:
        InvariantViolation: The world broke one of the design's invariants.
    """
    started_s = time.monotonic()
    result = World(world_plan(workload, nodes), seed=seed, settings=_SETTINGS).run()
    times = result.times
    records = RunRecords.start(workload, virtual=True)
    records.submit_s[:] = workload.submit_s
    records.acknowledged_s[:] = _seconds(times.submit_us)
    records.considered_s[:] = _seconds(times.considered_us)
    records.leased_s[:] = _seconds(times.leased_us)
    records.running_s[:] = _seconds(times.running_us)
    records.finished_s[:] = _seconds(times.finished_us)
    records.state[:] = np.where(times.state == 0, records.state, times.state)
    notes = (*records.notes, "Virtual time: the mesh's own latency is that of the simulated messages, milliseconds.")
    return SimulationOutcome(
        records=replace(records, notes=notes),
        counters=dict(result.counters),
        fingerprint=result.fingerprint,
        virtual_s=result.elapsed_s,
        elapsed_s=time.monotonic() - started_s,
    )


def _seconds(moments_us: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return moments as seconds from the start, NaN for what has not happened."""
    return np.where(moments_us == 0, np.nan, (moments_us - START_US) / _MICROSECONDS)

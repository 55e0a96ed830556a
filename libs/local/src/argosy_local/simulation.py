"""Workloads in virtual time: a trace becomes a world of `argosy_simulation`, and what happened becomes records.

Source: design section 9, "simulate"; `argosy_simulation`.
"""

from __future__ import annotations

import gc
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.backfill import PromiseKind
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.options import JobOptions
from argosy_core.job.states import JobState
from argosy_core.job.states import RunState as RunEnd
from argosy_core.job.tables.members import attempt_of
from argosy_core.nodes import NodeSpec
from argosy_core.scheduler.memory.promised import GatheredNodes
from argosy_core.scheduler.memory.state import PoolState
from argosy_local.lost_node import LostNode
from argosy_local.node_files import without_impossible
from argosy_simulation import START_US, JobTimes, ScalingPlan, World, WorldPlan, WorldSettings
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.model import NodeSet, Workload
from argosy_workload.records import MOST_PLACED, GivenPromise, Placement, RunRecords, RunState
from argosy_workload.report import ScalingSeries
from argosy_workload.usage import read_usage

__all__ = ["SCHEDULERS", "Beside", "Progress", "Simulated", "simulate"]

SCHEDULERS = ("flow", "fcfs")
"""What decides: the mesh in virtual time, or strict first come, first served."""
Progress = Callable[[dict[str, int], float], None]
"""Is told the jobs by state and the virtual seconds that have passed."""
_SHOWN_PODS = 4
"""Pods whose sizes are shown one by one."""
_MILLICORES = 1000.0
_NEWS_S = 1
"""How much longer than it says a run may take, seconds: one that takes just as long is not stopped before its end is
heard of."""
_TELL_STEPS = 100
_TELL_PERIOD_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What happens beside the jobs, and how finely time is told."""

    lost: LostNode | None = None
    """A node that goes from the mesh with what runs there, and does not come back."""
    scaling: ScalingPlan | None = None
    """What pods use, so that agents resize them; None for pods that keep what they ask for."""
    resolution_s: float = 0.0
    """Jobs come and pods end at multiples of so many seconds, the nearest ones, so that many are decided at once; 0 for
    as the workload says. Waits are then right to about so many seconds. First come, first served is always exact."""

    @staticmethod
    def of(lost: LostNode | None, usage: tuple[Path, float] | None, resolution_s: float = 0.0) -> Beside:
        """Return what happens if pods use what a file says, None if none does, by steps of so many seconds.

        Raises:
            InvalidRequest: The file cannot be read, or says no uses.
        """
        scaling = usage and ScalingPlan(uses=read_usage(usage[0]), step_s=usage[1])
        return Beside(lost=lost, scaling=scaling, resolution_s=resolution_s)


_NOTHING_BESIDE = Beside()


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation gave."""

    records: RunRecords
    """What happened to each job, virtual seconds."""
    fingerprint: str
    """Hash over every event; equal for equal input and seed."""
    virtual_s: float
    """Virtual seconds from the first submit to the last end."""
    real_s: float
    """Seconds it took."""
    counters: dict[str, int]
    """What was counted."""
    is_complete: bool = True
    """Whether it came to its end; False if the user stopped it."""
    scaling: ScalingSeries | None = None
    """Pods that were resized; None where nothing was."""

    @property
    def speed(self) -> float:
        """Virtual seconds per real second."""
        return self.virtual_s / max(self.real_s, 1e-9)

    @property
    def jobs_per_s(self) -> float:
        """Jobs that ended per real second."""
        return float(np.count_nonzero(np.isfinite(self.records.finished_s))) / max(self.real_s, 1e-9)


def simulate(
    workload: Workload,
    nodes: NodeSet,
    *,
    scheduler: str = "flow",
    seed: int = 0,
    tell: Progress | None = None,
    round_settings: Mapping[str, Any] | None = None,
    beside: Beside = _NOTHING_BESIDE,
) -> Simulated:
    """Run a workload in virtual time; if the user interrupts it, return what has happened until then.

    Args:
        workload: Jobs; each must fit some empty node.
        nodes: Machines.
        scheduler: One of SCHEDULERS.
        seed: Source of all chance; first come, first served draws nothing.
        tell: Is told the progress now and then.
        round_settings: Settings of the mesh's rounds that are not those for traces, by name, as job_order.
        beside: What else happens, and how finely time is told.

    Raises:
        InvalidRequest: No such scheduler, a job fits no node, or pods are to be resized where there is no mesh.
        InvariantViolation: The mesh did something that must never happen: a fault of Argosy.
    """
    if scheduler not in SCHEDULERS:
        raise InvalidRequest(f"{scheduler!r} is no scheduler; known are {', '.join(SCHEDULERS)}")
    started_s = time.perf_counter()
    lost, scaling, resolution_s = beside.lost, beside.scaling, beside.resolution_s
    if scheduler == "fcfs" and scaling is not None:
        raise InvalidRequest("first come, first served resizes no pods; leave out what they use, or take the mesh")
    if scheduler == "fcfs":
        records = simulate_fcfs(workload, nodes)
        ended_s = float(np.nanmax(records.finished_s, initial=0.0))
        return Simulated(
            records=records,
            fingerprint=_hash_records(records),
            virtual_s=ended_s,
            real_s=time.perf_counter() - started_s,
            counters={},
        )
    if len(without_impossible(workload, nodes)) < len(workload):
        raise InvalidRequest("there are jobs that fit no node; they would wait for ever")
    workload = _at_resolution(workload, resolution_s)
    settings = WorldSettings.for_traces()
    rounds = replace(settings.leader.round, **(round_settings or {}))
    settings = replace(settings, leader=replace(settings.leader, round=rounds), resolution_s=resolution_s)
    world = World(replace(_plan(workload, nodes, resolution_s), scaling=scaling), seed=seed, settings=settings)
    if lost is not None:
        world.lose_node(lost.cluster, lost.node, lost.after_s)
    witness = _Witness(tell)
    collects = gc.isenabled()
    gc.disable()  # a world makes hardly any cycles, and looking for them takes a tenth of the time
    is_complete = True
    try:
        result = world.run(tell=witness.look, tell_steps=_TELL_STEPS)
    except KeyboardInterrupt:
        is_complete, result = False, world.result()
    finally:
        if collects:
            gc.enable()
    records = _records(workload, result.times)
    records.promises.extend(witness.promises.values())
    if len(workload) <= MOST_PLACED:
        records.placements.extend(_placements(world))
    totals = world.leaders[-1].machine.state.totals
    promises = {name: count for name, count in sorted(totals.items()) if "promises" in name}
    return Simulated(
        records=records,
        fingerprint=result.fingerprint,
        virtual_s=float(np.nanmax(records.finished_s, initial=0.0)) if is_complete else result.elapsed_s,
        real_s=time.perf_counter() - started_s,
        counters={**result.counters, **promises},
        is_complete=is_complete,
        scaling=_scaling_series(world) if scaling is not None else None,
    )


def _scaling_series(world: World) -> ScalingSeries:
    """Return what the agents of all clusters have noted, added up by moment."""
    sums: dict[float, npt.NDArray[np.float64]] = {}
    for moment in (one for agent in world.agents for one in agent.moments):
        sums[moment.at_s] = sums.get(moment.at_s, np.zeros(len(moment) - 1)) + np.array(moment[1:], np.float64)
    at_s = sorted(sums)
    rows = np.array([sums[moment_s] for moment_s in at_s]).reshape(-1, 7)
    requested, approved, _, used, pods, short, resizes = rows.T
    notes = {handle: moments for agent in world.agents for handle, moments in agent.pods.items()}
    changes = {handle: sum(a.held != b.held for a, b in pairwise(one)) for handle, one in notes.items()}
    shown = sorted(notes, key=lambda handle: (-changes[handle], handle))[:_SHOWN_PODS]
    return ScalingSeries(
        at_s=tuple(at_s),
        requested=_cores(requested),
        approved=_cores(approved),
        used=_cores(used),
        pod_count=tuple(int(count) for count in pods.tolist()),
        short_ratio=float(short.sum() / max(pods.sum(), 1.0)),
        resize_count=int(resizes.sum()),
        pods={
            f"of job {world.context.job_index.index(handle) + 1}": ScalingSeries(
                at_s=tuple(one.at_s for one in notes[handle]),
                requested=tuple(one.requested / _MILLICORES for one in notes[handle]),
                approved=tuple(one.approved / _MILLICORES for one in notes[handle]),
                used=tuple(one.used / _MILLICORES for one in notes[handle]),
                resize_count=changes[handle],
            )
            for handle in shown
        },
    )


def _cores(millicores: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple((millicores / _MILLICORES).tolist())


def _at_resolution(workload: Workload, resolution_s: float) -> Workload:
    """Return a workload whose jobs come at the nearest multiples of so many seconds; as it is if those are 0."""
    if not resolution_s:
        return workload
    return replace(workload, submit_s=np.round(workload.submit_s / resolution_s) * resolution_s)


def _plan(workload: Workload, nodes: NodeSet, resolution_s: float) -> WorldPlan:
    """Return the world of a workload; a queue's jobs of one job set are one job set of the world."""
    clusters = []
    for cluster in nodes.clusters:
        members = nodes.rows_of(cluster).tolist()
        if members:
            models = [nodes.models[model] for model in nodes.model[members].tolist()]
            specs = [
                NodeSpec(name=nodes.names[row], total=dict(model.allocatable), labels=dict(model.labels))
                for row, model in zip(members, models, strict=True)
            ]
            clusters.append((cluster, tuple(specs)))
    pairs = workload.queue.astype(np.int64) * len(workload.job_sets) + workload.job_set
    distinct, job_set = np.unique(pairs, return_inverse=True)
    zeros = np.zeros(len(workload), dtype=np.int32)
    return WorldPlan(
        clusters=tuple(clusters),
        queues=tuple((queue.name, queue.weight) for queue in workload.queues),
        classes=tuple(shape.scheduling_class() for shape in workload.shapes),
        job_sets=tuple(
            (pair // len(workload.job_sets), workload.job_sets[pair % len(workload.job_sets)])
            for pair in distinct.tolist()
        ),
        submit_s=workload.submit_s,
        run_s=workload.run_s,
        class_index=workload.shape,
        job_set=job_set.reshape(-1).astype(np.int32),
        priority=workload.priority,
        exit_code=zeros,
        layout=zeros,
        options=_options(workload, late_s=_NEWS_S + math.ceil(resolution_s)),
        submitter=workload.user,
    )


def _options(workload: Workload, *, late_s: int) -> JobOptions | None:
    """Return the estimates and lifetimes of a workload as jobs have them, None if there are none.

    Args:
        workload: The workload.
        late_s: How much longer than its limit a run may seem to take.
    """
    if np.isnan(workload.estimate_s).all() and np.isnan(workload.lifetime_s).all():
        return None
    estimate_s, nothing = workload.estimates_s(), JobOptions.unset(len(workload))
    limit_s = nothing.time_limit_s
    if workload.estimates_are_limits:
        limit_s = estimate_s + (estimate_s >= 0) * np.int32(late_s)
    return replace(nothing, estimate_s=estimate_s, time_limit_s=limit_s, lifetime_s=workload.lifetimes_s())


def _records(workload: Workload, times: JobTimes) -> RunRecords:
    """Return what happened as records."""
    records = RunRecords.start(workload, virtual=True)
    records.submit_s[:] = np.where(times.submit_us > 0, workload.submit_s, np.nan)
    records.acknowledged_s[:] = _seconds(times.submit_us)
    records.considered_s[:] = _seconds(times.considered_us)
    records.leased_s[:] = _seconds(times.leased_us)
    records.running_s[:] = _seconds(times.running_us)
    records.finished_s[:] = _seconds(times.finished_us)
    records.state[:] = np.maximum(times.state, np.int8(RunState.QUEUED))
    return records


def _seconds(moments_us: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return seconds since the first submit, NaN for what has not happened."""
    return np.where(moments_us > 0, (moments_us - START_US) / 1e6, np.nan)


def _counts(times: JobTimes) -> dict[str, int]:
    """Return how many jobs are in which state."""
    counts = np.bincount(times.state, minlength=len(JobState) + 1).tolist()
    return {state.name.lower(): counts[state] for state in JobState if counts[state]}


class _Witness:
    """Looks at a world now and then: tells of its progress, and notes the promises that stand."""

    def __init__(self, tell: Progress | None) -> None:
        """Have seen nothing."""
        self._tell = tell
        self._due_s = 0.0
        self.promises: dict[int, GivenPromise] = {}
        """By row, what each job was promised last."""

    def look(self, world: World) -> None:
        """Look; tell a few times a second."""
        elapsed_s = world.context.agenda.elapsed_s
        if world.leaders:
            self._note_promises(world, world.leaders[-1].state, elapsed_s)
        if self._tell is not None and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _TELL_PERIOD_S
            self._tell(_counts(world.times), elapsed_s)

    def _note_promises(self, world: World, state: PoolState, now_s: float) -> None:
        """Note what a leader has promised that is news."""
        for handle in state.promises.handles:
            promise = state.promises.given_to(handle)
            if promise is None:
                continue
            row, moment_s = world.context.job_index.index(handle), promise.moment_s - START_US / 1e6
            known, names = self.promises.get(row), state.clusters.nodes[promise.cluster].names
            if known is None or known.moment_s != moment_s:
                self.promises[row] = GivenPromise(
                    row=row,
                    given_s=now_s,
                    moment_s=moment_s,
                    is_firm=promise.kind == PromiseKind.FIRM,
                    nodes=promise.nodes if isinstance(promise, GatheredNodes) else (names[promise.node],),
                )


def _placements(world: World) -> Iterator[Placement]:
    """Return where runs were."""
    for job in world.context.store.jobs.values():
        for ordinal, run in job.runs.items():
            times_us = np.array([run.lease_time_us, run.end_time_us])
            lease_s, end_s = _seconds(times_us).tolist()
            yield Placement(
                row=job.index,
                attempt=attempt_of(ordinal),
                cluster=run.cluster,
                node=run.node,
                lease_s=lease_s,
                end_s=end_s,
                state=RunEnd(run.state).name.lower(),
                reason=run.reason,
            )


def _hash_records(records: RunRecords) -> str:
    """Return a hash over all times and states."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (records.submit_s, records.leased_s, records.running_s, records.finished_s, records.state):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()

"""What must hold of a world: after every event, and once it has come to rest.

Source: design section 7.
"""

from __future__ import annotations

import numpy as np

from argosy_core.errors import InvariantViolation
from argosy_core.job.reading.after import AfterUntil
from argosy_core.job.states import JobState
from argosy_core.job.tables.members import attempt_of, member_of, place_of
from argosy_core.nodes.records import DEFAULT_POD_COUNT
from argosy_core.reconcile import Reconciler
from argosy_core.resources import PODS
from argosy_core.scheduler import check_invariants, placements_of
from argosy_simulation.agenda import Process
from argosy_simulation.executor_actor import ExecutorActor
from argosy_simulation.leader_actor import LeaderActor
from argosy_simulation.parts import WorldParts
from argosy_simulation.plan import JobIndex
from argosy_simulation.sampler_actor import SamplerActor

__all__ = ["check_memory", "check_rest"]


def check_memory(process: Process | None) -> None:
    """Check the memory of a leader, sampler or executor that has just acted; others have none to check.

    Raises:
        InvariantViolation: Something does not hold.
    """
    if isinstance(process, LeaderActor):
        check_invariants(process.state)
    elif isinstance(process, SamplerActor):
        process.ledger.check_invariants()
    elif isinstance(process, ExecutorActor):
        process.reconciler.check_invariants()


def check_rest(world: WorldParts) -> None:
    """Check a world in which nothing is left to do: rows, clusters, ledgers and memories say the same.

    Every job has ended unless its pod never ends by itself and has no time limit; live runs, pods and placements are
    the same set; job rows and their events have come to the same state.

    Raises:
        InvariantViolation: Something does not hold.
    """
    _check_jobs(world)
    live = _check_runs(world)
    for cluster, sampler, executor in zip(world.clusters, world.samplers, world.executors, strict=True):
        mine = live.get(cluster.name, set())
        _require_equal(f"pods of {cluster.name}", cluster.unfinished_pods(), mine)
        strays = {key for key in cluster.objects if (key[0], key[1]) not in mine}
        _require(not strays, f"{cluster.name} keeps objects of no live run: {sorted(strays)[:3]}")
        _require_equal(f"runs known to {executor.name}", _known(executor.reconciler), mine)
        _require(executor.reconciler.all_stored, f"{executor.name} has states that are not stored")
        _require(sampler.ready, f"{sampler.name} has a session")
        _check_ledger(world, sampler, mine)


def _check_jobs(world: WorldParts) -> None:
    """Every acknowledged job has ended, and its row and its events agree."""
    store, job_index = world.context.store, world.context.job_index
    endless = ~np.isfinite(job_index.plan.run_s)
    if job_index.plan.options is not None:
        endless &= job_index.plan.options.time_limit_s < 0
    for handle, job in store.jobs.items():
        _require(
            job.state > 0 or (bool(endless[job.index]) and job.live_attempt > 0),
            f"job {job.index} has ended (handle {handle}, live attempt {job.live_attempt}, events {job.event_state})",
        )
        _require(
            job.state in (0, job.event_state) and job.event_state > 0,
            f"row and events of job {job.index} agree ({job.state}, {job.event_state})",
        )
    for row, (until, others) in job_index.plan.after.items():
        job, *named = (store.jobs[handle] for handle in job_index.handles(np.array([row, *others])).tolist())
        states = [other.state for other in named]
        if job.runs:
            _require(all(states), f"job {row} began after {others} had ended")
            well = until is AfterUntil.ENDED or set(states) == {JobState.SUCCEEDED}
            _require(well, f"job {row} began after {others} had succeeded")
    for row, above in job_index.plan.families.items():
        child, parent = (store.jobs[handle] for handle in job_index.handles(np.array([row, above])).tolist())
        _require(not parent.state or bool(child.state), f"job {row} has ended with {above}")
    _require(not store.changes, "every change was taken")
    _require(len(store.jobs) == world.submitted_count, "no acknowledged job is lost")
    _require(len(store.jobs) == len(job_index.plan), "every submit was acknowledged in the end")


def _check_runs(world: WorldParts) -> dict[str, set[tuple[int, int]]]:
    """Rows and the leader's memory hold the same live runs; return them by cluster."""
    live: dict[str, set[tuple[int, int]]] = {}
    for handle, job in world.context.store.jobs.items():
        for ordinal, run in job.runs.items():
            is_live = attempt_of(ordinal) == job.live_attempt and not job.state
            _require(run.ended or is_live, f"run {handle}/{ordinal} has ended")
            if not run.ended:
                live.setdefault(run.cluster, set()).add((handle, ordinal))
    _require(len(world.leaders) == 1, "one leader is left")
    leader = world.leaders[-1]
    _require(len(leader.state.live) == len(world.context.store.open_handles), "the leader holds exactly the open jobs")
    for cluster in world.clusters:
        placements = placements_of(leader.state, cluster.name)
        held = set(placements.members.pairs())
        _require_equal(f"runs of {cluster.name} in memory", held, live.get(cluster.name, set()))
    return live


def _known(reconciler: Reconciler) -> set[tuple[int, int]]:
    known = reconciler.known_runs()
    return set(known.pairs())


def _check_ledger(world: WorldParts, sampler: SamplerActor, live: set[tuple[int, int]]) -> None:
    """A ledger holds the live runs and nothing else; free is what they leave."""
    ledger, name = sampler.ledger, sampler.name
    ledger.check_invariants()
    _require(ledger.placement_count == len(live), f"{name} holds {len(live)} placements, not {ledger.placement_count}")
    pods = ledger.axis.index(PODS)
    # Each pod that wants its node for itself takes all that it has of `pods`.
    counted = np.arange(len(ledger.axis)) != pods
    _require(bool((ledger.nodes.free[counted] >= 0).all()), f"{name} has nothing below zero")
    taken = (ledger.nodes.allocatable - ledger.nodes.free).sum(axis=1)
    job_index = world.context.job_index
    wanted = np.zeros_like(taken)
    for handle, ordinal in live:
        wanted[pods] += _more_pods(job_index, handle, ordinal)
        for position in job_index.pods_of(handle):
            for resource, amount in job_index.requests_of(handle, ordinal, position):
                wanted[ledger.axis.index(resource)] += amount
    _require(bool((taken == wanted).all()), f"{name} books what the live runs ask for")


def _more_pods(job_index: JobIndex, handle: int, ordinal: int) -> int:
    """Return how many of its node's pods a member keeps from others beside its own."""
    definition = job_index.plan.classes[job_index.class_of(handle)]
    is_whole = (
        bool(definition.gang) and definition.gang[definition.member_groups[place_of(member_of(ordinal))]].whole_nodes
    )
    return DEFAULT_POD_COUNT - 1 if is_whole else 0


def _require_equal(what: str, found: set[tuple[int, int]], expected: set[tuple[int, int]]) -> None:
    """Raise if two sets of runs differ."""
    if found != expected:
        raise InvariantViolation(
            f"{what} differ from the rows: too many are {sorted(found - expected)[:3]}, "
            f"missing are {sorted(expected - found)[:3]}"
        )


def _require(holds: bool, what: str) -> None:  # noqa: FBT001 - a condition and its name
    """Raise if something does not hold."""
    if not holds:
        raise InvariantViolation(f"does not hold at rest: {what}")

"""Small random worlds: a plan, settings and faults drawn from a seed, for finding what nobody thought of.

Source: design section 7, "each has a test that fails when its defence is removed".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from argosy_core.job.reading.after import AfterUntil
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.reading.options import JobOptions
from argosy_core.leader import MachineSettings
from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import RoundSettings
from argosy_simulation.plan import REPLACING_LAYOUTS, ChangeRequestPlan, WorldPlan
from argosy_simulation.settings import FaultSettings, WorldSettings
from argosy_simulation.world import World

__all__ = [
    "chain_plan",
    "delegated_plan",
    "draw_plan",
    "draw_world",
    "gang_plan",
    "hold_plan",
    "lifetime_plan",
    "limit_plan",
    "widen_plan",
]

_GIB = 1 << 30


def draw_world(  # noqa: PLR0913 - one argument per thing that may be in the world
    seed: int,
    *,
    with_faults: bool = True,
    wide: bool = False,
    limited: bool = False,
    waiting: bool = False,
    gangs: bool = False,
    capped: bool = False,
    delegated: bool = False,
    check_steps: int = 1,
    make_plugins: Callable[[], Mapping[str, object]] = dict,
) -> World:
    """Return a small world with everything in it drawn from a seed; all its jobs fit some node.

    Args:
        seed: Which world.
        with_faults: Whether anything goes wrong in it.
        wide: Whether there may be bags of several pods and all faults; drawn apart, as all that follows.
        limited: Whether some jobs have time limits.
        waiting: Whether some jobs are held for a while, preempted, and some wait for others.
        gangs: Whether about a third of the jobs are gangs.
        capped: Whether shares cap what queues hold, where many jobs have lifetimes, and all end.
        delegated: Whether some clusters, perhaps all, place by themselves.
        check_steps: After how many events the memories are checked; what truly happens is checked always.
        make_plugins: Makes the plugins of each leader anew.
    """
    until_s = float((rng := np.random.default_rng([seed, 9])).uniform(30.0, 120.0))
    plan, wide_rng = draw_plan(rng, until_s), np.random.default_rng([seed, 19])
    plan = widen_plan(plan, wide_rng) if wide else plan
    plan = limit_plan(plan, np.random.default_rng([seed, 39])) if limited else plan
    plan = _wait_plan(plan, np.random.default_rng([seed, 43]), until_s) if waiting else plan
    plan = gang_plan(plan, np.random.default_rng([seed, 47])) if gangs else plan
    plan = lifetime_plan(plan, np.random.default_rng([seed, 53])) if capped else plan
    plan = delegated_plan(plan, np.random.default_rng([seed, 59])) if delegated else plan
    settings = WorldSettings(
        leader=MachineSettings(
            round=RoundSettings(
                clusters_to_sample_ratio=float(rng.choice([0.33, 1.0])),
                nodes_to_sample_ratio=float(rng.choice([0.04, 0.5, 1.0])),
                commit_candidate_count=int(rng.integers(1, 4)),
                max_runs=250,
                waiting_heads=int(rng.choice([1, 4])),
                non_preemptible_excess_ratio=0.2 if capped else 1e9,
                excess_budget_min=0.2,
            ),
            # Drawn apart, so that the other worlds stay as they were: small records make several of a plan.
            max_record_bytes=int(np.random.default_rng([seed, 29]).choice([1_100, 4_000_000])),
        ),
        message_s=(0.0, float(rng.choice([0.001, 0.05, 0.3]))),
        transaction_s=(0.001, float(rng.choice([0.005, 0.2, 1.0]))),
        watch_s=(0.0, float(rng.choice([0.01, 0.3]))),
        pod_start_s=(0.0, float(rng.choice([0.0, 0.5]))),
        pod_stop_s=(0.0, float(rng.choice([0.05, 2.0]))),
        keep_finished_s=float(rng.choice([0.0, 5.0, 60.0])),
        check_steps=check_steps,
        make_plugins=make_plugins,
        max_steps=400_000,
    )
    if not with_faults:
        return World(plan, seed=seed, settings=settings)
    faults = _draw_faults(rng, until_s)
    if wide:
        faults = _widen_faults(faults, wide_rng)
    return World(plan, seed=seed, settings=settings, faults=faults)


def delegated_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which half of the clusters, at least one, place by themselves."""
    names = [name for name, _ in plan.clusters]
    chosen = rng.random(len(names)) < 0.5
    chosen[rng.integers(len(names))] = True
    return replace(plan, delegated=frozenset(name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen))


def _draw_faults(rng: np.random.Generator, until_s: float) -> FaultSettings:
    """Return how often what goes wrong."""
    counts = {
        name: int(rng.integers(0, most + 1))
        for name, most in (
            ("leader_crashes", 3),
            ("leader_depositions", 2),
            ("sampler_crashes", 3),
            ("executor_crashes", 3),
            ("executor_overlaps", 2),
            ("stream_cuts", 6),
            ("stream_stalls", 4),
            ("node_losses", 3),
            ("unmanaged_pods", 15),
            ("watch_ends", 3),
            ("watch_lags", 3),
        )
    }
    return FaultSettings(
        until_s=until_s,
        repeat_ratio=float(rng.choice([0.0, 0.2])),
        call_loss_ratio=float(rng.choice([0.0, 0.1])),
        **counts,  # type: ignore[arg-type]
    )


def _widen_faults(faults: FaultSettings, rng: np.random.Generator) -> FaultSettings:
    """Return faults with those that are left out by default."""
    faults = replace(
        faults,
        api_crashes=int(rng.integers(0, 6)),
        forgotten_clusters=int(rng.integers(0, 3)),
        late_commits=int(rng.integers(0, 4)),
    )
    # A run that was taken for lost with its cluster is not looked for when the cluster comes back.
    return replace(faults, label_thefts=0 if faults.forgotten_clusters else int(rng.integers(0, 6)))


def widen_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which about half of the jobs are bags of several pods.

    Args:
        plan: The plan.
        rng: Draws which.
    """
    several = rng.random(len(plan)) < 0.5
    return replace(plan, layout=np.where(several, rng.integers(2, 4, len(plan)), plan.layout).astype(np.int32))


def limit_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which about a third of the jobs have time limits, some shorter than they run.

    Args:
        plan: The plan.
        rng: Draws which, and how long.
    """
    nothing = JobOptions.unset(len(plan))
    limited = rng.random(len(plan)) < 0.3
    limit_s = np.where(limited, rng.integers(1, 40, len(plan)), nothing.time_limit_s).astype(np.int32)
    return replace(plan, options=replace(nothing, time_limit_s=limit_s))


def lifetime_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which two thirds of the jobs have lifetimes up to some seconds, and all of them end.

    Args:
        plan: The plan.
        rng: Draws which, and how long.
    """
    count = len(plan)
    options = plan.options or JobOptions.unset(count)
    drawn = rng.choice([-1, 0, 3, 20], count).astype(np.int32)
    run_s = np.where(np.isfinite(plan.run_s), plan.run_s, 5.0)
    return replace(plan, run_s=run_s, options=replace(options, lifetime_s=np.maximum(drawn, options.lifetime_s)))


def gang_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which about a third of the jobs are gangs, each of which fits some cluster.

    Every second job lets members be replaced, and gangs of the first kind may grow.

    Nodes are alike, and one of a cluster may hold a pod that never ends.

    Args:
        plan: The plan.
        rng: Draws which, and of what sub-groups.
    """
    node_count = max(1, max(len(nodes) for _, nodes in plan.clusters) - 1)
    classes = list(plan.classes)
    for number in range(3):
        cpu = int(rng.choice([500, 1000, 2000, 4000]))
        most = min(node_count * (4000 // cpu), 8)
        first = int(rng.integers(1, most + 1))
        pod = SchedulingClass(requests=(("cpu", cpu), ("memory", _GIB)))
        grows_to = most if number == 0 else 0
        sizes = [first, *([most - first] if number == 1 and first < most else [])]
        groups = [
            GangGroup(pod=pod, minimum=size, maximum=max(size, grows_to), whole_nodes=number == 2) for size in sizes
        ]
        classes.append(SchedulingClass.of_gang(groups))
    of_gang = (rng.random(len(plan)) < 0.35) & np.isfinite(plan.run_s)
    chosen = rng.integers(len(plan.classes), len(classes), len(plan))
    replaces = np.arange(len(plan)) % 2 == 0
    return replace(
        plan,
        classes=tuple(classes),
        class_index=np.where(of_gang, chosen, plan.class_index).astype(np.int32),
        layout=np.where(of_gang, np.where(replaces, REPLACING_LAYOUTS[0], 0) + plan.layout % 2, plan.layout).astype(
            np.int32
        ),
    )


def chain_plan(plan: WorldPlan, rng: np.random.Generator) -> WorldPlan:
    """Return a plan in which about a third of the jobs wait for up to three earlier ones, none that never ends.

    Args:
        plan: The plan.
        rng: Draws which, and for what.
    """
    after: dict[int, tuple[AfterUntil, tuple[int, ...]]] = {}
    ending = np.flatnonzero(np.isfinite(plan.run_s))
    for job in np.flatnonzero(rng.random(len(plan)) < 0.35).tolist():
        earlier = ending[ending < job]
        if earlier.size:
            others = rng.choice(earlier, min(int(rng.integers(1, 4)), earlier.size), replace=False)
            after[job] = AfterUntil(int(rng.integers(1, 3))), tuple(sorted(others.tolist()))
    return replace(plan, after=after)


def _wait_plan(plan: WorldPlan, rng: np.random.Generator, until_s: float) -> WorldPlan:
    """Return a plan in which jobs are held for a while and wait for others."""
    return chain_plan(hold_plan(plan, rng, until_s), rng)


def hold_plan(plan: WorldPlan, rng: np.random.Generator, until_s: float) -> WorldPlan:
    """Return a plan in which about a third of the jobs are held for a while, others later, and all are preempted twice.

    Args:
        plan: The plan.
        rng: Draws which, and when.
        until_s: When all are released, seconds from the start.
    """
    count = len(plan)
    options = plan.options or JobOptions.unset(count)
    held = np.where(rng.random(count) < 0.3, np.int32(1), options.held).astype(np.int32)
    requests = [
        ChangeRequestPlan(
            at_s=float(rng.uniform(0.0, until_s)),
            jobs=tuple(rng.choice(count, int(rng.integers(1, 9)), replace=False).tolist()),
            held=bool(rng.random() < 0.5),
        )
        for _ in range(12)
    ]
    for _ in range(2):
        at_s = float(rng.uniform(0.0, until_s))
        requests.append(ChangeRequestPlan(at_s=at_s, jobs=tuple(range(count)), preempt=True))
    last = max(until_s, float(plan.submit_s.max(initial=0.0)) + 60.0)
    requests.append(ChangeRequestPlan(at_s=last, jobs=tuple(range(count)), held=False))
    every = sorted((*plan.change_requests, *requests), key=lambda request: request.at_s)
    lifetime_s = np.where(rng.random(count) < 0.5, rng.integers(0, 15, count), options.lifetime_s).astype(np.int32)
    options = replace(options, held=held, lifetime_s=lifetime_s)
    return replace(plan, options=options, change_requests=tuple(every))


def draw_plan(rng: np.random.Generator, until_s: float) -> WorldPlan:
    """Return one to three small clusters and some dozens of jobs.

    Args:
        rng: Draws everything.
        until_s: Seconds in which jobs are submitted.
    """
    clusters = tuple(
        (
            f"cluster-{number}",
            tuple(
                NodeSpec(name=f"c{number}-n{node}", total={"cpu": 4000, "memory": 8 * _GIB})
                for node in range(int(rng.integers(1, 5)))
            ),
        )
        for number in range(int(rng.integers(1, 4)))
    )
    classes = tuple(
        SchedulingClass(requests=(("cpu", int(cpu)), ("memory", int(memory) * _GIB)))
        for cpu, memory in zip(rng.choice([500, 1000, 2000, 4000], 4), rng.integers(1, 9, 4), strict=True)
    )
    queues = tuple((f"queue-{number}", float(rng.integers(1, 4))) for number in range(int(rng.integers(1, 4))))
    job_sets = tuple((queue, name) for queue in range(len(queues)) for name in ("a", "b"))
    count = int(rng.integers(10, 60))
    run_s = rng.exponential(float(rng.choice([2.0, 20.0])), count)
    endless = rng.random(count) < 0.04
    # Whoever never ends must leave room for the others.
    endless &= np.cumsum(endless) <= 1
    class_index = rng.integers(0, len(classes), count).astype(np.int32)
    alone = len(clusters) == 1 and len(clusters[0][1]) == 1
    run_s[endless & (not alone)] = np.inf
    submit_s = np.sort(rng.choice(np.round(rng.random(max(count // 2, 1)) * until_s, 3), count))
    change_requests = [
        ChangeRequestPlan(
            at_s=float(rng.uniform(0.0, until_s)),
            jobs=tuple(rng.choice(count, int(rng.integers(1, 6)), replace=False).tolist()),
            priority=None if rng.random() < 0.6 else int(rng.integers(0, 5)),
        )
        for _ in range(int(rng.integers(0, 8)))
    ]
    return WorldPlan(
        clusters=clusters,
        queues=queues,
        classes=classes,
        job_sets=job_sets,
        submit_s=submit_s,
        run_s=run_s,
        class_index=class_index,
        job_set=rng.integers(0, len(job_sets), count).astype(np.int32),
        priority=rng.integers(0, 3, count).astype(np.int32),
        exit_code=(rng.random(count) < 0.1).astype(np.int32),
        layout=(rng.random(count) < 0.3).astype(np.int32),
        change_requests=tuple(sorted(change_requests, key=lambda change_request: change_request.at_s)),
    )

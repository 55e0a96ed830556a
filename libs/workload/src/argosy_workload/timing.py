"""Time of a workload: how a trace of weeks is replayed within minutes, and what that changes.

*Speed* is the one honest knob: trace seconds per real second, for arrivals and run times alike. A trace whose load is
thin and whose run times range from seconds to months cannot be replayed at one speed within minutes: its jobs would run
for less than it takes to start them. For such traces a plan also moves arrivals closer together and ends the longest
runs early. Every step adds a note that says what it did to how many jobs, and reports print them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_workload.contended import contended
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.model import NodeSet, Workload

__all__ = [
    "DEMO_S",
    "TIMEOUT_S",
    "TURNAROUND_S",
    "WITHIN_S",
    "ReplayPlan",
    "cap_run_times",
    "plan_demo",
    "plan_replay",
    "plan_speed",
    "plan_within",
    "scale_arrivals",
    "speed_to_finish",
]

TIMEOUT_S: Final = 600.0
"""Longest real time of a replay whose speed nobody chose; real traces last months."""
WITHIN_S: Final = 150.0
"""Real seconds within which the last job ends of a replay that would take longer than `TIMEOUT_S`."""
DEMO_S: Final = 90.0
"""The same for the demo."""
ARRIVAL_RATIO: Final = 0.3
"""Share of the real time in which jobs arrive; the rest is for the longest of them to end."""
RUN_CAP_LEVEL: Final = 0.95
"""Runs longer than those of this share of the jobs are ended early."""
WORTH_CHANGING: Final = 10.0
"""A trace is changed only if that makes the speed smaller by this factor."""
TURNAROUND_S: Final = 0.2
"""Real seconds in which a place is taken again after a job has ended, while others wait: two steps of an executor, a
round, and a transaction."""
_SLACK_RATIO: Final = 0.03
"""Share of the real time kept for starting and reporting the last jobs."""
_SPEED_PRECISION: Final = 1.03


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """A workload made ready for replay."""

    workload: Workload
    """What to submit, in trace time; its notes say what was changed."""
    speed: float
    """Trace seconds per real second, for submit times and run times alike."""
    expected_s: float
    """Real seconds from first submit to last end, as far as can be foreseen."""


def scale_arrivals(workload: Workload, factor: float) -> Workload:
    """Return the workload with all times between submits multiplied by a factor; run times stay.

    Args:
        workload: Jobs.
        factor: Below 1 moves arrivals closer together (more load), above 1 spreads them.

    Raises:
        InvalidRequest: The factor is not a positive number.
    """
    if not 0 < factor < np.inf:
        raise InvalidRequest(f"a factor of {factor:g} for arrivals is not a positive number")
    if factor == 1:
        return workload
    how = f"{1 / factor:.4g} times closer together" if factor < 1 else f"{factor:.4g} times further apart"
    scaled = replace(workload, submit_s=workload.submit_s * factor)
    return scaled.with_notes(f"Arrivals are {how} than in the trace; run times are not changed by that.")


def cap_run_times(workload: Workload, cap_s: float) -> Workload:
    """Return the workload with longer runs ended at a time.

    Args:
        workload: Jobs.
        cap_s: Longest run time that is kept, trace seconds.

    Raises:
        InvalidRequest: The cap is negative or no number.
    """
    if not cap_s >= 0:
        raise InvalidRequest(f"{cap_s:g} s is no run time")
    capped = int((workload.run_s > cap_s).sum())
    if not capped:
        return workload
    shorter = replace(workload, run_s=np.minimum(workload.run_s, cap_s))
    left_out = 1 - shorter.run_s.sum() / workload.run_s.sum()
    return shorter.with_notes(
        f"{capped} of {len(workload)} jobs ran longer than {cap_s:.0f} s and are ended there as succeeded "
        f"({left_out:.0%} of all run time left out)."
    )


def plan_speed(workload: Workload, speed: float) -> ReplayPlan:
    """Return the plan to replay a workload as it is at a speed.

    Raises:
        InvalidRequest: The speed is not a positive number.
    """
    if not 0 < speed < np.inf:
        raise InvalidRequest(f"a speed of {speed:g} is not a positive number")
    end_s = float((workload.submit_s + workload.run_s).max())
    noted = workload.with_notes(f"Speed {speed:.4g}: one real second is {speed:.4g} s of the trace.")
    return ReplayPlan(workload=noted, speed=speed, expected_s=end_s / speed)


def plan_within(
    workload: Workload,
    *,
    within_s: float,
    nodes: NodeSet | None = None,
    arrival_ratio: float = ARRIVAL_RATIO,
    cap_level: float = RUN_CAP_LEVEL,
) -> ReplayPlan:
    """Return the plan by which every job that need not wait ends within a real time.

    The trace is left as it is where speed alone will do. Otherwise its longest runs are capped at a quantile
    of the run times, the speed is such that a job of that length takes the real time left after the arrivals, and the
    arrivals are scaled to fill their share of the real time. That is done only if it lowers the speed tenfold: a dense
    trace gains nothing by it.

    If nodes are given, the speed is such that also waiting for them ends in time (`speed_to_finish`). Where no speed
    does, because the mesh itself needs longer to start so many jobs one after the other, the plan takes as long as it
    must, and a note says so.

    Args:
        workload: Jobs.
        within_s: Real seconds from the first submit to the last end.
        nodes: Machines the jobs will run on.
        arrival_ratio: Share of that in which jobs arrive, between 0 and 1.
        cap_level: Level of the quantile at which runs are capped; 1 caps none.

    Raises:
        InvalidRequest: A number is out of range.
    """
    if not within_s > 0 or not 0 < arrival_ratio < 1 - _SLACK_RATIO or not 0 < cap_level <= 1:
        raise InvalidRequest(f"a plan needs a time above 0 s ({within_s:g}) and ratios between 0 and 1")
    usable_s = within_s * (1 - _SLACK_RATIO)
    cap_s = float(np.quantile(workload.run_s, cap_level))
    speed = cap_s / (usable_s - within_s * arrival_ratio)
    natural = plan_speed(workload, float((workload.submit_s + workload.run_s).max() / usable_s) or 1.0)
    if cap_s == 0:
        return natural
    planned = cap_run_times(workload, cap_s)
    if planned.span_s() > 0:
        planned = scale_arrivals(planned, within_s * arrival_ratio * speed / planned.span_s())
    changed = plan_speed(planned, speed)
    if nodes is not None:
        natural = _wait_for_nodes(natural, workload, nodes, usable_s)
        changed = _wait_for_nodes(changed, planned, nodes, usable_s)
    return changed if natural.speed > WORTH_CHANGING * changed.speed else natural


def _wait_for_nodes(plan: ReplayPlan, workload: Workload, nodes: NodeSet, within_s: float) -> ReplayPlan:
    """Return the plan, sped up to end in time also where jobs wait for machines."""
    speed, expected_s = speed_to_finish(workload, nodes, within_s=within_s)
    if expected_s > within_s:
        late = workload.with_notes(
            f"Not to be done within {within_s:.0f} s on these nodes, however fast: about {expected_s:.0f} s, half of "
            f"which is the mesh's own time to start one job after another."
        )
        return replace(plan_speed(late, speed), expected_s=expected_s)
    return plan if speed <= plan.speed else replace(plan_speed(workload, speed), expected_s=expected_s)


def speed_to_finish(workload: Workload, nodes: NodeSet, *, within_s: float) -> tuple[float, float]:
    """Return the speed at which a workload ends within a real time on its nodes, waiting included, and when it ends.

    Each job holds its place for `TURNAROUND_S` of real time beyond its run, so jobs that wait for each other do not end
    in no time at any speed. If no speed is high enough, the one is returned at which the mesh's own time is half of
    all.

    Args:
        workload: Jobs.
        nodes: Machines.
        within_s: Real seconds.

    Returns:
        (speed, expected real seconds from the first submit to the last end).

    Raises:
        InvalidRequest: The real time is not positive.

    Complexity: about ten first-come-first-served simulations.
    """
    if not within_s > 0:
        raise InvalidRequest(f"{within_s:g} s is no time to finish within")
    least = max(_makespan_s(workload, nodes, np.inf, turnaround_s=TURNAROUND_S), TURNAROUND_S)
    makespan_s = _makespan_s(workload, nodes, 1.0, turnaround_s=0.0)
    goal_s = within_s if least <= 0.9 * within_s else 2 * least
    # What the last job takes to be seen to have ended is not the speed's to make up for.
    slow, fast = makespan_s / goal_s, makespan_s / max(goal_s - least, goal_s * 0.01)
    if slow <= 0 or _makespan_s(workload, nodes, slow, turnaround_s=TURNAROUND_S) <= goal_s + 2 * TURNAROUND_S:
        return max(slow, 1e-9), goal_s
    while fast > _SPEED_PRECISION * slow:
        speed = (slow * fast) ** 0.5
        if _makespan_s(workload, nodes, speed, turnaround_s=TURNAROUND_S) > goal_s:
            slow = speed
        else:
            fast = speed
    return fast, goal_s


def _makespan_s(workload: Workload, nodes: NodeSet, speed: float, *, turnaround_s: float) -> float:
    """Return the real seconds that a workload takes at a speed, first come, first served."""
    real = replace(workload, submit_s=workload.submit_s / speed, run_s=workload.run_s / speed + turnaround_s)
    return float(np.nanmax(simulate_fcfs(real, nodes).finished_s, initial=0.0))


def plan_demo(*, seed: int = 0, within_s: float = DEMO_S, job_scale: float = 1.0) -> tuple[ReplayPlan, NodeSet]:
    """Return (plan, nodes) of the demo, whose last job can end within a real time.

    Args:
        seed: Draws the workload.
        within_s: Real seconds from the first submit to the last end.
        job_scale: Part of the jobs; all nodes are there.

    Raises:
        InvalidRequest: A number is out of range.
    """
    workload, nodes = contended(seed, within_s=within_s, job_scale=job_scale)
    return ReplayPlan(
        workload=workload, speed=1.0, expected_s=_makespan_s(workload, nodes, 1.0, turnaround_s=0.0)
    ), nodes


def plan_replay(
    workload: Workload, nodes: NodeSet, *, speed: float | None = None, within_s: float | None = None
) -> ReplayPlan:
    """Return how fast to replay: as asked, or at speed 1 if that ends soon, or else within `WITHIN_S`.

    Args:
        workload: Jobs.
        nodes: What they run on.
        speed: Trace seconds per real second, if asked for.
        within_s: Real seconds to end within, if asked for instead.

    Raises:
        InvalidRequest: The jobs cannot end within the time.
    """
    plan = plan_speed(workload, speed or 1.0)
    if within_s or (not speed and plan.expected_s > TIMEOUT_S):
        return plan_within(workload, within_s=within_s or WITHIN_S, nodes=nodes)
    return plan

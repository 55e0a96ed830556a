"""How a waiting job's queue stands beside the others, and when the job is expected to start.

Source: 003 "Fair share"; design section 9 (explanations).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Float64s, Int32s
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.placement import WaitReason
from argosy_core.queueing import MICRO, percent_text, time_to_level_s
from argosy_core.scheduler.memory.flows import counted_usage
from argosy_core.scheduler.memory.run_history import LIKE_PROMISES
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import expected_run_time_s
from argosy_core.scheduler.turns.shares import fair_shares, fair_weights, weightless_resources

__all__ = ["QueueBefore", "QueueStanding", "StartBand", "payback_texts", "queue_standing", "start_band", "turn_texts"]

_NAMED: Final = 3
_LEAST_PAYBACK_S: Final = 5.0
"""What passes sooner is not worth a word."""
_MOST_LOOKED_AT: Final = 4096
"""Jobs of which the area is taken, as a sample of those that wait or run."""
_SHORT: Final = 0.1
"""The share of runs that take no longer than the band's beginning counts on."""
_MEDIAN: Final = 0.5
_EXPECTED: Final = frozenset(
    {WaitReason.NONE, WaitReason.NO_ROOM, WaitReason.PROMISED, WaitReason.LIMIT, WaitReason.RATE}
)
"""Reasons that end by themselves as work ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBefore:
    """A queue whose turn comes before another's."""

    queue: str
    """Name."""
    flow_per_weight: float
    """Its flow by its weight, cores."""
    flow_ratio_per_weight: float
    """The same, of what the whole pool counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """What a queue holds of its share, and who comes before it."""

    queue: str
    """Name."""
    usage_cores: float
    """Weighted usage of its in-flight, leased and running jobs, cores."""
    share_cores: float
    """Its share of the pool by weight among all defined queues, cores."""
    usage_ratio: float
    """That usage, of what the whole pool counts."""
    share_ratio: float
    """That share, of what the whole pool counts."""
    dominant_resource: str
    """The resource of which these jobs hold the largest part; empty if they hold nothing."""
    dominant_ratio: float
    """That part, of what the pool has of it."""
    flow_per_weight: float
    """Its flow by its weight, cores."""
    flow_ratio_per_weight: float
    """The same, of what the whole pool counts."""
    before_count: int
    """Queues with waiting jobs that have a smaller flow per weight, and so come first."""
    first_before: tuple[QueueBefore, ...] = ()
    """The first three of these, smallest first."""
    held_ratio: float = 0.0
    """What its flow remembers it to hold, of the whole pool."""
    turn_in_s: float = 0.0
    """After how long its flow per weight is that of the first of these, if nothing changes, seconds."""
    weightless_resources: tuple[str, ...] = ()
    """What it holds that weighs nothing, so that these jobs do not count for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBand:
    """When a job is expected to start, as far as run times are known."""

    earliest_s: float
    """If the whole pool served its queue alone, seconds since the Unix epoch."""
    latest_s: float
    """If its queue got just its share; infinite for a queue without a share."""
    likely_s: float = math.inf
    """When it is most likely: by medians, and the share of its queue beside those that have work; between the two."""


def queue_standing(state: PoolState, queue: int) -> QueueStanding:
    """Return how a queue stands. Complexity: O(queues) in NumPy."""
    queues = state.queues
    usage, _, flow, ratio = fair_shares(state, counted_usage(state))
    per_weight = flow / np.where(queues.weight > 0, queues.weight, 1.0)
    waiting = (queues.queued_count > queues.on_hold_count) & ~queues.cordoned & (queues.queue_id > 0)
    before = np.flatnonzero(waiting & (per_weight < per_weight[queue]))
    first = before[np.argsort(per_weight[before], kind="stable")][:_NAMED].tolist()
    weight, capacity = max(float(queues.weight[queue]), 0.0), state.capacity_usage() / MICRO
    level = float(per_weight[first[0]]) * weight if first else math.inf
    dominant, dominant_ratio = _dominant(state, queue)
    held = queues.branches.sum_below(queues.held)[queue]

    def of_pool(cores: float) -> float:
        return cores / capacity if capacity else 0.0

    return QueueStanding(
        queue=queues.names[queue],
        usage_cores=float(usage[queue]) / MICRO,
        share_cores=float(ratio[queue]) * capacity,
        usage_ratio=of_pool(float(usage[queue]) / MICRO),
        share_ratio=float(ratio[queue]),
        dominant_resource=dominant,
        dominant_ratio=dominant_ratio,
        flow_per_weight=float(per_weight[queue]),
        flow_ratio_per_weight=of_pool(float(per_weight[queue])),
        before_count=before.size,
        first_before=tuple(
            QueueBefore(
                queue=queues.names[row],
                flow_per_weight=float(per_weight[row]),
                flow_ratio_per_weight=of_pool(float(per_weight[row])),
            )
            for row in first
        ),
        held_ratio=of_pool(float(flow[queue])),
        turn_in_s=time_to_level_s(
            float(flow[queue]), float(usage[queue]) / MICRO, level, half_time_s=state.settings.half_time_s
        ),
        weightless_resources=tuple(
            [name for name in weightless_resources(state) if held[state.classes.axis.index(name)] > 0]
        ),
    )


def _dominant(state: PoolState, queue: int) -> tuple[str, float]:
    """Return the resource that weighs anything of which a branch holds the largest part of the pool, and that part."""
    queues, names, weights = state.queues, state.classes.axis.names, state.weights.values
    held = np.where([weights.get(name, 0.0) > 0 for name in names], queues.branches.sum_below(queues.held)[queue], 0)
    total = state.clusters.total[state.clusters.usable()].sum(axis=0)
    parts = held / np.maximum(total, 1)
    if not parts.any():
        return "", 0.0
    return names[int(parts.argmax())], min(float(parts.max()), 1.0)


def _holds_text(standing: QueueStanding) -> str:
    """Return what a queue holds of the pool."""
    notes = [f"{percent_text(standing.dominant_ratio)} of its {standing.dominant_resource}"]
    notes = notes[: bool(standing.dominant_resource)]
    notes += [f"{name} weighs nothing" for name in standing.weightless_resources]
    return f"{percent_text(standing.usage_ratio)} of the pool" + (f" ({'; '.join(notes)})" if notes else "")


def turn_texts(standing: QueueStanding) -> list[str]:
    """Return why a job waits that nothing holds back but its turn."""
    holds = f"its queue holds {_holds_text(standing)}, and its share is {percent_text(standing.share_ratio)}"
    texts = [f"it waits its turn: {holds}"]
    if standing.before_count:
        named = ", ".join(f"{one.queue} ({percent_text(one.flow_ratio_per_weight)})" for one in standing.first_before)
        more = standing.before_count - len(standing.first_before)
        others = f" and {more:,} more" if more else ""
        texts.append(
            f"by flow per weight, here {percent_text(standing.flow_ratio_per_weight)} of the pool, these queues come"
            f" first: {named}{others}"
        )
    return texts


def payback_texts(standing: QueueStanding) -> list[str]:
    """Return how long a queue that holds less than its share waits for what it has used before; nothing if little."""
    is_below = standing.usage_cores < standing.share_cores
    if not is_below or not _LEAST_PAYBACK_S <= standing.turn_in_s < math.inf:
        return []
    held = f"its queue had {standing.held_ratio:.0%} of the pool before, which its flow remembers"
    return [f"{held}; its turn comes again in about {standing.turn_in_s:,.0f} s"]


def start_band(state: PoolState, slot: int, *, position: int, reason: WaitReason, now_s: float) -> StartBand | None:
    """Return when a waiting job is expected to start; None if that depends on more than on work that ends.

    What waits before it in its queue is an area: usage by expected run time. If nothing fits now, one run must end
    first, at best the next one, at worst the last one. The band begins by run times that one in ten stays below, ends
    by those that one in ten exceeds, and is most likely where medians say that enough has ended for its queue's part.

    Args:
        state: The pool.
        slot: The job.
        position: Jobs of its queue before it.
        reason: Why it waits.
        now_s: Now.

    Complexity: O(jobs) in NumPy.
    """
    promise = state.promises.given_to(int(state.live.handle[slot]))
    if promise is not None:
        latest_s = max(now_s, promise.moment_s)
        return StartBand(earliest_s=now_s, latest_s=latest_s, likely_s=latest_s)
    capacity = state.capacity_usage()
    if reason not in _EXPECTED or not capacity:
        return None
    live, queue = state.live, int(state.live.queue[slot])
    slots = live.live_slots()
    queued = state.stage_is_queued(slots)
    ahead = slots[queued & (live.queue[slots] == queue)][:_MOST_LOOKED_AT]
    usage = state.job_usage(ahead)

    def area(quantile: float) -> float:
        return float((usage * expected_run_time_s(state, ahead, quantile=quantile)).mean()) * position

    ratio = float(fair_shares(state, counted_usage(state))[3][queue])
    first_s, last_s = (0.0, 0.0) if reason == WaitReason.NONE else _ends_in_s(state, now_s)
    earliest_s = now_s + first_s + area(_SHORT) / capacity
    latest_s = now_s + last_s + area(LIKE_PROMISES) / (ratio * capacity) if ratio else math.inf
    wanted = int(state.job_usage(np.array([slot], dtype=np.int32))[0]) + float(usage.mean()) * position
    wanted -= state.free_usage() if reason == WaitReason.NONE else 0
    likely_s = now_s + _likely_in_s(state, queue, wanted=wanted, area=area(_MEDIAN), now_s=now_s)
    likely_s = min(max(likely_s, earliest_s), latest_s) if ratio else math.inf
    return StartBand(earliest_s=earliest_s, latest_s=latest_s, likely_s=likely_s)


def _likely_in_s(state: PoolState, queue: int, *, wanted: float, area: float, now_s: float) -> float:
    """Return after how long a queue has got so much of what runs and ends, seconds; infinite if it gets nothing.

    Args:
        state: The pool.
        queue: The queue, which gets its part by weight beside the queues that have work.
        wanted: How much it is, micro-cores.
        area: What stands before it if all that runs has ended and is not enough, micro-core-seconds.
        now_s: Now.
    """
    queues = state.queues
    has_work = queues.queued_count - queues.on_hold_count + queues.leased_count > 0
    weights = np.where(has_work, fair_weights(state, has_work), 0.0)
    part = float(weights[queue] / weights.sum()) if weights[queue] > 0 else 0.0
    if wanted <= 0:
        return 0.0
    if not part:
        return math.inf
    slots, left_s = _running(state, now_s, quantile=_MEDIAN)
    order = np.argsort(left_s, kind="stable")
    had = np.cumsum(state.job_usage(slots)[order]) * part
    at = int(np.searchsorted(had, wanted))
    if at < had.size:
        return float(left_s[order[at]])
    last_s = float(left_s.max(initial=0.0))
    got = float(had[-1]) if had.size else 0.0
    return last_s + area * (1.0 - got / wanted) / (part * state.capacity_usage())


def _running(state: PoolState, now_s: float, *, quantile: float) -> tuple[Int32s, Float64s]:
    """Return the jobs that run, of many a sample, and how much longer each is expected to, seconds."""
    live = state.live
    slots = live.live_slots()
    slots = slots[~state.stage_is_queued(slots) & ~IS_RUN_TERMINAL[live.run_state[slots]]][:_MOST_LOOKED_AT]
    begun_s = live.start_time_us[slots] / 1e6
    elapsed_s = np.where(begun_s > 0, np.maximum(now_s - begun_s, 0.0), 0.0)
    expected_s = expected_run_time_s(state, slots, elapsed_s, quantile=quantile)
    return slots, np.maximum(expected_s - elapsed_s, 0.0)


def _ends_in_s(state: PoolState, now_s: float) -> tuple[float, float]:
    """Return after how long the first of what runs may have ended and the last is expected to have, seconds."""
    (slots, soon_s), (_, late_s) = (_running(state, now_s, quantile=quantile) for quantile in (_SHORT, LIKE_PROMISES))
    return (float(soon_s.min()), float(late_s.max())) if slots.size else (0.0, 0.0)

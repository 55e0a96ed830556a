"""How many jobs of a queue begin in a second: a bucket each, kept as the time at which all that began is paid for.

A bucket holds ten seconds of the rate, and one job at least. A leader begins with empty buckets, so that no change of
leader lets more begin than the rate.

Source: 003 "Scheduling constraints"; lease rates of queues.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.queueing import RATE_BURST_S
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["empty_buckets", "lease_count_left", "next_lease_s", "next_leases_s", "take_leases"]

_SLACK: Final = 1e-6
"""Part of a job by which sums of times may be off."""


def lease_count_left(state: PoolState, row: int) -> int:
    """Return how many jobs of a queue with a lease rate may begin now."""
    rate = state.queues.limits[row].lease_rate_per_s
    owed_s = max(state.queues.lease_paid_s.get(row, 0.0) - state.flow_time_s, 0.0)
    return max(int((_burst_s(rate) - owed_s) * rate + _SLACK), 0)


def next_lease_s(state: PoolState, row: int) -> float:
    """Return when at least one job of a queue with a lease rate may begin, seconds since the Unix epoch."""
    rate = state.queues.limits[row].lease_rate_per_s
    return max(state.queues.lease_paid_s.get(row, 0.0) - _burst_s(rate) + 1.0 / rate, state.flow_time_s)


def next_leases_s(state: PoolState) -> float:
    """Return when a queue with waiting jobs may begin one that may not now; infinite if there is none."""
    queues = state.queues
    held_back = (
        next_lease_s(state, row)
        for row, limits in queues.limits.items()
        if limits.lease_rate_per_s
        and queues.queued_count[row] > queues.on_hold_count[row]
        and not lease_count_left(state, row)
    )
    return min(held_back, default=math.inf)


def take_leases(state: PoolState, slots: Int32s, now_s: float) -> None:
    """Take the jobs that a round begins out of the buckets of their queues."""
    rates = {row: one.lease_rate_per_s for row, one in state.queues.limits.items() if one.lease_rate_per_s}
    if not rates or not slots.size:
        return
    rows, counts = np.unique(state.live.queue[slots], return_counts=True)
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        if row in rates:
            paid_s = max(state.queues.lease_paid_s.get(row, 0.0), now_s)
            state.queues.lease_paid_s[row] = paid_s + count / rates[row]


def empty_buckets(state: PoolState, now_s: float) -> None:
    """Have all queues wait as if they had just begun all that they may."""
    for row, limits in state.queues.limits.items():
        if limits.lease_rate_per_s:
            state.queues.lease_paid_s[row] = now_s + _burst_s(limits.lease_rate_per_s)


def _burst_s(rate_per_s: float) -> float:
    return max(RATE_BURST_S, 1.0 / rate_per_s)

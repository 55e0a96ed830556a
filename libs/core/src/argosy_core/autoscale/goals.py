"""What pods should have, from what they use: memory counts at once, processors through a memory of what they needed.

A pod that lacks processors is slow, one that lacks memory is killed. So the history decides, and memory in use, with
the part that should stay free, is the least that it may decide on. What is not a number, and what falls or rises as
nothing does, may let a pod grow but not shrink.

Source: design section 5, "Resize"; docs/autoscale.md "The goal".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy_core.autoscale.amounts import Amounts
from argosy_core.autoscale.events import MetricsSeen, ScalingPolicy
from argosy_core.autoscale.predictor import DemandHistory, PredictorSettings, demand_units

__all__ = ["GoalKeeper"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_FULL_RATIO = 0.02
"""How near to what it has a pod's use of processors is for what it would use to be hidden."""
_JUMP_RATIO = 4.0
"""A demand so many times the one before, or so small a part of it, each with a unit added, must come twice to shrink a
pod."""


class GoalKeeper:
    """Histories and goals of many pods.

    Args:
        max_units: Largest size of any pod, compute units.
        elapsed_most_s: Longest time that one sample speaks for, seconds: a clock that jumps makes no history.
        settings: What a unit is worth.
    """

    def __init__(self, max_units: int, elapsed_most_s: float, settings: PredictorSettings | None = None) -> None:
        """Start without pods."""
        self.max_units = max_units
        self._elapsed_most_s = elapsed_most_s
        self._history = DemandHistory(max_units, settings)
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._seen_s = np.zeros(0)
        self._last = np.zeros(0)
        self._was_full = np.zeros(0, np.bool_)

    def add(self, uid: str, now_s: float) -> None:
        """Begin to remember a pod."""
        if not self._free:
            count = max(16, len(self._history))
            self._free = self._history.add(count).tolist()[::-1]
            self._seen_s = np.concatenate([self._seen_s, np.zeros(count)])
            self._last = np.concatenate([self._last, np.full(count, np.nan)])
            self._was_full = np.concatenate([self._was_full, np.zeros(count, np.bool_)])
        slot = self._slots[uid] = self._free.pop()
        self._seen_s[slot], self._last[slot], self._was_full[slot] = now_s, np.nan, False

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        slot = self._slots.pop(uid)
        self._history.clear(np.array([slot]))
        self._free.append(slot)

    def raise_floor(self, uid: str, units: int) -> None:
        """Hold a pod at no less than a size until `drop_floor`: it ran out of memory."""
        self._history.raise_floor(np.array([self._slots[uid]]), np.array([float(units)]))

    def drop_floor(self, uid: str) -> None:
        """Let a pod shrink again below what `raise_floor` held it at."""
        self._history.drop_floor(np.array([self._slots[uid]]))

    def take(
        self, metrics: MetricsSeen, pods: Sequence[tuple[ScalingPolicy, Amounts, int]], current: Ints, now_s: float
    ) -> list[int]:
        """Note what pods used, and return what they should have.

        Args:
            metrics: What they used; pods that were added, each once.
            pods: Their policies, compute units and the millicores that they run with, in the same order.
            current: int64[n], sizes that they have, compute units.
            now_s: The present, seconds.

        Returns:
            Their goals in compute units, within their bounds. O(pods * max_units), without a loop over sizes.
        """
        slots = np.array([self._slots[uid] for uid in metrics.uids], dtype=np.int64)
        policies, units = [policy for policy, _, _ in pods], [unit for _, unit, _ in pods]
        load, memory = _demands(metrics, policies, units)
        ranges = [policy.bounds_units(unit) for policy, unit in zip(policies, units, strict=True)]
        least, most = np.minimum(np.array(ranges, dtype=np.int64).T, self.max_units)
        demand = demand_units(((load, 1.0, 1.0), (memory, 1.0, 1.0)))
        has = np.array([millicores / unit.cpu_millicores for _, unit, millicores in pods])
        demand = np.where(self._are_full(slots, metrics.load_cores, pods), np.fmax(demand, 2.0 * has), demand)
        whole = np.isfinite(load) & np.isfinite(memory)
        last = self._last[slots]
        with np.errstate(invalid="ignore"):
            jumped = np.abs(np.log((demand + 1.0) / (last + 1.0))) > math.log(_JUMP_RATIO)
            noted = np.where(whole | (demand > current), demand, np.nan)
        # Above the largest size every size is as much too small as any other, and none would be worth a change.
        noted = np.minimum(noted, most)
        elapsed = np.clip(now_s - self._seen_s[slots], 0.0, self._elapsed_most_s)
        self._history.observe(slots, noted, elapsed)
        self._seen_s[slots] = now_s
        self._last[slots] = np.where(np.isfinite(demand), demand, last)
        needed = np.ceil(np.minimum(np.nan_to_num(memory), 2.0**31)).astype(np.int64)
        bounds = np.minimum(np.maximum(least, needed), most), most
        goals: list[int] = self._history.goals(slots, current, bounds, whole & ~jumped).tolist()
        return goals

    def _are_full(
        self, slots: Ints, load_cores: Floats, pods: Sequence[tuple[ScalingPolicy, Amounts, int]]
    ) -> npt.NDArray[np.bool_]:
        """Return which pods used just the processors that they have, twice: what they would use cannot be seen."""
        has_cores = np.array([millicores for _, _, millicores in pods]) / 1000.0
        with np.errstate(invalid="ignore"):
            is_full = np.abs(load_cores - has_cores) <= _FULL_RATIO * has_cores
        were, self._was_full[slots] = self._was_full[slots], is_full
        return were & is_full


def _demands(
    metrics: MetricsSeen, policies: Sequence[ScalingPolicy], units: Sequence[Amounts]
) -> tuple[Floats, Floats]:
    """Return how many compute units load and memory ask for; not a number where that is not known."""
    load = _known(metrics.load_cores, least=0.0) * 1000.0
    load = load / np.array(
        [unit.cpu_millicores * policy.load_ratio for policy, unit in zip(policies, units, strict=True)]
    )
    unit_bytes = np.array([float(unit.memory_bytes) for unit in units])
    # A container that runs uses some memory: none at all is a metric that is not there.
    used = _known(metrics.memory_bytes, least=1.0)
    memory = used / (unit_bytes * np.array([policy.memory_ratio for policy in policies]))
    if metrics.cached_bytes is not None and metrics.working_set_bytes is not None:
        kept = np.fmin(_known(metrics.cached_bytes, least=0.0), _known(metrics.working_set_bytes, least=0.0))
        ratios = np.array([policy.working_set_ratio for policy in policies])
        memory = np.maximum(memory, (used + np.nan_to_num(kept)) / (unit_bytes * ratios))
    return load, memory


def _known(values: Floats, *, least: float) -> Floats:
    """Return values, those that cannot be as not a number."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values) & (values >= least), values, np.nan)

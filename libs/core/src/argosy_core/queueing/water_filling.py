"""Exact weighted max-min fairness over divisible demands: the yardstick for shares and reports.

Source: 003 "Global prioritisation" (max-min fairness, progressive filling).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places

__all__ = ["fill_water", "fill_water_of"]

_ROUNDING: Final = 1e-12
"""Sums of many floats are right to so much of them."""


def fill_water(
    demands: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], capacity: float
) -> npt.NDArray[np.float64]:
    """Return the weighted max-min fair allocation.

    Every queue gets `min(demand, level * weight)` with the one level that uses up the capacity; a queue of weight 0
    gets only what all others leave, and such queues share that equally.

    Args:
        demands: float64[q], 0 or more.
        weights: float64[q], 0 or more.
        capacity: What there is to give, in the unit of the demands.

    Complexity: O(q log q).
    """
    allocation = np.zeros(demands.size, dtype=np.float64)
    left = max(capacity, 0.0)
    for chosen, shares in ((weights > 0, weights), (weights <= 0, np.ones_like(weights))):
        rows = true_places(chosen & (demands > 0))
        if rows.size == 0 or left <= 0:
            continue
        # Levels at which demands are met, ascending: below its own level a queue takes its weight's part.
        levels = demands[rows] / shares[rows]
        order = np.argsort(levels, kind="stable")
        rows, levels = rows[order], levels[order]
        met_before = np.concatenate([[0.0], np.cumsum(demands[rows])[:-1]])
        weight_left = np.cumsum(shares[rows][::-1])[::-1]
        needed = met_before + levels * weight_left
        first_short = int(np.searchsorted(needed, left, side="right"))
        allocation[rows[:first_short]] = demands[rows[:first_short]]
        if first_short < rows.size:
            level = (left - met_before[first_short]) / weight_left[first_short]
            allocation[rows[first_short:]] = level * shares[rows[first_short:]]
            left = 0.0
        else:
            left -= float(demands[rows].sum())
    return allocation


def fill_water_of(
    demands: npt.NDArray[np.float64],
    owner: npt.NDArray[np.integer],
    sizes: npt.NDArray[np.float64],
    *,
    weights: npt.NDArray[np.float64],
    capacity: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return how much of each demand for several resources weighted max-min fairness over what they count gives.

    All queues rise together, each by its weight, and each queue's parts by their sizes. A part stops where it is met or
    a resource that it asks for is used up; the queue's other parts then rise the faster. Queues of weight 0 get what
    all others leave.

    Args:
        demands: (part, resource) amounts; a part is what one queue asks for of one set of resources.
        owner: (part,) queue of each.
        sizes: (part,) what each counts, above 0.
        weights: (queue,) 0 or more.
        capacity: (resource,) what there is.

    Returns:
        (part,) between 0 and 1.

    Complexity: O(parts x resources) in NumPy for each resource that is used up.
    """
    given = np.zeros(owner.size, dtype=np.float64)
    share = np.where(weights > 0, weights, 1.0)
    for is_first in (True, False):
        rising = (weights[owner] > 0) == is_first
        while has_true(rising):
            rows = true_places(rising)
            stopped = np.bincount(owner, np.where(rising, 0.0, given * sizes), weights.size)[owner[rows]]
            full = np.bincount(owner[rows], sizes[rows], weights.size)[owner[rows]]
            met = (stopped + full) / share[owner[rows]]
            used = np.where(rising, 0.0, given) @ demands
            level, scarce = _first_used_up(demands[rows], stopped / share[owner[rows]], met, capacity - used)
            part = (level * share[owner[rows]] - stopped) / full if has_true(scarce) else np.ones(rows.size)
            given[rows] = np.maximum(given[rows], np.clip(part, 0.0, 1.0))
            rising[rows[(demands[rows][:, scarce] > 0).any(axis=1) | (given[rows] >= 1.0)]] = False
    return given


def _first_used_up(
    demands: npt.NDArray[np.float64],
    begin: npt.NDArray[np.float64],
    met: npt.NDArray[np.float64],
    left: npt.NDArray[np.float64],
) -> tuple[float, npt.NDArray[np.bool_]]:
    """Return the lowest level at which a resource is used up, and which; none is if all demands can be met.

    Args:
        demands: (part, resource) amounts.
        begin: (part,) level at which each has nothing.
        met: (part,) level at which each is met; above `begin`.
        left: (resource,) what there is for them.
    """
    order = np.argsort(met, kind="stable")
    slope = demands / (met - begin)[:, None]
    levels = met[order]
    # At the level where part k is met: the parts up to it are met, the others have risen from where they began.
    risen = np.cumsum(demands[order], axis=0)
    later = slope[order][::-1].cumsum(axis=0)[::-1] - slope[order]
    began = (slope * begin[:, None])[order]
    began = began[::-1].cumsum(axis=0)[::-1] - began
    needed = risen + later * levels[:, None] - began
    over = needed > np.maximum(left, 0.0) * (1 + _ROUNDING) + _ROUNDING
    if not has_true(over):
        return float(levels[-1]), np.zeros(left.size, dtype=np.bool_)
    found = np.full(left.size, np.inf)
    for resource in np.flatnonzero(over.any(axis=0)).tolist():
        at = int(np.argmax(over[:, resource]))
        before = risen[at - 1, resource] if at else 0.0
        rate = later[at, resource] + slope[order[at], resource]
        offset = began[at, resource] + slope[order[at], resource] * begin[order[at]]
        found[resource] = (max(float(left[resource]), 0.0) - before + offset) / rate if rate > 0 else levels[at]
    level = float(found.min())
    return level, found <= level * (1 + _ROUNDING)

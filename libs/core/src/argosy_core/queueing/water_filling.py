"""Exact weighted max-min fairness over divisible demands: the yardstick for shares and reports.

Source: 003 "Global prioritisation" (max-min fairness, progressive filling).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["fill_water"]


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
        rows = np.flatnonzero(chosen & (demands > 0))
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

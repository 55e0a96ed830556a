"""Fairness of a run, against weighted water-filling.

At every moment each queue has a *demand* (what its open jobs ask for) and *holds* something (what its placed jobs
have). The ideal divides exactly what all queues hold together among the demands by weighted max-min, so a machine left
idle is a matter of utilisation, not of fairness. A queue's amount is the mean over resources of its share of the pool.

The measure is written apart from the scheduler's own filling, so that the one can judge the other.

Source: 003 "Global prioritisation"; Jain, Chiu and Hawe 1984 (docs/design/sources.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["WAITING_RATIO", "Fairness", "fill_weighted", "integrate_steps", "jain_index", "measure_fairness"]

FloatArray = npt.NDArray[np.float64]

WAITING_RATIO: Final = 0.01
"""Work counts as waiting once it asks for more than this ratio of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How near the queues' shares came to weighted max-min."""

    jain_index: float
    """Over the queues, held / ideal of the whole run: 1 is even, 1 / queues is all for one."""
    jain_index_mean: float
    """Mean over time of the same at each moment, by what was held; jobs that run long make this smaller."""
    largest_deviation_ratio: float
    """Largest |held - ideal| of a queue over the whole run, as a ratio of what was held by all."""
    largest_moment_ratio: float
    """Largest |held - ideal| of a queue in any interval, as a ratio of the pool."""
    contended_ratio: float
    """Share of the time in which a queue waited for more than 1 % of the pool."""
    held_ratio: tuple[float, ...]
    """Per queue: share of the whole that it held."""
    ideal_ratio: tuple[float, ...]
    """Per queue: share of the whole that weighted water-filling gives it."""


def fill_weighted(demands: FloatArray, weights: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return the weighted max-min division of a capacity, for many moments at once.

    Each queue gets min(demand, weight x level), with the level such that all is given away or all demands are met.

    Args:
        demands: (moments, queues), >= 0.
        weights: (queues,), > 0.
        capacity: (moments,), >= 0.

    Returns:
        (moments, queues) amounts.

    Complexity: O(moments x queues log queues).
    """
    levels = demands / weights
    order = np.argsort(levels, axis=1)
    sorted_demands = np.take_along_axis(demands, order, axis=1)
    sorted_weights = weights[order]
    # Before queue k (by level) is met, those before it have their demand and the others share by weight.
    met = np.cumsum(sorted_demands, axis=1) - sorted_demands
    weight_left = np.cumsum(sorted_weights[:, ::-1], axis=1)[:, ::-1]
    level = np.maximum((capacity[:, None] - met) / weight_left, 0.0)
    reached = level < np.take_along_axis(levels, order, axis=1)
    first = np.argmax(reached, axis=1)
    final = np.where(reached.any(axis=1), level[np.arange(len(level)), first], np.inf)
    return np.minimum(demands, weights * np.maximum(final, 0.0)[:, None])


def jain_index(values: FloatArray) -> float:
    """Return (sum x)^2 / (n sum x^2) of non-negative numbers: 1 if all are equal; 1 for none or only zeros."""
    square = float(len(values) * (values**2).sum())
    return float(values.sum()) ** 2 / square if square > 0 else 1.0


def integrate_steps(starts_s: FloatArray, ends_s: FloatArray, amounts: FloatArray, edges_s: FloatArray) -> FloatArray:
    """Return the mean over each interval of a sum of steps: exact, no sampling.

    Args:
        starts_s: (n,) when each amount begins; NaN for never.
        ends_s: (n,) when it ends; NaN for not within the edges.
        amounts: (n,) what is added meanwhile.
        edges_s: (k + 1,) ascending ends of the intervals.

    Returns:
        (k,) means.

    Complexity: O((n + k) log n).
    """
    begun = ~np.isnan(starts_s)
    starts_s, ends_s, amounts = starts_s[begun], ends_s[begun], amounts[begun]
    ended = ~np.isnan(ends_s)
    area = _area_after(starts_s, amounts, edges_s) - _area_after(ends_s[ended], amounts[ended], edges_s)
    return np.diff(area) / np.maximum(np.diff(edges_s), 1e-12)


def _area_after(times_s: FloatArray, amounts: FloatArray, at_s: FloatArray) -> FloatArray:
    """Return sum of amount x max(at - time, 0) for each moment."""
    order = np.argsort(times_s, kind="stable")
    times_s, amounts = times_s[order], amounts[order]
    sums = np.concatenate([[0.0], np.cumsum(amounts)])
    moments = np.concatenate([[0.0], np.cumsum(amounts * times_s)])
    row = np.searchsorted(times_s, at_s, side="right")
    area: FloatArray = at_s * sums[row] - moments[row]
    return area


def measure_fairness(demands: FloatArray, held: FloatArray, weights: FloatArray, lengths_s: FloatArray) -> Fairness:
    """Return the fairness of a run.

    Args:
        demands: (intervals, queues) mean demand as a ratio of the pool.
        held: (intervals, queues) mean of what was held, likewise.
        weights: (queues,) weights > 0.
        lengths_s: (intervals,) lengths.

    Complexity: O(intervals x queues log queues).
    """
    demands = np.maximum(demands, held)
    ideal = fill_weighted(demands, weights, held.sum(axis=1))
    held_whole, ideal_whole = (held * lengths_s[:, None]).sum(axis=0), (ideal * lengths_s[:, None]).sum(axis=0)
    total = float(held_whole.sum())
    wanted = ideal_whole > 0
    each = np.array([_jain_of(row_held, row_ideal) for row_held, row_ideal in zip(held, ideal, strict=True)])
    mass = held.sum(axis=1) * lengths_s
    waiting = (demands - held).sum(axis=1) > WAITING_RATIO
    scale = total or 1.0
    return Fairness(
        jain_index=jain_index(held_whole[wanted] / ideal_whole[wanted]),
        jain_index_mean=float((each * mass).sum() / mass.sum()) if mass.sum() > 0 else 1.0,
        largest_deviation_ratio=float(np.abs(held_whole - ideal_whole).max(initial=0.0)) / scale,
        largest_moment_ratio=float(np.abs(held - ideal).max(initial=0.0)),
        contended_ratio=float((waiting * lengths_s).sum() / max(lengths_s.sum(), 1e-12)),
        held_ratio=tuple((held_whole / scale).tolist()),
        ideal_ratio=tuple((ideal_whole / scale).tolist()),
    )


def _jain_of(held: FloatArray, ideal: FloatArray) -> float:
    """Return the Jain index of held / ideal over the queues that should hold something."""
    wanted = ideal > 1e-9
    return jain_index(held[wanted] / ideal[wanted])

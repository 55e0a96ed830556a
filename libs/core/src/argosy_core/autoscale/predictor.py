"""A predictor with memory: the size that costs least, units held against the time in which they would not be enough.

For each pod and each size it keeps the share of time in which the demand was above that size, over several horizons
that forget by halves: the last peaks, the last hour, the day. Their weighted mean is the chance that the size is too
small next. The goal is the size where units held plus `price_units` times that chance is least, so a rare and tall
peak is not bought and a frequent small one is. The size changes only for a gain: growing needs less of it than
shrinking.

A demand near a size counts towards it in part, since the next one will be a little other. What is stored depends on
time alone: an observation that lasts 10 s is the same as two equal ones of 5 s.

Source: 001 "Deep dive into resource management";
docs/autoscale.md "The predictor", with the figures that chose the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["DemandHistory", "Horizon", "PredictorSettings", "demand_units"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_EQUAL = 1e-9
"""Units by which a demand must be above a size to be more than rounding."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far one memory reaches back, and how much it counts."""

    half_life_s: float
    """Time in which what was seen loses half of its weight, seconds; above 0."""
    weight: float
    """Part of the mean; those of all horizons add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSettings:
    """What a unit is worth, and how short pods may be. The defaults hold for observations some minutes apart."""

    horizons: tuple[Horizon, ...] = (Horizon(480.0, 0.05), Horizon(2_400.0, 0.55), Horizon(48_000.0, 0.4))
    """Memories; the one that reaches furthest is also what tempers a pod of which little was seen."""
    price_units: float = 16.2
    """Units that may be held idle all the time to be spared of being too small all the time; at the start."""
    short_ratio: float = 0.0258
    """Part of their time for which pods may be short, all together: 2.6 %, less what a day needs to get there."""
    price_pod_s: float = 2e6
    """What the price needs to move, seconds of pods: over so long it rises to 2.7 times what it was if they were short
    twice as long as they may be. So few pods move it little."""
    price_step_ratio: float = 0.15
    """Most part of that way that it goes at once, however many pods were looked at."""
    price_span: float = 2.5
    """How many times its start the price may be, or a part of it; 1 keeps it as it is."""
    grow_gain_units: float = 0.01
    """Least gain for which a pod grows."""
    shrink_gain_units: float = 0.35
    """Least gain for which a pod shrinks."""
    width_units: float = 1.0
    """Span of sizes that one demand speaks for, at a demand of nothing."""
    width_ratio: float = 0.3
    """By how much of the demand that span is wider."""
    equal_ratio: float = 0.3
    """How far a demand of just a size counts as above it."""
    prior_ratio: float = 0.02
    """Chance of too small a size for a pod of which nothing was seen."""
    prior_s: float = 300.0
    """For how long that counts, seconds."""

    def __post_init__(self) -> None:
        """Refuse values with which no goal would follow.

        Raises:
            ValueError: Weights do not add up to 1, or a value is out of its range.
        """
        if not self.horizons or abs(sum(one.weight for one in self.horizons) - 1.0) > 1e-9:
            raise ValueError("the weights of the horizons must add up to 1")
        if any(not one.half_life_s > 0 or one.weight < 0 for one in self.horizons):
            raise ValueError("a horizon needs a half life above 0 and a weight of at least 0")
        ratios = (self.width_ratio, self.equal_ratio, self.prior_ratio)
        if not all(0 <= ratio <= 1 for ratio in ratios) or not self.width_units > 0 or not self.price_units > 0:
            raise ValueError("ratios must be between 0 and 1, width and price above 0")
        if not 0 < self.short_ratio < 1 or not self.price_pod_s > 0 or self.price_step_ratio < 0 or self.price_span < 1:
            raise ValueError(
                "pods must be short for a part of their time, and the price must have a span of at least 1"
            )
        if self.grow_gain_units < 0 or self.shrink_gain_units < 0 or self.prior_s < 0:
            raise ValueError("gains and the time of the prior must not be negative")


class DemandHistory:
    """What was seen of the demands of many pods, one slot each; `24 * (max_units - 1)` bytes and some a pod.

    All calls are for many pods at once: O(pods * max_units * horizons), no loop over pods.
    """

    def __init__(self, max_units: int, settings: PredictorSettings | None = None) -> None:
        """Start without pods.

        Args:
            max_units: Largest size of any pod, compute units; at least 1.
            settings: What a unit is worth.

        Raises:
            ValueError: `max_units` is below 1.
        """
        if max_units < 1:
            raise ValueError("a pod has at least one unit")
        self._settings = settings or PredictorSettings()
        self._sizes = np.arange(1, max_units + 1, dtype=np.float64)
        self._half_lives_s = np.array([one.half_life_s for one in self._settings.horizons])
        self._weights = np.array([one.weight for one in self._settings.horizons])
        self._above = np.zeros((0, len(self._half_lives_s), max_units - 1))
        self._seen = np.zeros((0, len(self._half_lives_s)))
        self._floor = np.zeros(0)
        self._goal = np.zeros(0)
        """Size that each was given last; 0 for none yet."""
        self._price_log = 0.0
        """Logarithm of how many times its start the price is."""

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self._seen)

    @property
    def price_units(self) -> float:
        """Units that are worth to be held idle all the time now, to be spared of being too small all the time."""
        return self._settings.price_units * math.exp(self._price_log)

    def add(self, count: int) -> Ints:
        """Return the slots of so many new pods, of which nothing was seen."""
        first = len(self)
        self._above = np.concatenate([self._above, np.zeros((count, *self._above.shape[1:]))])
        self._seen = np.concatenate([self._seen, np.zeros((count, self._seen.shape[1]))])
        self._floor = np.concatenate([self._floor, np.zeros(count)])
        self._goal = np.concatenate([self._goal, np.zeros(count)])
        return np.arange(first, first + count)

    def clear(self, slots: Ints) -> None:
        """Forget pods, so that their slots can be used for others."""
        self._above[slots] = 0.0
        self._seen[slots] = 0.0
        self._floor[slots] = 0.0
        self._goal[slots] = 0.0

    def observe(self, slots: Ints, demand_units: Floats, elapsed_s: Floats | float) -> Bools:
        """Note what pods asked for since they were last looked at.

        Args:
            slots: int64[n], pods, each once.
            demand_units: float64[n], what each needed, compute units; may be above any size. What is negative or not
                a number is not noted: metrics that stop or lie change no goal.
            elapsed_s: float64[n] or one number, for how long, seconds; what is not above 0 is not noted.

        Returns:
            bool[n]: Which were noted.
        """
        elapsed = np.broadcast_to(np.asarray(elapsed_s, dtype=np.float64), slots.shape)
        noted: Bools = np.isfinite(demand_units) & (demand_units >= 0) & np.isfinite(elapsed) & (elapsed > 0)
        slots, demand, elapsed = slots[noted], demand_units[noted], elapsed[noted]
        settings = self._settings
        width = settings.width_units + settings.width_ratio * demand
        above = np.clip((demand[:, None] - self._sizes[:-1]) / width[:, None] + settings.equal_ratio, 0.0, 1.0)
        kept = 0.5 ** (elapsed[:, None] / self._half_lives_s)
        self._above[slots] = self._above[slots] * kept[:, :, None] + above[:, None, :] * (1.0 - kept)[:, :, None]
        self._seen[slots] = self._seen[slots] * kept + (1.0 - kept)
        self._follow(self._goal[slots], demand, elapsed)
        return noted

    def _follow(self, goal: Floats, demand: Floats, elapsed_s: Floats) -> None:
        """Let the price follow how short pods were of their goals.

        Not of what they have: a node without room is no reason to ask for more.
        """
        settings, was_given = self._settings, goal > 0
        pod_s = float(elapsed_s[was_given].sum())
        if pod_s > 0:
            short_s = float(elapsed_s[was_given & (demand > goal + _EQUAL)].sum())
            step_ratio = min(settings.price_step_ratio, pod_s / settings.price_pod_s)
            moved = self._price_log + step_ratio * (short_s / pod_s / settings.short_ratio - 1.0)
            span = math.log(settings.price_span)
            self._price_log = min(max(moved, -span), span)

    def raise_floor(self, slots: Ints, units: Floats) -> None:
        """Hold pods at no less than a size until `drop_floor`: they ran out of what cannot be throttled, memory.

        Args:
            slots: int64[n], pods, each once.
            units: float64[n], compute units; a lower floor than the present one changes nothing.
        """
        self._floor[slots] = np.fmax(self._floor[slots], units)

    def drop_floor(self, slots: Ints) -> None:
        """Let pods shrink again below what `raise_floor` held them at."""
        self._floor[slots] = 0.0

    def too_small(self, slots: Ints) -> Floats:
        """Return the chance that each size is too small next.

        Args:
            slots: int64[n], pods.

        Returns:
            float64[n, max_units]: By size, from one unit on; 0 for the largest size, above which nothing can be bought.
        """
        settings = self._settings
        prior = np.zeros(len(self._half_lives_s))
        furthest = int(np.argmax(self._half_lives_s))
        prior[furthest] = 1.0 - 0.5 ** (settings.prior_s / self._half_lives_s[furthest])
        seen = self._seen[slots] + prior
        above = self._above[slots] + (settings.prior_ratio * prior)[:, None]
        share = np.divide(above, seen[:, :, None], out=np.zeros_like(above), where=seen[:, :, None] > 0)
        chance = np.einsum("nhs,h->ns", share, self._weights)
        return np.concatenate([chance, np.zeros((len(slots), 1))], axis=1)

    def goals(self, slots: Ints, current: Ints, bounds: tuple[Ints, Ints], may_shrink: Bools) -> Ints:
        """Return the sizes that pods should have.

        Args:
            slots: int64[n], pods.
            current: int64[n], sizes that they have, compute units.
            bounds: Least and largest sizes of each, int64[n] both, from 1 to `max_units`; the least counts if they
                contradict each other.
            may_shrink: bool[n], false where metrics are missing: such a pod may grow, or go back into its bounds.

        Returns:
            int64[n]: Compute units, within the bounds; the present size where no other is worth the change.
        """
        settings = self._settings
        cost = self._sizes + self.price_units * self.too_small(slots)
        least = np.maximum(bounds[0], np.ceil(self._floor[slots]).astype(np.int64))
        least = np.clip(np.minimum(least, np.maximum(bounds[1], bounds[0])), 1, len(self._sizes))
        largest = np.clip(np.maximum(bounds[1], least), 1, len(self._sizes))
        allowed = (self._sizes >= least[:, None]) & (self._sizes <= largest[:, None])
        best: Ints = np.where(allowed, cost, np.inf).argmin(axis=1) + 1
        held = np.clip(current, least, largest)
        rows = np.arange(len(slots))
        gain = cost[rows, held - 1] - cost[rows, best - 1]
        needed = np.where(best > held, settings.grow_gain_units, settings.shrink_gain_units)
        moved = (gain > needed) & (may_shrink | (best > held))
        goals: Ints = np.where(moved, best, held)
        self._goal[slots] = goals
        return goals


def demand_units(parts: Sequence[tuple[Floats, float, float]]) -> Floats:
    """Return how many compute units pods ask for: as many as their dearest resource needs.

    Args:
        parts: By resource: use float64[n], what one unit has of it, and the part of it that may be used (0.9 for the
            load of processors, 0.75 for memory), above 0. What is not a number counts as nothing.

    Returns:
        float64[n]: Compute units, not rounded; not a number where no resource is known.
    """
    wanted = np.stack([use / (unit * ratio) for use, unit, ratio in parts])
    known = np.isfinite(wanted).any(axis=0)
    return np.where(known, np.where(np.isfinite(wanted), wanted, 0.0).max(axis=0), np.nan)

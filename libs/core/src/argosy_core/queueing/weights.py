"""Resource weights: what a unit of each resource counts, in cores.

Weights that are configured hold as they are, and what they do not name weighs nothing. Without any, they are found:
each resource weighs what makes the pool's whole of it as dear as its cores, so that whoever holds all accelerators is
seen as using as much as whoever holds all cores. `pods` weighs nothing then: nobody asks for it.

Found weights follow the capacity: the distance to the new weight halves in a half time, so that a cluster that comes or
goes for a moment moves nobody's share by a jump. They move in steps, since each has every job weighed anew. A resource
that had no weight, and everything while no job runs, gets its weight at once.

Source: 003 "Resource usage" (w_GPU, w_RAM: the cost relative to one core).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from argosy_core.resources.axis import CPU, PODS

__all__ = ["ResourceWeights", "StoredWeight"]

_CORES_PER_MILLICORE: Final = 0.001
_STEPS_PER_HALF_TIME: Final = 32
"""A step moves a weight by 2 % of its distance: less than anybody sees, and rare enough to weigh a million jobs."""
_MOST_RESOURCES: Final = 512
"""Weights kept; beyond that, resources that the pool no longer counts are forgotten."""
_NEAR_RATIO: Final = 1e-3
"""A weight that is so near to where it goes has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeight:
    """A found weight, for the next leader to continue with."""

    resource: str
    """Name."""
    cores: float
    """Weight in effect, cores per base unit."""
    target_cores: float
    """Where it moves."""


class ResourceWeights:
    """The weights of one pool."""

    def __init__(self, configured: Mapping[str, float], half_time_s: float) -> None:
        """Start with what is configured; with the cores alone if nothing is.

        Args:
            configured: Cores per base unit by resource; empty means that they are found.
            half_time_s: Time in which the distance to a new weight halves, seconds.
        """
        self.is_found = not configured
        self.values: dict[str, float] = dict(configured) or {CPU: _CORES_PER_MILLICORE}
        """Weights in effect, cores per base unit; resources that are not named weigh nothing."""
        self.time_s = 0.0
        """When they last moved, seconds since the Unix epoch."""
        self._half_time_s = half_time_s
        self._targets: dict[str, float] = dict(self.values)
        self._totals: Mapping[str, int] = {}

    def configure(self, configured: Mapping[str, float], half_time_s: float) -> bool:
        """Go by another configuration from now on; return whether weights changed at once.

        Weights that are found from now on start where they stand, and move as if the capacity had changed.
        """
        was_found, self._half_time_s = self.is_found, half_time_s
        self.is_found = not configured
        if configured:
            before, self.values = self.values, dict(configured)
            return before != self.values
        if not was_found:
            self.values = {CPU: _CORES_PER_MILLICORE, **{k: v for k, v in self.values.items() if v > 0 and k != CPU}}
            self._targets, self._totals = dict(self.values), {}
        return not was_found

    def advance(self, totals: Mapping[str, int], now_s: float, *, is_idle: bool) -> bool:
        """Move the weights for the time since they moved last; return whether any changed.

        Args:
            totals: What the pool has, base units by resource. While it has no cores or none of a resource, the weights,
                or the one, stay.
            now_s: Now.
            is_idle: No job runs, so nobody's share can jump.
        """
        if not self.is_found:
            return False
        is_same = totals == self._totals
        if is_same and self.values == self._targets:
            self.time_s = now_s
            return False
        before, elapsed_s = dict(self.values), now_s - self.time_s
        if elapsed_s * _STEPS_PER_HALF_TIME >= self._half_time_s or elapsed_s < 0:
            left = 0.5 ** (max(elapsed_s, 0.0) / self._half_time_s)
            for name, target in self._targets.items():
                moved = target + (self.values[name] - target) * left
                self.values[name] = target if abs(moved - target) <= _NEAR_RATIO * target else moved
            self.time_s = now_s
        if not is_same:
            # What has been moved until now went to where the capacity before had it go.
            self._totals = dict(totals)
            cores = totals.get(CPU, 0) * _CORES_PER_MILLICORE
            found = {name: cores / total for name, total in totals.items() if total > 0 and name not in (CPU, PODS)}
            self._targets.update(found if cores else {})
            self.values = {**self._targets, **self.values}
        if is_idle:
            self.values, self.time_s = dict(self._targets), now_s
        if len(self.values) > _MOST_RESOURCES:
            self.values = {name: cores for name, cores in self.values.items() if name in totals or name == CPU}
            self._targets = {name: self._targets[name] for name in self.values}
        return self.values != before

    def store(self) -> tuple[StoredWeight, ...]:
        """Return the found weights for the next leader; nothing if they are configured."""
        return tuple(
            StoredWeight(resource=name, cores=cores, target_cores=self._targets[name])
            for name, cores in sorted(self.values.items())
            if self.is_found and name != CPU
        )

    def restore(self, stored: tuple[StoredWeight, ...], time_s: float) -> None:
        """Continue with the weights of another leader, unless they are configured; what cannot be one is left out.

        Args:
            stored: What it stored.
            time_s: When its weights had moved last.
        """
        for one in stored if self.is_found else ():
            if one.resource != CPU and all(0 < cores < math.inf for cores in (one.cores, one.target_cores)):
                self.values[one.resource], self._targets[one.resource] = one.cores, one.target_cores
        self.time_s = time_s

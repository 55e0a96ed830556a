"""Simulated worlds in which nothing goes wrong but what a test asks for, and looking for the seed that fails.

Source: design section 7, "Simulation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from argosy_core.errors import ArgosyError
from argosy_simulation import FaultSettings, World, WorldSettings, draw_plan

__all__ = ["NO_FAULTS", "fails_within", "make_world"]

NO_FAULTS: Final = FaultSettings(
    until_s=60.0,
    leader_crashes=0,
    leader_depositions=0,
    sampler_crashes=0,
    executor_crashes=0,
    executor_overlaps=0,
    stream_cuts=0,
    stream_stalls=0,
    node_losses=0,
    watch_ends=0,
    watch_lags=0,
    repeat_ratio=0.0,
    call_loss_ratio=0.0,
)
"""None of the faults, for a minute; to be replaced in part."""


def make_world(seed: int, settings: WorldSettings, faults: FaultSettings) -> World:
    """Return a world with a plan of a minute that the seed draws."""
    plan = draw_plan(np.random.default_rng([seed, 17]), 60.0)
    return World(plan, seed=seed, settings=settings, faults=faults)


def fails_within(count: int, make: Callable[[int], World], *, first: int = 0) -> bool:
    """Return whether one of some worlds fails.

    Args:
        count: How many seeds to try.
        make: Returns the world of a seed.
        first: The first seed; better one that is known to fail.
    """
    for seed in range(first, first + count):
        try:
            make(seed).run()
        except (ArgosyError, AssertionError, LookupError):
            return True
    return False

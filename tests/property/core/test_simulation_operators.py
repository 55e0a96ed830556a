"""Worlds in which jobs end with others, while all else goes wrong, too.

A world that fails prints its seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import JobState
from argosy_core.scheduler.memory.children import Children
from argosy_simulation import FaultSettings, World, WorldSettings, draw_plan
from argosy_testkit.simulated_worlds import fails_within

FAULTS = FaultSettings(leader_crashes=4, leader_depositions=3, executor_crashes=3, node_losses=3)


def family_world(seed: int) -> World:
    """Return a random world in which half of the jobs are children of earlier ones; many never end."""
    rng = np.random.default_rng([seed, 67])
    plan = draw_plan(rng, 60.0)
    count = len(plan)
    order = range(1, count)
    families = {child: int(rng.integers(child)) for child in order if rng.random() < 0.5}
    run_s = np.minimum(plan.run_s, 30.0)
    run_s[[child for child in families if rng.random() < 0.3]] = np.inf
    plan = replace(plan, families=families, run_s=run_s, change_requests=())
    return World(plan, seed=seed, settings=WorldSettings(check_steps=0), faults=FAULTS)


def test_children_end_with_their_parents_whatever_goes_wrong() -> None:
    """Also those that were submitted after the end of their parent, and those whose leader died before it saw that."""
    for seed in range(2):
        world = family_world(seed)
        world.run()
        states = {job.index: job.state for job in world.context.store.jobs.values()}
        assert JobState.CANCELLED in {states[child] for child in world.context.job_index.plan.families}


def test_child_that_outlives_its_parent_against_its_word_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes note of the ends of parents."""
    monkeypatch.setattr(Children, "end", lambda _self, _handles: None)
    assert fails_within(1, family_world, first=4)

"""Random worlds with delegated clusters and faults; a world that fails prints its seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_core.job.states import RunState
from argosy_core.nodes import ANY_NODE
from argosy_core.placement.delegated import ClusterPlacer
from argosy_simulation import World, draw_world
from argosy_testkit.simulated_worlds import fails_within


@pytest.mark.parametrize(("seed", "wide"), [(3, False), (24, True)])
def test_every_invariant_holds_in_a_world_with_delegated_clusters_and_faults(seed: int, *, wide: bool) -> None:
    """Leaders, samplers and executors die between lease and node, and every job ends on a node that has room for it."""
    world = draw_world(seed, delegated=True, wide=wide, check_steps=25)
    world.run()
    nodes = {run.node for run in runs_of(world) if run.state == RunState.SUCCEEDED}
    assert nodes
    assert ANY_NODE not in nodes


def test_runs_are_returned_and_their_jobs_run_elsewhere() -> None:
    """Worlds have clusters whose nodes hold less together than their sums say; nothing of it is a failure."""
    world = draw_world(2, delegated=True, with_faults=False, check_steps=25)
    world.run()
    returned = [run for run in runs_of(world) if run.state == RunState.RETURNED]
    assert returned
    assert all(run.node == ANY_NODE and run.reason for run in returned)
    assert all(job.state for job in world.context.store.jobs.values())


def runs_of(world: World) -> list:  # type: ignore[type-arg]
    """Return all rows of runs."""
    return [run for job in world.context.store.jobs.values() for run in job.runs.values()]


def test_sampler_that_does_not_ask_for_room_when_it_places_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds miss the defence that the ledger decides when a node is chosen; leases go by sums alone."""
    judge = ClusterPlacer._judge

    def accept_all(placer: ClusterPlacer, *asked: Any) -> Any:
        judged = judge(placer, *asked)
        return replace(judged, fits=np.ones_like(judged.fits))

    monkeypatch.setattr(ClusterPlacer, "_judge", accept_all)
    assert fails_within(4, lambda seed: draw_world(seed, delegated=True, with_faults=False, check_steps=25))

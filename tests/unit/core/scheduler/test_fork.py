"""A pool's memory forked between rounds."""

from __future__ import annotations

import hashlib

import pytest

from argosy_core.errors import NotAllowedNow
from argosy_core.scheduler import PoolState, RoundSettings, begin_round, check_invariants, dump
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


def digest(state: PoolState, now_s: float) -> str:
    """Return a hash over everything that a pool remembers of jobs, queues, clusters and reasons to wait."""
    text = "".join(dump(state, now_s, seed=0))
    grids = [state.waits.reason, state.waits.until_s, state.clusters.free, state.live.flags, state.queues.flow]
    return hashlib.blake2b(text.encode() + b"".join(grid.tobytes() for grid in grids)).hexdigest()


def busy_world() -> LeaderWorld:
    """Return a pool with running, waiting and pending jobs of two queues."""
    world = LeaderWorld(
        clusters={"a": 2, "b": 1},
        queues={"alice": 1.0, "bob": 3.0},
        settings=RoundSettings(clusters_to_sample_ratio=1.0),
    )
    world.define_class(2, cpu=4000)
    for queue in (1, 2):
        world.submit(6, queue=queue)
        world.submit(2, queue=queue, class_id=2, priority=queue)
    world.round()
    world.now_s += 1.0
    return world


def go_on(world: LeaderWorld) -> list[int]:
    """End some runs, submit more and run rounds; return the jobs leased."""
    leased = []
    for _ in range(4):
        world.submit(3, queue=2)
        world.now_s += 15.0
        leased += world.round().handle.tolist()
        running = [handle for handle in world.store.open_handles if world.job(handle).live_attempt][:2]
        for handle in running:
            world.report(world.place(handle)[0], [Report(handle=handle, state=state) for state in (3, 4)])
    return leased


def test_rounds_on_a_fork_leave_the_original_as_it_is_and_decide_as_it_would() -> None:
    """So that a plan can be tried on what a leader knows."""
    world = busy_world()
    before = digest(world.state, world.now_s)
    twin = busy_world()
    twin.machine._term.state = world.state.fork()
    assert twin.state.settings is world.state.settings
    decided = go_on(twin)
    assert decided
    assert digest(world.state, world.now_s) == before
    check_invariants(world.state)
    assert go_on(world) == decided
    assert digest(world.state, world.now_s) == digest(twin.state, twin.now_s)


def test_pool_cannot_be_forked_while_a_round_is_under_way() -> None:
    """What is in the middle of a round belongs to that round."""
    world = busy_world()
    begin_round(world.state, world.now_s, world.rng)
    with pytest.raises(NotAllowedNow):
        world.state.fork()

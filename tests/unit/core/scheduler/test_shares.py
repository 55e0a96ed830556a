"""Who has what share, of every resource."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.scheduler import PoolShares, QueueShares, RoundSettings, explain, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

GPU = "example.com/gpu"
NODE = {"cpu": 8000, "memory": 32 << 30, GPU: 2}
GIB = 1 << 30


def world_of(**settings: Any) -> LeaderWorld:
    """Return a pool of 32 cores, 128 GiB and 8 accelerators."""
    world = LeaderWorld(
        clusters={"a": 4},
        node_amounts=NODE,
        queues={"alice": 1.0, "bob": 1.0},
        settings=RoundSettings(**settings),
    )
    world.define_class(1, cpu=1000, **{GPU: 1})
    world.define_class(2, cpu=1000)
    return world


def of(told: PoolShares, queue: str) -> QueueShares:
    """Return the shares of one queue."""
    return next(one for one in told.queues if one.queue == queue)


def test_whoever_holds_all_accelerators_is_not_seen_as_using_eight_cores() -> None:
    """Eight cores and all eight devices: 40 of what the pool counts, so the other queue's cores come first."""
    world = world_of()
    world.submit(8, queue=1, class_id=1)
    assert world.round().handle.size == 8
    told = shares(world.state, world.now_s)
    assert of(told, "alice").usage_cores == pytest.approx(40)
    assert told.capacity_cores == pytest.approx(96)
    late, other = world.submit(30, queue=1, class_id=2), world.submit(24, queue=2, class_id=2)
    assert sorted(world.round().handle.tolist()) == other
    assert late


def test_shares_tell_requested_running_and_entitled_of_each_resource() -> None:
    """What waits is not what runs, and nobody is entitled to what it does not ask for."""
    world = world_of()
    world.submit(4, queue=1, class_id=1)
    world.round()
    world.submit(40, queue=1, class_id=2)
    world.submit(40, queue=2, class_id=2)
    told = shares(world.state, world.now_s)
    rows = {one.resource: one for one in of(told, "alice").resources}
    assert (rows[GPU].requested, rows[GPU].running) == (4, 4)
    assert 0 < rows[GPU].entitled <= 4
    assert (rows["cpu"].requested, rows["cpu"].running) == (44_000, 4000)
    both = rows["cpu"].entitled + {one.resource: one for one in of(told, "bob").resources}["cpu"].entitled
    assert both == pytest.approx(32_000, abs=1)
    assert GPU not in {one.resource for one in of(told, "bob").resources}


def test_jobs_that_no_node_could_hold_entitle_to_nothing() -> None:
    """One impossible job is asked for, and changes nobody's part."""
    world = world_of()
    world.define_class(3, cpu=10**9)
    world.submit(1, queue=1, class_id=3)
    world.submit(40, queue=2, class_id=2)
    told = shares(world.state, world.now_s)
    assert of(told, "alice").entitled_cores == 0
    assert of(told, "bob").entitled_cores == pytest.approx(32)


def test_shares_tell_what_a_unit_counts_and_what_weighs_nothing() -> None:
    """Found weights count all but pods; with configured ones what is not named weighs nothing."""
    units = {one.resource: one.unit_cores for one in shares(world_of().state, 1.0).resources}
    assert units == {"cpu": 1.0, "memory": pytest.approx(32 / (128 * GIB)), GPU: pytest.approx(4), "pods": 0}
    units = {
        one.resource: one.unit_cores for one in shares(world_of(resource_weights={"cpu": 0.001}).state, 1.0).resources
    }
    assert units == {"cpu": 1.0, "memory": 0.0, GPU: 0.0, "pods": 0.0}


def test_weights_that_move_survive_the_leader() -> None:
    """Half of the devices go while jobs run: the weight moves on under the next leader as it would have."""
    moved = []
    for has_takeover in (False, True):
        world = world_of()
        world.submit(8, queue=1, class_id=1)
        world.round()
        world.set_nodes("a", {**NODE, GPU: 1})
        for _ in range(3):
            world.now_s += 200
            world.submit(1, queue=2, class_id=2)
            world.round()
        if has_takeover:
            world.take_over()
            world.take()
        world.now_s += 200
        world.submit(1, queue=2, class_id=2)
        world.round()
        moved.append(world.state.weights.values[GPU])
    assert 4.0 < moved[0] < 8.0
    assert moved[1] == pytest.approx(moved[0])


def test_a_change_of_weights_leaves_what_a_flow_is_above_its_usage() -> None:
    """The memory of what a queue used before is not weighed anew; its usage is."""
    world = world_of()
    world.submit(8, queue=1, class_id=1)
    world.round()
    state = world.state
    index = state.queues.ids.find(1)
    assert index is not None
    state.queues.flow[index] += 5.0
    world.set_nodes("a", {**NODE, GPU: 4})
    world.submit(1, queue=2, class_id=2)
    world.round()
    world.now_s += 600.0
    world.submit(1, queue=2, class_id=2)
    world.round()
    assert state.queues.usage[index] == pytest.approx(8e6 * (1 + 3.0), rel=1e-6)
    assert state.queues.flow[index] - state.queues.usage[index] / 1e6 == pytest.approx(5.0 * 0.25, rel=1e-3)


def test_queues_whose_runs_end_together_take_turns() -> None:
    """Of six equal queues four run a job each at a time, and all end at one moment: none of them is left behind."""
    world = LeaderWorld(clusters={"a": 1}, queues={f"q{number}": 1.0 for number in range(1, 7)})
    queue_of = {handle: queue for queue in range(1, 7) for handle in world.submit(16, queue=queue)}
    had = Counter[int]()
    for _ in range(16):
        world.round()
        runs = [handle for handle, _ in world.store_runs("a")]
        assert len(runs) == 4
        had.update(queue_of[handle] for handle in runs)
        world.report("a", [Report(handle=handle, state=ObjectState.RUNNING) for handle in runs])
        world.now_s += 60.0
        world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED) for handle in runs])
    assert had.total() == 64
    assert 8 <= min(had.values()) <= max(had.values()) <= 13


def test_in_a_terms_first_moment_nobody_knows_what_the_pool_has() -> None:
    """Runs are known and capacity is not: no part of it is told until a cluster is connected, be it cordoned."""
    world = world_of()
    *_, waiting = world.submit(9, queue=1, class_id=1)
    assert world.round().handle.size == 8
    world.take_over(reconnects=False)
    told, found = shares(world.state, world.now_s), explain(world.state, waiting, world.now_s)
    assert (told.is_known, told.capacity_cores, of(told, "alice").usage_cores > 0) == (False, 0, True)
    assert found is not None
    assert (found.standing, found.start) == (None, None)
    assert found.why == "no cluster is heard"
    world.reconnect("a")
    found = explain(world.state, waiting, world.now_s)
    assert shares(world.state, world.now_s).is_known
    assert found is not None
    assert found.standing is not None

"""Queues below queues, in the leader's memory."""

from __future__ import annotations

from collections import Counter

import pytest

from argosy_core.scheduler import QueueShares, QueueView, remove_queues, set_queues, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

QUEUES = {"physics": 1.0, "optics": 1.0, "quanta": 3.0, "biology": 1.0}
PARENTS = {"optics": "physics", "quanta": "physics"}
PHYSICS, OPTICS, QUANTA, BIOLOGY = 1, 2, 3, 4


def world_of(nodes: int = 4) -> LeaderWorld:
    """Return a pool of four cores a node, half of it for physics, of which quanta has three quarters."""
    return LeaderWorld(clusters={"a": nodes}, queues=QUEUES, parents=PARENTS)


def running(world: LeaderWorld) -> dict[str, int]:
    """Return how many jobs of each queue are leased."""
    live, queues = world.state.live, world.state.queues
    held = live.live_slots()[~world.state.stage_is_queued(live.live_slots())]
    return dict(Counter(queues.names[index] for index in live.queue[held].tolist()))


def told(world: LeaderWorld) -> dict[str, QueueShares]:
    """Return the shares by queue."""
    return {one.queue: one for one in shares(world.state, world.now_s).queues}


def test_branches_share_first_and_queues_within_their_branch() -> None:
    """Sixteen cores: eight for biology, two for optics, six for quanta."""
    world = world_of()
    for queue in (OPTICS, QUANTA, BIOLOGY):
        world.submit(20, queue=queue, job_set=f"of-{queue}")
    world.round()
    assert running(world) == {"biology": 8, "optics": 2, "quanta": 6}


def test_jobs_of_a_queue_with_others_below_it_stand_among_these() -> None:
    """As a child of weight 1: of the eight cores of physics 1.6, 1.6 and 4.8."""
    world = world_of(10)
    for queue in (PHYSICS, OPTICS, QUANTA, BIOLOGY):
        world.submit(60, queue=queue, job_set=f"of-{queue}")
    world.round()
    assert running(world) == {"biology": 20, "physics": 4, "optics": 4, "quanta": 12}


def test_shares_of_a_queue_are_those_of_its_branch() -> None:
    """Fair shares multiply down the tree, and what runs and what is due adds up along it."""
    world = world_of()
    for queue in (OPTICS, QUANTA, BIOLOGY):
        world.submit(20, queue=queue, job_set=f"of-{queue}")
    world.round()
    rows = told(world)
    assert {name: row.fair_share_ratio for name, row in rows.items()} == pytest.approx(
        {"physics": 0.5, "biology": 0.5, "optics": 0.1, "quanta": 0.3}
    )
    assert (rows["physics"].usage_cores, rows["physics"].leased_count, rows["physics"].flow_cores) == (8, 8, 8)
    assert {name: row.entitled_cores for name, row in rows.items()} == pytest.approx(
        {"physics": 8, "biology": 8, "optics": 2, "quanta": 6}
    )
    assert (rows["optics"].parent, rows["physics"].parent) == ("physics", "")


def test_the_waiting_head_is_of_the_branch_whose_turn_it_is() -> None:
    """Optics holds nothing, but its branch holds all: biology is next."""
    world = world_of(1)
    world.submit(4, queue=QUANTA)
    world.round()
    world.submit(1, queue=OPTICS, job_set="waits")
    (other,) = world.submit(1, queue=BIOLOGY, job_set="waits-too")
    world.round()
    slots = world.state.pending_slots()
    assert world.state.live.handle[slots].tolist() == [other]


def test_a_branch_remembers_what_it_used_under_the_next_leader() -> None:
    """The flow of physics, of which nothing runs any more, is the same after a takeover."""
    world = world_of(1)
    jobs = world.submit(4, queue=QUANTA)
    world.round()
    world.now_s += 10
    world.report("a", [Report(handle=handle, state=4) for handle in jobs])
    world.now_s += 300
    world.submit(1, queue=BIOLOGY, job_set="b")
    world.round()
    before = told(world)["physics"].flow_cores
    assert before == pytest.approx(2.0, rel=0.01)
    world.take_over()
    world.take()
    assert told(world)["physics"].flow_cores == pytest.approx(before)


def test_a_queue_moves_with_its_jobs_and_what_it_used() -> None:
    """What it leaves remembers its past, what it joins counts what it holds from now on."""
    world = world_of(1)
    world.submit(4, queue=QUANTA)
    world.round()
    set_queues(world.state, [QueueView(queue_id=QUANTA, name="quanta", weight=3.0, parent="biology")])
    world.take()
    rows = told(world)
    assert (rows["biology"].usage_cores, rows["physics"].usage_cores) == (4, 0)
    assert (rows["biology"].flow_cores, rows["physics"].flow_cores) == (4, 4)
    world.now_s += 300
    assert told(world)["physics"].flow_cores == pytest.approx(2.0)


def test_queues_are_side_by_side_again_when_the_last_has_left_its_branch() -> None:
    """And one whose parent is gone, or that is seen half way through two moves, stands at the top."""
    world = world_of()
    branches = world.state.queues.branches
    remove_queues(world.state, [PHYSICS])
    assert not branches
    set_queues(world.state, [QueueView(queue_id=OPTICS, name="optics", weight=1.0, parent="biology")])
    set_queues(world.state, [QueueView(queue_id=BIOLOGY, name="biology", weight=1.0, parent="optics")])
    world.submit(4, queue=OPTICS)
    assert len(world.round().handle) == 4
    set_queues(world.state, [QueueView(queue_id=OPTICS, name="optics", weight=1.0)])
    assert branches.above[branches.above >= 0].size == 1

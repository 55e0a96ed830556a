"""What would become of jobs if they were submitted now."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.nodes import NodeColumns, NodeTable
from argosy_core.placement import WaitReason
from argosy_core.scheduler import RoundSettings
from argosy_core.scheduler.explain.planning import Plan, PlannedItem, plan_jobs
from argosy_testkit.leader_world import LeaderWorld

from .test_fork import digest

_SETTINGS = RoundSettings(clusters_to_sample_ratio=1.0, resource_weights={"cpu": 0.001})


def _columns(world: LeaderWorld, cluster: str) -> NodeColumns:
    """Return the nodes of a cluster as its sampler tells them."""
    table = world.clusters[cluster].ledger.nodes
    return NodeColumns(
        names=table.names,
        groups=[table.groups[index] for index in range(len(table.groups))],
        group=table.group,
        flags=table.flags,
        resources=table.axis.names,
        allocatable=table.allocatable.T,
        free=table.free.T,
    )


def _plan(world: LeaderWorld, *items: PlannedItem) -> Plan:
    """Return a plan, and see that nothing of the world has changed by it."""
    before = digest(world.state, world.now_s)
    tables = {name: NodeTable.of(_columns(world, name)) for name in world.clusters}
    plan = plan_jobs(world.state.fork(), tables, items, now_s=world.now_s, rng=np.random.default_rng(7))
    assert digest(world.state, world.now_s) == before
    return plan


def _item(cpu: int, count: int = 1, queue: int = 1, **fields: object) -> PlannedItem:
    requests = (("cpu", cpu), ("pods", 1))
    definition = SchedulingClass(requests=requests).definition()
    return PlannedItem(queue_id=queue, definition=definition, count=count, **fields)  # type: ignore[arg-type]


def test_jobs_are_placed_as_the_next_round_would_place_them() -> None:
    """On nodes with room, of every cluster; queues hold more by that."""
    world = LeaderWorld(clusters={"a": 2, "b": 1}, settings=_SETTINGS)
    world.submit(4)
    world.round()
    plan = _plan(world, _item(1000, 6), _item(1000, 2))
    assert [(one.placed_count, one.waiting_count) for one in plan.items] == [(6, 0), (2, 0)]
    assert sum(place.count for place in plan.items[0].places) == 6
    assert {place.node[0] for one in plan.items for place in one.places} <= {"a", "b"}
    (change,) = plan.shares
    assert (change.usage_before_cores, change.usage_after_cores) == pytest.approx((4.0, 12.0))
    assert (plan.other_count, plan.is_complete) == (0, True)
    assert plan.weightless_resources == ("memory",)


def test_jobs_that_wait_already_come_first() -> None:
    """A plan is no way round the order of queues."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    world.submit(3)
    plan = _plan(world, _item(1000, 2))
    assert (plan.items[0].placed_count, plan.items[0].waiting_count, plan.other_count) == (1, 1, 3)


def test_job_without_room_is_told_the_start_that_it_would_be_promised() -> None:
    """By the time limits of what runs there."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    world.submit(4, options=(-1, 100, -1, -1))
    world.round()
    (one,) = _plan(world, _item(4000)).items
    assert (one.placed_count, one.waiting_count) == (0, 1)
    assert one.waiting is not None
    assert one.waiting.reason == WaitReason.NO_ROOM
    assert one.waiting.promise is not None
    assert (one.waiting.promise.is_firm, one.waiting.promise.node) == (True, "a/a-0")
    assert one.waiting.promise.moment_s == pytest.approx(world.now_s + 100 + 60, abs=10)


def test_job_that_nothing_can_ever_hold_is_told_what_is_missing() -> None:
    """With the largest node that there is."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    (one,) = _plan(world, _item(64_000)).items
    assert one.waiting is not None
    assert one.waiting.reason == WaitReason.MISMATCH
    assert one.waiting.missing == ("it asks for 64 cpu, and the largest node, a/a-0, has 4",)


def test_runs_that_would_be_stopped_to_make_room_are_told() -> None:
    """Of a queue that holds its share without them, past their lifetimes."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1.0, "bob": 1.0}, settings=_SETTINGS)
    victims = world.submit(4, queue=1, options=(0, -1, -1, -1))
    world.round()
    plan = _plan(world, _item(1000, queue=2))
    assert [(one.queue, one.cluster, one.node) for one in plan.preemptions] == [("alice", "a", "a-0")]
    assert plan.preemptions[0].handle in victims
    assert "makes room for a job of queue bob" in plan.preemptions[0].reason


def test_plan_ends_when_time_is_up_and_is_bounded() -> None:
    """What was not tried is told as such."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    plan = plan_jobs(
        world.state.fork(),
        {},
        (_item(1000),),
        now_s=world.now_s,
        rng=np.random.default_rng(7),
        should_stop=lambda: True,
    )
    assert (plan.is_complete, plan.items[0].placed_count) == (False, 0)
    with pytest.raises(InvalidRequest, match="at most 10,000 jobs"):
        _plan(world, _item(1000, 10_001))


def test_limits_of_job_sets_hold_in_a_plan() -> None:
    """What runs of the set now counts; a set by another name is one by itself, and the reason has the numbers."""
    world = LeaderWorld(clusters={"a": 2, "b": 1}, settings=_SETTINGS)
    world.submit(2, job_set="sweep", options=(-1, -1, -1, -1, 3))
    world.round()
    items = [_item(1000, 4, job_set=name, options={"job_set_limit": 3}) for name in ("sweep", "other")]
    plan = _plan(world, *items)
    assert [(one.placed_count, one.waiting_count) for one in plan.items] == [(1, 3), (3, 1)]
    waiting = plan.items[0].waiting
    assert waiting is not None
    assert (waiting.reason, "its job set runs 3 of at most 3 jobs" in waiting.summary) == (WaitReason.LIMIT, True)


def test_plan_of_a_distributed_job_names_the_nodes_of_all_its_members() -> None:
    """Three pods that fill a node each are on three nodes; the job counts where its first member is."""
    world = LeaderWorld(clusters={"a": 4}, settings=_SETTINGS)
    pod = SchedulingClass(requests=(("cpu", 4000), ("pods", 1)))
    gang = SchedulingClass.of_gang([GangGroup(pod=pod, minimum=3, maximum=3)])
    (one,) = _plan(world, PlannedItem(queue_id=1, definition=gang.definition(), count=1)).items
    assert (one.placed_count, one.waiting_count) == (1, 0)
    assert len({place.node for place in one.places}) == 3
    assert sorted((place.count, place.member_count) for place in one.places) == [(0, 1), (0, 1), (1, 1)]


def test_plan_says_what_the_cap_of_work_without_a_lifetime_holds_back() -> None:
    """Of sixteen cores one of two queues begins nine jobs of one core; the reason has the numbers."""
    world = LeaderWorld(clusters={"a": 2, "b": 2}, queues={"alice": 1.0, "bob": 1.0}, settings=_SETTINGS)
    (one,) = _plan(world, _item(1000, 12)).items
    assert (one.placed_count, one.waiting_count) == (9, 3)
    assert one.waiting is not None
    assert (one.waiting.reason, "of at most 60%" in one.waiting.why) == (WaitReason.LIMIT, True)

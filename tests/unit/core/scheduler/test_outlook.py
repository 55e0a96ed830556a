"""How a waiting job's queue stands, and when the job is expected to start."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import Explanation, QueueView, RoundSettings, explain, set_queues
from argosy_core.scheduler.explain.outlook import turn_texts
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_SETTINGS = RoundSettings(
    clusters_to_sample_ratio=1.0,
    promised_nodes_ratio=0.0,
    resource_weights={"cpu": 0.001},
    assumed_run_time_s=100.0,
    non_preemptible_excess_ratio=1e9,
)


def _explained(world: LeaderWorld, handle: int) -> Explanation:
    found = explain(world.state, handle, world.now_s)
    assert found is not None
    return found


def _full() -> tuple[LeaderWorld, list[int]]:
    """Return eight cores held by alice, whose weight is 3 of 4, and jobs of one core that wait for both queues."""
    world = LeaderWorld(clusters={"a": 2}, queues={"alice": 3.0, "bob": 1.0}, settings=_SETTINGS)
    world.define_class(2, cpu=1000)
    world.submit(8, queue=1, class_id=2)
    world.round()
    waiting = world.submit(5, queue=1, class_id=2) + world.submit(2, queue=2, class_id=2)
    return world, waiting


def test_job_that_waits_its_turn_is_told_its_queues_share_and_who_comes_first() -> None:
    """Nothing else keeps it: the numbers are all there is to say."""
    world, waiting = _full()
    told = _explained(world, waiting[0])
    assert told.standing is not None
    assert (told.standing.usage_cores, told.standing.share_cores) == pytest.approx((8.0, 6.0))
    assert [one.queue for one in told.standing.first_before] == ["bob"]
    other = _explained(world, waiting[-1])
    assert other.standing is not None
    assert (other.standing.usage_cores, other.standing.share_cores) == pytest.approx((0.0, 2.0))
    assert (other.standing.before_count, other.standing.first_before) == (0, ())


def test_turn_is_told_in_words() -> None:
    """What is asked for next round waits for nothing else."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 3.0, "bob": 1.0}, settings=_SETTINGS)
    (first,) = world.submit(1, queue=1)
    told = _explained(world, first)
    assert told.reason == WaitReason.NONE
    assert told.why == "it waits its turn: its queue holds 0% of the pool, and its share is 75%"
    assert told.summary == f"queued with 0 jobs of its queue before it; {told.why}"


def test_expected_start_lies_between_the_pool_for_its_queue_and_its_share_alone() -> None:
    """One run must end first, in 100 s as assumed; four jobs of 100 core seconds stand before it."""
    world, waiting = _full()
    world.round()
    told = _explained(world, waiting[4])
    assert told.reason == WaitReason.NO_ROOM
    assert told.start is not None
    assert told.start.earliest_s - world.now_s == pytest.approx(100.0 + 4 * 100.0 / 8.0)
    assert told.start.latest_s - world.now_s == pytest.approx(100.0 + 4 * 100.0 / 6.0)
    assert told.start.earliest_s <= told.start.likely_s <= told.start.latest_s
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=0.0)])
    unweighted = _explained(world, waiting[4]).start
    assert unweighted is not None
    assert (unweighted.latest_s, unweighted.likely_s) == (math.inf, math.inf)


def test_expected_start_is_most_likely_by_the_medians_of_what_was_learned() -> None:
    """Of the runs before, a third took 10 s, a third 100 s and a third 1,000 s: so do those that must end first."""
    learning = replace(_SETTINGS, promised_nodes_ratio=0.05, promise_after_s=1e9)
    world = LeaderWorld(clusters={"a": 2}, queues={"alice": 3.0, "bob": 1.0}, settings=learning)
    world.define_class(2, cpu=1000)
    for run_time_s in (10.0, 100.0, 1000.0) * 12:
        [handle] = world.submit(1, class_id=2)
        world.round()
        world.report(world.place(handle)[0], [Report(handle=handle, state=ObjectState.RUNNING)])
        world.now_s += run_time_s
        world.report(world.place(handle)[0], [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    world.submit(8, class_id=2)
    world.round()
    waiting = world.submit(4, class_id=2)
    world.round()
    for handle in waiting:
        band = _explained(world, handle).start
        assert band is not None
        earliest_s, likely_s, latest_s = (
            moment_s - world.now_s for moment_s in (band.earliest_s, band.likely_s, band.latest_s)
        )
        assert 10.0 <= earliest_s <= 20.0
        assert 100.0 <= likely_s <= 120.0
        assert latest_s >= 1000.0


def test_start_of_a_job_that_somebody_keeps_is_not_guessed() -> None:
    """A release is no work that ends."""
    world, waiting = _full()
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=3.0, cordoned=True)])
    told = _explained(world, waiting[0])
    assert (told.reason, told.start) == (WaitReason.CORDONED, None)


def test_queue_that_pays_back_is_told_how_long() -> None:
    """Bob, a quarter by weight, had eight cores alone; alice's flow by weight is 8 / 3 since she has them."""
    world = LeaderWorld(clusters={"a": 2}, queues={"alice": 3.0, "bob": 1.0}, settings=_SETTINGS)
    world.submit(8, queue=2)
    begun = world.round().handle.tolist()
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED) for handle in begun])
    world.submit(9, queue=1)
    world.round()
    (waiting,) = world.submit(1, queue=2)
    world.round()
    told = _explained(world, waiting)
    # From 8 to 8 / 3 cores takes log2(3) half times of 300 s.
    assert "its queue had 100% of the pool before, which its flow remembers" in told.summary
    assert "its turn comes again in about 475 s" in told.summary
    assert _explained(world, world.submit(1, queue=1)[0]).summary.count("remembers") == 0


def test_what_a_queue_holds_is_told_of_the_pool_with_what_dominates() -> None:
    """Bob's job has a quarter of the cores and all but a sixteenth of the memory of a pool where both count alike."""
    memory = 1 << 30
    amounts = {"cpu": 4000, "memory": 8 * memory}
    world = LeaderWorld(clusters={"a": 2}, queues={"alice": 3.0, "bob": 1.0}, node_amounts=amounts)
    world.define_class(2, cpu=1000, memory=7 * memory + memory // 2)
    world.submit(2, queue=2, class_id=2, options=(0,))
    world.round()
    told = _explained(world, world.submit(1, queue=2, class_id=2, options=(0,))[0])
    assert told.standing is not None
    assert (told.standing.usage_ratio, told.standing.share_ratio) == pytest.approx((0.59375, 0.25), rel=1e-3)
    assert (told.standing.dominant_resource, told.standing.dominant_ratio) == ("memory", 0.9375)
    assert turn_texts(told.standing)[0] == (
        "it waits its turn: its queue holds 59.4% of the pool (93.8% of its memory), and its share is 25%"
    )


def test_what_a_queue_holds_that_weighs_nothing_is_told_beside_its_share() -> None:
    """Accelerators without a weight are named to whose queue holds some; numbers of pods are nobody's resource."""
    amounts, device = {"cpu": 4000, "pods": 100}, "example.com/gpu"
    settings = RoundSettings(clusters_to_sample_ratio=1.0, resource_weights={"cpu": 0.001})
    world = LeaderWorld(
        clusters={"a": 1}, queues={"alice": 1.0, "bob": 1.0}, node_amounts=amounts | {device: 4}, settings=settings
    )
    world.define_class(2, cpu=1000, **{device: 1})
    world.submit(1, queue=2, class_id=2)
    world.round()
    bob, alice = (_explained(world, world.submit(1, queue=queue, class_id=2)[0]).standing for queue in (2, 1))
    assert bob is not None
    assert alice is not None
    assert (bob.weightless_resources, alice.weightless_resources) == ((device,), ())
    assert f"holds 25% of the pool (25% of its cpu; {device} weighs nothing), and its share" in turn_texts(bob)[0]

"""In which order jobs of a queue stand: by submission, or the smallest area first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.states import ObjectState
from argosy_core.scheduler import RoundSettings, change_settings, explain
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SMALLEST = RoundSettings(
    clusters_to_sample_ratio=1.0, promised_nodes_ratio=0.0, job_order="smallest-area", age_bound_s=100.0
)
LONG, SHORT = (-1, -1, 1000), (-1, -1, 10)
"""Options of jobs that say how long they run."""


def world_of(settings: RoundSettings = SMALLEST) -> LeaderWorld:
    """Return one node with room for one job."""
    return LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 1000, "memory": 16 << 30}, settings=settings)


def next_after(world: LeaderWorld, handle: int) -> list[int]:
    """Have a job end, and return what starts then."""
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    return list(map(int, world.round().handle.tolist()))


def test_the_smallest_area_goes_first() -> None:
    """Of equal sizes the shortest, whoever came before; the place in the queue is told by that, too."""
    world = world_of()
    [long] = world.submit(1, options=LONG)
    short = world.submit(2, options=SHORT)
    assert world.round().handle.tolist() == short[:1]
    answer = explain(world.state, long, world.now_s)
    assert answer is not None
    assert answer.queue_position == 1
    assert next_after(world, short[0]) == short[1:]


def test_who_has_waited_longer_than_the_age_bound_goes_first() -> None:
    """Small jobs that come without end delay nobody for ever."""
    world = world_of()
    [long] = world.submit(1, options=LONG)
    first, second, third = world.submit(3, options=SHORT)
    assert world.round().handle.tolist() == [first]
    world.now_s += 99.0
    assert next_after(world, first) == [second]
    [late] = world.submit(1, options=SHORT)
    world.now_s += 2.0
    assert next_after(world, second) == [long]
    # Those that came with it have waited as long by now; the late one has not.
    assert next_after(world, long) == [third]
    assert next_after(world, third) == [late]


def test_priority_comes_before_area() -> None:
    """Area decides among jobs that are equally urgent; what becomes more urgent moves."""
    world = world_of()
    [short] = world.submit(1, options=SHORT)
    urgent, long = world.submit(1, options=LONG, priority=5) + world.submit(1, options=LONG)
    assert world.round().handle.tolist() == [urgent]
    world.reprioritize([long], 5)
    assert next_after(world, urgent) == [long]
    assert next_after(world, long) == [short]


def test_a_change_of_the_order_holds_for_jobs_that_wait_already() -> None:
    """From the next round on, in both directions."""
    by_submission = replace(SMALLEST, job_order="submit")
    world = world_of(by_submission)
    first, second, third, fourth = (world.submit(1, options=options)[0] for options in (LONG, LONG, LONG, SHORT))
    assert world.round().handle.tolist() == [first]
    change_settings(world.state, SMALLEST, world.now_s)
    assert next_after(world, first) == [fourth]
    change_settings(world.state, by_submission, world.now_s)
    assert next_after(world, fourth) == [second]
    assert next_after(world, second) == [third]


def test_an_order_that_nobody_knows_is_refused() -> None:
    """With the names of those there are."""
    with pytest.raises(InvalidRequest, match="job_order is fastest, but must be one of submit, smallest-area"):
        RoundSettings(job_order="fastest")


def test_a_lead_by_size_brings_large_jobs_forward_by_as_much_and_no_more() -> None:
    """With 100 s for each doubling, a job of twice the size goes before what came up to 100 s earlier."""
    settings = replace(SMALLEST, job_order="submit", size_lead_s=100.0)
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 2000, "memory": 16 << 30}, settings=settings)
    world.define_class(2, cpu=2000)
    [running] = world.submit(1, class_id=2)
    assert world.round().handle.tolist() == [running]
    [oldest] = world.submit(1)
    world.now_s += 50.0
    [small] = world.submit(1)
    world.now_s += 99.0
    [large] = world.submit(1, class_id=2)
    assert next_after(world, running) == [oldest, small]
    world.report("a", [Report(handle=oldest, state=ObjectState.SUCCEEDED)])
    [late] = world.submit(1)
    assert next_after(world, small) == [large]
    assert next_after(world, large) == [late]


def test_a_change_of_the_lead_holds_for_jobs_that_wait_already() -> None:
    """In both directions, and priorities come before it."""
    without = replace(SMALLEST, job_order="submit")
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 2000, "memory": 16 << 30}, settings=without)
    world.define_class(2, cpu=2000)
    handles = [world.submit(1, class_id=class_id)[0] for class_id in (2, 1, 2, 1, 2)]
    [urgent] = world.submit(1, priority=1, class_id=2)
    first, small, large, other, last = handles
    assert world.round().handle.tolist() == [urgent]
    change_settings(world.state, replace(without, size_lead_s=10.0), world.now_s)
    assert next_after(world, urgent) == [first]
    assert next_after(world, first) == [large]
    change_settings(world.state, without, world.now_s)
    assert next_after(world, large) == [small, other]
    assert small < large < other < last

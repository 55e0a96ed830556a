"""Which job that has no room is promised a start: the next one, or the largest of the next ones in an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import ObjectState
from argosy_core.scheduler import RoundSettings, change_settings
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

STRICT = RoundSettings(
    clusters_to_sample_ratio=1.0, promise_after_s=1.0, wait_expiry_s=1.0, non_preemptible_excess_ratio=1e9
)
BY_AREA = replace(STRICT, promise_order="smallest-area")
BY_RATIO = replace(STRICT, promise_order="response-ratio")
LONG, SHORT = (-1, -1, 4000), (-1, -1, 400)
"""Options of jobs that say how long they run."""


def full_world(settings: RoundSettings, queues: dict[str, float] | None = None) -> LeaderWorld:
    """Return a node of eight cores of which six are taken by jobs of one core that end after 100 s at the latest."""
    world = LeaderWorld(
        clusters={"a": 1}, node_amounts={"cpu": 8000, "memory": 16 << 30}, settings=settings, queues=queues
    )
    world.define_class(4, cpu=4000)
    world.define_class(6, cpu=6000)
    running = world.submit(6, options=(-1, 100, -1))
    world.round()
    for handle in running:
        world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
    return world


def promised(world: LeaderWorld, seconds: float = 3.0) -> Sequence[int]:
    """Let time pass, and return who is promised a start then."""
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        world.now_s += 0.5
        world.tell_news()
        world.round()
    return [*world.state.promises.standing]


@pytest.mark.parametrize(("choice", "is_largest"), [(1, False), (2, True)])
def test_the_largest_of_the_first_ones_is_promised_a_start(choice: int, is_largest: bool) -> None:  # noqa: FBT001
    """Of as many as the settings say; of one, the first."""
    world = full_world(replace(STRICT, promise_choice=choice))
    first, large = world.submit(1, class_id=4) + world.submit(1, class_id=6)
    assert promised(world) == [large if is_largest else first]


def test_a_job_behind_the_first_ones_is_not_promised_a_start() -> None:
    """However large it is: who came long before it is not put off by it."""
    world = full_world(replace(STRICT, promise_choice=2))
    first = world.submit(2, class_id=4)[0]
    world.submit(1, class_id=6)
    assert promised(world) == [first]


def test_the_smallest_area_is_promised_a_start_first() -> None:
    """Of equal sizes the shortest, whoever came before."""
    world = full_world(BY_AREA)
    world.submit(1, class_id=4, options=LONG)
    [short] = world.submit(1, class_id=4, options=SHORT)
    assert promised(world) == [short]


def test_who_has_waited_longer_than_the_age_bound_is_promised_a_start_first() -> None:
    """Small jobs that come without end put nobody off for ever."""
    world = full_world(replace(BY_AREA, age_bound_s=5.0, promise_after_s=16.0))
    [long] = world.submit(1, class_id=4, options=LONG)
    for _ in range(7):
        world.submit(1, class_id=4, options=SHORT)
        assert promised(world, 2.0) == []
    assert promised(world, 11.0) == [long]


def test_the_best_response_ratio_is_promised_a_start_first() -> None:
    """Who has waited a hundred times as long goes before one that runs a tenth as long; a little longer, behind it."""
    for ahead_s, is_older in ((1000.0, True), (2.0, False)):
        world = full_world(BY_RATIO)
        [older] = world.submit(1, class_id=4, options=LONG)
        world.state.settings = replace(BY_RATIO, promised_nodes_ratio=0.0)
        promised(world, 0.5)
        world.now_s += ahead_s
        [younger] = world.submit(1, class_id=4, options=SHORT)
        change_settings(world.state, BY_RATIO, world.now_s)
        assert promised(world) == [older if is_older else younger]


def test_urgency_comes_before_size_and_area() -> None:
    """Only the most urgent of a queue's jobs are compared."""
    world = full_world(replace(BY_AREA, promise_choice=8))
    world.submit(1, class_id=6, options=SHORT)
    [urgent] = world.submit(1, class_id=4, options=LONG, priority=1)
    assert promised(world) == [urgent]


def test_flow_decides_between_queues_as_ever() -> None:
    """A larger job of a queue whose turn comes later is not chosen over another queue's."""
    world = full_world(replace(BY_AREA, promise_choice=8), queues={"alice": 1.0, "bob": 1.0})
    world.submit(1, class_id=6, options=SHORT)
    [others] = world.submit(1, class_id=4, options=LONG, queue=2)
    assert promised(world)[0] == others


def test_a_promise_stands_when_a_better_choice_comes() -> None:
    """Else small ones that come without end would each be chosen in turn, and none would be kept."""
    world = full_world(replace(BY_AREA, promise_choice=8))
    [given] = world.submit(1, class_id=4, options=LONG)
    assert promised(world) == [given]
    world.submit(1, class_id=6, options=SHORT)
    assert promised(world) == [given]


def test_who_was_kept_from_a_promised_node_is_counted_once_the_promise_has_ended() -> None:
    """Else the choice would reach further, to larger ones, after each promise."""
    world = full_world(replace(BY_AREA, promise_choice=2))
    for class_id in (2, 7, 8):
        world.define_class(class_id, cpu=1000 * class_id)
    [first] = world.submit(1, class_id=6, options=(-1, 4000, -1))
    assert promised(world) == [first]
    passed, _, middle, _ = (world.submit(1, class_id=one, options=(-1, 400, 400))[0] for one in (2, 2, 7, 8))
    assert promised(world) == [first]
    for handle in world.job_index.handles(np.arange(6)):
        world.report("a", [Report(handle=int(handle), state=ObjectState.SUCCEEDED)])
    assert promised(world, 10.0) == [middle]
    assert {handle for handle, _ in world.live_runs("a")} == {first, passed}

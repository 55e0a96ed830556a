"""What size an agent wants for its pod: by metrics, memory, bounds and policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.autoscale import Agent, AgentSettings, Amounts
from argosy_core.autoscale.events import (
    MetricsSeen,
    OutOfMemory,
    ScalingPolicy,
    SessionUp,
)
from argosy_core.autoscale.goals import GoalKeeper

from .agent_world import SETTINGS, World, units


@pytest.mark.parametrize(
    ("cores", "memory_bytes"),
    [(float("nan"), 0.6e9), (0.1, float("nan")), (-3.0, 0.6e9), (0.1, float("inf")), (0.1, 0.0), (0.0, 0.6e9)],
)
def test_metrics_that_are_not_numbers_or_fall_at_once_let_no_pod_shrink(cores: float, memory_bytes: float) -> None:
    """The last pair is a number, but a fall from all to nothing: it must come twice."""
    world = World(most=units(8))
    world.use(7.1)
    world.permit(units(8))
    world.resized(units(8))
    assert not world.use(cores, memory_bytes).resizes


@pytest.mark.parametrize(("cores", "memory_bytes"), [(3.5, float("nan")), (float("nan"), 2.9e9)])
def test_a_metric_that_is_missing_keeps_no_pod_from_growing_by_the_other(cores: float, memory_bytes: float) -> None:
    """What is known to be too much is too much."""
    assert [one.wanted for one in World().use(cores, memory_bytes).requests] == [units(4)]


def test_a_pod_that_uses_all_its_processors_twice_gets_twice_as_many() -> None:
    """Use is never more than what it has, so what it would use is hidden; once may be chance."""
    world = World()
    goals = []
    for cores in (2.0, 2.0, 1.7, 2.0):
        world.use(cores)
        goals.append(world.scaling.goal_units)
    assert goals == [3, 4, 2, 3]


def test_a_pod_that_runs_out_of_memory_gets_more_at_once_and_keeps_it() -> None:
    """Metrics that say less do not take it back, for a day."""
    world = World()
    assert [one.wanted for one in world.tell(OutOfMemory("pod")).requests] == [units(3)]
    world.permit(units(3))
    world.resized(units(3))
    assert not world.use(0.5).resizes
    world.permit(units(3), lease_s=1e6)
    world.tell(after_s=SETTINGS.out_of_memory_hold_s)
    assert [one.amounts for one in world.use(0.5).resizes] == [units(1)]


def test_memory_is_not_shrunk_below_what_is_used() -> None:
    """Even if the bounds of the pod are: its end would be worse."""
    world = World()
    world.grown(5)
    world.use(0.5, 3.2e9)
    seen = world.scaling.seen
    shrunk = world.tell(replace(seen, version=50, policy=replace(seen.policy, most=units(2))))
    sizes = [one.amounts for one in shrunk.resizes]
    assert sizes in ([Amounts(2000, 3 << 30)], [])


def test_a_pod_that_is_larger_than_any_may_be_shrinks_to_the_largest_size() -> None:
    """As soon as its unit is known, without waiting for metrics; and its story says what it was permitted."""
    world = World(has_session=False, most=units(20))
    world.see(desired=units(10), allocated=units(10), actual=units(10))
    world.tell(SessionUp(1))
    world.permit(units(10))
    resized = world.tell(after_s=SETTINGS.hold_s).resizes  # what somebody else resized is left alone for a while
    assert [one.amounts for one in resized] == [units(SETTINGS.max_units)]
    assert "; permitted " in world.told()


def test_pods_that_came_and_went_leave_room_for_others() -> None:
    """What is remembered of pods does not grow with all that ever were."""
    keeper = GoalKeeper(8, 60.0)
    for number in range(100):
        keeper.add(f"pod-{number}", 0.0)
        keeper.remove(f"pod-{number}")
    assert len(keeper._history) == 16


def test_bounds_that_change_bring_a_pod_back_into_them() -> None:
    """Without waiting for metrics."""
    world = World()
    world.grown(4)
    seen = world.scaling.seen
    shrunk = world.tell(replace(seen, version=50, policy=replace(seen.policy, most=units(3))))
    assert [one.amounts for one in shrunk.resizes] == [units(3)]


@pytest.mark.parametrize(
    "fields",
    [
        {"least": Amounts(0, 1)},
        {"least": units(7)},
        {"load_ratio": 0.0},
        {"memory_ratio": 1.1},
        {"working_set_ratio": -1.0},
    ],
)
def test_a_policy_that_no_size_satisfies_is_refused(fields: dict[str, object]) -> None:
    """Before any pod is."""
    with pytest.raises(ValueError, match="must be"):
        ScalingPolicy(**{"least": units(1), "most": units(6), **fields})


def test_a_setting_of_no_time_is_refused() -> None:
    """Waits are above 0."""
    with pytest.raises(ValueError, match="hold_s"):
        AgentSettings(hold_s=0.0)


@pytest.mark.parametrize("cores", [5.5, 50.0])
def test_a_pod_that_needs_more_than_it_may_have_gets_all_that_it_may_have(cores: float) -> None:
    """With the predictor as it ships: no size is enough, and the largest is still the best."""
    world = World()
    world.agent = Agent(SETTINGS)
    world.tell(world.pod, SessionUp(1))
    world.permit(units(2))
    assert [one.wanted for one in world.use(cores).requests] == [units(6)]


def test_a_working_set_that_is_cached_counts_as_memory_up_to_what_is_cached() -> None:
    """2 GiB used and 2 of 5 GiB kept are 4 GiB at nine tenths: five units."""
    world = World()
    metrics = MetricsSeen(
        uids=("pod",), load_cores=np.array([0.1]), memory_bytes=np.array([float(2 << 30)]),
        cached_bytes=np.array([float(2 << 30)]), working_set_bytes=np.array([float(5 << 30)]),
    )  # fmt: skip
    assert [one.wanted for one in world.tell(metrics, after_s=5.0).requests] == [units(5)]

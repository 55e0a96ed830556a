"""Tests of the predictor: worked examples of its rule, what it does not note, and what holds a pod where it is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from argosy_core.autoscale import DemandHistory, Horizon, PredictorSettings, demand_units

ONE = PredictorSettings(
    horizons=(Horizon(100.0, 1.0),), price_units=10.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    prior_s=0.0, grow_gain_units=0.0, shrink_gain_units=0.5,
)  # fmt: skip
"""One memory, no softness, no prior: what it answers can be worked out by hand."""


def goal(history: DemandHistory, current: int, *, low: int = 1, high: int = 8, may_shrink: bool = True) -> int:
    """Return the goal of the only pod."""
    bounds = np.array([low]), np.array([high])
    return int(history.goals(np.array([0]), np.array([current]), bounds, np.array([may_shrink]))[0])


def seen(*demands: float, step_s: float = 10.0, settings: PredictorSettings = ONE) -> DemandHistory:
    """Return a history of one pod of up to eight units."""
    history = DemandHistory(8, settings)
    slots = history.add(1)
    for demand in demands:
        history.observe(slots, np.array([demand]), step_s)
    return history


def test_chance_is_the_share_of_time_above_a_size_weighed_by_age() -> None:
    """Half of the time, one half life ago: a third of what is remembered."""
    history = seen(3.5, step_s=100.0)
    assert history.observe(np.array([0]), np.array([1.5]), 100.0).tolist() == [True]
    chance = history.too_small(np.array([0]))[0]
    assert chance == pytest.approx([1.0, 1 / 3, 1 / 3, 0, 0, 0, 0, 0])


def test_goal_buys_a_unit_only_where_it_is_worth_its_price() -> None:
    """At a price of ten, a demand above one unit for a third of the time is bought, one for a twentieth is not."""
    often = seen(1.5, 0.5, 0.5, step_s=100.0)
    assert often.too_small(np.array([0]))[0, 0] == pytest.approx(1 / 7)
    assert goal(often, 1) == 2
    seldom = seen(1.5, 0.5, 0.5, 0.5, 0.5, step_s=100.0)
    assert seldom.too_small(np.array([0]))[0, 0] == pytest.approx(1 / 31)
    assert goal(seldom, 1) == 1


def test_rare_tall_peak_is_not_bought_though_a_quantile_would() -> None:
    """A seventh of the time at eight units costs seven units always: 10/7 saved, so the pod stays at one."""
    assert goal(seen(7.5, 0.5, 0.5, step_s=100.0), 1) == 1


def test_small_gain_does_not_shrink() -> None:
    """Shrinking from two to one would save 1 - 10/15 = 1/3 of a unit, less than the half that is asked for."""
    history = seen(1.5, 0.5, 0.5, 0.5, step_s=100.0)
    assert goal(history, 2) == 2
    assert goal(history, 1) == 1


@pytest.mark.parametrize("demand", [float("nan"), float("inf"), -1.0])
def test_what_is_no_demand_changes_nothing(demand: float) -> None:
    """Metrics that stop or lie are not noted."""
    history = seen(3.5, 2.5)
    before = history.too_small(np.array([0]))
    assert not history.observe(np.array([0]), np.array([demand]), 10.0).any()
    assert (history.too_small(np.array([0])) == before).all()


@pytest.mark.parametrize("elapsed_s", [0.0, -5.0, float("nan")])
def test_clock_that_jumps_back_notes_nothing(elapsed_s: float) -> None:
    """Time that did not pass cannot have been spent at a demand."""
    history = seen(3.5)
    assert not history.observe(np.array([0]), np.array([8.0]), elapsed_s).any()


def test_pod_without_metrics_may_grow_but_not_shrink() -> None:
    """It goes back into its bounds all the same."""
    history = seen(0.5)
    assert goal(history, 6, may_shrink=False) == 6
    assert goal(history, 6) == 1
    assert goal(history, 6, high=4, may_shrink=False) == 4
    assert goal(seen(5.5), 2, may_shrink=False) == 6


def test_floor_holds_at_once_and_until_it_is_dropped() -> None:
    """A pod that ran out of memory has what it needs in the next answer, and a lower floor takes nothing away."""
    history = seen(0.5)
    history.raise_floor(np.array([0]), np.array([4.2]))
    history.raise_floor(np.array([0]), np.array([2.0]))
    assert goal(history, 1) == 5
    assert goal(history, 1, high=3) == 3
    history.drop_floor(np.array([0]))
    assert goal(history, 5) == 1


def test_slot_of_another_pod_remembers_nothing() -> None:
    """What is cleared is as new."""
    history = seen(7.5, 7.5)
    history.clear(np.array([0]))
    fresh = seen()
    assert (history.too_small(np.array([0])) == fresh.too_small(np.array([0]))).all()


def test_bounds_that_contradict_each_other_end_at_the_least() -> None:
    """Nobody is below the least size that was asked for."""
    assert goal(seen(0.5), 1, low=4, high=2) == 4


@pytest.mark.parametrize(
    "values",
    [
        {"horizons": ()},
        {"horizons": (Horizon(10.0, 0.4),)},
        {"horizons": (Horizon(0.0, 1.0),)},
        {"price_units": 0.0},
        {"width_units": float("nan")},
        {"prior_ratio": 1.5},
        {"shrink_gain_units": -1.0},
        {"short_ratio": 0.0},
        {"price_span": 0.5},
    ],
)
def test_settings_without_a_goal_are_refused(values: dict[str, object]) -> None:
    """Whatever would make every answer meaningless is an error at once."""
    with pytest.raises(ValueError, match=r"must|needs"):
        PredictorSettings(**values)  # type: ignore[arg-type] # values of each field's own kind


def test_dearest_resource_decides_how_many_units_are_asked_for() -> None:
    """Load 1.8 at 0.9 of a core a unit is two units, 3 GiB at 0.75 of 1 GiB is four; unknown ones do not count."""
    load, memory = np.array([1.8, 1.8, np.nan]), np.array([3.0, np.nan, np.nan])
    units = demand_units([(load, 1.0, 0.9), (memory, 1.0, 0.75)])
    assert units[:2].tolist() == [4.0, 2.0]
    assert np.isnan(units[2])


def test_recorded_shape_is_followed_with_few_changes() -> None:
    """A pod that idles at one unit and works at five in two shifts gets both sizes, with one change each way."""
    history = DemandHistory(8)
    slots = history.add(1)
    size, sizes = 1, []
    for demand in [0.5] * 60 + [4.6] * 60 + [0.5] * 120:
        history.observe(slots, np.array([demand]), 300.0)
        size = int(history.goals(slots, np.array([size]), (np.array([1]), np.array([8])), np.array([True]))[0])
        sizes.append(size)
    assert sizes[50] == 1
    assert set(sizes[65:120]) <= {5, 6}
    assert sizes[-1] <= 2
    assert sum(one != other for one, other in pairwise(sizes)) <= 8


def played(settings: PredictorSettings, *, pods: int = 200, steps: int = 400, most: int = 8) -> tuple[float, float]:
    """Return for which part of the second half pods with bursts were short of their goals, and the price at the end."""
    draw = np.random.default_rng(7)
    history = DemandHistory(8, settings)
    slots = history.add(pods)
    bounds, free = (np.ones(pods, np.int64), np.full(pods, most)), np.ones(pods, np.bool_)
    usual, sizes, short = draw.uniform(0.2, 2.0, pods), np.ones(pods, np.int64), []
    for _ in range(steps):
        demand = np.minimum(usual * draw.lognormal(0.0, 0.8, pods), 8.0)
        short.append((demand > sizes).mean())
        history.observe(slots, demand, 300.0)
        sizes = history.goals(slots, sizes, bounds, free)
    return float(np.mean(short[steps // 2 :])), history.price_units


@pytest.mark.parametrize("price_units", [8.0, 16.0, 32.0])
def test_pods_are_short_for_as_long_as_they_may_be_whatever_the_price_began_at(price_units: float) -> None:
    """The price follows: with one that stays, the same pods are short for 16, 9 and 4 % of their time."""
    following, _ = played(PredictorSettings(price_units=price_units, price_span=10.0, price_pod_s=1e6))
    assert following == pytest.approx(0.0258, abs=0.003)


def test_a_price_that_may_not_follow_stays_and_one_that_follows_stays_within_its_span() -> None:
    """Pods whose bound is below what they need are short whatever is paid."""
    assert played(PredictorSettings(price_span=1.0))[1] == 16.2
    _, price_units = played(PredictorSettings(price_pod_s=1e4), most=1)
    assert price_units == pytest.approx(16.2 * 2.5)


def test_price_does_not_follow_pods_that_have_less_than_their_goals() -> None:
    """A node without room is no reason to ask for more, and one short time of one pod proves little."""
    history = seen(4.5, settings=PredictorSettings())
    for _ in range(10):
        assert goal(history, 1) >= 5, "it has one unit, and asks for five"
        history.observe(np.array([0]), np.array([4.5]), 300.0)
    within = history.price_units
    assert within < 16.2
    history.observe(np.array([0]), np.array([goal(history, 1) + 0.5]), 300.0)
    assert within < history.price_units < within * 1.01

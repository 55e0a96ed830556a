"""The predictor for any pods: bounds hold, time alone counts, and pods do not touch each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.autoscale import DemandHistory

_UNITS = 6
_DEMANDS = st.lists(st.floats(-1, 12) | st.just(float("nan")), min_size=1, max_size=12)
_PODS = st.lists(_DEMANDS, min_size=1, max_size=4)
_SIZES = st.integers(1, _UNITS)


def _observed(pods: list[list[float]], *, parts: int = 1) -> DemandHistory:
    history = DemandHistory(_UNITS)
    history.add(len(pods))
    for slot, demands in enumerate(pods):
        for demand in demands:
            for _ in range(parts):
                history.observe(np.array([slot]), np.array([demand]), 300.0 / parts)
    return history


@given(_PODS, st.tuples(_SIZES, _SIZES, _SIZES), st.sampled_from([True, False]), st.floats(0, 9))
def test_goals_stay_within_bounds_and_never_shrink_without_metrics(
    pods: list[list[float]], sizes: tuple[int, int, int], may_shrink: object, floor: float
) -> None:
    """Whatever was seen, and whatever holds the pod."""
    current, low, high = sizes
    history = _observed(pods)
    slots = np.arange(len(pods))
    history.raise_floor(slots, np.full(len(pods), floor))
    bounds = np.full(len(pods), low), np.full(len(pods), high)
    goals = history.goals(slots, np.full(len(pods), current), bounds, np.full(len(pods), may_shrink, dtype=np.bool_))
    assert ((goals >= low) & (goals <= max(low, high))).all()
    if not may_shrink:
        assert (goals >= min(current, max(low, high))).all()


@given(_PODS, st.integers(2, 4))
def test_what_is_stored_depends_on_time_and_not_on_how_often_one_looks(pods: list[list[float]], parts: int) -> None:
    """One observation over 300 s is several equal ones that add up to it."""
    slots = np.arange(len(pods))
    assert np.allclose(_observed(pods).too_small(slots), _observed(pods, parts=parts).too_small(slots))


@given(_PODS)
def test_pods_do_not_touch_each_other(pods: list[list[float]]) -> None:
    """Each pod's chances are those it has alone, and a chance falls with the size."""
    chances = _observed(pods).too_small(np.arange(len(pods)))
    for slot, demands in enumerate(pods):
        assert np.allclose(chances[slot], _observed([demands]).too_small(np.array([0]))[0])
    assert (np.diff(chances, axis=1) <= 1e-12).all()
    assert ((chances >= 0) & (chances <= 1)).all()

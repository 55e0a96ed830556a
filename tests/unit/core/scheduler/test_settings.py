"""Settings of the round: what is refused, and that each reaches what it is for."""

from __future__ import annotations

from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.placement import spread_over_clusters
from argosy_core.scheduler import PoolState, RoundSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "foo"},
        {"sample_deadline_ms": 0},
        {"park_after_s": -1.0},
        {"back_off_initial_s": 5.0, "back_off_max_s": 1.0},
        {"cluster_spread_weight": -1.0},
        {"clusters_to_sample_ratio": 1.5},
        {"max_pending": 0},
        {"max_runs": 251},
        {"resource_weights": {"cpu": -1.0}},
    ],
    ids=",".join,
)
def test_settings_with_which_no_round_works_are_refused(wrong: dict[str, Any]) -> None:
    """A wrong value is told when the settings are made, by its name."""
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        RoundSettings(**wrong)


def test_settings_choose_the_decision_phase() -> None:
    """Packing and the spread over clusters are the operator's to choose; by default neither is changed."""
    assert PoolState(RoundSettings()).decision_profile.scores == ()
    assert PoolState(RoundSettings()).decision_profile.spread
    profile = PoolState(RoundSettings(spread=False, cluster_spread_weight=0.5)).decision_profile
    assert (profile.spread, profile.scores) == (False, ((spread_over_clusters, 0.5),))

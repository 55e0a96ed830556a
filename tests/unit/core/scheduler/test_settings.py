"""Settings of the round: what is refused, and that each reaches what it is for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Point
from argosy_core.plugins import SCORES
from argosy_core.scheduler import PoolState, RoundSettings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategy": "foo"}, "strategy is foo, but must be one of random, round-robin"),
        ({"half_time_s": 0.0}, "half_time_s is 0.0, but must be above 0"),
        ({"back_off_initial_s": 0.0}, "back_off_initial_s is 0.0, but must be above 0"),
        ({"sample_deadline_ms": 0}, "sample_deadline_ms is 0, but must be above 0"),
        ({"wait_expiry_s": 0.0}, "wait_expiry_s is 0.0, but must be above 0"),
        ({"waiting_heads": -1}, "waiting_heads is -1, but must be 0 or more"),
        ({"cluster_spread_weight": -1.0}, "cluster_spread_weight is -1.0, but must be 0 or more"),
        (
            {"node_score": "best"},
            f"node_score is best, but must be empty or one of {', '.join(SCORES)}",
        ),
        (
            {"back_off_max_s": 1.0, "back_off_initial_s": 5.0},
            "back_off_max_s is 1.0, but must be at least leader.round.back_off_initial_s, which is 5.0",
        ),
        ({"clusters_to_sample_ratio": 1.5}, "clusters_to_sample_ratio is 1.5, but must be above 0 and at most 1"),
        ({"nodes_to_sample_ratio": 0.0}, "nodes_to_sample_ratio is 0.0, but must be above 0 and at most 1"),
        ({"max_round_leases": 0}, "max_round_leases is 0, but must be at least 1"),
        ({"promise_order": "fair"}, "promise_order is fair, but must be one of queue, smallest-area, response-ratio"),
        ({"promise_choice": 0}, "promise_choice is 0, but must be at least 1"),
        ({"promise_choice": 1025}, "promise_choice is 1025, but must be at most 1024"),
        ({"size_lead_s": -1.0}, "size_lead_s is -1.0, but must be 0 or more"),
        ({"promise_slack_ratio": -1.0}, "promise_slack_ratio is -1.0, but must be between 0 and 1,000,000"),
        ({"promise_slack_ratio": math.inf}, "promise_slack_ratio is inf, but must be between 0 and 1,000,000"),
        ({"minimum_run_s": -1.0}, "minimum_run_s is -1.0, but must be 0 or more"),
        ({"max_runs": 251}, "max_runs is 251, but must be at most 250"),
        ({"max_failed_attempts": 251}, "max_failed_attempts is 251, but must be at most 250"),
        ({"resource_weights": {"cpu": -1.0, "x": 1.0}}, "resource_weights has cpu=-1.0, but each must be 0 or more"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_settings_with_which_no_round_works_are_refused(wrong: dict[str, Any], message: str) -> None:
    """A wrong value is told when the settings are made: the one setting, its value and what it must be."""
    with pytest.raises(InvalidRequest) as refusal:
        RoundSettings(**wrong)
    assert refusal.value.message == f"leader.round.{message}"


def test_settings_choose_the_decision_phase() -> None:
    """Packing and the spread over clusters are the operator's to choose; by default neither is changed."""
    assert PoolState(RoundSettings()).decision_profile.framework.registered(Point.SCORE) == ()
    assert PoolState(RoundSettings()).decision_profile.spread
    profile = PoolState(RoundSettings(spread=False, cluster_spread_weight=0.5)).decision_profile
    scores = [(score.name, score.weight) for score in profile.framework.registered(Point.SCORE)]
    assert (profile.spread, scores) == (False, [("spread-over-clusters", 0.5)])
    assert not PoolState(RoundSettings(node_score="fewest-nodes")).decision_profile.spread
    assert PoolState(RoundSettings(node_score="least-allocated")).decision_profile.spread

"""Flow: usage with a memory that halves."""

import numpy as np
import pytest

from argosy_core.queueing import advance_flow


def _advance(flow: float, usage: float, elapsed_s: float) -> float:
    return float(advance_flow(np.array([flow]), np.array([usage]), elapsed_s=elapsed_s, half_time_s=300.0)[0])


@pytest.mark.parametrize(
    ("flow", "usage", "elapsed_s", "expected"),
    [
        pytest.param(0.0, 10.0, 0.0, 10.0, id="never-below-usage"),
        pytest.param(100.0, 20.0, 300.0, 60.0, id="excess-halves-in-the-half-time"),
        pytest.param(100.0, 20.0, 600.0, 40.0, id="and-again"),
        pytest.param(100.0, 20.0, 0.0, 100.0, id="no-time-no-change"),
        pytest.param(100.0, 20.0, -5.0, 100.0, id="clock-set-back-counts-as-no-time"),
        pytest.param(8.0, 0.0, 3000.0, 8.0 / 1024, id="falls-to-usage"),
    ],
)
def test_flow_follows_the_formula_at_given_time(flow: float, usage: float, elapsed_s: float, expected: float) -> None:
    """Flow = usage + max(flow - usage, 0) * 0.5^(dt / half time)."""
    assert _advance(flow, usage, elapsed_s) == pytest.approx(expected)


def test_flow_is_the_same_in_one_step_or_many_while_usage_stays() -> None:
    """The result does not depend on the tick."""
    flow = 100.0
    for step_s in (1.0, 17.0, 0.5, 250.0, 31.5):
        flow = _advance(flow, 20.0, step_s)
    assert flow == pytest.approx(_advance(100.0, 20.0, 300.0))

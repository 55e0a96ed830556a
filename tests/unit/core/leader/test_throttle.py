"""How often rounds begin."""

from __future__ import annotations

import pytest

from argosy_core.leader.throttle import RoundThrottle


def steady(rate: float, *, rounds: int = 200) -> RoundThrottle:
    """Return a throttle after rounds of 50 ms at a rate."""
    throttle = RoundThrottle(busy_s=0.2, busy_rate=8000.0)
    for number in range(rounds):
        throttle.begin_round(number * 0.05, round(number * 0.05 * rate))
    return throttle


@pytest.mark.parametrize(("rate", "wait_s"), [(0, 0.0), (80, 0.02), (2000, 0.1), (8000, 0.2), (50_000, 0.2)], ids=str)
def test_least_time_between_rounds_grows_with_the_root_of_the_rate(rate: float, wait_s: float) -> None:
    """A quarter of the busy rate means half of the time, and no rate means more than all of it."""
    assert steady(rate).earliest_s() - 199 * 0.05 == pytest.approx(wait_s, rel=0.03)


def test_first_round_begins_at_once() -> None:
    """Nothing is known of a rate then."""
    assert RoundThrottle(busy_s=0.2, busy_rate=8000.0).earliest_s() < 0


def test_rate_is_forgotten_within_seconds() -> None:
    """After a rush a lone job is decided as soon as it comes."""
    throttle = steady(8000)
    throttle.begin_round(10.0 + 8.0, round(199 * 0.05 * 8000) + 1)
    assert throttle.earliest_s() - 18.0 < 0.02

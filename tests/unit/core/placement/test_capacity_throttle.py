"""When a sampler tells its leader what has changed."""

from __future__ import annotations

import pytest

from argosy_core.placement import CapacityScope, CapacityThrottle, ThrottleSettings

SETTINGS = ThrottleSettings(interval_s=0.25, rise_interval_s=0.05, node_interval_s=5.0)


def scopes(
    throttle: CapacityThrottle, *, until_s: float, rise: int, is_awaited: bool = False
) -> list[tuple[float, CapacityScope]]:
    """Return what is told and when, in ticks of 50 ms from 0.05 on, while capacity's last rise is `rise`."""
    ticks = [round(0.05 * number, 2) for number in range(1, round(until_s / 0.05) + 1)]
    told = [(tick, throttle.next_scope(tick, rise=rise, is_awaited=is_awaited)) for tick in ticks]
    return [(tick, scope) for tick, scope in told if scope is not CapacityScope.NOTHING]


def test_totals_are_told_once_per_interval_and_single_nodes_more_rarely_while_nothing_waits() -> None:
    """Four times a second, and what single nodes have left every five seconds; rises change nothing of it."""
    told = scopes(CapacityThrottle(SETTINGS, 0.0), until_s=10.0, rise=7)
    assert told[:2] == [(0.25, CapacityScope.TOTALS), (0.5, CapacityScope.TOTALS)]
    assert [tick for tick, scope in told if scope is CapacityScope.NODES] == [5.0, 10.0]
    assert len(told) == 40


def test_a_rise_is_told_at_once_while_a_class_waits() -> None:
    """The leader learns of it after one short interval, and hears of the same rise only once before its time."""
    throttle = CapacityThrottle(SETTINGS, 0.0)
    assert throttle.next_scope(0.01, rise=7, is_awaited=True) is CapacityScope.NOTHING
    assert throttle.next_scope(0.05, rise=7, is_awaited=True) is CapacityScope.TOTALS
    assert scopes(throttle, until_s=0.2, rise=7, is_awaited=True) == []
    assert throttle.next_scope(0.2, rise=8, is_awaited=True) is CapacityScope.TOTALS
    assert throttle.next_scope(0.25, rise=8, is_awaited=True) is CapacityScope.NOTHING
    assert throttle.next_scope(0.45, rise=8, is_awaited=True) is CapacityScope.TOTALS


def test_rises_that_come_all_the_time_are_told_once_per_short_interval() -> None:
    """Whatever happens, there are no more messages than that."""
    throttle = CapacityThrottle(ThrottleSettings(interval_s=0.25, rise_interval_s=1 / 16, node_interval_s=5.0), 0.0)
    told = [throttle.next_scope(number / 1024, rise=number, is_awaited=True) for number in range(1, 1025)]
    assert told.count(CapacityScope.TOTALS) == 16


def test_a_rise_waits_for_the_interval_when_nobody_waits_for_it() -> None:
    """Only a class that waits makes rises urgent."""
    assert CapacityThrottle(SETTINGS, 0.04).next_scope(0.1, rise=8, is_awaited=False) is CapacityScope.NOTHING


@pytest.mark.parametrize(
    ("interval_s", "rise_interval_s", "is_awaited", "pause_s"),
    [(0.25, 0.05, True, 0.05), (0.25, 0.05, False, 0.15), (0.125, 0.05, True, 0.025), (0.0, 0.0, True, 0.001)],
    ids=["rises", "totals", "whichever-is-first", "never-without-a-pause"],
)
def test_pause_ends_when_there_may_be_something_to_tell(
    interval_s: float, rise_interval_s: float, pause_s: float, *, is_awaited: bool
) -> None:
    """While no class waits nobody looks for rises; who looks does not turn in circles."""
    settings = ThrottleSettings(interval_s=interval_s, rise_interval_s=rise_interval_s, node_interval_s=5.0)
    assert CapacityThrottle(settings, 0.0).pause_s(0.1, is_awaited=is_awaited) == pytest.approx(pause_s)


def test_pause_reaches_to_what_single_nodes_have_left() -> None:
    """However seldom totals are told."""
    settings = ThrottleSettings(interval_s=60.0, rise_interval_s=0.05, node_interval_s=5.0)
    assert CapacityThrottle(settings, 0.0).pause_s(1.0, is_awaited=False) == pytest.approx(4.0)

"""The time that leaders go by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_server.leader.cycle.clock import DatabaseClock

SECOND = 1_000_000
START = 1_800_000_000 * SECOND


class Ticks:
    """A monotonic clock that is set by hand."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.ns = 77_000_000_000

    def __call__(self) -> int:
        """Return nanoseconds."""
        return self.ns

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += round(seconds * 1e9)


def test_time_passes_between_renewals_by_the_monotonic_clock() -> None:
    """Nobody asks the machine's wall clock."""
    ticks = Ticks()
    clock = DatabaseClock(START, mono_ns=ticks)
    ticks.pass_s(3.5)
    assert clock.now() == (80.5, START + 3_500_000)


def test_clock_of_the_database_that_is_set_is_followed_slowly() -> None:
    """An hour ahead, or back: no time limit is over at once, and none stands still."""
    for step_s in (3600, -3600):
        ticks = Ticks()
        clock = DatabaseClock(START, mono_ns=ticks)
        ticks.pass_s(5)
        clock.follow(START + (5 + step_s) * SECOND, asked_s=ticks.ns / 1e9)
        ticks.pass_s(10)
        assert clock.now().db_us == START + (15 + (1 if step_s > 0 else -1)) * SECOND
    ticks.pass_s(36_000)
    clock.follow(START + (36_015 + step_s) * SECOND, asked_s=ticks.ns / 1e9)
    ticks.pass_s(1)
    assert clock.now().db_us == START + (36_016 + step_s) * SECOND


@pytest.mark.parametrize(
    ("said_s", "told_s"),
    [
        pytest.param(0.5, 100.0, id="said-before-the-commit"),
        pytest.param(4.0, 100.0, id="said-at-the-end"),
        pytest.param(5.0, 101.0, id="ahead-of-us"),
        pytest.param(-1.0, 99.0, id="behind-us-even-if-it-was-said-just-now"),
    ],
)
def test_answer_that_comes_late_does_not_put_the_clock_back(said_s: float, told_s: float) -> None:
    """A renewal waits four seconds for its commit; the time that it brings was right somewhere in between."""
    ticks = Ticks()
    clock = DatabaseClock(START, mono_ns=ticks)
    asked_s = clock.now().mono_s
    ticks.pass_s(4)
    clock.follow(START + round(said_s * SECOND), asked_s=asked_s)
    ticks.pass_s(96)  # long enough to follow a second
    assert clock.now().db_us == START + told_s * SECOND


@given(
    st.lists(
        st.tuples(st.floats(0, 1000), st.none() | st.integers(-(10**12), 10**12)),
        max_size=20,
    )
)
def test_time_never_goes_back_nor_faster_than_a_tenth_more(steps: list[tuple[float, int | None]]) -> None:
    """Whatever the database says."""
    ticks = Ticks()
    clock = DatabaseClock(START, mono_ns=ticks)
    before = clock.now()
    for seconds, told_us in steps:
        asked_s = ticks.ns / 1e9
        ticks.pass_s(seconds)
        if told_us is not None:
            clock.follow(START + told_us, asked_s=asked_s)
        now = clock.now()
        passed_us = (now.mono_s - before.mono_s) * 1e6
        assert 0.9 * passed_us - 2 <= now.db_us - before.db_us <= 1.1 * passed_us + 2
        before = now

"""Tests of the clock that leases and fences go by."""

from __future__ import annotations

import time

import pytest

from argosy_runtime.elapsed import elapsed_s


def test_time_counts_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour of sleep a lease of a minute has ended, though the monotonic clock stood still."""
    clocks = {time.CLOCK_BOOTTIME: 3700.0, time.CLOCK_MONOTONIC: 100.0, time.CLOCK_REALTIME: 1e9}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    assert elapsed_s() == 3700.0

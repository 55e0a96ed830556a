"""A leader knows whether it can publish, and since when it cannot."""

from __future__ import annotations

import asyncio
import threading

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_server.leader.log.publishing import ATTEMPT_S, Publisher
from argosy_store.terms.election import LogState
from argosy_testkit.memory_log import MemoryLog


class AwayLog(MemoryLog):
    """A log that can be away, and then answers late or not at all."""

    def __init__(self) -> None:
        """Be there."""
        super().__init__(epoch=1)
        self.gate = threading.Event()
        self.gate.set()
        self.is_away = False

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append, once the gate is open."""
        assert self.gate.wait(10)
        if self.is_away:
            raise BackendUnavailable("the broker is away")
        return super().append(epoch, sequence, payload, traceparent=traceparent)


class Clock:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


async def test_a_publisher_that_has_not_tried_knows_nothing() -> None:
    """What an earlier leader said of the log stands."""
    assert Publisher(AwayLog()).state == LogState()


async def test_a_record_that_was_taken_shows_that_the_log_works() -> None:
    """Also after a failure."""
    log = AwayLog()
    publisher = Publisher(log)
    log.is_away = True
    with pytest.raises(BackendUnavailable):
        await publisher.append(1, 1, b"record")
    log.is_away = False
    assert await publisher.append(1, 1, b"record") == 1
    assert publisher.state == LogState(publishes=True)


async def test_a_refused_record_is_told_with_its_reason_from_the_attempt_on() -> None:
    """The reason is the log's own; the time is that of the first word of it, not of the refusal."""
    log, clock = AwayLog(), Clock()
    publisher = Publisher(log, clock)
    log.is_away = True
    with pytest.raises(BackendUnavailable):
        await publisher.append(1, 1, b"record")
    clock.now_s += 7.0
    assert publisher.state == LogState(failing_s=7.0, reason="the broker is away")


async def test_an_append_that_is_not_answered_is_told_after_a_while() -> None:
    """A moment is no failure; nor is it a proof that the log works."""
    log, clock = AwayLog(), Clock()
    publisher = Publisher(log, clock)
    await publisher.append(1, 1, b"marker")
    log.gate.clear()
    appending = asyncio.create_task(publisher.append(1, 2, b"record"))
    await asyncio.sleep(0)
    assert publisher.state == LogState()
    clock.now_s += ATTEMPT_S
    assert publisher.state == LogState(failing_s=ATTEMPT_S)
    log.gate.set()
    await appending
    assert publisher.state == LogState(publishes=True)

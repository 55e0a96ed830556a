"""Outboxes are bounded; one session per cluster lives."""

from __future__ import annotations

import asyncio

import pytest

from argosy_core.errors import BackendUnavailable, StateConflict
from argosy_server.leader.sessions import OUTBOX_LIMIT, Outbox, SessionRegistry


async def test_messages_are_written_in_order_until_the_session_is_closed() -> None:
    """The writer ends with the reason of the close."""
    outbox: Outbox[int] = Outbox("c1", 1)
    written: list[int] = []

    async def write(message: int) -> None:
        written.append(message)
        if message == 2:
            outbox.close("enough")

    for message in range(3):
        outbox.send(message)
    with pytest.raises(StateConflict, match="enough"):
        await outbox.write_until_closed(write)
    assert written[:3] == [0, 1, 2]


async def test_an_outbox_that_nobody_empties_ends_the_session() -> None:
    """Memory stays bounded: the peer dials again and starts from a comparison."""
    outbox: Outbox[int] = Outbox("c1", 1)
    for message in range(OUTBOX_LIMIT + 1):
        outbox.send(message)
    assert outbox.closed.is_set()
    assert "does not take" in outbox.close_reason


async def test_a_newer_session_replaces_the_older_one_and_a_lower_incarnation_is_refused() -> None:
    """Invariant 9: a stale incarnation changes nothing."""
    registry: SessionRegistry[Outbox[int]] = SessionRegistry()  # type: ignore[type-var]
    old, new, stale = Outbox[int]("c1", 1), Outbox[int]("c1", 2), Outbox[int]("c1", 1)
    registry.enter(old)
    registry.enter(new)
    assert old.closed.is_set()
    with pytest.raises(StateConflict, match="newer"):
        registry.enter(stale)
    assert registry.get("c1") is new
    assert not registry.leave(old)
    assert registry.leave(new)
    with pytest.raises(BackendUnavailable, match="not connected"):
        registry.require("c1")
    await asyncio.sleep(0)

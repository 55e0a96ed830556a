"""Outboxes are bounded, and a closed session is nobody's."""

from __future__ import annotations

import asyncio

import pytest

from argosy_core.errors import BackendUnavailable, StateConflict
from argosy_core.leader.events import Role, Session
from argosy_server.leader.sessions.outbox import OUTBOX_LIMIT, Outbox, SessionTable


def _key(serial: int) -> Session:
    return Session("c1", Role.SAMPLER, 1, serial)


async def test_messages_are_written_in_order_until_the_session_is_closed() -> None:
    """The writer ends with the reason of the close."""
    outbox: Outbox[int] = Outbox(_key(1))
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
    outbox: Outbox[int] = Outbox(_key(1))
    for message in range(OUTBOX_LIMIT + 1):
        outbox.send(message)
    assert outbox.closed.is_set()
    assert "does not take" in outbox.close_reason


async def test_a_cluster_is_found_by_its_newest_session_that_is_not_closed() -> None:
    """An older one may still be ending when the next is there."""
    table: SessionTable[Outbox[int]] = SessionTable()
    old, new = Outbox[int](_key(1)), Outbox[int](_key(2))
    table.enter(old)
    table.enter(new)
    assert table.require("c1") is new
    table.leave(old)
    new.close("over")
    assert table.get(new.key) is None
    with pytest.raises(BackendUnavailable, match="not connected"):
        table.require("c1")
    await asyncio.sleep(0)

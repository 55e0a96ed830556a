"""The writer keeps order, and only the database can stop it."""

import asyncio
import threading

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_server.leader.writer import EffectWriter
from argosy_store.effects import AppliedEffects, Effects


class SlowStore:
    """Applies effects once it is let go."""

    def __init__(self, error: BackendUnavailable | None = None) -> None:
        """Begin closed."""
        self.let_go = threading.Event()
        self.error = error
        self.applied: list[Effects] = []

    def apply(self, epoch: int, effects: Effects) -> AppliedEffects:
        """Apply, later."""
        assert epoch == 7
        assert self.let_go.wait(10)
        if self.error is not None:
            raise self.error
        self.applied.append(effects)
        return AppliedEffects()


async def test_waiting_for_what_was_put_before_ends_after_its_commit() -> None:
    """What is sent to executors is stored first."""
    store = SlowStore()
    writer = EffectWriter(store, 7)
    running = asyncio.create_task(writer.run())
    await writer.put(Effects(), lambda _: None)
    waiting = asyncio.create_task(writer.wait_until_stored())
    await asyncio.sleep(0)
    assert not waiting.done()

    store.let_go.set()
    async with asyncio.timeout(10):
        await waiting

    assert len(store.applied) == 1
    running.cancel()


async def test_session_that_goes_while_it_waits_does_not_stop_the_writer() -> None:
    """An executor that hangs up in the wrong moment must not end the leadership."""
    store = SlowStore()
    writer = EffectWriter(store, 7)
    running = asyncio.create_task(writer.run())
    await writer.put(Effects(), lambda _: None)
    waiting = asyncio.create_task(writer.wait_until_stored())
    await asyncio.sleep(0)
    waiting.cancel()

    store.let_go.set()
    async with asyncio.timeout(10):
        await writer.wait_until_stored()

    assert not running.done()
    running.cancel()


async def test_transaction_with_unknown_result_ends_the_writer() -> None:
    """Whether it was applied is unknown, so the leadership ends and the next one reads what is there."""
    store = SlowStore(BackendUnavailable("gone"))
    store.let_go.set()
    writer = EffectWriter(store, 7)
    await writer.put(Effects(), lambda _: None)

    with pytest.raises(BackendUnavailable, match="gone"):
        await writer.run()

"""The writer keeps order, and only the database can stop it."""

import asyncio
import threading

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_core.leader.instructions import Store
from argosy_core.leader.transaction import Transaction
from argosy_server.leader.cycle.writer import EffectWriter
from argosy_store.terms.effects import AppliedEffects, Effects


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


def store(number: int) -> Store:
    """Return an instruction that deletes one change."""
    return Store(number=number, transaction=Transaction(change_ids=[number]), time_us=1)


async def test_transactions_are_stored_in_order_and_told_after_their_commit() -> None:
    """What is sent to executors is stored first."""
    database = SlowStore()
    writer = EffectWriter(database, 7)
    told: list[int] = []
    done = asyncio.Event()

    def take(instruction: Store, _applied: AppliedEffects) -> None:
        assert len(database.applied) > len(told)
        told.append(instruction.number)
        if len(told) == 2:
            done.set()

    running = asyncio.create_task(writer.run(take))
    writer.put(store(1))
    writer.put(store(2))
    await asyncio.sleep(0)
    assert told == []
    database.let_go.set()
    async with asyncio.timeout(50):
        await done.wait()
    assert told == [1, 2]
    assert [effects.deleted_change_ids.tolist() for effects in database.applied] == [[1], [2]]  # type: ignore[union-attr]
    running.cancel()


async def test_transaction_with_unknown_result_ends_the_writer() -> None:
    """Whether it was applied is unknown, so the leadership ends and the next one reads what is there."""
    database = SlowStore(BackendUnavailable("gone"))
    database.let_go.set()
    writer = EffectWriter(database, 7)
    writer.put(store(1))

    with pytest.raises(BackendUnavailable, match="gone"):
        await writer.run(lambda *_: None)

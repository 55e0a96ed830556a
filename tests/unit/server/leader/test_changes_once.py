"""Every row of `changes` is taken once, also when it is deleted while it is being read."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from argosy_server.leader.intake import Intake
from argosy_server.leader.sessions import SessionRegistry
from argosy_server.leader.settings import LeaderSettings


class SlowStore:
    """Answers each read with what was visible when it began, but only when it is let go."""

    def __init__(self) -> None:
        """Begin with one row."""
        self.visible = [(1, b"")]
        self.began = asyncio.Event()
        self.let_go = threading.Event()
        self.loop = asyncio.get_running_loop()

    def read_changes(self, limit: int) -> list[tuple[int, bytes]]:
        """Return what is visible now, later."""
        seen = self.visible[:limit]
        self.loop.call_soon_threadsafe(self.began.set)
        assert self.let_go.wait(10)
        self.let_go.clear()
        return seen


async def test_row_that_is_deleted_while_it_is_read_is_not_taken_again() -> None:
    """A job that was taken twice would have two SUBMITTED events (invariant 6)."""
    store, memory = SlowStore(), SimpleNamespace(deciding=False, news=asyncio.Event())
    intake = Intake(memory, store, SessionRegistry[Any]())  # type: ignore[arg-type]

    async with asyncio.TaskGroup() as group:
        poll = group.create_task(intake.poll_changes(LeaderSettings(poll_ms=1)))
        await store.began.wait()
        store.let_go.set()
        await memory.news.wait()
        taken, intake._rows = intake._rows, []
        memory.news.clear()
        store.began.clear()
        await store.began.wait()  # this read still sees the row, which is deleted before the answer is there
        store.visible = [(2, b"")]
        intake.forget_changes([1])
        store.let_go.set()
        store.began.clear()
        await store.began.wait()
        store.let_go.set()
        await memory.news.wait()
        poll.cancel()
    store.let_go.set()

    assert [row_id for row_id, _ in taken] == [1]
    assert [row_id for row_id, _ in intake._rows] == [2]

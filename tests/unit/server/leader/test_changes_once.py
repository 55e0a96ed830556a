"""Every row of `changes` is taken once, also when it is deleted while it is being read, and none is read in vain."""

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.core.leader.told import lead

from argosy_core.leader import MachineSettings
from argosy_core.leader.events import Change, ChangesRead
from argosy_core.leader.intake import Intake
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.term import Term
from argosy_server.leader.cycle.changes import ChangeReader, pause_s
from argosy_server.leader.show.notes import LeaderNotes


class SlowStore:
    """Answers each read with what was visible when it began, but only when it is let go."""

    def __init__(self) -> None:
        """Begin with one row."""
        self.visible = [(1, b"")]
        self.began = asyncio.Event()
        self.let_go = threading.Event()
        self.loop = asyncio.get_running_loop()

    def read_changes(self, limit: int, is_new: Callable[[int], bool]) -> list[tuple[int, bytes]]:
        """Return what is visible now, later."""
        seen = self.visible[:limit]
        self.loop.call_soon_threadsafe(self.began.set)
        assert self.let_go.wait(10)
        self.let_go.clear()
        return seen


def new_intake() -> Intake:
    """Return the intake of a machine that holds nothing."""
    term = Term("default", 1, MachineSettings(), rng=np.random.default_rng(1), observer=None)
    return Intake(term, ClusterSessions(term))


class Driver:
    """Hands what was read to a machine's intake."""

    def __init__(self, intake: Intake) -> None:
        self.machine = intake
        self.taken: list[Change] = []

    def feed(self, event: ChangesRead) -> None:
        """Take what is new."""
        self.taken += [change for change in event.changes if self.machine.is_new(change.change_id)]
        self.machine.receive(event)


async def test_row_that_is_deleted_while_it_is_read_is_not_taken_again() -> None:
    """A job that was taken twice would have two SUBMITTED events (invariant 6)."""
    store, driver = SlowStore(), Driver(new_intake())
    reader = ChangeReader(driver, store, LeaderNotes("default"), None)  # type: ignore[arg-type]
    store.let_go.set()
    await reader.read(10)
    store.began.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.read(10))
        await store.began.wait()  # this read still sees the row, which is deleted before the answer is there
        store.visible = [(2, b"")]
        driver.machine.forget_changes([1])
        store.let_go.set()
    store.let_go.set()
    await reader.read(10)
    assert [change.change_id for change in driver.taken] == [1, 2]


def test_changes_are_read_once_when_the_next_round_may_begin() -> None:
    """Reads until then would see the same rows; a round that may begin at any time waits one period at most."""
    assert pause_s(0.02, to_round_s=0.15) == pytest.approx(0.15)
    assert pause_s(0.02, to_round_s=0.015) == 0.02
    assert pause_s(0.02, to_round_s=-1.0) == 0.02


def test_changes_of_a_pool_where_nothing_happens_are_read_less_often() -> None:
    """As often as ever for 2 s after a change, then ever less, down to a fifth."""
    assert pause_s(0.02, to_round_s=-1.0, quiet_s=2.0) == 0.02
    assert pause_s(0.02, to_round_s=-1.0, quiet_s=5.0) == pytest.approx(0.05)
    assert pause_s(0.02, to_round_s=-1.0, quiet_s=3600.0) == pytest.approx(0.1)
    assert pause_s(0.02, to_round_s=1.0, quiet_s=3600.0) == pytest.approx(1.0)


async def test_quiet_time_ends_with_a_change_and_with_nothing_else() -> None:
    """A read that finds nothing leaves it as it was."""
    store = SlowStore()
    store.visible = []
    reader = ChangeReader(Driver(new_intake()), store, LeaderNotes("default"), None)  # type: ignore[arg-type]
    began_s = reader.last_change_s
    store.let_go.set()
    await reader.read(10)
    assert reader.last_change_s == began_s
    store.visible = [(1, b"")]
    store.let_go.set()
    await reader.read(10)
    assert reader.last_change_s > began_s


class ToldDriver:
    """Keeps what a leader that serves is told."""

    def __init__(self) -> None:
        self.machine = lead().machine
        self.told: asyncio.Queue[ChangesRead] = asyncio.Queue()

    def feed(self, event: ChangesRead) -> None:
        """Keep it."""
        self.told.put_nowait(event)


async def test_round_that_wants_changes_is_told_that_there_are_none_by_the_read_under_way() -> None:
    """It waits for the answer, and a second read would make it wait for longer."""
    store, driver = SlowStore(), ToldDriver()
    store.visible = []
    reader = ChangeReader(driver, store, LeaderNotes("default"), None)  # type: ignore[arg-type]
    polling = asyncio.create_task(reader.poll(1000.0))
    for _ in range(2):  # one that has begun, and one that begins now
        reader.want()
        await asyncio.wait_for(store.began.wait(), 10)
        store.began.clear()
        store.let_go.set()
        assert not (await asyncio.wait_for(driver.told.get(), 10)).changes
    reader.want()
    await asyncio.wait_for(store.began.wait(), 10)
    reader.want()
    store.began.clear()
    store.let_go.set()
    await asyncio.wait_for(driver.told.get(), 10)
    polling.cancel()
    await asyncio.wait([polling])
    assert not store.began.is_set()

"""The driver: events in order, time when it is due, and the end of the term when handling fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.leader import Budget
from argosy_core.leader.events import Event, Explained, Moment, Origin, OriginKind, Role, Session, Stored, Tick
from argosy_core.leader.instructions import Close, Load, Warn
from argosy_server.leader.cycle.clock import DatabaseClock
from argosy_server.leader.cycle.driver import LeaderDriver


class Machine:
    """Notes what it is told, and says what a test wants."""

    def __init__(self) -> None:
        self.told: list[type] = []
        self.answers: dict[type, list[Any]] = {}
        self.wanted_s: float | None = None
        self.room = 1
        self.ticked = asyncio.Event()

    def start(self, now: Moment) -> list[Any]:
        """Say the first instruction."""
        assert now.mono_s > 0
        return [Load()]

    def handle(self, event: Event, now: Moment) -> list[Any]:
        """Note an event."""
        assert now.db_us > 0
        self.told.append(type(event))
        if isinstance(event, Tick):
            self.wanted_s = None
            self.ticked.set()
        if isinstance(event, Stored):
            raise InvariantViolation("that was not to be stored")
        return self.answers.get(type(event), [])

    def due_s(self) -> float | None:
        """Say when a tick is wanted."""
        return self.wanted_s

    def budget(self) -> Budget:
        """Say how much may be handed in."""
        return Budget(0, self.room)


def new_driver(machine: Machine) -> LeaderDriver:
    """Return a driver of a machine."""
    return LeaderDriver(machine, DatabaseClock(0))  # type: ignore[arg-type]


async def test_an_event_of_carrying_out_an_instruction_is_handled_after_the_present_one() -> None:
    """The machine is never told anything while it is being told something."""
    machine = Machine()
    driver = new_driver(machine)
    warn = Warn(text="amiss", subject="c1")
    machine.answers[Explained] = [warn, warn]
    carried: list[int] = []

    def carry_out(_: Warn) -> None:
        carried.append(len(machine.told))
        driver.feed(Tick())

    driver.start({Load: lambda _: None, Warn: carry_out})
    driver.feed(Explained())
    assert machine.told == [Explained, Tick, Tick]
    assert carried == [1, 1], "both instructions were carried out before the next event"


async def test_a_tick_comes_when_the_machine_wants_it() -> None:
    """Not before, and only once."""
    machine = Machine()
    driver = new_driver(machine)
    driver.start({Load: lambda _: None})
    machine.wanted_s = time.monotonic() + 0.02
    driver.feed(Explained())
    async with asyncio.timeout(50):
        await machine.ticked.wait()
    assert machine.told == [Explained, Tick]


async def test_an_event_that_cannot_be_handled_ends_the_term_and_not_who_told_it() -> None:
    """The stream that handed it in goes on; the term reports the failure and hears nothing more."""
    machine = Machine()
    driver = new_driver(machine)
    driver.start({Load: lambda _: None})
    driver.feed(Stored(number=1, refused=None))  # type: ignore[arg-type]
    with pytest.raises(InvariantViolation, match="not to be stored"):
        await driver.run()
    driver.feed(Explained())
    assert machine.told == [Stored]


async def test_states_are_taken_while_the_machine_has_room() -> None:
    """Whoever has some waits for that, so that nothing piles up."""
    machine = Machine()
    driver = new_driver(machine)
    driver.start({Load: lambda _: None})
    driver.feed(Explained())
    assert driver.inbox_has_room.is_set()
    machine.room = 0
    driver.feed(Explained())
    assert not driver.inbox_has_room.is_set()
    driver.close()


async def test_an_instruction_that_cannot_be_carried_out_is_its_sessions_fault() -> None:
    """The session is named, so that the next leader refuses it."""
    machine = Machine()
    driver = new_driver(machine)
    session = Session("c1", Role.SAMPLER, 1, 1)
    machine.answers[Explained] = [Close(session=session, reason="why")]

    def carry_out(_: Close) -> None:
        raise LookupError("nobody foresaw this")

    driver.start({Load: lambda _: None, Close: carry_out})
    driver.feed(Explained())
    with pytest.raises(LookupError):
        await driver.run()
    assert driver.blamed == (Origin(OriginKind.SAMPLER, "c1"),)

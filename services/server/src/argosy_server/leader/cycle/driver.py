"""Drives a leader machine on the event loop: hands events in, carries instructions out, lets time pass.

Events may come from any task; they are handled one after another, at once, and never wait. What a handled event asks
for is put in line here and carried out elsewhere: by streams, by tasks, and on threads.

Source: design section 5.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from argosy_core.leader.events import Tick
from argosy_core.leader.suspects import session_origin

if TYPE_CHECKING:
    from argosy_core.leader import LeaderMachine
    from argosy_core.leader.events import Event, Origin
    from argosy_core.leader.instructions import Instruction
    from argosy_server.leader.cycle.clock import DatabaseClock

__all__ = ["LeaderDriver"]


class LeaderDriver:
    """Drives one machine until it is closed or fails.

    Args:
        machine: The machine.
        clock: The time that it goes by.
    """

    def __init__(self, machine: LeaderMachine, clock: DatabaseClock) -> None:
        """Start before the first instruction."""
        self.machine = machine
        self.clock = clock
        self.inbox_has_room = asyncio.Event()
        """Set while the machine takes states of executors."""
        self._carry_out: Mapping[type, Callable[[Any], None]] = {}
        self._events: deque[Event] = deque()
        self._blamed: tuple[Origin, ...] = ()
        self._is_busy = False
        self._is_closed = False
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s: float | None = None

    def start(self, carry_out: Mapping[type, Callable[[Any], None]]) -> None:
        """Carry out the first instructions.

        Args:
            carry_out: What carries out an instruction, by type; it must not wait.
        """
        self._carry_out = carry_out
        self._do(self.machine.start(self.clock.now()))

    async def run(self) -> None:
        """Wait until handling an event fails, and raise that; nothing is handled any more when this ends."""
        try:
            await self._failed
        finally:
            self.close()

    @property
    def blamed(self) -> tuple[Origin, ...]:
        """Whose input ended the term; empty if it was nobody's."""
        return self._blamed or self.machine.blamed

    def feed(self, event: Event) -> None:
        """Hand an event in; what comes of it is under way when this returns. After the end nothing comes of it."""
        if self._is_closed:
            return
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events and not self._is_closed:
                self._do(self.machine.handle(self._events.popleft(), self.clock.now()))
        except Exception as error:  # noqa: BLE001 - whoever hands an event in is not to blame; the term ends
            self._fail(error)
        finally:
            self._is_busy = False
        if self.machine.budget().state_batches:
            self.inbox_has_room.set()
        else:
            self.inbox_has_room.clear()
        self._set_timer()

    def _fail(self, error: Exception) -> None:
        self.close()
        if not self._failed.done():
            self._failed.set_exception(error)

    def _do(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            try:
                self._carry_out[type(instruction)](instruction)
            except Exception:
                session = getattr(instruction, "session", None)
                self._blamed = () if session is None else (session_origin(session),)
                raise

    def _set_timer(self) -> None:
        """See to it that a tick comes when one is due; a timer that comes too early is set anew when it does."""
        due_s = None if self._is_closed else self.machine.due_s()
        if due_s is None or (self._due_s is not None and self._due_s <= due_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = due_s
        self._timer = asyncio.get_running_loop().call_later(due_s - time.monotonic(), self._tick)

    def _tick(self) -> None:
        self._timer = self._due_s = None
        self.feed(Tick())

    def close(self) -> None:
        """Handle nothing any more."""
        self._is_closed = True
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()

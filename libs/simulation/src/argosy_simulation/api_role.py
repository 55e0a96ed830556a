"""The API role while it may die: a replica that is killed and comes back, and callers who repeat what nobody answered.

A call that was not answered may have been stored or not; its caller repeats it with the same client ids until somebody
answers. Worlds whose API never dies do without all this.

Source: design section 5, "Submit"; section 7, invariants 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy_simulation.agenda import Process
from argosy_simulation.context import Context

__all__ = ["ApiRole"]


class ApiRole:
    """The one replica that there is at a time.

    Args:
        context: The world.
        people: Whoever calls.
        rng: Draws delays, so that nobody else's chance depends on them.
    """

    def __init__(self, context: Context, people: Process, rng: np.random.Generator) -> None:
        """Start the first replica."""
        self._context = context
        self._people = people
        self._rng = rng
        self._replica_count = 0
        self._open: dict[int, tuple[Callable[[], None], Callable[[], None]]] = {}
        """Calls without an answer: what they store, and what their caller does with the answer."""
        self._call_count = 0
        self._replica = self._start()

    def call(self, store: Callable[[], None], take_answer: Callable[[], None]) -> None:
        """Let somebody call until an answer comes.

        Args:
            store: The transaction; it must bear being repeated.
            take_answer: What the caller does once it was answered.
        """
        self._call_count += 1
        self._open[self._call_count] = store, take_answer
        self._send(self._call_count)

    def crash(self) -> None:
        """Kill the replica with everything under way; another one starts a while later."""
        if self._replica.alive:
            self._replica.alive = False
            self._after(self._context.settings.restart_s, self._people, self._restart)

    def _restart(self) -> None:
        self._replica = self._start()

    def _start(self) -> Process:
        self._replica_count += 1
        return Process(f"api{self._replica_count}")

    def _after(self, bounds: tuple[float, float], owner: Process, action: Callable[..., None], *what: object) -> None:
        self._context.agenda.after(float(self._rng.uniform(*bounds)), owner, action, *what)

    def _send(self, number: int) -> None:
        """Call, and call again if there is no answer in time."""
        if number not in self._open:
            return
        settings = self._context.settings
        self._after(settings.message_s, self._replica, self._take, number, self._replica)
        self._after(settings.dial_s, self._people, self._repeat, number)

    def _repeat(self, number: int) -> None:
        if number in self._open:
            self._context.counters["calls repeated"] += 1
            self._send(number)

    def _take(self, number: int, replica: Process) -> None:
        self._after(self._context.settings.transaction_s, self._context.store, self._commit, number, replica)

    def _commit(self, number: int, replica: Process) -> None:
        """Let the database take a call's transaction, unless its replica died before it was sent in full."""
        if number not in self._open or (not replica.alive and self._rng.random() < 0.5):
            return
        store, _ = self._open[number]
        store()
        self._after(self._context.settings.message_s, replica, self._answer, number)

    def _answer(self, number: int) -> None:
        self._after(self._context.settings.message_s, self._people, self._hear, number)

    def _hear(self, number: int) -> None:
        if number in self._open:
            _, take_answer = self._open.pop(number)
            take_answer()

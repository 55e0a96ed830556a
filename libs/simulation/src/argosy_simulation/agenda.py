"""Virtual time: what will happen, in order. Time jumps from one event to the next, so idle time costs nothing.

Events of one moment happen in the order in which they were put down, so a run is a function of its inputs alone. An
event belongs to a process; when that has died its events do not happen.

Source: design section 2 ("deterministic simulation of the whole mesh"); section 7, invariant 14.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from argosy_simulation.fingerprint import Fingerprint

__all__ = ["Agenda", "Process"]


class Process:
    """Somebody who acts; owner of events.

    Args:
        name: Unique name, part of the fingerprint.
    """

    def __init__(self, name: str) -> None:
        """Start alive."""
        self.name = name
        self.alive = True


class Agenda:
    """A heap of events in virtual time.

    Args:
        start_us: Microseconds since the Unix epoch at which time begins.
    """

    def __init__(self, start_us: int) -> None:
        """Start with nothing to do."""
        self.start_us = start_us
        self.now_us = start_us
        self.step_count = 0
        self.last_owner: Process | None = None
        """Whose event happened last."""
        self.fingerprint = Fingerprint()
        self._heap: list[tuple[int, int, Process, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    @property
    def now_s(self) -> float:
        """Seconds since the Unix epoch."""
        return self.now_us / 1e6

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return (self.now_us - self.start_us) / 1e6

    def __len__(self) -> int:
        """Return the number of events that are put down."""
        return len(self._heap)

    def after(self, delay_s: float, owner: Process, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Put down that a process does something after a delay in seconds."""
        self.at(self.now_us + round(delay_s * 1e6), owner, action, *arguments)

    def at(self, time_us: int, owner: Process, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Put down that a process does something at a moment, now if that is past."""
        self._number += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), self._number, owner, action, arguments))

    def step(self) -> bool:
        """Let the next event happen; return False if there is none."""
        heap = self._heap
        while heap:
            time_us, _, owner, action, arguments = heapq.heappop(heap)
            if owner.alive:
                self.now_us = time_us
                self.step_count += 1
                self.last_owner = owner
                self.fingerprint.note(time_us, owner.name, action.__name__, arguments)
                action(*arguments)
                return True
        return False

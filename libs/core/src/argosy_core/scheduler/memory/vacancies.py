"""Which runs have vacant places, and when each is tried next.

Source: decision 0023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

__all__ = ["HELD_MOST_S", "Vacancies", "Vacancy"]

HELD_MOST_S: Final = 600.0
"""How long the others of a run wait for one that finds no room, before the run is given up: longer than a node takes to
come back, and bounded, since they hold nodes meanwhile."""
_FIRST_AGAIN_S: Final = 1.0
_LAST_AGAIN_S: Final = 30.0


@dataclass(slots=True)
class Vacancy:
    """A run that waits for members."""

    lost_count: int
    """Its members that have failed or were lost when it was opened."""
    since_s: float
    """Since when it waits, seconds since the Unix epoch."""
    due_s: float
    """When it is tried next."""
    tried_count: int = 0
    """How often there was no room."""
    text: str = ""
    """Why there was none, for people."""


class Vacancies:
    """Runs with vacant places, by handle of their jobs."""

    def __init__(self) -> None:
        """Start without any."""
        self._of: dict[int, Vacancy] = {}

    def __len__(self) -> int:
        """Return how many runs have vacant places."""
        return len(self._of)

    def begin(self, handle: int, lost_count: int, due_s: float, now_s: float) -> None:
        """Note that a run has vacant places; one of which no more were lost since goes on waiting as it did."""
        known = self._of.get(handle)
        if known is None or known.lost_count != lost_count:
            self._of[handle] = Vacancy(lost_count, now_s, due_s)

    def drop(self, *handles: int) -> None:
        """Forget runs, if they are there."""
        for handle in handles if self._of else ():
            self._of.pop(handle, None)

    def get(self, handle: int) -> Vacancy | None:
        """Return what is known of a run, None if it has no vacant place."""
        return self._of.get(handle)

    def next_s(self) -> float:
        """Return when the next run is to be tried, or given up, seconds since the Unix epoch; infinite if none is."""
        return min((min(one.due_s, one.since_s + HELD_MOST_S) for one in self._of.values()), default=math.inf)

    def due(self, now_s: float) -> list[int]:
        """Return the handles of the runs to be tried now, those that have waited longest first."""
        due = [(one.since_s, handle) for handle, one in self._of.items() if one.due_s <= now_s]
        return [handle for _, handle in sorted(due)]

    def take_overdue(self, now_s: float) -> list[int]:
        """Return the handles of the runs that have waited for too long, and forget them."""
        over = [handle for handle, one in self._of.items() if one.since_s + HELD_MOST_S <= now_s]
        for handle in over:
            del self._of[handle]
        return over

    def put_off(self, handle: int, now_s: float, text: str) -> None:
        """Note that there was no room for a run; it is tried again, ever more seldom."""
        one = self._of.get(handle)
        if one is not None:
            one.due_s = now_s + min(_FIRST_AGAIN_S * 2.0 ** min(one.tried_count, 10), _LAST_AGAIN_S)
            one.tried_count, one.text = one.tried_count + 1, text

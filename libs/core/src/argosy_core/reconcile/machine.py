"""The life of one Kubernetes object of a run between the leader's row and the cluster, as a table.

    (phase, event) -> (phase, action)

`TRANSITIONS` is the whole life. The table of objects applies it to many objects at once and raises `InvalidTransition`,
with what happened to the object before, for an event that cannot happen in a phase. What the cluster shows and answers
may come late or twice, so such events stand in the table for each phase in which they can be met; the decisions of our
own stand where they are right and nowhere else. docs/executor.md draws the table and explains its words, and a test
compares them.

What an object *shows* (created, running, ended) is its state, which follows `RUN_TRANSITIONS`: a phase says whether it
is there, a state how far it has come.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true

__all__ = ["TRANSITIONS", "Action", "Event", "Phase", "look_up", "sight_events"]


class Phase(IntEnum):
    """Where an object stands between row and cluster."""

    FREE = 0
    """No object: its place in the table is free."""
    ABSENT = 1
    """It was not made yet, as far as is known."""
    CREATING = 2
    """Its creation was sent, the answer is not here."""
    PRESENT = 3
    """It is there."""
    DELETING = 4
    """Its deletion was accepted or sent."""
    VANISHED = 5
    """It was there and is gone, or should be there and is not; a call under way could still make it again."""
    GONE = 6
    """It was there and is gone for good, or it will never be made."""


class Event(IntEnum):
    """What happens to an object."""

    ADD = 0
    """The leader named it, or it was seen for the first time."""
    SEEN_FIRST = 1
    """The cluster shows it, and its uid was not known."""
    SEEN = 2
    """The cluster shows it, with the uid that is known."""
    SEEN_OTHER = 3
    """The cluster shows an object of its name with another uid."""
    REMOVED = 4
    """The cluster shows it as gone, or shows it no more."""
    REMOVED_OTHER = 5
    """The cluster shows an object of its name with another uid as gone."""
    CREATED = 6
    """Its creation was answered: it exists. So counts what must be there and cannot be looked at."""
    NOT_CREATED = 7
    """Its creation was refused, put off, or not answered."""
    NOT_DELETED = 8
    """Its deletion was not answered."""
    CREATE = 9
    """We send its creation."""
    DELETE = 10
    """We send its deletion."""
    HOLD = 11
    """It is not there, and a call could still make it."""
    CLOSE = 12
    """It is not there, and nothing can make it any more."""
    FORGET = 13
    """Its run is over and stored."""


class Action(IntEnum):
    """What follows from a transition."""

    NOTHING = 0
    """The event tells nothing new."""
    TAKE = 1
    """Take the state that it shows."""
    APPEAR = 2
    """It is there now: note since when, and take the state that it shows."""
    INTRUDE = 3
    """Its run is over: delete it."""
    CONCLUDE = 4
    """Find out how it ended; HOLD or CLOSE follows."""
    RETRY = 5
    """Wait, longer each time, and ask again."""
    CALL = 6
    """Send the call."""


def _transitions() -> dict[tuple[Phase, Event], tuple[Phase, Action]]:
    """Return the table."""
    free, absent, creating, present, deleting, vanished, gone = Phase
    table: dict[tuple[Phase, Event], tuple[Phase, Action]] = {
        (free, Event.ADD): (absent, Action.NOTHING),
        (absent, Event.SEEN_FIRST): (present, Action.APPEAR),
        (absent, Event.CREATED): (present, Action.APPEAR),
        (absent, Event.CREATE): (creating, Action.CALL),
        (creating, Event.SEEN_FIRST): (present, Action.APPEAR),
        (creating, Event.CREATED): (present, Action.APPEAR),
        (creating, Event.NOT_CREATED): (absent, Action.RETRY),
        (present, Event.SEEN_FIRST): (present, Action.TAKE),
        (present, Event.SEEN): (present, Action.TAKE),
        (present, Event.DELETE): (deleting, Action.CALL),
        (deleting, Event.SEEN_FIRST): (deleting, Action.TAKE),
        (deleting, Event.SEEN): (deleting, Action.TAKE),
        (deleting, Event.NOT_DELETED): (present, Action.RETRY),
        # It is the run's own: missed until now, or made again by a call that was under way.
        (vanished, Event.SEEN_FIRST): (present, Action.APPEAR),
        (vanished, Event.SEEN_OTHER): (present, Action.APPEAR),
        # Only an old list still shows what is known to be gone.
        (vanished, Event.SEEN): (vanished, Action.NOTHING),
        (gone, Event.FORGET): (free, Action.NOTHING),
    }
    for phase in (absent, creating, present, deleting, vanished):
        table[phase, Event.REMOVED] = (phase, Action.CONCLUDE)
        table[phase, Event.HOLD] = (vanished, Action.NOTHING)
        table[phase, Event.CLOSE] = (gone, Action.NOTHING)
    for phase in (present, deleting):
        # A copy of its name and labels by somebody else is not the object.
        table[phase, Event.SEEN_OTHER] = (phase, Action.NOTHING)
    for event in (Event.SEEN_FIRST, Event.SEEN, Event.SEEN_OTHER):
        table[gone, event] = (present, Action.INTRUDE)
    table[gone, Event.REMOVED] = (gone, Action.NOTHING)
    for phase in (present, deleting, vanished, gone):
        table[phase, Event.REMOVED_OTHER] = (phase, Action.NOTHING)
    for phase in (absent, present, deleting, vanished, gone):
        # The watch was faster than the answer.
        for event in (Event.CREATED, Event.NOT_CREATED, Event.NOT_DELETED):
            table.setdefault((phase, event), (phase, Action.NOTHING))
    return table


TRANSITIONS: Final[Mapping[tuple[Phase, Event], tuple[Phase, Action]]] = _transitions()
"""(phase before, event) -> (phase after, what follows)."""

_INVALID: Final = -1


def _as_arrays() -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return the table as two matrices by [phase, event]: phases after, and actions."""
    phases = np.full((len(Phase), len(Event)), _INVALID, dtype=np.int8)
    actions = np.zeros((len(Phase), len(Event)), dtype=np.int8)
    for (phase, event), (after, action) in TRANSITIONS.items():
        phases[phase, event], actions[phase, event] = after, action
    phases.flags.writeable = actions.flags.writeable = False
    return phases, actions


_PHASES, _ACTIONS = (matrix.reshape(-1) for matrix in _as_arrays())
"""By phase times number of events plus event: a matrix costs NumPy five times as much for a few elements."""
_PHASES_OF, _ACTIONS_OF = (tuple(np.ascontiguousarray(matrix.T)) for matrix in _as_arrays())
"""By event, then by phase."""
_EVENT_COUNT: Final = np.array(len(Event), dtype=np.int8)


def look_up(
    phases: npt.NDArray[np.int8], events: npt.NDArray[np.int8] | int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return (phases after, actions) of objects; a phase is negative where the event cannot happen.

    Args:
        phases: int8[n], phases before.
        events: int8[n], what happens to each, or one event for all.
    """
    if not isinstance(events, np.ndarray):
        return _PHASES_OF[events].take(phases), _ACTIONS_OF[events].take(phases)
    places = (phases * _EVENT_COUNT + events).astype(np.intp)
    return _PHASES[places], _ACTIONS[places]


_SEEN: Final = np.array([Event.SEEN_FIRST, Event.SEEN, Event.SEEN_OTHER], dtype=np.int8)
_REMOVED: Final = np.array([Event.REMOVED, Event.REMOVED, Event.REMOVED_OTHER], dtype=np.int8)
_ZERO: Final = np.array(0)


def sight_events(
    known: npt.NDArray[np.int64], uids: npt.NDArray[np.int64], gone: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int8], bool]:
    """Return what it means for objects that the cluster shows them, and whether any uid is another than is known.

    Args:
        known: int64[n, 2], uids that are known, zeros where none is.
        uids: int64[n, 2], uids that the cluster shows.
        gone: bool[n], the cluster shows it as gone.
    """
    differs = known != uids
    # 0 where no uid is known, 1 where it is the known one, 2 where it is another.
    relation = ((known[:, 0] | known[:, 1]) != _ZERO).view(np.int8)
    is_other = has_true(differs)
    if is_other:
        relation = relation + relation * (differs[:, 0] | differs[:, 1])
    events = _SEEN.take(relation)
    if has_true(gone):
        np.putmask(events, gone, _REMOVED.take(relation))
    return events, is_other

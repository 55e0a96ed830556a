"""Writes what pods may have at most on the pods themselves, for the sampler that comes after this one.

Source: docs/autoscale.md "Durable permits"; `argosy_core.ledger.permit_notes`.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from argosy_core.errors import BackendUnavailable
from argosy_core.ledger import PermitNote
from argosy_kube.notes_port import PodNotes
from argosy_kube.port import Change, ObjectEvents
from argosy_runtime.logs import Logger

__all__ = ["NoteWriter"]

_TOLD_EVERY: Final = 100
"""One of so many failures in a row is told."""


class NoteWriter:
    """Writes notes.

    Args:
        notes: The cluster.
        log: Where failures are told.
    """

    def __init__(self, notes: PodNotes, *, log: Logger) -> None:
        """Know of no pod."""
        self._notes = notes
        self._log = log
        self._places: dict[bytes, tuple[str, str]] = {}
        self._failure_count = 0

    def see(self, events: ObjectEvents) -> None:
        """Learn the names of pods that are resized, and forget those that went."""
        for at in (events.change_column == Change.DELETED).nonzero()[0].tolist() if self._places else ():
            self._places.pop(events.uid_column[at].tobytes(), None)
        for at, scaling in events.scalings.items():
            if events.change_column[at] != Change.DELETED:
                self._places[events.uid_column[at].tobytes()] = scaling.note.namespace, scaling.note.name

    async def write(self, note: PermitNote) -> str | None:
        """Write a note, and return the one that the pod then has; None if that is not known."""
        place = self._places.get(note.uid)
        if place is None:
            return None
        try:
            found = await self._notes.write(place, str(UUID(bytes=note.uid)), before=note.before, after=note.after)
        except BackendUnavailable as error:
            if self._failure_count % _TOLD_EVERY == 0:
                self._log.warning("permit not noted: the pod does not grow", pod=place[1], reason=error.message)
            self._failure_count += 1
            return None
        self._failure_count = 0
        return found

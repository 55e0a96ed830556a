"""Where inputs come from, so that one which ends a term is set aside by the next.

Before a term ends on an error that nobody foresaw, its shell stores what was being applied as *suspect*. The next term
does not meet it again: a suspect change is not read and its jobs stay aside, a record goes to quarantine, a class is
not asked for, a job is not loaded, a cluster's session is refused. An operator lets it in again.

Source: design section 7, invariant 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from argosy_core.leader.events import Origin, OriginKind, Session

__all__ = ["Blame", "origins_of", "session_origin"]


def session_origin(session: Session) -> Origin:
    """Return what stands for everything that a session says."""
    return Origin(OriginKind(session.role.value), session.cluster)


def origins_of(kind: OriginKind, keys: Iterable[int]) -> tuple[Origin, ...]:
    """Return the origins of one kind."""
    return tuple(Origin(kind, str(key)) for key in keys)


class Blame:
    """Whose input is being applied; after an error, whose it was."""

    def __init__(self) -> None:
        """Start with nobody."""
        self.origins: tuple[Origin, ...] = ()
        """Who is to blame for the error that was raised, by the narrowest word on it; empty if there is none."""
        self._is_decided = False

    @contextmanager
    def of(self, *origins: Origin) -> Iterator[None]:
        """Apply the input of these; if that fails, they are to blame unless somebody within was already."""
        try:
            yield
        except Exception:
            self.decide(origins)
            raise

    def decide(self, origins: Iterable[Origin]) -> None:
        """Blame these, unless somebody was blamed before."""
        if not self._is_decided:
            self._is_decided, self.origins = True, tuple(origins)

    @contextmanager
    def of_any(self, parts: Iterable[tuple[Origin, Callable[[], object]]]) -> Iterator[None]:
        """Apply the inputs of several at once; if that fails, those are to blame whose part fails alone, too.

        The memory is of no use after an error, so the parts are tried on it as it is.

        Args:
            parts: (whose, what applies that part alone).
        """
        try:
            yield
        except Exception:
            if not self._is_decided:
                tried = list(parts)
                guilty = [origin for origin, apply in tried if _fails(apply)]
                self.decide(dict.fromkeys(guilty or [origin for origin, _ in tried]))
            raise


def _fails(apply: Callable[[], object]) -> bool:
    try:
        apply()
    except Exception:  # noqa: BLE001 - whatever it is, this part is what raises it
        return True
    return False

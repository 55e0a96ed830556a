"""Where our objects are by uid, so that they can be deleted without asking.

A pod costs about 200 bytes: namespace and base name are kept once for all runs, and the rest of the name follows from
the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from argosy_kube.kubernetes.documents import Metadata
from argosy_kube.kubernetes.resources import Resource

__all__ = ["Place", "PlaceBook", "run_suffix"]

_DIGITS: Final = "abcdefghijklmnopqrstuvwxyz234567"
_SHIFTS: Final = tuple(range(50, -1, -5))
_SPARE_STEMS: Final = 1000


def run_suffix(handle: int, attempt: int) -> str:
    """Return the suffix of the names of a run's objects, as `argosy_core.job.naming` makes it, without an array."""
    return f"-{''.join([_DIGITS[(handle >> shift) & 31] for shift in _SHIFTS])}-{attempt}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    resource: Resource
    """Its kind."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""


class PlaceBook:
    """Places by uid."""

    def __init__(self) -> None:
        """Know none."""
        self._stems: list[Place] = []
        self._stem_of: dict[Place, int] = {}
        self._known: dict[bytes, int] = {}
        self._fresh: dict[bytes, int] | None = None

    def __len__(self) -> int:
        """Return how many are known."""
        return len(self._known)

    @property
    def stem_count(self) -> int:
        """How many base names are kept."""
        return len(self._stems)

    def begin_list(self) -> None:
        """Note that a list begins: what is not added from now on was not there."""
        self._fresh = {}

    def end_list(self) -> None:
        """Forget what was not seen since `begin_list`."""
        if self._fresh is not None:
            self._known, self._fresh = self._fresh, None
            if len(self._stems) > 2 * len(self._known) + _SPARE_STEMS:
                self._compact()

    def _compact(self) -> None:
        """Forget base names that nothing has any more."""
        used = sorted({value >> 1 for value in self._known.values()})
        moved = {old: new for new, old in enumerate(used)}
        self._stems = [self._stems[old] for old in used]
        self._stem_of = {place: index for index, place in enumerate(self._stems)}
        self._known = {uid: moved[value >> 1] << 1 | (value & 1) for uid, value in self._known.items()}

    def drop_list(self) -> None:
        """Note that a list failed: nothing is forgotten."""
        self._fresh = None

    def add(self, uid: bytes, resource: Resource, metadata: Metadata, run: tuple[int, int, int]) -> None:
        """Note where an object is."""
        name = metadata.name
        suffix = run_suffix(run[0], run[1])
        stem, is_whole = (name.removesuffix(suffix), 0) if name.endswith(suffix) else (name, 1)
        place = Place(resource, metadata.namespace, stem)
        index = self._stem_of.get(place)
        if index is None:
            index = self._stem_of[place] = len(self._stems)
            self._stems.append(place)
        self._known[uid] = index << 1 | is_whole
        if self._fresh is not None:
            self._fresh[uid] = index << 1 | is_whole

    def find(self, uid: bytes, handle: int, attempt: int) -> Place | None:
        """Return where an object of a run is, or None if that is not known."""
        found = self._known.get(uid)
        if found is None:
            return None
        stem = self._stems[found >> 1]
        if found & 1:
            return stem
        return Place(stem.resource, stem.namespace, stem.name + run_suffix(handle, attempt))

    def remove(self, uid: bytes) -> None:
        """Forget an object."""
        self._known.pop(uid, None)
        if self._fresh is not None:
            self._fresh.pop(uid, None)

"""Where our objects are by uid, and of which run, so that they can be deleted without asking and known without labels.

A pod costs about 200 bytes: namespace and base name are kept once for all runs, and the rest of the name follows from
the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from argosy_core.job.reading.naming import run_suffix
from argosy_core.job.tables.members import attempt_of, member_of, ordinal_of
from argosy_kube.kubernetes.api.documents import Metadata
from argosy_kube.kubernetes.api.resources import Resource

__all__ = ["Place", "PlaceIndex"]

_SPARE_STEMS: Final = 1000
_POSITION_BITS: Final = 15
_ATTEMPT_BITS: Final = 15
_NUMBER_BITS: Final = 2 * _ATTEMPT_BITS
"""Attempt and member of a run."""
_HANDLE_BITS: Final = 55
_RUN_BITS: Final = _POSITION_BITS + _NUMBER_BITS + _HANDLE_BITS
# What is kept of an object is one number: index of its base name, run, position, and whether the name is whole.


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    resource: Resource
    """Its kind."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""


class PlaceIndex:
    """Places by uid."""

    def __init__(self) -> None:
        """Know none."""
        self._stems: list[Place] = []
        self._stem_of: dict[Place, int] = {}
        self._known: dict[bytes, int] = {}
        self._fresh: dict[bytes, int] | None = None
        self._ending: set[bytes] = set()

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
            self._ending &= self._known.keys()
            if len(self._stems) > 2 * len(self._known) + _SPARE_STEMS:
                self._compact()

    def _compact(self) -> None:
        """Forget base names that nothing has any more."""
        used = sorted({value >> (_RUN_BITS + 1) for value in self._known.values()})
        moved = {old: new for new, old in enumerate(used)}
        rest = (1 << (_RUN_BITS + 1)) - 1
        self._stems = [self._stems[old] for old in used]
        self._stem_of = {place: index for index, place in enumerate(self._stems)}
        self._known = {
            uid: moved[value >> (_RUN_BITS + 1)] << (_RUN_BITS + 1) | (value & rest)
            for uid, value in self._known.items()
        }

    def drop_list(self) -> None:
        """Note that a list failed: nothing is forgotten."""
        self._fresh = None

    def unseen(self) -> dict[Resource, list[bytes]]:
        """Return the uids, by kind, of the objects that were known before the list under way and are not in it."""
        fresh = self._fresh
        missing: dict[Resource, list[bytes]] = {}
        for uid in [uid for uid in self._known if uid not in fresh] if fresh is not None else ():
            missing.setdefault(self._stems[self._known[uid] >> (_RUN_BITS + 1)].resource, []).append(uid)
        return missing

    def keep(self, resource: Resource) -> None:
        """Let the list under way not forget what was known of a kind: nobody can look at it."""
        if self._fresh is not None:
            self._fresh |= {uid: self._known[uid] for uid in self.unseen().get(resource, ())}

    def add(self, uid: bytes, resource: Resource, metadata: Metadata, run: tuple[int, int, int]) -> None:
        """Note where an object of a run, (handle, ordinal, position), is."""
        name = metadata.name
        suffix = run_suffix(run[0], run[1])
        stem, is_whole = (name.removesuffix(suffix), 0) if name.endswith(suffix) else (name, 1)
        place = Place(resource, metadata.namespace, stem)
        index = self._stem_of.get(place)
        if index is None:
            index = self._stem_of[place] = len(self._stems)
            self._stems.append(place)
        number = member_of(run[1]) << _ATTEMPT_BITS | attempt_of(run[1])
        whose = ((index << _HANDLE_BITS | run[0]) << _NUMBER_BITS | number) << _POSITION_BITS | run[2]
        self._known[uid] = whose << 1 | is_whole
        if self._fresh is not None:
            self._fresh[uid] = whose << 1 | is_whole

    def find(self, uid: bytes) -> Place | None:
        """Return where an object is, or None if that is not known."""
        found = self._known.get(uid)
        if found is None:
            return None
        stem = self._stems[found >> (_RUN_BITS + 1)]
        if found & 1:
            return stem
        handle, ordinal, _ = _run(found)
        return Place(stem.resource, stem.namespace, stem.name + run_suffix(handle, ordinal))

    def run_of(self, uid: bytes) -> tuple[int, int, int] | None:
        """Return (handle, ordinal, position) of an object, or None if that is not known."""
        found = self._known.get(uid)
        return None if found is None else _run(found)

    def expect_end(self, uid: bytes) -> None:
        """Note that we delete an object: that it is told as gone is no surprise."""
        if uid in self._known:
            self._ending.add(uid)

    def expect_no_end(self, uid: bytes) -> None:
        """Note that an object could not be deleted."""
        self._ending.discard(uid)

    def is_ending(self, uid: bytes) -> bool:
        """Return whether we delete an object."""
        return uid in self._ending

    def remove(self, uid: bytes) -> None:
        """Forget an object."""
        self._known.pop(uid, None)
        self._ending.discard(uid)
        if self._fresh is not None:
            self._fresh.pop(uid, None)


def _run(value: int) -> tuple[int, int, int]:
    value >>= 1
    number = value >> _POSITION_BITS & ((1 << _NUMBER_BITS) - 1)
    return (
        value >> (_NUMBER_BITS + _POSITION_BITS) & ((1 << _HANDLE_BITS) - 1),
        ordinal_of(number & ((1 << _ATTEMPT_BITS) - 1), number >> _ATTEMPT_BITS),
        value & ((1 << _POSITION_BITS) - 1),
    )

"""Members of runs: what is placed on one node.

A run is one attempt at a job and has one member or several, each on a node: today the whole bag is member 0. A member's
key is two int64 columns, the job's handle and the *ordinal*, `member << 32 | attempt`, packed here and nowhere else;
the ordinal of member 0 is its attempt. Neither part wraps: what does not fit is refused.

A member that is lost may be replaced while the others run. Its *number* is its *place* among the members of its run,
and above that how many were in that place before it: `replacement << 10 | place`. So a replacement is a member of its
own wherever members are kept, and whoever asks what it is for asks for its place.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, run_sizes, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.key_index import KeyIndex

__all__ = [
    "MAX_ATTEMPT",
    "MAX_MEMBER",
    "MAX_PLACE_COUNT",
    "MAX_REPLACEMENT",
    "MAX_STORED_ATTEMPT",
    "MemberSet",
    "Members",
    "attempt_of",
    "member_key",
    "member_of",
    "number_of",
    "ordinal_of",
    "place_of",
    "replacement_of",
    "waves",
]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
_Numbers = TypeVar("_Numbers", int, Int64s, npt.NDArray[np.int16])
Positions = npt.NDArray[np.integer] | Bools | slice

_MEMBER_SHIFT: Final = 32
_ATTEMPT_MASK: Final = (1 << _MEMBER_SHIFT) - 1
MAX_ATTEMPT: Final = (1 << 31) - 1
"""Highest attempt: what an int32 column holds."""
MAX_STORED_ATTEMPT: Final = (1 << 15) - 1
"""Highest attempt that the store's rows hold: a job that got so far fails."""
MAX_MEMBER: Final = (1 << 15) - 1
"""Highest number of a member in its run: what an int16 column holds."""
_PLACE_BITS: Final = 10
MAX_PLACE_COUNT: Final = 1 << _PLACE_BITS
"""Most places of a run."""
MAX_REPLACEMENT: Final = MAX_MEMBER >> _PLACE_BITS
"""Highest number of a replacement in its place; the first member there has 0."""
# Arrays, for the reason given in `key_index`.
_SHIFT: Final = np.array(_MEMBER_SHIFT)
_MASK: Final = np.array(_ATTEMPT_MASK)
_NO_ATTEMPT: Final = np.array(~MAX_ATTEMPT)
_NO_MEMBER: Final = np.array(~MAX_MEMBER)
_SPREAD: Final = np.array(0x1E3779B97F4A7C15)


def member_key(handle: int, attempt: int, member: int = 0) -> tuple[int, int]:
    """Return the key of one member, as `Members.pairs` gives it."""
    return handle, ordinal_of(attempt, member)


def ordinal_of(attempt: int, member: int = 0) -> int:
    """Return attempt and member of a run as one number, which is the attempt for member 0."""
    return member << _MEMBER_SHIFT | attempt


def attempt_of(ordinal: _Numbers) -> _Numbers:
    """Return the attempt that an ordinal stands for, or those of many."""
    return ordinal & _ATTEMPT_MASK


def member_of(ordinal: _Numbers) -> _Numbers:
    """Return the number of the member that an ordinal stands for, or those of many."""
    return ordinal >> _MEMBER_SHIFT


def number_of(place: _Numbers, replacement: _Numbers) -> _Numbers:
    """Return the number of a member in its run, or those of many, by place and by how many were there before."""
    return replacement << _PLACE_BITS | place


def place_of(number: _Numbers) -> _Numbers:
    """Return the place in its run that a member's number stands for, or those of many."""
    return number & (MAX_PLACE_COUNT - 1)


def replacement_of(number: _Numbers) -> _Numbers:
    """Return how many members were in a member's place before it, or those of many."""
    return number >> _PLACE_BITS


@dataclass(frozen=True, slots=True)
class Members:
    """Keys of n members as two columns."""

    handle: Int64s
    """(n,) job handles."""
    ordinal: Int64s
    """(n,) attempt and member; 0 stands for no run."""

    @classmethod
    def of(
        cls, handles: npt.ArrayLike, attempts: npt.ArrayLike, members: npt.NDArray[np.integer] | int | None = 0
    ) -> Members:
        """Pack keys.

        Args:
            handles: n job handles.
            attempts: n attempts.
            members: n numbers of members in their runs, or one for all; None is 0.

        Raises:
            InvalidRequest: A part is negative or higher than its column holds.
        """
        handle = np.asarray(handles, dtype=np.int64)
        attempt = np.asarray(attempts, dtype=np.int64)
        member = members.astype(np.int64, copy=False) if isinstance(members, np.ndarray) else members or 0
        # Both limits are all ones in binary: what is negative or too high has bits above them.
        wrong_bits = attempt & _NO_ATTEMPT
        if not isinstance(members, int) or members:
            wrong_bits = wrong_bits | member & _NO_MEMBER
        if np.count_nonzero(wrong_bits):
            for name, part, highest in (("attempt", attempt, MAX_ATTEMPT), ("member", np.asarray(member), MAX_MEMBER)):
                for wrong in part[(part < 0) | (part > highest)].flat[:1]:
                    raise InvalidRequest(f"{name} {wrong} of a run is not between 0 and {highest}")
        ordinal = attempt.copy() if isinstance(member, int) and not member else member << _SHIFT | attempt
        return cls(handle, ordinal)

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[int, int]]) -> Members:
        """Return members by their (handle, ordinal), as `pairs` gives them."""
        columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]))

    @classmethod
    def of_key(cls, key: tuple[int, int]) -> Members:
        """Return one member by its key."""
        return cls(np.array(key[:1], dtype=np.int64), np.array(key[1:], dtype=np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Members]) -> Members:
        """Return the members of at least one part after the other."""
        return cls(np.concatenate([part.handle for part in parts]), np.concatenate([part.ordinal for part in parts]))

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.handle)

    def __getitem__(self, positions: Positions) -> Members:
        """Return some of the members."""
        return Members(self.handle[positions], self.ordinal[positions])

    @property
    def columns(self) -> tuple[Int64s, Int64s]:
        """Return both columns, as a `KeyIndex` of width 2 takes them."""
        return self.handle, self.ordinal

    @property
    def attempt(self) -> Int32s:
        """Return the attempts as int32[n]."""
        attempt: Int32s = (self.ordinal & _MASK).astype(np.int32)
        return attempt

    @property
    def member(self) -> npt.NDArray[np.int16]:
        """Return the number of each member in its run as int16[n]."""
        member: npt.NDArray[np.int16] = (self.ordinal >> _SHIFT).astype(np.int16)
        return member

    def numbers(self) -> npt.NDArray[np.int16] | None:
        """Return the number of each member in its run, None if all are 0: nearly all runs have one member."""
        return self.member if has_true(self.ordinal > _ATTEMPT_MASK) else None

    def pairs(self) -> list[tuple[int, int]]:
        """Return the keys as pairs, for the few that are looked at one by one."""
        return list(zip(self.handle.tolist(), self.ordinal.tolist(), strict=True))

    def equal(self, others: Members) -> Bools:
        """Return where two lists of the same length have the same member."""
        same: Bools = (self.handle == others.handle) & (self.ordinal == others.ordinal)
        return same

    def are_distinct(self) -> bool:
        """Return whether no member stands twice. Complexity: one sort of n numbers, mostly."""
        mixed = self.handle ^ self.ordinal * _SPREAD
        mixed.sort()
        return not np.count_nonzero(mixed[1:] == mixed[:-1]) or len(self.distinct()) == len(self)

    def distinct(self) -> Members:
        """Return each member once, sorted by handle, member and attempt."""
        if len(self) < 2:
            return self
        ordered = self[np.lexsort((self.ordinal, self.handle))]
        return ordered[np.concatenate([[True], ~ordered[1:].equal(ordered[:-1])])]

    def is_in(self, others: Members) -> Bools:
        """Return which members stand among others. Complexity: O(n + m), and one sort of the others."""
        found = MemberSet()
        found.add(others)
        return found.has(self)

    def waves(self) -> list[npt.NDArray[np.intp]]:
        """Return positions in groups: each member at most once per group, repeated ones in order."""
        if self.are_distinct():
            return [np.arange(len(self))]
        index = KeyIndex(2)
        distinct = self.distinct()
        index.insert(*distinct.columns, slots=np.arange(len(distinct), dtype=np.int32))
        return waves(index.lookup(*self.columns))


class MemberSet:
    """A set of members, changed in bulk."""

    def __init__(self) -> None:
        """Start empty."""
        self._index = KeyIndex(2)

    def __len__(self) -> int:
        """Return how many members are in it."""
        return len(self._index)

    def has(self, members: Members) -> Bools:
        """Return which members are in it."""
        if not len(self._index):
            return np.zeros(len(members), np.bool_)
        found: Bools = self._index.lookup(*members.columns) >= 0
        return found

    def add(self, members: Members) -> None:
        """Put members in, those that are in it and repeated ones included."""
        if not len(members):
            return
        fresh = members if members.are_distinct() else members.distinct()
        if len(self._index):
            fresh = fresh[~self.has(fresh)]
        self._index.insert(*fresh.columns, slots=np.zeros(len(fresh), np.int32))

    def discard(self, members: Members) -> None:
        """Take members out, whether they are in it or not."""
        if len(self._index) and len(members):
            self._index.remove(*(members if members.are_distinct() else members.distinct()).columns)

    def keep(self, members: Members) -> None:
        """Take out whatever is not among some members."""
        kept = members[self.has(members)]
        self._index.clear()
        self.add(kept)


def waves(values: npt.NDArray[np.integer]) -> list[npt.NDArray[np.intp]]:
    """Return positions in groups: each value at most once per group, repeated values in order.

    Complexity: O(n log n) in NumPy; as many groups as the most frequent value has elements.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if values.size else np.zeros(0, dtype=np.bool_)
    if first.all():
        return [np.arange(values.size)] if values.size else []
    starts = true_places(first)
    turn = np.arange(values.size) - np.repeat(starts, run_sizes(starts, values.size))
    return [np.sort(order[turn == index]) for index in range(int(turn.max()) + 1)]

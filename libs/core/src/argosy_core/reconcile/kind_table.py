"""Kinds of objects as small numbers.

Whoever submits may name kinds that no cluster has, so those that no object has any more are forgotten.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["POD_KIND", "KindTable"]

POD_KIND: Final = "Pod"
"""Kind number 0."""
_MANY_KINDS: Final = 1024
_MOST_KINDS: Final = 30_000
_OTHER_KIND: Final = "other"
"""Kind of objects that come when there are too many to name; nothing that a cluster has is called so."""

Int16Array = npt.NDArray[np.int16]


class KindTable:
    """Names of kinds by number, and which of them cannot be listed now."""

    def __init__(self) -> None:
        """Start with pods."""
        self.names: list[str] = [POD_KIND]
        """Kinds by number."""
        self.unlistable: tuple[str, ...] = ()
        """Kinds that cannot be listed now, see Observations."""
        self._numbers: dict[str, int] = {POD_KIND: 0}
        self._limit = _MANY_KINDS

    def is_full(self, kinds: list[str]) -> bool:
        """Return whether `shrink` should come before some kinds are numbered."""
        return len(self.names) >= self._limit and any(kind not in self._numbers for kind in kinds)

    def number(self, kind: str) -> int:
        """Return the number of a kind, adding it if it is new."""
        if kind not in self._numbers and len(self.names) >= _MOST_KINDS:
            kind = _OTHER_KIND
        found = self._numbers.setdefault(kind, len(self.names))
        if found == len(self.names):
            self.names.append(kind)
        return found

    def shrink(self, kinds: Int16Array) -> Int16Array:
        """Forget the kinds that no object has but pods; return the objects' new numbers.

        Args:
            kinds: Number of each object's kind.
        """
        used = np.unique(np.append(kinds, 0))
        renumbered = np.zeros(len(self.names), dtype=np.int16)
        renumbered[used] = np.arange(used.size)
        self.names = [self.names[number] for number in used.tolist()]
        self._numbers = {kind: number for number, kind in enumerate(self.names)}
        self._limit = max(_MANY_KINDS, 2 * len(self.names))
        return renumbered[kinds]

    def are_unlistable(self, kinds: Int16Array) -> npt.NDArray[np.bool_]:
        """Return which of some objects are of kinds that cannot be listed now.

        Args:
            kinds: Number of each object's kind.
        """
        if not self.unlistable:
            return np.zeros(kinds.size, dtype=np.bool_)
        unlistable = frozenset(self.unlistable)
        flags = [kind in unlistable or f"*.{kind.partition('.')[2]}" in unlistable for kind in self.names]
        found: npt.NDArray[np.bool_] = np.array(flags, dtype=np.bool_)[kinds]
        return found

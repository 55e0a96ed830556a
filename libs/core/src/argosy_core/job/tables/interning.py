"""Interned side tables of live jobs: values that many jobs share are held once and counted.

Source: design section 6, "Data layout"; section 4, "identical jobs share it; never copied".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.retry_rules import RetryRules

__all__ = ["ChargedTable", "InternTable", "Layout", "SpecTable", "distinct"]

_FEW: Final = 64
_MAX_SPAN: Final = 1 << 16
_PARSED_LAYOUTS: Final = 4096
"""Layouts kept in parsed form."""


def distinct(values: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct values in order of first appearance, and for each element its position among them.

    Args:
        values: int[n], any integers.

    Complexity: O(n) in NumPy if the values lie close together, O(n log n) if not; of few values O(n) in Python, which
    costs a fifth.
    """
    if values.size <= _FEW:
        places: dict[int, int] = {}
        positions = [places.setdefault(value, len(places)) for value in values.tolist()]
        return np.array(list(places), dtype=np.int64), np.array(positions, dtype=np.int64)
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span <= _MAX_SPAN:
        shifted = values.astype(np.int64) - lowest
        place = np.empty(span, dtype=np.int64)
        place[shifted[::-1]] = np.arange(values.size - 1, -1, -1)  # of equal values the first is written last
        firsts = (place[shifted] == np.arange(values.size)).nonzero()[0]
        place[shifted[firsts]] = np.arange(firsts.size)
        return values[firsts].astype(np.int64), place[shifted]
    found, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    return found[order].astype(np.int64), position[inverse].astype(np.int64)


class InternTable:
    """Byte strings by small integers, with reference counts; an index is free again when its count falls to 0."""

    def __init__(self) -> None:
        """Start empty."""
        self._index: dict[bytes, int] = {}
        self._values: list[bytes] = []
        self._counts = np.zeros(64, dtype=np.int64)
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the number of values held."""
        return len(self._index)

    def intern(self, values: Sequence[bytes]) -> npt.NDArray[np.int32]:
        """Return the index of each value, adding what is new with a count of 0.

        A value whose count stays 0 is kept until `release` or `forget_unused` meets it.
        """
        find, add = self._index.get, self.add
        result: list[int] = []
        for value in values:
            index = find(value)
            result.append(add(value) if index is None else index)
        return np.array(result, dtype=np.int32)

    def add(self, value: bytes) -> int:
        """Give a value that is not held an index, with a count of 0."""
        if self._free:
            index = self._free.pop()
            self._values[index] = value
        else:
            index = len(self._values)
            self._values.append(value)
            if index >= self._counts.size:
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._index[value] = index
        self._counts[index] = 0
        return index

    def find(self, value: bytes) -> int | None:
        """Return the index of a value, or None."""
        return self._index.get(value)

    def value(self, index: int) -> bytes:
        """Return the value of an index."""
        return self._values[index]

    def count(self, index: int) -> int:
        """Return how many references an index has."""
        return int(self._counts[index])

    def acquire(self, indices: npt.NDArray[np.int32]) -> None:
        """Count one reference per element; elements of -1 count nothing."""
        np.add.at(self._counts, indices[indices >= 0], 1)

    def release(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Take one reference back per element and forget values without any; return the indices forgotten."""
        used = indices[indices >= 0]
        if used.size == 0:
            return np.zeros(0, dtype=np.int64)
        np.subtract.at(self._counts, used, 1)
        return self.forget_unused(used)

    def forget_unused(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Forget those of the given indices that have no reference; return them."""
        touched = np.unique(indices[indices >= 0])
        gone = touched[self._counts[touched] <= 0].astype(np.int64)
        for index in gone.tolist():
            self._forget_value(index)
        return gone

    def _forget_value(self, index: int) -> None:
        del self._index[self._values[index]]
        self._values[index] = b""
        self._free.append(index)


class ChargedTable(InternTable):
    """An intern table in which each value counts for an owner, who may have values of a bounded size altogether.

    A value counts for whoever brings it first, as long as anybody refers to it.
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._owner = np.full(64, -1, dtype=np.int32)
        self._bytes: dict[int, int] = {}

    def bytes_of(self, owner: int) -> int:
        """Return the size of the values that count for an owner."""
        return self._bytes.get(owner, 0)

    def charge(
        self, indices: npt.NDArray[np.int32], owners: npt.NDArray[np.int32], most_bytes: int | None
    ) -> npt.NDArray[np.bool_]:
        """Have values that count for nobody count for who brings them; return the elements whose value is too large.

        Args:
            indices: (n,) values, held already or just added; -1 for none.
            owners: (n,) who brings each, 0 or more.
            most_bytes: How much an owner may have; None for any amount.

        Complexity: O(n) in NumPy, Python work per value that counts for nobody.
        """
        if len(self._values) > self._owner.size:
            more = np.full(max(len(self._values), 2 * self._owner.size) - self._owner.size, -1, dtype=np.int32)
            self._owner = np.concatenate([self._owner, more])
        brought = (indices >= 0) & (self._owner[indices] < 0)
        if not np.count_nonzero(brought):
            return brought
        refused: list[int] = []
        fresh, places = np.unique(indices[brought], return_index=True)
        for index, owner in zip(fresh.tolist(), owners[brought][places].tolist(), strict=True):
            size = self.bytes_of(owner) + len(self.value(index))
            if most_bytes is not None and size > most_bytes:
                refused.append(index)
                continue
            self._owner[index], self._bytes[owner] = owner, size
        return np.isin(indices, refused)

    def _forget_value(self, index: int) -> None:
        owner = int(self._owner[index]) if index < self._owner.size else -1
        if owner >= 0:
            self._owner[index] = -1
            self._bytes[owner] -= len(self.value(index))
            if not self._bytes[owner]:
                del self._bytes[owner]
        super()._forget_value(index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The objects of a bag, pods last."""

    kinds: tuple[str, ...]
    """Kubernetes kinds."""
    names: tuple[str, ...]
    """Names in the user's manifests."""
    pod_count: int
    """How many of them are pods; these stand at the end."""
    rules: RetryRules | None = None
    """What the spec says of runs that fail; None for nothing."""

    @staticmethod
    def parse(text: bytes) -> Layout:
        """Return the layout written as JSON [[kind, name], ...], and behind them the rules for retries, if any.

        Raises:
            ValueError: The text is no layout, has no pod, or has pods before other objects.
        """
        try:
            entries = json.loads(text)
            rules = RetryRules.parse(entries.pop()) if entries and type(entries[-1]) is dict else None
            rows = [(str(kind), str(name)) for kind, name in entries]
        except (TypeError, AttributeError, KeyError, RecursionError) as cause:
            raise ValueError(f"not a layout: {text[:80]!r}") from cause
        kinds = tuple(kind for kind, _ in rows)
        pod_count = kinds.count("Pod")
        if not pod_count or any(kind == "Pod" for kind in kinds[: len(kinds) - pod_count]):
            raise ValueError(f"not a layout with its pods last: {text[:80]!r}")
        return Layout(kinds=kinds, names=tuple(name for _, name in rows), pod_count=pod_count, rules=rules)


class SpecTable:
    """Spec references with reference counts: (hash, day) and the layout of the bag; equal layouts are held once."""

    def __init__(self) -> None:
        """Start empty."""
        self._keys = InternTable()
        self._layouts = InternTable()
        self._layout_of = np.zeros(64, dtype=np.int32)
        self._object_counts = np.zeros(64, dtype=np.int16)
        self._pod_counts = np.zeros(64, dtype=np.int16)
        self._parsed: dict[bytes, Layout] = {}
        self.has_rules = False
        """Whether a spec with rules for retries was ever held: most pools have none, and need not look."""

    def __len__(self) -> int:
        """Return the number of spec references held."""
        return len(self._keys)

    def intern(self, references: Sequence[tuple[bytes, int, bytes]]) -> npt.NDArray[np.int32]:
        """Return the index of each spec reference, adding without references what is new.

        Args:
            references: (16 bytes of hash, day of its row in days since the Unix epoch, layout as JSON).

        Raises:
            ValueError: A layout is malformed; what stands before it was added.
            OverflowError: A day is none.

        Complexity: about half a microsecond of Python for a known spec, one for a new one with a known layout.
        """
        result: list[int] = []
        fresh: list[int] = []
        layouts: list[bytes] = []
        keys = self._keys
        try:
            for spec_hash, day, layout in references:
                key = spec_hash + day.to_bytes(4, "little")
                index = keys.find(key)
                if index is None:
                    self._parse(layout)
                    index = keys.add(key)
                    fresh.append(index)
                    layouts.append(layout)
                result.append(index)
        finally:
            if fresh:
                self._set_layouts(fresh, layouts)
        return np.array(result, dtype=np.int32)

    def _set_layouts(self, indices: list[int], texts: list[bytes]) -> None:
        """Write down the layouts of new specs."""
        while max(indices) >= self._layout_of.size:
            self._layout_of = np.concatenate([self._layout_of, np.zeros_like(self._layout_of)])
            self._object_counts = np.concatenate([self._object_counts, np.zeros_like(self._object_counts)])
            self._pod_counts = np.concatenate([self._pod_counts, np.zeros_like(self._pod_counts)])
        layout_indices = self._layouts.intern(texts)
        self._layouts.acquire(layout_indices)
        parsed = [self._parse(text) for text in texts]
        self.has_rules |= any(layout.rules is not None for layout in parsed)
        self._layout_of[indices] = layout_indices
        self._object_counts[indices] = [len(layout.kinds) for layout in parsed]
        self._pod_counts[indices] = [layout.pod_count for layout in parsed]

    def acquire(self, indices: npt.NDArray[np.int32]) -> None:
        """Count one reference per element."""
        self._keys.acquire(indices)

    def release(self, indices: npt.NDArray[np.int32]) -> None:
        """Take one reference back per element and forget what has none."""
        self._forget(self._keys.release(indices))

    def forget_unused(self, indices: npt.NDArray[np.int32]) -> None:
        """Forget those of the given indices that have no reference."""
        self._forget(self._keys.forget_unused(indices))

    def _forget(self, gone: npt.NDArray[np.int64]) -> None:
        if gone.size:
            self._layouts.release(self._layout_of[gone])

    def reference(self, index: int) -> tuple[bytes, int, bytes]:
        """Return (hash, day, layout text) of a spec."""
        key = self._keys.value(index)
        return key[:16], int.from_bytes(key[16:], "little"), self._layouts.value(int(self._layout_of[index]))

    def layout(self, layout_id: int) -> Layout:
        """Return a layout by its id, as `layout_ids` gives it."""
        return self._parse(self._layouts.value(layout_id))

    def layout_ids(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the layout id of each spec."""
        return self._layout_of[indices]

    def object_counts(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
        """Return how many objects the bag of each spec has."""
        return self._object_counts[indices]

    def pod_counts(self, indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
        """Return how many pods the bag of each spec has."""
        return self._pod_counts[indices]

    def _parse(self, text: bytes) -> Layout:
        """Return a parsed layout through a small cache."""
        layout = self._parsed.get(text)
        if layout is None:
            layout = Layout.parse(text)
            if len(self._parsed) >= _PARSED_LAYOUTS:
                self._parsed.clear()
            self._parsed[text] = layout
        return layout

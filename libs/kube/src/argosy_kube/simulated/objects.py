"""Objects of the simulated cluster as a structure of arrays, and the events about them.

A slot is a row. A uid is 8 bytes that differ with every start of the cluster and 8 bytes `serial << 24 | slot`, so a
uid leads to its row without an index, and a row that was used again is told apart by its serial.

Columns of one width stand together in one array of rows, so that making or telling of a pod moves three rows and not
fifteen numbers; NumPy's cost is per call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import BoolArray, Int8Array, Int16Array, Int32Array, Int64Array, UidArray, WatchGone

__all__ = ["GONE", "SLOT_MASK", "EventBlock", "EventColumns", "History", "ObjectTable"]

SLOT_BITS: Final = 24
SLOT_MASK: Final = (1 << SLOT_BITS) - 1
GONE: Final = 0
"""Phase of a slot without an object."""

_WIDE: Final = 6
_NARROW: Final = 6
_SMALL: Final = 3
_TINY: Final = 2
_EVENT_BYTES: Final = 8 * _WIDE + 4 * _NARROW + 2 * _SMALL + _TINY


@dataclass(slots=True)
class EventColumns:
    """Events as four arrays of rows; the properties are views of their columns."""

    wide: Int64Array
    """(n, 6): two halves of the uid, handle, time in microseconds, version, attempt and member."""
    narrow: Int32Array
    """(n, 6): node, exit code, reason, request, namespace, name."""
    small: Int16Array
    """(n, 3): installation, kind, object."""
    tiny: Int8Array
    """(n, 2): change, phase."""

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.wide)

    @property
    def uid(self) -> UidArray:
        """(n, 16) uids."""
        return self.wide[:, :2].view(np.uint8)

    @property
    def installation(self) -> Int16Array:
        """(n,) installations, -1 for unmanaged pods."""
        return self.small[:, 0]

    @property
    def kind(self) -> Int16Array:
        """(n,) kinds, 0 for pods."""
        return self.small[:, 1]

    @property
    def version(self) -> Int64Array:
        """(n,) versions."""
        return self.wide[:, 4]

    @property
    def phase(self) -> Int8Array:
        """(n,) phases."""
        return self.tiny[:, 1]

    def part(self, mask: BoolArray) -> EventColumns:
        """Return some of the events."""
        return EventColumns(self.wide[mask], self.narrow[mask], self.small[mask], self.tiny[mask])

    def pack(self) -> bytes:
        """Return the arrays one behind the other."""
        return b"".join((self.wide.tobytes(), self.narrow.tobytes(), self.small.tobytes(), self.tiny.tobytes()))

    @staticmethod
    def unpack(count: int, body: bytes) -> EventColumns:
        """Return what `pack` packed, as read-only arrays over it.

        Raises:
            BackendUnavailable: The body has not the size of `count` events.
        """
        if len(body) != count * _EVENT_BYTES:
            msg = f"{count} events have {count * _EVENT_BYTES} bytes, not {len(body)}"
            raise BackendUnavailable(msg)
        wide = np.frombuffer(body, np.int64, count * _WIDE)
        narrow = np.frombuffer(body, np.int32, count * _NARROW, wide.nbytes)
        small = np.frombuffer(body, np.int16, count * _SMALL, wide.nbytes + narrow.nbytes)
        tiny = np.frombuffer(body, np.int8, count * _TINY, wide.nbytes + narrow.nbytes + small.nbytes)
        return EventColumns(
            wide.reshape(count, _WIDE),
            narrow.reshape(count, _NARROW),
            small.reshape(count, _SMALL),
            tiny.reshape(count, _TINY),
        )


class ObjectTable:
    """Objects by slot; times in microseconds of real time. The named columns are views of the arrays of rows."""

    def __init__(self, uid_prefix: bytes) -> None:
        """Start empty; `uid_prefix` is 8 bytes."""
        self.prefix = int(np.frombuffer(uid_prefix, dtype=np.int64)[0])
        """First half of every uid."""
        self._serial = 0
        self._free: Int32Array = np.zeros(0, dtype=np.int32)
        self._free_count = 0
        self._rows = 0
        self.wide: Int64Array = np.zeros((0, _WIDE + 2), dtype=np.int64)
        """(slot, 8): as in events, then the run time, and when it began."""
        self.narrow: Int32Array = np.zeros((0, _NARROW + 2), dtype=np.int32)
        """(slot, 8): as in events, then the exit code to come, and the slot of what stands behind (`chained`) or -1."""
        self.small: Int16Array = np.zeros((0, _SMALL), dtype=np.int16)
        """(slot, 3): as in events."""
        self.phase: Int8Array = np.zeros(0, dtype=np.int8)
        """(slot,): value of PodPhase, or GONE."""
        self.holds: BoolArray = np.zeros(0, dtype=np.bool_)
        """(slot,): the pod's request is booked on its node."""
        self.chained: BoolArray = np.zeros(0, dtype=np.bool_)
        """(slot,): the same object of another attempt or member stands before or behind."""
        self._name_columns()

    def _name_columns(self) -> None:
        self.low, self.handle, self.run_us = self.wide[:, 1], self.wide[:, 2], self.wide[:, 6]
        self.version, self.ordinal, self.started_us = self.wide[:, 4], self.wide[:, 5], self.wide[:, 7]
        self.node, self.exit_code = self.narrow[:, 0], self.narrow[:, 1]
        self.reason, self.request, self.name = self.narrow[:, 2], self.narrow[:, 3], self.narrow[:, 5]
        self.planned_exit_code, self.previous = self.narrow[:, 6], self.narrow[:, 7]
        self.installation, self.kind, self.object = self.small[:, 0], self.small[:, 1], self.small[:, 2]

    def add(self, wide: Int64Array, narrow: Int32Array, small: Int16Array) -> Int32Array:
        """Give n objects slots and uids; they are pending, hold nothing and stand alone.

        Args:
            wide: (n, 8) rows as in `wide`; the uid is filled in.
            narrow: (n, 8) rows as in `narrow`.
            small: (n, 3) rows as in `small`.
        """
        count = len(wide)
        if self._free_count < count:
            self._grow(count)
        self._free_count -= count
        slots = self._free[self._free_count : self._free_count + count].copy()
        wide[:, 0] = self.prefix
        wide[:, 1] = np.arange(self._serial + 1, self._serial + count + 1, dtype=np.int64) << SLOT_BITS
        wide[:, 1] |= slots
        self._serial += count
        self.wide[slots] = wide
        self.narrow[slots] = narrow
        self.small[slots] = small
        self.phase[slots] = 1
        return slots

    def release(self, slots: Int32Array) -> None:
        """Give slots back; nothing may refer to them any more."""
        end = self._free_count + len(slots)
        self._free[self._free_count : end] = slots
        self._free_count = end
        self.low[slots] = 0
        self.holds[slots] = False
        self.chained[slots] = False

    def live(self) -> Int32Array:
        """Return the slots of all objects, oldest first."""
        slots = np.flatnonzero(self.phase[: self._rows] != GONE)
        return slots[np.argsort(self.low[slots] >> SLOT_BITS, kind="stable")].astype(np.int32)

    def pods(self) -> Int32Array:
        """Return the slots of all pods, oldest first."""
        live = self.live()
        pods: Int32Array = live[self.kind[live] == 0]
        return pods

    def pods_on(self, node: int) -> Int32Array:
        """Return the slots of the pods of a node, oldest first."""
        pods = self.pods()
        here: Int32Array = pods[self.node[pods] == node]
        return here

    def uids(self, slots: Int32Array) -> UidArray:
        """Return (n, 16) uids of slots."""
        return self.wide[slots, :2].view(np.uint8)

    def find(self, uids: UidArray) -> Int32Array:
        """Return (n,) slots of existing objects by uid, -1 where there is none."""
        halves = np.ascontiguousarray(uids).view(np.int64).reshape(-1, 2)
        slots = (halves[:, 1] & SLOT_MASK).astype(np.int32)
        if not self._rows:
            return np.full(len(slots), -1, dtype=np.int32)
        safe = np.minimum(slots, self._rows - 1)
        known = (self.wide[safe, :2] == halves).all(axis=1) & (self.phase[safe] != GONE)
        return np.where(known, safe, np.int32(-1))

    def events(self, slots: Int32Array, tiny: Int8Array) -> EventColumns:
        """Return events about slots as they are now; exit codes and reasons are told only where they belong."""
        narrow = self.narrow.take(slots, axis=0)[:, :_NARROW]
        if narrow[:, 1].any():
            narrow[tiny[:, 1] != 4, 1] = 0
        if narrow[:, 2].max(initial=-1) >= 0:
            narrow[(tiny[:, 1] != 4) & (tiny[:, 1] != 1), 2] = -1
        return EventColumns(self.wide.take(slots, axis=0)[:, :_WIDE], narrow, self.small.take(slots, axis=0), tiny)

    def _grow(self, count: int) -> None:
        rows = max(self._rows + count, 2 * self._rows, 256)
        if rows > SLOT_MASK:
            msg = f"a simulated cluster holds at most {SLOT_MASK} objects"
            raise MemoryError(msg)
        added = rows - self._rows
        for name in ("wide", "narrow", "small"):
            setattr(self, name, np.pad(getattr(self, name), ((0, added), (0, 0))))
        for name in ("phase", "holds", "chained"):
            setattr(self, name, np.pad(getattr(self, name), (0, added)))
        self._name_columns()
        free = np.empty(rows, dtype=np.int32)
        free[:added] = np.arange(rows - 1, self._rows - 1, -1, dtype=np.int32)
        free[added : added + self._free_count] = self._free[: self._free_count]
        self._free = free
        self._free_count += added
        self._rows = rows


@dataclass(slots=True)
class EventBlock:
    """Events of one flush."""

    columns: EventColumns
    """The events."""
    first_version: int
    """Version of the first event."""
    last_version: int
    """Version of the last event."""
    only_installation: int
    """Index of the installation whose pods alone are in the block, or -1 if it is mixed."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """What adapters packed for a selection, so that watchers share it."""


class History:
    """The events that can still be watched, at most `limit` of them."""

    def __init__(self, version: int, *, limit: int = 400_000) -> None:
        """Start with nothing before `version`."""
        self.floor = version
        """Oldest version that a watch may resume from."""
        self.version = version
        """Version of the newest event."""
        self._limit = limit
        self._count = 0
        self._blocks: deque[EventBlock] = deque()

    def append(self, block: EventBlock) -> None:
        """Keep a block, and let the oldest go if there are too many events."""
        self._blocks.append(block)
        self.version = block.last_version
        self._count += len(block.columns)
        while self._count > self._limit and len(self._blocks) > 1:
            oldest = self._blocks.popleft()
            self._count -= len(oldest.columns)
            self.floor = oldest.last_version

    def forget(self) -> None:
        """Let everything go, so that only a version of a later list can be resumed from."""
        self._blocks.clear()
        self._count = 0
        self.version += 1
        self.floor = self.version

    def after(self, version: int) -> list[EventBlock]:
        """Return the blocks with events after a version, oldest first; the first may begin before it.

        Raises:
            WatchGone: The version is older than what is kept, or of another life of the cluster.
        """
        if version < self.floor or version > self.version:
            msg = f"version {version} is no longer kept (oldest is {self.floor}); list again"
            raise WatchGone(msg)
        blocks: list[EventBlock] = []
        for block in reversed(self._blocks):
            if block.last_version <= version:
                break
            blocks.append(block)
        return blocks[::-1]

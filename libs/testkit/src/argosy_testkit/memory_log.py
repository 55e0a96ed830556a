"""An event log and a pool's register in memory."""

from __future__ import annotations

import threading
from bisect import bisect_right

from argosy_core.errors import StateConflict
from argosy_eventlog import LogRecord, QuarantinedLogRecord

__all__ = ["MemoryLog", "MemoryRegister"]


class MemoryRegister:
    """A pool's epoch and quarantine in memory. Thread-safe.

    Args:
        epoch: The current epoch; `fence` raises it.
    """

    def __init__(self, epoch: int = 0) -> None:
        """Begin with nothing in quarantine."""
        self._lock = threading.Lock()
        self._epoch = epoch
        self._quarantined: dict[int, QuarantinedLogRecord] = {}

    def fence(self, epoch: int) -> None:
        """Make an epoch the current one; appends of all others are refused from now on.

        Raises:
            StateConflict: A higher epoch is the current one.
        """
        with self._lock:
            if epoch < self._epoch:
                raise StateConflict(f"epoch {epoch} is older than {self._epoch}")
            self._epoch = epoch

    def current_epoch(self) -> int:
        """Return the highest epoch that a producer was opened for; lower ones are refused."""
        return self._epoch

    def quarantine(self, record: LogRecord, error: str, create_time_us: int) -> None:
        """Keep a record that cannot be applied; see `EventLog.quarantine`."""
        with self._lock:
            self._quarantined.setdefault(
                record.position,
                QuarantinedLogRecord(
                    position=record.position, payload=record.payload, error=error, create_time_us=create_time_us
                ),
            )

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position."""
        with self._lock:
            return [self._quarantined[position] for position in sorted(self._quarantined)[:limit]]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class MemoryLog(MemoryRegister):
    """A log that lives as long as its process. Thread-safe.

    Args:
        epoch: The current epoch; `fence` raises it.
    """

    def __init__(self, epoch: int = 0) -> None:
        """Begin empty."""
        super().__init__(epoch)
        self._records: list[LogRecord] = []
        self._end = 0
        self._positions: dict[tuple[int, int], int] = {}

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append a record; see `EventLog.append`.

        Raises:
            StateConflict: Another epoch is the current one.
        """
        del traceparent  # nobody else reads this log
        with self._lock:
            if epoch != self._epoch:
                raise StateConflict(f"epoch {epoch} may not write to the log: the epoch is {self._epoch}")
            known = self._positions.get((epoch, sequence))
            if known is not None:
                return known
            self._end += 1
            self._positions[epoch, sequence] = self._end
            self._records.append(LogRecord(position=self._end, epoch=epoch, sequence=sequence, payload=bytes(payload)))
            return self._end

    def read(self, after_position: int, limit: int) -> list[LogRecord]:
        """Return records; see `EventLog.read`. Complexity: O(log n + limit)."""
        with self._lock:
            first = bisect_right(self._records, after_position, key=lambda record: record.position)
            return self._records[first : first + limit]

    def trim(self, before_position: int) -> None:
        """Forget records; see `EventLog.trim`."""
        with self._lock:
            first = bisect_right(self._records, before_position - 1, key=lambda record: record.position)
            for record in self._records[:first]:
                del self._positions[record.epoch, record.sequence]
            del self._records[:first]

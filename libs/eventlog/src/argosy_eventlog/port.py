"""The event log's port: what a leader publishes to and takes leases back from.

A pool has one log with one order. A record is known by (epoch, sequence) of the leader that published it, so that a
publish whose result is unknown can be repeated; its position says where it stands. The log gives out records again as
often as it is asked: whoever applies them keeps the position beside what was applied.

Source: 003 "Architecture" (lease messages on Pulsar); design section 5, "Ingest".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["EventLog", "LogRecord", "PoolRegister", "QuarantinedLogRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record of the event log, as it was published."""

    position: int
    """Place in the log, from 1; ascending, with gaps in some logs."""
    epoch: int
    """Epoch of the leader that published it."""
    sequence: int
    """Place in that leader's own order."""
    payload: bytes
    """What it says; opaque here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLogRecord:
    """A record that could not be applied."""

    position: int
    """Its place in the log."""
    payload: bytes
    """What it said."""
    error: str
    """Why it could not be applied."""
    create_time_us: int
    """When that was found, microseconds since the Unix epoch."""


@runtime_checkable
class EventLog(Protocol):
    """A pool's log. Implementations are synchronous and thread-safe; errors are those of `argosy_core.errors`."""

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append a record durably; return its position.

        Repeating (epoch, sequence) gives the position of the first one and no second record.

        Args:
            epoch: Epoch of the caller.
            sequence: From 1, growing.
            payload: What it says.
            traceparent: W3C trace context of the publish, for logs whose records can carry one beside the payload.

        Raises:
            StateConflict: Another epoch is the current one: the caller leads no more.
            InvalidRequest: The record is larger than the log takes.
            BackendUnavailable: The result is unknown. Repeat it or give up the epoch.
        """

    def read(self, after_position: int, limit: int) -> list[LogRecord]:
        """Return up to `limit` records after a position, in order; none if there are no more yet.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """

    def trim(self, before_position: int) -> None:
        """Let the records before a position go; that one and later ones stay, at their positions.

        Args:
            before_position: Position of a record that was appended.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """

    def quarantine(self, record: LogRecord, error: str, create_time_us: int) -> None:
        """Keep a record that cannot be applied where it can be looked at, once.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """

    def close(self) -> None:
        """Release what the log holds; it is not used afterwards."""


@runtime_checkable
class PoolRegister(Protocol):
    """What a log outside the database needs of it: the pool's epoch, and a place for what cannot be applied."""

    def current_epoch(self) -> int:
        """Return the pool's epoch, 0 if it never had a leader.

        Raises:
            BackendUnavailable: The database cannot be reached.
        """

    def quarantine(self, record: LogRecord, error: str, create_time_us: int) -> None:
        """Keep a record; see `EventLog.quarantine`."""

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position."""

    def close(self) -> None:
        """Release what the register holds."""

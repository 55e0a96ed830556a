"""The event log of Argosy: its port, and an implementation in memory. The one on Postgres is in `argosy_store.log`."""

from __future__ import annotations

from argosy_eventlog.memory import MemoryLog
from argosy_eventlog.port import EventLog, LogRecord, QuarantinedLogRecord, drop_stale

__all__ = ["EventLog", "LogRecord", "MemoryLog", "QuarantinedLogRecord", "drop_stale"]

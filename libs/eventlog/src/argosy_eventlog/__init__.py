"""The event log of Argosy: its port, and an implementation in memory.

The one on Pulsar is in `argosy_eventlog.pulsar` (extra `pulsar`), the one on Postgres in `argosy_store.log`.

Owns: what a log promises to leaders, and all that is known of Pulsar.
May import: argosy_core.
Start: `port`.
"""

from __future__ import annotations

from argosy_eventlog.port import EventLog, LogRecord, PoolRegister, QuarantinedLogRecord

__all__ = ["EventLog", "LogRecord", "PoolRegister", "QuarantinedLogRecord"]

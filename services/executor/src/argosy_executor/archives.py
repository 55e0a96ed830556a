"""Which archive the settings name.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from argosy_executor.http_archive import HttpArchive, HttpCaller
from argosy_executor.log_archive import DirectoryArchive, LogArchive, LogArchiveSettings
from argosy_executor.loki_archive import LokiArchive
from argosy_executor.s3_archive import S3Archive

__all__ = ["open_archive"]


def open_archive(settings: LogArchiveSettings, *, cluster: str) -> LogArchive | None:
    """Return the archive that the settings name, None for none; nothing is touched before it is used.

    Args:
        settings: Those of an executor.
        cluster: Name of its cluster.
    """
    target = settings.target
    if not target:
        return None
    if target.startswith("/"):
        return DirectoryArchive(directory=Path(target), max_total_bytes=settings.max_total_bytes)
    caller = HttpCaller(target, settings)
    if target.startswith("s3://"):
        return S3Archive(caller, settings, lambda: datetime.now(UTC))
    if target.startswith("loki+"):
        return LokiArchive(caller, settings, cluster, time.time_ns)
    return HttpArchive(caller, settings)

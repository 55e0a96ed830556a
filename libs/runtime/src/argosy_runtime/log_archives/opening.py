"""Which archive the settings name.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from argosy_runtime.log_archives.archive import DirectoryArchive, LogArchive, LogArchiveSettings

__all__ = ["open_archive"]

_CLUSTER = "{cluster}"


def open_archive(settings: LogArchiveSettings, *, cluster: str) -> LogArchive | None:
    """Return the archive that the settings name, None for none; nothing is touched before it is used.

    Args:
        settings: Those of an executor, or of who reads what executors keep.
        cluster: Name of the cluster whose logs they are.
    """
    settings = replace(settings, target=settings.target.replace(_CLUSTER, cluster))
    target = settings.target
    if not target:
        return None
    if target.startswith("/"):
        return DirectoryArchive(directory=Path(target), max_total_bytes=settings.max_total_bytes)
    # Who keeps logs in a directory needs no HTTP.
    from argosy_runtime.log_archives.http_archive import HttpArchive, HttpCaller
    from argosy_runtime.log_archives.loki_archive import LokiArchive
    from argosy_runtime.log_archives.s3_archive import S3Archive

    caller = HttpCaller(target, settings)
    if target.startswith("s3://"):
        return S3Archive(caller, settings, lambda: datetime.now(UTC))
    if target.startswith("loki+"):
        return LokiArchive(caller, settings, cluster, time.time_ns)
    return HttpArchive(caller, settings)

"""Ends of logs that executors have kept, read by servers while the executor of their cluster is away.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

from typing import Final

from argosy_core.errors import QuotaExceeded
from argosy_runtime.log_archives.archive import LogArchiveSettings, LogChoice, read_kept
from argosy_runtime.log_archives.opening import open_archive

__all__ = ["KeptLogs"]

_MOST_AT_ONCE: Final = 32
"""As an executor reads at once; each is some megabytes at most."""
_RETRY_S: Final = 1.0


class KeptLogs:
    """Reads what executors keep; nothing is open between two readings, which are rare.

    Args:
        settings: Where executors keep the ends of logs; `{cluster}` stands for their cluster.
    """

    def __init__(self, settings: LogArchiveSettings) -> None:
        """Open nothing."""
        self._settings = settings
        self._count = 0

    @property
    def is_known(self) -> bool:
        """Whether it is known where logs are kept."""
        return bool(self._settings.target)

    async def read(self, cluster: str, run: tuple[int, int, int], choice: LogChoice) -> bytes | None:
        """Return what was kept of a container's log, None if nothing was or nobody knows where.

        Args:
            cluster: Whose executor keeps it.
            run: Job handle, ordinal of attempt and member, and position of the pod in its bag.
            choice: What of it is wanted.

        Raises:
            QuotaExceeded: Too many are read at once.
            BackendUnavailable: The place cannot be reached.
        """
        archive = open_archive(self._settings, cluster=cluster)
        if archive is None:
            return None
        if self._count >= _MOST_AT_ONCE:
            raise QuotaExceeded(
                f"{_MOST_AT_ONCE} kept logs are read already; end one and try again", retry_delay_s=_RETRY_S
            )
        self._count += 1
        try:
            return await read_kept(archive, run, choice)
        finally:
            self._count -= 1
            await archive.close()

"""Letting go of log records that were applied long ago.

Positions of a log may leave gaps, so what is kept is counted in records stored, not in positions.

Source: design section 5, "Ingest".
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import structlog

from argosy_core.errors import ArgosyError

if TYPE_CHECKING:
    from argosy_eventlog import EventLog

__all__ = ["LogTrimmer"]

_log = structlog.get_logger(__name__)


class LogTrimmer:
    """Trims a log behind its last applied records.

    Args:
        log: The log.
        kept_count: Records that are kept, to be looked at; at least 1.
        period_s: How often older ones are let go, seconds.
    """

    def __init__(self, log: EventLog, *, kept_count: int, period_s: float) -> None:
        """Start without records."""
        self._log = log
        self._period_s = period_s
        self._kept: deque[int] = deque(maxlen=max(kept_count, 1))
        self._trimmed = 0

    def note_stored(self, position: int) -> None:
        """Note that the log is applied up to a position; the same one may be noted again."""
        if not self._kept or self._kept[-1] != position:
            self._kept.append(position)

    async def run(self) -> None:
        """Trim for ever."""
        while True:
            await asyncio.sleep(self._period_s)
            await self.trim()

    async def trim(self) -> None:
        """Let go of everything before the records that are kept, once enough have been stored.

        Whatever fails is logged and tried again: that a log grows is no reason to stop leading.
        """
        if len(self._kept) < (self._kept.maxlen or 0) or self._kept[0] <= self._trimmed:
            return
        before = self._kept[0]
        try:
            await asyncio.to_thread(self._log.trim, before)
        except ArgosyError as error:
            _log.warning("the log could not be trimmed", reason=error.message)
        except Exception:  # noqa: BLE001 - whatever the log's client raises
            _log.exception("the log could not be trimmed")
        else:
            self._trimmed = before

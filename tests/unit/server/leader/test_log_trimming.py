"""The log is trimmed behind its last applied records, whatever its positions look like."""

from __future__ import annotations

import pytest

from argosy_core.errors import BackendUnavailable, InvariantViolation
from argosy_server.leader.log.trimming import LogTrimmer
from argosy_testkit.memory_log import MemoryLog


class GappyLog(MemoryLog):
    """A log whose positions leave gaps, as those on Pulsar do, and that may not be trimmed."""

    def __init__(self) -> None:
        """Begin without anything trimmed."""
        super().__init__()
        self.trims: list[int] = []
        self.error: Exception | None = None

    def trim(self, before_position: int) -> None:
        """Note the call."""
        if self.error is not None:
            raise self.error
        self.trims.append(before_position)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], []),
        ([7, 1000], []),
        ([7, 1000, 1001], [7]),
        ([7, 1000, 1001, 1001, 5_000_000], [1000]),
        ([100, 3, 4, 5], [3]),
    ],
    ids=["none", "too-few", "enough", "the-same-again", "a-log-that-began-anew"],
)
async def test_records_are_counted_and_not_positions(stored: list[int], expected: list[int]) -> None:
    """The last three stay, the first of them is named; nothing is named that was never stored."""
    log = GappyLog()
    trimmer = LogTrimmer(log, kept_count=3, period_s=1)
    for position in stored:
        trimmer.note_stored(position)
    await trimmer.trim()
    await trimmer.trim()
    assert log.trims == expected


@pytest.mark.parametrize(
    "error",
    [BackendUnavailable("away"), InvariantViolation("no right to delete"), RuntimeError("nobody foresaw this")],
    ids=["away", "no-right", "unforeseen"],
)
async def test_a_log_that_cannot_be_trimmed_is_trimmed_later(error: Exception) -> None:
    """That it grows is no reason to stop leading."""
    log = GappyLog()
    trimmer = LogTrimmer(log, kept_count=1, period_s=1)
    trimmer.note_stored(42)
    log.error = error
    await trimmer.trim()
    log.error = None
    await trimmer.trim()
    assert log.trims == [42]

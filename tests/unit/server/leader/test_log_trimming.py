"""The log is trimmed behind its last applied records, whatever its positions look like."""

from __future__ import annotations

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_server.leader.log.trimming import LogTrimmer
from argosy_testkit.memory_log import MemoryLog


class GappyLog(MemoryLog):
    """A log whose positions leave gaps, as those on Pulsar do, and that can be away."""

    def __init__(self) -> None:
        """Begin without anything trimmed."""
        super().__init__()
        self.trims: list[int] = []
        self.is_away = False

    def trim(self, before_position: int) -> None:
        """Note the call."""
        if self.is_away:
            raise BackendUnavailable("away")
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


async def test_a_log_that_is_away_is_trimmed_later() -> None:
    """It is no reason to stop leading."""
    log = GappyLog()
    trimmer = LogTrimmer(log, kept_count=1, period_s=1)
    trimmer.note_stored(42)
    log.is_away = True
    await trimmer.trim()
    log.is_away = False
    await trimmer.trim()
    assert log.trims == [42]

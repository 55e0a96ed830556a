"""What every event log must do. Test classes inherit `EventLogContract` and say how a log and its fence are made.

Positions ascend; whether they leave gaps is the log's affair, so no test counts with them.

Source: design section 5, "Ingest"; reliability of 003's lease messages.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from argosy_core.errors import StateConflict
from argosy_eventlog import EventLog, LogRecord

__all__ = ["EventLogContract", "LogWorld"]


class LogWorld(Protocol):
    """A log under test and the power to replace its leader."""

    log: EventLog
    """The log."""
    epoch: int
    """The current epoch."""

    def reopen(self) -> EventLog:
        """Return the same log as another process would see it."""

    def replace_leader(self) -> int:
        """Make a new epoch the current one and return it."""


class EventLogContract:
    """The contract, as tests. A subclass has a fixture `log_world`."""

    trims_at_once = True
    """Whether records before a trim can no longer be read; a log may leave them to its retention instead."""

    def test_records_are_read_in_the_order_of_their_appends(self, log_world: LogWorld) -> None:
        """Positions ascend from above 0; payloads come back byte by byte."""
        payloads = [b"", b"one", bytes(range(256)) * 40]
        positions = [log_world.log.append(log_world.epoch, n, payload) for n, payload in enumerate(payloads, 1)]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert log_world.log.read(0, 10) == [
            LogRecord(position=position, epoch=log_world.epoch, sequence=n, payload=payload)
            for n, (position, payload) in enumerate(zip(positions, payloads, strict=True), 1)
        ]

    def test_records_are_given_out_again_as_often_as_asked(self, log_world: LogWorld) -> None:
        """Reading takes nothing away, here or in another process."""
        log_world.log.append(log_world.epoch, 1, b"x")
        first = log_world.log.read(0, 10)
        assert len(first) == 1
        assert log_world.log.read(0, 10) == first
        assert log_world.reopen().read(0, 10) == first

    @pytest.mark.parametrize(
        ("after", "limit", "expected"),
        [(0, 2, [1, 2]), (2, 2, [3, 4]), (3, 10, [4, 5]), (5, 10, []), (9, 10, [])],
        ids=["begin", "middle", "rest", "end", "beyond"],
    )
    def test_reading_resumes_after_a_position(
        self, log_world: LogWorld, after: int, limit: int, expected: list[int]
    ) -> None:
        """A reader goes on where it stood."""
        positions = [0, *(log_world.log.append(log_world.epoch, n, b"%d" % n) for n in range(1, 6))]
        place = positions[after] if after < len(positions) else positions[-1] + 4
        assert [record.sequence for record in log_world.log.read(place, limit)] == expected

    def test_reading_follows_what_is_appended(self, log_world: LogWorld) -> None:
        """A reader that has come to the end sees what is appended next, once."""
        seen = []
        position = 0
        for sequence in range(1, 4):
            log_world.log.append(log_world.epoch, sequence, b"x")
            for record in log_world.log.read(position, 10):
                seen.append(record.sequence)
                position = record.position
            assert log_world.log.read(position, 10) == []
        assert seen == [1, 2, 3]

    def test_an_append_that_is_repeated_makes_one_record(self, log_world: LogWorld) -> None:
        """A publish whose result is unknown is repeated with its epoch and sequence: one record, one position."""
        log_world.log.append(log_world.epoch, 1, b"a")
        position = log_world.log.append(log_world.epoch, 2, b"b")
        log_world.log.append(log_world.epoch, 3, b"c")
        assert log_world.log.append(log_world.epoch, 2, b"b") == position
        assert log_world.reopen().append(log_world.epoch, 2, b"b") == position
        assert [record.payload for record in log_world.log.read(0, 10)] == [b"a", b"b", b"c"]

    def test_an_append_of_an_old_epoch_is_refused(self, log_world: LogWorld) -> None:
        """Once another has published, the old leader writes nothing, not even what it has written before."""
        old = log_world.epoch
        log_world.log.append(old, 1, b"before")
        new = log_world.replace_leader()
        log_world.reopen().append(new, 1, b"marker")
        for sequence in (1, 2):
            with pytest.raises(StateConflict):
                log_world.log.append(old, sequence, b"stale")
        assert [(record.epoch, record.payload) for record in log_world.log.read(0, 10)] == [
            (old, b"before"),
            (new, b"marker"),
        ]

    def test_an_append_of_an_epoch_that_does_not_lead_yet_is_refused(self, log_world: LogWorld) -> None:
        """Nobody writes ahead of being leader."""
        with pytest.raises(StateConflict):
            log_world.log.append(log_world.epoch + 1, 1, b"early")
        assert log_world.log.read(0, 10) == []

    def test_the_same_sequence_of_another_epoch_is_another_record(self, log_world: LogWorld) -> None:
        """Each leader counts for itself."""
        first = log_world.log.append(log_world.epoch, 1, b"a")
        new = log_world.replace_leader()
        assert log_world.log.append(new, 1, b"b") > first
        assert [record.payload for record in log_world.log.read(0, 10)] == [b"a", b"b"]

    def test_trimming_keeps_positions_and_what_comes_later(self, log_world: LogWorld) -> None:
        """What has been applied may go; the record named and later ones stay, and the log goes on."""
        positions = [log_world.log.append(log_world.epoch, n, b"x") for n in range(1, 4)]
        log_world.log.trim(positions[2])
        kept = [record.position for record in log_world.log.read(0, 10)]
        assert kept[-1] == positions[2]
        if self.trims_at_once:
            assert kept == [positions[2]]
        assert log_world.log.append(log_world.epoch, 4, b"y") > positions[2]
        assert [record.sequence for record in log_world.log.read(positions[1], 10)] == [3, 4]

    def test_poison_is_kept_once_and_stands_in_nobody_s_way(self, log_world: LogWorld) -> None:
        """A record that cannot be applied goes to quarantine, visible, and reading goes on behind it."""
        positions = [
            log_world.log.append(log_world.epoch, sequence, payload)
            for sequence, payload in enumerate((b"good", b"\xff poison", b"good"), 1)
        ]
        poison = log_world.log.read(positions[0], 1)[0]
        for _ in range(2):
            log_world.log.quarantine(poison, "cannot be read", 77)
        kept = log_world.log.list_quarantined()
        assert [(row.position, row.payload, row.error, row.create_time_us) for row in kept] == [
            (positions[1], b"\xff poison", "cannot be read", 77)
        ]
        assert [record.position for record in log_world.log.read(positions[1], 10)] == [positions[2]]

"""What every event log must do. Test classes inherit `EventLogContract` and say how a log and its fence are made.

Source: design section 5, "Ingest"; reliability of 003's lease messages.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from argosy_core.errors import StateConflict
from argosy_eventlog import EventLog, LogRecord, drop_stale

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

    def test_records_are_read_in_the_order_of_their_appends(self, log_world: LogWorld) -> None:
        """Positions ascend from 1 without gap; payloads come back byte by byte."""
        payloads = [b"", b"one", bytes(range(256)) * 40]
        positions = [log_world.log.append(log_world.epoch, n, payload) for n, payload in enumerate(payloads, 1)]
        assert positions == [1, 2, 3]
        assert log_world.log.read(0, 10) == [
            LogRecord(position=n, epoch=log_world.epoch, sequence=n, payload=payload)
            for n, payload in enumerate(payloads, 1)
        ]

    def test_records_are_given_out_again_as_often_as_asked(self, log_world: LogWorld) -> None:
        """Reading takes nothing away, here or in another process."""
        log_world.log.append(log_world.epoch, 1, b"x")
        first = log_world.log.read(0, 10)
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
        for sequence in range(1, 6):
            log_world.log.append(log_world.epoch, sequence, b"%d" % sequence)
        assert [record.position for record in log_world.log.read(after, limit)] == expected

    def test_an_append_that_is_repeated_makes_one_record(self, log_world: LogWorld) -> None:
        """A publish whose result is unknown is repeated with its epoch and sequence: one record, one position."""
        log_world.log.append(log_world.epoch, 1, b"a")
        position = log_world.log.append(log_world.epoch, 2, b"b")
        log_world.log.append(log_world.epoch, 3, b"c")
        assert log_world.log.append(log_world.epoch, 2, b"b") == position
        assert log_world.reopen().append(log_world.epoch, 2, b"b") == position
        assert [record.payload for record in log_world.log.read(0, 10)] == [b"a", b"b", b"c"]

    def test_an_append_of_an_old_epoch_is_refused(self, log_world: LogWorld) -> None:
        """Once another leads, the old leader writes nothing, not even what it has written before."""
        old = log_world.epoch
        log_world.log.append(old, 1, b"before")
        new = log_world.replace_leader()
        for sequence in (1, 2):
            with pytest.raises(StateConflict):
                log_world.log.append(old, sequence, b"stale")
        log_world.log.append(new, 1, b"marker")
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
        log_world.log.append(log_world.epoch, 1, b"a")
        new = log_world.replace_leader()
        assert log_world.log.append(new, 1, b"b") == 2

    def test_records_before_a_marker_count_and_stale_ones_after_it_do_not(self, log_world: LogWorld) -> None:
        """A record of a lower epoch behind one of a higher epoch is stale, wherever reading began."""
        old = log_world.epoch
        log_world.log.append(old, 1, b"lease")
        new = log_world.replace_leader()
        log_world.log.append(new, 1, b"marker")
        records = log_world.log.read(0, 10)
        late = LogRecord(position=3, epoch=old, sequence=2, payload=b"late")
        kept, highest = drop_stale([*records, late], 0)
        assert ([record.payload for record in kept], highest) == ([b"lease", b"marker"], new)
        assert drop_stale([late], highest) == ([], new)

    def test_trimming_keeps_positions_and_what_comes_later(self, log_world: LogWorld) -> None:
        """What has been applied may go; the numbering goes on, also when everything has gone."""
        for sequence in range(1, 4):
            log_world.log.append(log_world.epoch, sequence, b"x")
        log_world.log.trim(3)
        assert [record.position for record in log_world.log.read(0, 10)] == [3]
        log_world.log.trim(100)
        assert log_world.log.read(0, 10) == []
        assert log_world.log.append(log_world.epoch, 4, b"y") == 4

    def test_poison_is_kept_once_and_stands_in_nobody_s_way(self, log_world: LogWorld) -> None:
        """A record that cannot be applied goes to quarantine, visible, and reading goes on behind it."""
        for sequence, payload in enumerate((b"good", b"\xff poison", b"good"), 1):
            log_world.log.append(log_world.epoch, sequence, payload)
        poison = log_world.log.read(1, 1)[0]
        for _ in range(2):
            log_world.log.quarantine(poison, "cannot be read", 77)
        kept = log_world.log.list_quarantined()
        assert [(row.position, row.payload, row.error, row.create_time_us) for row in kept] == [
            (2, b"\xff poison", "cannot be read", 77)
        ]
        assert [record.position for record in log_world.log.read(2, 10)] == [3]

"""The event log on Postgres keeps the contract."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from argosy_core.errors import BackendUnavailable, StateConflict
from argosy_eventlog import EventLog
from argosy_store import LeaderStore, PostgresLog
from argosy_testkit.eventlog_contract import EventLogContract


class PostgresWorld:
    """A log in a database, and the pool's leader who may write to it."""

    def __init__(self, url: str) -> None:
        """Take the lead."""
        self._url = url
        self._opened: list[PostgresLog] = []
        self.leader = LeaderStore(url, "default")
        self.log = self.reopen()
        self.epoch = self.replace_leader()

    def reopen(self) -> PostgresLog:
        """Return the log through connections of its own."""
        self._opened.append(PostgresLog(self._url, "default"))
        return self._opened[-1]

    def replace_leader(self) -> int:
        """Take the lead anew."""
        leadership = self.leader.try_lead("leader", "localhost:1", 60)
        assert leadership is not None
        return leadership.epoch

    def close(self) -> None:
        """Close everything."""
        self.leader.close()
        for log in self._opened:
            log.close()


class TestPostgresLog(EventLogContract):
    """The contract, on Postgres."""

    @pytest.fixture
    def log_world(self, database_url: str) -> Iterator[PostgresWorld]:
        """Give an empty log with a leader."""
        world = PostgresWorld(database_url)
        yield world
        world.close()

    def test_it_is_an_event_log(self, log_world: PostgresWorld) -> None:
        """It has all that the port names."""
        assert isinstance(log_world.log, EventLog)

    def test_an_old_epoch_is_refused_before_the_new_one_has_published(self, log_world: PostgresWorld) -> None:
        """The epoch alone is the fence."""
        log_world.log.append(log_world.epoch, 1, b"before")
        old, _ = log_world.epoch, log_world.replace_leader()
        for sequence in (1, 2):
            with pytest.raises(StateConflict):
                log_world.log.append(old, sequence, b"stale")

    def test_positions_are_numbered_on_when_everything_was_trimmed(self, log_world: PostgresWorld) -> None:
        """Positions count from 1 without gap, also when all records have gone."""
        assert [log_world.log.append(log_world.epoch, sequence, b"x") for sequence in (1, 2)] == [1, 2]
        log_world.log.trim(100)
        assert log_world.log.read(0, 10) == []
        assert log_world.log.append(log_world.epoch, 3, b"y") == 3

    def test_concurrent_appends_leave_no_gap_and_are_never_skipped(self, log_world: PostgresWorld) -> None:
        """A reader that follows sees every position in order while several connections write."""
        logs = [log_world.reopen() for _ in range(3)]

        def write(place: int) -> None:
            for number in range(30):
                logs[place].append(log_world.epoch, place * 1000 + number, b"%d" % number)

        seen: list[int] = []
        with ThreadPoolExecutor(3) as executor:
            futures = [executor.submit(write, place) for place in range(3)]
            while len(seen) < 90:
                assert not any(future.done() and future.exception() for future in futures)
                seen += [record.position for record in log_world.log.read(seen[-1] if seen else 0, 7)]
        assert seen == list(range(1, 91))

    def test_pools_have_logs_of_their_own(self, log_world: PostgresWorld, database_url: str) -> None:
        """Positions of one pool do not depend on another."""
        leader, log = LeaderStore(database_url, "gpu"), PostgresLog(database_url, "gpu")
        leadership = leader.try_lead("x", "y", 60)
        assert leadership is not None
        log_world.log.append(log_world.epoch, 1, b"a")
        assert log.append(leadership.epoch, 1, b"b") == 1
        assert [record.payload for record in log.read(0, 10)] == [b"b"]
        log.close()
        leader.close()

    def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        """The driver's errors stay inside."""
        log = PostgresLog("postgresql://nobody@127.0.0.1:1/none", "default")
        for call in (lambda: log.append(1, 1, b""), lambda: log.read(0, 1)):
            with pytest.raises(BackendUnavailable):
                call()

"""The event log in memory keeps the contract."""

import pytest

from argosy_core.errors import StateConflict
from argosy_eventlog import EventLog, PoolRegister
from argosy_testkit.eventlog_contract import EventLogContract
from argosy_testkit.memory_log import MemoryLog


class MemoryWorld:
    """A log in memory."""

    def __init__(self) -> None:
        """Begin with epoch 1."""
        self.epoch = 1
        self.log = MemoryLog(epoch=1)

    def reopen(self) -> EventLog:
        """Return the one log there is."""
        return self.log

    def replace_leader(self) -> int:
        """Raise the epoch."""
        self.epoch += 1
        self.log.fence(self.epoch)
        return self.epoch


class TestMemoryLog(EventLogContract):
    """The contract, on the log in memory."""

    @pytest.fixture
    def log_world(self) -> MemoryWorld:
        """Give an empty log."""
        return MemoryWorld()

    def test_a_fence_never_goes_back(self, log_world: MemoryWorld) -> None:
        """An older epoch cannot become the current one again."""
        log_world.replace_leader()
        with pytest.raises(StateConflict):
            log_world.log.fence(1)

    def test_it_is_an_event_log(self, log_world: MemoryWorld) -> None:
        """It has all that the port names."""
        assert isinstance(log_world.log, EventLog)
        assert isinstance(log_world.log, PoolRegister)
        log_world.log.close()

    def test_an_old_epoch_is_refused_before_the_new_one_has_published(self, log_world: MemoryWorld) -> None:
        """The epoch alone is the fence."""
        log_world.log.append(log_world.epoch, 1, b"before")
        old, _ = log_world.epoch, log_world.replace_leader()
        for sequence in (1, 2):
            with pytest.raises(StateConflict):
                log_world.log.append(old, sequence, b"stale")

    def test_positions_are_numbered_on_when_everything_was_trimmed(self, log_world: MemoryWorld) -> None:
        """Positions count from 1 without gap, also when all records have gone."""
        for sequence in (1, 2):
            log_world.log.append(1, sequence, b"x")
        log_world.log.trim(100)
        assert log_world.log.read(0, 10) == []
        assert log_world.log.append(1, 3, b"y") == 3

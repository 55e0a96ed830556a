"""The event log on a real Pulsar broker keeps the contract."""

from typing import Any

from argosy_eventlog import EventLog
from argosy_testkit.eventlog_contract import EventLogContract


class TestPulsarLog(EventLogContract):
    """The contract, on Pulsar."""

    trims_at_once = False

    def test_it_is_an_event_log(self, log_world: Any) -> None:
        """It has all that the port names."""
        assert isinstance(log_world.log, EventLog)

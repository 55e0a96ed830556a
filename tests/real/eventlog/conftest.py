"""Fixtures for tests against a real broker: each test has a pool, and so a topic, of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_eventlog import LogRecord
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi, set_up_log
from argosy_eventlog.pulsar.log import PulsarLog
from argosy_testkit.memory_log import MemoryRegister
from testbed.pulsar import Broker


class PulsarWorld:
    """A pool's log on a broker, and the power to replace its leader."""

    def __init__(self, broker: Any, settings: PulsarSettings) -> None:
        """Make the topic and take the lead."""
        self.broker = broker
        self.settings = settings
        self.pool = f"p{secrets.token_hex(6)}"
        self.admin = AdminApi(broker.service_url, settings)
        set_up_log(self.admin, settings, [self.pool])
        self.register = MemoryRegister(epoch=1)
        self.epoch = 1
        self._opened: list[PulsarLog] = []
        self.log = self.reopen()

    def reopen(self, **options: Any) -> PulsarLog:
        """Return the log through a connection of its own."""
        settings = PulsarSettings(**{**self._options(), **options})
        self._opened.append(PulsarLog(self.broker.service_url, self.pool, self.register, settings))
        return self._opened[-1]

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self.settings, name) for name in self.settings.__dataclass_fields__}

    def replace_leader(self) -> int:
        """Raise the epoch."""
        self.epoch += 1
        self.register.fence(self.epoch)
        return self.epoch

    def read_all(self) -> list[LogRecord]:
        """Return every record, through a connection of its own."""
        log = self.reopen()
        records: list[LogRecord] = []
        while more := log.read(records[-1].position if records else 0, 100):
            records += more
        log.close()
        return records

    def close(self) -> None:
        """Close everything."""
        for log in self._opened:
            log.close()


@pytest.fixture
def start_broker(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[Callable[..., Broker]]:
    """Starts a broker for one test: `start_broker(name, what_for, settings, disk=...)`; it goes with the test."""
    with ExitStack() as stack:

        def start(
            name: str, what_for: str, settings: dict[str, str] | None = None, *, disk: Path | None = None
        ) -> Broker:
            made = Broker(real_directory / name, settings, disk=disk)
            stack.callback(made.remove)
            made.start()
            note_part(f"Pulsar broker, {what_for}", made.version)
            return made

        yield start


@pytest.fixture
def pulsar_settings(pulsar_broker: Any) -> PulsarSettings:
    """Give settings with short patience."""
    return PulsarSettings(admin_url=pulsar_broker.admin_url, publish_timeout_s=20.0)


@pytest.fixture
def log_world(pulsar_broker: Any, pulsar_settings: PulsarSettings) -> Iterator[PulsarWorld]:
    """Give an empty log with a leader."""
    world = PulsarWorld(pulsar_broker, pulsar_settings)
    yield world
    world.close()


@pytest.fixture
def insist() -> Callable[[Callable[[], int]], int]:
    """Give what a leader does about unknown results: repeat."""

    def call(publish: Callable[[], int]) -> int:
        for _ in range(20):
            try:
                return publish()
            except BackendUnavailable:
                continue
        raise AssertionError("the broker did not come back")

    return call

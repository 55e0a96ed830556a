"""A connection to Pulsar: errors of the client stay inside, and nothing is left open."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pulsar
import pytest

from argosy_core.errors import (
    ArgosyError,
    BackendUnavailable,
    InvalidRequest,
    NotAllowedNow,
    NotAuthenticated,
    NotPermitted,
    StateConflict,
)
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.connection import PulsarConnection, translating
from argosy_eventlog.pulsar.log import PulsarLog
from argosy_eventlog.pulsar.sender import PulsarSender
from argosy_testkit.memory_log import MemoryRegister

NOBODY = "pulsar://127.0.0.1:1"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (pulsar.ProducerFenced, StateConflict),
        (pulsar.ProducerBusy, StateConflict),
        (pulsar.MessageTooBig, InvalidRequest),
        (pulsar.AuthenticationError, NotAuthenticated),
        (pulsar.AuthorizationError, NotPermitted),
        (pulsar.TopicNotFound, NotAllowedNow),
        (pulsar.Timeout, BackendUnavailable),
        (pulsar.AlreadyClosed, BackendUnavailable),
    ],
)
def test_errors_of_the_client_become_ours(raised: type[Exception], expected: type[ArgosyError]) -> None:
    """Each with what was tried."""
    with pytest.raises(expected, match="a test"), translating("a test"):
        raise raised("boom")


@pytest.mark.parametrize(
    ("opened", "remedy"),
    [
        (lambda settings: PulsarConnection(NOBODY, settings), "run `argosy admin setup-log`"),
        (lambda settings: PulsarSender(NOBODY, "t", settings)._connection, "run `argosy admin setup-log --events`"),
    ],
    ids=["log", "relay"],
)
def test_missing_topic_is_told_with_the_command_that_makes_it(opened: Any, remedy: str) -> None:
    """That of job events is made only where it is asked for."""
    with pytest.raises(NotAllowedNow) as refusal, opened(PulsarSettings()).translating("a test"):
        raise pulsar.TopicNotFound("boom")
    assert refusal.value.message.endswith(remedy)


def test_a_closed_connection_stays_closed() -> None:
    """What comes later is told so, and closing again is fine."""
    connection = PulsarConnection(NOBODY, PulsarSettings())
    connection.close()
    connection.close()
    with pytest.raises(BackendUnavailable, match="closed"):
        connection.client()


def test_a_url_that_names_no_broker_is_refused_at_once() -> None:
    """Before anything is dialled."""
    with pytest.raises(InvalidRequest, match="pulsar://host:6650"):
        PulsarConnection("localhost", PulsarSettings())


def test_nothing_is_opened_before_it_is_needed() -> None:
    """So that a process may fork after making a log: no thread of the client runs yet."""
    before = threading.active_count()
    log = PulsarLog(NOBODY, "default", MemoryRegister(epoch=1))
    assert log._connection._client is None
    assert threading.active_count() == before
    log.close()


def test_an_epoch_that_does_not_lead_is_refused_without_a_broker() -> None:
    """The register is asked first, so a late leader fences nobody."""
    log = PulsarLog(NOBODY, "default", MemoryRegister(epoch=5))
    with pytest.raises(StateConflict, match="the epoch is 5"):
        log.append(4, 1, b"late")
    log.close()


def test_a_record_that_is_too_large_is_refused_without_a_broker() -> None:
    """With what to do about it."""
    log = PulsarLog(NOBODY, "default", MemoryRegister(epoch=1), PulsarSettings(max_message_bytes=10))
    with pytest.raises(InvalidRequest, match="publish it in parts"):
        log.append(1, 1, b"x" * 11)
    log.close()


def test_a_token_file_is_read_at_every_use(tmp_path: Path) -> None:
    """So that a token can be rotated."""
    from argosy_eventlog.pulsar.connection import _token_source

    path = tmp_path / "token"
    path.write_text("one\n", encoding="utf-8")
    source = _token_source(PulsarSettings(token_file=str(path)))
    assert callable(source)
    assert source() == "one"
    path.write_text("two", encoding="utf-8")
    assert source() == "two"

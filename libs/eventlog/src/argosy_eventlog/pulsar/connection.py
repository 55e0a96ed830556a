"""A client of Pulsar: made when first needed, so that it is never carried through a fork, and closed for certain.

A process that ends with an open client may be aborted by its threads, so one that was forgotten is closed at exit.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pulsar

from argosy_core.errors import (
    BackendUnavailable,
    InvalidRequest,
    NotAllowedNow,
    NotAuthenticated,
    NotPermitted,
    StateConflict,
)
from argosy_eventlog.pulsar.settings import PulsarSettings, check_url

__all__ = ["PulsarConnection", "translating"]

_FENCED: Final = (pulsar.ProducerFenced, pulsar.ProducerBusy)
_CLOSED_TEXT: Final = "the connection to Pulsar was closed"


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Let no exception of the client out; raise the matching error of ours instead.

    Args:
        what: What was tried, as in "a publish to persistent://argosy/log/leases-default".

    Raises:
        StateConflict: Another producer has the topic.
        InvalidRequest: A message is too large.
        NotAuthenticated: The broker does not know us.
        NotPermitted: The broker does not let us.
        NotAllowedNow: The topic is missing or of the wrong kind.
        BackendUnavailable: Anything else; what was tried may or may not have happened.
    """
    try:
        yield
    except _FENCED as cause:
        raise StateConflict(f"{what} was refused: another producer has the topic") from cause
    except pulsar.MessageTooBig as cause:
        raise InvalidRequest(f"{what} is larger than the broker's maxMessageSize") from cause
    except pulsar.AuthenticationError as cause:
        raise NotAuthenticated(f"{what} was refused: the broker does not accept the token") from cause
    except pulsar.AuthorizationError as cause:
        raise NotPermitted(f"{what} was refused: the broker does not permit it") from cause
    except (pulsar.TopicNotFound, pulsar.InvalidTopicName) as cause:
        raise NotAllowedNow(f"{what} was refused: there is no such topic; run `argosy admin setup-log`") from cause
    except pulsar.PulsarException as cause:
        reason = str(cause).removeprefix("Pulsar error: ").removeprefix("Result")
        reason = reason or type(cause).__name__
        raise BackendUnavailable(f"Pulsar cannot serve {what} now: {reason}; try again") from cause


class PulsarConnection:
    """The client of one log, one relay or one admin call. Thread-safe.

    Args:
        url: pulsar://host:port, or pulsar+ssl://host:port; several hosts separated by commas.
        settings: How the broker is reached.
    """

    def __init__(self, url: str, settings: PulsarSettings) -> None:
        """Connect to nothing yet.

        Raises:
            InvalidRequest: The URL names no broker.
        """
        check_url(url)
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None
        self.closed = threading.Event()
        """Set once the connection is closed for good."""

    def client(self) -> Any:  # noqa: ANN401 - the library's client has no types worth the name
        """Return the client.

        Raises:
            BackendUnavailable: The connection was closed.
        """
        with self._lock:
            if self.closed.is_set():
                raise BackendUnavailable(_CLOSED_TEXT)
            if self._client is None:
                self._client = self._make()
                atexit.register(self.close)
            return self._client

    def _make(self) -> Any:  # noqa: ANN401 - as above
        settings = self._settings
        options: dict[str, Any] = {}
        if settings.token or settings.token_file:
            options["authentication"] = pulsar.AuthenticationToken(_token_source(settings))
        if self._url.startswith("pulsar+ssl"):
            options.update(use_tls=True, tls_validate_hostname=True)
            if settings.tls_trust_file:
                options["tls_trust_certs_file_path"] = settings.tls_trust_file
        with translating(f"a connection to {self._url}"):
            return pulsar.Client(
                self._url,
                operation_timeout_seconds=max(int(settings.operation_timeout_s), 1),
                connection_timeout_ms=int(settings.operation_timeout_s * 1000),
                io_threads=1,
                message_listener_threads=1,
                logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
                **options,
            )

    def close(self) -> None:
        """End the client and everything it opened; calls under way fail. Closing twice is fine."""
        with self._lock:
            client, self._client = self._client, None
            self.closed.set()
        if client is not None:
            atexit.unregister(self.close)
            try:
                client.close()
            except pulsar.PulsarException:
                client.shutdown()  # what does not close in order is dropped


def _token_source(settings: PulsarSettings) -> str | Callable[[], str]:
    if settings.token:
        return settings.token
    path = Path(settings.token_file)

    def read() -> str:
        return path.read_text(encoding="utf-8").strip()

    return read

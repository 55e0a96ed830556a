"""A client of Pulsar: made when first needed, so that it is never carried through a fork, and closed for certain.

A process that ends with an open client may be aborted by its threads, so one that was forgotten is closed at exit.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

__all__ = ["SETUP_LOG", "PulsarConnection", "translating"]

_FENCED: Final = (pulsar.ProducerFenced, pulsar.ProducerBusy)
_UNREACHED: Final = (pulsar.ConnectError, pulsar.Timeout)
SETUP_LOG: Final = "argosy admin setup-log"
"""Command that makes the topics of the log."""
_CLOSED_TEXT: Final = "the connection to Pulsar was closed"


@contextmanager
def translating(what: str, *, credentials: str = "the token", hint: str = "", setup: str = SETUP_LOG) -> Iterator[None]:
    """Let no exception of the client out; raise the matching error of ours instead.

    Args:
        what: What was tried, as in "a publish to persistent://argosy/log/leases-default".
        credentials: What the broker was shown, in words.
        hint: What may be wrong if there is no connection at all.
        setup: Command that makes the topic.

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
        raise NotAuthenticated(f"{what} was refused: the broker does not accept {credentials}") from cause
    except pulsar.AuthorizationError as cause:
        text = "its role may not produce and consume there"
        raise NotPermitted(f"{what} was refused: the broker knows {credentials}, but {text}") from cause
    except (pulsar.TopicNotFound, pulsar.InvalidTopicName) as cause:
        raise NotAllowedNow(f"{what} was refused: there is no such topic; run `{setup}`") from cause
    except pulsar.PulsarException as cause:
        reason = str(cause).removeprefix("Pulsar error: ").removeprefix("Result")
        reason = (reason or type(cause).__name__) + (hint if isinstance(cause, _UNREACHED) else "")
        raise BackendUnavailable(f"Pulsar cannot serve {what} now: {reason}; try again") from cause


class PulsarConnection:
    """The client of one log, one relay or one admin call. Thread-safe.

    Args:
        url: pulsar://host:port, or pulsar+ssl://host:port; several hosts separated by commas.
        settings: How the broker is reached.
        setup: Command that makes what may be missing there.
    """

    def __init__(self, url: str, settings: PulsarSettings, *, setup: str = SETUP_LOG) -> None:
        """Connect to nothing yet.

        Raises:
            InvalidRequest: The URL names no broker, or the file of authorities cannot be read.
        """
        check_url(url)
        settings.check_trust_file()
        self._url = url
        self._settings = settings
        self._setup = setup
        doubts = []  # the client does not tell a refusal from a broker that is away
        if url.startswith("pulsar+ssl") or settings.token or settings.token_file:
            doubts.append(f"does it accept {settings.credentials}")
        if url.startswith("pulsar+ssl"):
            trusted = settings.tls_trust_file or "the system's authorities, as pulsar.tls_trust_file is empty"
            doubts.append(f"is its certificate vouched for by {trusted}")
        self._hint = f" (if the broker runs: {', and '.join(doubts)}?)" if doubts else ""
        self._lock = threading.Lock()
        self._client: Any = None
        self.closed = threading.Event()
        """Set once the connection is closed for good."""

    @contextmanager
    def translating(self, what: str) -> Iterator[None]:
        """Do as `translating` for something tried here; its messages say which settings to look at.

        A client that was refused would not ask with another token, so the next call gets a new one.
        """
        try:
            with translating(what, credentials=self._settings.credentials, hint=self._hint, setup=self._setup):
                yield
        except NotAuthenticated:
            with self._lock:
                refused, self._client = self._client, None
            self._end(refused)
            raise

    def client(self) -> Any:  # noqa: ANN401 - the library's client has no types worth the name
        """Return the library's client, which is made at the first call.

        Raises:
            BackendUnavailable: The connection was closed.
            InvalidRequest: The token's file cannot be read.
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
        if settings.read_token():  # a file that cannot be read shows here, and not as a refusal by the broker
            options["authentication"] = pulsar.AuthenticationToken(_token_source(settings))
        if self._url.startswith("pulsar+ssl"):
            options.update(use_tls=True, tls_validate_hostname=True)
            if settings.tls_trust_file:
                options["tls_trust_certs_file_path"] = settings.tls_trust_file
        with self.translating(f"a connection to {self._url}"):
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
        self._end(client)

    def _end(self, client: Any) -> None:  # noqa: ANN401 - as above
        if client is not None:
            atexit.unregister(self.close)
            try:
                client.close()
            except pulsar.PulsarException:
                client.shutdown()  # what does not close in order is dropped


def _token_source(settings: PulsarSettings) -> str | Callable[[], str]:
    return settings.read_token if settings.token_file else settings.token

"""Publishing messages with keys for other systems: in order, at least once, a bounded number at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pulsar

from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_eventlog.pulsar.connection import SETUP_LOG, PulsarConnection
from argosy_eventlog.pulsar.settings import PulsarSettings

__all__ = ["KeyedMessage", "PulsarSender"]

_PIECE_COUNT: Final = 500
"""Messages on their way at once; the producer takes twice as many, since one that is full would wait for ever: its
answers come through the interpreter's lock that the waiting call holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedMessage:
    """A message for other systems."""

    key: str
    """What its order is kept within."""
    payload: bytes
    """What it says."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What can be read without reading the payload."""


class PulsarSender:
    """The one producer of a topic. For one thread at a time; `close` may come from another.

    Only one sender may have the topic at a time, so that messages stand in order; a second one is refused until the
    first has gone.

    Args:
        url: pulsar://host:port, or pulsar+ssl://host:port.
        topic: Topic.
        settings: How Pulsar is reached.
    """

    def __init__(self, url: str, topic: str, settings: PulsarSettings) -> None:
        """Connect to nothing yet.

        Raises:
            InvalidRequest: The URL names no broker.
        """
        self._topic = topic
        self._settings = settings
        self._connection = PulsarConnection(url, settings, setup=f"{SETUP_LOG} --events")
        self._producer: Any = None

    def send(self, messages: Sequence[KeyedMessage]) -> None:
        """Publish messages in order and return once all are stored.

        Raises:
            StateConflict: Another sender has the topic.
            BackendUnavailable: Some may be stored and some not: send all of them again.
        """
        for start in range(0, len(messages), _PIECE_COUNT):
            try:
                self._send_piece(messages[start : start + _PIECE_COUNT])
            except ArgosyError:
                self._close_producer()  # what is still on its way must not come after what is sent again
                raise

    def _send_piece(self, messages: Sequence[KeyedMessage]) -> None:
        """Publish fewer messages than the producer takes without waiting, and wait for all of them."""
        if self._producer is None:
            self._open()
        done = threading.Event()
        results: list[Any] = []

        def note(result: Any, _: object) -> None:  # noqa: ANN401 - a result code of the library
            results.append(result)
            if len(results) == len(messages):
                done.set()

        with self._connection.translating(f"a publish to {self._topic}"):
            for message in messages:
                self._producer.send_async(
                    message.payload, note, partition_key=message.key, properties=dict(message.properties)
                )
        if not done.wait(self._settings.publish_timeout_s):
            raise BackendUnavailable(f"a publish to {self._topic} was not answered; try again")
        bad = next((result for result in results if result != pulsar.Result.Ok), None)
        if bad is not None:
            raise BackendUnavailable(f"a publish to {self._topic} failed: {bad}; try again")

    def _open(self) -> None:
        with self._connection.translating(f"a producer on {self._topic}"):
            self._producer = self._connection.client().create_producer(
                self._topic,
                access_mode=pulsar.ProducerAccessMode.Exclusive,
                batching_enabled=True,
                batching_type=pulsar.BatchingType.KeyBased,
                batching_max_publish_delay_ms=2,
                send_timeout_millis=int(self._settings.publish_timeout_s * 1000),
                max_pending_messages=2 * _PIECE_COUNT,
                block_if_queue_full=False,
            )

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(pulsar.PulsarException):  # it ends with the client
                producer.close()

    def close(self) -> None:
        """End the connection; a send under way fails with BackendUnavailable."""
        self._connection.close()

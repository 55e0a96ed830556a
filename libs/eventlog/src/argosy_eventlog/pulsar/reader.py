"""Reading a pool's log from any position, a bounded piece at a time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pulsar

from argosy_core.errors import InvariantViolation
from argosy_eventlog.port import LogRecord
from argosy_eventlog.pulsar.connection import PulsarConnection
from argosy_eventlog.pulsar.numbers import ledger_and_entry, position_of

__all__ = ["EPOCH", "SEQUENCE", "TRACEPARENT", "PulsarReader"]

EPOCH: Final = "epoch"
"""Message property: the epoch of the leader that published it, decimal."""
SEQUENCE: Final = "sequence"
"""Message property: its place in that leader's order, decimal."""
TRACEPARENT: Final = "traceparent"
"""Message property: W3C trace context of the publish, if the leader traces it."""
_QUEUE_COUNT: Final = 16
"""Messages that the broker may send ahead: 16 of the largest are 80 MB."""
_PIECE_BYTES: Final = 32 << 20
"""Payload after which a read ends, whatever its limit; at least one record comes."""


class PulsarReader:
    """Reads records in order. For one thread at a time.

    Args:
        connection: The client.
        topic: The pool's log.
        timeout_s: How long one message may take to come.
    """

    def __init__(self, connection: PulsarConnection, topic: str, *, timeout_s: float) -> None:
        """Open nothing yet."""
        self._connection = connection
        self._topic = topic
        self._timeout_ms = int(timeout_s * 1000)
        self._reader: Any = None
        self._position = -1

    def read(self, after_position: int, limit: int) -> list[LogRecord]:
        """Return up to `limit` records after a position, fewer if they are large; none if there are no more yet.

        Going on where the last read ended costs nothing; any other place opens a new reader. At the end of the log it
        is closed, so that the broker does not fill it with what nobody asks for.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """
        records: list[LogRecord] = []
        with self._connection.translating(f"a read of {self._topic}"):
            try:
                if self._reader is None or after_position != self._position:
                    self._open(after_position)
                size = 0
                while len(records) < limit and size < _PIECE_BYTES:
                    if not self._reader.has_message_available():
                        self.close()
                        break
                    message = self._reader.read_next(timeout_millis=self._timeout_ms)
                    record = _record(message)
                    self._position = max(self._position, record.position)
                    if record.position > after_position:
                        records.append(record)
                        size += len(record.payload)
            except BaseException:
                self.close()
                raise
        return records

    def _open(self, after_position: int) -> None:
        self.close()
        start = pulsar.MessageId.earliest
        if after_position > 0:
            ledger, entry = ledger_and_entry(after_position)
            start = pulsar.MessageId(-1, ledger, entry, -1)
        self._reader = self._connection.client().create_reader(self._topic, start, receiver_queue_size=_QUEUE_COUNT)
        self._position = after_position

    def close(self) -> None:
        """Close the reader; it is opened again when needed."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(pulsar.PulsarException):  # it ends with the client
                reader.close()


def _record(message: Any) -> LogRecord:  # noqa: ANN401 - a message of the library
    """Return a message as a record; what no leader of ours has published has epoch 0."""
    place = message.message_id()
    if place.partition() > 0:
        raise InvariantViolation("the log's topic is partitioned; a pool's log has one order")
    properties = message.properties()
    numbers = [properties.get(name, "") for name in (EPOCH, SEQUENCE)]
    epoch, sequence = (int(text) if text.isdecimal() else 0 for text in numbers)
    return LogRecord(
        position=position_of(place.ledger_id(), place.entry_id()),
        epoch=epoch,
        sequence=sequence,
        payload=bytes(message.data()),
    )

"""The relays of job events and of the audit: publish them to topics that other systems may read.

At least once and in order within a job set: a piece is published, and only then deleted from the outbox. A relay that
stops in between publishes the piece again; events are numbered, so a reader drops what it has had. It has connections
and threads of its own, so a broker that is away delays nobody but its readers. While it is away, the outbox grows by
some bytes per job set and transaction, until what was not relayed leaves with the events themselves. The audit is
relayed alike and beside, so neither waits for the other's topic.

`docs/events.md` describes the messages to those who read them.

Source: design section 4, job_set_events; 003 "Architecture".
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import structlog
from google.protobuf.message import DecodeError

from argosy.lease.v1 import lease_pb2
from argosy_core.errors import ArgosyError, InvalidRequest, StateConflict
from argosy_eventlog.pulsar.sender import KeyedMessage, PulsarSender
from argosy_server.api.access import audit_message
from argosy_server.api.codecs.event_codec import read_event_columns
from argosy_server.api.codecs.event_wire import encode_events
from argosy_server.config import ServerConfig
from argosy_store.replicas.audit import AuditOutbox
from argosy_store.terms.outbox import EventOutbox, OutboxPiece, RelayedEvents

__all__ = ["AuditRelay", "EventRelay", "event_messages"]

_log = structlog.get_logger(__name__)
_ROWS_PER_PIECE: Final = 20
_EVENTS_PER_MESSAGE: Final = 2_000
_RECORDS_PER_PIECE: Final = 500
_IDLE_S: Final = 0.1
_FIRST_BACK_OFF_S: Final = 0.5
_LAST_BACK_OFF_S: Final = 10.0


def event_messages(pool: str, events: RelayedEvents) -> Iterator[KeyedMessage]:
    """Yield a stored batch of events as messages, each with at most 2,000 events.

    Args:
        pool: Pool.
        events: The batch.

    Raises:
        InvalidRequest: The batch cannot be read.
    """
    message = lease_pb2.EventBatch()
    try:
        message.ParseFromString(events.payload)
    except DecodeError as cause:
        name = f"{events.queue}/{events.job_set}"
        raise InvalidRequest(f"events from {events.first_number} on of {name} cannot be read") from cause
    columns = read_event_columns(message)
    texts = [*message.texts, ""]  # -1 stands for none and so takes the last
    count = len(columns["handle_column"])
    for start in range(0, count, _EVENTS_PER_MESSAGE):
        part = slice(start, min(start + _EVENTS_PER_MESSAGE, count))
        numbers = events.first_number + np.arange(part.start, part.stop, dtype=np.int64)
        yield KeyedMessage(
            key=f"{events.queue}/{events.job_set}",
            payload=encode_events({name: values[part] for name, values in columns.items()}, texts, numbers),
            properties={
                "pool": pool,
                "queue": events.queue,
                "job_set": events.job_set,
                "first_number": str(numbers[0]),
                "last_number": str(numbers[-1]),
            },
        )


class _Relay(ABC):
    """Publishes what an outbox holds, piece by piece, until cancelled.

    Args:
        config: The server's configuration.
        outbox: What is still to be published.
        topic: Where.
        what: What it is, for the log.

    Raises:
        InvalidRequest: `events_url` is missing or names no broker.
    """

    def __init__(self, config: ServerConfig, outbox: AuditOutbox | EventOutbox, *, topic: str, what: str) -> None:
        """Connect to nothing yet."""
        if not config.events_url:
            raise InvalidRequest("the relay needs events_url; write --events-url pulsar://host:6650")
        self._closing = outbox.close
        self._sender = PulsarSender(config.events_url, topic, config.pulsar)
        self._what = what
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="relay")

    async def run(self) -> None:
        """Publish what the outbox holds, for ever; what fails is tried again, ever less often."""
        loop = asyncio.get_running_loop()
        back_off_s = 0.0
        while True:
            try:
                count = await loop.run_in_executor(self._thread, self.relay_once)
            except ArgosyError as error:
                back_off_s = min(max(2 * back_off_s, _FIRST_BACK_OFF_S), _LAST_BACK_OFF_S)
                # That another one has the topic is as it should be, where there are many.
                tell = _log.debug if isinstance(error, StateConflict) else _log.warning
                tell(f"{self._what} cannot be relayed now", reason=error.message, wait_s=back_off_s)
                await asyncio.sleep(back_off_s)
            else:
                back_off_s = 0.0
                if not count:
                    await asyncio.sleep(_IDLE_S)

    @abstractmethod
    def relay_once(self) -> int:
        """Publish one piece; return the number of rows it took from the outbox. Blocks.

        Raises:
            StateConflict: Another relay has the topic.
            BackendUnavailable: The broker or the database cannot be reached; the piece is still there.
        """

    async def close(self) -> None:
        """End the connections; what is under way fails and is relayed again by the next."""
        await asyncio.to_thread(self._sender.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._closing)


class EventRelay(_Relay):
    """Relays one pool's events.

    Args:
        config: The server's configuration.

    Raises:
        InvalidRequest: `events_url` is missing or names no broker.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Connect to nothing yet."""
        self._pool = config.pool
        self._outbox = EventOutbox(config.database_url, config.pool)
        super().__init__(config, self._outbox, topic=config.pulsar.events_topic(config.pool), what="events")

    def relay_once(self) -> int:
        """Publish one piece; return the number of rows it took from the outbox. Blocks.

        Raises:
            StateConflict: Another relay has the topic.
            BackendUnavailable: The broker or the database cannot be reached; the piece is still there.
        """
        piece = self._outbox.read(_ROWS_PER_PIECE)
        if not piece.ids:
            return 0
        if piece.missing_count:
            _log.warning("events left before they could be relayed", row_count=piece.missing_count)
        self._sender.send(self._messages(piece))
        self._outbox.delete(piece.ids)
        return len(piece.ids)

    def _messages(self, piece: OutboxPiece) -> list[KeyedMessage]:
        messages: list[KeyedMessage] = []
        for events in piece.events:
            try:
                messages += event_messages(self._pool, events)
            except InvalidRequest as error:
                _log.error("events are left out", reason=error.message)
        return messages


class AuditRelay(_Relay):
    """Relays the audit of the installation: the relay of whichever pool has the topic, the others stand by.

    Args:
        config: The server's configuration.

    Raises:
        InvalidRequest: `events_url` is missing or names no broker.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Connect to nothing yet."""
        self._outbox = AuditOutbox(config.database_url)
        super().__init__(config, self._outbox, topic=config.pulsar.audit_topic, what="the audit")

    def relay_once(self) -> int:
        """Publish up to 500 records; return their number. Blocks.

        Raises:
            StateConflict: Another relay has the topic.
            BackendUnavailable: The broker or the database cannot be reached; the records are still there.
        """
        rows = self._outbox.read(_RECORDS_PER_PIECE)
        self._sender.send(
            [
                KeyedMessage(
                    key=f"{row.kind}/{row.name}",
                    payload=audit_message(row).SerializeToString(),
                    properties={"number": str(row.id), "method": row.actor.method, "principal": row.actor.principal},
                )
                for row in rows
            ]
        )
        if rows:
            self._outbox.delete([row.id for row in rows])
        return len(rows)

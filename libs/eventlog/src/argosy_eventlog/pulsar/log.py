"""A pool's event log on Pulsar.

One persistent topic without partitions per pool, one message per record, no batching and no chunking. What keeps
leaders apart, and repeated publishes from making two records:

- The producer of an epoch is opened with exclusive access that fences the one before it, after looking up in the
  database that the epoch is the current one. A fenced producer never publishes again.
- All producers of a pool have one name, and sequence ids grow with (epoch, sequence). The broker drops what does not
  grow, so a repeated record is dropped, also after reconnecting, in another process, and after the broker's restart;
  and a record of an older epoch can never stand behind one of a newer.

A record that was dropped as a repeat is read back to learn its position.

What has been applied is left to retention by moving the cursor of a subscription; what has not been applied is kept
whatever retention says.

Source: design section 5, "Ingest"; section 7, invariant 9.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Final

import pulsar

from argosy_core.errors import (
    BackendUnavailable,
    InvalidRequest,
    InvariantViolation,
    NotAllowedNow,
    NotAuthenticated,
    StateConflict,
)
from argosy_eventlog.port import LogRecord, PoolRegister, QuarantinedLogRecord
from argosy_eventlog.pulsar.connection import PulsarConnection
from argosy_eventlog.pulsar.numbers import epoch_of, ledger_and_entry, position_of, sequence_id_of
from argosy_eventlog.pulsar.reader import EPOCH, SEQUENCE, TRACEPARENT, PulsarReader
from argosy_eventlog.pulsar.settings import SUBSCRIPTION, PulsarSettings

__all__ = ["PulsarLog"]

_FIND_COUNT: Final = 64
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 1.0
_BUSY_PAUSE_S: Final = 0.02


class PulsarLog:
    """A pool's event log on Pulsar. Thread-safe: appends wait for each other, and so do reads.

    Args:
        url: pulsar://host:port, or pulsar+ssl://host:port.
        pool: Pool.
        register: Where the pool's epoch is looked up and its quarantine kept.
        settings: How Pulsar is reached and what the topic is called.
    """

    def __init__(self, url: str, pool: str, register: PoolRegister, settings: PulsarSettings | None = None) -> None:
        """Connect to nothing yet.

        Raises:
            InvalidRequest: The URL names no broker, or the pool cannot name a topic.
        """
        self._settings = settings or PulsarSettings()
        self._pool = pool
        self._topic = self._settings.log_topic(pool)
        self._register = register
        self._connection = PulsarConnection(url, self._settings)
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._reader = PulsarReader(self._connection, self._topic, timeout_s=self._settings.operation_timeout_s)
        self._producer: Any = None
        self._epoch = 0
        self._start = 0
        """Position behind which all records of the epoch stand."""
        self._last = (0, 0)
        """(sequence, position) of the last record whose position is known."""

    @property
    def topic(self) -> str:
        """Full name of the topic that holds the pool's records."""
        return self._topic

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append a record durably; return its position. Sequences of an epoch must grow, but may be repeated.

        While the broker is away this waits, repeating the publish, up to `publish_timeout_s`. A trace context becomes
        the message property `traceparent`, where consumers of Pulsar look for one.

        Raises:
            StateConflict: Another epoch is the current one, or this one has used up its sequences.
            InvalidRequest: The record is too large, or the sequence below 1.
            BackendUnavailable: The result is unknown. Repeat it or give up the epoch.
            NotAllowedNow: The topic is partitioned, or missing and may not be made.
            InvariantViolation: The sequence was never published, but a later one was.
        """
        sequence_id = sequence_id_of(epoch, sequence)
        if len(payload) > self._settings.max_message_bytes:
            raise InvalidRequest(
                f"a record of {len(payload)} bytes is larger than pulsar.max_message_bytes,"
                f" {self._settings.max_message_bytes}; publish it in parts, or raise it and the broker's maxMessageSize"
            )
        properties = {EPOCH: str(epoch), SEQUENCE: str(sequence)}
        if traceparent:
            properties[TRACEPARENT] = traceparent
        deadline_s = time.monotonic() + self._settings.publish_timeout_s
        pause_s = _PAUSE_S
        with self._writing:
            while True:
                try:
                    return self._publish(epoch, sequence, payload, sequence_id, properties=properties)
                except BackendUnavailable:
                    # A producer that has waited long for its broker asks for it ever less often; a new one asks anew.
                    self._close_producer()
                    if time.monotonic() > deadline_s or self._connection.closed.wait(pause_s):
                        raise
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                except (StateConflict, NotAuthenticated):
                    self._close_producer()
                    raise

    def _publish(
        self, epoch: int, sequence: int, payload: bytes, sequence_id: int, *, properties: dict[str, str]
    ) -> int:
        """Publish once; return the position."""
        if epoch < self._epoch:
            raise StateConflict(f"epoch {epoch} may not write to {self._topic}: the epoch is {self._epoch}")
        if epoch != self._epoch or self._producer is None:
            self._open(epoch)
        with self._connection.translating(f"record {sequence} of epoch {epoch} on {self._topic}"):
            place = self._send(payload, sequence_id=sequence_id, properties=properties)
        if place.ledger_id() < 0:
            return self._find(epoch, sequence)
        position = position_of(place.ledger_id(), place.entry_id())
        self._last = (sequence, position)
        return position

    def _send(self, payload: bytes, *, sequence_id: int, properties: dict[str, str]) -> Any:  # noqa: ANN401 - the library's
        """Send a message and return its id.

        The library's own blocking call does not keep its time-out: a broker that answers each attempt with an error, as
        one does whose bookies are full, makes it try for ever.

        Raises:
            pulsar.PulsarException: It was not stored, or not in time.
        """
        answered = threading.Event()
        answers: list[Any] = []

        def note(result: Any, place: Any) -> None:  # noqa: ANN401 - as above
            answers.append((result, place))
            answered.set()

        self._producer.send_async(payload, note, sequence_id=sequence_id, properties=properties)
        deadline_s = time.monotonic() + self._settings.operation_timeout_s
        while not answered.wait(_PAUSE_S):
            if time.monotonic() > deadline_s or self._connection.closed.is_set():
                raise pulsar.Timeout
        result, place = answers[0]
        if result != pulsar.Result.Ok:
            raise getattr(pulsar, result.name, pulsar.PulsarException)
        return place

    def _open(self, epoch: int) -> None:
        """Open the producer of an epoch, which ends all others.

        Raises:
            StateConflict: The epoch is not the current one.
        """
        current = self._register.current_epoch()
        if current != epoch:
            raise StateConflict(f"epoch {epoch} may not write to {self._topic}: the epoch is {current}")
        self._close_producer()
        with self._connection.translating(f"a producer on {self._topic}"):
            client = self._connection.client()
            if len(client.get_topic_partitions(self._topic)) > 1:
                raise NotAllowedNow(f"{self._topic} is partitioned; a pool's log has one order: make it anew without")
            end = self._end_of_log()
            producer = self._create_producer(client)
            last_epoch = epoch_of(producer.last_sequence_id())
            if last_epoch > epoch:
                producer.close()
                raise StateConflict(f"epoch {epoch} may not write to {self._topic}: epoch {last_epoch} has written")
        self._producer = producer
        if epoch != self._epoch:
            # Where this epoch has written before, in another process, nothing is known of its records.
            self._epoch, self._start = epoch, 0 if last_epoch == epoch else end
            self._last = (0, self._start)

    def _create_producer(self, client: Any) -> Any:  # noqa: ANN401 - types of the library
        """Return a producer that ends all others.

        The broker keeps the name of the one before it busy until that one has heard of its end.
        """
        deadline_s = time.monotonic() + self._settings.operation_timeout_s
        while True:
            try:
                return client.create_producer(
                    self._topic,
                    producer_name=f"argosy-{self._pool}",
                    access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing,
                    batching_enabled=False,
                    chunking_enabled=False,
                    send_timeout_millis=int(self._settings.operation_timeout_s * 1000),
                    max_pending_messages=4,
                    block_if_queue_full=False,  # a call that waits keeps the interpreter's lock from its answer
                )
            except pulsar.ProducerBusy as cause:
                if time.monotonic() > deadline_s:
                    raise BackendUnavailable(f"{self._topic} is kept busy by a producer that does not end") from cause
            self._connection.closed.wait(_BUSY_PAUSE_S)

    def _end_of_log(self) -> int:
        """Return the position of the last record, 0 if there is none; makes the subscription if it is missing."""
        consumer = self._subscribe()
        try:
            place = consumer.get_last_message_id()
        finally:
            consumer.close()
        if place.ledger_id() < 0 or place.entry_id() < 0:
            return 0
        return position_of(place.ledger_id(), place.entry_id())

    def _subscribe(self) -> Any:  # noqa: ANN401 - a consumer of the library
        """Return a consumer of our own cursor that fetches nothing."""
        return self._connection.client().subscribe(
            self._topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Failover,  # a leader that is going must not keep its successor out
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=0,
        )

    def _find(self, epoch: int, sequence: int) -> int:
        """Return the position of a record that the broker has had before.

        Raises:
            StateConflict: A later epoch has written.
            InvariantViolation: It is not there.
        """
        reader = PulsarReader(self._connection, self._topic, timeout_s=self._settings.operation_timeout_s)
        position = self._last[1] if sequence > self._last[0] else self._start
        found_epoch = 0
        try:
            while records := reader.read(position, _FIND_COUNT):
                for record in records:
                    if (record.epoch, record.sequence) == (epoch, sequence):
                        return record.position
                    found_epoch = max(found_epoch, record.epoch)
                position = records[-1].position
        finally:
            reader.close()
        if found_epoch > epoch:
            raise StateConflict(f"epoch {epoch} may not write to {self._topic}: epoch {found_epoch} has written")
        raise InvariantViolation(
            f"record {sequence} of epoch {epoch} was dropped by {self._topic}, because later ones stand there, but it"
            " does not"
        )

    def read(self, after_position: int, limit: int) -> list[LogRecord]:
        """Return up to `limit` records after a position, in order; fewer if they are large, none if there are no more.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """
        with self._reading:
            return self._reader.read(after_position, limit)

    def trim(self, before_position: int) -> None:
        """Leave the records before a position to the topic's retention; they may be read until it deletes them.

        Raises:
            BackendUnavailable: The log cannot be reached.
        """
        ledger, entry = ledger_and_entry(before_position)
        if before_position <= 0 or entry == 0:
            return  # the first of a ledger has none before it to name; the next call has
        with self._connection.translating(f"a trim of {self._topic}"):
            consumer = self._subscribe()
            try:
                consumer.acknowledge_cumulative(pulsar.MessageId(-1, ledger, entry - 1, -1))
            finally:
                consumer.close()

    def quarantine(self, record: LogRecord, error: str, create_time_us: int) -> None:
        """Keep a record that cannot be applied where it can be looked at; see `EventLog.quarantine`."""
        self._register.quarantine(record, error, create_time_us)

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position."""
        return self._register.list_quarantined(limit)

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(pulsar.PulsarException):  # it was fenced, or the broker is away: either way it is gone
                producer.close()

    def close(self) -> None:
        """End the connection to Pulsar and the register; calls under way fail with BackendUnavailable."""
        self._connection.close()
        self._register.close()

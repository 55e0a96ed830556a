"""The outbox of job events: which rows of job_set_events the relay has still to publish.

A leader whose installation relays events adds one row per transaction, in that transaction, naming the rows of events
it wrote; it costs the same whether the transaction ended one job or ten thousand. A pool has one leader at a time, so
the rows of a pool are numbered in the order of their commits. The relay publishes what a row names and deletes it then:
what is left is what has still to be published, whatever happened in between.

Source: design section 4, job_set_events; section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_store.postgres.binary import BYTEA, INT4, INT8, TEXT, array, scalar
from argosy_store.postgres.connection import (
    MAINTENANCE_SETTINGS,
    READ_SETTINGS,
    Line,
    StoreConnection,
    connect,
    translated,
)
from argosy_store.postgres.partitions import database_time_us
from argosy_store.terms.effects import EventRow

__all__ = ["EventOutbox", "OutboxPiece", "RelayedEvents", "forget_outbox", "insert_outbox"]

_DAY_US: Final = 86_400_000_000
_REFERENCE: Final = np.dtype([("job_set_id", "<i8"), ("first_number", "<i8"), ("day", "<i4")])
_INSERT: Final = "INSERT INTO event_outbox (pool, create_time_us, payload) VALUES ($1::text, $2::bigint, $3::bytea)"
_READ: Final = "SELECT id, payload FROM event_outbox WHERE pool = %s ORDER BY id LIMIT %s"
_OLDEST: Final = "SELECT argosy_now_us() - create_time_us FROM event_outbox WHERE pool = %s ORDER BY id LIMIT 1"
_READ_EVENTS: Final = (
    "SELECT e.first_number, e.payload, q.name, s.name FROM"
    " unnest($1::integer[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS n (day, job_set_id, first_number, place)"
    " JOIN job_set_events e ON e.day = n.day AND e.job_set_id = n.job_set_id AND e.first_number = n.first_number"
    " JOIN job_sets s ON s.job_set_id = n.job_set_id JOIN queues q ON q.queue_id = s.queue_id ORDER BY n.place"
)
_EVENTS_PER_READ: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvents:
    """One row of job_set_events with the names of its job set."""

    queue: str
    """Queue."""
    job_set: str
    """Job set."""
    first_number: int
    """Number of its first event."""
    payload: bytes
    """EventBatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPiece:
    """What the relay publishes next."""

    ids: tuple[int, ...]
    """Rows of the outbox that are done with it."""
    events: tuple[RelayedEvents, ...]
    """Events in the order of their commits."""
    missing_count: int
    """Rows of events that are named, but no longer kept."""


def insert_outbox(connection: StoreConnection, pool: str, events: Sequence[EventRow]) -> None:
    """Name rows of events that this transaction wrote."""
    references = np.array(
        [(row.job_set_id, row.first_number, row.create_time_us // _DAY_US) for row in events], _REFERENCE
    )
    time_us = max(row.create_time_us for row in events)
    connection.bulk(_INSERT, scalar(TEXT, pool), scalar(INT8, time_us), scalar(BYTEA, references.tobytes()))


@translated
def forget_outbox(url: str, retention_days: int) -> int:
    """Delete what nobody has relayed for some days, as its events leave, too; return the number of rows.

    Args:
        url: Database; its clock counts.
        retention_days: Full days that events stay.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        cutoff_us = database_time_us(connection) - retention_days * _DAY_US
        return connection.execute("DELETE FROM event_outbox WHERE create_time_us < %s", [cutoff_us]).rowcount


class EventOutbox:
    """A pool's outbox, as the relay sees it. Thread-safe.

    Args:
        url: Database, migrated.
        pool: Pool.
    """

    def __init__(self, url: str, pool: str) -> None:
        """Open no connection yet."""
        self._pool = pool
        self._line = Line(url, {**READ_SETTINGS, "application_name": "argosy-relay"})

    def read(self, limit: int) -> OutboxPiece:
        """Return the events of the first `limit` rows; nothing is taken away.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._line.use() as connection:
            rows = connection.execute(_READ, [self._pool, limit], binary=True).fetchall()
            references = np.frombuffer(b"".join(bytes(row[1]) for row in rows), dtype=_REFERENCE)
            events: list[RelayedEvents] = []
            for start in range(0, len(references), _EVENTS_PER_READ):
                events += _read_events(connection, references[start : start + _EVENTS_PER_READ])
        return OutboxPiece(
            ids=tuple(int(row[0]) for row in rows), events=tuple(events), missing_count=len(references) - len(events)
        )

    def oldest_age_s(self) -> float | None:
        """Return for how long the oldest row has waited, by the database's clock; None if nothing waits.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._line.use() as connection:
            row = connection.execute(_OLDEST, [self._pool]).fetchone()
        return None if row is None else max(int(row[0]), 0) / 1e6

    def delete(self, ids: Sequence[int]) -> None:
        """Delete rows whose events were published.

        Raises:
            BackendUnavailable: Postgres cannot be reached; the rows may be there still.
        """
        with self._line.use() as connection:
            connection.execute("DELETE FROM event_outbox WHERE pool = %s AND id = ANY (%s)", [self._pool, list(ids)])

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


def _read_events(connection: StoreConnection, references: npt.NDArray[Any]) -> list[RelayedEvents]:
    result = connection.bulk(
        _READ_EVENTS,
        array(INT4, references["day"]),
        array(INT8, references["job_set_id"]),
        array(INT8, references["first_number"]),
    )
    found = []
    for row in range(result.ntuples):
        number, payload, queue, job_set = (result.get_value(row, column) or b"" for column in range(4))
        found.append(
            RelayedEvents(
                queue=queue.decode(),
                job_set=job_set.decode(),
                first_number=int.from_bytes(number, "big"),
                payload=payload,
            )
        )
    return found

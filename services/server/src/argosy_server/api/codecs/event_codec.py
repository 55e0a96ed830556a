"""Events from their columns to messages of the public API.

Source: `proto/argosy/lease/v1/lease.proto`, "EventBatch"; `proto/argosy/api/v1/event.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from argosy.api.v1 import event_pb2, job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvariantViolation
from argosy_runtime.columns import ColumnType, read_columns, unpack_column
from argosy_server.api.codecs.cursors import STATE_COUNT, WatchCursor
from argosy_server.api.codecs.event_wire import MEMBER, encode_events

__all__ = ["STATE_NAMES", "StoredBatch", "read_event_columns", "state_counts", "watch_responses"]

STATE_NAMES: Final = tuple(
    job_pb2.JobState.Name(value).removeprefix("JOB_STATE_").lower() for value in range(STATE_COUNT)
)
"""Names of JobState without prefix, lower case, by value."""

EVENT_COLUMNS: Final[dict[str, ColumnType]] = {
    "handle_column": "int64",
    "id_high_column": "int64",
    "kind_column": "int8",
    "attempt_column": "int32",
    "time_us_column": "int64",
    "cluster_column": "int32",
    "node_column": "int32",
    "reason_column": "int32",
    "from_state_column": "int8",
    "to_state_column": "int8",
}
"""Columns that every EventBatch has."""


def read_event_columns(message: lease_pb2.EventBatch) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a batch by field name, all of one length; members are 0 where a row has none.

    Raises:
        InvalidRequest: A column has a broken length, or the lengths differ.
    """
    columns = read_columns(message, EVENT_COLUMNS, where="EventBatch")
    count = len(columns["handle_column"])
    columns[MEMBER] = np.zeros(count, dtype=np.int16)
    if message.member_column:
        columns[MEMBER] = unpack_column(message.member_column, "int16", name=f"EventBatch.{MEMBER}", count=count)
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One row of job_set_events, read."""

    first_number: int
    """Number of its first event."""
    columns: Mapping[str, npt.NDArray[Any]]
    """Columns of the EventBatch by field name."""
    texts: list[str]
    """What the columns of texts point into; the last one is empty, for -1."""

    @staticmethod
    def read(first_number: int, payload: bytes) -> StoredBatch:
        """Return a row that was read.

        Args:
            first_number: Number of its first event.
            payload: EventBatch.

        Raises:
            InvariantViolation: The row cannot be read.
        """
        message = lease_pb2.EventBatch()
        try:
            message.ParseFromString(payload)
        except DecodeError as cause:
            raise InvariantViolation(f"events from number {first_number} on cannot be read") from cause
        columns = read_event_columns(message)
        return StoredBatch(first_number=first_number, columns=columns, texts=[*message.texts, ""])

    @property
    def handles(self) -> npt.NDArray[np.int64]:
        """(n,) handles of the events' jobs."""
        return self.columns["handle_column"]


def watch_responses(
    cursor: WatchCursor, batch: StoredBatch, *, max_count: int, chosen: npt.NDArray[np.bool_] | None = None
) -> Iterator[tuple[event_pb2.WatchJobSetResponse, WatchCursor]]:
    """Yield the messages of a batch's events after a cursor, each with the cursor after it.

    Args:
        cursor: Where the watcher stands: anywhere from right before the batch to right before its last event.
        batch: The stored row.
        max_count: Most events of one message.
        chosen: (n,) which events are sent; None for all. Cursors and counts are those of all.

    Complexity: O(events); measured 1 us each.
    """
    columns = batch.columns
    count = len(batch.handles)
    start = cursor.number + 1 - batch.first_number
    while start < count:
        part = slice(start, min(start + max_count, count))
        counts = _fold(cursor.counts, columns["from_state_column"][part], columns["to_state_column"][part])
        last = batch.first_number + part.stop - 1
        cursor = replace(cursor, number=last, counts=counts)
        places = np.arange(part.start, part.stop, dtype=np.int64)
        if chosen is not None:
            places = places[chosen[part]]
        sent = {name: values[places] for name, values in columns.items()}
        # Parsing bytes in C and adding to the message costs less than an object per event in Python.
        response = event_pb2.WatchJobSetResponse.FromString(
            encode_events(sent, batch.texts, places + batch.first_number)
        )
        response.cursor = cursor.text()
        response.state_counts.extend(state_counts(dict(enumerate(counts))))
        yield response, cursor
        start = part.stop


def state_counts(counts: Mapping[int, int]) -> list[job_pb2.JobStateCount]:
    """Return numbers of jobs by JobState as messages, those above zero only, in order of the states."""
    return [
        job_pb2.JobStateCount(state=job_pb2.JobState.Name(state), job_count=count)
        for state, count in sorted(counts.items())
        if count and state
    ]


def _fold(
    counts: tuple[int, ...], from_states: npt.NDArray[np.int8], to_states: npt.NDArray[np.int8]
) -> tuple[int, ...]:
    """Return counts per state after moves between states; state 0 is no job yet.

    A job whose earlier events are no longer kept comes out of nowhere: it counts from its first kept event on, so a
    count never goes below zero.
    """
    gained = np.bincount(np.clip(to_states, 0, STATE_COUNT - 1), minlength=STATE_COUNT)
    left = np.bincount(np.clip(from_states, 0, STATE_COUNT - 1), minlength=STATE_COUNT)
    folded = np.maximum(np.array(counts) + gained - left, 0)
    folded[0] = 0
    return tuple(folded.tolist())

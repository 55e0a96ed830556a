"""Events from their columns to messages of the public API.

Source: `proto/argosy/lease/v1/lease.proto`, "EventBatch"; `proto/argosy/api/v1/event.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from argosy.api.v1 import event_pb2, job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvariantViolation
from argosy_runtime.columns import ColumnType, read_columns
from argosy_server.api.cursors import STATE_COUNT, WatchCursor
from argosy_server.api.event_wire import encode_events

__all__ = ["EVENT_COLUMNS", "STATE_NAMES", "StoredBatch", "state_counts", "watch_responses"]

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
"""Columns of an EventBatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One row of job_set_events."""

    first_number: int
    """Number of its first event."""
    payload: bytes
    """EventBatch."""


def watch_responses(
    cursor: WatchCursor, batch: StoredBatch, *, max_count: int
) -> Iterator[tuple[event_pb2.WatchJobSetResponse, WatchCursor]]:
    """Yield the messages of a batch's events after a cursor, each with the cursor after it.

    Args:
        cursor: Where the watcher stands: anywhere from right before the batch to right before its last event.
        batch: The stored row.
        max_count: Most events of one message.

    Raises:
        InvariantViolation: The row cannot be read.

    Complexity: O(events); measured 1 us each.
    """
    message = lease_pb2.EventBatch()
    try:
        message.ParseFromString(batch.payload)
    except DecodeError as cause:
        raise InvariantViolation(f"events from number {batch.first_number} on cannot be read") from cause
    columns = read_columns(message, EVENT_COLUMNS, where="EventBatch")
    texts = [*message.texts, ""]  # -1 stands for none and so takes the last
    count = len(columns["handle_column"])
    start = cursor.number + 1 - batch.first_number
    while start < count:
        part = slice(start, min(start + max_count, count))
        counts = _fold(cursor.counts, columns["from_state_column"][part], columns["to_state_column"][part])
        last = batch.first_number + part.stop - 1
        cursor = replace(cursor, number=last, counts=counts)
        # Parsing bytes in C and adding to the message costs less than an object per event in Python.
        response = event_pb2.WatchJobSetResponse.FromString(
            encode_events(columns, part, texts, first_number=batch.first_number + part.start)
        )
        response.cursor = cursor.text()
        response.state_counts.update(state_counts(counts))
        yield response, cursor
        start = part.stop


def state_counts(counts: tuple[int, ...]) -> dict[str, int]:
    """Return counts by state name, those above zero only."""
    return {STATE_NAMES[state]: count for state, count in enumerate(counts) if count and state}


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

"""News for a pool's leader: the table `changes`, which API replicas append to and leaders empty.

Source: design section 5, "Submit" and "Change requests".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_store.postgres.binary import BYTEA, INT4, INT8, TEXT, array, scalar
from argosy_store.postgres.connection import StoreConnection

__all__ = ["CHANGES_BYTES", "delete_changes", "read_changes", "tell", "tell_of_jobs"]

_READ_CHANGES: Final = (
    "SELECT id, octet_length(payload),"
    " CASE WHEN sum(octet_length(payload)) OVER (ORDER BY id) <= $3::bigint THEN payload END FROM ("
    "SELECT id, payload FROM changes c WHERE pool = $1::text AND NOT EXISTS (SELECT FROM suspects s"
    " WHERE s.pool = c.pool AND s.kind = 'change' AND s.key = c.id::text) ORDER BY id LIMIT $2::bigint) n ORDER BY id"
)
_READ_PAYLOADS: Final = "SELECT id, payload FROM changes WHERE pool = $1::text AND id = ANY ($2::bigint[]) ORDER BY id"
CHANGES_BYTES: Final = 32 << 20
"""Bytes of changes that are read at once; one that is larger is read alone."""
_DELETE_CHANGES: Final = "DELETE FROM changes WHERE pool = $1::text AND id = ANY ($2::bigint[])"
_INSERT_CHANGES: Final = (
    "INSERT INTO changes (pool, payload, queue_ids, job_counts)"
    " SELECT $1::text, $2::bytea, $3::integer[], $4::bigint[] WHERE NOT EXISTS"
    " (SELECT FROM queues WHERE queue_id = ANY ($3::integer[]) AND pool <> $1::text)"
)
"""Writes nothing if a queue is of another pool by now: its jobs would have two leaders."""
_MOVED: Final = "SELECT queue_id FROM queues WHERE queue_id = ANY (%s) AND pool <> %s"


def tell(connection: StoreConnection, pools: Iterable[str], payload: bytes) -> None:
    """Append a change to what the leaders of some pools are told."""
    connection.execute(
        "INSERT INTO changes (pool, payload) SELECT pool, %s FROM unnest(%s::text[]) AS pool", [payload, list(pools)]
    )


def tell_of_jobs(
    connection: StoreConnection, pool: str, payload: bytes, queues: Mapping[int, int]
) -> frozenset[int] | None:
    """Tell a pool's leader of new jobs, whose number by queue is kept beside.

    Returns:
        None; or, if nothing was written since a queue is of another pool, those that still are.
    """
    told = connection.bulk(
        _INSERT_CHANGES,
        scalar(TEXT, pool),
        scalar(BYTEA, payload),
        array(INT4, list(queues)),
        array(INT8, list(queues.values())),
    )
    if told.command_tuples:
        return None
    return frozenset(row[0] for row in connection.execute(_MOVED, [list(queues), pool]))


def read_changes(
    connection: StoreConnection, pool: str, limit: int, *, is_new: Callable[[int], bool], most_bytes: int
) -> list[tuple[int, bytes]]:
    """Return new changes of a pool; see `LeaderStore.read_changes`."""
    result = connection.bulk(_READ_CHANGES, scalar(TEXT, pool), scalar(INT8, limit), scalar(INT8, most_bytes))
    found: dict[int, bytes | None] = {}
    size_bytes = 0
    for row in range(result.ntuples):
        change_id, size = (int.from_bytes(result.get_value(row, place) or b"", "big") for place in (0, 1))
        if not is_new(change_id):
            continue
        size_bytes += size
        if found and size_bytes > most_bytes:
            break
        found[change_id] = result.get_value(row, 2)
    behind = [change_id for change_id, payload in found.items() if payload is None]
    if behind:  # what the caller holds came before them
        result = connection.bulk(_READ_PAYLOADS, scalar(TEXT, pool), array(INT8, behind))
        found |= {
            int.from_bytes(result.get_value(row, 0) or b"", "big"): result.get_value(row, 1)
            for row in range(result.ntuples)
        }
    return [(change_id, payload) for change_id, payload in found.items() if payload is not None]


def delete_changes(connection: StoreConnection, pool: str, ids: npt.NDArray[np.int64]) -> None:
    """Delete the changes that were taken."""
    connection.bulk(_DELETE_CHANGES, scalar(TEXT, pool), array(INT8, np.sort(ids)))

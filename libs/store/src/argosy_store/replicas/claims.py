"""Claiming the client ids of accepted jobs, so that a repeated submit gets the same jobs.

The common case, in which no client id was seen before, is one COPY. A clash rolls back to the start and takes the
slower way, which finds out which items are repeats, which are conflicts, and which are new.

Source: design section 5, "Submit".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg

from argosy_core.errors import ArgosyError
from argosy_store.postgres.binary import INT4, INT8, UUID, Column, array, copy_buffer, fields, text_array, uuid_column
from argosy_store.postgres.connection import StoreConnection
from argosy_store.replicas.submits import SubmitRequest, SubmitResult

__all__ = ["SubmitPart", "deduplicate"]

_CLAIM: Final = (
    "INSERT INTO deduplication (queue_id, client_id, handle, id_high, payload_hash) SELECT * FROM"
    " unnest($1::integer[], $2::text[], $3::bigint[], $4::bigint[], $5::uuid[]) ON CONFLICT DO NOTHING"
    " RETURNING queue_id, client_id"
)
_EXISTING: Final = (
    "SELECT d.queue_id, d.client_id, d.handle, d.id_high, d.payload_hash FROM"
    " unnest(%s::integer[], %s::text[]) AS n (queue_id, client_id) JOIN deduplication d USING (queue_id, client_id)"
)
_UNCLAIM: Final = (
    "DELETE FROM deduplication d USING unnest(%s::integer[], %s::text[]) AS n (queue_id, client_id)"
    " WHERE d.queue_id = n.queue_id AND d.client_id = n.client_id"
)

_Key = tuple[int, str]


@dataclass(slots=True)
class SubmitPart:
    """A request on its way: which of its jobs are inserted, and what is answered."""

    request: SubmitRequest
    keep: npt.NDArray[np.bool_]
    handles: npt.NDArray[np.int64]
    id_highs: npt.NDArray[np.int64]
    conflicts: list[tuple[int, str]] = field(default_factory=list)
    error: ArgosyError | None = None

    @property
    def live(self) -> bool:
        """Whether anything of it may still be inserted."""
        return not self.conflicts and self.error is None

    def begin_again(self) -> None:
        """Forget what was found out about its client ids."""
        self.keep = np.ones(len(self.request.handles), dtype=np.bool_)
        self.handles, self.id_highs = self.request.handles, self.request.id_highs
        self.conflicts = []

    def result(self) -> SubmitResult:
        """Return what to answer."""
        return SubmitResult(
            id_highs=self.id_highs,
            handles=self.handles,
            conflicts=tuple(self.conflicts),
            existing=np.flatnonzero(~self.keep),
            error=self.error,
        )


def deduplicate(connection: StoreConnection, parts: Sequence[SubmitPart]) -> None:
    """Claim the client ids, by COPY if none was seen before, else one by one."""
    rows = sorted(
        (int(queue_id), client_id, place, index)
        for place, part in enumerate(parts)
        if part.live
        for index, (queue_id, client_id) in enumerate(
            zip(part.request.queue_ids.tolist(), part.request.client_ids, strict=False)
        )
        if client_id is not None
    )
    if not rows:
        return
    connection.run("SAVEPOINT claims")
    try:
        # Sorted by key, so that two transactions with the same keys wait for each other in one direction only.
        _copy_claims(connection, parts, rows)
    except psycopg.errors.UniqueViolation:
        connection.run("ROLLBACK TO SAVEPOINT claims")
        _resolve_claims(connection, parts, rows)


def _gather(parts: Sequence[SubmitPart], rows: Sequence[tuple[int, str, int, int]]) -> dict[str, Any]:
    """Return the columns of deduplication rows."""
    handles = np.array([int(parts[place].request.handles[index]) for _, _, place, index in rows], dtype=np.int64)
    highs = np.array([int(parts[place].request.id_highs[index]) for _, _, place, index in rows], dtype=np.int64)
    hashes = b"".join(parts[place].request.payload_hashes[16 * index : 16 * index + 16] for _, _, place, index in rows)
    return {"handles": handles, "highs": highs, "hashes": uuid_column(hashes)}


def _copy_claims(
    connection: StoreConnection, parts: Sequence[SubmitPart], rows: Sequence[tuple[int, str, int, int]]
) -> None:
    """Insert deduplication rows by COPY.

    Raises:
        psycopg.errors.UniqueViolation: A key exists already or is twice among the rows.
    """
    requests = [part.request for part in parts]
    if len(requests) == 1:
        index = np.fromiter((row[3] for row in rows), dtype=np.int64, count=len(rows))
        request = requests[0]
        columns = [
            Column(INT4, request.queue_ids[index]),
            Column(INT8, request.handles[index]),
            Column(INT8, request.id_highs[index]),
            Column(UUID, uuid_column(request.payload_hashes)[index]),
        ]
    else:
        starts = np.concatenate(([0], np.cumsum([len(request.handles) for request in requests])))
        index = np.fromiter((starts[row[2]] + row[3] for row in rows), dtype=np.int64, count=len(rows))
        hashes = [request.payload_hashes or bytes(16 * len(request.handles)) for request in requests]
        columns = [
            Column(INT4, np.concatenate([request.queue_ids for request in requests])[index]),
            Column(INT8, np.concatenate([request.handles for request in requests])[index]),
            Column(INT8, np.concatenate([request.id_highs for request in requests])[index]),
            Column(UUID, uuid_column(b"".join(hashes))[index]),
        ]
    buffer = copy_buffer(columns, len(rows), [fields([row[1].encode() for row in rows])])
    connection.copy_in(
        "COPY deduplication (queue_id, handle, id_high, payload_hash, client_id) FROM STDIN (FORMAT binary)", buffer
    )


def _resolve_claims(
    connection: StoreConnection, parts: Sequence[SubmitPart], rows: Sequence[tuple[int, str, int, int]]
) -> None:
    """Find out which items are repeats, which are conflicts, and claim the rest.

    Rows are claimed by whoever comes first in the transaction. Then requests are judged in their order, so that a
    request that is refused leaves its client ids to those after it.
    """
    firsts: dict[_Key, tuple[int, int]] = {}
    for queue_id, client_id, place, index in rows:
        firsts.setdefault((queue_id, client_id), (place, index))
    claimed = _claim(connection, parts, firsts)
    stored = _read_existing(connection, [key for key in firsts if key not in claimed])
    owners: dict[_Key, tuple[int, int]] = {}
    for place, part in enumerate(parts):
        if part.live:
            _judge(part, place, stored=stored, owners=owners, parts=parts)
    abandoned = [key for key in claimed if owners.get(key) != firsts[key]]
    if abandoned:
        connection.execute(_UNCLAIM, [[key[0] for key in abandoned], [key[1] for key in abandoned]])
        again = {key: owners[key] for key in abandoned if key in owners}
        if again:
            _claim(connection, parts, again)


def _claim(connection: StoreConnection, parts: Sequence[SubmitPart], claims: dict[_Key, tuple[int, int]]) -> set[_Key]:
    """Insert claims that nobody holds; return the keys that were inserted. Waits for concurrent claims."""
    rows = [(*key, *owner) for key, owner in sorted(claims.items())]
    columns = _gather(parts, rows)
    result = connection.bulk(
        _CLAIM,
        array(INT4, [row[0] for row in rows]),
        text_array(fields([row[1].encode() for row in rows])),
        array(INT8, columns["handles"]),
        array(INT8, columns["highs"]),
        array(UUID, columns["hashes"]),
    )
    return {
        (
            int.from_bytes(result.get_value(row, 0) or b"", "big", signed=True),
            (result.get_value(row, 1) or b"").decode(),
        )
        for row in range(result.ntuples)
    }


def _read_existing(connection: StoreConnection, keys: Sequence[_Key]) -> dict[_Key, tuple[int, int, bytes]]:
    """Return (handle, upper half, payload hash) of client ids that others hold."""
    if not keys:
        return {}
    cursor = connection.execute(_EXISTING, [[key[0] for key in keys], [key[1] for key in keys]])
    return {(row[0], row[1]): (row[2], row[3], row[4].bytes) for row in cursor}


def _judge(
    part: SubmitPart,
    place: int,
    *,
    stored: dict[_Key, tuple[int, int, bytes]],
    owners: dict[_Key, tuple[int, int]],
    parts: Sequence[SubmitPart],
) -> None:
    """Decide each keyed item of one request; a request with a conflict owns nothing."""
    request = part.request
    own: dict[_Key, tuple[int, int]] = {}
    keep, handles, highs = part.keep.copy(), request.handles.copy(), request.id_highs.copy()
    for index, (queue_id, client_id) in enumerate(zip(request.queue_ids.tolist(), request.client_ids, strict=False)):
        if client_id is None:
            continue
        key = (queue_id, client_id)
        held = stored.get(key)
        if held is None:
            owner = own.get(key) or owners.get(key)
            if owner is None:
                own[key] = (place, index)
                continue
            other = parts[owner[0]].request
            position = owner[1]
            held = (
                int(other.handles[position]),
                int(other.id_highs[position]),
                other.payload_hashes[16 * position : 16 * position + 16],
            )
        if held[2] != request.payload_hashes[16 * index : 16 * index + 16]:
            part.conflicts.append((index, client_id))
            continue
        keep[index], handles[index], highs[index] = False, held[0], held[1]
    if part.live:
        owners.update(own)
        part.keep, part.handles, part.id_highs = keep, handles, highs

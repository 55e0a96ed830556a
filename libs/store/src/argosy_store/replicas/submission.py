"""Accepting jobs: deduplication, specs, jobs and the leader's news in one transaction.

Almost all of it is a handful of COPY statements; client ids are claimed by `claims`.

Source: design section 5, "Submit".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import BackendUnavailable, NotAllowedNow, NotFound
from argosy_core.job.identity import DAY_SHIFT
from argosy_core.job.reading.options import UNSET, join_options
from argosy_store.changes import tell_of_jobs
from argosy_store.open_jobs import KnownOpenJobs, SubmitterRoom, add_open_jobs
from argosy_store.postgres.binary import (
    INT4,
    INT8,
    UUID,
    Column,
    array,
    bytes_array,
    copy_buffer,
    fields,
    indexed_fields,
    job_id_column,
    text_array,
    uuid_column,
)
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.partitions import learn_state, partition, prologue, split_days
from argosy_store.replicas.claims import SubmitPart, deduplicate
from argosy_store.replicas.queue_limits import QueueRoom, counts_by_queue
from argosy_store.replicas.submits import EncodeChanges, SpecRow, SubmitRequest, SubmitResult
from argosy_store.sealing import SpecSeal

__all__ = ["TimelineChanged", "submit_requests"]

_ALL_COLUMNS: Final = (
    "handle, job_id, queue_id, job_set_id, class_id, priority, submit_time_us, spec_hash"  # fixed width
)
_INSERT_SPECS: Final = (
    "INSERT INTO {table} (day, hash, body, layout) SELECT * FROM"
    " unnest($1::integer[], $2::uuid[], $3::bytea[], $4::bytea[]) ON CONFLICT DO NOTHING"
)
_INSERT_METADATA: Final = (
    "INSERT INTO job_metadata AS t (hash, labels, annotations)"
    " SELECT n.hash, coalesce(n.body -> 'labels', '{}'), coalesce(n.body -> 'annotations', '{}')"
    " FROM (SELECT unnest($1::uuid[]) AS hash, unnest($2::text[])::jsonb AS body) AS n"
    " ON CONFLICT (hash) DO UPDATE SET last_used_day = excluded.last_used_day"
    " WHERE t.last_used_day < excluded.last_used_day"
)


class TimelineChanged(Exception):
    """The database is another one than before: a standby was promoted, or a backup was restored."""

    def __init__(self, timeline: str) -> None:
        """Keep the timeline of the database that is there now."""
        super().__init__(timeline)
        self.timeline = timeline


class _QueuesMoved(Exception):
    """Queues are of another pool than their requests say."""

    def __init__(self, queue_ids: frozenset[int]) -> None:
        """Keep their ids."""
        super().__init__(queue_ids)
        self.queue_ids = queue_ids


def submit_requests(  # noqa: PLR0913 - what a replica remembers between calls is not one thing
    connection: StoreConnection,
    requests: Sequence[SubmitRequest],
    encode_changes: EncodeChanges,
    *,
    known_specs: set[tuple[int, bytes]],
    known_metadata: set[bytes],
    open_jobs: KnownOpenJobs,
    timeline: str = "",
    seal: SpecSeal | None = None,
) -> list[SubmitResult]:
    """Store requests in one transaction; each is stored whole or not at all.

    Args:
        connection: A bulk connection outside a transaction.
        requests: Requests, of any pools.
        encode_changes: Makes the leader's news, called once per pool.
        known_specs: (day, hash) of specs that are stored; new ones are added once they are.
        known_metadata: Hashes of metadata that are stored as used today; new ones are added once they are.
        open_jobs: What is known of how many jobs submitters have open; it learns what is read and stored.
        timeline: Timeline of the database that the ids in the requests are of; empty for any.
        seal: Seals the bodies of specs; None to store them as they are.

    Raises:
        TimelineChanged: This is another database; nothing was stored.
        psycopg.Error: The transaction did not happen, or its outcome is unknown.
    """
    moved: frozenset[int] = frozenset()
    while True:
        try:
            return _submit(
                connection, requests, encode_changes, known_specs, known_metadata, open_jobs, timeline, moved, seal
            )
        except _QueuesMoved as news:
            moved |= news.queue_ids


def _submit(  # noqa: PLR0913, PLR0917 - those of submit_requests
    connection: StoreConnection,
    requests: Sequence[SubmitRequest],
    encode_changes: EncodeChanges,
    known_specs: set[tuple[int, bytes]],
    known_metadata: set[bytes],
    open_jobs: KnownOpenJobs,
    timeline: str,
    moved: frozenset[int],
    seal: SpecSeal | None,
) -> list[SubmitResult]:
    """Store requests, but for those to queues that have moved; see `submit_requests`."""
    parts = [
        SubmitPart(request, np.ones(len(request.handles), dtype=np.bool_), request.handles, request.id_highs)
        for request in requests
    ]
    stored: list[tuple[int, bytes]] = []
    described: list[bytes] = []
    with connection.transaction_block(prologue()) as state:
        learn_state(connection, state)
        if timeline not in {"", connection.timeline}:
            raise TimelineChanged(connection.timeline)
        _refuse_late(connection, parts, moved)
        _claim_within_limits(connection, parts, open_jobs)
        pools: dict[str, list[SubmitPart]] = {}
        for part in parts:
            if part.live and part.keep.any():
                pools.setdefault(part.request.pool, []).append(part)
        inserted = [part for group in pools.values() for part in group]
        if inserted:
            stored = _insert_specs(connection, inserted, known_specs, seal)
            described = _insert_metadata(connection, inserted, known_metadata)
            _insert_jobs(connection, inserted)
        submitted = _by_submitter(inserted)
        if submitted:
            add_open_jobs(connection, submitted)
        for pool in sorted(pools):
            payload = encode_changes([(part.request, part.keep) for part in pools[pool]])
            queues = counts_by_queue(np.concatenate([part.request.queue_ids[part.keep] for part in pools[pool]]))
            moved_away = tell_of_jobs(connection, pool, payload, queues)
            if moved_away is not None:
                raise _QueuesMoved(moved_away)
    known_specs.update(stored)
    known_metadata.update(described)
    open_jobs.add(submitted)
    return [part.result() for part in parts]


def _refuse_late(connection: StoreConnection, parts: Sequence[SubmitPart], moved: frozenset[int]) -> None:
    """Refuse requests to queues that were deleted or moved after their names were looked up, and of days gone by.

    Leaders do not look for open jobs in closed days, and a day is closed only once it takes no jobs any more, so a
    replica with a clock days behind cannot put any there.
    """
    deleted = connection.deleted_queue_ids
    gone = np.fromiter(deleted, dtype=np.int32, count=len(deleted))
    for part in parts:
        day = int(part.request.handles[0]) >> DAY_SHIFT
        past = day < connection.first_open_day or day in connection.closed_days
        if past or day < min(connection.days, default=day):
            part.error = NotAllowedNow(f"day {day} takes no jobs any more; the clock of this replica is behind")
            continue
        hit = np.isin(part.request.queue_ids, gone)
        if hit.any():
            part.error = NotFound(f"the queue of item {int(np.argmax(hit))} was deleted")
        if not moved.isdisjoint(part.request.queue_ids.tolist()):
            part.error = BackendUnavailable("a queue has just moved to another pool; submit again")


def _claim_within_limits(connection: StoreConnection, parts: Sequence[SubmitPart], open_jobs: KnownOpenJobs) -> None:
    """Claim client ids, and refuse requests whose jobs, repeats left out, are more than queue or submitter may have.

    A request that is refused leaves its client ids to others, so the rest is judged anew, each time without it.
    """
    live = [part.request for part in parts if part.live]
    counts = counts_by_queue(np.concatenate([request.queue_ids for request in live])) if live else {}
    limits = {
        queue_id: limit
        for request in live
        for queue_id, limit in request.limits.items()
        if limit.is_near(counts.get(queue_id, 0))
    }
    wanted = _by_submitter([part for part in parts if part.live])
    submitter_limits = {
        request.submitter: request.submitter_limit
        for request in live
        if request.submitter
        and request.submitter_limit
        and open_jobs.is_near(request.submitter, wanted[request.submitter], request.submitter_limit)
    }
    if not limits and not submitter_limits:
        deduplicate(connection, parts)
        return
    connection.run("SAVEPOINT limits")
    while True:
        deduplicate(connection, parts)
        room = QueueRoom(connection, {part.request.pool for part in parts}, limits)
        submitters = SubmitterRoom(connection, submitter_limits, wanted=wanted, known=open_jobs)
        refused = False
        for part in parts:
            if part.live and part.keep.any():
                part.error = submitters.take(part.request.submitter, int(np.count_nonzero(part.keep))) or room.take(
                    part.request.queue_ids[part.keep]
                )
                refused |= part.error is not None
        if not refused:
            room.store()
            return
        connection.run("ROLLBACK TO SAVEPOINT limits")
        for part in parts:
            if part.error is None:
                part.begin_again()


def _by_submitter(parts: Sequence[SubmitPart]) -> Counter[str]:
    """Return how many kept jobs each known submitter has among some parts."""
    counts: Counter[str] = Counter()
    for part in parts:
        if part.request.submitter:
            counts[part.request.submitter] += int(np.count_nonzero(part.keep))
    return counts


def _insert_specs(
    connection: StoreConnection, parts: Sequence[SubmitPart], known: set[tuple[int, bytes]], seal: SpecSeal | None
) -> list[tuple[int, bytes]]:
    """Insert the specs that this replica has not stored yet; return them."""
    wanted: dict[tuple[int, bytes], SpecRow] = {}
    for part in parts:
        request = part.request
        days = {int(request.handles[0]) >> DAY_SHIFT, int(request.handles[-1]) >> DAY_SHIFT}
        for spec in request.specs:
            for day in days:
                if (day, spec.hash) not in known:
                    wanted[day, spec.hash] = spec
    # In key order, so that concurrent transactions never wait for each other in a circle.
    rows = sorted(wanted)
    for day in sorted({row[0] for row in rows}):
        hashes = [row[1] for row in rows if row[0] == day]
        connection.bulk(
            _INSERT_SPECS.format(table=partition(connection, "job_specs", day)),
            array(INT4, np.full(len(hashes), day)),
            array(UUID, uuid_column(b"".join(hashes))),
            bytes_array(
                wanted[day, value].body if seal is None else seal.seal(value, wanted[day, value].body)
                for value in hashes
            ),
            bytes_array(wanted[day, value].layout for value in hashes),
        )
    return rows


def _insert_metadata(connection: StoreConnection, parts: Sequence[SubmitPart], known: set[bytes]) -> list[bytes]:
    """Insert the metadata that this replica has not stored yet, or not today; return their hashes."""
    wanted = {_metadata_hash(entry): entry for part in parts for entry in part.request.metadata}
    # In key order, so that concurrent transactions never wait for each other in a circle.
    hashes = sorted(wanted.keys() - known)
    if hashes:
        bodies = text_array(fields([wanted[value] for value in hashes]))
        connection.bulk(_INSERT_METADATA, array(UUID, uuid_column(b"".join(hashes))), bodies)
    return hashes


def _metadata_hash(entry: bytes) -> bytes:
    """Return the 16 bytes by which labels and annotations are known."""
    return blake2b(entry, digest_size=16).digest()


def _insert_jobs(connection: StoreConnection, parts: Sequence[SubmitPart]) -> None:
    """Insert the jobs of all parts by COPY, straight into the partitions of their days."""

    def gather(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part.request, name)[part.keep] for part in parts])

    handles = gather("handles")
    hashes = np.concatenate(
        [
            uuid_column(b"".join(spec.hash for spec in part.request.specs))[part.request.spec_index[part.keep]]
            for part in parts
        ]
    )
    client_ids = [field_ for part in parts for field_ in _client_fields(part)]
    metadata = [field_ for part in parts for field_ in _metadata_fields(part)]
    columns = [
        Column(INT8, handles),
        Column(UUID, job_id_column(gather("id_highs"), handles)),
        Column(INT4, gather("queue_ids")),
        Column(INT8, gather("job_set_ids")),
        Column(INT4, gather("class_ids")),
        Column(INT4, gather("priorities")),
        Column(INT8, gather("submit_time_us")),
        Column(UUID, hashes),
    ]
    variable = [
        ("client_id", client_ids),
        ("metadata_hash", metadata),
        *_option_fields(parts),
        *_submitter_fields(parts),
        *_after_fields(parts),
    ]
    used = [(name, values) for name, values in variable if any(value != b"\xff\xff\xff\xff" for value in values)]
    names = "".join(f", {name}" for name, _ in used)
    order = np.argsort(handles, kind="stable") if np.any(np.diff(handles) < 0) else None
    if order is not None:
        columns = [Column(kind, np.asarray(values)[order]) for kind, values in columns]
        used = [(name, [values[place] for place in order.tolist()]) for name, values in used]
        handles = handles[order]
    for day, piece in split_days(handles):
        buffer = copy_buffer(
            [Column(kind, np.asarray(values)[piece]) for kind, values in columns],
            piece.stop - piece.start,
            [values[piece] for _, values in used],
        )
        table = partition(connection, "jobs", day)
        connection.copy_in(f"COPY {table} ({_ALL_COLUMNS}{names}) FROM STDIN (FORMAT binary)", buffer)


def _client_fields(part: SubmitPart) -> list[bytes]:
    """Return the client ids of a part's kept jobs as fields."""
    request = part.request
    if not request.client_ids:
        return indexed_fields(np.full(int(np.count_nonzero(part.keep)), -1), ())
    encoded = fields(None if value is None else value.encode() for value in request.client_ids)
    if bool(part.keep.all()):
        return encoded
    return [encoded[place] for place in np.flatnonzero(part.keep).tolist()]


def _option_fields(parts: Sequence[SubmitPart]) -> list[tuple[str, list[bytes]]]:
    """Return the columns of what is said of kept jobs, as fields; there are none if nothing is said of any."""
    kept = [(part.request.options, part.keep) for part in parts]
    options = join_options([(None if given is None else given[keep], int(keep.sum())) for given, keep in kept])
    if options is None:
        return []
    columns = []
    for name, values in options.columns().items():
        distinct, index = np.unique(values, return_inverse=True)
        table = [seconds.to_bytes(4, "big", signed=True) for seconds in distinct.tolist()]
        columns.append((name, indexed_fields(np.where(values == UNSET, -1, index.reshape(-1)), table)))
    return columns


def _submitter_fields(parts: Sequence[SubmitPart]) -> list[tuple[str, list[bytes]]]:
    """Return the column of who submitted kept jobs, as fields; there is none if that is known of no job."""
    if not any(part.request.submitter for part in parts):
        return []
    names = fields(part.request.submitter.encode() or None for part in parts)
    counts = [int(np.count_nonzero(part.keep)) for part in parts]
    return [("submitter", [name for name, count in zip(names, counts, strict=True) for _ in range(count)])]


def _after_fields(parts: Sequence[SubmitPart]) -> list[tuple[str, list[bytes]]]:
    """Return the column of what kept jobs run after, as fields; there is none if that is nothing for all."""
    if not any(part.request.run_after for part in parts):
        return []
    values: list[bytes | None] = []
    for part in parts:
        given = part.request.run_after or (b"",) * len(part.keep)
        values += [given[place] or None for place in np.flatnonzero(part.keep).tolist()]
    return [("run_after", fields(values))]


def _metadata_fields(part: SubmitPart) -> list[bytes]:
    """Return the hashes of the metadata of a part's kept jobs as fields."""
    request = part.request
    return indexed_fields(request.metadata_index[part.keep], [_metadata_hash(entry) for entry in request.metadata])

"""Jobs and events as the API reads them.

The state of an open job stands in no row of its own: it follows from its live run and that run's pods.

Source: design section 4, "States and rows".
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from argosy_core.errors import InvalidRequest, OutOfRange
from argosy_core.job.identity import DAY_SHIFT
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.job_filters import (
    WINDOW,
    JobFilter,
    Values,
    by_index,
    conditions,
    filter_values,
    read_windows,
    state_expression,
    window_values,
)
from argosy_store.rows import JobRecord, JobSetRow, RunRecord
from argosy_store.schema.tables import job_sets, jobs, queues, scheduling_classes
from argosy_store.sealing import SpecSeal, open_body

__all__ = ["JobCalls", "JobPage"]

_READ_EVENTS: Final = (
    "SELECT first_number, last_number, payload FROM job_set_events WHERE job_set_id = %(set)s"
    " AND first_number >= coalesce((SELECT max(first_number) FROM job_set_events"
    " WHERE job_set_id = %(set)s AND first_number <= %(next)s), 0)"
    " AND last_number >= %(next)s ORDER BY first_number LIMIT %(limit)s"
)
_OLDEST_EVENT: Final = (
    # One statement, so one view: a number read after the rows may be that of an event that came in between.
    "SELECT coalesce((SELECT min(first_number) FROM job_set_events WHERE job_set_id = %(set)s), last_event_number + 1)"
    " FROM job_sets WHERE job_set_id = %(set)s"
)
_NUMBER_MARGIN: Final = 200_000  # jobs of two of the largest requests
_LOOKED_AT_FIRST: Final = 10
"""How many times the jobs of a page the first window looks at, where not every job is meant."""
_MAX_WINDOWS: Final = 8
"""Most windows that one page looks at: some hundred milliseconds if none of their jobs is meant."""
_PAGE_BYTES: Final = 2 << 20
"""Labels and annotations of the jobs of a page; a client that sets nothing takes messages of 4 MiB."""
_BATCH_BYTES: Final = 32 << 20
"""Labels and annotations of jobs that are asked for by their ids."""
_READ_METADATA: Final = (
    "SELECT hash, bytes, CASE WHEN sum(bytes) OVER (ORDER BY place) <= %(most)s THEN labels END,"
    " CASE WHEN sum(bytes) OVER (ORDER BY place) <= %(most)s THEN annotations END"
    " FROM (SELECT n.place, m.*, octet_length(m.labels::text) + octet_length(m.annotations::text) AS bytes"
    " FROM unnest(%(hashes)s::uuid[]) WITH ORDINALITY AS n (hash, place) JOIN job_metadata m USING (hash)) found"
    " ORDER BY place"
)


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Labels and annotations of jobs."""

    size_bytes: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


_NO_METADATA: Final = _Metadata(0, {}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Jobs that a filter means, in order."""

    jobs: tuple[JobRecord, ...]
    """As many as were asked for, or fewer."""
    next_handle: int
    """What to go on after; 0 if these are the last. There may be more although there are fewer jobs than asked for."""


class JobCalls:
    """What an API replica reads of jobs and events."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections
        self._seal: SpecSeal | None = None

    def get_job(self, handle: int) -> JobRecord | None:
        """Return a job with its runs and its spec, None if there is none (any more).

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            found, _ = _read_jobs(connection, {"handle": handle}, limit=1, with_spec=True)
        if not found or found[0].spec_body is None:
            return found[0] if found else None
        return replace(found[0], spec_body=open_body(self._seal, found[0].spec_hash, found[0].spec_body))

    def get_jobs(self, handles: Sequence[int], *, with_metadata: bool = True) -> list[JobRecord]:
        """Return jobs with their runs, without their specs, ascending; handles that name none are left out.

        Args:
            handles: Whose.
            with_metadata: Whether labels and annotations are wanted; else there are none.

        Raises:
            InvalidRequest: What the jobs are labelled and annotated with is more than an answer may hold.
            BackendUnavailable: Postgres cannot be reached.
        """
        meant = {"window": list(handles)}
        most_bytes = _BATCH_BYTES if with_metadata else None
        with self._connections.read() as connection:
            found, left_bytes = _read_jobs(connection, meant, limit=len(handles), most_bytes=most_bytes)
        if left_bytes < 0:
            raise InvalidRequest(
                f"labels and annotations of these jobs are more than {_BATCH_BYTES >> 20} MiB; ask for fewer at once"
            )
        return found

    def queues_of(self, handles: Sequence[int]) -> dict[str, str]:
        """Return the names of jobs' queues by the jobs' ids; handles that name no job are left out.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = (
            "SELECT j.job_id, q.name FROM jobs j JOIN queues q USING (queue_id) WHERE j.handle = ANY (%s::bigint[])"
        )
        with self._connections.read() as connection:
            return {str(row[0]): str(row[1]) for row in connection.execute(statement, [list(handles)])}

    def job_numbers(self) -> range:
        """Return numbers among which are those of all jobs; see `argosy_core.job.identity`.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            row = connection.execute("SELECT min(handle), max(handle) FROM jobs").fetchone()
        if row is None or row[0] is None:
            return range(0)
        # Numbers are reserved in blocks, so those of one moment may be a little out of order.
        first, last = (int(handle) & ((1 << DAY_SHIFT) - 1) for handle in row)
        return range(max(min(first, last) - _NUMBER_MARGIN, 0), max(first, last) + _NUMBER_MARGIN)

    def list_jobs(
        self, job_filter: JobFilter, after_handle: int = 0, limit: int = 100, *, newest_first: bool = False
    ) -> JobPage:
        """Return jobs with their runs in submit order or against it, those that follow a handle; 0 for the first.

        A page looks at a bounded number of jobs, so where few are meant it may hold fewer than asked for, or none; and
        it holds fewer where their labels and annotations are large.

        Raises:
            DeadlineExceeded: It took too long all the same.
            BackendUnavailable: Postgres cannot be reached.
        """
        asked = filter_values(job_filter)
        size = min(limit * _LOOKED_AT_FIRST if job_filter.needs_rows else limit, WINDOW)
        found: list[JobRecord] = []
        left_bytes = _PAGE_BYTES
        with self._connections.read() as connection, by_index(connection):
            windows = read_windows(
                connection, job_filter, after_handle=after_handle, newest_first=newest_first, size=size
            )
            for number, window in enumerate(windows, 1):
                if window.handles:
                    meant = {**window_values(window.handles), **asked}
                    more, left_bytes = _read_jobs(
                        connection, meant, limit=limit - len(found), newest_first=newest_first, most_bytes=left_bytes
                    )
                    found += more
                if len(found) >= limit or left_bytes < 0:
                    return JobPage(jobs=tuple(found), next_handle=found[-1].handle)
                if number == _MAX_WINDOWS:
                    return JobPage(jobs=tuple(found), next_handle=window.last_handle)
        return JobPage(jobs=tuple(found), next_handle=0)

    def count_states(self, job_set_id: int, job_filter: JobFilter | None = None) -> dict[int, int]:
        """Return the number of jobs of a job set, those that a filter means, by JobState.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        return self.count_states_by_set([job_set_id], job_filter).get(job_set_id, {})

    def count_states_by_set(
        self, job_set_ids: Sequence[int], job_filter: JobFilter | None = None
    ) -> dict[int, dict[int, int]]:
        """Return the number of jobs by JobState, by job set; sets without jobs are left out.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        values = {"job_set_ids": list(job_set_ids), **filter_values(job_filter or JobFilter())}
        found: dict[int, dict[int, int]] = defaultdict(dict)
        with self._connections.read() as connection:
            for job_set_id, value, count in connection.select(_count_states, values):
                found[job_set_id][int(value)] = int(count)
        return dict(found)

    def select_handles(self, handles: Sequence[int], job_filter: JobFilter) -> list[int]:
        """Return those of some handles that a filter means, ascending.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        values = {"window": list(handles), **filter_values(job_filter)}
        with self._connections.read() as connection:
            return [int(row[0]) for row in connection.select(_select_handles, values)]

    def list_job_sets(self, queue_id: int, after_name: str = "", limit: int = 100) -> list[JobSetRow]:
        """Return job sets of a queue in order of their names, those after a name.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            cursor = connection.execute(
                "SELECT job_set_id, name, last_event_number FROM job_sets WHERE queue_id = %s AND name > %s"
                " ORDER BY name LIMIT %s",
                [queue_id, after_name, limit],
            )
            return [JobSetRow(*row) for row in cursor]

    def find_job_set(self, queue_id: int, name: str) -> int | None:
        """Return the id of a job set, None if nothing was ever submitted to it.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT job_set_id FROM job_sets WHERE queue_id = %s AND name = %s", [queue_id, name]
            ).fetchone()
        return None if row is None else int(row[0])

    def read_events(self, job_set_id: int, after_number: int, limit_rows: int = 100) -> list[tuple[int, int, bytes]]:
        """Return batches of events (first number, last number, payload) that hold numbers after a given one.

        The first batch may begin before it: its reader skips what it has.

        Raises:
            OutOfRange: Events after that number have aged out.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            parameters = {"set": job_set_id, "next": after_number + 1, "limit": limit_rows}
            rows = connection.execute(_READ_EVENTS, parameters).fetchall()
            if not rows and _last_number(connection, job_set_id) > after_number:
                # The number is newer than the rows: what was stored in between is there by now, unless it aged out.
                rows = connection.execute(_READ_EVENTS, parameters).fetchall()
                if not rows:
                    raise _aged_out(after_number)
        if rows and rows[0][0] > after_number + 1:
            raise _aged_out(after_number)
        return [(row[0], row[1], bytes(row[2])) for row in rows]

    def last_event_numbers(self, job_set_ids: Collection[int]) -> dict[int, int]:
        """Return the number of the last event of each job set that there is; 0 if it has none yet.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT job_set_id, last_event_number FROM job_sets WHERE job_set_id = ANY(%s)", [list(job_set_ids)]
            )
            return {int(job_set_id): int(number) for job_set_id, number in rows}

    def oldest_event_number(self, job_set_id: int) -> int:
        """Return the number of the oldest event that is kept; one more than the last number if none is.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            row = connection.execute(_OLDEST_EVENT, {"set": job_set_id}).fetchone()
        return int(row[0]) if row is not None else 1


def _aged_out(after_number: int) -> OutOfRange:
    """Return the error of a reader whose place is older than what is kept."""
    return OutOfRange(f"events after number {after_number} are no longer kept; begin again without a cursor")


def _last_number(connection: StoreConnection, job_set_id: int) -> int:
    """Return the number of the last event of a job set."""
    row = connection.execute("SELECT last_event_number FROM job_sets WHERE job_set_id = %s", [job_set_id]).fetchone()
    return int(row[0]) if row else 0


def _count_states(names: tuple[str, ...]) -> sa.Select[tuple[int, int, int]]:
    state = state_expression()
    statement = sa.select(jobs.c.job_set_id, state, sa.func.count()).where(*conditions(names))
    return statement.group_by(jobs.c.job_set_id, state)


def _select_handles(names: tuple[str, ...]) -> sa.Select[tuple[int]]:
    return sa.select(jobs.c.handle).where(*conditions(names)).order_by(jobs.c.handle)


def _select_jobs(names: tuple[str, ...], newest_first: bool) -> sa.Select[Any]:  # noqa: FBT001 - part of a shape
    return (
        sa.select(
            jobs,
            state_expression().label("derived"),
            queues.c.name.label("queue"),
            job_sets.c.name.label("job_set"),
            scheduling_classes.c.definition,
        )
        .join(queues, queues.c.queue_id == jobs.c.queue_id)
        .join(job_sets, job_sets.c.job_set_id == jobs.c.job_set_id)
        .outerjoin(scheduling_classes, scheduling_classes.c.class_id == jobs.c.class_id)
        .where(*conditions(names))
        .order_by(jobs.c.handle.desc() if newest_first else jobs.c.handle)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )


def _read_jobs(
    connection: StoreConnection,
    meant: Values,
    *,
    limit: int,
    with_spec: bool = False,
    newest_first: bool = False,
    most_bytes: int | None = _PAGE_BYTES,
) -> tuple[list[JobRecord], int]:
    """Return jobs in handle order, or against it, with their runs, and how many bytes are left for more.

    Fewer than 0 are left if labels and annotations are more than `most_bytes`: then the last jobs are not among them,
    but one job is. None reads no labels and annotations.
    """
    cursor = connection.select(_select_jobs, meant, newest_first, limit=limit)
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    metadata: dict[uuid.UUID, _Metadata] = {}
    left_bytes = 0
    if most_bytes is not None:
        metadata, rows, left_bytes = _read_metadata(connection, rows, most_bytes)
    by_job = _read_runs(connection, [row["handle"] for row in rows])
    records = [
        JobRecord(
            handle=row["handle"],
            job_id=str(row["job_id"]),
            queue_id=row["queue_id"],
            queue=row["queue"],
            job_set_id=row["job_set_id"],
            job_set=row["job_set"],
            class_id=row["class_id"],
            state=int(row["derived"]),
            priority=row["priority"],
            submit_time_us=row["submit_time_us"],
            end_time_us=row["end_time_us"],
            reason=row["reason"],
            cancel_requested=row["cancel_requested"] == 1,
            client_id=row["client_id"],
            labels=metadata.get(row["metadata_hash"], _NO_METADATA).labels,
            annotations=metadata.get(row["metadata_hash"], _NO_METADATA).annotations,
            lifetime_s=row["lifetime_s"],
            time_limit_s=row["time_limit_s"],
            estimate_s=row["estimate_s"],
            submitter=row["submitter"],
            held=row["held"] == 1,
            job_set_limit=row["job_set_limit"],
            run_after=bytes(row["run_after"] or b""),
            runs=tuple(by_job.get(row["handle"], ())),
            **(_read_spec(connection, row["handle"], row["spec_hash"]) if with_spec else {}),
            class_definition=bytes(row["definition"] or b""),
        )
        for row in rows
    ]
    return records, left_bytes


def _read_metadata(
    connection: StoreConnection, rows: list[dict[str, Any]], most_bytes: int
) -> tuple[dict[uuid.UUID, _Metadata], list[dict[str, Any]], int]:
    """Return labels and annotations by their hash, the jobs whose ones stay within a size, and what is left of it."""
    hashes = list(dict.fromkeys(row["metadata_hash"] for row in rows if row["metadata_hash"] is not None))
    if not hashes:
        return {}, rows, most_bytes
    # A single one is read however large it is: it was bounded when it came.
    cursor = connection.execute(_READ_METADATA, {"hashes": hashes, "most": max(most_bytes, _PAGE_BYTES)})
    found = {row[0]: _Metadata(row[1], row[2] or {}, row[3] or {}) for row in cursor}
    left_bytes = most_bytes
    for place, row in enumerate(rows):
        left_bytes -= found.get(row["metadata_hash"], _NO_METADATA).size_bytes
        if left_bytes < 0 and place:
            return found, rows[:place], -1
    return found, rows, max(left_bytes, 0)


def _read_runs(connection: StoreConnection, handles: Sequence[int]) -> dict[int, list[RunRecord]]:
    """Return the runs of jobs by handle, each job's in order of attempt and member."""
    found: dict[int, list[RunRecord]] = defaultdict(list)
    if not handles:
        return found
    # The least advanced pod speaks for a live run; the run's own state is that of its lease until it ends, and since
    # when it runs stands in its objects until then.
    cursor = connection.execute(
        "SELECT r.handle, r.attempt, r.cluster, r.node, CASE WHEN r.end_time_us IS NULL THEN coalesce((SELECT"
        " min(o.state) FROM objects o WHERE o.handle = r.handle AND o.attempt = r.attempt AND o.member = r.member AND"
        " o.kind = 'Pod'), r.state)"
        " ELSE r.state END, r.lease_time_us, CASE WHEN r.end_time_us IS NULL THEN (SELECT max(o.start_time_us) FROM"
        " objects o WHERE o.handle = r.handle AND o.attempt = r.attempt AND o.member = r.member)"
        " ELSE r.start_time_us END, r.end_time_us, r.exit_code, r.failure, r.reason, r.member"
        " FROM runs r WHERE r.handle = ANY (%s::bigint[]) ORDER BY r.handle, r.attempt, r.member",
        [list(handles)],
    )
    for row in cursor:
        found[row[0]].append(
            RunRecord(
                attempt=row[1],
                cluster=row[2],
                node=row[3],
                state=row[4],
                lease_time_us=row[5],
                start_time_us=row[6],
                end_time_us=row[7],
                exit_code=row[8],
                failure=row[9],
                reason=row[10],
                member=row[11],
            )
        )
    return found


def _read_spec(connection: StoreConnection, handle: int, spec_hash: uuid.UUID) -> dict[str, Any]:
    """Return the body and the layout of a spec, as fields of `JobRecord`."""
    row = connection.execute(
        "SELECT body, layout FROM job_specs WHERE day = %s AND hash = %s", [handle >> DAY_SHIFT, spec_hash]
    ).fetchone()
    if row is None:
        return {}
    return {"spec_hash": spec_hash.bytes, "spec_body": bytes(row[0]), "spec_layout": bytes(row[1])}

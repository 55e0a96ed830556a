"""Statements of a leader's transaction: COPY for new rows, one UPDATE per kind and day for changes.

Every statement works in key order and through primary keys only. Guards are in the statements: a terminal state never
changes, whatever is asked.

Source: design section 4, "States apply by rank, never backwards; terminal states absorb".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from psycopg.pq.abc import PGresult

from argosy_core.errors import InvariantViolation, StateConflict
from argosy_core.job.states import RUN_RANKS, ObjectState, RunState
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import (
    HeldAmounts,
    JobUpdates,
    NewObjects,
    NewRuns,
    ObjectUpdates,
    PlacedNodes,
    RunUpdates,
)
from argosy_store.job_sets import advance_job_sets
from argosy_store.open_jobs import COUNT_ENDED
from argosy_store.postgres.binary import (
    INT2,
    INT4,
    INT8,
    TEXT,
    UUID,
    Column,
    array,
    copy_buffer,
    fields,
    indexed_fields,
    scalar,
    text_array,
)
from argosy_store.postgres.connection import Parameter, StoreConnection
from argosy_store.postgres.partitions import partition, split_days
from argosy_store.terms.effects import (
    EventRow,
)

__all__ = [
    "end_jobs",
    "end_runs",
    "insert_objects",
    "insert_runs",
    "refuse_runs",
    "set_contacts",
    "set_held_amounts",
    "set_nodes",
    "set_queued_counts",
    "update_objects",
    "write_events",
]

_Handles = npt.NDArray[np.int64]
_DAY_US: Final = 86_400_000_000

_REFUSED: Final = (
    "SELECT n.handle FROM unnest($1::bigint[], $2::smallint[]) AS n (handle, attempt)"
    " LEFT JOIN {jobs} j ON j.handle = n.handle"
    " WHERE j.handle IS NULL OR j.state <> 0 OR j.cancel_requested <> 0 OR EXISTS (SELECT FROM {runs} r"
    " WHERE r.handle = n.handle AND (r.end_time_us IS NULL OR r.attempt >= n.attempt))"
)
# Terminal states (4 to 7) absorb; unknown (8) stands beside running.
_UPDATE_OBJECTS: Final = (
    "UPDATE {table} t SET state = n.state, start_time_us = coalesce(t.start_time_us, nullif(n.start_time_us, 0)),"
    " uid = CASE WHEN n.uid = '00000000-0000-0000-0000-000000000000'::uuid THEN t.uid ELSE n.uid END{messages}"
    " FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::uuid[], $6::bigint[],"
    " $7::smallint[]{eighth}) AS n (handle, attempt, object, state, uid, start_time_us, member{message}){owner}"
    " WHERE t.handle = n.handle AND t.attempt = n.attempt AND t.member = n.member AND t.object = n.object{owned}"
    " AND t.state NOT BETWEEN 4 AND 7 AND (n.state > t.state OR t.state = 8 AND n.state BETWEEN 3 AND 7)"
)
_OWNED: Final = (
    " AND r.handle = t.handle AND r.attempt = t.attempt AND r.member = t.member AND r.cluster = ${number}::text"
)
_NO_MESSAGES: Final = {"messages": "", "eighth": "", "message": ""}
_MESSAGES: Final = {
    "messages": ", message = coalesce(n.message, t.message)",
    "eighth": ", $8::text[]",
    "message": ", message",
}
_END_RUNS: Final = (
    "UPDATE {table} t SET state = n.state, start_time_us = nullif(n.start_time_us, 0), end_time_us = n.end_time_us,"
    " exit_code = n.exit_code, failure = n.failure, reason = n.reason"
    " FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::integer[],"
    " $7::smallint[], $8::text[], $9::smallint[])"
    " AS n (handle, attempt, state, start_time_us, end_time_us, exit_code, failure, reason, member)"
    " WHERE t.handle = n.handle AND t.attempt = n.attempt AND t.member = n.member AND t.end_time_us IS NULL"
)
_SET_OF_RUNS: Final = (
    "UPDATE {table} t SET {change}"
    " FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::text[]) AS n (handle, attempt, member, value)"
    " WHERE t.handle = n.handle AND t.attempt = n.attempt AND t.member = n.member AND t.end_time_us IS NULL"
)
_END_JOBS: Final = (
    "WITH done AS (UPDATE {table} t SET state = n.state, end_time_us = n.end_time_us,"
    " reason = CASE WHEN n.state = 6 THEN coalesce(nullif(n.reason, ''), t.reason) ELSE n.reason END"
    " FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[]) AS n (handle, state, end_time_us, reason)"
    f" WHERE t.handle = n.handle AND t.state = 0 RETURNING t.state, t.submitter){COUNT_ENDED} SELECT count(*) FROM done"
)
_ENDED_BEFORE: Final = (
    "SELECT n.handle FROM unnest($1::bigint[]) AS n (handle) LEFT JOIN {table} t ON t.handle = n.handle"
    " WHERE t.handle IS NULL OR t.xmin::text <> pg_current_xact_id()::xid::text"
)
_MEMBER: Final = ", member"
_CHARGE: Final = ", charge_core_s"
_SET_CONTACTS: Final = (
    "UPDATE cluster_pools t SET heard_time_us = greatest(t.heard_time_us, n.heard_us), held_until_us = n.held_us"
    " FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS n (cluster, role, heard_us, held_us)"
    " WHERE t.cluster = n.cluster AND t.pool = $1::text AND t.role = n.role"
)

_SET_COUNTS: Final = (
    "INSERT INTO queue_counts AS t (queue_id, queued_count, update_time_us)"
    " SELECT n.queue_id, n.queued_count, $3::bigint"
    " FROM unnest($1::integer[], $2::bigint[]) AS n (queue_id, queued_count)"
    " ON CONFLICT (queue_id) DO UPDATE SET queued_count = excluded.queued_count,"
    " update_time_us = excluded.update_time_us WHERE t.queued_count <> excluded.queued_count"
)


def refuse_runs(connection: StoreConnection, runs: NewRuns) -> _Handles:
    """Return the ascending handles whose lease must not be stored.

    A lease is refused if its job is unknown, has ended, shall be cancelled, or has a live run or a later attempt.
    """
    order = np.argsort(runs.handle, kind="stable")
    handles, attempts = runs.handle[order], runs.attempt[order]
    refused: list[_Handles] = []
    for day, piece in split_days(handles):
        statement = _REFUSED.format(jobs=partition(connection, "jobs", day), runs=partition(connection, "runs", day))
        result = connection.bulk(statement, array(INT8, handles[piece]), array(INT2, attempts[piece]))
        refused.append(_int8_column(result))
    return np.unique(np.concatenate(refused)) if refused else np.empty(0, dtype=np.int64)


def insert_runs(connection: StoreConnection, runs: NewRuns, epoch: int, refused: _Handles) -> None:
    """Insert leases, except those of refused handles."""
    order = _kept_order(runs.handle, refused)
    handles = runs.handle[order]
    columns = [
        Column(INT8, handles),
        Column(INT2, runs.attempt[order]),
        Column(INT8, epoch),
        Column(INT2, int(RunState.LEASED)),
        Column(INT8, runs.lease_time_us[order]),
        *_member_columns(runs.member, order),
        *([] if runs.charge_core_s is None else [Column(INT8, runs.charge_core_s[order])]),
    ]
    optional = (_MEMBER if runs.member is not None else "") + (_CHARGE if runs.charge_core_s is not None else "")
    variable = [
        indexed_fields(runs.cluster_index[order], runs.clusters),
        indexed_fields(runs.node_index[order], runs.nodes),
    ]
    _copy(
        connection,
        "runs",
        f"handle, attempt, epoch, state, lease_time_us{optional}, cluster, node",
        handles=handles,
        columns=columns,
        variable=variable,
    )


def insert_objects(connection: StoreConnection, objects: NewObjects, refused: _Handles) -> None:
    """Insert the objects of leases, except those of refused handles."""
    order = _kept_order(objects.handle, refused)
    handles = objects.handle[order]
    columns = [
        Column(INT8, handles),
        Column(INT2, objects.attempt[order]),
        Column(INT2, objects.object_index[order]),
        Column(INT2, int(ObjectState.LEASED)),
        *_member_columns(objects.member, order),
    ]
    names = list(map(fields(objects.name).__getitem__, order.tolist()))
    variable = [indexed_fields(objects.kind_index[order], objects.kinds), names]
    _copy(
        connection,
        "objects",
        f"handle, attempt, object, state{_MEMBER if objects.member is not None else ''}, kind, name",
        handles=handles,
        columns=columns,
        variable=variable,
    )


def update_objects(connection: StoreConnection, updates: ObjectUpdates, cluster: str = "") -> None:
    """Move objects to the states reported; reports that do not advance an object change nothing.

    Args:
        connection: Where.
        updates: The states.
        cluster: Change only objects of runs in this cluster; empty where it is known that they are.
    """
    order = _last_by_rank(updates)
    handles = updates.handle[order]
    messages: list[bytes] = []
    if bool((updates.message_index >= 0).any()):
        messages = indexed_fields(updates.message_index[order], updates.messages)
    clauses = _MESSAGES if messages else _NO_MESSAGES
    for day, piece in split_days(handles):
        chosen = order[piece]
        parameters = [
            array(INT8, handles[piece]),
            array(INT2, updates.attempt[chosen]),
            array(INT2, updates.object_index[chosen]),
            array(INT2, updates.state[chosen]),
            array(UUID, updates.uid[chosen]),
            array(INT8, updates.start_time_us[chosen]),
            _numbers(updates.member, chosen),
        ]
        if messages:
            parameters.append(text_array(messages[piece]))
        tables = {"table": partition(connection, "objects", day), "owner": "", "owned": ""}
        if cluster:
            parameters.append(scalar(TEXT, cluster))
            tables["owner"] = f", {partition(connection, 'runs', day)} r"
            tables["owned"] = _OWNED.format(number=len(parameters))
        connection.bulk(_UPDATE_OBJECTS.format(**tables, **clauses), *parameters)


def set_held_amounts(connection: StoreConnection, held: HeldAmounts) -> None:
    """Store what live members of runs hold; null where all is as the class says."""
    order = np.lexsort((held.members.ordinal, held.members.handle))
    keys, texts = held.members[order], [b""] * len(order)
    index = np.full(len(order), -1, dtype=np.int32)
    for place, row in enumerate(held.amounts[order].tolist()):
        named = {name: amount for name, amount in zip(held.names, row, strict=True) if amount >= 0}
        if named:
            index[place], texts[place] = place, json.dumps(named).encode()
    _set_of_runs(connection, "held_amounts = n.value::jsonb", keys, indexed_fields(index, texts))


def set_nodes(connection: StoreConnection, placed: PlacedNodes) -> None:
    """Store on which nodes live members of runs are that were leased to their clusters as a whole."""
    order = np.lexsort((placed.members.ordinal, placed.members.handle))
    keys = placed.members[order]
    names = list(dict.fromkeys(placed.nodes))
    place = {name: index for index, name in enumerate(names)}
    values = indexed_fields(np.array([place[placed.nodes[row]] for row in order.tolist()], dtype=np.int32), names)
    _set_of_runs(connection, "node = n.value", keys, values)


def _set_of_runs(connection: StoreConnection, change: str, keys: Members, values: list[bytes]) -> None:
    """Change a column of live members of runs, which are in the order of their handles."""
    for day, piece in split_days(keys.handle):
        connection.bulk(
            _SET_OF_RUNS.format(table=partition(connection, "runs", day), change=change),
            array(INT8, keys.handle[piece]),
            array(INT2, keys.attempt[piece].astype(np.int16)),
            array(INT2, keys.member[piece]),
            text_array(values[piece]),
        )


def end_runs(connection: StoreConnection, updates: RunUpdates) -> None:
    """End runs that are live."""
    order = _unique_order(updates.handle, updates.attempt, *([] if updates.member is None else [updates.member]))
    handles = updates.handle[order]
    reasons = indexed_fields(updates.reason_index[order], updates.reasons)
    for day, piece in split_days(handles):
        chosen = order[piece]
        connection.bulk(
            _END_RUNS.format(table=partition(connection, "runs", day)),
            array(INT8, handles[piece]),
            array(INT2, updates.attempt[chosen]),
            array(INT2, updates.state[chosen]),
            array(INT8, updates.start_time_us[chosen]),
            array(INT8, updates.end_time_us[chosen]),
            array(INT4, updates.exit_code[chosen]),
            array(INT2, updates.failure[chosen]),
            text_array(reasons[piece]),
            _numbers(updates.member, chosen),
        )


def end_jobs(connection: StoreConnection, updates: JobUpdates) -> _Handles:
    """End jobs that are open; return the ascending handles of those that had ended before."""
    order = _unique_order(updates.handle)
    handles = updates.handle[order]
    reasons = indexed_fields(updates.reason_index[order], updates.reasons)
    absorbed: list[_Handles] = []
    for day, piece in split_days(handles):
        table, chosen = partition(connection, "jobs", day), order[piece]
        ended = connection.bulk(
            _END_JOBS.format(table=table),
            array(INT8, handles[piece]),
            array(INT2, updates.state[chosen]),
            array(INT8, updates.end_time_us[chosen]),
            text_array(reasons[piece]),
        )
        if int(_int8_column(ended)[0]) != piece.stop - piece.start:
            # Whatever this transaction did not write had ended before.
            absorbed.append(
                _int8_column(connection.bulk(_ENDED_BEFORE.format(table=table), array(INT8, handles[piece])))
            )
    return np.sort(np.concatenate(absorbed)) if absorbed else np.empty(0, dtype=np.int64)


def write_events(connection: StoreConnection, events: Sequence[EventRow]) -> None:
    """Store batches of events and advance their job sets.

    Raises:
        InvariantViolation: The batches of one job set do not follow each other.
        StateConflict: A batch does not follow what is stored.
    """
    spans: dict[int, tuple[int, int]] = {}
    for row in events:
        span = spans.get(row.job_set_id)
        if row.last_number < row.first_number or (span is not None and row.first_number != span[1] + 1):
            raise InvariantViolation(
                f"events {row.first_number} to {row.last_number} of job set {row.job_set_id} leave a gap"
            )
        spans[row.job_set_id] = (span[0] if span else row.first_number, row.last_number)
    # The numbers are checked first: a second writer is a conflict and not a duplicate key.
    ordered = sorted(spans)
    if advance_job_sets(connection, {key: spans[key] for key in ordered}) != len(ordered):
        raise StateConflict("events do not follow the last ones stored: another writer numbered this job set")
    days = {row.create_time_us // _DAY_US for row in events}
    for day in sorted(days):
        rows = [row for row in events if row.create_time_us // _DAY_US == day]
        columns = [
            Column(INT4, int(day)),
            Column(INT8, np.array([row.job_set_id for row in rows])),
            Column(INT8, np.array([row.first_number for row in rows])),
            Column(INT8, np.array([row.last_number for row in rows])),
            Column(INT8, np.array([row.create_time_us for row in rows])),
        ]
        buffer = copy_buffer(columns, len(rows), [fields([row.payload for row in rows])])
        table = partition(connection, "job_set_events", int(day))
        connection.copy_in(
            f"COPY {table} (day, job_set_id, first_number, last_number, create_time_us, payload)"
            " FROM STDIN (FORMAT binary)",
            buffer,
        )


def set_contacts(connection: StoreConnection, pool: str, contacts: Mapping[tuple[str, str], tuple[int, int]]) -> None:
    """Store when services of clusters were heard, and until when they keep their sessions."""
    rows = sorted(contacts.items())
    connection.bulk(
        _SET_CONTACTS,
        scalar(TEXT, pool),
        text_array(fields([key[0].encode() for key, _ in rows])),
        text_array(fields([key[1].encode() for key, _ in rows])),
        array(INT8, [heard_us for _, (heard_us, _) in rows]),
        array(INT8, [held_us for _, (_, held_us) in rows]),
    )


def set_queued_counts(connection: StoreConnection, counts: Mapping[int, int], time_us: int) -> None:
    """Store how many jobs wait by queue; a number that stays costs no row."""
    queue_ids = sorted(counts)
    values = [counts[queue_id] for queue_id in queue_ids]
    connection.bulk(_SET_COUNTS, array(INT4, queue_ids), array(INT8, values), scalar(INT8, time_us))


def _copy(
    connection: StoreConnection,
    table: str,
    names: str,
    *,
    handles: _Handles,
    columns: Sequence[Column],
    variable: Sequence[list[bytes]],
) -> None:
    """COPY rows in handle order into the partitions of their days."""
    for day, piece in split_days(handles):
        cut = [Column(kind, values if isinstance(values, int) else values[piece]) for kind, values in columns]
        buffer = copy_buffer(cut, piece.stop - piece.start, [values[piece] for values in variable])
        connection.copy_in(f"COPY {partition(connection, table, day)} ({names}) FROM STDIN (FORMAT binary)", buffer)


def _member_columns(numbers: npt.NDArray[np.int16] | None, order: npt.NDArray[np.intp]) -> list[Column]:
    """Return the column of the numbers of members for rows in an order; the default serves where all are 0."""
    return [] if numbers is None else [Column(INT2, numbers[order])]


def _numbers(numbers: npt.NDArray[np.int16] | None, chosen: npt.NDArray[np.intp]) -> Parameter:
    """Return the numbers of members of chosen rows, zeros where all are 0.

    A constant instead would make the planner believe that it leaves few rows, and read a whole index for them.
    """
    return array(INT2, np.zeros(len(chosen), np.int16) if numbers is None else numbers[chosen])


def _kept_order(handles: _Handles, refused: _Handles) -> npt.NDArray[np.intp]:
    """Return the indices of rows that are not refused, in handle order."""
    order = np.argsort(handles, kind="stable")
    if len(refused):
        order = order[~np.isin(handles[order], refused)]
    return order


def _unique_order(*keys: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return indices in the order of the keys, the first one of equal keys only."""
    order = np.lexsort(keys[::-1])
    same = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
    for key in keys:
        ordered = key[order]
        same &= ordered[1:] == ordered[:-1]
    return order[np.concatenate(([True], ~same))] if same.any() else order


def _last_by_rank(updates: ObjectUpdates) -> npt.NDArray[np.intp]:
    """Return indices in key order; of several reports of one object the one that goes furthest, first among equals."""
    furthest = np.argsort(-RUN_RANKS[updates.state].astype(np.int16), kind="stable")
    members = () if updates.member is None else (updates.member,)
    keys = (updates.handle, updates.attempt, *members, updates.object_index)
    return furthest[_unique_order(*(key[furthest] for key in keys))]


def _int8_column(result: PGresult) -> _Handles:
    """Return the first column of a binary result of bigints."""
    packed = b"".join(result.get_value(row, 0) or b"" for row in range(result.ntuples))
    return np.frombuffer(packed, dtype=">i8").astype(np.int64)

"""Messages of `argosy.executor.v1` to and from the columns of the core; the only place that knows both.

Source: `proto/argosy/executor/v1/executor.proto`.
"""

from __future__ import annotations

import numpy as np

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import Reconciler, ReportBatch, RunRows, SpecCache
from argosy_runtime.channel import Caller
from argosy_runtime.columns import check_indices, member_columns, pack_column, read_columns, read_members, unpack_column

__all__ = ["encode_hello", "encode_reports", "encode_seen", "read_rows", "read_stops"]


def encode_hello(
    reconciler: Reconciler, *, cluster: str, cluster_uid: str, caller: Caller, pool: str
) -> executor_pb2.SyncRequest:
    """Return the first message of a stream.

    Args:
        reconciler: Knows the runs.
        cluster: Name of the cluster.
        cluster_uid: Its uid.
        caller: This process.
        pool: Pool whose leader is spoken to.
    """
    return executor_pb2.SyncRequest(
        hello=executor_pb2.Hello(
            cluster=cluster,
            cluster_uid=cluster_uid,
            process_id=caller.process_id,
            host=caller.host,
            pool=pool,
            **member_columns(reconciler.known_runs()),
        )
    )


def encode_seen(members: Members) -> executor_pb2.SyncRequest:
    """Return members of runs of which objects were seen, and whose pool is not known, as a message."""
    return executor_pb2.SyncRequest(seen=executor_pb2.SeenRuns(**member_columns(members)))


def encode_reports(batch: ReportBatch, sent_time_us: int) -> executor_pb2.SyncRequest:
    """Return states as a message, sent at a moment of the clock that their times are of."""
    return executor_pb2.SyncRequest(
        states=executor_pb2.StateBatch(
            batch=batch.number,
            **member_columns(Members(batch.handle_column, batch.ordinal_column)),
            object_column=pack_column(batch.object_column, "int16"),
            state_column=pack_column(batch.state_column, "int8"),
            time_us_column=pack_column(batch.time_us_column, "int64"),
            exit_code_column=pack_column(batch.exit_code_column, "int32"),
            failure_column=pack_column(batch.failure_column, "int8"),
            message_column=pack_column(batch.message_column, "int32"),
            uid_column=pack_column(batch.uid_column, "uuid"),
            texts=batch.texts,
            sent_time_us=sent_time_us,
        )
    )


def read_rows(message: executor_pb2.ObjectRows, cache: SpecCache) -> RunRows:
    """Return rows as columns, with the body of each spec from the message or the cache.

    Raises:
        InvalidRequest: A column is broken.
        StateConflict: The leader counts on a spec that this end does not hold.
    """
    columns = read_columns(
        message,
        {
            "handle_column": "int64",
            "attempt_column": "int32",
            "id_high_column": "int64",
            "spec_column": "int32",
            "node_column": "int32",
            "metadata_column": "int32",
            "owner_column": "int32",
        },
        where="rows",
    )
    count = len(columns["handle_column"])
    seen = unpack_column(message.seen_column, "int8", name="rows.seen_column") if message.seen_column else None
    if seen is not None and len(seen) != count:
        raise InvalidRequest(f"rows.seen_column has {len(seen)} elements; its message's other columns have {count}")
    check_indices(columns["spec_column"], len(message.spec_hashes), name="rows.spec_column")
    check_indices(columns["node_column"], len(message.nodes), name="rows.node_column")
    check_indices(columns["metadata_column"], len(message.metadata), name="rows.metadata_column", optional=True)
    check_indices(columns["owner_column"], len(message.owners), name="rows.owner_column")
    bodies = cache.receive(message.spec_hashes, message.spec_bodies)
    members = read_members(message, columns, where="rows")
    del columns["attempt_column"]
    return RunRows(
        **columns,
        ordinal_column=members.ordinal,
        seen_column=np.zeros(count, dtype=np.bool_) if seen is None else seen != 0,
        bodies=tuple(bodies),
        nodes=tuple(message.nodes),
        metadata=tuple(message.metadata),
        owners=tuple((owner.queue, owner.job_set) for owner in message.owners),
    )


def read_stops(message: executor_pb2.StopRuns) -> Members:
    """Return the members of runs to stop.

    Raises:
        InvalidRequest: A column is broken.
    """
    columns = read_columns(message, {"handle_column": "int64", "attempt_column": "int32"}, where="stops")
    return read_members(message, columns, where="stops")

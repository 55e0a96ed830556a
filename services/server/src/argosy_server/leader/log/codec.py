"""Payloads of `changes`, of the event log and of job_set_events to and from the columns of `argosy_core.scheduler`.

Source: the proto of argosy.lease.v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from argosy.lease.v1 import lease_pb2
from argosy_core.arrays import Int16s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.after import AfterJobs
from argosy_core.job.reading.options import OPTION_NAMES, JobOptions
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import ReadRecord
from argosy_core.leader.transaction import SetAside
from argosy_core.scheduler.columns.messages import ChangeRequestColumns, JobColumns, RoundStateColumns, SpecReference
from argosy_core.scheduler.outgoing.effects import AddedMembers, LeasePlan
from argosy_core.scheduler.outgoing.events import EventGroup
from argosy_eventlog import LogRecord
from argosy_runtime.columns import (
    ColumnType,
    check_indices,
    member_columns,
    pack_column,
    read_columns,
    read_member_numbers,
    read_members,
    unpack_column,
    unpack_optional,
)
from argosy_server.leader.log.round_state_codec import round_state_columns, round_state_message

__all__ = [
    "DecodedChanges",
    "DecodedRecord",
    "decode_changes",
    "decode_lease_batch",
    "decode_round_state",
    "encode_event_group",
    "encode_lease_batch",
    "encode_marker",
    "encode_round_state",
    "read_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedChanges:
    """One row of `changes`."""

    jobs: JobColumns | None
    """Accepted jobs."""
    change_requests: ChangeRequestColumns | None
    """ChangeRequests."""
    changed_queue_ids: tuple[int, ...]
    """Queues to read again."""
    changed_clusters: tuple[str, ...]
    """Clusters to read again."""
    changed_settings: bool
    """Settings of rounds are to be read again."""
    traceparents: Mapping[int, str]
    """W3C contexts of the submits of traced jobs by handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """One record of the event log."""

    pool: str
    """Pool."""
    epoch: int
    """Epoch of the leader that published it."""
    sequence: int
    """Its position in that leader's order."""
    is_marker: bool
    """True for the first record of a leader."""
    plan: LeasePlan
    """What was decided; empty for a marker."""
    traceparent: str
    """W3C context of its publish; empty if it was not traced."""


def _parse(message: Message, payload: bytes, what: str) -> None:
    """Fill a message from bytes.

    Raises:
        InvalidRequest: The bytes are no such message.
    """
    try:
        message.ParseFromString(payload)
    except DecodeError as cause:
        raise InvalidRequest(f"the payload is no {what}") from cause


def decode_changes(payload: bytes) -> DecodedChanges:
    """Return one row of `changes`.

    Raises:
        InvalidRequest: The payload cannot be read; it belongs in quarantine.
    """
    message = lease_pb2.Changes()
    _parse(message, payload, "Changes")
    return DecodedChanges(
        jobs=_job_columns(message.submitted) if message.HasField("submitted") else None,
        change_requests=_change_request_columns(message.change_requests)
        if message.HasField("change_requests")
        else None,
        changed_queue_ids=tuple(message.changed_queue_ids),
        changed_clusters=tuple(message.changed_clusters),
        changed_settings=message.changed_settings,
        traceparents=_traceparents(message.traced) if message.HasField("traced") else {},
    )


def _traceparents(message: lease_pb2.TracedJobs) -> dict[int, str]:
    """Return the contexts of traced jobs by handle."""
    columns: dict[str, Any] = read_columns(
        message, {"handle_column": "int64", "context_column": "int32"}, where="traced"
    )
    check_indices(columns["context_column"], len(message.traceparents), name="traced.context_column")
    contexts = [message.traceparents[index] for index in columns["context_column"].tolist()]
    return dict(zip(columns["handle_column"].tolist(), contexts, strict=True))


def _job_columns(message: lease_pb2.SubmittedJobs) -> JobColumns:
    """Return accepted jobs."""
    columns: dict[str, Any] = read_columns(
        message,
        {
            "handle_column": "int64",
            "id_high_column": "int64",
            "queue_column": "int32",
            "job_set_column": "int64",
            "class_column": "int32",
            "priority_column": "int32",
            "submit_time_us_column": "int64",
            "spec_column": "int32",
            "metadata_column": "int32",
        },
        where="submitted",
    )
    check_indices(columns["spec_column"], len(message.specs), name="submitted.spec_column")
    check_indices(columns["metadata_column"], len(message.metadata), name="submitted.metadata_column", optional=True)
    return JobColumns(
        handle=columns["handle_column"],
        id_high=columns["id_high_column"],
        queue=columns["queue_column"],
        job_set=columns["job_set_column"],
        class_id=columns["class_column"],
        priority=columns["priority_column"],
        submit_time_us=columns["submit_time_us_column"],
        spec=columns["spec_column"],
        metadata_index=columns["metadata_column"],
        specs=tuple(SpecReference(hash=spec.hash, day=spec.day, layout=spec.layout) for spec in message.specs),
        metadata=tuple(message.metadata),
        options=_options(message, columns["handle_column"].size),
        after=_after(message) if message.after_handle_column else None,
        submitter=unpack_column(
            message.submitter_column, "int32", name="submitted.submitter_column", count=columns["handle_column"].size
        )
        if message.submitter_column
        else None,
    )


def _after(message: lease_pb2.SubmittedJobs) -> AfterJobs:
    """Return what accepted jobs wait for; what has become of the others is to be read."""
    kinds: dict[str, ColumnType] = {
        "after_handle_column": "int64",
        "after_other_high_column": "int64",
        "after_other_column": "int64",
        "after_until_column": "int8",
    }
    columns: dict[str, Any] = read_columns(message, kinds, where="submitted")
    return AfterJobs(
        handle=columns["after_handle_column"],
        other_high=columns["after_other_high_column"],
        other=columns["after_other_column"],
        until=columns["after_until_column"],
        state=np.zeros(columns["after_handle_column"].size, dtype=np.int8),
    )


def _options(message: lease_pb2.SubmittedJobs, count: int) -> JobOptions | None:
    """Return what the submitters of accepted jobs say of them, None if nothing is said of any."""
    given = {name: getattr(message, f"{name}_column") for name in OPTION_NAMES}
    if not any(given.values()):
        return None
    columns = {
        name: unpack_column(column, "int32", name=f"submitted.{name}_column", count=count)
        for name, column in given.items()
        if column
    }
    return JobOptions(**{**JobOptions.unset(count).columns(), **columns})


def _change_request_columns(message: lease_pb2.ChangeRequests) -> ChangeRequestColumns:
    columns: dict[str, Any] = read_columns(
        message,
        {"handle_column": "int64", "kind_column": "int8", "priority_column": "int32", "ended_column": "int8"},
        where="change_requests",
    )
    return ChangeRequestColumns(
        handle=columns["handle_column"],
        kind=columns["kind_column"],
        priority=columns["priority_column"],
        ended=columns["ended_column"],
        reason=message.reason,
    )


def encode_marker(*, pool: str, epoch: int, now_us: int) -> bytes:
    """Return the first record of a new leader."""
    marker = lease_pb2.LeaseBatch(pool=pool, epoch=epoch, sequence=1, create_time_us=now_us, leader_marker=True)
    return marker.SerializeToString()


def encode_lease_batch(plan: LeasePlan, *, pool: str, epoch: int, sequence: int, traceparent: str = "") -> bytes:
    """Return a round's plan as a record of the event log."""
    batch = lease_pb2.LeaseBatch(
        pool=pool,
        epoch=epoch,
        sequence=sequence,
        create_time_us=plan.create_time_us,
        leases=lease_pb2.Leases(
            handle_column=pack_column(plan.handle, "int64"),
            attempt_column=pack_column(plan.attempt, "int32"),
            member_column=pack_column(plan.member, "int16") if plan.member is not None else b"",
            charge_core_s_column=b"" if plan.charge_core_s is None else pack_column(plan.charge_core_s, "int64"),
            cluster_column=pack_column(plan.cluster, "int32"),
            node_column=pack_column(plan.node, "int32"),
            clusters=plan.clusters,
            nodes=plan.nodes,
        ),
        grow=None if plan.added is None else _added_message(plan.added),
        stops=lease_pb2.Stops(**member_columns(plan.stops)),
        failed_jobs=lease_pb2.FailedJobs(
            handle_column=pack_column(plan.failed_handle, "int64"), reasons=plan.failed_reasons
        ),
        round_state=round_state_message(plan.round_state),
        traceparent=traceparent,
    )
    return batch.SerializeToString()


def _added_message(added: AddedMembers) -> lease_pb2.Leases:
    """Return members that runs under way get."""
    return lease_pb2.Leases(
        **member_columns(added.members),
        cluster_column=pack_column(added.cluster, "int32"),
        node_column=pack_column(added.node, "int32"),
        clusters=added.clusters,
        nodes=added.nodes,
    )


def _added_members(message: lease_pb2.Leases) -> AddedMembers:
    """Return members that runs under way get.

    Raises:
        InvalidRequest: A column does not fit the others, or a member stands twice.
    """
    columns: dict[str, Any] = read_columns(
        message,
        {"handle_column": "int64", "attempt_column": "int32", "cluster_column": "int32", "node_column": "int32"},
        where="grow",
    )
    check_indices(columns["cluster_column"], len(message.clusters), name="grow.cluster_column")
    check_indices(columns["node_column"], len(message.nodes), name="grow.node_column")
    member = read_member_numbers(message, len(columns["handle_column"]), where="grow")
    members = Members.of(columns["handle_column"], columns["attempt_column"], member)
    if not members.are_distinct():
        raise InvalidRequest("a member that a run gets stands twice")
    return AddedMembers(
        members=members,
        cluster=columns["cluster_column"],
        node=columns["node_column"],
        clusters=tuple(message.clusters),
        nodes=tuple(message.nodes),
    )


def decode_lease_batch(payload: bytes) -> DecodedRecord:
    """Return a record of the event log.

    Raises:
        InvalidRequest: The payload cannot be read; it belongs in quarantine.
    """
    message = lease_pb2.LeaseBatch()
    _parse(message, payload, "LeaseBatch")
    leases: dict[str, Any] = read_columns(
        message.leases,
        {"handle_column": "int64", "attempt_column": "int32", "cluster_column": "int32", "node_column": "int32"},
        where="leases",
    )
    check_indices(leases["cluster_column"], len(message.leases.clusters), name="leases.cluster_column")
    check_indices(leases["node_column"], len(message.leases.nodes), name="leases.node_column")
    stops: dict[str, Any] = read_columns(
        message.stops, {"handle_column": "int64", "attempt_column": "int32"}, where="stops"
    )
    failed: dict[str, Any] = read_columns(message.failed_jobs, {"handle_column": "int64"}, where="failed_jobs")
    if len(failed["handle_column"]) != len(message.failed_jobs.reasons):
        raise InvalidRequest("failed_jobs does not have one reason for each job")
    plan = LeasePlan(
        round_number=0,
        create_time_us=message.create_time_us,
        handle=leases["handle_column"],
        attempt=leases["attempt_column"],
        member=_lease_members(message.leases, leases),
        cluster=leases["cluster_column"],
        node=leases["node_column"],
        clusters=tuple(message.leases.clusters),
        nodes=tuple(message.leases.nodes),
        charge_core_s=unpack_optional(
            message.leases.charge_core_s_column, "int64", name="charges", count=leases["handle_column"].size
        ),
        stops=read_members(message.stops, stops, where="stops"),
        failed_handle=failed["handle_column"],
        failed_reasons=tuple(message.failed_jobs.reasons),
        round_state=round_state_columns(message.round_state),
        releases=(),
        added=_added_members(message.grow) if message.HasField("grow") else None,
    )
    return DecodedRecord(
        pool=message.pool,
        epoch=message.epoch,
        sequence=message.sequence,
        is_marker=message.leader_marker,
        plan=plan,
        traceparent=message.traceparent,
    )


def _lease_members(message: lease_pb2.Leases, leases: dict[str, Any]) -> Int16s | None:
    """Return the numbers of members, None if all are 0.

    Raises:
        InvalidRequest: A member stands twice, or a run in two clusters or in two places.
    """
    member = read_member_numbers(message, len(leases["handle_column"]), where="leases")
    if member is None:
        return None
    runs = Members.of(leases["handle_column"], leases["attempt_column"])
    starts = np.concatenate([[True], ~runs[1:].equal(runs[:-1])])
    if not Members.of(runs.handle, runs.attempt, member).are_distinct() or not runs[starts].are_distinct():
        raise InvalidRequest("the leases of a run do not stand together, or one stands twice")
    if (leases["cluster_column"][1:] != leases["cluster_column"][:-1])[~starts[1:]].any():
        raise InvalidRequest("a run is leased to two clusters")
    return member


def read_record(record: LogRecord, pool: str) -> tuple[ReadRecord, str]:
    """Return a record of the log as the machine takes it, and the W3C context of its publish.

    What cannot be read, or is not what the log says it is, comes with the reason why it belongs in quarantine.
    """
    try:
        decoded = decode_lease_batch(record.payload)
        if (decoded.pool, decoded.epoch, decoded.sequence) != (pool, record.epoch, record.sequence):
            raise InvalidRequest(
                f"record {record.sequence} of epoch {record.epoch} in the log of {pool} says that it is"
                f" {decoded.sequence} of epoch {decoded.epoch} in that of {decoded.pool}: no leader published it"
            )
    except Exception as error:  # noqa: BLE001 - a record that cannot be read must not end one term after the other
        text = error.message if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
        bad = SetAside(payload=record.payload, error=text, position=record.position)
        return ReadRecord(position=record.position, epoch=record.epoch, plan=None, bad=bad), ""
    plan = None if decoded.is_marker else decoded.plan
    return ReadRecord(position=record.position, epoch=record.epoch, plan=plan), decoded.traceparent


def encode_round_state(columns: RoundStateColumns) -> bytes:
    """Return round state as the value of pools.round_state."""
    return round_state_message(columns).SerializeToString()


def decode_round_state(payload: bytes | None) -> RoundStateColumns | None:
    """Return the value of pools.round_state, None if there is none.

    Raises:
        InvalidRequest: The payload cannot be read.
    """
    if not payload:
        return None
    message = lease_pb2.RoundState()
    _parse(message, payload, "RoundState")
    return round_state_columns(message)


def encode_event_group(group: EventGroup) -> bytes:
    """Return a group of events as the payload of a row of job_set_events."""
    return lease_pb2.EventBatch(
        handle_column=pack_column(group.handle, "int64"),
        id_high_column=pack_column(group.id_high, "int64"),
        kind_column=pack_column(group.kind, "int8"),
        attempt_column=pack_column(group.attempt, "int32"),
        time_us_column=pack_column(group.time_us, "int64"),
        cluster_column=pack_column(group.cluster, "int32"),
        node_column=pack_column(group.node, "int32"),
        reason_column=pack_column(group.reason, "int32"),
        texts=group.texts,
        from_state_column=pack_column(group.from_state.astype(np.int8, copy=False), "int8"),
        to_state_column=pack_column(group.to_state.astype(np.int8, copy=False), "int8"),
        member_column=b"" if group.member is None else pack_column(group.member, "int16"),
    ).SerializeToString()

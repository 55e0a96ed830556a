"""Round state as a message and as columns: flows, weights, promises and runs that give back members.

It stands in each record of the event log and in the row of its pool.

Source: the proto of argosy.lease.v1; design section 5, "Round".
"""

from __future__ import annotations

from typing import Any

from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.queueing import StoredWeight
from argosy_core.scheduler.columns.messages import PromiseColumns, RoundStateColumns, ShrinkColumns
from argosy_runtime.columns import (
    ColumnType,
    member_columns,
    pack_column,
    read_columns,
    read_member_numbers,
    unpack_optional,
)

__all__ = ["round_state_columns", "round_state_message"]


def round_state_message(columns: RoundStateColumns) -> lease_pb2.RoundState:
    """Return what the next leader needs of flows and promises, as it is published."""
    return lease_pb2.RoundState(
        queue_column=pack_column(columns.queue, "int64"),
        flow_column=pack_column(columns.flow, "float64"),
        flow_time_us=columns.flow_time_us,
        attempted_handle_column=pack_column(columns.attempted_handle, "int64"),
        failed_attempt_column=pack_column(columns.failed_attempt, "int32"),
        non_preemptible_flow_column=b""
        if columns.non_preemptible_flow is None
        else pack_column(columns.non_preemptible_flow, "float64"),
        branch_flow_column=b"" if columns.branch_flow is None else pack_column(columns.branch_flow, "float64"),
        weights=[
            lease_pb2.ResourceWeight(resource=one.resource, cores=one.cores, target_cores=one.target_cores)
            for one in columns.weights
        ],
        weight_time_us=columns.weight_time_us,
        promises=lease_pb2.Promises(
            handle_column=pack_column(columns.promises.handle, "int64"),
            kind_column=pack_column(columns.promises.kind, "int8"),
            time_us_column=pack_column(columns.promises.time_us, "int64"),
            clusters=columns.promises.clusters,
            nodes=columns.promises.nodes,
        )
        if columns.promises.handle.size
        else None,
        shrinks=_shrinks_message(columns.shrinks),
    )


def _shrinks_message(columns: ShrinkColumns) -> lease_pb2.Shrinks | None:
    """Return runs that give back members as a message, None for none."""
    if not (len(columns.stopping) or columns.handle.size):
        return None
    return lease_pb2.Shrinks(
        **member_columns(columns.stopping),
        quiet_handle_column=pack_column(columns.handle, "int64"),
        quiet_until_us_column=pack_column(columns.until_us, "int64"),
        quiet_pause_us_column=pack_column(columns.pause_us, "int64"),
    )


def _shrink_columns(message: lease_pb2.Shrinks) -> ShrinkColumns:
    """Return runs that give back members as columns."""
    keys: dict[str, Any] = read_columns(message, {"handle_column": "int64", "attempt_column": "int32"}, where="shrinks")
    names: dict[str, ColumnType] = {f"quiet_{name}_column": "int64" for name in ("handle", "until_us", "pause_us")}
    quiet: dict[str, Any] = read_columns(message, names, where="shrinks")
    number = read_member_numbers(message, len(keys["handle_column"]), where="shrinks")
    return ShrinkColumns(
        stopping=Members.of(keys["handle_column"], keys["attempt_column"], number),
        handle=quiet["quiet_handle_column"],
        until_us=quiet["quiet_until_us_column"],
        pause_us=quiet["quiet_pause_us_column"],
    )


def round_state_columns(message: lease_pb2.RoundState) -> RoundStateColumns:
    """Return a message as round state."""
    flows: dict[str, Any] = read_columns(message, {"queue_column": "int64", "flow_column": "float64"}, where="flow")
    attempted: dict[str, Any] = read_columns(
        message, {"attempted_handle_column": "int64", "failed_attempt_column": "int32"}, where="attempted"
    )
    count = flows["queue_column"].size
    return RoundStateColumns(
        queue=flows["queue_column"],
        flow=flows["flow_column"],
        flow_time_us=message.flow_time_us,
        attempted_handle=attempted["attempted_handle_column"],
        failed_attempt=attempted["failed_attempt_column"],
        branch_flow=unpack_optional(message.branch_flow_column, "float64", name="branch flow", count=count),
        non_preemptible_flow=unpack_optional(
            message.non_preemptible_flow_column, "float64", name="non-preemptible flow", count=count
        ),
        weights=tuple(
            StoredWeight(resource=one.resource, cores=one.cores, target_cores=one.target_cores)
            for one in message.weights
        ),
        weight_time_us=message.weight_time_us,
        promises=_promise_columns(message.promises),
        shrinks=_shrink_columns(message.shrinks),
    )


def _promise_columns(message: lease_pb2.Promises) -> PromiseColumns:
    """Return promised starts as columns."""
    columns: dict[str, Any] = read_columns(
        message, {"handle_column": "int64", "kind_column": "int8", "time_us_column": "int64"}, where="promises"
    )
    if not len(message.clusters) == len(message.nodes) == len(columns["handle_column"]):
        raise InvalidRequest("promises do not have one cluster and one node each")
    return PromiseColumns(
        handle=columns["handle_column"],
        kind=columns["kind_column"],
        time_us=columns["time_us_column"],
        clusters=tuple(message.clusters),
        nodes=tuple(message.nodes),
    )

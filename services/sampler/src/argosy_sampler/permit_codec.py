"""Messages of argosy.autoscale.v1 to and from values of the core; protobuf objects go no further.

Source: `proto/argosy/autoscale/v1/permit.proto`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from argosy.autoscale.v1 import permit_pb2
from argosy_core.arrays import Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import SCALED
from argosy_core.permits import (
    AgentHello,
    AgentMessage,
    Goodbye,
    Heartbeat,
    Inventory,
    PermitRequest,
    Permits,
    Refusals,
    Reply,
    Welcome,
)
from argosy_core.resources import MAX_AMOUNT
from argosy_runtime.columns import pack_column
from argosy_runtime.shapes import Column, Shape, read_message
from argosy_runtime.validation import check_request

__all__ = ["INVENTORY", "PERMIT_REQUEST", "read_agent_message", "read_hello", "reply_message", "welcome_message"]

_SIZES: Final = {"resource": len(SCALED)}
INVENTORY: Final[Shape] = {
    "uid_column": Column("uuid", ("pod",)),
    "ceiling_column": Column("int64", ("pod", "resource"), 0, MAX_AMOUNT),
    "held_column": Column("int8", ("pod",), 0, 1),
    "number_column": Column("int64", ("pod",), 0),
    "permitted_column": Column("int8", ("pod",), 0, 1, optional=True),
}
"""What an inventory may hold."""
PERMIT_REQUEST: Final[Shape] = {
    "uid_column": Column("uuid", ("pod",)),
    "wanted_column": Column("int64", ("pod", "resource"), -MAX_AMOUNT, MAX_AMOUNT),
    "bundle_column": Column("int8", ("pod",), 0, 1, optional=True),
    "number_column": Column("int64", ("pod",), 0),
}
"""What a request may hold; amounts that no pod may have are refused pod by pod."""


def read_hello(message: permit_pb2.SessionRequest) -> AgentHello:
    """Return the first message of a stream.

    Raises:
        InvalidRequest: It is no hello, or a field of it is not as it may be.
    """
    check_request(message)
    if message.WhichOneof("message") != "hello" or message.sequence != 1:
        raise InvalidRequest("the first message of an agent's stream must be a hello of sequence 1")
    hello = message.hello
    return AgentHello(
        cluster=hello.cluster, cluster_uid=hello.cluster_uid, process_id=hello.process_id, host=hello.host
    )


def read_agent_message(message: permit_pb2.SessionRequest) -> AgentMessage:
    """Return a message after the hello.

    Raises:
        InvalidRequest: It has no place here, or its columns do not fit each other.
    """
    kind = message.WhichOneof("message")
    if kind == "request":
        fields = read_message(message.request, PERMIT_REQUEST, where="request", sizes=_SIZES)
        count = len(fields["uid_column"])
        bundle = fields["bundle_column"]
        return PermitRequest(
            uids=_uids(fields),
            wanted=_amounts(fields["wanted_column"]),
            bundle=bundle.astype(np.bool_) if bundle.size else np.zeros(count, np.bool_),
            numbers=fields["number_column"],
        )
    if kind == "inventory":
        fields = read_message(message.inventory, INVENTORY, where="inventory", sizes=_SIZES)
        permitted = fields["permitted_column"]
        return Inventory(
            uids=_uids(fields),
            ceilings=_amounts(fields["ceiling_column"]),
            held=fields["held_column"].astype(np.bool_),
            permitted=permitted.astype(np.bool_) if permitted.size else np.zeros(len(fields["uid_column"]), np.bool_),
            numbers=fields["number_column"],
        )
    if kind == "heartbeat":
        return Heartbeat()
    if kind == "goodbye":
        return Goodbye()
    raise InvalidRequest(f"an agent's stream has no place for {kind or 'an empty message'}")


def welcome_message(welcome: Welcome, process_id: bytes) -> permit_pb2.SessionResponse:
    """Return the first message to an agent."""
    message = permit_pb2.Welcome(
        lease_s=welcome.lease_s,
        heartbeat_s=welcome.heartbeat_s,
        process_id=process_id,
        resources=SCALED,
        max_pod_count=welcome.max_pod_count,
    )
    return permit_pb2.SessionResponse(confirmed_sequence=1, welcome=message)


def reply_message(reply: Reply | None, confirmed_sequence: int) -> permit_pb2.SessionResponse:
    """Return a message to an agent; without a reply it says only what was taken in."""
    response = permit_pb2.SessionResponse(confirmed_sequence=confirmed_sequence)
    if reply is None:
        response.confirmed.SetInParent()
    elif isinstance(reply, Permits):
        units, unit_column = _distinct(reply.units)
        response.permits.CopyFrom(
            permit_pb2.Permits(
                uid_column=reply.uids.tobytes(),
                number_column=pack_column(reply.numbers, "int64"),
                permit_column=pack_column(reply.permits.T, "int64"),
                deferred_column=pack_column(reply.deferred.T, "int64"),
                units=pack_column(units, "int64"),
                unit_column=pack_column(unit_column, "int32"),
            )
        )
    elif isinstance(reply, Refusals):
        response.refusals.CopyFrom(
            permit_pb2.Refusals(
                uid_column=reply.uids.tobytes(),
                number_column=pack_column(reply.numbers, "int64"),
                reason_column=pack_column(reply.reasons, "int8"),
                retry_after_column=pack_column(reply.retry_after_s, "float32"),
            )
        )
    else:
        response.directives.CopyFrom(
            permit_pb2.Directives(
                uid_column=reply.uids.tobytes(), directive_column=pack_column(reply.directives, "int8")
            )
        )
    return response


def _distinct(units: Int64s) -> tuple[Int64s, Int64s]:
    """Return (unit, resource) distinct columns of (resource, n) units, and which of them each is."""
    if (units == units[:, :1]).all():  # as a rule; to sort them would be a tenth of what a request costs
        return units.T[:1], np.zeros(units.shape[1], np.int64)
    found, places = np.unique(units.T, axis=0, return_inverse=True)
    return found, places


def _uids(fields: dict[str, Any]) -> Int64s:
    """Return (n, 2) uids."""
    return np.array(fields["uid_column"], np.uint8).view(np.int64).reshape(-1, 2)


def _amounts(column: Int64s) -> Int64s:
    """Return (resource, n) amounts of an (n, resource) column."""
    return np.ascontiguousarray(column.T)

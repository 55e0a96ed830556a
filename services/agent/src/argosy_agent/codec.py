"""Messages of argosy.autoscale.v1 to and from values of the core; protobuf objects go no further.

Source: `proto/argosy/autoscale/v1/permit.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import numpy as np

from argosy.autoscale.v1 import permit_pb2
from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import Directed, Directive, Event, Permit, PermitRequest, PermitsTold, Refused
from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MAX_AMOUNT, MEMORY
from argosy_runtime.columns import pack_column
from argosy_runtime.shapes import Column, Shape, read_message

__all__ = ["RESOURCES", "read_events", "request_messages"]

RESOURCES: Final = (CPU, MEMORY)
"""Resources of amounts, in their order; a sampler with others cannot be spoken to."""
_SIZES: Final = {"resource": len(RESOURCES)}
_PERMITS: Final[Shape] = {
    "uid_column": Column("uuid", ("pod",)),
    "number_column": Column("int64", ("pod",), 0),
    "permit_column": Column("int64", ("pod", "resource"), 0, MAX_AMOUNT),
    "deferred_column": Column("int64", ("pod", "resource"), 0, MAX_AMOUNT),
    "units": Column("int64", ("unit", "resource"), 1, MAX_AMOUNT),
    "unit_column": Column("int32", ("pod",), 0),
}
_REFUSALS: Final[Shape] = {
    "uid_column": Column("uuid", ("pod",)),
    "number_column": Column("int64", ("pod",), 0),
    "reason_column": Column("int8", ("pod",), 0),
    "retry_after_column": Column("float32", ("pod",)),
}
_DIRECTIVES: Final[Shape] = {
    "uid_column": Column("uuid", ("pod",)),
    "directive_column": Column("int8", ("pod",), 0),
}
_DIRECTIVE_OF: Final = {
    permit_pb2.DIRECTIVE_MIGRATE: Directive.MIGRATE,
    permit_pb2.DIRECTIVE_RESUME: Directive.NONE,
    permit_pb2.DIRECTIVE_DRAIN: Directive.DRAIN,
    permit_pb2.DIRECTIVE_STOP: Directive.STOP,
}


def request_messages(requests: Sequence[PermitRequest], max_pod_count: int) -> Iterator[permit_pb2.SessionRequest]:
    """Give messages that say what pods are announced with and ask for, none about more pods than the sampler takes.

    Args:
        requests: What to say; each pod once.
        max_pod_count: Most pods of one message.
    """
    for is_first in (True, False):
        chosen = [one for one in requests if one.is_first is is_first]
        for begin in range(0, len(chosen), max_pod_count):
            part = chosen[begin : begin + max_pod_count]
            uids = b"".join(UUID(one.uid).bytes for one in part)
            amounts = pack_column(np.array([one.wanted for one in part], dtype=np.int64), "int64")
            numbers = pack_column(np.array([one.sequence for one in part], dtype=np.int64), "int64")
            if is_first:
                held = pack_column(np.array([one.was_permitted for one in part], dtype=np.int8), "int8")
                inventory = permit_pb2.Inventory(
                    uid_column=uids,
                    ceiling_column=amounts,
                    held_column=held,
                    number_column=numbers,
                    permitted_column=pack_column(np.array([one.is_permit for one in part], dtype=np.int8), "int8"),
                )
                yield permit_pb2.SessionRequest(inventory=inventory)
                continue
            bundle = pack_column(np.array([one.is_bundle for one in part], dtype=np.int8), "int8")
            request = permit_pb2.PermitRequest(
                uid_column=uids, wanted_column=amounts, bundle_column=bundle, number_column=numbers
            )
            yield permit_pb2.SessionRequest(request=request)


def read_events(message: permit_pb2.SessionResponse, session: int) -> list[Event]:
    """Return what a message of the sampler says to the agent.

    Args:
        message: After the welcome.
        session: Number of the session it came by.

    Raises:
        InvalidRequest: Its columns do not fit each other, or it has no place here.
    """
    kind = message.WhichOneof("message")
    if kind == "permits":
        return [_read_permits(message.permits, session)]
    if kind == "refusals":
        fields = read_message(message.refusals, _REFUSALS, where="refusals", sizes=_SIZES)
        columns = (fields[name].tolist() for name in ("number_column", "reason_column", "retry_after_column"))
        return [
            Refused(
                session=session, uid=uid, sequence=number, reason=_reason(reason), retry_after_s=max(retry_after_s, 0.0)
            )
            for uid, number, reason, retry_after_s in zip(_uids(fields["uid_column"]), *columns, strict=True)
        ]
    if kind == "directives":
        fields = read_message(message.directives, _DIRECTIVES, where="directives", sizes=_SIZES)
        found = zip(_uids(fields["uid_column"]), fields["directive_column"].tolist(), strict=True)
        return [Directed(session, uid, _DIRECTIVE_OF[word]) for uid, word in found if word in _DIRECTIVE_OF]
    if kind == "confirmed":
        return []
    raise InvalidRequest(f"the sampler said {kind or 'nothing'}, which has no place after the welcome")


def _read_permits(message: permit_pb2.Permits, session: int) -> PermitsTold:
    unit_count = len(message.units) // (8 * len(RESOURCES))
    fields = read_message(message, _PERMITS, where="permits", sizes=_SIZES | {"unit": unit_count})
    units = [Amounts(*row) for row in fields["units"].tolist()]
    places = fields["unit_column"].tolist()
    if any(place >= len(units) for place in places):
        raise InvalidRequest("permits.unit_column points behind the units")
    rows = zip(
        _uids(fields["uid_column"]),
        fields["number_column"].tolist(),
        fields["permit_column"].tolist(),
        places,
        strict=True,
    )
    return PermitsTold(
        session,
        tuple(
            Permit(uid=uid, sequence=number, amounts=Amounts(*amounts), unit=units[place])
            for uid, number, amounts, place in rows
        ),
    )


def _reason(number: int) -> str:
    """Return why a request was refused, in words."""
    try:
        name = permit_pb2.RefusalReason.Name(number)
    except ValueError:
        return f"reason {number}"
    return name.removeprefix("REFUSAL_REASON_").lower().replace("_", " ")


def _uids(column: np.ndarray) -> list[str]:
    return [str(UUID(bytes=row.tobytes())) for row in column]

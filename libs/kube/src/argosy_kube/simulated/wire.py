"""The local protocol of simulated clusters: frames of a msgpack header and packed columns.

::

    frame  = header length (u32) | body length (u32) | header (msgpack, tagged) | body (columns one behind the other)

A connection begins with Open and Opened. After that the client sends one request at a time and reads its answer; a
watch takes its connection for itself and is answered with frames until one end closes it. Tables (nodes, texts,
requests) only grow, so a frame carries what the connection has not seen yet.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final

import msgspec
import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import NodeDescription
from argosy_kube.simulated.faults import Audit, Fault

__all__ = [
    "CREATED_COLUMNS",
    "CREATE_COLUMNS",
    "DELETED_COLUMNS",
    "DELETE_COLUMNS",
    "FIND_COLUMNS",
    "AddUnmanagedPods",
    "Answer",
    "Audited",
    "Create",
    "Created",
    "Delete",
    "Deleted",
    "Done",
    "Events",
    "Find",
    "Inject",
    "ListNodes",
    "ListObjects",
    "LogPart",
    "Nodes",
    "Open",
    "Opened",
    "PutNodes",
    "ReadLog",
    "ReadUsage",
    "Refused",
    "RemoveNode",
    "Request",
    "Resize",
    "Resized",
    "TakeAudit",
    "Usage",
    "WatchNodes",
    "WatchObjects",
    "frame",
    "pack_columns",
    "read_answer",
    "read_request",
    "unpack_columns",
]

_LENGTHS: Final = struct.Struct("<II")
_LARGEST_BYTES: Final = 1 << 30

ColumnSchema = tuple[tuple[str, str, int], ...]
Columns = dict[str, np.ndarray]

CREATE_COLUMNS: Final[ColumnSchema] = (
    ("handle", "i8", 1),
    ("id_high", "i8", 1),
    ("ordinal", "i8", 1),
    ("body", "i4", 1),
    ("node", "i4", 1),
    ("metadata", "i4", 1),
    ("owner", "i4", 1),
    ("object", "i2", 1),
)
CREATED_COLUMNS: Final[ColumnSchema] = (
    ("uid", "u1", 16),
    ("existing_handle", "i8", 1),
    ("existing_ordinal", "i8", 1),
    ("message", "i4", 1),
    ("code", "i1", 1),
    ("existing_ours", "?", 1),
)
DELETE_COLUMNS: Final[ColumnSchema] = (
    ("uid", "u1", 16),
    ("handle", "i8", 1),
    ("ordinal", "i8", 1),
    ("kind", "i2", 1),
    ("object", "i2", 1),
)
FIND_COLUMNS: Final[ColumnSchema] = (("handle", "i8", 1), ("ordinal", "i8", 1), ("object", "i2", 1))
DELETED_COLUMNS: Final[ColumnSchema] = (("code", "i1", 1),)


class _Message(msgspec.Struct, kw_only=True, tag=True, array_like=True):
    """A header; fields in their order."""


class Open(_Message):
    """First frame of a connection."""

    installation: str
    """Whose objects are ours."""


class ListNodes(_Message):
    """Asks for Nodes."""


class WatchNodes(_Message):
    """Asks for Nodes, again and again."""

    version: int
    """Version to resume from."""


class ListObjects(_Message):
    """Asks for Events."""

    selector: int
    """Value of Selector."""


class WatchObjects(_Message):
    """Asks for Events, again and again."""

    selector: int
    """Value of Selector."""
    version: int
    """Version to resume from."""


class Create(_Message):
    """Creates; its body holds CREATE_COLUMNS. Asks for Created."""

    count: int
    """Number of objects."""
    bodies: tuple[bytes, ...]
    """As in Creates."""
    metadata: tuple[bytes, ...]
    """As in Creates."""
    owners: tuple[tuple[str, str], ...]
    """As in Creates."""
    nodes: tuple[str, ...]
    """As in Creates."""


class Delete(_Message):
    """Deletes; its body holds DELETE_COLUMNS. Asks for Deleted."""

    count: int
    """Number of objects."""
    kinds: tuple[str, ...]
    """As in Deletes."""


class Find(_Message):
    """Asks which objects of some runs are there, as Events; its body holds FIND_COLUMNS."""

    count: int
    """Number of objects."""


class Inject(_Message):
    """Asks for a failure, and Done."""

    fault: Fault
    """What shall go wrong."""


class PutNodes(_Message):
    """Adds or changes nodes; asks for Done."""

    nodes: tuple[NodeDescription, ...]
    """The nodes."""


class RemoveNode(_Message):
    """Takes a node and its pods away; asks for Done."""

    name: str
    """Name of the node."""


class AddUnmanagedPods(_Message):
    """Puts pods of somebody else on a node; asks for Done."""

    node: str
    """Name of the node."""
    amounts: dict[str, int]
    """Requests of each, base units."""
    count: int
    """How many."""


class Resize(_Message):
    """Gives a pod another size; asks for Resized."""

    uid: bytes
    """Its uid."""
    version: int
    """Version that it must be at."""
    amounts: tuple[int, ...]
    """By resource of SCALED, base units."""


class ReadUsage(_Message):
    """Asks for Usage; the body holds uids."""


class TakeAudit(_Message):
    """Asks for Audited."""


class ReadLog(_Message):
    """Asks for LogPart, again and again, then Done; takes its connection for itself."""

    run: tuple[int, int, int]
    """Handle, ordinal and object index."""
    container: str
    """As in Cluster.read_log."""
    follow: bool
    """As in Cluster.read_log."""
    tail: int | None
    """As in Cluster.read_log."""
    timestamps: bool = False
    """As in Cluster.read_log."""
    since_s: int = 0
    """As in Cluster.read_log."""


class Opened(_Message):
    """Answer to Open."""

    uid: str
    """Uid of the cluster."""
    installation: int
    """Value of the column `installation` that means ours on this connection."""


class Nodes(_Message):
    """Changes of nodes."""

    changes: tuple[int, ...]
    """Values of Change."""
    nodes: tuple[NodeDescription, ...]
    """The nodes after their change."""
    version: int
    """Version to resume from."""


class Events(_Message):
    """Changes of objects; the body is EventColumns, packed. Tables continue what the connection has sent before."""

    count: int
    """Number of changes."""
    version: int
    """Version to resume from."""
    kinds: tuple[str, ...] = ()
    """New kinds."""
    nodes: tuple[str, ...] = ()
    """New node names."""
    texts: tuple[str, ...] = ()
    """New texts."""
    resources: tuple[str, ...] = ()
    """All resource names if they changed; the requests then begin anew."""
    requests: bytes = b""
    """int64, row-major: new rows of requests."""
    notes: dict[int, tuple[tuple[str, str], ...]] = {}
    """By row: annotations of new rows that say how pods are scaled."""


class Created(_Message):
    """A CreateResult; the body holds CREATED_COLUMNS."""

    count: int
    """Number of objects."""
    messages: tuple[str, ...]
    """As in CreateResult."""


class Deleted(_Message):
    """A DeleteResult; the body holds DELETED_COLUMNS."""

    count: int
    """Number of objects."""


class Done(_Message):
    """It was done."""


class LogPart(_Message):
    """A piece of a log; the body holds its bytes."""


class Resized(_Message):
    """Answer to Resize."""

    version: int
    """Version of the pod then; 0 if it is at another one than was asked for, and nothing was done."""


class Usage(_Message):
    """Answer to ReadUsage; the body holds float64 (pod, resource of SCALED), base units."""


class Audited(_Message):
    """Answer to TakeAudit."""

    audit: Audit
    """What was counted."""


class Refused(_Message):
    """The request failed as a whole."""

    reason: str
    """`unavailable`, `gone`, `not-found` or `invalid`."""
    message: str
    """What was wrong."""


Request = (
    Open
    | ListNodes
    | WatchNodes
    | ListObjects
    | WatchObjects
    | Create
    | Delete
    | Find
    | Inject
    | PutNodes
    | RemoveNode
    | AddUnmanagedPods
    | TakeAudit
    | ReadLog
    | Resize
    | ReadUsage
)
Answer = Opened | Nodes | Events | Created | Deleted | Done | Audited | LogPart | Resized | Usage | Refused

_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUESTS: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_ANSWERS: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def frame(header: Request | Answer, body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    head = _ENCODER.encode(header)
    return b"".join((_LENGTHS.pack(len(head), len(body)), head, body))


async def _read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head_bytes, body_bytes = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    if head_bytes + body_bytes > _LARGEST_BYTES:
        msg = f"a frame of {head_bytes + body_bytes} bytes is not of this protocol"
        raise BackendUnavailable(msg)
    head = await reader.readexactly(head_bytes)
    return head, await reader.readexactly(body_bytes) if body_bytes else b""


async def read_request(reader: asyncio.StreamReader) -> tuple[Request, bytes]:
    """Return the next request and its body.

    Raises:
        asyncio.IncompleteReadError: The connection ended.
        msgspec.DecodeError: It is no request.
    """
    head, body = await _read_frame(reader)
    return _REQUESTS.decode(head), body


async def read_answer(reader: asyncio.StreamReader) -> tuple[Answer, bytes]:
    """Return the next answer and its body.

    Raises:
        asyncio.IncompleteReadError: The connection ended.
        msgspec.DecodeError: It is no answer.
    """
    head, body = await _read_frame(reader)
    return _ANSWERS.decode(head), body


def pack_columns(schema: ColumnSchema, columns: Columns) -> bytes:
    """Return columns one behind the other, in the order of the schema."""
    return b"".join([columns[name].tobytes() for name, _, _ in schema])


def unpack_columns(schema: ColumnSchema, count: int, body: bytes) -> Columns:
    """Return the columns of a body as read-only arrays over it.

    Raises:
        BackendUnavailable: The body has not the size that `count` elements have.
    """
    columns: Columns = {}
    offset = 0
    expected = count * sum(np.dtype(dtype).itemsize * width for _, dtype, width in schema)
    if len(body) != expected:
        msg = f"{count} elements have {expected} bytes, not {len(body)}"
        raise BackendUnavailable(msg)
    for name, dtype, width in schema:
        column = np.frombuffer(body, dtype=dtype, count=count * width, offset=offset)
        offset += column.nbytes
        columns[name] = column.reshape(count, width) if width > 1 else column
    return columns

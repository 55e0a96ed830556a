"""The cluster port over a socket to a simulated cluster, and the calls that only a simulated cluster has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotFound
from argosy_core.job.reading.scaling import SCALED
from argosy_core.reconcile import Creates, Deletes
from argosy_kube.port import CreateResult, DeleteResult, NodeDescription, NodeEvents, ObjectEvents, Selector, WatchGone
from argosy_kube.simulated import wire
from argosy_kube.simulated.faults import Audit, Fault
from argosy_kube.simulated.objects import EventColumns
from argosy_kube.simulated.pod_log import SIMULATED_CONTAINER
from argosy_kube.simulated.selection import Tables, build_events

__all__ = ["SimulatedCluster"]

_BUFFER_BYTES: Final = 1 << 22
_IDLE_CONNECTIONS: Final = 4

_T = TypeVar("_T", bound=wire.Answer)


class _Connection:
    """A connection after its Open, and the tables it has received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: wire.Opened) -> None:
        self._reader = reader
        self._writer = writer
        self.opened = opened
        self._tables = Tables(kinds=(), nodes=(), texts=(), resources=(), requests=np.zeros((0, 0), dtype=np.int64))

    async def send(self, request: wire.Request, body: bytes = b"") -> None:
        self._writer.write(wire.frame(request, body))
        await self._writer.drain()

    async def receive(self) -> tuple[wire.Answer, bytes]:
        answer, body = await wire.read_answer(self._reader)
        if isinstance(answer, wire.Refused):
            raise _error(answer)
        return answer, body

    def events(self, answer: wire.Events, body: bytes) -> ObjectEvents:
        known = self._tables
        if answer.kinds or answer.nodes or answer.texts or answer.requests or answer.resources:
            resources = answer.resources or known.resources
            rows = np.frombuffer(answer.requests, dtype=np.int64).reshape(-1, len(resources))
            if not answer.resources and len(rows):
                rows = np.concatenate([known.requests, rows])
            known = self._tables = Tables(
                kinds=known.kinds + answer.kinds,
                nodes=known.nodes + answer.nodes,
                texts=known.texts + answer.texts,
                resources=resources,
                requests=rows if answer.resources or len(rows) else known.requests,
                notes={**known.notes, **answer.notes},
            )
        columns = EventColumns.unpack(answer.count, body)
        return build_events(columns, known, installation=self.opened.installation, version=answer.version)

    def close(self) -> None:
        self._writer.close()


class SimulatedCluster:
    """A simulated cluster in another process; implements the cluster port."""

    def __init__(self, address: str, *, installation: str, timeout_s: float = 30.0) -> None:
        """Open a cluster for one installation; connections are made when they are needed.

        Args:
            address: `unix:/path` or `host:port`.
            installation: Whose objects are ours.
            timeout_s: How long a call may take before it counts as unavailable; watches may be silent for longer.
        """
        self._address = address
        self._installation = installation
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        """Return the cluster."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections."""
        await self.close()

    async def cluster_uid(self) -> str:
        """See Cluster; by a connection of its own: one that was kept does not tell whether the cluster is there now."""
        with _translated():
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connect()
        connection.close()
        return connection.opened.uid

    async def list_nodes(self) -> NodeEvents:
        """See Cluster."""
        answer, _ = await self._call(wire.ListNodes())
        return _nodes(_expect(answer, wire.Nodes))

    async def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """See Cluster."""
        async with contextlib.aclosing(self._watch(wire.WatchNodes(version=version))) as frames:
            async for _, answer, _ in frames:
                yield _nodes(_expect(answer, wire.Nodes))

    async def runtime_overheads(self) -> dict[str, dict[str, int]] | None:
        """See Cluster; a simulated cluster has no runtime classes."""
        return None

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """See Cluster."""
        async with self._borrow() as connection:
            await connection.send(wire.ListObjects(selector=selector))
            answer, body = await connection.receive()
            return connection.events(_expect(answer, wire.Events), body)

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster."""
        request = wire.WatchObjects(selector=selector, version=version)
        async with contextlib.aclosing(self._watch(request)) as frames:
            async for connection, answer, body in frames:
                yield connection.events(_expect(answer, wire.Events), body)

    async def create_objects(self, batch: Creates) -> CreateResult:
        """See Cluster."""
        request = wire.Create(
            count=len(batch),
            bodies=batch.bodies,
            metadata=batch.metadata,
            owners=batch.owners,
            nodes=batch.nodes,
        )
        answer, body = await self._call(request, _pack(wire.CREATE_COLUMNS, batch))
        created = _expect(answer, wire.Created)
        columns = wire.unpack_columns(wire.CREATED_COLUMNS, created.count, body)
        return CreateResult(messages=created.messages, **{f"{name}_column": column for name, column in columns.items()})

    async def delete_objects(self, batch: Deletes) -> DeleteResult:
        """See Cluster."""
        request = wire.Delete(count=len(batch), kinds=batch.kinds)
        answer, body = await self._call(request, _pack(wire.DELETE_COLUMNS, batch))
        deleted = _expect(answer, wire.Deleted)
        return DeleteResult(code_column=wire.unpack_columns(wire.DELETED_COLUMNS, deleted.count, body)["code"])

    async def find_objects(self, batch: Creates) -> ObjectEvents:
        """See Cluster."""
        async with self._borrow() as connection:
            await connection.send(wire.Find(count=len(batch)), _pack(wire.FIND_COLUMNS, batch))
            answer, body = await connection.receive()
            return connection.events(_expect(answer, wire.Events), body)

    async def container_names(self, handle: int, ordinal: int, object_index: int) -> tuple[str, ...]:  # noqa: ARG002 - all alike
        """See Cluster."""
        return (SIMULATED_CONTAINER,)

    async def read_log(  # noqa: PLR0913 - what can be said of a log
        self,
        handle: int,
        ordinal: int,
        object_index: int,
        *,
        container: str = "",
        follow: bool,
        tail_line_count: int | None,
        timestamps: bool = False,
        since_s: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """See Cluster."""
        run = (handle, ordinal, object_index)
        request = wire.ReadLog(
            run=run,
            container=container,
            follow=follow,
            tail=tail_line_count,
            timestamps=timestamps,
            since_s=since_s,
        )
        is_whole = False
        async with contextlib.aclosing(self._watch(request)) as frames:
            async for _, answer, body in frames:
                is_whole = isinstance(answer, wire.Done)
                if is_whole:
                    break
                yield body
        if not is_whole:
            raise BackendUnavailable("the simulated cluster broke a log off; the call may be repeated")

    async def close(self) -> None:
        """See Cluster."""
        while self._idle:
            self._idle.pop().close()

    async def inject(self, fault: Fault) -> None:
        """Make a failure happen.

        Raises:
            NotFound: The fault names a node that is not there.
        """
        await self._call(wire.Inject(fault=fault))

    async def put_nodes(self, nodes: tuple[NodeDescription, ...]) -> None:
        """Add or change nodes."""
        await self._call(wire.PutNodes(nodes=nodes))

    async def remove_node(self, name: str) -> None:
        """Take a node and its pods away.

        Raises:
            NotFound: There is no such node.
        """
        await self._call(wire.RemoveNode(name=name))

    async def add_unmanaged_pods(self, node: str, amounts: dict[str, int], count: int) -> None:
        """Put pods of somebody else on a node, each with these requests in base units.

        Raises:
            NotFound: There is no such node.
        """
        await self._call(wire.AddUnmanagedPods(node=node, amounts=amounts, count=count))

    async def resize(self, uid: str, version: int, amounts: tuple[int, ...]) -> int:
        """Give a pod another size, by resource of SCALED; return its version then, 0 if it is at another one.

        Raises:
            InvalidRequest: It cannot have that size; the text says why.
        """
        answer, _ = await self._call(wire.Resize(uid=UUID(uid).bytes, version=version, amounts=amounts))
        return _expect(answer, wire.Resized).version

    async def read_usage(self, uids: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return (n, resource of SCALED) what pods use, base units; not a number where nothing is told."""
        answer, body = await self._call(wire.ReadUsage(), b"".join(UUID(uid).bytes for uid in uids))
        _expect(answer, wire.Usage)
        return np.frombuffer(body, np.float64).reshape(len(uids), len(SCALED))

    async def audit(self) -> Audit:
        """Return what the cluster counted since it started."""
        answer, _ = await self._call(wire.TakeAudit())
        return _expect(answer, wire.Audited).audit

    async def _call(self, request: wire.Request, body: bytes = b"") -> tuple[wire.Answer, bytes]:
        async with self._borrow() as connection:
            await connection.send(request, body)
            return await connection.receive()

    @contextlib.asynccontextmanager
    async def _borrow(self) -> AsyncGenerator[_Connection, None]:
        """Give a connection for one request; keep it if all went well.

        Raises:
            BackendUnavailable: The cluster was not reached in time or the connection broke.
        """
        connection: _Connection | None = None
        is_whole = False
        try:
            with _translated():
                async with asyncio.timeout(self._timeout_s):
                    connection = self._idle.pop() if self._idle else await self._connect()
                    try:
                        yield connection
                        is_whole = True
                    except ArgosyError:
                        is_whole = True  # the answer was read to its end
                        raise
        finally:
            if connection is not None:
                if is_whole and len(self._idle) < _IDLE_CONNECTIONS:
                    self._idle.append(connection)
                else:
                    connection.close()
            if not is_whole:  # the others are likely broken as well
                await self.close()

    async def _connect(self) -> _Connection:
        if self._address.startswith("unix:"):
            path = self._address.removeprefix("unix:")
            reader, writer = await asyncio.open_unix_connection(path, limit=_BUFFER_BYTES)
        else:
            name, _, port = self._address.rpartition(":")
            reader, writer = await asyncio.open_connection(name, int(port), limit=_BUFFER_BYTES)
        try:
            writer.write(wire.frame(wire.Open(installation=self._installation)))
            answer, _ = await wire.read_answer(reader)
            return _Connection(reader, writer, _expect(answer, wire.Opened))
        except BaseException:
            writer.close()
            raise

    async def _watch(self, request: wire.Request) -> AsyncGenerator[tuple[_Connection, wire.Answer, bytes], None]:
        """Give the frames of a watch; end without an error when the cluster closes it or the connection breaks."""
        with _translated():
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connect()
        try:
            await connection.send(request)
            while True:
                answer, body = await connection.receive()
                yield connection, answer, body
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            connection.close()


@contextlib.contextmanager
def _translated() -> Generator[None, None, None]:
    """Turn what sockets raise into BackendUnavailable."""
    try:
        yield
    except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError) as cause:
        msg = "the simulated cluster cannot be reached; the call may be repeated"
        raise BackendUnavailable(msg) from cause


def _error(answer: wire.Refused) -> ArgosyError:
    kinds: dict[str, type[ArgosyError]] = {
        "gone": WatchGone,
        "unavailable": BackendUnavailable,
        "not-found": NotFound,
    }
    return kinds.get(answer.reason, InvalidRequest)(answer.message)


def _expect(answer: wire.Answer, kind: type[_T]) -> _T:
    if not isinstance(answer, kind):
        msg = f"the simulated cluster answered {type(answer).__name__}, not {kind.__name__}"
        raise BackendUnavailable(msg)
    return answer


def _nodes(answer: wire.Nodes) -> NodeEvents:
    changes = np.array(answer.changes, dtype=np.int8)
    return NodeEvents(change_column=changes, nodes=answer.nodes, version=answer.version)


def _pack(schema: wire.ColumnSchema, batch: Creates | Deletes) -> bytes:
    dtypes = {name: dtype for name, dtype, _ in schema}
    columns = {name: np.asarray(getattr(batch, f"{name}_column"), dtype=dtypes[name]) for name in dtypes}
    return wire.pack_columns(schema, columns)

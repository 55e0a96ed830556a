"""A simulated cluster behind a socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from argosy_core.errors import ArgosyError, BackendUnavailable, NotFound
from argosy_core.reconcile import Creates, Deletes
from argosy_kube.port import NodeEvents, Selector, WatchGone
from argosy_kube.simulated import wire
from argosy_kube.simulated.host import ClusterHost
from argosy_kube.simulated.objects import EventColumns
from argosy_kube.simulated.pod_log import read_simulated_log
from argosy_kube.simulated.selection import select_block, select_columns, select_objects
from argosy_kube.simulated.sizes import SizeConflict

__all__ = ["serve_cluster"]

_ENTIRE = 0  # key of an unselected block among the packed forms of a block
_BUFFER_BYTES = 1 << 22


@dataclass(slots=True)
class _Sent:
    """What a connection has seen of the tables that only grow."""

    kinds: int = 0
    nodes: int = 0
    texts: int = 0
    requests: int = 0
    resources: tuple[str, ...] = field(default=())


@contextlib.asynccontextmanager
async def serve_cluster(host: ClusterHost, address: str) -> AsyncGenerator[str, None]:
    """Serve a cluster and let its time pass; gives the address it listens on.

    Args:
        host: The cluster.
        address: `unix:/path` or `host:port`; port 0 takes a free one.
    """
    connections: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = group.create_task(_Connection(host, reader, writer).serve(), name="simulated-cluster-connection")
            connections.add(task)
            task.add_done_callback(connections.discard)

        clock = group.create_task(host.run(), name="simulated-cluster-clock")
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - left by a process that was killed; before anything is served
            server = await asyncio.start_unix_server(accept, path, limit=_BUFFER_BYTES)
        else:
            name, _, port = address.rpartition(":")
            server = await asyncio.start_server(accept, name, int(port), limit=_BUFFER_BYTES)
            address = f"{name}:{server.sockets[0].getsockname()[1]}"
        try:
            yield address
        finally:
            server.close()
            clock.cancel()
            for connection in list(connections):
                connection.cancel()


class _Connection:
    """One connection: a request and its answer at a time, or one watch."""

    def __init__(self, host: ClusterHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer
        self._installation = -2
        self._sent = _Sent()

    async def serve(self) -> None:
        """Answer until the other end closes or says what cannot be understood."""
        try:
            while True:
                request, body = await wire.read_request(self._reader)
                try:
                    await self._answer(request, body)
                except ArgosyError as error:
                    await self._send(_refusal(error))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError, ValueError, BackendUnavailable):
            pass  # what cannot be understood ends this connection, and nothing else
        finally:
            self._writer.close()

    async def _send(self, header: wire.Answer, body: bytes = b"") -> None:
        self._writer.write(wire.frame(header, body))
        await self._writer.drain()

    async def _answer(self, request: wire.Request, body: bytes) -> None:
        match request:
            case wire.Create():
                await self._create(request, body)
            case wire.Delete():
                await self._delete(request, body)
            case wire.WatchObjects(selector=selector, version=version):
                await self._watch_objects(Selector(selector), version)
            case wire.ListObjects(selector=selector):
                engine = self._host.meet()
                columns = select_columns(engine.journal.present(), Selector(selector), self._installation)
                self._host.wake()
                await self._send_events(len(columns), columns.pack(), engine.journal.history.version)
            case wire.Find(count=count):
                columns = self._find(wire.unpack_columns(wire.FIND_COLUMNS, count, body))
                await self._send_events(len(columns), columns.pack(), self._host.engine.journal.history.version)
            case wire.ListNodes():
                self._host.meet()
                await self._send(_nodes(self._host.present_nodes()))
            case wire.WatchNodes(version=version):
                self._host.meet()
                async with contextlib.aclosing(self._host.watch_nodes(version)) as watch:
                    async for events in watch:
                        await self._send(_nodes(events))
                self._writer.close()
            case wire.ReadLog() | wire.ReadUsage():
                await self._read(request, body)
            case _:
                await self._send(self._control(request))

    def _resize(self, request: wire.Resize) -> wire.Resized:
        engine, uid = self._host.meet(), np.frombuffer(request.uid, np.uint8)
        try:
            return wire.Resized(version=engine.sizes.resize(uid, request.version, request.amounts, engine.now_us))
        except SizeConflict:
            return wire.Resized(version=0)
        finally:
            self._host.wake()

    def _control(self, request: wire.Request) -> wire.Answer:
        host = self._host
        match request:
            case wire.Open(installation=installation):
                self._installation = host.engine.installations.intern(installation)
                return wire.Opened(uid=host.engine.uid, installation=self._installation)
            case wire.Resize():
                return self._resize(request)
            case wire.TakeAudit():
                return wire.Audited(audit=host.audit())
            case wire.Inject(fault=fault):
                host.inject(fault)
            case wire.PutNodes(nodes=nodes):
                host.put_nodes(nodes)
            case wire.RemoveNode(name=name):
                host.remove_node(name)
            case wire.AddUnmanagedPods(node=node, amounts=amounts, count=count):
                host.add_unmanaged_pods(node, amounts, count)
        return wire.Done()

    async def _create(self, request: wire.Create, body: bytes) -> None:
        columns = wire.unpack_columns(wire.CREATE_COLUMNS, request.count, body)
        batch = Creates(
            bodies=request.bodies,
            metadata=request.metadata,
            owners=request.owners,
            nodes=request.nodes,
            **{f"{name}_column": column for name, column in columns.items()},
        )
        result = self._host.meet().create(batch, self._installation)
        answer = {name: getattr(result, f"{name}_column") for name, _, _ in wire.CREATED_COLUMNS}
        packed = wire.pack_columns(wire.CREATED_COLUMNS, answer)
        await self._send(wire.Created(count=request.count, messages=result.messages), packed)

    async def _delete(self, request: wire.Delete, body: bytes) -> None:
        columns = wire.unpack_columns(wire.DELETE_COLUMNS, request.count, body)
        batch = Deletes(kinds=request.kinds, **{f"{name}_column": column for name, column in columns.items()})
        result = self._host.meet().delete(batch)
        await self._send(wire.Deleted(count=request.count), result.code_column.tobytes())

    def _find(self, runs: wire.Columns) -> EventColumns:
        columns = self._host.meet().journal.present()
        self._host.wake()
        return select_objects(columns, (runs["handle"], runs["ordinal"], runs["object"]), self._installation)

    async def _watch_objects(self, selector: Selector, version: int) -> None:
        self._host.meet()
        async with contextlib.aclosing(self._host.watch_blocks(version)) as watch:
            async for block in watch:
                if block is None:
                    await self._send_events(0, b"", version)
                    continue
                columns = select_block(block, selector, self._installation, version)
                version = block.last_version
                if columns is block.columns:
                    body = block.packed.get(_ENTIRE)
                    if body is None:
                        body = block.packed[_ENTIRE] = columns.pack()
                else:
                    body = columns.pack()
                if body:
                    await self._send_events(len(columns), body, version)
        self._writer.close()

    async def _read(self, request: wire.ReadLog | wire.ReadUsage, body: bytes) -> None:
        engine = self._host.meet()
        if isinstance(request, wire.ReadUsage):
            used = engine.sizes.usage(np.frombuffer(body, np.uint8).reshape(-1, 16), engine.now_us)
            return await self._send(wire.Usage(), used.tobytes())
        pieces = read_simulated_log(
            self._host,
            self._installation,
            request.run,
            container=request.container,
            follow=request.follow,
            tail=request.tail,
            timestamps=request.timestamps,
            since_s=request.since_s,
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                await self._send(wire.LogPart(), piece)
        return await self._send(wire.Done())

    async def _send_events(self, count: int, body: bytes, version: int) -> None:
        tables, sent = self._host.tables(), self._sent
        resources: tuple[str, ...] = ()
        if tables.resources is not sent.resources:
            resources = sent.resources = tables.resources
            sent.requests = 0
        header = wire.Events(
            count=count,
            version=version,
            kinds=tables.kinds[sent.kinds :],
            nodes=tables.nodes[sent.nodes :],
            texts=tables.texts[sent.texts :],
            resources=resources,
            requests=np.ascontiguousarray(tables.requests[sent.requests :]).tobytes(),
            notes={row: notes for row, notes in tables.notes.items() if row >= sent.requests} if tables.notes else {},
        )
        sent.kinds, sent.nodes, sent.texts = len(tables.kinds), len(tables.nodes), len(tables.texts)
        sent.requests = len(tables.requests)
        await self._send(header, body)


def _nodes(events: NodeEvents) -> wire.Nodes:
    return wire.Nodes(changes=tuple(events.change_column.tolist()), nodes=events.nodes, version=events.version)


def _refusal(error: ArgosyError) -> wire.Refused:
    reasons = {WatchGone: "gone", BackendUnavailable: "unavailable", NotFound: "not-found"}
    return wire.Refused(reason=reasons.get(type(error), "invalid"), message=error.message)

"""Rows on their way to executors, in order, each spec's body only where the executor does not hold it.

Source: design section 5, "Sync" ("rows it does not have come down with each spec sent once").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import structlog

from argosy.executor.v1 import executor_pb2
from argosy_core.arrays import has_true
from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_core.job.tables.interning import distinct
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import RowsLost
from argosy_runtime.columns import member_columns, pack_column

if TYPE_CHECKING:
    from argosy_core.arrays import Int32s, Int64s
    from argosy_core.scheduler.columns.messages import ClusterRuns
    from argosy_core.scheduler.outgoing.effects import ExecutorRows
    from argosy_server.leader.sessions.executors import SyncSession
    from argosy_server.leader.show.notes import LeaderNotes
    from argosy_server.leader.show.round_traces import LeaseTrace
    from argosy_store import LeaderStore

__all__ = ["RowSender"]

_log = structlog.get_logger(__name__)
ROWS_PER_MESSAGE = 5_000
"""Rows in one message, so that no message comes near the limit with specs of a usual size."""
BODY_BYTES_PER_MESSAGE = 2 << 20
"""Bytes of spec bodies and of jobs' labels and annotations in one message."""
WAITING_LIMIT = 1_000
"""Batches that may wait for all clusters together."""


class RowSender:
    """Sends rows and stops to executors in the order they were put, after reading the spec bodies they need."""

    def __init__(self, notes: LeaderNotes, store: LeaderStore, tell: Callable[[RowsLost], None]) -> None:
        """Start with nothing to send.

        Args:
            notes: Specs that were read, and which jobs are traced.
            store: Where specs are.
            tell: Is told of rows that cannot be made.
        """
        self._notes = notes
        self._store = store
        self._tell = tell
        self._queue: asyncio.Queue[tuple[ExecutorRows | ClusterRuns, SyncSession, LeaseTrace | None]] = asyncio.Queue(
            WAITING_LIMIT
        )

    def put(self, item: ExecutorRows | ClusterRuns, session: SyncSession, trace: LeaseTrace | None = None) -> None:
        """Put rows, or runs to stop, in line behind those put before.

        When the line is full the session ends, and its successor starts from a comparison.
        """
        try:
            self._queue.put_nowait((item, session, trace))
        except asyncio.QueueFull:
            session.close("rows for the cluster pile up")

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            item, session, trace = await self._queue.get()
            if session.closed.is_set():
                continue
            try:
                await self._send(item, session, trace)
            except BackendUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - one cluster's rows must not end the leadership over all of them
                _log.exception("rows cannot be sent", cluster=session.cluster)
                reason = error.message if isinstance(error, ArgosyError) else "rows cannot be sent; see the log"
                session.close(reason)

    async def _send(self, item: ExecutorRows | ClusterRuns, session: SyncSession, trace: LeaseTrace | None) -> None:
        """Send one batch."""
        if hasattr(item, "specs"):
            traces = self._notes.traces
            span = traces.begin_rows(item, trace) if traces is not None else None  # type: ignore[arg-type]
            await self._send_rows(item, session, span.traceparent if span is not None else "")  # type: ignore[arg-type]
            if span is not None:
                span.end()
            return
        stops = executor_pb2.StopRuns(**member_columns(item.members), unknown=item.is_unknown)
        session.send(executor_pb2.SyncResponse(stops=stops))

    async def _send_rows(self, rows: ExecutorRows, session: SyncSession, traceparent: str = "") -> None:
        """Send rows in parts whose spec bodies, labels and annotations fit a message."""
        metadata_bytes = [len(text) for text in rows.metadata]
        for start in range(0, len(rows.handle), ROWS_PER_MESSAGE):
            part = np.arange(start, min(start + ROWS_PER_MESSAGE, len(rows.handle)))
            used = [rows.specs[index].hash for index in dict.fromkeys(rows.spec[part].tolist())]
            bodies = await self._read_bodies(rows, session.specs.missing(used))
            body_bytes = [len(bodies.get(spec.hash, b"")) for spec in rows.specs]
            tables = (rows.spec[part], body_bytes), (rows.metadata_index[part], metadata_bytes)
            for piece in _pieces(part.size, tables):
                await self._send_piece(rows, part[piece], bodies, session, traceparent=traceparent)

    async def _read_bodies(self, rows: ExecutorRows, hashes: list[bytes]) -> dict[bytes, bytes]:
        """Return the bodies of specs, from memory where it has them."""
        bodies: dict[bytes, bytes] = {}
        lacking = set()
        for spec_hash in hashes:
            body = self._notes.specs.get(spec_hash)
            if body is None:
                lacking.add(spec_hash)
            else:
                bodies[spec_hash] = body
        if lacking:
            keys = [(spec.day, spec.hash) for spec in rows.specs if spec.hash in lacking]
            found = await asyncio.to_thread(self._store.read_specs, keys)
            fresh = {spec_hash: body for (_, spec_hash), (body, _) in found.items()}
            self._notes.specs.add(fresh.items())
            bodies.update(fresh)
        return bodies

    async def _send_piece(
        self,
        rows: ExecutorRows,
        part: Int64s,
        bodies: dict[bytes, bytes],
        session: SyncSession,
        *,
        traceparent: str = "",
    ) -> None:
        """Send one message with the bodies that the executor's cache of specs does not hold.

        Rows whose body is not stored are left out, and the machine is told, so that their jobs fail.
        """
        used, spec = distinct(rows.spec[part])
        hashes = [rows.specs[index].hash for index in used.tolist()]
        # A piece before may have driven out of the cache what it held when the bodies were read.
        lacking = [spec_hash for spec_hash in session.specs.missing(hashes) if spec_hash not in bodies]
        if lacking:
            bodies |= await self._read_bodies(rows, lacking)
        lost = np.array([spec_hash in lacking and spec_hash not in bodies for spec_hash in hashes], dtype=np.bool_)
        if has_true(lost):
            self._give_up(rows, part[lost[spec]], session)
            if not lost.all():
                await self._send_piece(rows, part[~lost[spec]], bodies, session, traceparent=traceparent)
            return
        metadata, metadata_index = _used(rows.metadata, rows.metadata_index[part])
        message = executor_pb2.ObjectRows(
            handle_column=pack_column(rows.handle[part], "int64"),
            attempt_column=pack_column(rows.attempt[part], "int32"),
            member_column=pack_column(rows.member[part], "int16") if rows.member is not None else b"",
            id_high_column=pack_column(rows.id_high[part], "int64"),
            spec_column=pack_column(spec, "int32"),
            node_column=pack_column(rows.node[part], "int32"),
            metadata_column=pack_column(metadata_index, "int32"),
            owner_column=pack_column(rows.owner[part], "int32"),
            seen_column=pack_column(rows.seen[part], "int8") if has_true(rows.seen[part]) else b"",
            spec_hashes=hashes,
            spec_bodies=session.specs.send(hashes, bodies.__getitem__),
            nodes=rows.nodes,
            metadata=metadata,
            owners=[executor_pb2.Owner(queue=queue, job_set=job_set) for queue, job_set in rows.owners],
            traceparent=traceparent,
            traced=self._traced(rows.handle[part]),
        )
        session.send(executor_pb2.SyncResponse(rows=message))

    def _give_up(self, rows: ExecutorRows, part: Int64s, session: SyncSession) -> None:
        """Tell of rows that have no spec."""
        spec = rows.specs[int(rows.spec[part[0]])]
        reason = f"its spec {spec.hash.hex()} is not stored"
        _log.error("jobs cannot run", cluster=session.cluster, job_count=part.size, reason=reason)
        runs = Members.of(rows.handle[part], rows.attempt[part], None if rows.member is None else rows.member[part])
        self._tell(RowsLost(session=session.key, runs=runs, reason=reason))

    def _traced(self, handles: Int64s) -> executor_pb2.TracedRuns | None:
        """Return which runs their submitter traces, None if none."""
        jobs = self._notes.traces.find(handles) if self._notes.traces is not None else {}
        if not jobs:
            return None
        return executor_pb2.TracedRuns(
            handle_column=pack_column(list(jobs), "int64"), traceparents=[job.traceparent for job in jobs.values()]
        )


def _used(texts: Sequence[bytes], index: Int32s) -> tuple[list[bytes], Int32s]:
    """Return the texts that some rows have, and each row's index into them; -1 stays none."""
    places, found = distinct(index[index >= 0])
    used = np.full(index.size, -1, np.int32)
    used[index >= 0] = found
    return [texts[place] for place in places.tolist()], used


def _pieces(count: int, tables: Sequence[tuple[Int32s, Sequence[int]]]) -> list[slice]:
    """Return consecutive slices of rows whose texts together stay near the limit of a message.

    Args:
        count: Rows.
        tables: Each row's index into some texts, -1 for none, and the size of each text; a text is sent once a slice.
    """
    if sum(sum(sizes) for _, sizes in tables) <= BODY_BYTES_PER_MESSAGE:
        return [slice(0, count)]
    indices = [(index.tolist(), sizes) for index, sizes in tables]
    pieces, start, size_bytes = [], 0, 0
    seen: set[tuple[int, int]] = set()
    for position in range(count):
        needs = {
            (table, index[position]): sizes for table, (index, sizes) in enumerate(indices) if index[position] >= 0
        }
        added = sum(sizes[key[1]] for key, sizes in needs.items() if key not in seen)
        if size_bytes + added > BODY_BYTES_PER_MESSAGE and position > start:
            pieces.append(slice(start, position))
            start, size_bytes, seen = position, 0, set()
            added = sum(sizes[key[1]] for key, sizes in needs.items())
        seen.update(needs)
        size_bytes += added
    pieces.append(slice(start, count))
    return pieces

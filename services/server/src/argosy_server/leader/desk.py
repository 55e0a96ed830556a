"""The leader's desk: what happens when clusters dial, speak and go.

Source: design section 5, "Sync", "Sampler session", "Fencing executors".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import structlog

from argosy_core.errors import BackendUnavailable
from argosy_core.scheduler import placements_of, rows_missing, set_cluster, update_capacity
from argosy_core.scheduler.messages import ClusterView, Runs
from argosy_runtime.columns import read_columns
from argosy_server.leader.cluster_codec import capacity_columns, placement_parts, state_columns
from argosy_server.leader.memory import NodeNotes, ReportedStates

if TYPE_CHECKING:
    from argosy.executor.v1 import executor_pb2
    from argosy.sampler.v1 import sampler_pb2
    from argosy_server.leader.memory import LeaderMemory
    from argosy_server.leader.rows import RowSender
    from argosy_server.leader.sync_sessions import SyncSession
    from argosy_server.leader.writer import EffectWriter
    from argosy_store import ClusterRow, LeaderStore

__all__ = ["LeaderDesk"]

AnswerT = TypeVar("AnswerT")
BIND_TIMEOUT_S = 3.0
"""How long a cluster that dials waits for the database; below the time after which samplers and executors hang up."""
_log = structlog.get_logger(__name__)


class LeaderDesk:
    """Acts for the leadership towards samplers and executors; implements SamplerDesk and ExecutorDesk."""

    def __init__(self, memory: LeaderMemory, store: LeaderStore, writer: EffectWriter, rows: RowSender) -> None:
        """Act on a leadership's memory."""
        self._memory = memory
        self._store = store
        self._writer = writer
        self._rows = rows
        # One thread: binding waits behind a transaction of the leader, and must not take the threads that its lease,
        # its log and its reads need.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leader-desk")

    def close(self) -> None:
        """Let the thread end once it has done what is in line; who waits for that is answered in time."""
        self._thread.shutdown(wait=False)

    @property
    def epoch(self) -> int:
        """Epoch of the leadership."""
        return self._memory.epoch

    def leader_address(self) -> str:
        """Answer nothing: this process leads."""
        return ""

    # --- samplers ---

    async def admit_sampler(self, hello: sampler_pb2.Hello) -> None:
        """Bind the cluster's name to its uid and the sampler's incarnation."""
        row = await self._in_time(lambda: self._bind(hello.cluster, hello.cluster_uid, "sampler", hello.incarnation))
        self._note_binding(row)
        self._show(hello.cluster, connected=False, incarnation=hello.incarnation)
        self._memory.cluster(hello.cluster).nodes = NodeNotes()

    def placement_lists(self, cluster: str) -> list[sampler_pb2.PlacementList]:
        """Answer the cluster's full list of placements, in-flight ones included."""
        placements = placements_of(self._memory.state, cluster)
        used = sorted(set(placements.class_ids.tolist()))
        return placement_parts(placements, [(class_id, self._memory.definitions[class_id]) for class_id in used])

    def take_capacity(self, cluster: str, incarnation: int, capacity: sampler_pb2.Capacity) -> None:
        """Take in what a cluster's nodes are."""
        columns = capacity_columns(capacity, incarnation)
        update_capacity(self._memory.state, cluster, columns)
        notes = self._memory.cluster(cluster)
        notes.capacity = columns
        notes.nodes.take(columns, capacity.groups, np.frombuffer(capacity.group_column, dtype="<i4"))
        self._memory.news.set()

    def sampler_ready(self, cluster: str, incarnation: int) -> None:
        """From now on the cluster may be asked."""
        self._show(cluster, connected=True, incarnation=incarnation)
        self._memory.news.set()

    def sampler_gone(self, cluster: str, incarnation: int) -> None:
        """The cluster may not be asked any more."""
        self._show(cluster, connected=False, incarnation=incarnation)

    def cordoned_nodes(self, cluster: str) -> tuple[str, ...]:
        """Answer the names of the nodes an administrator cordoned."""
        return self._memory.cluster(cluster).cordoned_nodes

    # --- executors ---

    async def admit_executor(self, hello: executor_pb2.Hello) -> bool:
        """Bind the cluster's name to its uid and the executor's incarnation; return whether it is the first."""
        cluster = hello.cluster

        def bind() -> tuple[bool, ClusterRow]:
            # Nobody else binds in between: there is one thread, and an older leader is refused by its epoch.
            known = self._store.read_clusters([cluster])
            bound = self._bind(cluster, hello.cluster_uid, "executor", hello.incarnation)
            return not any(row.executor_incarnation for row in known), bound

        is_first, row = await self._in_time(bind)
        self._note_binding(row)
        if self._memory.state.clusters.find(hello.cluster) is None:
            self._show(hello.cluster, connected=False, incarnation=0)  # its sampler has not come yet
        return is_first

    async def send_missing_rows(self, session: SyncSession, hello: executor_pb2.Hello) -> None:
        """Send the rows that the executor does not have, and stops for runs that are not live.

        Waits until everything decided so far is stored, so that no row is sent that a crash could take back.
        """
        known = read_columns(hello, {"handle_column": "int64", "attempt_column": "int32"}, where="hello")
        await self._writer.wait_until_stored()
        runs = Runs(handle=known["handle_column"], attempt=known["attempt_column"])
        missing = rows_missing(self._memory.state, session.cluster, runs)
        # Leases taken in meanwhile are not stored yet; their rows follow the commit, as to everybody.
        unstored = np.array(sorted(self._memory.unstored_handles), dtype=np.int64)
        # Stops first: what a predecessor has deleted already must not be made again for want of the word that it goes.
        self._rows.put_stops(missing.stops, session)
        self._rows.put_rows(missing.rows.without(unstored) if unstored.size else missing.rows, session)

    async def take_states(self, session: SyncSession, states: executor_pb2.StateBatch) -> None:
        """Put states in the inbox; waits while it is full."""
        columns = state_columns(states)
        await self._memory.inbox_has_room.wait()
        self._memory.put_states(ReportedStates(session=session, batch=states.batch, columns=columns))
        self._memory.note_contact(session.cluster)

    def executor_heard(self, cluster: str) -> None:
        """The executor is there and has nothing to say."""
        self._memory.note_contact(cluster)

    def executor_gone(self, cluster: str) -> None:
        """The executor's stream ended; its runs go on."""
        _log.info("executor gone; its runs are kept", cluster=cluster)

    # --- both ---

    def _bind(self, cluster: str, uid: str, role: str, incarnation: int) -> ClusterRow:
        """Bind a name to a uid and an incarnation in the database; blocks."""
        return self._store.bind_cluster(self.epoch, cluster, uid=uid, role=role, incarnation=incarnation)

    def _note_binding(self, row: ClusterRow) -> None:
        """Note a cluster's settings as they were when its name was bound."""
        notes = self._memory.cluster(row.name)
        notes.uid, notes.cordoned, notes.cordon_reason = row.uid, row.cordoned, row.cordon_reason
        notes.cordoned_nodes = tuple(row.cordoned_nodes)

    async def _in_time(self, call: Callable[[], AnswerT]) -> AnswerT:
        """Return what a call that blocks answers.

        Raises:
            BackendUnavailable: The database lets it wait too long; nothing is lost by dialling again.
        """
        try:
            async with asyncio.timeout(BIND_TIMEOUT_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except TimeoutError as cause:
            raise BackendUnavailable(
                f"the leader's database has not answered for {BIND_TIMEOUT_S:g} s; dial again"
            ) from cause

    def _show(self, cluster: str, *, connected: bool, incarnation: int) -> None:
        """Tell the scheduler how a cluster stands."""
        cordoned = self._memory.cluster(cluster).cordoned
        view = ClusterView(name=cluster, connected=connected, cordoned=cordoned, incarnation=incarnation)
        set_cluster(self._memory.state, view)

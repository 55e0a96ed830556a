"""The leader role of a server process: stands for election, and while it leads, decides for the pool.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from typing import TYPE_CHECKING, Any

import structlog

from argosy.executor.v1 import executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2_grpc
from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_server.leader.election import stand_for_election
from argosy_server.leader.log_choice import await_safe_log, open_log
from argosy_server.leader.publishing import Publisher, ReportingStore
from argosy_server.leader.reign import Reign
from argosy_server.leader.sampler_sessions import SamplerService
from argosy_server.leader.sync_sessions import ExecutorService
from argosy_server.leader.view import MemoryView
from argosy_store import LeaderStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from argosy.executor.v1 import executor_pb2
    from argosy.sampler.v1 import sampler_pb2
    from argosy_runtime.lifecycle import Lifecycle
    from argosy_server.api.leader_view import LeaderView, Servicer
    from argosy_server.config import ServerConfig
    from argosy_server.leader.desk import LeaderDesk
    from argosy_server.leader.sync_sessions import SyncSession
    from argosy_store.leader import Leadership

__all__ = ["LeaderRole"]

_log = structlog.get_logger(__name__)


class DeskSwitch:
    """The desk that sessions speak to: that of the present leadership, or nobody's."""

    def __init__(self) -> None:
        """Start without a leadership."""
        self.desk: LeaderDesk | None = None
        self.known_leader = ""
        self.own_address = ""

    @property
    def epoch(self) -> int:
        """Epoch of the leadership, 0 without one."""
        return self.desk.epoch if self.desk is not None else 0

    def leader_address(self) -> str:
        """Answer where the leader is, as last seen in the database.

        Raises:
            BackendUnavailable: It is this process, which has not taken over yet: it would point to itself.
        """
        if self.known_leader and self.known_leader == self.own_address:
            raise BackendUnavailable(
                "this process is to lead the pool and has not taken over yet, for which its log and its database must"
                " answer; dial again"
            )
        return self.known_leader

    def _require(self) -> LeaderDesk:
        """Return the desk.

        Raises:
            BackendUnavailable: This process stopped leading in between.
        """
        if self.desk is None:
            raise BackendUnavailable("this process does not lead any more; dial again")
        return self.desk

    async def admit_sampler(self, hello: sampler_pb2.Hello) -> None:
        """Pass on."""
        await self._require().admit_sampler(hello)

    def placement_lists(self, cluster: str) -> list[sampler_pb2.PlacementList]:
        """Pass on."""
        return self._require().placement_lists(cluster)

    def take_capacity(self, cluster: str, incarnation: int, capacity: sampler_pb2.Capacity) -> None:
        """Pass on."""
        self._require().take_capacity(cluster, incarnation, capacity)

    def sampler_ready(self, cluster: str, incarnation: int) -> None:
        """Pass on."""
        self._require().sampler_ready(cluster, incarnation)

    def sampler_gone(self, cluster: str, incarnation: int) -> None:
        """Pass on, if anybody is there."""
        if self.desk is not None:
            self.desk.sampler_gone(cluster, incarnation)

    def cordoned_nodes(self, cluster: str) -> tuple[str, ...]:
        """Pass on."""
        return self._require().cordoned_nodes(cluster)

    async def admit_executor(self, hello: executor_pb2.Hello) -> bool:
        """Pass on."""
        return await self._require().admit_executor(hello)

    async def send_missing_rows(self, session: SyncSession, hello: executor_pb2.Hello) -> None:
        """Pass on."""
        await self._require().send_missing_rows(session, hello)

    async def take_states(self, session: SyncSession, states: executor_pb2.StateBatch) -> None:
        """Pass on."""
        await self._require().take_states(session, states)

    def executor_heard(self, cluster: str) -> None:
        """Pass on."""
        self._require().executor_heard(cluster)

    def executor_gone(self, cluster: str) -> None:
        """Pass on, if anybody is there."""
        if self.desk is not None:
            self.desk.executor_gone(cluster)


class LeaderRole:
    """Implements `argosy_server.api.leader_view.LeaderRoleLike`.

    Args:
        config: The server's configuration.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Prepare services; nothing is dialled yet."""
        self._config = config
        self._switch = DeskSwitch()
        self._samplers = SamplerService(self._switch, config.leader)
        self._executors = ExecutorService(self._switch, config.leader)
        self._store = LeaderStore(config.database_url, config.pool, relays_events=bool(config.events_url))
        self._election = ReportingStore(self._store)
        self._log = open_log(config)
        self._view: MemoryView | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def servicers(self) -> Sequence[Servicer]:
        """Return ExecutorService and SamplerService."""
        return (
            (
                executor_pb2_grpc.add_ExecutorServiceServicer_to_server,
                self._executors,
                "argosy.executor.v1.ExecutorService",
            ),
            (sampler_pb2_grpc.add_SamplerServiceServicer_to_server, self._samplers, "argosy.sampler.v1.SamplerService"),
        )

    async def start(self, life: Lifecycle, *, address: str) -> None:
        """Begin to stand for election."""
        leader_id = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._switch.own_address = address
        self._tasks.append(life.spawn(self._stand(leader_id, address), name="election"))
        self._tasks.append(life.spawn(self._follow_leader(), name="follow the leader"))

    async def _stand(self, leader_id: str, address: str) -> None:
        """Stand for election once the log is known to keep what it is given."""
        await await_safe_log(self._config)
        await stand_for_election(
            self._election, self._config.leader, leader_id=leader_id, address=address, lead=self._lead
        )

    def view(self, pool: str) -> LeaderView | None:
        """Return the view of the pool while this process leads it."""
        return self._view if pool in {"", self._config.pool} else None

    async def stop(self) -> None:
        """Resign and end all sessions."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._close_sessions("this process stops")
        await asyncio.to_thread(self._store.close)
        await asyncio.to_thread(self._log.close)

    async def _lead(self, leadership: Leadership) -> None:
        """Lead until cancelled or until something fails."""
        publisher = self._election.publisher = Publisher(self._log)
        reign = Reign(
            self._config,
            leadership,
            store=self._store,
            log=self._log,
            publisher=publisher,
            samplers=self._samplers.sessions,
            executors=self._executors.sessions,
        )
        try:
            await reign.run(on_ready=self._open)
        finally:
            self._switch.desk = None
            self._view = None
            self._close_sessions("the leadership ended; dial again")

    def _open(self, reign: Reign) -> None:
        """Let clusters and replicas in: the memory is loaded."""
        self._view = MemoryView(reign.memory, self._samplers.sessions, self._executors.sessions)
        self._switch.desk = reign.desk

    def _close_sessions(self, reason: str) -> None:
        """End all sessions."""
        self._samplers.sessions.close_all(reason)
        self._executors.sessions.close_all(reason)

    async def _follow_leader(self) -> None:
        """Keep in mind where the leader is, so that clusters that dial here can be sent there."""
        while True:
            if not self._switch.epoch:
                try:
                    found = await asyncio.to_thread(self._store.leader_address)
                    self._switch.known_leader = found or ""
                except ArgosyError as error:
                    _log.debug("the leader's address cannot be read now", reason=error.message)
            await asyncio.sleep(1.0)

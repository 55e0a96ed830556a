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
from argosy_server.leader.cycle.term import LeaderTerm
from argosy_server.leader.log.choice import await_safe_log, open_log
from argosy_server.leader.log.publishing import ReportingStore
from argosy_server.leader.sessions.executors import ExecutorService
from argosy_server.leader.sessions.samplers import SamplerService
from argosy_server.leader.show.view import LeaderMemoryView
from argosy_server.leader.takeover.election import stand_for_election
from argosy_server.sealing import open_seal
from argosy_store import LeaderStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from argosy_runtime.lifecycle import Lifecycle
    from argosy_server.api.leadership.leader_view import LeaderView, Servicer
    from argosy_server.config import ServerConfig
    from argosy_store.terms.election import Leadership

__all__ = ["LeaderRole"]

_log = structlog.get_logger(__name__)


class TermSwitch:
    """Leads streams to the present leader term, or to the process that leads; implements `TermGate`."""

    def __init__(self, pool: str) -> None:
        """Start without a term of a pool."""
        self._pool = pool
        self.term: LeaderTerm | None = None
        self.known_leaders: dict[str, str] = {}
        """Where leaders are, by pool."""
        self.own_address = ""

    def redirect(self, pool: str) -> str | None:
        """Return where a pool's leader is, as last seen in the database; None while this process leads the pool.

        Raises:
            BackendUnavailable: It is this process, which has not taken over yet: it would point to itself.
        """
        if pool == self._pool and self.term is not None:
            return None
        address = self.known_leaders.get(pool, "")
        if address and address == self.own_address:
            raise BackendUnavailable(
                "this process is to lead the pool and has not taken over yet, for which its log and its database must"
                " answer; dial again"
            )
        return address

    def require(self) -> LeaderTerm:
        """Return the term.

        Raises:
            BackendUnavailable: This process stopped leading in between.
        """
        if self.term is None:
            raise BackendUnavailable("this process does not lead any more; dial again")
        return self.term


class LeaderRole:
    """Implements `argosy_server.api.leadership.leader_view.LeaderRoleLike`.

    Args:
        config: The server's configuration.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Prepare services; nothing is dialled yet."""
        self._config = config
        self._switch = TermSwitch(config.pool)
        self._samplers = SamplerService(self._switch, config.leader)
        self._executors = ExecutorService(self._switch, config.leader)
        self._store = LeaderStore(
            config.database_url,
            config.pool,
            relays_events=bool(config.events_url),
            seal=open_seal(config.encryption_keys_file),
        )
        self._election = ReportingStore(self._store)
        self._log = open_log(config)
        self._view: LeaderMemoryView | None = None
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
        # Whoever dials before the memory is loaded is told to wait here, not to look elsewhere.
        self._switch.known_leaders[self._config.pool] = self._switch.own_address
        term = LeaderTerm(
            self._config,
            leadership,
            store=self._store,
            log=self._log,
            election=self._election,
            samplers=self._samplers.sessions,
            executors=self._executors.sessions,
        )
        try:
            await term.run(on_ready=self._open)
        finally:
            self._switch.term = None
            self._view = None
            self._close_sessions("the leadership ended; dial again")

    def _open(self, term: LeaderTerm) -> None:
        """Let clusters and replicas in: the memory is loaded."""
        self._view = LeaderMemoryView(
            term.driver,
            term.notes,
            term.hot,
            seed=term.seed,
            samplers=self._samplers.sessions,
            executors=self._executors.sessions,
        )
        self._switch.term = term

    def _close_sessions(self, reason: str) -> None:
        """End all sessions."""
        self._samplers.sessions.close_all(reason)
        self._executors.sessions.close_all(reason)

    async def _follow_leader(self) -> None:
        """Keep in mind where leaders are, so that clusters that dial here can be sent there."""
        while True:
            try:
                found = await asyncio.to_thread(self._store.leader_addresses)
                if self._switch.term is not None:
                    found[self._config.pool] = self._switch.own_address
                self._switch.known_leaders = found
            except ArgosyError as error:
                _log.debug("the leaders' addresses cannot be read now", reason=error.message)
            await asyncio.sleep(1.0)

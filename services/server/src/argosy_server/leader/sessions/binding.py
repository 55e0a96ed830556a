"""Binding a cluster's name to its uid and its parts to processes, in the database, in time.

Source: design section 5, "Fencing executors"; section 7, invariant 9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from argosy_core.errors import ArgosyError, BackendUnavailable
from argosy_core.job.reading.findings import printable
from argosy_core.leader.events import Role

if TYPE_CHECKING:
    from argosy_store import LeaderStore
    from argosy_store.binding import Binding

__all__ = ["ClusterBinder"]

_log = structlog.get_logger(__name__)
BIND_TIMEOUT_S = 3.0
"""How long a cluster that dials waits for the database; below the time after which samplers and executors hang up."""


class ClusterBinder:
    """Binds clusters for one leader term.

    Args:
        store: The store.
        epoch: Epoch of the term.
        fence_s: How long a process keeps its session without being heard.
    """

    def __init__(self, store: LeaderStore, epoch: int, *, fence_s: float) -> None:
        """Start a thread of its own.

        Binding waits behind a transaction of the leader, and must not take the threads that its lease, its log and its
        reads need.
        """
        self._store = store
        self._epoch = epoch
        self._fence_s = fence_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leader-binding")

    def close(self) -> None:
        """Let the thread end once it has done what is in line; who waits for that is answered in time."""
        self._thread.shutdown(wait=False)

    async def note_fault(self, cluster: str, role: Role, host: str, reason: str) -> None:
        """Have the database remember that a session was ended; one that does not take it in time does not."""
        await self._note(
            cluster,
            partial(
                self._store.note_ended_session,
                cluster=cluster,
                role=role,
                host=printable(host),
                reason=printable(reason),
            ),
        )

    async def note_excess(self, cluster: str, text: str) -> None:
        """Have the audit say that a cluster tells of more capacity than counts, unless the database takes too long."""
        await self._note(cluster, partial(self._store.note_excess, cluster=cluster, text=printable(text)))

    async def _note(self, cluster: str, note: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(BIND_TIMEOUT_S):
                await asyncio.get_running_loop().run_in_executor(self._thread, note)
        except (TimeoutError, ArgosyError, RuntimeError) as error:  # RuntimeError: the term is over
            _log.warning("what a cluster said is not noted", cluster=cluster, reason=str(error))

    async def bind(self, role: Role, hello: Any) -> Binding:  # noqa: ANN401 - a hello of either proto
        """Bind the process that says hello to its cluster's part in the pool.

        Raises:
            BackendUnavailable: The database lets it wait too long; nothing is lost by dialling again.
            StateConflict: The epoch is over, or another process holds the session.
            NotAllowedNow: The name belongs to another cluster.
        """
        bind = partial(
            self._store.bind_cluster,
            self._epoch,
            hello.cluster,
            uid=hello.cluster_uid,
            role=role,
            process=hello.process_id,
            host=printable(hello.host),
            keep_s=self._fence_s,
            delegated=hello.delegated if role is Role.SAMPLER else None,
        )
        try:
            async with asyncio.timeout(BIND_TIMEOUT_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, bind)
        except TimeoutError as cause:
            raise BackendUnavailable(
                f"the leader's database has not answered for {BIND_TIMEOUT_S:g} s; dial again"
            ) from cause

"""Binding a cluster's name to its uid and the incarnations of its services, in the database, in time.

Source: design section 5, "Fencing executors"; section 7, invariant 9.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from argosy_core.errors import BackendUnavailable
from argosy_core.leader.events import Role

if TYPE_CHECKING:
    from argosy_store import ClusterRow, LeaderStore

__all__ = ["ClusterBinder"]

BIND_TIMEOUT_S = 3.0
"""How long a cluster that dials waits for the database; below the time after which samplers and executors hang up."""


class ClusterBinder:
    """Binds clusters for one leader term.

    Args:
        store: The store.
        epoch: Epoch of the term.
    """

    def __init__(self, store: LeaderStore, epoch: int) -> None:
        """Start a thread of its own.

        Binding waits behind a transaction of the leader, and must not take the threads that its lease, its log and its
        reads need.
        """
        self._store = store
        self._epoch = epoch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leader-binding")

    def close(self) -> None:
        """Let the thread end once it has done what is in line; who waits for that is answered in time."""
        self._thread.shutdown(wait=False)

    async def bind(self, role: Role, cluster: str, *, uid: str, incarnation: int) -> tuple[ClusterRow, bool]:
        """Bind a name; return the cluster's row, and whether no executor of it was ever bound before.

        Raises:
            BackendUnavailable: The database lets it wait too long; nothing is lost by dialling again.
            StateConflict: The epoch is over, or a higher incarnation was seen.
            NotAllowedNow: The name belongs to another uid, or to another pool.
        """

        def bind() -> tuple[ClusterRow, bool]:
            # Nobody else binds in between: there is one thread, and an older leader is refused by its epoch.
            known = self._store.read_clusters([cluster]) if role is Role.EXECUTOR else []
            row = self._store.bind_cluster(self._epoch, cluster, uid=uid, role=role, incarnation=incarnation)
            return row, not any(before.executor_incarnation for before in known)

        try:
            async with asyncio.timeout(BIND_TIMEOUT_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, bind)
        except TimeoutError as cause:
            raise BackendUnavailable(
                f"the leader's database has not answered for {BIND_TIMEOUT_S:g} s; dial again"
            ) from cause

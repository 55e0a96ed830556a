"""Waiting for a mesh to be ready: every process serves, and every cluster is connected.

A process that ends meanwhile is started again as often as it may be, unless it cannot run as it is configured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from argosy_core.errors import BackendUnavailable
from argosy_local.mesh_state import MeshState, ProcessEntry
from argosy_local.process_status import how_ended, id_of, is_serving, tail_of
from argosy_local.processes import exit_code_of, is_alive

if TYPE_CHECKING:
    from argosy_client import ArgosyClient

__all__ = ["Readiness"]

_POLL_S: Final = 0.05
_BAD_CONFIGURATION: Final = 2  # exit code of `run_main`, and of argparse: a new start would end as this one did


class Readiness:
    """What a mesh that starts waits for.

    Args:
        state: The mesh, as it is written down.
        restart: Starts a role's process again, and counts it.
        open_client: Makes a client of the mesh that does not repeat calls.
        start_again_count: How often a process that ends is started again.
        tell: Is told of each such start.
    """

    def __init__(
        self,
        state: MeshState,
        *,
        restart: Callable[[str], None],
        open_client: Callable[[], ArgosyClient],
        start_again_count: int,
        tell: Callable[[str], None],
    ) -> None:
        """Remember."""
        self._state = state
        self._restart = restart
        self._open_client = open_client
        self._start_again_count = start_again_count
        self._tell = tell

    def wait(self, timeout_s: float) -> None:
        """Return once the mesh is ready.

        Raises:
            BackendUnavailable: That took too long, or a process ended once too often; the message ends with what it
                said.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._await_serving(deadline_s, timeout_s)
            asyncio.run(self._await_clusters(deadline_s))
            if not self._start_ended():
                return

    def _await_serving(self, deadline_s: float, timeout_s: float) -> None:
        waiting = list(self._state.processes)
        while waiting:
            # Of all, not of those alone that do not serve yet: these may wait for one that did.
            started = self._start_ended()
            waiting += [entry for entry in started if entry not in waiting]
            waiting = [entry for entry in waiting if not is_serving(entry)]
            if waiting and time.monotonic() > deadline_s:
                raise BackendUnavailable(
                    f"{waiting[0].role} is not healthy after {timeout_s:g} s{tail_of(waiting[0].log)}"
                )
            if waiting:
                time.sleep(_POLL_S)

    def _start_ended(self) -> list[ProcessEntry]:
        """Start again what has ended, and return it.

        Raises:
            BackendUnavailable: It was started again as often as it may be, or cannot run as it is configured.
        """
        most_count = self._start_again_count
        ended = [entry for entry in self._state.processes if not is_alive(id_of(entry))]
        for entry in ended:
            told = how_ended(entry)
            if exit_code_of(id_of(entry)) == _BAD_CONFIGURATION or entry.restart_count >= most_count:
                again = f" again after {entry.restart_count} new starts" if most_count and entry.restart_count else ""
                raise BackendUnavailable(f"{told}{again}{tail_of(entry.log)}")
            self._restart(entry.role)
            self._tell(f"{told} and was started again ({entry.restart_count} of {most_count}); its log is {entry.log}")
        return ended

    async def _await_clusters(self, deadline_s: float) -> None:
        """Wait until every cluster is connected, or a process has ended."""
        state = self._state
        missing = set(state.cluster_names)
        async with self._open_client() as client:
            while missing:
                with suppress(BackendUnavailable):
                    async for cluster in client.list_clusters():
                        if cluster.sampler_connected and cluster.executor_connected:
                            missing.discard(cluster.name)
                if not missing or any(not is_alive(id_of(entry)) for entry in state.processes):
                    return
                if time.monotonic() > deadline_s:
                    name = min(missing)
                    roles = {f"sampler-{name}", f"combined-{name}"}
                    tail = tail_of(next(entry.log for entry in state.processes if entry.role in roles))
                    raise BackendUnavailable(f"cluster {name} has not connected to the leader{tail}")
                await asyncio.sleep(_POLL_S)

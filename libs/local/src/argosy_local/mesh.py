"""A whole mesh on one machine: every role a process of its own, with its own log.

    mesh = Mesh(directory)
    mesh.up(MeshPlan(clusters=(ClusterPlan(name="c1", kinds="10:cpu=32,memory=128Gi"),)))
    mesh.kill("leader"); mesh.start("leader"); mesh.await_ready()
    mesh.down()

The processes outlive the one that started them; what is needed to find them again is in `mesh.json` of the directory.
Roles are `postgres`, `api`, `leader` (and `leader-2` and so on where some stand by), `relay` if job events are relayed
to a broker, and for each cluster `cluster-NAME`, `sampler-NAME` and `executor-NAME`, or `combined-NAME` in place of the
last two: the cluster agent. (As `cluster-agent-NAME` it would be the simulated cluster of the name `agent-NAME`.)
Methods block; call them from a thread inside a running event loop.

Source: design sections 1 and 9.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from argosy.channel_credentials import ChannelCredentials
from argosy_core.errors import NotAllowedNow, NotFound
from argosy_local.compose import DATABASE_VARIABLE, SECRETS_FOLDER, MeshPlan, plan_processes, plan_supervisor
from argosy_local.mesh_log import MeshEvents, make_topics, topics_of
from argosy_local.mesh_readiness import Readiness
from argosy_local.mesh_state import STATE_FILE, MeshState, ProcessEntry, read_state, write_state
from argosy_local.process_status import POSTGRES, ProcessStatus, id_of, postgres_status, status_of
from argosy_local.processes import (
    Usage,
    await_true,
    end_process,
    is_alive,
    is_free,
    signal_process,
    spawn,
    tree_usage,
    usage,
)
from argosy_local.security import MeshSecrets, make_secrets

if TYPE_CHECKING:
    from argosy_client import ArgosyClient
    from argosy_store.embedded import EmbeddedPostgres

__all__ = ["SUPERVISOR", "Mesh", "passing_mesh"]

SUPERVISOR: Final = "supervisor"
"""Role of the process that starts again what has died."""

_START_AGAIN_COUNT: Final = 3  # while a mesh starts; later the supervisor does it for ever


class Mesh:
    """A mesh in a directory.

    Args:
        directory: Directory of its own, made by `up` and removed by `down`.
    """

    def __init__(self, directory: Path) -> None:
        """Attach to the mesh that runs in the directory, if one does."""
        self.directory = directory.expanduser().absolute()
        """Where everything of the mesh is."""
        self._state = read_state(self.directory)

    # --- life -----------------------------------------------------------------------------------------------------

    def up(
        self,
        plan: MeshPlan,
        *,
        options: Mapping[str, Any] | None = None,
        timeout_s: float = 120.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start everything and wait until every cluster is connected; a failed start leaves nothing running.

        A mesh that was stopped goes on with its jobs, its log and its database; its simulated clusters begin empty, so
        what ran there is lost and runs again.

        Args:
            plan: What to start.
            options: What the user said of it, kept for who starts it again; see `kept_options`.
            timeout_s: Longest wait for the mesh to be ready.
            tell: Is told what happens.

        Raises:
            NotAllowedNow: A mesh runs here already, the one that was stopped had another database or log, or the port
                is taken.
            BackendUnavailable: Something did not come up; the message ends with what it said.
        """
        if self._state is not None and any(is_alive(id_of(entry)) for entry in self._state.processes):
            raise NotAllowedNow(f"a mesh runs already in {self.directory}; `argosy down` stops it")
        kept = self._state
        if kept is not None:
            _check_kept(kept, plan)
            plan = replace(plan, secure=plan.secure or bool(kept.secrets))
        if plan.port and not is_free(plan.port):
            raise NotAllowedNow(
                f"port {plan.port} is taken by another program; give another one, or 0 for any that is free"
            )
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        try:
            self._up(plan, kept, dict(options or {}), timeout_s=timeout_s, tell=tell)
        except BaseException:
            if kept is not None:
                self.stop(grace_s=2.0)
            else:
                self.down(keep_files=True, grace_s=2.0)
            raise

    def _up(
        self,
        plan: MeshPlan,
        kept: MeshState | None,
        options: dict[str, Any],
        *,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> None:
        log, events = make_topics(plan, tell) if kept is None else topics_of(kept)
        flags = [flag for part in (log, events) if part is not None for flag in part.flags]
        plan = replace(plan, flags={**plan.flags, "server": (*plan.flags.get("server", ()), *flags)})
        secrets = None
        if plan.secure:
            tell("making certificates")
            secrets = make_secrets(self.directory / SECRETS_FOLDER, [cluster.name for cluster in plan.clusters])
        processes = plan_processes(plan, self.directory)
        self._state = MeshState(
            server=processes[0].address,
            database_url=plan.database_url,
            embedded=not plan.database_url,
            cluster_names=[cluster.name for cluster in plan.clusters],
            speed=plan.speed,
            event_log=log.to_builtins() if log is not None else {},
            events=events.to_builtins() if events is not None else {},
            secrets=str(secrets.folder) if secrets is not None else "",
            options=options,
            processes=processes,
        )
        tell(f"starting {len(processes)} processes")
        # What does without the database loads its modules while that, and what knows of it here, is made.
        for entry in processes:
            if not entry.uses_database:
                self._spawn(entry)
        self._state.database_url = self._state.database_url or self._embedded().url
        self._write()
        self._start_database(tell)
        for entry in processes:
            if entry.uses_database:
                self._spawn(entry)
        self._write()
        tell("waiting for the clusters to connect")
        self.await_ready(timeout_s=timeout_s, start_again_count=_START_AGAIN_COUNT, tell=tell)
        if plan.supervised:  # last, so that what does not come up ends the start
            supervisor = plan_supervisor(self.directory)
            self._state.processes.append(supervisor)
            self._spawn(supervisor)
            self._write()

    def _start_database(self, tell: Callable[[str], None]) -> None:
        from argosy_store.schema.migrate import migrate

        state = self._running_state()
        if state.embedded:
            tell("starting the database")
            self._embedded().start()
        tell("making tables")
        migrate(state.database_url)

    def stop(self, *, grace_s: float = 15.0) -> None:
        """Stop everything and keep all data, so that `up` goes on with it; what does not run is fine."""
        self._end_processes(grace_s)
        if self._state is not None:
            self._state.stopped = True
            self._write()

    def down(self, *, keep_files: bool = False, grace_s: float = 15.0) -> None:
        """Stop everything and forget the mesh, with its files unless they shall be kept; what does not run is fine."""
        self._end_processes(grace_s)
        if self._state is not None:
            for topic in filter(None, topics_of(self._state)):
                topic.remove()
        self._state = None
        with suppress(FileNotFoundError):
            (self.directory / STATE_FILE).unlink()
        if not keep_files:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end_processes(self, grace_s: float) -> None:
        for entry in self._state.processes if self._state is not None else ():
            if entry.role == SUPERVISOR:  # first, and what it has started meanwhile is written down
                end_process(id_of(entry), grace_s=grace_s)
                self._state = read_state(self.directory) or self._state
        if self._state is not None:
            # Clusters go last: what runs there must be seen to the end by those who ask.
            entries = sorted(self._state.processes, key=lambda entry: entry.role.startswith("cluster-"))
            with ThreadPoolExecutor(max_workers=max(len(entries), 1)) as threads:
                list(threads.map(lambda entry: end_process(id_of(entry), grace_s=grace_s), entries))
        if (self.directory / "postgres").exists():
            self._embedded().stop()

    def kill(self, role: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a process a signal and wait until it has ended.

        Raises:
            NotFound: There is no such role.
            BackendUnavailable: It did not end.
        """
        if role == POSTGRES:
            self._embedded().kill()
            return
        process = id_of(self._entry(role))
        signal_process(process, number)
        await_true(lambda: not is_alive(process), f"{role} to end", timeout_s=30.0)

    def start(self, role: str) -> None:
        """Start a process of the mesh again, on its old port; one that runs is left alone.

        Raises:
            NotFound: There is no such role.
        """
        if role == POSTGRES:
            self._embedded().start()
            return
        entry = self._entry(role)
        if not is_alive(id_of(entry)):
            self._spawn(entry)
            self._write()

    def dead_roles(self) -> list[str]:
        """Return the roles whose process does not run, Postgres first."""
        state = self._running_state()
        dead = [entry.role for entry in state.processes if not is_alive(id_of(entry))]
        return [POSTGRES, *dead] if state.embedded and self._embedded().pid is None else dead

    def restart(self, role: str) -> None:
        """Start a process that has died, and count it.

        Raises:
            NotFound: There is no such role.
            BackendUnavailable: It does not start.
        """
        self.start(role)
        if role == POSTGRES:
            self._running_state().postgres_restart_count += 1
        else:
            self._entry(role).restart_count += 1
        self._write()

    def await_ready(
        self, *, timeout_s: float = 60.0, start_again_count: int = 0, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """Wait until every process is healthy and every cluster has its sampler and executor connected.

        Args:
            timeout_s: Longest wait.
            start_again_count: How often a process that ends meanwhile is started again, unless it cannot run as it is
                configured.
            tell: Is told of each such start.

        Raises:
            BackendUnavailable: That took too long, or a process ended once too often; the message ends with what it
                said.
        """
        readiness = Readiness(
            self._running_state(),
            restart=self.restart,
            open_client=lambda: self.open_client(timeout_s=5.0, total_s=0.0),
            start_again_count=start_again_count,
            tell=tell,
        )
        readiness.wait(timeout_s)

    def __enter__(self) -> Self:
        """Do nothing: `up` starts."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self.down()

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether a mesh was started here, and neither stopped nor taken down."""
        return self._state is not None and not self._state.stopped

    @property
    def is_kept(self) -> bool:
        """Whether a mesh was stopped here, and its data kept."""
        return self._state is not None and self._state.stopped

    @property
    def kept_options(self) -> Mapping[str, Any]:
        """What the user said when the mesh that was stopped here was started; empty if none was."""
        return self._state.options if self._state is not None and self._state.stopped else {}

    @property
    def kept_port(self) -> int:
        """Port of the API of the mesh that runs or ran here, 0 if none did."""
        return int(self._state.server.rpartition(":")[2]) if self._state is not None else 0

    @property
    def server(self) -> str:
        """host:port of the API."""
        return self._running_state().server

    @property
    def secrets(self) -> MeshSecrets | None:
        """What proves who calls; None if the mesh asks nobody who they are."""
        folder = self._running_state().secrets
        return MeshSecrets(folder=Path(folder)) if folder else None

    @property
    def credentials(self) -> ChannelCredentials:
        """What its administrator calls with."""
        secrets = self.secrets
        return secrets.credentials if secrets is not None else ChannelCredentials()

    def open_client(self, *, timeout_s: float = 30.0, total_s: float = 30.0) -> ArgosyClient:
        """Return a client of the mesh, as its administrator; to be opened and used in one event loop.

        Args:
            timeout_s: Deadline of each attempt of a call.
            total_s: For how long calls are repeated.
        """
        from argosy_client import ArgosyClient, RetryPolicy

        retries = RetryPolicy(total_s=total_s)
        return ArgosyClient(self.server, timeout_s=timeout_s, retries=retries, credentials=self.credentials)

    @property
    def database_url(self) -> str:
        """Where the stores of the running mesh connect to."""
        return self._running_state().database_url

    @property
    def events_topic(self) -> str:
        """Topic on which other systems read what happens to jobs, empty if nothing is relayed."""
        state = self._running_state()
        return MeshEvents.of(state.events).topic if state.events else ""

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The clusters of the running mesh, by name."""
        return tuple(self._running_state().cluster_names)

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles, Postgres first if it is the mesh's own."""
        state = self._running_state()
        return (*((POSTGRES,) if state.embedded else ()), *(entry.role for entry in state.processes))

    def address(self, role: str) -> str:
        """Return host:port that a process listens on.

        Raises:
            NotFound: There is no such role.
        """
        return self._entry(role).address

    def log_path(self, role: str) -> Path:
        """Return the file of a process's output."""
        return self._embedded().log_path if role == POSTGRES else Path(self._entry(role).log)

    def usage(self, role: str) -> Usage:
        """Return what a process has used since its start; Postgres with all its processes."""
        if role == POSTGRES:
            pid = self._embedded().pid
            return tree_usage(pid) if pid else Usage()
        entry = self._entry(role)
        return usage(entry.pid) if is_alive(id_of(entry)) else Usage()

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds used since its start by role."""
        return {role: self.usage(role).cpu_s for role in self.roles}

    def status(self) -> list[ProcessStatus]:
        """Return how each process is; health is asked of all at once."""
        state = self._running_state()
        with ThreadPoolExecutor(max_workers=len(state.processes) + 1) as threads:
            found = list(threads.map(status_of, state.processes))
        if state.embedded:
            found.insert(0, postgres_status(self._embedded(), self.usage(POSTGRES), state.postgres_restart_count))
        return found

    # --- parts ----------------------------------------------------------------------------------------------------

    def _embedded(self) -> EmbeddedPostgres:
        from argosy_store.embedded import EmbeddedPostgres

        return EmbeddedPostgres(self.directory / "postgres")

    def _running_state(self) -> MeshState:
        if self._state is None:
            raise NotFound(f"no mesh runs in {self.directory}; start one with `argosy up`")
        if self._state.stopped:
            raise NotFound(f"the mesh in {self.directory} is stopped; `argosy up` goes on with it")
        return self._state

    def _entry(self, role: str) -> ProcessEntry:
        for entry in self._running_state().processes:
            if entry.role == role:
                return entry
        raise NotFound(f"the mesh has no role {role!r}; there are {', '.join(self.roles)}")

    def _spawn(self, entry: ProcessEntry) -> None:
        told = {DATABASE_VARIABLE: self._running_state().database_url} if entry.uses_database else {}
        process = spawn(entry.arguments, log=Path(entry.log), environment=told)
        entry.pid, entry.start_ticks = process.pid, process.start_ticks

    def _write(self) -> None:
        assert self._state is not None
        write_state(self.directory, self._state)


def _check_kept(kept: MeshState, plan: MeshPlan) -> None:
    """Refuse to go on with a stopped mesh on another database, log or topic of events than it had.

    Raises:
        NotAllowedNow: The plan names another one.
    """
    pairs = {
        "database": ("" if kept.embedded else kept.database_url, plan.database_url),
        "event log": (kept.event_log.get("url", ""), plan.event_log_url),
        "topic of job events": (kept.events.get("url", ""), plan.events_url),
    }
    for what, (old, new) in pairs.items():
        if old != new:
            raise NotAllowedNow(
                f"the mesh that was stopped here has another {what}: give what it was started with, or remove it with"
                " `argosy down --purge`"
            )


@contextmanager
def passing_mesh(keep: Path | None) -> Iterator[Mesh]:
    """Give a mesh, not started yet, that is taken down at the end; SIGTERM ends it as Ctrl-C does.

    Args:
        keep: Directory for its files, kept afterwards; without one, nothing is left.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    mesh = Mesh(keep or Path(tempfile.mkdtemp(prefix="argosy-")))
    try:
        yield mesh
    finally:
        mesh.down(keep_files=keep is not None)

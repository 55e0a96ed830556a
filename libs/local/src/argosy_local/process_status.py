"""How a process of a mesh on this machine is: whether it runs and serves, what it has used, what it said last."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from argosy_local.mesh_state import ProcessEntry
from argosy_local.processes import ProcessId, Usage, exit_code_of, is_alive, usage

if TYPE_CHECKING:
    from argosy_store.embedded import EmbeddedPostgres

__all__ = ["POSTGRES", "ProcessStatus", "how_ended", "id_of", "is_serving", "postgres_status", "status_of", "tail_of"]

POSTGRES: Final = "postgres"
"""Role of the embedded database."""
_PROBE_S: Final = 1.0
_LOG_TAIL_LINES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """How a process of the mesh is."""

    role: str
    """Role."""
    pid: int
    """Process id, 0 if it never ran."""
    state: str
    """running or stopped."""
    health: str
    """serving, not serving, or - if it does not run."""
    address: str
    """host:port it listens on."""
    cpu_s: float
    """CPU time used since its start, seconds."""
    rss_bytes: int
    """Memory in use."""
    restart_count: int
    """How often it was started again, by the supervisor or while the mesh started."""
    log: str
    """File of its output."""


def id_of(entry: ProcessEntry) -> ProcessId:
    """Return which process was started last for a role; none that ever was if it was not started."""
    return ProcessId(pid=entry.pid, start_ticks=entry.start_ticks) if entry.pid else ProcessId(pid=-1, start_ticks=-1)


def is_serving(entry: ProcessEntry) -> bool:
    """Return whether a process that runs serves, as far as it can be asked."""
    if entry.probe == "process":
        return True
    if entry.probe == "connect":
        host, _, port = entry.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_PROBE_S):
                return True
        except OSError:
            return False
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    address = entry.health_address or entry.address
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_PROBE_S)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def how_ended(entry: ProcessEntry) -> str:
    """Return that a process has ended, and how as far as that is known: its exit code or the signal."""
    code = exit_code_of(id_of(entry))
    if code is None:
        return f"{entry.role} ended"
    if code >= 0:
        return f"{entry.role} ended with exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"{entry.role} was ended by {known.get(-code, f'signal {-code}')}"


def tail_of(path: str) -> str:
    """Return the end of a log as the tail of a sentence."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except OSError:
        return ""
    return ":\n  " + "\n  ".join(lines) if lines else f"; {path} is empty"


def status_of(entry: ProcessEntry) -> ProcessStatus:
    """Return how a process is; asks it for its health, which blocks."""
    alive = is_alive(id_of(entry))
    used = usage(entry.pid) if alive else Usage()
    health = "serving" if alive and is_serving(entry) else "not serving" if alive else "-"
    return ProcessStatus(
        role=entry.role,
        pid=entry.pid,
        state="running" if alive else "stopped",
        health=health,
        address=entry.address,
        cpu_s=used.cpu_s,
        rss_bytes=used.rss_bytes,
        restart_count=entry.restart_count,
        log=entry.log,
    )


def postgres_status(postgres: EmbeddedPostgres, used: Usage, restart_count: int) -> ProcessStatus:
    """Return how the embedded database is, of which the supervisor counts the starts."""
    pid = postgres.pid or 0
    return ProcessStatus(
        role=POSTGRES,
        pid=pid,
        state="running" if pid else "stopped",
        health="serving" if pid else "-",
        address=postgres.url,
        cpu_s=used.cpu_s,
        rss_bytes=used.rss_bytes,
        restart_count=restart_count,
        log=str(postgres.log_path),
    )

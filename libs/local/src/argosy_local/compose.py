"""The command lines of a mesh's processes: who listens where, who dials whom.

Everything dials towards the leader, as in a real installation; only the clusters are dialled, by their own sampler and
executor. A cluster is simulated, and then a process of the mesh, or it runs already and is known by its address.

Source: design section 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from argosy_local.mesh_state import Probe, ProcessEntry
from argosy_local.processes import free_ports
from argosy_local.security import MeshSecrets

__all__ = [
    "DATABASE_VARIABLE",
    "SECRETS_FOLDER",
    "UNCAPPED",
    "ClusterPlan",
    "MeshPlan",
    "plan_processes",
    "plan_supervisor",
]

SECRETS_FOLDER: Final = "secrets"
_RETRY_MOST_S: Final = "0.3"
"""Folder of a secured mesh's keys and tokens, in the mesh's own."""
DATABASE_VARIABLE: Final = "ARGOSY_SERVER_DATABASE_URL"
"""Variable by which servers are told the URL of their database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A cluster: a simulated one that is started with the mesh, or one that runs already."""

    name: str
    """Name, unique in the mesh."""
    nodes: bytes = b""
    """Node file; see `argosy_kube.simulated.inventory`."""
    kinds: str = ""
    """Kinds of nodes, as `10:cpu=32,memory=128Gi`, instead of a node file; see `argosy_kube.simulated.node_kinds`."""
    address: str = ""
    """Address of a cluster that runs already, as `kubernetes:/path/to/kubeconfig`; nothing is started for it, and the
    mesh leaves its objects behind."""


UNCAPPED: Final[Mapping[str, Sequence[str]]] = {"server": ("--leader-round-non-preemptible-excess-ratio", "1e9")}
"""Flags of a mesh for jobs of traces, which say nothing of lifetimes: their queues may have what others leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPlan:
    """A mesh to be started."""

    clusters: tuple[ClusterPlan, ...]
    """Its clusters, each with a sampler and an executor."""
    speed: float = 1.0
    """Simulated seconds per real second."""
    seed: int = 0
    """Draws run times."""
    database_url: str = ""
    """PostgreSQL to use; empty starts an embedded one."""
    event_log_url: str = ""
    """Brokers of the event log, as in pulsar://host:6650; empty keeps it in the database."""
    event_log_admin_url: str = ""
    """Admin API of these brokers; empty takes its usual port."""
    events_url: str = ""
    """Brokers to which job events are relayed by a process of its own; empty relays none."""
    port: int = 0
    """Port of the API; 0 takes one that is free."""
    supervised: bool = False
    """Start again what dies, by a process of its own, the supervisor."""
    log_level: str = "info"
    """Least severe level that the services log."""
    standby_count: int = 0
    """Further processes that may lead, roles leader-2, leader-3 and so on; they wait for the leader's end."""
    combined: bool = False
    """Run sampler and executor of a cluster as one process, its cluster agent, with one watch of the cluster."""
    autoscale: bool = False
    """Resize running pods, by an agent for each cluster."""
    secure: bool = False
    """TLS, certificates and tokens, as `argosy_local.security` makes them."""
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """More flags by kind of process: server, sampler, executor, combined (cluster agents), agent, cluster."""


def plan_processes(plan: MeshPlan, directory: Path) -> list[ProcessEntry]:
    """Return the processes of a mesh in the order of their start, on ports that are free now.

    Args:
        plan: What is wanted; node files are written below the directory.
        directory: The mesh's own directory.
    """
    ports = iter(free_ports(6 + 2 * plan.standby_count + 5 * len(plan.clusters)))
    guard = _Guard(MeshSecrets(folder=directory / SECRETS_FOLDER) if plan.secure else None, ports)
    api, *leaders = [f"127.0.0.1:{next(ports)}" for _ in range(2 + plan.standby_count)]
    if plan.port:
        api = f"127.0.0.1:{plan.port}"

    def server(role: str, kind: str, address: str) -> ProcessEntry:
        arguments = _server(plan, kind, address)
        if kind != "relay":
            arguments += _kept_logs(plan, "server", directory / "kept-logs" / "{cluster}")
        entry = _entry(role, arguments, address, directory, uses_database=True)
        return guard.secured(entry, kind)

    entries = [server("api", "api", api)]
    for number, address in enumerate(leaders, start=1):
        entries.append(server("leader" if number == 1 else f"leader-{number}", "leader", address))
    behind: list[ProcessEntry] = []
    if plan.events_url:
        behind.append(server("relay", "relay", f"127.0.0.1:{next(ports)}"))
    for number, cluster in enumerate(plan.clusters):
        addresses = [f"127.0.0.1:{next(ports)}" for _ in range(4)]
        if cluster.address:
            addresses[0] = cluster.address
        else:
            simulated = _cluster(plan, cluster, seed=plan.seed + number, address=addresses[0], directory=directory)
            entries.append(_entry(f"cluster-{cluster.name}", simulated, addresses[0], directory, probe="connect"))
        for role, address in zip(
            ("combined",) if plan.combined else ("sampler", "executor"), addresses[1:], strict=False
        ):
            dials = (addresses[0], *leaders)
            arguments = _cluster_service(plan, role, cluster=cluster.name, dials=dials, listens=address)
            arguments += ("--sampler-address", addresses[1]) if role == "executor" else ()
            arguments += _kept_logs(plan, role, directory / "kept-logs" / cluster.name)
            entry = _entry(f"{role}-{cluster.name}", arguments, address, directory)
            behind.append(guard.secured(entry, role, cluster.name))
        if plan.autoscale:
            arguments = _agent(plan, cluster=cluster.name, cluster_address=addresses[0], sampler=addresses[1])
            listens = ("--grpc-listen", addresses[3])
            entry = _entry(f"agent-{cluster.name}", [*arguments, *listens], addresses[3], directory)
            behind.append(guard.secured(entry, "agent", cluster.name))
    return entries + behind


class _Guard:
    """Gives processes of a secured mesh what proves who they are, and a port for their health; else nothing."""

    def __init__(self, secrets: MeshSecrets | None, ports: Iterator[int]) -> None:
        self._secrets = secrets
        self._ports = ports

    def secured(self, entry: ProcessEntry, kind: str, cluster: str = "") -> ProcessEntry:
        if self._secrets is not None:
            if kind not in {"executor", "agent"}:  # nobody calls those
                entry.health_address = f"127.0.0.1:{next(self._ports)}"
            entry.arguments += self._secrets.flags(kind, cluster=cluster, health=entry.health_address)
        return entry


def plan_supervisor(directory: Path) -> ProcessEntry:
    """Return the process that starts again what dies of the mesh in a directory."""
    return _entry("supervisor", [*_python("argosy_local.supervisor"), str(directory)], "", directory, probe="process")


def _entry(
    role: str,
    arguments: list[str],
    address: str,
    directory: Path,
    *,
    probe: Probe = "grpc",
    uses_database: bool = False,
) -> ProcessEntry:
    return ProcessEntry(
        role=role,
        arguments=arguments,
        address=address,
        probe=probe,
        uses_database=uses_database,
        log=str(directory / "logs" / f"{role}.log"),
    )


def _server(plan: MeshPlan, role: str, address: str) -> list[str]:
    return [
        *_python("argosy_server"),
        *("--role", role),
        *("--grpc-listen", address),
        *("--log-level", plan.log_level),
        *plan.flags.get("server", ()),
    ]


def _cluster_service(plan: MeshPlan, role: str, *, cluster: str, dials: tuple[str, ...], listens: str) -> list[str]:
    cluster_address, *leaders = dials
    # The leader ends with the mesh, so what is not stored at once will not be; a sampler waits less by itself.
    waits = () if role == "sampler" else ("--drain-s", "2")
    return [
        *_python("argosy_cluster_agent" if role == "combined" else f"argosy_{role}"),
        *("--cluster", cluster),
        *("--cluster-address", cluster_address),
        *("--server-addresses", ",".join(leaders)),
        *("--grpc-listen", listens),
        *("--log-level", plan.log_level),
        *("--retry-most-s", _RETRY_MOST_S),  # leaders of this machine come up while they are waited for
        *waits,
        *plan.flags.get(role, ()),
    ]


def _agent(plan: MeshPlan, *, cluster: str, cluster_address: str, sampler: str) -> list[str]:
    return [
        *_python("argosy_agent"),
        *("--cluster", cluster),
        *("--cluster-address", cluster_address),
        *("--sampler-address", sampler),
        *("--log-level", plan.log_level),
        *plan.flags.get("agent", ()),
    ]


def _kept_logs(plan: MeshPlan, role: str, directory: Path) -> tuple[str, ...]:
    """Return what lets the logs of failed pods outlive them, and servers find them, unless the plan names a place."""
    flag = "--log-archive-target"
    return () if role == "sampler" or flag in plan.flags.get(role, ()) else (flag, str(directory.absolute()))


def _cluster(plan: MeshPlan, cluster: ClusterPlan, *, seed: int, address: str, directory: Path) -> list[str]:
    source = ["--kinds", cluster.kinds]
    if not cluster.kinds:
        path = directory / "nodes" / f"{cluster.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cluster.nodes)
        source = ["--nodes", str(path)]
    return [
        *_python("argosy_kube.simulated"),
        *("--name", cluster.name),
        *source,
        *("--listen", address),
        *("--speed", repr(plan.speed)),
        *("--seed", str(seed)),
        *plan.flags.get("cluster", ()),
    ]


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]

"""What is written down about a mesh on this machine, so that other commands find it.

Source: design section 9, "`argosy up | down | status`".
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from argosy_core.errors import InvalidRequest

__all__ = ["STATE_FILE", "MeshState", "Probe", "ProcessEntry", "read_state", "write_state"]

STATE_FILE: Final = "mesh.json"
"""Name of the file in the mesh's directory."""

Probe = Literal["grpc", "connect", "process"]


@dataclass(slots=True, kw_only=True)
class ProcessEntry:
    """One process of a mesh."""

    role: str
    """api, leader, relay, cluster-NAME, sampler-NAME, executor-NAME or combined-NAME (a cluster agent)."""
    arguments: list[str]
    """Command line that starts it, again and again."""
    address: str
    """host:port it listens on."""
    probe: Probe
    """How its health is asked: by gRPC's health service, by connecting, or not: it serves while it runs."""
    log: str
    """File of its output."""
    health_address: str = ""
    """host:port at which its health is asked, if not where it listens."""
    uses_database: bool = False
    """It is told the URL of the database, by a variable: a URL may hold a password, and all may read command lines."""
    pid: int = 0
    """Process id, 0 if it was not started."""
    start_ticks: int = 0
    """When it started; see `ProcessId`."""
    restart_count: int = 0
    """How often it was started again, by the supervisor or while the mesh started."""


@dataclass(slots=True, kw_only=True)
class MeshState:
    """What is kept of a running mesh, so that later commands find it."""

    server: str
    """host:port of the API."""
    database_url: str
    """URL of its database."""
    embedded: bool
    """The database is the mesh's own."""
    cluster_names: list[str]
    """Its clusters."""
    speed: float
    """Simulated seconds per real second."""
    event_log: dict[str, str] = field(default_factory=dict)
    """Its namespace on a broker, see `MeshLog`; empty if the database keeps the log."""
    events: dict[str, str] = field(default_factory=dict)
    """The namespace of its job events on a broker, see `MeshEvents`; empty if none are relayed."""
    secrets: str = ""
    """Folder of its keys and tokens, see `argosy_local.security`; empty if it asks nobody who they are."""
    options: dict[str, Any] = field(default_factory=dict)
    """What `argosy up` was told, by the name of its option: the next one goes on with it."""
    stopped: bool = False
    """It was stopped and its data kept: `argosy up` goes on with it."""
    postgres_restart_count: int = 0
    """How often the supervisor has started its database again."""
    processes: list[ProcessEntry] = field(default_factory=list)
    """Its processes but Postgres, in the order of their start."""


def read_state(directory: Path) -> MeshState | None:
    """Return what is written down in a directory, None if nothing is.

    Raises:
        InvalidRequest: The file is not what `write_state` wrote.
    """
    path = directory / STATE_FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        processes = [ProcessEntry(**entry) for entry in document.pop("processes")]
        return MeshState(**document, processes=processes)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise InvalidRequest(f"{path} cannot be read ({cause}); end its processes and remove it") from cause


def write_state(directory: Path, state: MeshState) -> None:
    """Write a mesh down, at once or not at all, for nobody else to read: its database's URL may hold a password."""
    path = directory / STATE_FILE
    staged = path.with_suffix(".new")
    staged.unlink(missing_ok=True)
    staged.touch(mode=0o600)
    staged.write_text(json.dumps(dataclasses.asdict(state), indent=1), encoding="utf-8")
    staged.replace(path)

"""Any workload by path or name: the format is found out from the text, not from the file's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from argosy_core.errors import InvalidRequest
from argosy_workload.clusterdata import (
    OPENB_NODE_COLUMNS,
    OPENB_POD_COLUMNS,
    PHILLY_COLUMNS,
    SURF_COLUMNS,
    read_machines,
    read_openb_nodes,
    read_openb_pods,
    read_philly,
    read_surf,
)
from argosy_workload.contended import CONTENDED, contended
from argosy_workload.generator import generate
from argosy_workload.model import NodeSet, Workload, uniform_nodes
from argosy_workload.native import read_native, read_native_nodes
from argosy_workload.profile import PROFILE_VERSION, bundled_profiles, load_profile, parse_profile
from argosy_workload.swf import is_swf, read_swf, read_swf_nodes
from argosy_workload.tracefile import read_text, refuse

__all__ = ["FORMATS", "JOB_FORMATS", "Trace", "detect_format", "read_nodes", "read_trace"]

FORMATS = {
    "swf": "Standard Workload Format",
    "openb-pods": "pod list of the Alibaba 2023 GPU trace",
    "openb-nodes": "node list of the Alibaba 2023 GPU trace",
    "philly": "Philly job list",
    "surf": "SURF tasks",
    "native": "Argosy workload (YAML)",
    "profile": "Argosy workload profile (JSON)",
    "machines": "Alea machine file",
}
"""Formats that are read, with what they are called."""
JOB_FORMATS = tuple(key for key in FORMATS if key not in {"openb-nodes", "machines"})
"""Formats that tell jobs."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a file says."""

    workload: Workload
    """The jobs."""
    nodes: NodeSet | None
    """The machines, if the file tells them."""


def detect_format(text: str) -> str | None:
    """Return the key in FORMATS of the format that a text looks like, None if it looks like none of them."""
    head = text[:65536]
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    columns = {name.strip() for name in first.split(",")}
    for name, wanted in (
        ("openb-nodes", OPENB_NODE_COLUMNS),
        ("openb-pods", OPENB_POD_COLUMNS[:3]),
        ("philly", PHILLY_COLUMNS[:3]),
        ("surf", SURF_COLUMNS[:3]),
    ):
        if set(wanted) <= columns:
            return name
    if is_swf(head):
        return "swf"
    if first.startswith("{"):
        return "profile" if PROFILE_VERSION.rpartition("/")[0] in head or '"version"' in head else None
    if any(line.startswith(("version:", "jobs:", "shapes:")) for line in head.splitlines()):
        return "native"
    parts = first.split()
    return "machines" if len(parts) == 6 and all(parts[i].isdigit() for i in (2, 3, 5)) else None


def read_trace(source: str | Path, *, seed: int = 0, queue_by: str = "auto", trace_format: str | None = None) -> Trace:
    """Return the jobs, and the nodes where they are told, of a trace file, a profile file or a bundled profile.

    Args:
        source: Path of a plain or gzip file, or the name of a bundled workload: `demo`, or a profile as
            `alibaba-gpu-2023`.
        seed: Draws the jobs of a bundled workload or a profile; other formats draw nothing.
        queue_by: What becomes the queue of a log in the Standard Workload Format (`auto`, `queue` or `user`).
        trace_format: Key in FORMATS of the file's format; None to find it out from the text.

    Raises:
        InvalidRequest: No format fits, or the file is not there or damaged; the message names line and column.
    """
    if str(source) == CONTENDED:
        return Trace(*contended(seed))
    if str(source) in bundled_profiles():
        return Trace(*generate(load_profile(str(source)), seed))
    path = Path(source)
    text = read_text(path)
    match trace_format or detect_format(text):
        case "swf":
            workload = read_swf(path, queue_by=queue_by, text=text)
            return Trace(workload, read_swf_nodes(path, workload, text=text))
        case "openb-pods":
            return Trace(read_openb_pods(path, text=text), None)
        case "philly":
            return Trace(read_philly(path, text=text), None)
        case "surf":
            return Trace(read_surf(path, text=text), None)
        case "native":
            return Trace(read_native(path, text=text), read_native_nodes(path, text=text))
        case "profile":
            return Trace(*generate(parse_profile(text, path=path), seed))
        case "openb-nodes" | "machines" as name:
            refuse(path, f"this is a list of machines ({FORMATS[name]}), not of jobs; give it as nodes")
    known = "; ".join(f"{name} ({key})" for key, name in FORMATS.items() if key in JOB_FORMATS)
    profiles = ", ".join((CONTENDED, *bundled_profiles()))
    what = (
        f"no known trace format; known are: {known}; or the name of a bundled workload: {profiles}; --format says which"
    )
    return refuse(path, what, line=1)


def read_nodes(source: str | Path, *, cluster_count: int = 3) -> NodeSet:
    """Return nodes from a file or from a text as `4x32cpu,128Gi`.

    Files: the Alibaba 2023 node list, Alea machines, native YAML with nodes, a profile, or a log (its machine).

    Args:
        source: Path or text.
        cluster_count: Clusters to deal the nodes to, where the source does not tell.

    Raises:
        InvalidRequest: No format fits, or the file is not there or damaged.
    """
    path = Path(source)
    if not path.exists():
        try:
            return uniform_nodes(str(source), cluster_count=cluster_count)
        except InvalidRequest as cause:
            raise InvalidRequest(f"{str(source)[:200]!r} is no file, and {cause.message}") from cause
    text = read_text(path)
    match detect_format(text):
        case "openb-nodes":
            return read_openb_nodes(path, cluster_count=cluster_count, text=text)
        case "machines":
            return read_machines(path, text=text)
        case "profile":
            return generate(parse_profile(text, path=path), 0)[1]
        case "swf":
            return read_swf_nodes(path, read_swf(path, text=text), text=text)
        case "native":
            nodes = read_native_nodes(path, text=text)
            return nodes if nodes is not None else refuse(path, "the file lists no nodes", line=1)
    return refuse(
        path, "not a list of machines; known are the Alibaba 2023 node list, Alea machines, native YAML", line=1
    )

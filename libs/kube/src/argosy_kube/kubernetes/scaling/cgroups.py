"""What the pods of one node use, from the kernel's own counts: cgroup v2, as kubelets arrange it.

It is told as a page in the form of a kubelet's `/metrics/resource`, so that one reader makes rates of both. Memory is
what kubelets call the working set: what the pod has, without cached files that nobody used of late.

Source: docs/autoscale.md "Metrics"; the kernel's cgroup-v2 documentation, `cpu.stat`, `memory.current`, `memory.stat`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable

__all__ = ["NodeCgroups", "read_cgroups"]

_CLASSES: Final = ("", "burstable", "besteffort")
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?$")


@dataclass(frozen=True, slots=True)
class NodeCgroups:
    """The cgroups of the node on which this process runs."""

    node: str
    """Name of the node; not empty."""
    root: Path = Path("/sys/fs/cgroup")
    """Where they are mounted."""


def read_cgroups(root: Path, pods: Iterable[tuple[str, str, str]]) -> bytes:
    """Return what pods use, as a page of a kubelet's `/metrics/resource`; pods that are not there are left out.

    Args:
        root: Where the cgroups are mounted, commonly `/sys/fs/cgroup`.
        pods: Uid, namespace and name of each.

    Raises:
        BackendUnavailable: Nothing of cgroup v2 is mounted there, or no kubelet runs pods in it.
    """
    if not (root / "cgroup.controllers").exists():
        raise BackendUnavailable(f"{root} is no cgroup v2: it has no cgroup.controllers; mount the node's there")
    folders = {_uid(folder): folder for parent in _parents(root) for folder in parent.iterdir() if _uid(folder)}
    if not folders:
        raise BackendUnavailable(f"{root} has no pods of a kubelet; mount the node's own cgroups there")
    lines = []
    for uid, namespace, name in pods:
        folder = folders.get(uid)
        if folder is None:
            continue
        labels = f'{{namespace="{namespace}",pod="{name}"}}'
        used_us, held, idle = _stat(folder, "cpu.stat", "usage_usec"), _stat(folder, "memory.current"), _idle(folder)
        if used_us is not None:
            lines.append(f"pod_cpu_usage_seconds_total{labels} {used_us / 1e6!r}")
        if held is not None:
            lines.append(f"pod_memory_working_set_bytes{labels} {max(held - idle, 0)}")
    return "\n".join(lines).encode()


def _parents(root: Path) -> Iterator[Path]:
    """Yield the folders that hold pods' folders, by either of kubelets' two drivers."""
    for kind in _CLASSES:
        within = [part for part in ("kubepods", kind) if part]
        slices = ["-".join(within[: end + 1]) + ".slice" for end in range(len(within))]
        for parent in (root.joinpath(*slices), root.joinpath(*within)):
            if parent.is_dir():
                yield parent


def _uid(folder: Path) -> str:
    """Return the uid of the pod whose folder it is, empty if it is none's."""
    found = _POD.search(folder.name)
    return found[1].replace("_", "-") if found else ""


def _stat(folder: Path, file: str, key: str = "") -> int | None:
    """Return a count of a file, by its key or the only one; None if the pod went, or it is no count."""
    try:
        words = (folder / file).read_text(encoding="ascii").split()
        return int(words[words.index(key) + 1] if key else words[0])
    except (OSError, ValueError, IndexError):
        return None


def _idle(folder: Path) -> int:
    """Return how much of a pod's memory is cached files that nobody used of late."""
    return _stat(folder, "memory.stat", "inactive_file") or 0

"""Objects of a cluster as it keeps them, and pods as agents see them.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from argosy_simulation.cluster_changes import Key

__all__ = ["ClusterObject", "RunningPod"]


@dataclass(slots=True)
class ClusterObject:
    """An object that exists."""

    uid: int
    kind: str
    node: str
    state: int
    exit_code: int = 0
    failure: int = 0
    deleting: bool = False
    booked: bool = False
    """A pod that has not ended takes room on its node."""
    is_labelled: bool = True
    """Somebody may take its labels away."""
    repeated: bool = False
    """A pod of its name was there before and is gone without anybody having reported it."""
    started_us: int = 0
    """When it began to run."""
    requests: tuple[tuple[str, int], ...] | None = None
    """What it asks for since it was resized; None before."""
    version: int = 1
    """Grows with each resize."""


class RunningPod(NamedTuple):
    """A pod that runs, as an agent sees it."""

    key: Key
    uid: int
    version: int
    requests: tuple[tuple[str, int], ...]
    """What it asks for now, itself included."""
    started_us: int

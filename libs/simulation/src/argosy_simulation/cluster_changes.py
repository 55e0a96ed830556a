"""What a cluster shows of itself: changes of nodes, objects and unmanaged pods, and watches that tell of them.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy_core.nodes import NodeSpec
from argosy_simulation.agenda import Process

__all__ = [
    "Key",
    "NodeChange",
    "ObjectChange",
    "PodResized",
    "Scope",
    "TakeChanges",
    "TakeListing",
    "UnmanagedPod",
    "Watch",
    "uid_column",
]

TakeChanges: TypeAlias = Callable[[list[tuple[object, ...]]], None]
"""Takes changes, each an ObjectChange or a NodeChange, in order."""
TakeListing: TypeAlias = Callable[[list[tuple[object, ...]], int], None]
"""Takes all that exists, and the position from which to watch."""
Key = tuple[int, int, int]
"""(handle, ordinal, position in the bag)."""


class Scope(Enum):
    """What a watch shows."""

    NODES = "nodes"
    OBJECTS = "objects"


class ObjectChange(NamedTuple):
    """An object as it was at a moment."""

    handle: int
    ordinal: int
    """Attempt and member of its run."""
    position: int
    kind: str
    state: int
    """ObjectState."""
    gone: bool
    uid: int
    node: str
    time_us: int
    exit_code: int
    failure: int
    """FailureKind."""
    is_labelled: bool = True
    """Whether it carries our labels; an executor's lists and watches leave out what does not."""


class PodResized(NamedTuple):
    """A pod of ours that has another size than it asked for."""

    uid: int
    requests: tuple[tuple[str, int], ...]
    """What it asks for now, itself included."""


class UnmanagedPod(NamedTuple):
    """A pod that is not ours."""

    uid: int
    node: str
    requests: tuple[tuple[str, int], ...]
    gone: bool


class NodeChange(NamedTuple):
    """A node that came or went."""

    node: str
    spec: NodeSpec | None
    """None if it went."""


class Watch:
    """Tells a process of changes, in order, a while after they happened.

    Args:
        owner: Who watches.
        scope: What.
        take: Takes batches of changes.
        position: Changes that its owner has seen in a listing.
    """

    def __init__(self, owner: Process, scope: Scope, take: TakeChanges, *, position: int) -> None:
        """Start behind a listing."""
        self.name = f"{owner.name}/{scope.value}"
        self.owner = owner
        self.scope = scope
        self.take = take
        self.position = position
        self.open = True
        self.scheduled = False
        self.lagging_until_us = 0


def uid_column(uids: list[int]) -> npt.NDArray[np.uint8]:
    """Return numbers as uids of 16 bytes."""
    column = np.zeros((len(uids), 2), dtype=np.int64)
    column[:, 0] = uids
    return column.view(np.uint8)

"""What happened in a simulated cluster, as its watchers see it: gathered, flushed in blocks, kept for a while."""

from __future__ import annotations

from collections import deque

import numpy as np

from argosy_kube.port import Change, Int8Array, Int32Array, NodeDescription, PodPhase
from argosy_kube.simulated.objects import EventBlock, EventColumns, History, ObjectTable
from argosy_kube.simulated.tables import NodeTable

__all__ = ["Journal"]


class Journal:
    """Changes of objects and nodes.

    Args:
        objects: The objects.
        nodes: The nodes.
        version: Versions start here.
    """

    def __init__(self, objects: ObjectTable, nodes: NodeTable, version: int) -> None:
        """Start without a change."""
        self._objects = objects
        self._nodes = nodes
        self._log: list[tuple[Change, Int32Array, Int8Array | PodPhase, int]] = []
        self.history = History(version)
        self.node_history: deque[tuple[int, Change, NodeDescription]] = deque(maxlen=100_000)
        self.node_floor = version
        """Oldest version from which changes of nodes are known."""
        self.drops = 0
        """How often running watches were told to end."""

    def tell(self, change: Change, slots: Int32Array, phase: Int8Array | PodPhase, now_us: int) -> None:
        """Note what happened to objects; watchers see it after the next flush."""
        if len(slots):
            self._log.append((change, slots, phase, now_us))

    def tell_node(self, change: Change, node: NodeDescription) -> None:
        """Note what happened to a node."""
        self.history.version += 1
        if len(self.node_history) == self.node_history.maxlen:
            self.node_floor = self.node_history[0][0]
        self.node_history.append((self.history.version, change, node))

    def flush(self) -> bool:
        """Make what happened visible to watchers; return whether anything did."""
        if not self._log:
            return False
        objects, log = self._objects, self._log
        self._log = []
        slots = np.concatenate([entry[1] for entry in log])
        tiny = np.empty((len(slots), 2), dtype=np.int8)
        times = np.empty(len(slots), dtype=np.int64)
        begin = 0
        for change, told, phases, time_us in log:
            end = begin + len(told)
            tiny[begin:end, 0] = change
            tiny[begin:end, 1] = phases
            times[begin:end] = time_us
            begin = end
        columns, first = objects.events(slots, tiny), self.history.version + 1
        columns.wide[:, 3] = times
        columns.wide[:, 4] = np.arange(first, first + len(slots), dtype=np.int64)
        objects.wide[slots, 3:5] = columns.wide[:, 3:5]
        owner = int(columns.small[0, 0])
        is_pure = not columns.kind.any() and bool((columns.installation == owner).all())
        self.history.append(EventBlock(columns, first, first + len(slots) - 1, owner if is_pure else -1))
        gone = [entry[1] for entry in log if entry[0] == Change.DELETED]
        if gone:
            objects.release(np.concatenate(gone))
        return True

    def present(self) -> EventColumns:
        """Return every object as an ADDED event, oldest first; `history.version` is the version to watch from."""
        self.flush()
        objects = self._objects
        slots = objects.live()
        tiny = np.empty((len(slots), 2), dtype=np.int8)
        tiny[:, 0] = Change.ADDED
        node = objects.node[slots]
        hidden = (objects.phase[slots] == PodPhase.RUNNING) & (node >= 0) & ~self._nodes.reachable[node]
        tiny[:, 1] = np.where(hidden, np.int8(PodPhase.UNKNOWN), objects.phase[slots])
        return objects.events(slots, tiny)

    def forget(self) -> None:
        """Let every version before now be too old, and end running watches."""
        self.flush()
        self.history.forget()
        self.node_history.clear()
        self.node_floor = self.history.version
        self.drops += 1

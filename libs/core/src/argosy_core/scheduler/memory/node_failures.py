"""Nodes on which runs of one kind keep failing, and that are the last choice for such runs for a while.

A node that refuses or kills everything looks emptiest, so it would be chosen again and again. What fails on it may be
the fault of the node or of the jobs, so nodes are judged per job set and class, and stay usable: a job set that fails
everywhere is placed as before. A leader that takes over begins with an empty memory.

Source: seed 004 "Detecting faulty nodes"; design section 6, "faulty nodes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["FAILURE_COUNT", "WINDOW_S", "Node", "NodeFailures"]

FAILURE_COUNT: Final = 5
"""So many failures within the window make a node the last choice (design section 6)."""
WINDOW_S: Final = 300.0
"""The window, seconds (design section 6)."""
_MAX_TRACKED: Final = 10_000
"""(job set, class, node) whose failures are remembered; of more, those that failed least lately are forgotten."""

Node = tuple[int, int]
"""Cluster index and index of the node's name in that cluster."""


class NodeFailures:
    """The latest failures by job set, class and node; at most a few megabytes."""

    def __init__(self) -> None:
        """Start with no failure."""
        self._moments: dict[tuple[int, int, Node], tuple[float, ...]] = {}
        """(job set id, class id, node) -> moments of the latest failures, ascending; what failed last stands last."""
        self._faulty: dict[tuple[int, int], dict[Node, float]] = {}
        """(job set id, class id) -> node -> moment until which it is the last choice."""

    def __deepcopy__(self, _: object) -> NodeFailures:
        """Return a copy; only the tables are copied, what they hold never changes."""
        copied = NodeFailures()
        copied._moments = dict(self._moments)
        copied._faulty = {kind: dict(nodes) for kind, nodes in self._faulty.items()}
        return copied

    def __bool__(self) -> bool:
        """Return whether any node is the last choice for anything."""
        return bool(self._faulty)

    def note(self, failed: Iterable[tuple[int, int, Node]], now_s: float) -> None:
        """Take note of runs that failed now.

        Args:
            failed: Job set id, class id and node of each.
            now_s: Now.

        Complexity: about a microsecond of Python a failed run.
        """
        for key in failed:
            moments = (*self._moments.pop(key, ())[1 - FAILURE_COUNT :], now_s)
            self._moments[key] = moments
            if len(moments) == FAILURE_COUNT and moments[0] > now_s - WINDOW_S:
                job_set_id, class_id, node = key
                self._faulty.setdefault((job_set_id, class_id), {})[node] = moments[0] + WINDOW_S
        while len(self._moments) > _MAX_TRACKED:
            self._forget(next(iter(self._moments)))

    def expire(self, now_s: float) -> None:
        """Forget what is older than the window.

        Complexity: O(what is forgotten + nodes that are the last choice).
        """
        while self._moments and self._moments[key := next(iter(self._moments))][-1] <= now_s - WINDOW_S:
            self._forget(key)
        for kind in list(self._faulty):
            nodes = {node: until_s for node, until_s in self._faulty[kind].items() if until_s > now_s}
            if nodes:
                self._faulty[kind] = nodes
            else:
                del self._faulty[kind]

    def nodes(self, job_set_id: int, class_id: int) -> list[Node]:
        """Return the nodes that are the last choice for a job set's jobs of a class, as of the last `expire`."""
        return list(self._faulty.get((job_set_id, class_id), ()))

    def all_nodes(self) -> Iterator[tuple[int, int, Node]]:
        """Yield (job set id, class id, node) of every last choice, as of the last `expire`."""
        for (job_set_id, class_id), nodes in self._faulty.items():
            for node in nodes:
                yield job_set_id, class_id, node

    def nodes_of(self, cluster: int) -> list[int]:
        """Return the nodes of a cluster on which runs failed; one may stand several times."""
        return [node for _, _, (where, node) in self._moments if where == cluster]

    def move_nodes(self, cluster: int, moved: Sequence[int]) -> None:
        """Take note that the nodes of a cluster have other indices: `moved` has the new one by the old one."""

        def new(node: Node) -> Node:
            return (cluster, moved[node[1]]) if node[0] == cluster else node

        self._moments = {(first, second, new(node)): told for (first, second, node), told in self._moments.items()}
        self._faulty = {
            kind: {new(node): until_s for node, until_s in nodes.items()} for kind, nodes in self._faulty.items()
        }

    def _forget(self, key: tuple[int, int, Node]) -> None:
        del self._moments[key]
        job_set_id, class_id, node = key
        nodes = self._faulty.get((job_set_id, class_id), {})
        nodes.pop(node, None)
        if not nodes:
            self._faulty.pop((job_set_id, class_id), None)

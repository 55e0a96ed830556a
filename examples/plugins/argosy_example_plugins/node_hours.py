"""A filter: nodes with a label `example.com/hours: 20-6` take new pods in these hours only (UTC)."""

import time

import numpy as np

from argosy_core.framework import Cycle


class NodeHours:
    """Filter `node-hours`; its answer changes with time, so it does not say `reads_nodes_only`."""

    explanation = "closed at this hour: {nodes}"

    def __init__(self, label: str = "example.com/hours") -> None:
        """Take the label from the settings."""
        self._label = label

    def filter(self, cycle: Cycle) -> np.ndarray:
        """Return (1, n) or (k, n), as `cycle.nodes` is shaped: which nodes are open; one look per group of nodes."""
        hour = time.gmtime().tm_hour
        groups = cycle.table.groups
        is_open = np.array([self._is_open(dict(groups[i].labels).get(self._label), hour) for i in range(len(groups))])
        return is_open[cycle.group()]

    @staticmethod
    def _is_open(hours: str | None, hour: int) -> bool:
        """Return whether an hour lies between begin and end, which may stand across midnight."""
        if hours is None:
            return True
        begin, end = (int(part) for part in hours.split("-"))
        return begin <= hour < end if begin <= end else not end <= hour < begin

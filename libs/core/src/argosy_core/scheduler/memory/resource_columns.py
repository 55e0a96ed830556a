"""Resource columns of the memory: every table of a pool has the same, which come and go together.

Owns when a resource gets a column in all tables and when it loses it. May import the memory.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Sequence

from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "add_columns",
    "ensure_columns",
    "shrink_axis",
]


def ensure_columns(state: PoolState, names: Sequence[str]) -> None:
    """Give new resources a column in every resource array.

    Raises:
        InvalidRequest: There would be too many.
    """
    before = len(state.classes.axis)
    if state.classes.extend_axis(names):
        add_columns(state, len(state.classes.axis) - before)


def add_columns(state: PoolState, count: int) -> None:
    """Give every resource array but that of classes `count` more columns."""
    for table in (state.clusters, state.queues, state.demands):
        table.add_columns(count)


def shrink_axis(state: PoolState) -> None:
    """Take away the columns of resources that no class and no cluster counts; only between rounds."""
    clusters = state.clusters
    used = state.classes.used_columns()
    for column in (clusters.total, clusters.free, clusters.largest):
        used |= column.any(axis=0)
    used |= state.demands.requested.any(axis=0) | state.demands.permitted.any(axis=0) | state.queues.held.any(axis=0)
    if not used.all():
        state.classes.keep_columns(used)
        for table in (clusters, state.queues, state.demands):
            table.keep_columns(used)

"""Which jobs of a pool a new leader reads, as conditions of the large queries."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from argosy_core.job.identity import DAY_SHIFT
from argosy_store.postgres.connection import StoreConnection

__all__ = ["Columns", "Scope", "read_scope"]

Columns: TypeAlias = list[npt.NDArray[Any]]
"""What one of the large queries answers, a column each; not ordered."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which jobs are loaded, as conditions that let the planner leave out days. COPY takes no parameters."""

    low: int
    """First handle of the first day that may hold open jobs."""
    carried_below: int
    """First handle of the first day that has partitions: open jobs below were carried over."""
    queue_ids: tuple[int, ...]
    """Queues of the pool."""
    hash_seed: int
    """Another one with each load: clusters choose their nodes' names, and two of one hash would end every load."""

    def handles(self, alias: str) -> str:
        """Return the condition on the handle of a table."""
        return f"({alias}.handle >= {self.low} OR {alias}.handle < {self.carried_below})"

    @property
    def jobs(self) -> str:
        """The condition of an open job `j` of the pool."""
        queues = ",".join(map(str, self.queue_ids))
        return f"j.state = 0 AND {self.handles('j')} AND j.queue_id = ANY ('{{{queues}}}'::integer[])"

    @property
    def live_runs(self) -> str:
        """The condition of a live run `r`, of whatever pool."""
        return f"r.end_time_us IS NULL AND {self.handles('r')}"


def read_scope(connection: StoreConnection, pool: str) -> Scope:
    """Return which jobs are loaded."""
    row = connection.execute(
        "SELECT min(day), min(day) FILTER (WHERE NOT day = ANY (closed_days)) FROM partition_state, unnest(days) AS day"
    ).fetchone()
    first, first_open = row or (None, None)
    queue_ids = connection.execute("SELECT queue_id FROM queues WHERE pool = %s ORDER BY 1", [pool]).fetchall()
    return Scope(
        low=0 if first_open is None else first_open << DAY_SHIFT,
        carried_below=0 if first is None else first << DAY_SHIFT,
        queue_ids=tuple(queue_id for (queue_id,) in queue_ids),
        hash_seed=secrets.randbits(63),
    )

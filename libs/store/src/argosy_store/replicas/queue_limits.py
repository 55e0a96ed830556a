"""Limits of queues: how many jobs wait, how many are submitted in a second, and which requests would be too many.

A queue's leader writes about once a second how many of its jobs wait. What was accepted and no leader has taken yet
stands in `changes`, so both together are the truth, also while nobody leads.

A request is judged after its client ids were looked up: a repeat of accepted jobs takes no room. Replicas that accept
for one queue at a time near its limit do so one after another, so the limit is kept, not nearly kept.

Source: design section 5, "Submit".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from argosy_core.errors import QuotaExceeded, Resource
from argosy_core.queueing import RATE_BURST_S
from argosy_store.postgres.connection import StoreConnection

__all__ = ["QueueLimit", "QueueRoom", "counts_by_queue", "read_waiting"]

_BATCH_COUNT: Final = 20_000  # jobs of a submit transaction, as `api.max_batch_jobs` bounds them
_LOCK: Final = "SELECT pg_advisory_xact_lock(7312, id) FROM unnest(%s::integer[]) AS n (id) ORDER BY id"
_WAITING: Final = (
    "WITH untaken AS MATERIALIZED (SELECT n.queue_id, sum(n.job_count)::bigint AS job_count FROM changes c"
    " CROSS JOIN LATERAL unnest(c.queue_ids, c.job_counts) AS n (queue_id, job_count)"
    " WHERE c.pool = ANY (%(pools)s::text[]) GROUP BY n.queue_id)"
    " SELECT queue_id, job_count FROM untaken WHERE queue_id = ANY (%(ids)s::integer[])"
    " UNION ALL SELECT queue_id, queued_count FROM queue_counts WHERE queue_id = ANY (%(ids)s::integer[])"
)
"""What no leader has taken, and what the leader counted. The former is added up before queues are picked: a hundred
compared with each entry of three hundred rows would take 80 ms."""
_PAID: Final = "SELECT queue_id, paid_time_us FROM queue_rates WHERE queue_id = ANY (%s::integer[])"
_PAY: Final = (
    "INSERT INTO queue_rates AS t (queue_id, paid_time_us) SELECT * FROM unnest(%s::integer[], %s::bigint[])"
    " ON CONFLICT (queue_id) DO UPDATE SET paid_time_us = excluded.paid_time_us"
)
_LEAST_WAIT_S: Final = 1e-3
_MOST_US: Final = 1 << 62


class QueueLimit(NamedTuple):
    """How many jobs of a queue may wait; a tuple, since each submit makes one of each of its queues."""

    name: str
    """Name of the queue, for the error."""
    max_queued_count: int
    """Most jobs that may wait."""
    known_count: int
    """Jobs that wait as far as the caller knows."""
    submit_rate_per_s: float = 0.0
    """Most jobs that may be submitted in a second for ever; 0 for no limit."""

    def is_near(self, job_count: int) -> bool:
        """Return whether the limit must be looked at before so many jobs are stored.

        What others accepted meanwhile is not known. So only a limit above a batch is ever left out, and only while not
        even half of it is used: nobody accepts the other half in the second or so that the caller's knowledge is old.
        """
        if self.submit_rate_per_s:
            return True
        return 2 * (self.known_count + job_count) > self.max_queued_count - _BATCH_COUNT


def counts_by_queue(queue_ids: npt.NDArray[np.int32]) -> dict[int, int]:
    """Return the number of jobs by queue id."""
    return Counter(queue_ids.tolist())


def read_waiting(connection: StoreConnection, pools: Iterable[str], queue_ids: Sequence[int]) -> dict[int, int]:
    """Return how many jobs of some queues wait: those the leader counted and those it has not taken yet.

    What a leader has taken since it last counted, at most a second ago, is missing.

    Complexity: O(queues + rows of `changes` of the pools); a leader leaves few there.
    """
    found = dict.fromkeys(queue_ids, 0)
    for queue_id, count in connection.execute(_WAITING, {"pools": sorted(pools), "ids": list(queue_ids)}):
        found[queue_id] += count
    return found


class QueueRoom:
    """How many more jobs may wait; holds the queues' locks until the transaction ends.

    Args:
        connection: A connection in a transaction.
        pools: Pools of the queues.
        limits: Limits by queue id.
    """

    def __init__(self, connection: StoreConnection, pools: Iterable[str], limits: Mapping[int, QueueLimit]) -> None:
        """Wait for others that accept for these queues, then count."""
        self._limits = limits
        connection.execute(_LOCK, [list(limits)])
        self._connection = connection
        self._waiting = read_waiting(connection, pools, list(limits))
        self._rates = _Rates(connection, {queue_id: one for queue_id, one in limits.items() if one.submit_rate_per_s})

    def take(self, queue_ids: npt.NDArray[np.int32]) -> QuotaExceeded | None:
        """Take room for the jobs of one request, all of them or none; return why they have none."""
        counts = counts_by_queue(queue_ids)
        for queue_id, count in counts.items():
            limit = self._limits.get(queue_id)
            if limit is not None and self._waiting[queue_id] + count > limit.max_queued_count:
                return QuotaExceeded(
                    f"queue {limit.name!r} has {self._waiting[queue_id]} jobs waiting and may have "
                    f"{limit.max_queued_count}; {count} more do not fit: wait until some have started, or ask for a "
                    "higher limit",
                    reason="QUEUE_FULL",
                    resource=Resource(kind="Queue", name=limit.name),
                )
        error = self._rates.take(counts)
        if error is None:
            for queue_id in counts.keys() & self._waiting.keys():
                self._waiting[queue_id] += counts[queue_id]
        return error

    def store(self) -> None:
        """Store what was taken; it holds if the transaction does."""
        self._rates.store()


class _Rates:
    """Buckets of submit rates, of queues whose locks are held: ten seconds' worth each, and what comes beyond waits."""

    def __init__(self, connection: StoreConnection, limits: Mapping[int, QueueLimit]) -> None:
        """Read what was taken before."""
        self._connection, self._limits = connection, limits
        self._paid_us: dict[int, int] = {}
        self._taken: set[int] = set()
        if limits:
            row = connection.execute("SELECT argosy_now_us()").fetchone()
            assert row is not None
            self._now_us = int(row[0])
            self._paid_us = dict(connection.execute(_PAID, [list(limits)]).fetchall())

    def take(self, counts: Mapping[int, int]) -> QuotaExceeded | None:
        """Take jobs by queue, all of them or none; return why they may not come now."""
        wanted = [queue_id for queue_id in counts if queue_id in self._limits]
        for queue_id in wanted:
            limit, wait_s = self._limits[queue_id], (self._owed_us(queue_id) / 1e6) - RATE_BURST_S
            if wait_s >= 0:
                return QuotaExceeded(
                    f"queue {limit.name!r} takes {limit.submit_rate_per_s:.6g} jobs a second; submit again in"
                    f" {wait_s:,.3g} s",
                    reason="SUBMIT_RATE",
                    resource=Resource(kind="Queue", name=limit.name),
                    retry_delay_s=max(wait_s, _LEAST_WAIT_S),
                )
        for queue_id in wanted:
            taken_us = round(counts[queue_id] / self._limits[queue_id].submit_rate_per_s * 1e6)
            self._paid_us[queue_id] = min(self._now_us + self._owed_us(queue_id) + taken_us, _MOST_US)
            self._taken.add(queue_id)
        return None

    def _owed_us(self, queue_id: int) -> int:
        return max(self._paid_us.get(queue_id, 0) - self._now_us, 0)

    def store(self) -> None:
        """Store what was taken."""
        if self._taken:
            ids = sorted(self._taken)
            self._connection.execute(_PAY, [ids, [self._paid_us[queue_id] for queue_id in ids]])

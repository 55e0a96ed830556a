"""How many jobs of each submitter have not ended, and which submits would make them too many.

Whoever accepts or ends jobs adds a row with a number in the same transaction, so the sum of a submitter's rows is the
truth, nobody waits for a row that another holds, and no index is on a column that changes. Rows are summed up now and
then, and counted anew once a day: processes of older versions add none while they are replaced.

Replicas that accept for a submitter near its limit do so one after another, so the limit is kept, not nearly kept.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from argosy_core.errors import QuotaExceeded, Resource
from argosy_store.postgres.binary import INT8, array, fields, text_array
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connect, translated

__all__ = ["COUNT_ENDED", "KnownOpenJobs", "SubmitterRoom", "add_open_jobs", "count_open_jobs", "sum_open_jobs"]

COUNT_ENDED: Final = (
    ", counted AS (INSERT INTO open_job_counts (submitter, job_count) SELECT submitter, -count(*)"
    " FROM done WHERE state <> 0 AND submitter IS NOT NULL GROUP BY submitter)"
)
"""To follow `WITH done AS (UPDATE ... RETURNING state, submitter)`: those that ended are open no more."""
_ADD: Final = "INSERT INTO open_job_counts (submitter, job_count) SELECT * FROM unnest($1::text[], $2::bigint[])"
_READ: Final = "SELECT coalesce(sum(job_count), 0)::bigint, count(*) FROM open_job_counts WHERE submitter = %s"
_LOCK: Final = "SELECT pg_advisory_xact_lock(7313, hashtext(name)) FROM unnest(%s::text[]) AS n (name) ORDER BY name"
_MAY_SUM: Final = "SELECT pg_try_advisory_xact_lock_shared(7314, 0)"
_ALONE: Final = "SELECT pg_advisory_xact_lock(7314, 0)"
"""Rows that are summed up while somebody counts would count twice."""
_SUM: Final = (
    "WITH gone AS (DELETE FROM open_job_counts WHERE submitter = %s RETURNING job_count)"
    " INSERT INTO open_job_counts (submitter, job_count) SELECT %s, sum(job_count) FROM gone HAVING sum(job_count) <> 0"
)
_SUM_ALL: Final = (
    "WITH gone AS (DELETE FROM open_job_counts RETURNING submitter, job_count)"
    " INSERT INTO open_job_counts (submitter, job_count) SELECT submitter, sum(job_count) FROM gone"
    " GROUP BY submitter HAVING sum(job_count) <> 0"
)
# One statement sees one moment: jobs and rows of a transaction are both in it, or neither.
_COUNT: Final = (
    "WITH gone AS (DELETE FROM open_job_counts) INSERT INTO open_job_counts (submitter, job_count)"
    " SELECT submitter, count(*) FROM jobs WHERE state = 0 AND submitter IS NOT NULL GROUP BY submitter"
)
_BATCH_COUNT: Final = 20_000  # jobs of a submit transaction, as `api.max_batch_jobs` bounds them
_KEEP_US: Final = 1_000_000
_MANY_ROWS: Final = 256
_MAX_KNOWN: Final = 10_000


class KnownOpenJobs:
    """What a replica knows of submitters' open jobs: what it read within the last second, and has accepted since.

    Args:
        now_us: Present time, microseconds since the Unix epoch.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        """Know nothing."""
        self._now_us = now_us
        self._known: dict[str, tuple[int, int]] = {}

    def is_near(self, submitter: str, job_count: int, limit: int) -> bool:
        """Return whether the limit must be looked at before so many jobs are stored.

        As for queues: only a limit above a batch is ever left out, and only while not even half of it is used.
        """
        known, expire_us = self._known.get(submitter, (0, 0))
        return self._now_us() >= expire_us or 2 * (known + job_count) > limit - _BATCH_COUNT

    def learn(self, submitter: str, count: int) -> None:
        """Note what was read; of more submitters than 10,000 all are read again."""
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[submitter] = count, self._now_us() + _KEEP_US

    def add(self, counts: Mapping[str, int]) -> None:
        """Note jobs that were accepted here."""
        for submitter, count in counts.items():
            if submitter in self._known:
                known, expire_us = self._known[submitter]
                self._known[submitter] = known + count, expire_us


class SubmitterRoom:
    """How many more jobs submitters may have open; near a limit, holds the submitter's lock to the transaction's end.

    Args:
        connection: A connection in a transaction.
        limits: Most open jobs by submitter.
        wanted: How many jobs each is about to submit, at most.
        known: What the replica knows, which learns what is read.
    """

    def __init__(
        self, connection: StoreConnection, limits: Mapping[str, int], *, wanted: Mapping[str, int], known: KnownOpenJobs
    ) -> None:
        """Read what is open; where little room is left wait for others that accept, and read again."""
        self._limits = limits
        self._open: Counter[str] = Counter()
        near = []
        for name in sorted(limits):
            self._open[name], row_count = _read(connection, name)
            known.learn(name, self._open[name])
            if known.is_near(name, wanted[name], limits[name]) or row_count > _MANY_ROWS:
                near.append((name, row_count))
        if near:
            connection.execute(_LOCK, [[name for name, _ in near]])
        for name, row_count in near:
            if row_count > _MANY_ROWS:
                allowed = connection.execute(_MAY_SUM).fetchone()
                if allowed is not None and allowed[0]:
                    connection.execute(_SUM, [name, name])
            self._open[name], _ = _read(connection, name)

    def take(self, submitter: str, job_count: int) -> QuotaExceeded | None:
        """Take room for the jobs of one request, all of them or none; return why they have none."""
        limit = self._limits.get(submitter)
        if limit is None:
            return None
        if self._open[submitter] + job_count > limit:
            return QuotaExceeded(
                f"{submitter} has {self._open[submitter]} jobs that have not ended and may have {limit}; {job_count}"
                " more do not fit: wait until some have ended, cancel some, or ask an administrator for more"
                " (access.quotas.max_open_job_count)",
                reason="USER_OPEN_JOBS",
                resource=Resource(kind="User", name=submitter),
            )
        self._open[submitter] += job_count
        return None


def add_open_jobs(connection: StoreConnection, counts: Mapping[str, int]) -> None:
    """Note that submitters have so many jobs more; part of the transaction that stores them."""
    names = sorted(counts)
    connection.bulk(
        _ADD, text_array(fields([name.encode() for name in names])), array(INT8, [counts[name] for name in names])
    )


@translated
def sum_open_jobs(url: str) -> None:
    """Leave one row for each submitter. Complexity: O(rows).

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection, connection.transaction():
        connection.execute(_ALONE)
        connection.execute(_SUM_ALL)


@translated
def count_open_jobs(url: str) -> None:
    """Count every submitter's open jobs anew. Complexity: one pass over the jobs of all days that are kept.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection, connection.transaction():
        connection.execute(_ALONE)
        connection.execute(_COUNT)


def _read(connection: StoreConnection, submitter: str) -> tuple[int, int]:
    """Return a submitter's open jobs, and of how many rows they are the sum."""
    row = connection.execute(_READ, [submitter]).fetchone()
    assert row is not None
    return max(int(row[0]), 0), int(row[1])

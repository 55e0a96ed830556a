"""The store of an API replica: accepting jobs, change requests, queues, clusters, reads.

Source: design section 1, "API replicas write jobs, specs, ... and append to `changes`".
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Final, TypeVar

import psycopg

from argosy_core.errors import BackendUnavailable
from argosy_store.job_sets import add_job_sets, use_job_set
from argosy_store.open_jobs import KnownOpenJobs
from argosy_store.postgres.binary import UUID, array, bytes_array, uuid_column
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import AuditCalls
from argosy_store.replicas.change_requests import ChangeRequestCalls
from argosy_store.replicas.clusters import ClusterCalls
from argosy_store.replicas.grants import GrantCalls
from argosy_store.replicas.identities import IdentityCalls
from argosy_store.replicas.jobs import JobCalls
from argosy_store.replicas.pool_settings import PoolSettingsCalls
from argosy_store.replicas.queue_policies import QueuePolicyCalls
from argosy_store.replicas.queues import QueueCalls
from argosy_store.replicas.submission import TimelineChanged, submit_requests
from argosy_store.replicas.submits import EncodeChanges, SubmitRequest, SubmitResult
from argosy_store.sealing import SpecSeal

__all__ = ["ApiStore"]

_KeyT = TypeVar("_KeyT")

_NUMBER_BLOCK: Final = 10_000
_CACHE_LIMIT: Final = 100_000
_ATTEMPTS: Final = 3
_REPLACED: Final = "the database was replaced by another, as a standby that was promoted; try again"
_SKIPPED_NUMBERS: Final = 1_000_000_000
"""A promoted standby may lack the last numbers that its primary gave, and pods of their jobs may be there."""
_RESERVE: Final = (
    "UPDATE shared_state SET timeline = argosy_timeline(), next_number = next_number + %s"
    " + CASE WHEN timeline IN ('', argosy_timeline()) THEN 0 ELSE %s END RETURNING next_number, timeline"
)
_ADD_CLASSES: Final = (
    "INSERT INTO scheduling_classes AS t (hash, definition) SELECT * FROM unnest($1::uuid[], $2::bytea[])"
    " ON CONFLICT (hash) DO UPDATE SET last_used_day = excluded.last_used_day"
    " WHERE t.last_used_day < excluded.last_used_day"
)
_DAY_US: Final = 86_400_000_000


class ApiStore(
    QueueCalls,
    QueuePolicyCalls,
    GrantCalls,
    AuditCalls,
    JobCalls,
    ChangeRequestCalls,
    ClusterCalls,
    IdentityCalls,
    PoolSettingsCalls,
):
    """The database as an API replica sees it. Thread-safe.

    Args:
        url: Database, migrated, with partitions.
        max_connections: Most connections for requests, and for bulk statements other than submits.
        max_submits: Most connections for submits and what they look up; nothing else takes them.
        seal: Seals bodies of specs and opens them; None to store them as they are.
    """

    def __init__(
        self, url: str, *, max_connections: int = 8, max_submits: int = 4, seal: SpecSeal | None = None
    ) -> None:
        """Open no connection yet."""
        super().__init__(Connections(url, max_size=max_connections, max_submits=max_submits))
        self._seal = seal
        self._number_lock = threading.Lock()
        self._next_number = 0
        self._end_number = 0
        self._classes: dict[bytes, int] = {}
        self._job_sets: dict[tuple[int, str], int] = {}
        self._specs: set[tuple[int, bytes]] = set()
        self._metadata: set[bytes] = set()
        self._open_jobs = KnownOpenJobs(self.now_us)
        self._cache_day = 0
        self._caches_lock = threading.Lock()
        self._timeline = ""
        self.generation = 0
        """Grows when the database turns out to be another one, as after a fail-over: ids from before mean nothing."""

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def now_us(self) -> int:
        """Return the present time by the database's clock, microseconds since the Unix epoch.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._connections.now_us()

    def reserve_numbers(self, count: int) -> int:
        """Return the first of `count` consecutive sequence numbers that nobody else gets.

        Numbers are taken from the database in blocks; those of an unfinished block are lost with the process.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._number_lock:
            if self._end_number - self._next_number < count:
                size = max(count, _NUMBER_BLOCK)
                with self._connections.submits() as connection:
                    row = connection.execute(_RESERVE, [size, _SKIPPED_NUMBERS]).fetchone()
                assert row is not None
                self._meet(row[1])
                self._next_number, self._end_number = row[0] - size, row[0]
            first = self._next_number
            self._next_number += count
            return first

    def class_ids(self, definitions: Sequence[bytes]) -> list[int]:
        """Return the ids of scheduling classes, storing those that are new.

        Args:
            definitions: Canonical definitions.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        self._begin_day()
        known = {value: self._classes.get(value) for value in definitions}
        missing = sorted(value for value, class_id in known.items() if class_id is None)
        if missing:
            hashes = {hashlib.blake2b(value, digest_size=16).digest(): value for value in missing}
            ordered = sorted(hashes)
            packed = array(UUID, uuid_column(b"".join(ordered)))
            with self._connections.submits() as connection:
                connection.bulk(_ADD_CLASSES, packed, bytes_array(hashes[value] for value in ordered))
                rows = connection.execute(
                    "SELECT class_id, hash, argosy_timeline() FROM scheduling_classes WHERE hash = ANY (%s::uuid[])",
                    [[value.hex() for value in ordered]],
                ).fetchall()
            found = {hashes[row[1].bytes]: row[0] for row in rows}
            known.update(found)
            self._remember(self._classes, found, rows[0][2])
        return [known[value] or 0 for value in definitions]

    def job_set_ids(self, pairs: Sequence[tuple[int, str]]) -> list[int]:
        """Return the ids of job sets, storing those that are new.

        Args:
            pairs: (queue id, name).

        Raises:
            BackendUnavailable: Postgres cannot be reached.
            InvalidRequest: A name cannot be stored.
        """
        self._begin_day()
        known = {pair: self._job_sets.get(pair) for pair in pairs}
        missing = sorted(pair for pair, value in known.items() if value is None)
        if missing:
            queue_ids, names = [pair[0] for pair in missing], [pair[1] for pair in missing]
            with self._connections.submits() as connection:
                add_job_sets(connection, queue_ids, names)
                rows = connection.execute(
                    "SELECT job_set_id, t.queue_id, t.name, argosy_timeline(),"
                    " last_used_day < argosy_now_us() / 86400000000"
                    " FROM unnest(%s::integer[], %s::text[]) AS n (queue_id, name)"
                    " JOIN job_sets t ON t.queue_id = n.queue_id AND t.name = n.name",
                    [queue_ids, names],
                ).fetchall()
                # One row a transaction: a leader that numbers events locks several, in an order of its own.
                gone = [row for row in rows if row[4] and not use_job_set(connection, row[0])]
            if gone:  # by retention, or another replica was as fast
                return self.job_set_ids(pairs)
            found = {(row[1], row[2]): row[0] for row in rows}
            known.update(found)
            self._remember(self._job_sets, found, rows[0][3])
        return [known[pair] or 0 for pair in pairs]

    def _meet(self, timeline: str) -> None:
        """Forget what another database than this one has said, if it is another one."""
        with self._caches_lock:
            self._move_to(timeline)

    def _move_to(self, timeline: str) -> None:
        """Forget as `_meet` does, under its lock."""
        if timeline == self._timeline:
            return
        if self._timeline:
            self._classes.clear()
            self._job_sets.clear()
            self._specs.clear()
            self._metadata.clear()
            self._next_number = self._end_number = 0
            self.generation += 1
        self._timeline = timeline

    def _begin_day(self) -> None:
        """Forget on a new day what was used on others, so that each day's first use is stored.

        Retention takes away what no kept day has used.
        """
        day = self.now_us() // _DAY_US
        with self._caches_lock:
            if day != self._cache_day:
                self._cache_day = day
                self._classes.clear()
                self._job_sets.clear()
                self._metadata.clear()

    def _remember(self, cache: dict[_KeyT, int], found: dict[_KeyT, int], timeline: str) -> None:
        """Add to a cache what a database of some timeline said; the cache begins anew when it is full.

        In one step with the look at the timeline: a caller that was slow would add what another database said to a
        cache that had been cleared meanwhile.
        """
        with self._caches_lock:
            self._move_to(timeline)
            if len(cache) + len(found) > _CACHE_LIMIT:
                cache.clear()
            cache.update(found)

    def submit(self, requests: Sequence[SubmitRequest], encode_changes: EncodeChanges) -> list[SubmitResult]:
        """Store requests in one transaction, each whole or not at all; what is returned is durable.

        A client id that was used before gives the existing job if the payload is equal, else refuses its request.
        Two items of one request with one client id are one job if their payloads are equal.

        Args:
            requests: Requests that were gathered, of any pools.
            encode_changes: Makes the leader's news from (request, mask of jobs really inserted), once per pool.

        Returns:
            One result per request, in order.

        Raises:
            BackendUnavailable: Postgres cannot be reached. The jobs may or may not be stored: repeat with client ids.
                Or it is another database than the one that the requests' ids are of; nothing was stored.
            InvalidRequest: A value cannot be stored, as text with a zero byte; nothing was stored.
        """
        self._begin_day()
        for cache in (self._specs, self._metadata):
            if len(cache) > _CACHE_LIMIT:
                cache.clear()
        # Read before the generation, which changes first: ids of another database cannot pass both comparisons.
        timeline = self._timeline
        if any(request.generation not in {None, self.generation} for request in requests):
            raise BackendUnavailable(_REPLACED)
        for attempt in range(1, _ATTEMPTS + 1):
            with self._connections.submits() as connection:
                try:
                    return submit_requests(
                        connection,
                        requests,
                        encode_changes,
                        known_specs=self._specs,
                        known_metadata=self._metadata,
                        open_jobs=self._open_jobs,
                        timeline=timeline,
                        seal=self._seal,
                    )
                except TimelineChanged as change:
                    self._meet(change.timeline)
                    raise BackendUnavailable(_REPLACED) from None
                except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                    if attempt == _ATTEMPTS:
                        raise
        raise BackendUnavailable("the database is busy; try again")

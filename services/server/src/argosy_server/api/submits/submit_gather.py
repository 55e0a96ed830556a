"""Gathering: concurrent submits of a replica share one transaction, because a commit costs as much as fifty jobs.

A worker waits for the first request, waits a moment for others to join, and stores all of them together in a thread.
While its transaction is under way another worker gathers. In the long run transactions begin no more often than at an
interval, so that under load more submits share one. A pause saves some beginnings: whoever submits now and then does
not wait behind the transaction of somebody who does likewise. What waits is bounded; above the bound a submit is
refused at once, so that a slow database means refusals and not memory.

Source: design section 5, "Submit", "Concurrent submits on a replica share a transaction (about 2 ms gather)".
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from argosy_core.errors import BackendUnavailable, QuotaExceeded, Resource
from argosy_core.job.identity import DAY_SHIFT, id_high
from argosy_runtime.access.quotas import RateBuckets
from argosy_runtime.metrics import METRICS
from argosy_server.api.codecs.changes_codec import encode_submitted
from argosy_server.api.submits.admission import AdmittedJobs
from argosy_server.api.submits.submit_quotas import SubmitQuotas
from argosy_store.replicas.submits import EncodeChanges, SubmitRequest, SubmitResult

__all__ = ["SubmitGather", "SubmitStore", "build_requests"]

_RETRY_S: Final = 1.0  # what waits then is stored within a second or two
_DAY_US: Final = 86_400_000_000
_SAVED_COUNT: Final = 8  # transactions that begin at once after a pause of as many intervals


class SubmitStore(Protocol):
    """What gathering needs of the store; all calls block."""

    def now_us(self) -> int:
        """Return the present time by the database's clock, microseconds since the Unix epoch."""

    def reserve_numbers(self, count: int) -> int:
        """Return the first of `count` sequence numbers."""

    def class_ids(self, definitions: Sequence[bytes]) -> list[int]:
        """Return ids of scheduling classes."""

    def job_set_ids(self, pairs: Sequence[tuple[int, str]]) -> list[int]:
        """Return ids of job sets (queue id, name)."""

    def submit(self, requests: Sequence[SubmitRequest], encode_changes: EncodeChanges) -> list[SubmitResult]:
        """Store requests in one transaction."""


@dataclass(slots=True)
class _Waiting:
    """A request that waits for its transaction."""

    jobs: AdmittedJobs
    answer: asyncio.Future[SubmitResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


def build_requests(store: SubmitStore, batch: Sequence[AdmittedJobs], *, now_us: int) -> list[SubmitRequest]:
    """Return what the store shall store: handles, ids, and the numbers that stand for classes and job sets. Blocks.

    Args:
        store: Where numbers come from.
        batch: Admitted requests.
        now_us: Moment of acceptance, microseconds since the Unix epoch.

    Raises:
        BackendUnavailable: The database cannot be reached.
    """
    count = sum(jobs.count for jobs in batch)
    handles = (now_us // _DAY_US << DAY_SHIFT) + store.reserve_numbers(count) + np.arange(count, dtype=np.int64)
    # The 12 free bits of an id are the fraction of the millisecond, so that ids ascend as handles do.
    highs = np.full(count, id_high(now_us // 1000, now_us % 1000 * 4096 // 1000), dtype=np.int64)
    classes = iter(store.class_ids([spec.definition for jobs in batch for spec in jobs.specs]))
    job_sets = iter(store.job_set_ids([pair for jobs in batch for pair in jobs.job_sets]))
    requests = []
    first = 0
    for jobs in batch:
        rows = slice(first, first + jobs.count)
        first += jobs.count
        class_of_spec = np.array([next(classes) for _ in jobs.specs], dtype=np.int32)
        id_of_set = np.array([next(job_sets) for _ in jobs.job_sets], dtype=np.int64)
        requests.append(
            SubmitRequest(
                pool=jobs.pool,
                handles=handles[rows],
                id_highs=highs[rows],
                queue_ids=jobs.queue_ids,
                job_set_ids=id_of_set[jobs.job_set_index],
                class_ids=class_of_spec[jobs.spec_index],
                priorities=jobs.priorities,
                submit_time_us=np.full(jobs.count, now_us, dtype=np.int64),
                spec_index=jobs.spec_index,
                specs=tuple([spec.row for spec in jobs.specs]),
                metadata_index=jobs.metadata_index,
                metadata=jobs.metadata,
                client_ids=jobs.client_ids,
                payload_hashes=jobs.payload_hashes,
                submitter=jobs.submitter,
                submitter_limit=jobs.submitter_limit,
                traceparent=jobs.traceparent,
                generation=jobs.generation,
                limits=jobs.limits,
                options=jobs.options,
                run_after=jobs.run_after,
            )
        )
    return requests


class SubmitGather:
    """Stores admitted requests, several at a time.

    Args:
        store: Where to.
        threads: Where blocking calls run; needs one thread per worker.
        gather_s: How long the first request waits for others.
        interval_s: Time between the beginnings of transactions in the long run; a pause saves eight.
        max_waiting_jobs: Most jobs that may wait.
        max_batch_jobs: Most jobs of one transaction, unless one request alone has more.
        quotas: What users and queues may take; whoever submits asks it first.
    """

    def __init__(
        self,
        store: SubmitStore,
        threads: Executor,
        *,
        gather_s: float,
        interval_s: float = 0.0,
        max_waiting_jobs: int,
        max_batch_jobs: int,
        quotas: SubmitQuotas,
    ) -> None:
        """Start with nothing waiting."""
        self.quotas = quotas
        """What users and queues may take."""
        self._store = store
        self._threads = threads
        self._gather_s = gather_s
        self._pace = RateBuckets(1 / interval_s if interval_s else 0.0, burst_s=(_SAVED_COUNT - 0.5) * interval_s)
        self._max_waiting_jobs = max_waiting_jobs
        self._max_batch_jobs = max_batch_jobs
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._gathering = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._unanswered = 0
        self.waiting_jobs = 0
        """Jobs that wait for a transaction, not counting those under way."""

    async def submit(self, jobs: AdmittedJobs) -> SubmitResult:
        """Return what became of a request, once that is durable.

        Raises:
            QuotaExceeded: Too many jobs wait already; nothing was stored.
            BackendUnavailable: The database cannot be reached, or its answer was lost: the jobs may have been stored.
        """
        if self.waiting_jobs and self.waiting_jobs + jobs.count > self._max_waiting_jobs:
            raise QuotaExceeded(
                f"{self.waiting_jobs} jobs wait to be stored, at most {self._max_waiting_jobs} may; wait and try again",
                reason="TOO_MANY_SUBMITS",
                resource=Resource(kind="Server", name=""),
                retry_delay_s=_RETRY_S,
            )
        entry = _Waiting(jobs)
        self._waiting.append(entry)
        self.waiting_jobs += jobs.count
        METRICS.submit_waiting_jobs.set(self.waiting_jobs)
        self._unanswered += 1
        self._idle.clear()
        self._arrived.set()
        try:
            return await entry.answer
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                self._idle.set()

    async def work(self) -> None:
        """Gather and store for ever; run as many of these as transactions may be under way."""
        while True:
            async with self._gathering:
                await self._arrived.wait()
                if not await self._wait_for_pace():
                    await asyncio.sleep(self._gather_s)
                batch = self._take()
            if batch:
                await self._store_batch(batch)

    async def _wait_for_pace(self) -> bool:
        """Return once a transaction may begin, and whether that took any time; a full one may at once."""
        waited = False
        while self.waiting_jobs < self._max_batch_jobs and (wait_s := self._pace.take("", 1.0, time.monotonic())):
            await asyncio.sleep(wait_s)
            waited = True
        return waited

    async def drain(self) -> None:
        """Return once every request that came has its answer."""
        await self._idle.wait()

    def _take(self) -> list[_Waiting]:
        """Take the first requests that fit a transaction; those whose caller has gone are dropped unstored."""
        batch: list[_Waiting] = []
        count = 0
        while self._waiting:
            entry = self._waiting[0]
            gone = entry.answer.done()
            if not gone and batch and count + entry.jobs.count > self._max_batch_jobs:
                break
            self._waiting.popleft()
            self.waiting_jobs -= entry.jobs.count
            if not gone:
                batch.append(entry)
                count += entry.jobs.count
        if not self._waiting:
            self._arrived.clear()
        METRICS.submit_waiting_jobs.set(self.waiting_jobs)
        return batch

    async def _store_batch(self, batch: Sequence[_Waiting]) -> None:
        jobs = [entry.jobs for entry in batch]
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        try:
            results = await loop.run_in_executor(self._threads, self._store_blocking, jobs)
        except asyncio.CancelledError:
            _fail_all(batch, BackendUnavailable("the server is shutting down; try again at another replica"))
            raise
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            if len(batch) == 1 or isinstance(error, BackendUnavailable):
                _fail_all(batch, error)
                return
            # One request that cannot be stored must not take the others with it.
            for entry in batch:
                await self._store_batch([entry])
            return
        METRICS.submit_transaction_seconds.observe(time.perf_counter() - started)
        METRICS.submit_batch_jobs.observe(sum(one.count for one in jobs))
        for entry, result in zip(batch, results, strict=True):
            if not entry.answer.done():
                entry.answer.set_result(result)

    def _store_blocking(self, batch: Sequence[AdmittedJobs]) -> list[SubmitResult]:
        requests = build_requests(self._store, batch, now_us=self._store.now_us())
        return self._store.submit(requests, encode_submitted)


def _fail_all(batch: Sequence[_Waiting], error: Exception) -> None:
    for entry in batch:
        if not entry.answer.done():
            entry.answer.set_exception(error)

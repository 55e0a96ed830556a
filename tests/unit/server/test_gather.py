"""Tests of gathering submits, of the queue cache and of routing, over a store in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy.api.v1 import job_pb2
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotFound, QuotaExceeded
from argosy_core.job.identity import DAY_SHIFT, compose_id, parse_id
from argosy_core.job.reading.spec import SpecLimits
from argosy_runtime.access.quotas import QuotaSettings
from argosy_runtime.config import load_config
from argosy_server.__main__ import main
from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.admission import AdmittedJobs
from argosy_server.api.submits.specs import PolicySpecs, ReadSpec
from argosy_server.api.submits.submit import Submission
from argosy_server.api.submits.submit_gather import SubmitGather, build_requests
from argosy_server.api.submits.submit_quotas import SubmitQuotas
from argosy_server.config import ServerConfig
from argosy_store.replicas.queue_limits import QueueLimit
from argosy_store.replicas.submits import SpecRow, SubmitRequest, SubmitResult
from argosy_store.rows import QueueRow

NOW_US = 1_800_000_000_123_456


def make_jobs(count: int, priority: int = 0) -> AdmittedJobs:
    """Return an admitted request of equal jobs."""
    zeros = np.zeros(count, dtype=np.int32)
    spec = ReadSpec(row=SpecRow(hash=bytes(16), body=b"[]", layout=b"[]"), definition=b"{}", namespaces=())
    return AdmittedJobs(
        pool="default", count=count, queue_ids=zeros + 1, job_set_index=zeros, job_sets=((1, "one"),),
        priorities=zeros + priority, spec_index=zeros, specs=(spec,), metadata_index=zeros - 1, metadata=(),
        client_ids=(), payload_hashes=b"", items=zeros,
    )  # fmt: skip


class MemoryStore:
    """A store that keeps transactions, can be held up, and fails when told."""

    def __init__(self) -> None:
        """Start open."""
        self.transactions: list[list[SubmitRequest]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.fault: Exception | None = None
        self.poison = -1
        self._next = 1

    def now_us(self) -> int:
        """Return the same moment always."""
        return NOW_US

    def reserve_numbers(self, count: int) -> int:
        """Return the next numbers."""
        first, self._next = self._next, self._next + count
        return first

    def class_ids(self, definitions: Sequence[bytes]) -> list[int]:
        """Return 5 for all."""
        return [5] * len(definitions)

    def job_set_ids(self, pairs: Sequence[tuple[int, str]]) -> list[int]:
        """Return 9 for all."""
        return [9] * len(pairs)

    def submit(self, requests: Sequence[SubmitRequest], encode_changes: Any) -> list[SubmitResult]:
        """Keep the transaction."""
        self.entered.release()
        self.gate.wait(10)
        if self.fault is not None:
            raise self.fault
        if any(int(request.priorities[0]) == self.poison for request in requests):
            raise InvalidRequest("poison")
        self.transactions.append(list(requests))
        return [SubmitResult(id_highs=request.id_highs, handles=request.handles) for request in requests]


@asynccontextmanager
async def gathering(store: MemoryStore, workers: int = 1, **options: Any) -> AsyncIterator[SubmitGather]:
    """Run a gather with its workers."""
    defaults: dict[str, Any] = {"gather_s": 0.0, "max_waiting_jobs": 100, "max_batch_jobs": 50}
    with ThreadPoolExecutor(workers) as threads:
        quotas = SubmitQuotas(QuotaSettings(), 0.0)
        gather = SubmitGather(store, threads, quotas=quotas, **{**defaults, **options})
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gather.work()) for _ in range(workers)]
            yield gather
            store.gate.set()
            for task in tasks:
                task.cancel()


def test_build_requests_gives_ascending_handles_and_ids() -> None:
    """Handles carry the day and follow each other; ids ascend with them and lead back to them."""
    first, second = build_requests(MemoryStore(), [make_jobs(2), make_jobs(3)], now_us=NOW_US)
    handles = np.concatenate([first.handles, second.handles])
    assert (handles >> DAY_SHIFT).tolist() == [NOW_US // 86_400_000_000] * 5
    assert np.diff(handles).tolist() == [1] * 4
    ids = [compose_id(int(high), int(handle)) for high, handle in zip(first.id_highs, first.handles, strict=True)]
    assert ids == sorted(ids)
    assert [parse_id(job_id)[1] for job_id in ids] == first.handles.tolist()
    assert int(first.id_highs[0]) >> 16 == NOW_US // 1000
    assert (first.class_ids.tolist(), first.job_set_ids.tolist()) == ([5, 5], [9, 9])


async def test_gather_stores_waiting_requests_in_one_transaction() -> None:
    """What comes while a transaction is under way shares the next one."""
    store = MemoryStore()
    store.gate.clear()
    async with gathering(store) as gather:
        first = asyncio.ensure_future(gather.submit(make_jobs(1)))
        await asyncio.to_thread(store.entered.acquire)
        others = [asyncio.ensure_future(gather.submit(make_jobs(2))) for _ in range(3)]
        store.gate.set()
        await asyncio.gather(first, *others)
    assert [len(transaction) for transaction in store.transactions] == [1, 3]


async def test_gather_lets_what_comes_above_its_pace_share_a_transaction() -> None:
    """A pause saves eight transactions; what comes then waits for the interval, or until it fills one."""
    store = MemoryStore()
    async with gathering(store, interval_s=1000.0) as gather:
        async with asyncio.timeout(50):  # each would wait for ever, had it to wait for the interval
            for _ in range(8):
                await gather.submit(make_jobs(1))
        late = asyncio.ensure_future(gather.submit(make_jobs(2)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(store.transactions), gather.waiting_jobs) == (8, 2)
        late.cancel()


async def test_gather_begins_no_transaction_sooner_than_its_interval_after_the_last_saved_one() -> None:
    """What comes within the interval is stored after it, together."""
    store = MemoryStore()
    async with gathering(store, interval_s=0.1) as gather:
        for _ in range(8):
            await gather.submit(make_jobs(1))
        await asyncio.gather(*(gather.submit(make_jobs(count)) for count in (2, 3)))
    assert [[len(request.handles) for request in one] for one in store.transactions] == [[1]] * 8 + [[2, 3]]


async def test_gather_splits_at_batch_size_but_never_a_request() -> None:
    """A transaction takes as many requests as fit; one that alone is larger goes by itself."""
    store = MemoryStore()
    store.gate.clear()
    async with gathering(store, max_batch_jobs=5, max_waiting_jobs=100) as gather:
        calls = [asyncio.ensure_future(gather.submit(make_jobs(count))) for count in (3, 3, 2, 9, 1)]
        await asyncio.to_thread(store.entered.acquire)
        store.gate.set()
        await asyncio.gather(*calls)
    assert [[len(request.handles) for request in one] for one in store.transactions] == [[3], [3, 2], [9], [1]]


async def test_gather_refuses_above_its_bound_and_forgets_nothing() -> None:
    """More waiting jobs than allowed are refused at once; those that wait are stored."""
    store = MemoryStore()
    store.gate.clear()
    async with gathering(store, max_waiting_jobs=10) as gather:
        calls = [asyncio.ensure_future(gather.submit(make_jobs(5)))]
        await asyncio.to_thread(store.entered.acquire)
        calls += [asyncio.ensure_future(gather.submit(make_jobs(5))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(QuotaExceeded, match="10 jobs wait to be stored, at most 10 may"):
            await gather.submit(make_jobs(1))
        store.gate.set()
        await asyncio.gather(*calls)
        assert gather.waiting_jobs == 0
    assert sum(len(one) for one in store.transactions) == 3


async def test_gather_drops_request_whose_caller_has_gone() -> None:
    """A call that was cancelled before its transaction began is not stored."""
    store = MemoryStore()
    store.gate.clear()
    async with gathering(store) as gather:
        first = asyncio.ensure_future(gather.submit(make_jobs(1)))
        await asyncio.to_thread(store.entered.acquire)
        gone = asyncio.ensure_future(gather.submit(make_jobs(7)))
        stays = asyncio.ensure_future(gather.submit(make_jobs(2)))
        await asyncio.sleep(0)
        gone.cancel()
        store.gate.set()
        await asyncio.gather(first, stays)
        await gather.drain()
    assert [[len(request.handles) for request in one] for one in store.transactions] == [[1], [2]]


async def test_gather_keeps_others_from_a_request_that_cannot_be_stored() -> None:
    """A fault of one request is its own: the others of its transaction are stored alone."""
    store = MemoryStore()
    store.poison = 13
    store.gate.clear()
    async with gathering(store) as gather:
        calls = [asyncio.ensure_future(gather.submit(make_jobs(1, priority))) for priority in (1, 13, 2)]
        await asyncio.to_thread(store.entered.acquire)
        store.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [SubmitResult, InvalidRequest, SubmitResult]


async def test_gather_passes_on_that_database_is_gone_without_trying_each() -> None:
    """An unreachable database fails the whole transaction once."""
    store = MemoryStore()
    store.fault = BackendUnavailable("gone")
    async with gathering(store, gather_s=0.001) as gather:
        answers = await asyncio.gather(*(gather.submit(make_jobs(1)) for _ in range(3)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["gone"] * 3
    assert store.entered.acquire(blocking=False)
    assert not store.entered.acquire(blocking=False)


class MemoryQueues:
    """Queues in memory that count how often they are read."""

    def __init__(self) -> None:
        """Start with queue red."""
        self.generation = 0
        self.rows = {"red": self.make("red")}
        self.queued = 0
        self.reads = 0

    @staticmethod
    def make(name: str, **changes: Any) -> QueueRow:
        """Return a queue."""
        values: dict[str, Any] = {
            "queue_id": 1, "name": name, "weight": 1.0, "pool": "default", "cordoned": False, "cordon_reason": "",
            "version": 1, "create_time_us": 1, "namespaces": (), "max_queued_count": 10, "parent": "",
            "max_running_count": 0, "max_running_amounts": (), "submit_rate_per_s": 0.0,
            "lease_rate_per_s": 0.0, "preempts_unexpired": False, "preempts_endless": False, "deleted": False,
        }  # fmt: skip
        return QueueRow(**{**values, **changes})

    def find_queues(self, names: Sequence[str]) -> dict[str, tuple[QueueRow, int]]:
        """Return those that exist, with the count the test says."""
        self.reads += len(names)
        return {name: (self.rows[name], self.queued) for name in names if name in self.rows}

    def queue_policies(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return none: no queue has a policy."""
        del names
        return {}


async def test_queue_cache_reads_again_after_its_time_and_when_told() -> None:
    """A queue is read once per period, and at once after a change made here; unknown names are never remembered."""
    queues, now = MemoryQueues(), [0.0]
    threads = StoreThreads(reader_count=1, submit_count=1)
    cache = QueueCache(queues, threads, keep_s=1.0, default_limit=7, clock_s=lambda: now[0])
    for _ in range(3):
        assert set(await cache.find(["red", "blue", "NO NAME"])) == {"red"}
    assert queues.reads == 1 + 3
    queues.rows["blue"] = MemoryQueues.make("blue", max_queued_count=0, namespaces=("lab",))
    found = await cache.find(["blue"])
    assert (found["blue"].max_queued_count, found["blue"].namespaces) == (7, {"lab"})
    reads = queues.reads
    now[0] = 1.5
    await cache.find(["red"])
    cache.forget("red")
    await cache.find(["red"])
    assert queues.reads == reads + 3  # blue was in use and is read along with red
    threads.close()


async def test_queue_cache_tells_limits_with_what_is_known_to_wait() -> None:
    """A limit comes with the jobs that waited when the queue was read and those expected since; all if unknown."""
    queues = MemoryQueues()
    queues.queued = 3
    threads = StoreThreads(reader_count=1, submit_count=1)
    cache = QueueCache(queues, threads, keep_s=1.0, default_limit=7, clock_s=lambda: 0.0)
    red = (await cache.find(["red"]))["red"]
    for known in (3, 5):
        limit = QueueLimit(name="red", max_queued_count=10, known_count=known)
        assert cache.expect([red], {red.queue_id: 2}) == {red.queue_id: limit}
    cache.forget("red")
    assert cache.expect([red], {red.queue_id: 2})[red.queue_id].known_count == 10
    threads.close()


async def test_submit_that_takes_long_to_check_lets_others_go_on() -> None:
    """A thousand specs are checked in 10 pieces, and read in 32, twice; one too many is refused before any is read."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    threads = StoreThreads(reader_count=1, submit_count=1)
    unused: Any = None
    submission = Submission(
        QueueCache(MemoryQueues(), threads, keep_s=1.0, default_limit=7), PolicySpecs(SpecLimits(), max_count=1),
        unused, store=unused, threads=threads, max_job_count=1, missing=unused,
    )  # fmt: skip
    spec = job_pb2.JobSpec(groups=[job_pb2.PodGroup(name="a", min=1, template="{}")])
    items = [job_pb2.JobItem(queue="NO NAME", job_set="a")]
    others = asyncio.ensure_future(count_turns())
    await asyncio.sleep(0)
    for specs, expected in (([spec] * 999 + [job_pb2.JobSpec()], 9), ([spec] * 1000, 9 + 31 + 31), ([spec] * 1001, 0)):
        turns = 0
        with pytest.raises((InvalidRequest, NotFound)):
            await submission.admit(job_pb2.SubmitJobsRequest(specs=specs, items=items))
        assert turns == expected
    others.cancel()
    threads.close()


@pytest.mark.parametrize(
    ("limit", "known", "count", "expected"),
    [(20_000, 0, 1, True), (100_000, 0, 40_000, False), (100_000, 0, 40_001, True), (100_000, 39_999, 1, False)],
)
def test_limit_is_looked_at_once_half_of_it_may_be_used(limit: int, known: int, count: int, expected: bool) -> None:  # noqa: FBT001
    """What others accept meanwhile is unknown, so the database is asked from about the half on."""
    assert QueueLimit(name="red", max_queued_count=limit, known_count=known).is_near(count) is expected


def test_main_answers_wrong_flags_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is a message, not a traceback."""
    assert main(["--databse-url", "x"]) == 2
    assert "did you mean --database-url?" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["waiting-heads", "promised-nodes-ratio"])
def test_what_zero_turns_off_takes_zero(flag: str) -> None:
    """Their pages say that 0 is meant; a rule for numbers that must be above 0 would refuse it."""
    round_settings = load_config(ServerConfig, ["--database-url", "x", f"--leader-round-{flag}", "0"], {}).leader.round
    assert getattr(round_settings, flag.replace("-", "_")) == 0


def test_every_setting_of_the_server_is_documented() -> None:
    """--help says something about each flag."""
    from argosy_runtime.config import help_text

    lines = help_text(ServerConfig).splitlines()
    flags = [place for place, line in enumerate(lines) if line.startswith("  --")]
    assert len(flags) > 30
    for place in flags:
        assert len(lines[place + 1].split("(")[0].strip()) > 10, lines[place]


def refused_by(quotas: SubmitQuotas, jobs: AdmittedJobs, user: str, *queues: str) -> str:
    """Submit until it is refused, a hundred times at most; return why, if it is told when to come again."""
    for _ in range(100):
        try:
            quotas.take(replace(jobs, submitter=user), dict(enumerate(queues)))
        except QuotaExceeded as error:
            return error.reason if error.retry_delay_s else "never"
    return ""


def test_user_who_floods_is_refused_by_each_quota_and_another_is_not() -> None:
    """Jobs, bytes of specs of the user, and those of a queue whoever submits; time gives all of it back."""
    now_s = [0.0]
    jobs = make_jobs(100)
    size = len(jobs.specs[0].row.body)
    many = QuotaSettings(jobs_per_s=100.0, stored_bytes_per_s=0.0)
    quotas = SubmitQuotas(many, 0.0, clock_s=lambda: now_s[0])
    assert refused_by(quotas, jobs, "mallory", "red") == "USER_JOB_RATE"
    quotas.take(replace(jobs, submitter="alice"), {1: "red"})
    now_s[0] = 1.5
    quotas.take(replace(jobs, submitter="mallory"), {1: "red"})
    stored = QuotaSettings(jobs_per_s=0.0, stored_bytes_per_s=size / 3600)
    quotas = SubmitQuotas(stored, 0.0, clock_s=lambda: now_s[0])
    assert refused_by(quotas, jobs, "mallory", "red") == "USER_STORED_BYTES"
    quotas.take(replace(jobs, submitter="alice"), {1: "red"})
    assert refused_by(quotas, jobs, "", "red") == ""
    quotas = SubmitQuotas(QuotaSettings(jobs_per_s=0.0, stored_bytes_per_s=0.0), size / 3600, clock_s=lambda: now_s[0])
    assert refused_by(quotas, jobs, "mallory", "blue", "red") == "QUEUE_STORED_BYTES"
    with pytest.raises(QuotaExceeded, match="'red'"):
        quotas.take(replace(jobs, submitter="alice"), {1: "red"})
    quotas.take(replace(jobs, submitter="alice"), {2: "green"})
    now_s[0] += 2 * 3600.0
    quotas.take(replace(jobs, submitter="alice"), {1: "red"})

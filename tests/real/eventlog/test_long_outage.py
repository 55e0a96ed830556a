"""The log's broker is away for five minutes while jobs are submitted: a mesh with production settings outlasts it.

Broker, database and mesh are this file's own, so that it may run beside other tests: nearly all of it is waiting.

Source: design section 5, "Ingest", "Leader lost"; section 7, invariants 1, 2, 6, 8 and 11.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from argosy_client import ArgosyClient, JobDraft, JobEvent, JobSelector, Queue, RetryPolicy
from argosy_core.job.states import JobState
from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_store.schema.inspection import Finding, inspect_database
from testbed.pulsar import Broker

pytestmark = [pytest.mark.timeout(660)]

ABSENCE_S = 300.0
"""How long the broker is away, by the wall."""
END_S = 150.0
"""How long everything may take to end once it is back."""
CLUSTERS = ("c1", "c2")
EARLY_COUNT = 60
"""Pods of one core that run when the broker goes; they end while it is away, or run on when it is back."""
JOBS_PER_CALL = 5
CALL_PERIOD_S = 0.5
SLOWEST_CALL_S = 10.0
LOOK_PERIOD_S = 10.0
MOST_GROWTH_BYTES = 64 << 20
QUEUE = "away"


def _pod(run_time: str) -> str:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    metadata = {"name": "main", "annotations": {"argosy.dev/simulated-run-time": run_time}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return json.dumps(pod)


def _drafts(job_set: str, run_time: str, count: int) -> list[JobDraft]:
    return [JobDraft(queue=QUEUE, job_set=job_set, manifests=(_pod(run_time),)) for _ in range(count)]


@pytest.fixture
def broker(start_broker: Callable[..., Broker]) -> Broker:
    """Give a broker that nobody else uses."""
    return start_broker("pulsar-away", "away for five minutes")


@pytest.fixture
def mesh(tmp_path: Path, broker: Broker) -> Iterator[Mesh]:
    """Give two clusters and two processes that may lead, with the settings that are shipped."""
    mesh = Mesh(tmp_path / "mesh")
    mesh.up(
        MeshPlan(
            clusters=tuple(ClusterPlan(name=name, kinds="10:cpu=4,memory=16Gi") for name in CLUSTERS),
            standby_count=1,
            event_log_url=broker.service_url,
            event_log_admin_url=broker.admin_url,
        )
    )
    try:
        yield mesh
    finally:
        mesh.down()


class Watcher:
    """Looks at the mesh again and again while the broker is away."""

    def __init__(self, mesh: Mesh) -> None:
        """Look for the first time."""
        self.mesh = mesh
        self.roles = [role for role in mesh.roles if role != "postgres" and not role.startswith("cluster-")]
        self.first = self._memory()
        self.most = dict(self.first)
        self.epochs = [self.pool()[0]]
        self.run_counts: list[int] = []

    def _memory(self) -> dict[str, int]:
        return {role: self.mesh.usage(role).rss_bytes for role in self.roles}

    def pool(self) -> tuple[int, int]:
        """Return epoch and log position of the pool, as the database knows them."""
        ((epoch, position),) = self.rows("SELECT epoch, log_position FROM pools")
        return epoch, position

    def rows(self, statement: str) -> list[tuple[int, ...]]:
        """Return what the database answers."""
        with psycopg.connect(self.mesh.database_url) as database:
            return database.execute(statement.encode()).fetchall()

    def look(self) -> None:
        """Note memory, epoch and the number of runs; raise if a process ended."""
        memory = self._memory()
        assert all(memory.values()), f"a process ended: {memory}"
        self.most = {role: max(self.most[role], memory[role]) for role in self.roles}
        self.epochs.append(self.pool()[0])
        self.run_counts += [count for (count,) in self.rows("SELECT count(*) FROM runs")]

    @property
    def growth(self) -> dict[str, int]:
        """Most bytes that each process had more than at first."""
        return {role: self.most[role] - self.first[role] for role in self.roles}


async def _submit_meanwhile(client: ArgosyClient, watcher: Watcher) -> tuple[list[str], float]:
    """Submit at a steady pace for the absence; return the acknowledged jobs and the slowest call's time in seconds."""
    ids: list[str] = []
    slowest_s = 0.0
    begin_s = time.monotonic()
    look_s = begin_s + LOOK_PERIOD_S
    while (now_s := time.monotonic()) < begin_s + ABSENCE_S:
        ids += await client.submit(_drafts("meanwhile", "0.2s-0.6s", JOBS_PER_CALL))
        slowest_s = max(slowest_s, time.monotonic() - now_s)
        if now_s >= look_s:
            look_s += LOOK_PERIOD_S
            await asyncio.to_thread(watcher.look)
            job = await client.get_job(ids[0])
            assert job.state == "queued"
        await asyncio.sleep(max(now_s + CALL_PERIOD_S - time.monotonic(), 0.0))
    return ids, slowest_s


async def _await_running(client: ArgosyClient, job_set: str, count: int) -> None:
    """Return once so many jobs run."""
    selector = JobSelector(queue=QUEUE, job_set=job_set, states=("running",))
    async with asyncio.timeout(60):
        while len([job async for job in client.list_jobs(selector)]) < count:  # noqa: ASYNC110 - only the server tells
            await asyncio.sleep(0.2)


async def _events(client: ArgosyClient, job_set: str) -> list[JobEvent]:
    """Return all events of a job set, once all its jobs have ended."""
    events: list[JobEvent] = []
    async with asyncio.timeout(END_S):
        async for batch in client.watch(QUEUE, job_set, until_finished=True):
            events.extend(batch.events)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    return events


def _checked(mesh: Mesh) -> Finding:
    """Return what `argosy admin check` says of the pool."""
    (found,) = [one for one in inspect_database(mesh.database_url, time.time_ns() // 1000) if "pool" in one.subject]
    return found


def _check_events(events: list[JobEvent], succeeded: set[str], cancelled: set[str]) -> None:
    """Every job was leased once, but those that were cancelled while they waited; and each ended as it should."""
    wanted = {"submitted": succeeded | cancelled, "leased": succeeded, "succeeded": succeeded, "cancelled": cancelled}
    for kind, ids in wanted.items():
        counts = Counter(event.job_id for event in events if event.kind == kind)
        assert set(counts) == ids, kind
        assert set(counts.values()) <= {1}, kind


async def _check_clusters(mesh: Mesh, pod_count: int) -> None:
    """No node was ever given away twice, no job ran twice, and there was one pod per job."""
    created = 0
    for name in CLUSTERS:
        cluster = SimulatedCluster(mesh.address(f"cluster-{name}"), installation="argosy")
        try:
            audit = await cluster.audit()
        finally:
            await cluster.close()
        assert (audit.double_runs, audit.overcommits, audit.pods_killed) == (0, 0, 0)
        created += audit.pods_created
    assert created == pod_count


def _check_rows(watcher: Watcher, *, job_count: int, cancelled_count: int) -> None:
    """Runs, epochs and positions of the database agree with one another."""
    run_count = job_count - cancelled_count
    assert dict(watcher.rows("SELECT state, count(*) FROM jobs GROUP BY state")) == {
        JobState.SUCCEEDED: run_count,
        JobState.CANCELLED: cancelled_count,
    }
    runs = watcher.rows("SELECT count(*), count(DISTINCT handle), count(end_time_us), max(attempt) FROM runs")
    assert runs == [(run_count, run_count, run_count, 1)]
    epoch, _ = watcher.pool()
    assert watcher.rows(f"SELECT count(*) FROM runs WHERE epoch > {epoch}") == [(0,)]
    assert watcher.rows("SELECT count(*) FROM quarantine") == [(0,)]
    assert watcher.rows("SELECT count(*) FROM changes") == [(0,)]


async def test_a_broker_that_is_away_for_five_minutes_costs_nothing_but_time(mesh: Mesh, broker: Broker) -> None:
    """Submits are acknowledged and pods run on, nothing is decided, memory is bounded; then everything ends, once."""
    async with ArgosyClient(mesh.server, retries=RetryPolicy(total_s=0.0)) as client:
        await client.create_queue(Queue(name=QUEUE))
        early = list(await client.submit(_drafts("early", "60s-330s", EARLY_COUNT)))
        await _await_running(client, "early", EARLY_COUNT)
        await asyncio.to_thread(broker.kill)
        try:
            watcher = Watcher(mesh)
            first_epoch, position = watcher.pool()
            meanwhile, slowest_s = await _submit_meanwhile(client, watcher)
            answer = await client.cancel_jobs(meanwhile[-50:])
            assert (answer.job_count, answer.unknown_ids) == (50, ())
            assert watcher.pool()[1] == position, "something was ingested"
            check = await asyncio.to_thread(_checked, mesh)
            assert check.is_problem
            since = re.search(
                r"(had|has) published nothing since .* UTC \((\d+) s\), .* leased: .*leases-default", check.text
            )
            assert since, check
            assert ABSENCE_S - 30 < int(since[2]) < ABSENCE_S + 30
        finally:
            await asyncio.to_thread(broker.start)
        back_s = time.monotonic()
        events = await _events(client, "meanwhile")
        drained_s = time.monotonic() - back_s
        early_events = await _events(client, "early")
    print(  # noqa: T201 - shown with -s and on failure
        f"{len(meanwhile)} jobs accepted meanwhile, slowest call {slowest_s:.2f} s, epochs {watcher.epochs},"
        f" growth { ({role: grown >> 20 for role, grown in watcher.growth.items()}) } MiB,"
        f" all ended {drained_s:.1f} s after the return"
    )
    assert len(meanwhile) >= 0.8 * ABSENCE_S / CALL_PERIOD_S * JOBS_PER_CALL
    assert slowest_s < SLOWEST_CALL_S
    assert len(set(watcher.run_counts)) == 1, "something was leased while it could not be published"
    assert watcher.epochs[-1] > first_epoch + 3, "leaders should have given up their epochs"
    assert max(watcher.growth.values()) < MOST_GROWTH_BYTES
    assert not (await asyncio.to_thread(_checked, mesh)).is_problem
    _check_events(events, set(meanwhile[:-50]), set(meanwhile[-50:]))
    _check_events(early_events, set(early), set())
    await _check_clusters(mesh, len(early) + len(meanwhile) - 50)
    _check_rows(watcher, job_count=len(early) + len(meanwhile), cancelled_count=50)
    assert watcher.pool()[1] > position

"""Any process may die at any time: nothing acknowledged is lost, nothing runs twice at once, no node is over-committed.

Each test kills one process with SIGKILL while jobs are being submitted, placed and run, starts it again, and looks at
what the clusters themselves counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from argosy_cli.compose import ClusterPlan, MeshPlan
from argosy_cli.mesh import Mesh
from argosy_client import ArgosyClient, RetryPolicy
from argosy_client.values import JobDraft, JobEvent, Queue
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Audit
from argosy_testkit.reply_gate import ReplyGate

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kills")]

CALLS = 40
JOBS_PER_CALL = 20
SUBMITTERS = 4
QUICK = {
    "server": ["--leader-lease-s", "2", "--leader-heartbeat-s", "1"],
    "sampler": ["--connect-timeout-s", "1"],
    "executor": ["--connect-timeout-s", "1"],
}
"""Flags by which a dead leader is replaced, and the new one found, within seconds."""
END_S = 90.0
"""Longest wait for the end of all jobs; they take some seconds."""
PATIENT = RetryPolicy(total_s=90.0)
POD = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "main", "annotations": {"argosy.dev/simulated-run-time": "0.3s-1.2s"}},
        "spec": {
            "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
            ]
        },
    }
).encode()


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Two clusters of 100 cores, so that jobs wait, run and end all the time."""
    clusters = tuple(ClusterPlan(name=f"c{number}", uniform="25:cpu=4,memory=16Gi") for number in (1, 2))
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    mesh.up(MeshPlan(clusters=clusters, standby_count=1, flags=QUICK))
    try:
        yield mesh
    finally:
        mesh.down()


async def _submit_all(client: ArgosyClient, queue: str, ids: list[str], under_way: asyncio.Event) -> list[str]:
    """Submit every job with a client id of its own, repeating what was not answered; return the ids.

    Several submit at once, so that at any moment some call is under way.
    """

    async def submit(calls: range) -> None:
        for call in calls:
            drafts = [
                JobDraft(queue=queue, job_set="all", manifests=(POD,), client_id=f"{queue}-{call}-{number}")
                for number in range(JOBS_PER_CALL)
            ]
            ids.extend(await client.submit(drafts))
            if len(ids) >= CALLS * JOBS_PER_CALL // 2:
                under_way.set()
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as tasks:
        for first in range(SUBMITTERS):
            tasks.create_task(submit(range(first, CALLS, SUBMITTERS)))
    return ids


async def _follow(client: ArgosyClient, queue: str) -> list[JobEvent]:
    """Return every event of the job set once all its jobs have ended."""
    events: list[JobEvent] = []
    async with asyncio.timeout(END_S):
        async for batch in client.watch(queue, "all", until_finished=True):
            events.extend(batch.events)
    return events


async def _audit(mesh: Mesh) -> list[Audit]:
    """Return what the clusters counted."""
    audits = []
    for name in mesh.cluster_names:
        cluster = SimulatedCluster(mesh.address(f"cluster-{name}"), installation="argosy")
        try:
            audits.append(await cluster.audit())
        finally:
            await cluster.close()
    return audits


@asynccontextmanager
async def _load(
    mesh: Mesh, queue: str, *, address: str = "", ids: list[str] | None = None
) -> AsyncIterator[tuple[ArgosyClient, asyncio.Task[list[str]]]]:
    """Give a client and the submitting of jobs, once that is well under way; `ids` grows with what is answered."""
    async with ArgosyClient(address or mesh.server, retries=PATIENT) as client:
        await client.create_queue(Queue(name=queue))
        under_way = asyncio.Event()
        submitting = asyncio.create_task(_submit_all(client, queue, [] if ids is None else ids, under_way))
        await under_way.wait()
        yield client, submitting


async def _check(mesh: Mesh, before: list[Audit], *work: tuple[list[str], list[JobEvent]]) -> None:
    """Every acknowledged job ran once and succeeded; events are numbered 1..n; no node was given away twice."""
    for ids, events in work:
        assert len(set(ids)) == CALLS * JOBS_PER_CALL
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        for kind in ("submitted", "leased", "succeeded"):
            counts = Counter(event.job_id for event in events if event.kind == kind)
            assert set(counts) == set(ids)
            assert set(counts.values()) == {1}
    after = await _audit(mesh)
    assert [(audit.double_runs, audit.overcommits) for audit in after] == [(0, 0)] * len(after)
    # Clusters do not know of each other: that none ran what another ran shows in the sum.
    counted = [
        sum(getattr(audit, name) for audit in after) - sum(getattr(audit, name) for audit in before)
        for name in ("pods_created", "pods_succeeded", "pods_killed", "pods_failed")
    ]
    total = len(work) * CALLS * JOBS_PER_CALL
    assert counted == [total, total, 0, 0]


async def test_calls_that_were_stored_and_not_answered_make_no_second_job_when_the_api_is_killed(mesh: Mesh) -> None:
    """The worst moment to die: the jobs are there and nobody knows. They are submitted again by the same client ids."""
    before = await _audit(mesh)
    ids: list[str] = []
    async with (
        ReplyGate(mesh.address("api")) as gate,
        _load(mesh, "kill-api", address=gate.address, ids=ids) as (client, submitting),
    ):
        gate.hold()
        while _stored_count(mesh, "kill-api") <= len(ids):  # noqa: ASYNC110 - only the database tells
            await asyncio.sleep(0.05)
        await asyncio.to_thread(mesh.kill, "api")
        gate.release()
        await asyncio.to_thread(mesh.start, "api")
        await submitting
        events = await _follow(client, "kill-api")

    await _check(mesh, before, (ids, events))


def _stored_count(mesh: Mesh, queue: str) -> int:
    """Return how many jobs of a queue the database has taken."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute(
            "SELECT count(*) FROM jobs JOIN queues q USING (queue_id) WHERE q.name = %s", [queue]
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("role", ["leader", "sampler-c1", "executor-c1", "postgres"])
async def test_no_job_is_lost_or_run_twice_when_a_process_is_killed(mesh: Mesh, role: str) -> None:
    """Killed in the middle of it and started again, the work ends as if nothing had been."""
    before = await _audit(mesh)
    killed = await asyncio.to_thread(_leading_role, mesh) if role == "leader" else role
    async with _load(mesh, f"kill-{role}") as (client, submitting):
        await asyncio.to_thread(mesh.kill, killed)
        await asyncio.to_thread(mesh.start, killed)
        ids = await submitting
        events = await _follow(client, f"kill-{role}")

    await _check(mesh, before, (ids, events))


async def test_leases_whose_pods_do_not_exist_yet_keep_their_room_when_the_sampler_is_killed(mesh: Mesh) -> None:
    """With the executor away no pod tells the new sampler what was given out: the leader's list has to."""
    before = await _audit(mesh)
    async with _load(mesh, "kill-both") as (client, submitting):
        await asyncio.to_thread(mesh.kill, "executor-c1")
        await asyncio.to_thread(mesh.kill, "sampler-c1")
        await asyncio.to_thread(mesh.start, "sampler-c1")
        async with asyncio.timeout(60):
            while not (await client.get_cluster("c1")).sampler_connected:  # noqa: ASYNC110 - only the database tells
                await asyncio.sleep(0.05)
        ids = await submitting
        await asyncio.to_thread(mesh.start, "executor-c1")
        events = await _follow(client, "kill-both")

    await _check(mesh, before, (ids, events))


def _pool(mesh: Mesh) -> tuple[str, int]:
    """Return address and epoch of whoever leads, as the database knows it."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute("SELECT address, epoch FROM pools").fetchone()
    assert row is not None
    return row[0], row[1]


def _leading_role(mesh: Mesh) -> str:
    """Return which process leads."""
    address, _ = _pool(mesh)
    return next(role for role in ("leader", "leader-2") if mesh.address(role) == address)


def _log_epochs(mesh: Mesh) -> list[int]:
    """Return the epochs of the log's records, in order of their positions."""
    with psycopg.connect(mesh.database_url) as database:
        return [epoch for (epoch,) in database.execute("SELECT epoch FROM log_records ORDER BY position")]


async def test_leader_that_sleeps_through_its_lease_changes_nothing_when_it_wakes(mesh: Mesh) -> None:
    """Stopped in the middle of rounds, replaced by the other process, and woken: it must not know better.

    What it had decided before is stale by then: its epoch is refused by the log, the database and the samplers.
    """
    await asyncio.to_thread(mesh.await_ready)
    (asleep,) = [status for status in mesh.status() if status.role == _leading_role(mesh)]
    _, epoch = _pool(mesh)
    before = await _audit(mesh)
    async with _load(mesh, "sleep") as (client, submitting):
        os.kill(asleep.pid, signal.SIGSTOP)
        try:
            while _pool(mesh)[1] == epoch:  # noqa: ASYNC110 - only the database tells
                await asyncio.sleep(0.05)
            async for batch in client.watch("sleep", "all"):
                # The new leader has started jobs of its own accord.
                if batch.state_counts.get("succeeded", 0) > CALLS * JOBS_PER_CALL // 2:
                    break
        finally:
            os.kill(asleep.pid, signal.SIGCONT)
        # Now both could take what is submitted.
        await client.create_queue(Queue(name="awake"))
        both = await submitting, await _submit_all(client, "awake", [], asyncio.Event())
        events = await _follow(client, "sleep"), await _follow(client, "awake")
    address, last_epoch = _pool(mesh)

    await _check(mesh, before, *zip(both, events, strict=True))
    assert (last_epoch, address != asleep.address) == (epoch + 1, True)
    epochs = _log_epochs(mesh)
    assert epochs == sorted(epochs)
    assert "leadership ended" in mesh.log_path(asleep.role).read_text().rpartition('"event": "leading"')[2]

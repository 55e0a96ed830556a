"""Any process may die at any time: nothing acknowledged is lost, nothing runs twice at once, no node is over-committed.

Each test kills one process with SIGKILL in the middle of a replay, starts it again, and looks at what the replay
reports, what a watch from the beginning tells, and what the clusters themselves counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest

from argosy_client import ArgosyClient, JobDraft, JobEvent, Queue
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Audit
from argosy_local.compose import UNCAPPED, ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_testkit.reply_gate import ReplyGate

from .replayed import END_S, JOB_COUNT, PATIENT, follow, replaying

pytestmark = pytest.mark.timeout(240)

CORES = 100
"""Of each cluster; every job asks for one."""
CORES_PER_NODE = 4
QUICK = {
    "server": ["--leader-lease-s", "2", "--leader-heartbeat-s", "1", *UNCAPPED["server"]],
    "sampler": ["--connect-timeout-s", "1"],
    "executor": ["--connect-timeout-s", "1"],
}
"""Flags by which a dead leader is replaced, and the new one found, within seconds."""
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
)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Two clusters of 100 cores, so that jobs wait, run and end all the time."""
    nodes = f"{CORES // CORES_PER_NODE}:cpu={CORES_PER_NODE},memory=16Gi"
    clusters = tuple(ClusterPlan(name=f"c{number}", kinds=nodes) for number in (1, 2))
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    mesh.up(MeshPlan(clusters=clusters, standby_count=1, flags=QUICK))
    try:
        yield mesh
    finally:
        mesh.down()


def _draft(queue: str, number: int) -> JobDraft:
    """Return a job with a client id of its own."""
    return JobDraft(queue=queue, job_set="all", manifests=(POD,), client_id=f"{queue}-{number}")


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


async def _check(mesh: Mesh, before: list[Audit], *work: tuple[list[str], list[JobEvent]]) -> None:
    """Every acknowledged job ran once and succeeded; events are numbered 1..n; no node was given away twice."""
    assert _over_leased(mesh) == []
    for ids, events in work:
        assert len(set(ids)) == len(ids)
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
    total = sum(len(ids) for ids, _ in work)
    assert counted == [total, total, 0, 0]


def _over_leased(mesh: Mesh) -> list[tuple[str, int, str]]:
    """Return nodes of which more was given out at some moment than they have, whether pods followed or not.

    Each with the first such moment, and the runs that held it: handle, and begin and end in ms from that moment.
    """
    with psycopg.connect(mesh.database_url) as database:
        return database.execute(
            """
            WITH moments AS (
                SELECT cluster, node, lease_time_us AS time_us, 1 AS cores FROM runs
                UNION ALL SELECT cluster, node, end_time_us, -1 FROM runs WHERE end_time_us IS NOT NULL
            ), counted AS (
                SELECT *, sum(cores) OVER (PARTITION BY cluster, node ORDER BY time_us, cores) AS held FROM moments
            ), over AS (
                SELECT cluster, node, min(time_us) AS time_us FROM counted WHERE held > %s GROUP BY cluster, node
            )
            SELECT r.cluster, r.node, string_agg(format(
                '%%s: %%s to %%s', handle, (lease_time_us - time_us) / 1000, (end_time_us - time_us) / 1000
            ), ', ')
            FROM over JOIN runs r USING (cluster, node)
            WHERE lease_time_us <= time_us AND coalesce(end_time_us, time_us) >= time_us
            GROUP BY r.cluster, r.node
            """,
            [CORES_PER_NODE],
        ).fetchall()


async def test_calls_that_were_stored_and_not_answered_make_no_second_job_when_the_api_is_killed(mesh: Mesh) -> None:
    """The worst moment to die: the jobs are there and nobody knows. They are submitted again by the same client ids.

    The replay's watches break off, too, and go on where they were.
    """
    before = await _audit(mesh)
    async with ReplyGate(mesh.address("api")) as gate, replaying(gate.address, "kill-api") as load:
        gate.hold()
        while _stored_count(mesh, "kill-api") <= load.client.acknowledged_count:  # noqa: ASYNC110 - only the database tells
            await asyncio.sleep(0.05)
        await asyncio.to_thread(mesh.kill, "api")
        gate.release()
        await asyncio.to_thread(mesh.start, "api")
        work = await load.end()
    assert load.client.retry_count

    await _check(mesh, before, *work)


def _stored_count(mesh: Mesh, name: str) -> int:
    """Return how many jobs of a replay the database has taken."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute(
            "SELECT count(*) FROM jobs JOIN queues q USING (queue_id) WHERE q.name LIKE %s", [f"{name}-%"]
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("role", ["leader", "sampler-c1", "executor-c1", "postgres"])
async def test_no_job_is_lost_or_run_twice_when_a_process_is_killed(mesh: Mesh, role: str) -> None:
    """Killed in the middle of it and started again, the replay ends as if nothing had been."""
    before = await _audit(mesh)
    killed = await asyncio.to_thread(_leading_role, mesh) if role == "leader" else role
    async with replaying(mesh.server, f"kill-{role}") as load:
        await asyncio.to_thread(mesh.kill, killed)
        await asyncio.to_thread(mesh.start, killed)
        work = await load.end()

    await _check(mesh, before, *work)


@pytest.mark.parametrize("away", ["stopped", "killed"])
async def test_leases_whose_pods_do_not_exist_yet_keep_their_room_when_the_sampler_is_killed(
    mesh: Mesh, away: str
) -> None:
    """With the executor away no pod tells the new sampler what was given out: the leader's list has to.

    One cluster is leased out to its last core before a single pod exists, and as many jobs wait as would fit a second
    time if the new sampler knew nothing of the first. Its first rounds ask it for room for them.
    """
    before = await _audit(mesh)
    queue = f"full-{away}"
    async with _only_first_cluster(mesh) as client, AsyncExitStack() as stack:
        await client.create_queue(Queue(name=queue))
        # Nothing is leased where no executor was heard for a while, so all is there before this one goes.
        await client.cordon_cluster("c1")
        stack.push_async_callback(client.uncordon_cluster, "c1")
        ids = [
            *await client.submit([_draft(queue, number) for number in range(CORES)]),
            *await client.submit([_draft(queue, number) for number in range(CORES, 2 * CORES)]),
        ]
        await stack.enter_async_context(_executor_away(mesh, killed=away == "killed"))
        await client.uncordon_cluster("c1")
        async for batch in client.watch(queue, "all"):
            if batch.state_counts.get("leased", 0) == CORES:
                break
        assert (await _audit(mesh))[0].pods_created == before[0].pods_created
        await asyncio.to_thread(mesh.kill, "sampler-c1")
        await asyncio.to_thread(mesh.start, "sampler-c1")
        async with asyncio.timeout(60):
            while not (await client.get_cluster("c1")).sampler_connected:  # noqa: ASYNC110 - only the leader tells
                await asyncio.sleep(0.05)
            # The last round that was told of may have begun before the sampler was there, and the next one, too.
            # A round that would try nothing is not begun, so somebody asks why a job waits.
            asked = (await client.get_last_round()).round + 2
            while (await client.get_last_round()).round < asked:
                await client.explain_job(ids[-1])
                await asyncio.sleep(0.05)
    async with ArgosyClient(mesh.server, retries=PATIENT) as client:
        events = await follow(client, queue, "all")

    await _check(mesh, before, (ids, events))


@asynccontextmanager
async def _only_first_cluster(mesh: Mesh) -> AsyncIterator[ArgosyClient]:
    """Give a client, and let nothing new be placed on the second cluster meanwhile."""
    async with ArgosyClient(mesh.server, retries=PATIENT) as client:
        await client.cordon_cluster("c2")
        try:
            yield client
        finally:
            await client.uncordon_cluster("c2")


@asynccontextmanager
async def _executor_away(mesh: Mesh, *, killed: bool) -> AsyncIterator[None]:
    """Keep the first cluster's executor from making pods: kill and start it, or only let it sleep."""
    role = "executor-c1"
    if killed:
        await asyncio.to_thread(mesh.kill, role)
    else:
        (pid,) = [status.pid for status in mesh.status() if status.role == role]
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if killed:
            await asyncio.to_thread(mesh.start, role)
        else:
            os.kill(pid, signal.SIGCONT)


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


async def _await_next_epoch(mesh: Mesh, epoch: int) -> None:
    """Wait until another process than that of an epoch leads."""
    async with asyncio.timeout(END_S):
        while _pool(mesh)[1] == epoch:  # noqa: ASYNC110 - only the database tells
            await asyncio.sleep(0.05)


def _log_epochs(mesh: Mesh) -> list[int]:
    """Return the epochs of the log's records, in order of their positions."""
    with psycopg.connect(mesh.database_url) as database:
        return [epoch for (epoch,) in database.execute("SELECT epoch FROM log_records ORDER BY position")]


async def test_a_running_job_has_begun_when_it_began_though_its_leader_is_killed(mesh: Mesh) -> None:
    """The start time that the next leader ends a run with is the one that was shown before its predecessor died."""
    await asyncio.to_thread(mesh.await_ready)
    _, epoch = _pool(mesh)
    # Its end is seen by the next leader; a deletion would only be believed 45 s after a test that restarts executors.
    long = POD.replace("0.3s-1.2s", "8s")
    async with ArgosyClient(mesh.server, retries=PATIENT) as client:
        await client.create_queue(Queue(name="started"))
        (job_id,) = await client.submit([JobDraft(queue="started", job_set="all", manifests=(long,))])
        await _await_state(client, "started", "running")
        before = (await client.get_job(job_id)).runs
        killed = await asyncio.to_thread(_leading_role, mesh)
        await asyncio.to_thread(mesh.kill, killed)
        try:
            await _await_next_epoch(mesh, epoch)
            await _await_state(client, "started", "succeeded")
            after = (await client.get_job(job_id)).runs
        finally:
            await asyncio.to_thread(mesh.start, killed)
    assert [run.start_time for run in after] == [run.start_time for run in before]
    assert before[0].start_time is not None
    assert (before[0].end_time, after[0].end_time is not None) == (None, True)


async def _await_state(client: ArgosyClient, queue: str, state: str) -> None:
    """Wait until the one job of a queue has come to a state."""
    async with asyncio.timeout(END_S):
        async for batch in client.watch(queue, "all"):
            if batch.state_counts.get(state):
                return


async def test_leader_that_sleeps_through_its_lease_changes_nothing_when_it_wakes(mesh: Mesh) -> None:
    """Stopped in the middle of rounds, replaced by the other process, and woken: it must not know better.

    What it had decided before is stale by then: its epoch is refused by the log, the database and the samplers.
    """
    await asyncio.to_thread(mesh.await_ready)
    (asleep,) = [status for status in mesh.status() if status.role == _leading_role(mesh)]
    _, epoch = _pool(mesh)
    before = await _audit(mesh)
    async with replaying(mesh.server, "sleep") as load:
        os.kill(asleep.pid, signal.SIGSTOP)
        try:
            await _await_next_epoch(mesh, epoch)
            # Until the new leader has started jobs of its own accord.
            async with asyncio.timeout(END_S):
                while load.replay.progress().finished_count <= JOB_COUNT // 2:  # noqa: ASYNC110 - a count that grows
                    await asyncio.sleep(0.05)
        finally:
            os.kill(asleep.pid, signal.SIGCONT)
        # Now both could take what is submitted.
        async with replaying(mesh.server, "awake") as second:
            work = [*await load.end(), *await second.end()]
    _, last_epoch = _pool(mesh)

    await _check(mesh, before, *work)
    assert last_epoch > epoch  # by one, unless the other slept longer than its lease, too, on a busy machine
    epochs = _log_epochs(mesh)
    assert epochs == sorted(epochs)
    assert "leadership ended" in mesh.log_path(asleep.role).read_text().rpartition('"event": "leading"')[2]


async def test_leader_that_sleeps_while_it_sends_rows_is_replaced(mesh: Mesh) -> None:
    """Postgres waits for the rest of a COPY without end, and the row of the pool is locked meanwhile."""
    await asyncio.to_thread(mesh.await_ready)
    (asleep,) = [status for status in mesh.status() if status.role == _leading_role(mesh)]
    _, epoch = _pool(mesh)
    before = await _audit(mesh)
    async with ArgosyClient(mesh.server, retries=PATIENT) as client:
        await client.create_queue(Queue(name="rows"))
        is_stopped = asyncio.Event()
        submitting = asyncio.create_task(_submit_until(client, "rows", is_stopped))
        try:
            await _stop_while_it_sends_rows(mesh, asleep.pid)
            is_stopped.set()
            ids = await submitting
            await _await_next_epoch(mesh, epoch)
        finally:
            os.kill(asleep.pid, signal.SIGCONT)
            submitting.cancel()
        events = await follow(client, "rows", "all")

    await _check(mesh, before, (ids, events))


async def _submit_until(client: ArgosyClient, queue: str, is_over: asyncio.Event) -> list[str]:
    """Submit a few jobs after the other, so that the leader always has something to write; return their ids."""
    ids: list[str] = []
    while not is_over.is_set():
        ids += await client.submit([_draft(queue, len(ids) + number) for number in range(5)])
        await asyncio.sleep(0.02)
    return ids


async def _stop_while_it_sends_rows(mesh: Mesh, pid: int) -> None:
    """Stop a leader between the beginning of a COPY and its rows, as one in fifty moments is."""
    sending = (
        "SELECT FROM pg_stat_activity WHERE application_name = 'argosy-leader' AND query LIKE 'COPY %'"
        " AND state = 'active' AND wait_event = 'ClientRead'"
    )
    with psycopg.connect(mesh.database_url, autocommit=True) as database:
        async with asyncio.timeout(END_S):
            while True:
                os.kill(pid, signal.SIGSTOP)
                # Asked twice: what it had sent before it was stopped is on its way for a moment.
                if all(database.execute(sending).fetchone() is not None for _ in range(2)):
                    return
                os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(0.005)

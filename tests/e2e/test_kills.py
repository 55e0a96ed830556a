"""Any process may die at any time: nothing acknowledged is lost, nothing runs twice at once, no node is over-committed.

Each test kills one process with SIGKILL while jobs are being submitted, placed and run, starts it again, and looks at
what the clusters themselves counted.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from argosy_cli.compose import ClusterPlan, MeshPlan
from argosy_cli.mesh import Mesh
from argosy_client import ArgosyClient, RetryPolicy
from argosy_client.values import JobDraft, JobEvent, Queue
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Audit

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kills")]

CALLS = 40
JOBS_PER_CALL = 25
PATIENT = RetryPolicy(total_s=90.0)
POD = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "main", "annotations": {"argosy.dev/simulated-run-time": "0.5s-1.5s"}},
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
    mesh.up(MeshPlan(clusters=clusters))
    try:
        yield mesh
    finally:
        mesh.down()


async def _submit_all(client: ArgosyClient, queue: str, under_way: asyncio.Event) -> list[str]:
    """Submit every job with a client id of its own, repeating what was not answered; return the ids."""
    ids: list[str] = []
    for call in range(CALLS):
        drafts = [
            JobDraft(queue=queue, job_set="all", manifests=(POD,), client_id=f"{queue}-{call}-{number}")
            for number in range(JOBS_PER_CALL)
        ]
        ids.extend(await client.submit(drafts))
        if call == CALLS // 4:
            under_way.set()
        await asyncio.sleep(0.05)
    return ids


async def _follow(client: ArgosyClient, queue: str) -> list[JobEvent]:
    """Return every event of the job set once all its jobs have ended."""
    events: list[JobEvent] = []
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


async def _run_with_kill(mesh: Mesh, role: str) -> tuple[list[str], list[JobEvent], list[Audit]]:
    """Submit, kill and start a role again, follow to the end."""
    queue = f"kill-{role}"
    async with ArgosyClient(mesh.server, retries=PATIENT) as client:
        await client.create_queue(Queue(name=queue))
        under_way = asyncio.Event()
        submitting = asyncio.create_task(_submit_all(client, queue, under_way))
        await under_way.wait()
        await asyncio.to_thread(mesh.kill, role)
        await asyncio.to_thread(mesh.start, role)
        ids = await submitting
        events = await _follow(client, queue)
    return ids, events, await _audit(mesh)


@pytest.mark.parametrize("role", ["api", "leader", "sampler-c1", "executor-c1", "postgres"])
async def test_no_job_is_lost_or_run_twice_when_a_process_is_killed(mesh: Mesh, role: str) -> None:
    """Every acknowledged job succeeds in one run at a time; events are numbered 1..n; no node is over-committed."""
    ids, events, audits = await _run_with_kill(mesh, role)

    assert len(set(ids)) == CALLS * JOBS_PER_CALL
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    ends = Counter(event.job_id for event in events if event.kind == "succeeded")
    assert set(ends) == set(ids)
    assert set(ends.values()) == {1}
    for audit in audits:
        assert audit.overcommits == 0
        assert audit.double_runs == 0

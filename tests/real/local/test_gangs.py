"""Distributed jobs in the mesh that `argosy up` makes: they grow, lose a member while the others run, and shrink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from argosy_client import ArgosyClient, Job, Queue, Run
from argosy_client.documents import DocumentOptions, parse_documents
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Fault
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

pytestmark = pytest.mark.timeout(240)

END_S = 100.0
"""Longest wait for a change; growing takes ten seconds, all else about one; several times that on a busy machine."""
NODES = 6
GANG = """\
queue: science
jobSet: gang
spec:
  memberFailure: replace
  groups:
  - name: work
    min: 2
    max: 4
    template:
      metadata: {annotations: {argosy.dev/simulated-run-time: 1h}}
      spec: {restartPolicy: Never, containers: [{name: main, image: i, resources: {requests: {cpu: 3, memory: 64Mi}}}]}
"""
OTHERS = """\
queue: other
jobSet: singles
count: {count}
spec:
  manifests:
  - apiVersion: v1
    kind: Pod
    metadata: {{annotations: {{argosy.dev/simulated-run-time: 1h}}}}
    spec: {{containers: [{{name: main, image: i, resources: {{requests: {{cpu: 3, memory: 64Mi}}}}}}]}}
"""


@pytest.fixture(scope="module", name="mesh")
def running_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One cluster of six nodes, each of which holds one pod of these tests."""
    mesh = Mesh(tmp_path_factory.mktemp("gangs") / "mesh")
    mesh.up(MeshPlan(clusters=(ClusterPlan(name="c1", kinds=f"{NODES}:cpu=4,memory=16Gi"),)))
    try:
        yield mesh
    finally:
        mesh.down()


@asynccontextmanager
async def cluster_of(mesh: Mesh) -> AsyncIterator[SimulatedCluster]:
    """Give the cluster itself, to make failures happen."""
    cluster = SimulatedCluster(mesh.address("cluster-c1"), installation="argosy")
    try:
        yield cluster
    finally:
        await cluster.close()


async def submit(client: ArgosyClient, document: str) -> tuple[str, ...]:
    """Submit a document; return its jobs' ids."""
    return await client.submit(parse_documents(document, source="test", options=DocumentOptions()))


async def until(client: ArgosyClient, job_id: str, is_so: Callable[[Job], bool]) -> Job:
    """Wait until something holds of a job; tell its runs if it never does."""
    try:
        async with asyncio.timeout(END_S):
            while not is_so(job := await client.get_job(job_id)):  # noqa: ASYNC110 - only the server can tell
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"still so after {END_S:g} s: {(await client.get_job(job_id)).runs}")
    return job


def running(job: Job) -> dict[int, Run]:
    """Return members that run now, by number."""
    return {run.member: run for run in job.runs if run.state == "running"}


def leased_s(run: Run) -> float:
    """Return when a member was leased, seconds since the epoch."""
    assert run.lease_time is not None
    return run.lease_time.timestamp()


async def test_distributed_job_grows_replaces_a_member_and_gives_its_extras_to_others(mesh: Mesh) -> None:
    """All of it within one attempt, in which members that nothing befell run on where they began."""
    async with ArgosyClient(mesh.server) as client, cluster_of(mesh) as cluster:
        for name in ("science", "other"):
            await client.create_queue(Queue(name=name))
        (gang,) = await submit(client, GANG)
        grown = running(await until(client, gang, lambda job: len(running(job)) == 4))
        assert len({run.node for run in grown.values()}) == 4
        assert max(leased_s(grown[0]), leased_s(grown[1])) < min(leased_s(grown[2]), leased_s(grown[3]))

        await cluster.inject(Fault(kind="node-evicts", node=grown[1].node))
        job = await until(client, gang, lambda job: running(job).get(1, grown[1]).replacement == 1)
        replaced = running(job)
        assert {member: replaced[member] for member in (0, 2, 3)} == {member: grown[member] for member in (0, 2, 3)}
        assert (replaced[1].attempt, replaced[1].node != grown[1].node) == (1, True)

        for count in (NODES - 4, 1):  # the first find room, and the last needs an extra's
            ids = await submit(client, OTHERS.format(count=count))
            others = [await until(client, one, lambda job: job.state == "running") for one in ids]
        job = await until(client, gang, lambda job: len(running(job)) == 3)
        assert running(job) == {member: replaced[member] for member in (0, 1, 2)}
        (given,) = [run for run in job.runs if run.member == 3]
        assert given.end_time is not None
        assert given.node == others[-1].runs[-1].node
        assert (job.state, {run.attempt for run in job.runs}) == ("running", {1})
        audit = await cluster.audit()
        assert (audit.double_runs, audit.overcommits) == (0, 0)

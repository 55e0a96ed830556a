"""A whole mesh on a real API server on its bad days: sampler killed, node removed, node cut off; and what it watches.

Sampler and executor are processes of their own, until the last test makes them one. Only the kubelet is fake: it sends
heartbeats, or does not, and refuses what a node has no room for. Each test has nodes of its own, and its jobs ask for
them by label.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
import yaml
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions
from tests.real.kube.bed import CORES, LONGEST_S, QUEUE, Bed, pod_document, unmanaged_pod, until

from argosy_client import ArgosyClient, JobDraft, JobSelector, Parent, Queue, RetryPolicy, RetryRules
from argosy_core.reconcile.rendering import JOB_LABEL
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_local.processes import end_process, spawn

pytestmark = pytest.mark.timeout(300)

_NUMBERS = itertools.count()
SAMPLER, EXECUTOR = "sampler-lab", "executor-lab"
WATCHED_PODS = re.compile(
    r'^apiserver_longrunning_requests\{(?=[^}]*resource="pods")(?=[^}]*verb="WATCH")[^}]*\} (\S+)$', re.MULTILINE
)


def number(mesh: Mesh, statement: LiteralString) -> int:
    """Return the one number that a query of the mesh's database gives."""
    with psycopg.connect(mesh.database_url) as database:
        row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0] or 0)


def most_held_cores(mesh: Mesh) -> int:
    """Return how many cores of one node were given out at most at any moment so far, whether pods followed or not."""
    return number(
        mesh,
        "SELECT max(held) FROM (SELECT sum(cores) OVER (PARTITION BY node ORDER BY time_us, cores) AS held"
        " FROM (SELECT node, lease_time_us AS time_us, 1 AS cores FROM runs"
        " UNION ALL SELECT node, end_time_us, -1 FROM runs WHERE end_time_us IS NOT NULL) AS moments) AS nodes",
    )


@pytest.fixture(scope="module")
def grounds(
    kube_api_factory: Callable[..., KubeApi], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KubeApi, Mesh]]:
    """A mesh on a cluster that calls a node unreachable after six seconds without a heartbeat."""
    api = kube_api_factory(ControlPlaneOptions(node_grace_s=6.0), heartbeat_s=1.0)
    mesh = Mesh(tmp_path_factory.mktemp("home") / "mesh")
    try:
        cluster = ClusterPlan(name="lab", address=f"kubernetes:{api.kubeconfig}")
        quick = ("--connect-timeout-s", "1")
        flags = {
            "server": ("--leader-keep-finished-s", "2", "--leader-keep-failed-s", "2"),
            "sampler": quick,
            "executor": quick,
        }
        mesh.up(MeshPlan(clusters=(cluster,), flags=flags))
        yield api, mesh
    finally:
        mesh.down()
        api.stop()


@pytest.fixture
async def bed(
    grounds: tuple[KubeApi, Mesh],
) -> AsyncGenerator[Callable[[int], Awaitable[Bed]], None]:
    """Gives a test as many nodes of its own as it asks for; they and its jobs are gone after it."""
    api, mesh = grounds
    name = f"bed{next(_NUMBERS)}"
    async with ArgosyClient(mesh.server, retries=RetryPolicy(total_s=LONGEST_S)) as client:
        bed = Bed(api, mesh, client, name)
        if not [queue async for queue in client.list_queues() if queue.name == QUEUE]:
            await client.create_queue(Queue(name=QUEUE))

        async def prepare(node_count: int) -> Bed:
            bed.nodes = await asyncio.to_thread(
                lambda: api.add_nodes(node_count, prefix=name, cpu=str(CORES), memory="16Gi", labels={"bed": name})
            )
            return bed

        yield prepare
        if bed.job_ids:
            await client.cancel_jobs(bed.job_ids)
        there = json.loads(await asyncio.to_thread(api.kubectl, "get", "nodes", "-o", "json", "-l", f"bed={name}"))
        await asyncio.to_thread(api.kubelet.remove_nodes, [item["metadata"]["name"] for item in there["items"]])


@asynccontextmanager
async def no_ingest(mesh: Mesh) -> AsyncGenerator[None, None]:
    """Keep the leader from storing leases meanwhile; it can decide, and append to its log."""
    async with await psycopg.AsyncConnection.connect(mesh.database_url) as database:
        await database.execute("LOCK TABLE runs IN EXCLUSIVE MODE")
        yield
        await database.rollback()


@asynccontextmanager
async def executor_asleep(mesh: Mesh) -> AsyncGenerator[None, None]:
    """Let no pod be made meanwhile, from which a new sampler could learn what was given out."""
    (pid,) = [status.pid for status in mesh.status() if status.role == EXECUTOR]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_nothing_is_lost_or_run_twice_when_the_sampler_dies_between_commit_and_ingest(
    bed: Callable[[int], Awaitable[Bed]],
) -> None:
    """Killed with its nodes given out, no lease stored and no pod made, and again while pods run and jobs wait.

    Twice as many jobs wait as would fit a second time if a new sampler knew nothing of what the first gave out; with
    the executor asleep it can know that from the leader alone. The kubelet is a witness: it refuses a pod for which its
    node has no room.
    """
    here = await bed(2)
    mesh, records = here.mesh, "SELECT max(position) FROM log_records"
    before = await asyncio.to_thread(here.api.kubelet.counts)
    logged, stored = number(mesh, records), number(mesh, "SELECT count(*) FROM runs")
    async with executor_asleep(mesh):
        async with no_ingest(mesh):
            ids = await here.submit("killed", 6 * CORES, run_time="1s")

            async def is_decided() -> bool:
                return number(mesh, records) > logged

            await until(is_decided)
            assert number(mesh, "SELECT count(*) FROM runs") == stored
            await asyncio.to_thread(mesh.kill, SAMPLER)
            await asyncio.to_thread(mesh.start, SAMPLER)

        async def is_connected() -> bool:
            return (await here.client.get_cluster("lab")).sampler_connected

        await until(is_connected)
        # The last round that was told of may have begun before the sampler was there, and the next one, too.
        # A round that would try nothing is not begun, so somebody asks why a job waits.
        asked = (await here.client.get_last_round()).round + 2

        async def was_asked() -> bool:
            await here.client.explain_job(ids[-1])
            return (await here.client.get_last_round()).round >= asked

        await until(was_asked)
    async with asyncio.timeout(LONGEST_S):
        async for batch in here.client.watch(QUEUE, "killed"):
            if batch.state_counts.get("succeeded", 0) >= CORES:
                break
    await asyncio.to_thread(mesh.kill, SAMPLER)
    await asyncio.to_thread(mesh.start, SAMPLER)

    events = await here.follow("killed")
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    for kind in ("submitted", "leased", "succeeded"):
        assert Counter(event.job_id for event in events if event.kind == kind) == dict.fromkeys(ids, 1), kind
    after = await asyncio.to_thread(here.api.kubelet.counts)
    told = {what: after.get(what, 0) - before.get(what, 0) for what in ("running", "ended", "refused")}
    assert told == {"running": len(ids), "ended": len(ids), "refused": 0}
    assert most_held_cores(mesh) <= CORES


async def test_unmanaged_pods_keep_their_room_and_leave_it_to_jobs_once_they_are_gone(
    bed: Callable[[int], Awaitable[Bed]],
) -> None:
    """What others run on a node is left room, in whatever namespace; what has ended there, or goes, makes room.

    Twice as many jobs wait as there is room for. The kubelet is a witness: it refuses a pod for which there is none.
    """
    here = await bed(2)
    filled, other = here.nodes
    before = await asyncio.to_thread(here.api.kubelet.counts)
    namespace = f"others-{here.name}"
    await asyncio.to_thread(here.api.kubectl, "create", "namespace", namespace)
    others = [
        unmanaged_pod(name, node=filled, namespace=where, run_time=run_time)
        for name, where, run_time in (
            (f"{here.name}-a", "default", "1h"),
            (f"{here.name}-b", namespace, "1h"),
            (f"{here.name}-c", namespace, "1h"),
            (f"{here.name}-ended", "default", "0.1s"),
        )
    ]
    await until(lambda: has_account(here.api, namespace))
    await asyncio.to_thread(here.api.kubectl, "create", "-f", "-", stdin="\n---\n".join(map(json.dumps, others)))

    async def free_cores(node: str) -> int:
        return {one.name: one.free["cpu"] // 1000 async for one in here.client.list_nodes("lab")}[node]

    async def is_counted() -> bool:
        counts = await asyncio.to_thread(here.api.kubelet.counts)
        return counts.get("ended", 0) > before.get("ended", 0) and await free_cores(filled) == CORES - 3

    await until(is_counted)
    room = 2 * CORES - 3
    ids = await here.submit("beside", 2 * CORES)
    await here.await_counts("beside", running=room, queued=len(ids) - room)
    assert await here.places([job.id for job in await here.jobs(ids) if job.runs]) == {filled: CORES - 3, other: CORES}
    await asyncio.to_thread(here.api.kubectl, "delete", "namespace", namespace, "--wait=false")
    await here.await_counts("beside", running=room + 2, queued=1)
    await asyncio.to_thread(here.api.kubectl, "delete", "pod", f"{here.name}-a", "--wait=false")
    await here.await_counts("beside", running=len(ids))
    assert await here.places(ids) == {filled: CORES, other: CORES}
    assert [len(job.runs) for job in await here.jobs(ids)] == [1] * len(ids)
    after = await asyncio.to_thread(here.api.kubelet.counts)
    assert after.get("refused", 0) == before.get("refused", 0)
    assert most_held_cores(here.mesh) <= CORES


async def has_account(api: KubeApi, namespace: str) -> bool:
    """Return whether a namespace is ready for pods."""
    return "default" in await asyncio.to_thread(api.kubectl, "-n", namespace, "get", "serviceaccounts", "-o", "name")


async def test_job_runs_again_elsewhere_when_its_node_is_removed(bed: Callable[[int], Awaitable[Bed]]) -> None:
    """Its run has failed with the cluster's fault; the runs of other nodes and the job's place are untouched."""
    here = await bed(3)
    ids = await here.submit("removed", 2 * CORES)
    await here.await_counts("removed", running=len(ids))
    places = {job.id: job.runs[-1].node for job in await here.jobs(ids)}
    gone = places[ids[0]]
    struck = {job_id for job_id, node in places.items() if node == gone}
    await asyncio.to_thread(here.api.kubelet.remove_nodes, [gone])

    async def all_run_elsewhere() -> bool:
        jobs = await here.jobs(ids)
        return all(job.state == "running" and job.runs[-1].node != gone for job in jobs)

    await until(all_run_elsewhere)
    for job in await here.jobs(ids):
        if job.id not in struck:
            assert [(run.node, run.state) for run in job.runs] == [(places[job.id], "running")]
            continue
        first, second = job.runs
        assert (first.node, first.state, second.state) == (gone, "failed", "running")
        assert "NodeLost" in first.reason or "node" in first.reason
    events = await here.events("removed", "requeued", count=len(struck))
    assert sorted(event.job_id for event in events if event.kind == "requeued") == sorted(struck)
    assert max((await here.places(ids)).values()) <= CORES

    async def none_is_left() -> bool:
        found = [await asyncio.to_thread(here.pods, job_id) for job_id in struck]
        return all(len(pods) == 1 and pods[0][0] != gone for pods in found)

    await until(none_is_left)


async def test_runs_of_a_node_that_is_cut_off_are_unknown_until_it_is_back(
    bed: Callable[[int], Awaitable[Bed]],
) -> None:
    """Without heartbeats the cluster's own controllers call it unreachable: nothing is placed there, nothing ends.

    Its run is the same one when it is back, and there is room again for who waited.
    """
    here = await bed(2)
    first = await here.submit("cut", 2)
    await here.await_counts("cut", running=2)
    cut = (await here.client.get_job(first[0])).runs[-1].node
    there = [job.id for job in await here.jobs(first) if job.runs[-1].node == cut]
    await asyncio.to_thread(here.api.kubelet.partition, [cut])

    async def is_unknown() -> bool:
        return {job.runs[-1].state for job in await here.jobs(there)} == {"unknown"}

    await until(is_unknown)
    room = CORES - (len(first) - len(there))
    more = await here.submit("late", room + 1)
    await here.await_counts("late", running=room, queued=1)
    (other,) = set(here.nodes) - {cut}
    late = await here.jobs(more)
    assert {job.runs[-1].node for job in late if job.runs} == {other}
    assert [len(job.runs) for job in await here.jobs(first)] == [1, 1]
    await asyncio.to_thread(here.api.kubelet.heal, [cut])

    await here.await_counts("late", running=room + 1)

    async def is_back() -> bool:
        return {job.runs[-1].state for job in await here.jobs(first)} == {"running"}

    await until(is_back)
    assert [[run.attempt for run in job.runs] for job in await here.jobs([*first, *more])] == [[1]] * (room + 3)
    assert await here.places([*first, *more]) == {cut: len(there) + 1, other: CORES}
    events = await here.events("cut", "unknown", count=len(there))
    assert [event.kind for event in events if event.job_id == there[0]][-2:] == ["unknown", "running"]
    assert {event.job_id for event in events if event.kind == "unknown"} == set(there)


async def test_run_is_stopped_without_a_leader_if_its_job_does_not_wait_for_its_executor(
    bed: Callable[[int], Awaitable[Bed]],
) -> None:
    """Pods of the job are gone before anybody leads again, those of others run on; then it gets another run."""
    here = await bed(1)
    document = pod_document(run_time="1h", labels={"bed": here.name})
    drafts = [
        JobDraft(queue=QUEUE, job_set="alone", manifests=(document,), retry=retry)
        for retry in (RetryRules(stop_after_s=2.0), None)
    ]
    stopped, kept = here.job_ids = list(await here.client.submit(drafts))
    await here.await_counts("alone", running=2)
    await asyncio.to_thread(here.mesh.kill, "leader")
    try:

        async def is_gone() -> bool:
            return not await asyncio.to_thread(here.pods, stopped)

        await until(is_gone)
        assert [phase for _, phase in await asyncio.to_thread(here.pods, kept)] == ["Running"]
    finally:
        await asyncio.to_thread(here.mesh.start, "leader")
    await asyncio.to_thread(here.mesh.await_ready)

    async def runs_again() -> bool:
        return [[run.attempt for run in job.runs] for job in await here.jobs([stopped, kept])] == [[1, 2], [1]]

    await until(runs_again)
    await here.await_counts("alone", running=2)


async def test_pod_of_an_operator_submits_children_that_are_cancelled_with_it(
    bed: Callable[[int], Awaitable[Bed]], tmp_path: Path
) -> None:
    """The example of the documentation, its command run with the variables that its pod has in the cluster."""
    here = await bed(1)
    example = yaml.safe_load((Path(__file__).parents[3] / "examples" / "operator.yaml").read_text())
    config, pod = example["spec"]["manifests"]
    container = pod["spec"]["containers"][0]
    part = yaml.safe_load(config["data"]["part.yaml"])
    for manifest in (pod, *part["spec"]["manifests"]):
        manifest.setdefault("metadata", {})["annotations"] = {"argosy.dev/simulated-run-time": "1h"}
        manifest["spec"]["nodeSelector"] = {"bed": here.name}
    (tmp_path / "part.yaml").write_text(yaml.safe_dump(part))
    manifests = json.dumps(config), json.dumps(pod)
    draft = JobDraft(queue=QUEUE, job_set="operator", manifests=manifests, operator=True)
    (parent,) = here.job_ids = list(await here.client.submit([draft]))
    await here.await_counts("operator", running=1)
    shown = await asyncio.to_thread(here.api.kubectl, "get", "pods", "-A", "-o", "json", "-l", f"{JOB_LABEL}={parent}")
    told = {one["name"]: one["value"] for one in json.loads(shown)["items"][0]["spec"]["containers"][0]["env"]}
    assert told == {"ARGOSY_PARENT_ID": parent, "ARGOSY_QUEUE": QUEUE}
    command = container["args"][0].replace("/etc/operator", str(tmp_path)).replace(" --wait", "")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    submitting = await asyncio.create_subprocess_exec(
        *container["command"], command, env={**os.environ, **told, "PATH": path, "ARGOSY_SERVER": here.mesh.server}
    )
    assert await submitting.wait() == 0
    await here.await_counts("parts", running=part["count"])
    selector = JobSelector(queue=QUEUE, label_selector=f"argosy.dev/parent={parent}")
    children = [job async for job in here.client.list_jobs(selector)]
    assert [(job.job_set, job.parent) for job in children] == [("parts", Parent(job_id=parent))] * part["count"]
    await here.client.cancel_jobs([parent])
    await here.await_counts("parts", cancelled=part["count"])

    async def none_is_left() -> bool:
        return not any([await asyncio.to_thread(here.pods, job.id) for job in children])

    await until(none_is_left)


async def test_cluster_agent_watches_pods_once_where_two_processes_do_twice(
    bed: Callable[[int], Awaitable[Bed]], tmp_path: Path
) -> None:
    """The API server counts its watches of pods: one for the agent's process, which samples and executes."""
    here = await bed(1)
    mesh, api = here.mesh, here.api

    async def watches() -> int:
        text = await asyncio.to_thread(api.kubectl, "get", "--raw", "/metrics")
        return round(sum(float(value) for value in WATCHED_PODS.findall(text)))

    async def are(count: int) -> None:
        async def is_so() -> bool:
            return await watches() == count

        await until(is_so, lambda: f"not {count} watches of pods")

    ids = await here.submit("apart", 1, run_time="0.2s")
    await here.follow("apart")
    apart = await watches()
    for role in (SAMPLER, EXECUTOR):
        await asyncio.to_thread(mesh.kill, role)
    await are(apart - 2)
    arguments = [
        *(sys.executable, "-m", "argosy_cluster_agent"),
        *("--cluster", "lab"),
        *("--cluster-address", f"kubernetes:{api.kubeconfig}"),
        *("--server-addresses", mesh.address("leader")),
        *("--grpc-listen", "127.0.0.1:0"),
    ]
    agent = spawn(arguments, log=tmp_path / "agent.log")
    try:
        for job_set in ("combined", "combined-again"):
            ids = await here.submit(job_set, 2 * CORES, run_time="0.2s")
            events = await here.follow(job_set)
            assert sum(event.kind == "succeeded" for event in events) == len(ids)
            await are(apart - 1)  # one that is opened anew is counted twice, or not, for a moment
    finally:
        await asyncio.to_thread(end_process, agent)
        for role in (SAMPLER, EXECUTOR):
            await asyncio.to_thread(mesh.start, role)
        await asyncio.to_thread(mesh.await_ready)
    await are(apart)

"""`argosy up --secure` as its user sees it, and tenants and a cluster on it that mean others harm."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import psycopg
import pytest

from argosy.channel_credentials import ChannelCredentials, open_aio_channel
from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_client import ArgosyClient, ChangeResult, JobDraft, JobSelector, Queue
from argosy_core.access import ClusterPart, Grant, Verb
from argosy_core.errors import NotAuthenticated, NotFound, NotPermitted
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_runtime.joining import JoinSettings, Membership
from argosy_store.terms.ended_sessions import list_ended_sessions
from argosy_testkit.hostile_run import good_calls

ROOT: Final = Path(__file__).resolve().parents[3]
TENANTS: Final = ("red", "blue", "mallory")
LIMIT_S: Final = 120.0
UID: Final = "uid-of-c3"
POD: Final = """{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"annotations":
{{"argosy.dev/simulated-run-time": "{seconds}"}}}}, "spec": {{"securityContext": {{"runAsNonRoot": true,
"runAsUser": 65534, "seccompProfile": {{"type": "RuntimeDefault"}}}}, "containers": [{{"name": "main",
"image": "busybox", "securityContext": {{"allowPrivilegeEscalation": false, "capabilities": {{"drop": ["ALL"]}}}},
"resources": {{"requests": {{"cpu": "1", "memory": "1Gi"}}, "limits": {{"cpu": "1", "memory": "1Gi"}}}}}}]}}}}"""


@dataclass(frozen=True)
class User:
    """A user at a terminal, whose home is empty."""

    home: Path

    def types(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints; it must end with the code."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARGOSY_", "XDG_CONFIG"))}
        done = subprocess.run(
            [sys.executable, "-m", "argosy_cli", *arguments],
            env={**kept, "HOME": str(self.home)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Give a user; what they started ends with the test."""
    one = User(tmp_path)
    yield one
    one.types("down", "--purge", "-y")


def test_one_command_makes_a_secured_mesh_and_one_leaves_nothing_of_it(user: User) -> None:
    """The first job runs by the same lines as without, and strangers are refused.

    A stopped mesh goes on with its jobs on the same port, as large as it was and secured; only `down --purge` removes
    it.
    """
    assert "context 'local'" in user.types("up", "--secure", "--port", "0", "--clusters", "1", "--nodes", "2")
    config = user.home / ".config" / "argosy" / "config.toml"
    assert "contexts.local" in config.read_text()
    user.types("queue", "create", "science", "--namespace", "default")
    user.types("submit", "-f", "examples/job.yaml", "--queue", "science", "--job-set", "first", "--count", "4")
    assert "succeeded" in user.types("watch", "science", "first")
    port = config.read_text().split("127.0.0.1:")[1].split('"')[0]
    user.types("--server", f"127.0.0.1:{port}", "whoami", code=4)
    user.types("queue", "cordon", "science")
    user.types("submit", "-f", "examples/job.yaml", "--queue", "science", "--job-set", "night", "--count", "2")
    user.types("down")
    assert "contexts.local" not in config.read_text()
    user.types("shares", code=4)  # nobody to ask
    user.types("down", "--purge", code=2)  # never without a terminal or --yes
    user.types("up", "--database-url", "host=x", code=1)  # another mesh than the one that is there
    assert "as before: --clusters 1 --nodes 2 --secure" in user.types("up")
    assert f"127.0.0.1:{port}" in config.read_text()
    user.types("queue", "uncordon", "science")
    assert "succeeded" in user.types("watch", "science", "night")
    user.types("down", "--purge", "-y")
    assert "contexts.local" not in config.read_text()
    assert not [path for path in (user.home / ".argosy").rglob("*") if path.is_file()]


@dataclass(frozen=True)
class Tenancy:
    """A secured mesh with two tenants, a third who means harm, and a client for each."""

    mesh: Mesh
    clients: dict[str, ArgosyClient]


@pytest.fixture
async def tenancy(tmp_path: Path) -> AsyncIterator[Tenancy]:
    """Give two clusters of eight cores each, and a queue for each tenant, granted to its owner alone."""
    mesh = Mesh(tmp_path / "mesh")
    clusters = tuple(ClusterPlan(name=name, kinds="2:cpu=4,memory=16Gi") for name in ("c1", "c2"))
    flags = {"server": ("--leader-round-non-preemptible-excess-ratio", "1e9")}
    try:
        await asyncio.to_thread(mesh.up, MeshPlan(clusters=clusters, secure=True, flags=flags))
        assert mesh.secrets is not None
        tokens = {name: mesh.secrets.add_token(name) for name in TENANTS}
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(mesh.open_client())
            clients = {"admin": admin}
            for name in TENANTS:
                await admin.create_queue(Queue(name=name))
                await admin.add_grants([Grant(subject=f"user:{name}", queue=name, verb=verb) for verb in Verb])
                own = replace(mesh.credentials, token_file=str(tokens[name]))
                clients[name] = await stack.enter_async_context(ArgosyClient(mesh.server, credentials=own))
                await known(clients[name])
            yield Tenancy(mesh, clients)
    finally:
        await asyncio.to_thread(mesh.down)


async def known(client: ArgosyClient) -> None:
    """Return once the server has read the file of tokens again."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await client.who_am_i()
            except NotAuthenticated:
                await asyncio.sleep(0.1)
            else:
                return


async def submit(client: ArgosyClient, queue: str, count: int, *, seconds: float) -> list[str]:
    """Submit jobs of one core."""
    manifest = POD.format(seconds=seconds)
    draft = JobDraft(queue=queue, job_set="work", manifests=(manifest,))
    return list(await client.submit([draft] * count))


async def ended(client: ArgosyClient, queue: str) -> dict[str, int]:
    """Return the states of a job set's jobs once all have ended."""
    async with asyncio.timeout(LIMIT_S):
        return dict([batch async for batch in client.watch(queue, "work", until_finished=True)][-1].state_counts)


async def test_hostile_tenant_neither_sees_nor_slows_nor_ends_the_work_of_others(tenancy: Tenancy) -> None:
    """With all cores taken by a flood, and everything tried, two tenants' jobs succeed while the flood still waits."""
    clients, mallory = tenancy.clients, tenancy.clients["mallory"]
    await submit(mallory, "mallory", 1000, seconds=1.0)
    jobs = {name: await submit(clients[name], name, 24, seconds=0.5) for name in ("red", "blue")}
    working = [asyncio.ensure_future(ended(clients[name], name)) for name in jobs]
    tries = 0
    while not all(work.done() for work in working):
        await try_everything(mallory, jobs["red"] + jobs["blue"])
        tries += 1
    assert [work.result() for work in working] == [{"succeeded": 24}] * 2
    assert tries > 0
    shares = {one.queue: one for one in (await clients["admin"].get_shares()).shares}
    assert shares["mallory"].queued_count > 0
    for name, ids in jobs.items():
        for job in (await clients[name].get_jobs(ids))[0]:
            assert (job.state, job.submitter, len(job.runs)) == ("succeeded", name, 1)


async def try_everything(mallory: ArgosyClient, theirs: list[str]) -> None:
    """Try to see, end, hold, overtake and replace the work of others; nothing of it may work."""
    target = JobSelector(queue="red")
    draft = JobDraft(queue="red", job_set="work", manifests=(POD.format(seconds=1),))
    admin = Grant(subject="user:mallory", queue="", verb="admin")
    tries: list[Any] = [
        mallory.get_queue("red"),
        mallory.get_job(theirs[0]),
        mallory.submit([draft]),
        mallory.delete_queue("blue"),
        mallory.add_grants([admin]),
        mallory.get_last_round(),
        mallory.cordon_cluster("c1"),
        mallory.invite_cluster("c1"),
        mallory.revoke_cluster("c1"),
        anext(aiter(mallory.watch("red", "work"))),
        anext(aiter(mallory.dump_state())),
        anext(aiter(mallory.list_clusters())),
        anext(aiter(mallory.list_audit_records())),
    ]
    for answer in await asyncio.gather(*tries, return_exceptions=True):
        assert isinstance(answer, NotFound | NotPermitted), answer
    for change in (
        mallory.cancel_jobs(theirs),
        mallory.cancel_jobs(target),
        mallory.preempt_jobs(theirs),
        mallory.hold_jobs(target),
    ):
        (answer,) = await asyncio.gather(change, return_exceptions=True)
        nothing = isinstance(answer, ChangeResult) and answer.job_count == 0
        assert nothing or isinstance(answer, NotFound | NotPermitted), answer
    assert {job.queue async for job in mallory.list_jobs(JobSelector(states=("running",)))} <= {"mallory"}


async def test_hostile_cluster_speaks_for_no_other(tenancy: Tenancy) -> None:
    """Who holds one cluster's key is refused as another, as a server and as a user, and the other's jobs go on."""
    mesh, red = tenancy.mesh, tenancy.clients["red"]
    assert mesh.secrets is not None
    folder = mesh.secrets.folder
    rogue = ChannelCredentials(
        authority_file=str(folder / "authority.pem"),
        certificate_file=str(folder / "cluster-c1.pem"),
        key_file=str(folder / "cluster-c1.key"),
    )
    await submit(red, "red", 16, seconds=1.0)
    async with open_aio_channel(mesh.address("leader"), rogue, []) as channel:
        as_executor = executor_pb2.Hello(cluster="c2", cluster_uid="x", process_id=bytes(16), pool="default")
        as_sampler = sampler_pb2.Hello(cluster="c2", cluster_uid="x", process_id=bytes(16), pool="default")
        sync, session = (
            executor_pb2_grpc.ExecutorServiceStub(channel).Sync,
            sampler_pb2_grpc.SamplerServiceStub(channel),
        )
        for call in (
            sync(iter([executor_pb2.SyncRequest(hello=as_executor)]), timeout=LIMIT_S),
            session.Session(iter([sampler_pb2.SessionRequest(hello=as_sampler)]), timeout=LIMIT_S),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
    async with ArgosyClient(mesh.address("leader"), credentials=rogue) as client:
        with pytest.raises(NotPermitted):
            await anext(aiter(client.list_clusters()))
    assert await ended(red, "red") == {"succeeded": 16}
    names = [cluster async for cluster in tenancy.clients["admin"].list_clusters()]
    assert [(one.name, one.executor_connected, one.sampler_connected) for one in names] == [
        ("c1", True, True),
        ("c2", True, True),
    ]


async def test_compromised_cluster_harms_no_other_and_is_out_once_it_is_revoked(
    tenancy: Tenancy, tmp_path: Path
) -> None:
    """It was invited, and says what it likes: of runs that are not its own nothing is applied, what cannot be true ends
    its session, which operators are told, and a revocation ends it within seconds; the others' jobs go on.
    """
    mesh, red, admin = tenancy.mesh, tenancy.clients["red"], tenancy.clients["admin"]
    invitation = await admin.invite_cluster("c3", max_capacity={"cpu": 4000})
    (tmp_path / "invitation").write_text(invitation.token)
    executor, sampler = (joining(mesh, tmp_path, part) for part in (ClusterPart.EXECUTOR, ClusterPart.SAMPLER))
    await executor.join(UID)
    await sampler.join(UID)
    jobs = await submit(red, "red", 32, seconds=2.0)
    working = asyncio.ensure_future(ended(red, "red"))
    known: dict[str, Any] = {"cluster": "c3", "cluster_uid": UID, "process_id": bytes(15) + b"3", "pool": "default"}
    about_nodes = sampler_pb2.SessionRequest(hello=sampler_pb2.Hello(**known))
    async with open_aio_channel(mesh.address("leader"), sampler.credentials, []) as channel:
        for untruth in NODE_LIES:
            await is_thrown_out(sampler_pb2_grpc.SamplerServiceStub(channel).Session(), about_nodes, untruth)
        too_large = nodes_of(allocatable_column=[2**62] * 4)
        stub = sampler_pb2_grpc.SamplerServiceStub(channel)
        await is_thrown_out(stub.Session(), about_nodes, too_large, grpc.StatusCode.ABORTED)  # by the leader machine
        await counts_no_more_than_was_said(stub, about_nodes, admin)
    async with open_aio_channel(mesh.address("leader"), executor.credentials, []) as channel:
        sync = executor_pb2_grpc.ExecutorServiceStub(channel).Sync
        hello = executor_pb2.SyncRequest(hello=executor_pb2.Hello(**known))
        for lie in LIES:
            await is_thrown_out(sync(), hello, lie)
        handles = await asyncio.to_thread(handles_of, mesh.database_url)
        session = await welcomed(sync(), hello)
        batch = 0
        while not working.done():  # the others' runs, which it has heard of, in every state
            for state in range(1, 9):
                batch += 1
                await session.write(executor_pb2.SyncRequest(states=states_of(batch, handles, state)))
            await asyncio.sleep(0.05)
        assert working.result() == {"succeeded": 32}
        for job in (await red.get_jobs(jobs))[0]:
            assert [(run.state, run.cluster in {"c1", "c2"}) for run in job.runs] == [("succeeded", True)]
        assert batch > 0
        await admin.revoke_cluster("c3")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await to_the_end(session)  # though it says nothing more
        assert refused.value.code() in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
    told = await asyncio.to_thread(list_ended_sessions, mesh.database_url)
    roles = ["sampler"] * (len(NODE_LIES) + 1) + ["executor"] * len(LIES)
    assert [(one.cluster, one.role) for one in told] == [("c3", role) for role in roles]
    async with asyncio.timeout(LIMIT_S):
        while await connected(admin) != {"c1": (True, 2), "c2": (True, 2), "c3": (False, 2)}:  # noqa: ASYNC110 - see below
            await asyncio.sleep(0.05)


async def connected(admin: ArgosyClient) -> dict[str, tuple[bool, int]]:
    """Return of each cluster whether its executor is connected, and how many nodes it has; only calls tell."""
    return {one.name: (one.executor_connected, one.node_count) async for one in admin.list_clusters()}


def joining(mesh: Mesh, folder: Path, part: ClusterPart) -> Membership:
    """Return a process of the cluster c3 that has an invitation."""
    return Membership(
        JoinSettings(folder=str(folder), token_file=str(folder / "invitation"), address=mesh.server),
        ChannelCredentials(authority_file=mesh.credentials.authority_file),
        cluster="c3",
        part=part,
        server_addresses=[mesh.address("leader")],
    )


async def is_thrown_out(
    session: Any, hello: Any, lie: Any, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT
) -> None:
    """Say something in a session that is welcomed; it must end, with the reason that it is wrong."""
    await welcomed(session, hello)
    await session.write(lie)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await to_the_end(session)
    assert caught.value.code() == code, lie


async def counts_no_more_than_was_said(stub: Any, hello: Any, admin: ArgosyClient) -> None:
    """Tell more than an administrator said that the cluster has: it does not count, and is in the audit."""
    session = await welcomed(stub.Session(), hello)
    await session.write(nodes_of(total_column=[2**60] * 2, total_free_column=[2**60] * 2))
    async with asyncio.timeout(LIMIT_S):
        while True:
            shown = await admin.get_cluster("c3")
            noted = [one.detail async for one in admin.list_audit_records(name="c3") if "4000 count" in one.detail]
            if shown.told and noted:
                break
            await asyncio.sleep(0.05)
    assert (shown.total["cpu"], shown.free["cpu"], shown.max_capacity) == (4000, 4000, {"cpu": 4000})
    assert set(shown.told.values()) == {2**60}
    assert max(shown.total.values()) < 2**55
    session.cancel()


def handles_of(url: str) -> list[int]:
    """Return the handles of all jobs."""
    with psycopg.connect(url) as connection:
        return [handle for (handle,) in connection.execute("SELECT handle FROM jobs")]


def states_of(batch: int, handles: Sequence[int], state: int) -> executor_pb2.StateBatch:
    """Return a batch that says the first attempts of jobs are in a state."""
    count = len(handles)

    def column(code: str, values: Sequence[int]) -> bytes:
        return np.array(values, dtype=code).tobytes()

    return executor_pb2.StateBatch(
        batch=batch,
        handle_column=column("<i8", handles),
        attempt_column=column("<i4", [1] * count),
        object_column=column("<i2", [0] * count),
        state_column=column("i1", [state] * count),
        time_us_column=column("<i8", [1_700_000_000_000_000] * count),
        exit_code_column=column("<i4", [1] * count),
        failure_column=column("i1", [0] * count),
        message_column=column("<i4", [-1] * count),
        uid_column=bytes(16 * count),
    )


LIES: Final = (
    executor_pb2.SyncRequest(states=states_of(1, range(1, 50), 99)),
    executor_pb2.SyncRequest(states=states_of(1, [-1], 4)),
    executor_pb2.SyncRequest(hello=executor_pb2.Hello(cluster="c2")),
    executor_pb2.SyncRequest(log_end=executor_pb2.LogEnd(request=-5)),
    executor_pb2.SyncRequest(seen=executor_pb2.SeenRuns(handle_column=b"x", attempt_column=b"yy")),
)
"""What no executor says: states and runs that there cannot be, another's name, a wrong number, half a column."""


def nodes_of(**changes: Any) -> sampler_pb2.SessionRequest:
    """Return a message about two nodes, with something else in the place of what would be right."""
    messages: Sequence[Any] = good_calls()[SESSION]
    (good,) = [message for message in messages if message.HasField("capacity")]
    capacity = sampler_pb2.Capacity()
    capacity.CopyFrom(good.capacity)
    for name, value in changes.items():
        setattr(
            capacity, name, np.array(value, dtype="<i4" if name in {"node_column", "group_column"} else "<i8").tobytes()
        )
    return sampler_pb2.SessionRequest(capacity=capacity)


SESSION: Final = "/argosy.sampler.v1.SamplerService/Session"
NODE_LIES: Final = (
    nodes_of(allocatable_column=[2**62 + 1] * 4),
    nodes_of(total_column=[2**60 + 1] * 2),
    nodes_of(total_free_column=[-1, 8]),
    nodes_of(node_column=[0, 0]),
    nodes_of(group_column=[0, 7]),
    sampler_pb2.SessionRequest(hello=sampler_pb2.Hello(cluster="c2")),
)
"""What no sampler says: amounts that no node has, nodes that were not named, one twice, another's name."""


async def welcomed(session: Any, hello: Any) -> Any:
    """Return a session once it is welcomed."""
    await session.write(hello)
    async with asyncio.timeout(LIMIT_S):
        assert (await session.read()).HasField("welcome")
    return session


async def to_the_end(session: Any) -> None:
    """Read what a session answers until it ends."""
    async with asyncio.timeout(LIMIT_S):
        while await session.read() is not grpc.aio.EOF:
            pass

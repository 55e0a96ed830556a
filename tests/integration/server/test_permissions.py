"""The matrix of permissions: every method, called by everybody, about what is theirs, another's and not there.

What is allowed is asked of the table here, which is written by hand and has a line for every method; whether a method
that is not allowed tells something, of comparing the answers about another's object and about one that is absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import yaml
from google.protobuf.field_mask_pb2 import FieldMask
from prometheus_client import generate_latest

from argosy.api.v1 import access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy.channel_credentials import hash_token
from argosy.debug.v1 import debug_pb2
from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_core.access import Principal, Role, Verb
from argosy_core.errors import QuotaExceeded
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.access.quotas import QuotaSettings
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.grpc_server import GrpcSettings
from argosy_server.api.rules import RULES

DENIED = grpc.StatusCode.PERMISSION_DENIED
HIDDEN = grpc.StatusCode.NOT_FOUND
OWN, OTHERS, ABSENT = "red", "blue", "green"
ROLES: Mapping[str, frozenset[str]] = {
    "admin": frozenset(Verb),
    "operator": frozenset(Verb) - {"submit", "edit"},
    "auditor": frozenset({"watch"}),
    "impersonator": frozenset(),
}
CALLERS = (*ROLES, *(f"may-{verb}" for verb in Verb), "stranger", "west")
OVERSEERS = frozenset({"admin", "operator", "auditor"})
OPERATORS = frozenset({"admin", "operator"})
ADMINS = frozenset({"admin"})


@dataclass(frozen=True, slots=True)
class Place:
    """What a request is about."""

    queue: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Case:
    """A method: who may call it, and a request about a place."""

    make: Callable[[Place], Any]
    roles: frozenset[str] = frozenset()
    verb: str = ""
    anyone: bool = False
    hides: bool = True
    """Whether another's object is not there for callers who hold the verb on their own queue only."""


def ids(place: Place) -> Any:
    """Return a target of one job."""
    return job_pb2.JobIds(ids=[place.job_id])


def selector(place: Place) -> Any:
    """Return the jobs of a queue."""
    return job_pb2.JobSelector(queue=place.queue)


def submit(place: Place) -> Any:
    """Return a submit of one job."""
    item = job_pb2.JobItem(queue=place.queue, job_set="one")
    return job_pb2.SubmitJobsRequest(specs=[job_pb2.JobSpec(manifests=[MANIFEST])], items=[item], validate_only=True)


MANIFEST = """{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{
"name": "main", "image": "busybox",
"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""
GRANT = access_pb2.Grant(subject="user:nobody", queue="", verb="auditor")
API = "/argosy.api.v1."
CASES: Mapping[str, Case] = {
    f"{API}AccessService/WhoAmI": Case(lambda _: access_pb2.WhoAmIRequest(), anyone=True),
    f"{API}AccessService/AddGrants": Case(lambda _: access_pb2.AddGrantsRequest(grants=[GRANT]), ADMINS),
    f"{API}AccessService/RemoveGrants": Case(lambda _: access_pb2.RemoveGrantsRequest(grants=[GRANT]), ADMINS),
    f"{API}AccessService/ListGrants": Case(lambda _: access_pb2.ListGrantsRequest(), OVERSEERS),
    f"{API}AccessService/ListAuditRecords": Case(lambda _: access_pb2.ListAuditRecordsRequest(), OVERSEERS),
    f"{API}AccessService/InviteCluster": Case(lambda _: access_pb2.InviteClusterRequest(name="No"), ADMINS),
    f"{API}AccessService/JoinCluster": Case(lambda _: access_pb2.JoinClusterRequest(), frozenset({"west"})),
    f"{API}AccessService/RevokeCluster": Case(lambda _: access_pb2.RevokeClusterRequest(name="No"), ADMINS),
    f"{API}QueueService/CreateQueue": Case(
        lambda p: queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name=p.queue, weight=-1.0)), ADMINS
    ),
    f"{API}QueueService/GetQueue": Case(lambda p: queue_pb2.GetQueueRequest(name=p.queue), anyone=True),
    f"{API}QueueService/ListQueues": Case(lambda _: queue_pb2.ListQueuesRequest(), anyone=True),
    f"{API}QueueService/UpdateQueue": Case(
        lambda p: queue_pb2.UpdateQueueRequest(
            queue=queue_pb2.Queue(name=p.queue, etag="old"), update_mask=FieldMask(paths=["max_queued_count"])
        ),
        verb="edit",
    ),
    f"{API}QueueService/DeleteQueue": Case(lambda p: queue_pb2.DeleteQueueRequest(name=p.queue), ADMINS),
    f"{API}QueueService/CordonQueue": Case(
        lambda p: queue_pb2.CordonQueueRequest(name=p.queue), frozenset({"operator"}), "edit"
    ),
    f"{API}QueueService/UncordonQueue": Case(
        lambda p: queue_pb2.UncordonQueueRequest(name=p.queue), frozenset({"operator"}), "edit"
    ),
    f"{API}QueueService/GetQueuePolicy": Case(lambda p: queue_pb2.GetQueuePolicyRequest(name=p.queue), anyone=True),
    f"{API}QueueService/SetQueuePolicy": Case(lambda p: queue_pb2.SetQueuePolicyRequest(name=p.queue), ADMINS),
    f"{API}JobService/SubmitJobs": Case(submit, verb="submit"),
    f"{API}JobService/GetJob": Case(lambda p: job_pb2.GetJobRequest(id=p.job_id), verb="watch"),
    f"{API}JobService/BatchGetJobs": Case(
        lambda p: job_pb2.BatchGetJobsRequest(ids=[p.job_id]), verb="watch", hides=False
    ),
    f"{API}JobService/ListJobs": Case(lambda p: job_pb2.ListJobsRequest(selector=selector(p)), verb="watch"),
    f"{API}JobService/ListJobSets": Case(lambda p: job_pb2.ListJobSetsRequest(queue=p.queue), verb="watch"),
    f"{API}JobService/CancelJobs": Case(
        lambda p: job_pb2.CancelJobsRequest(jobs=ids(p), validate_only=True), verb="cancel", hides=False
    ),
    f"{API}JobService/ReprioritizeJobs": Case(
        lambda p: job_pb2.ReprioritizeJobsRequest(selector=selector(p), validate_only=True), verb="reprioritize"
    ),
    f"{API}JobService/HoldJobs": Case(
        lambda p: job_pb2.HoldJobsRequest(jobs=ids(p), validate_only=True), verb="reprioritize", hides=False
    ),
    f"{API}JobService/ReleaseJobs": Case(
        lambda p: job_pb2.ReleaseJobsRequest(selector=selector(p), validate_only=True), verb="reprioritize"
    ),
    f"{API}JobService/PreemptJobs": Case(
        lambda p: job_pb2.PreemptJobsRequest(selector=selector(p), validate_only=True), verb="preempt"
    ),
    f"{API}JobService/PlanJobs": Case(lambda p: job_pb2.PlanJobsRequest(submission=submit(p)), verb="submit"),
    f"{API}JobService/ExplainJob": Case(lambda p: job_pb2.ExplainJobRequest(id=p.job_id), verb="watch"),
    f"{API}JobService/BatchGetJobStages": Case(
        lambda p: job_pb2.BatchGetJobStagesRequest(ids=[p.job_id]), verb="watch", hides=False
    ),
    f"{API}JobService/ListPendingJobs": Case(
        lambda p: job_pb2.ListPendingJobsRequest(selector=selector(p)), verb="watch"
    ),
    f"{API}JobService/GetJobLog": Case(lambda p: job_pb2.GetJobLogRequest(id=p.job_id), verb="watch"),
    f"{API}EventService/WatchJobSet": Case(
        lambda p: event_pb2.WatchJobSetRequest(queue=p.queue, job_set="none"), verb="watch"
    ),
    f"{API}ClusterService/ListClusters": Case(lambda _: cluster_pb2.ListClustersRequest(), OVERSEERS),
    f"{API}ClusterService/GetCluster": Case(lambda _: cluster_pb2.GetClusterRequest(name="x"), OVERSEERS),
    f"{API}ClusterService/ListNodes": Case(lambda _: cluster_pb2.ListNodesRequest(cluster="x"), OVERSEERS),
    f"{API}ClusterService/ListScaledPods": Case(lambda _: cluster_pb2.ListScaledPodsRequest(cluster="x"), OVERSEERS),
    f"{API}ClusterService/CordonCluster": Case(lambda _: cluster_pb2.CordonClusterRequest(name="x"), OPERATORS),
    f"{API}ClusterService/UncordonCluster": Case(lambda _: cluster_pb2.UncordonClusterRequest(name="x"), OPERATORS),
    f"{API}ClusterService/DelegateCluster": Case(
        lambda _: cluster_pb2.DelegateClusterRequest(name="x", delegated=True), OPERATORS
    ),
    f"{API}ClusterService/CordonNode": Case(lambda _: cluster_pb2.CordonNodeRequest(cluster="x", node="n"), OPERATORS),
    f"{API}ClusterService/UncordonNode": Case(
        lambda _: cluster_pb2.UncordonNodeRequest(cluster="x", node="n"), OPERATORS
    ),
    f"{API}ClusterService/SetMaxCapacity": Case(lambda _: cluster_pb2.SetMaxCapacityRequest(name="x"), ADMINS),
    f"{API}ClusterService/ForgetCluster": Case(lambda _: cluster_pb2.ForgetClusterRequest(name="x"), ADMINS),
    f"{API}SchedulingService/GetShares": Case(lambda _: scheduling_pb2.GetSharesRequest(), anyone=True),
    f"{API}SchedulingService/FindMissing": Case(
        lambda _: scheduling_pb2.FindMissingRequest(), verb="submit", hides=False
    ),
    f"{API}SchedulingService/GetPoolSettings": Case(lambda _: scheduling_pb2.GetPoolSettingsRequest(), OVERSEERS),
    f"{API}SchedulingService/SetPoolSettings": Case(lambda _: scheduling_pb2.SetPoolSettingsRequest(), ADMINS),
    f"{API}SchedulingService/ListPoolSettings": Case(lambda _: scheduling_pb2.ListPoolSettingsRequest(), OVERSEERS),
    f"{API}SchedulingService/GetLastRound": Case(lambda _: scheduling_pb2.GetLastRoundRequest(), OVERSEERS),
    f"{API}ServerService/GetServerInfo": Case(lambda _: server_pb2.GetServerInfoRequest(), anyone=True),
    "/argosy.debug.v1.DebugService/DumpState": Case(lambda _: debug_pb2.DumpStateRequest(), OVERSEERS),
    "/argosy.executor.v1.ExecutorService/Sync": Case(lambda _: executor_pb2.SyncRequest(), frozenset({"west"})),
    "/argosy.sampler.v1.SamplerService/Session": Case(lambda _: sampler_pb2.SessionRequest(), frozenset({"west"})),
}


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


async def answer(channel: grpc.aio.Channel, path: str, request: Any, caller: str) -> tuple[grpc.StatusCode, str]:
    """Return code and text with which a call ends; streams are asked for their first answer."""
    call = channel.unary_stream(path)(request.SerializeToString(), metadata=bearer(caller), timeout=10)
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    else:
        return grpc.StatusCode.OK, ""
    finally:
        call.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A server with two tenants' queues and jobs."""

    channel: grpc.aio.Channel
    api: Any
    places: Mapping[str, Place]


@pytest.fixture
async def mesh(serve: Any, database_url: str, tmp_path: Path) -> AsyncIterator[Mesh]:
    """Give a server in which every caller has a token, every role a holder, and each verb on red one."""
    entries: list[dict[str, Any]] = [{"name": name, "sha256": hash_token(name)} for name in CALLERS if name != "west"]
    entries += [{"cluster": "west", "sha256": hash_token("west")}, {"name": "root", "sha256": hash_token("root")}]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(tokens_file=str(tmp_path / "tokens.yaml"), admins=("user:root",))
    # Every role at one place: the leader's own services are there, and nobody leads, so its memory is UNAVAILABLE.
    async with serve(
        database_url, role="api", access=access, grpc=GrpcSettings(listen="127.0.0.1:0", calls_per_s=0.0)
    ) as api:
        root = {"metadata": bearer("root")}
        for name in (OWN, OTHERS):
            queue = queue_pb2.Queue(name=name, namespaces=["default"])
            await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), **root)
        grants = [access_pb2.Grant(subject=f"user:{role}", verb=role) for role in Role]
        grants += [access_pb2.Grant(subject=f"user:may-{verb}", queue=OWN, verb=verb) for verb in Verb]
        grants.append(access_pb2.Grant(subject="user:root", queue=OWN, verb="submit"))
        await api.access.AddGrants(access_pb2.AddGrantsRequest(grants=grants), **root)
        jobs = {}
        for name in (OWN, OTHERS):
            request = submit(Place(name, ""))
            request.validate_only = False
            jobs[name] = (await api.jobs.SubmitJobs(request, **root)).job_ids[0]
        other = jobs[OTHERS]
        jobs[ABSENT] = ("0" if other[0] != "0" else "1") + other[1:]
        yield Mesh(channel=api.channel, api=api, places={name: Place(name, jobs[name]) for name in jobs})


def is_allowed(case: Case, caller: str) -> bool:
    """Return whether a caller may call a method about what is its own."""
    if case.anyone or caller in case.roles:
        return True
    return bool(case.verb) and (case.verb in ROLES.get(caller, ()) or caller == f"may-{case.verb}")


def test_the_matrix_has_a_line_for_every_method_of_the_table() -> None:
    """A method that gets a rule gets a line here, else this fails."""
    assert set(CASES) == {path for path in RULES if not path.startswith("/grpc.")}


async def test_every_method_answers_everybody_as_the_table_says(mesh: Mesh) -> None:
    """Allowed or refused with the right code; of another's object nobody learns whether it is there."""
    wrong: list[str] = []

    async def check(path: str, case: Case, caller: str) -> None:
        own, others, absent = [
            await answer(mesh.channel, path, case.make(mesh.places[name]), caller) for name in (OWN, OTHERS, ABSENT)
        ]
        if path in LEADERLESS:
            return
        said = f"{path} by {caller}: own {own}, other's {others}, absent {absent}"
        if not is_allowed(case, caller):
            wrong.extend([said] if {own[0], others[0], absent[0]} != {DENIED} else [])
        elif own[0] in {DENIED, grpc.StatusCode.UNAUTHENTICATED}:
            wrong.append(said)
        elif case.verb and caller.startswith("may-"):
            said_of = [
                (code, text.replace(mesh.places[name].job_id, "X").replace(name, "X"))
                for (code, text), name in ((others, OTHERS), (absent, ABSENT))
            ]
            if said_of[0] != said_of[1] or (case.hides and others[0] != HIDDEN):
                wrong.append(said)

    for path, case in CASES.items():
        await asyncio.gather(*(check(path, case, caller) for caller in CALLERS))
    assert wrong == []


LEADERLESS = frozenset({"/argosy.executor.v1.ExecutorService/Sync", "/argosy.sampler.v1.SamplerService/Session"})
"""Methods that a process without the leader role does not serve; tests/integration/server/test_access.py has them."""


async def test_lists_show_what_the_caller_may_see(mesh: Mesh) -> None:
    """Queues, jobs of all queues and jobs by id: another's are not among them."""
    mine = {"metadata": bearer("may-watch")}
    ids_of_both = [mesh.places[OWN].job_id, mesh.places[OTHERS].job_id]
    queues = await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), **mine)
    jobs = await mesh.api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=job_pb2.JobSelector()), **mine)
    found = await mesh.api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=ids_of_both), **mine)
    assert [queue.name for queue in queues.queues] == [OWN]
    assert [job.queue for job in jobs.jobs] == [OWN]
    assert ([job.queue for job in found.jobs], list(found.unknown_ids)) == ([OWN], ids_of_both[1:])
    everything = await mesh.api.jobs.ListJobs(
        job_pb2.ListJobsRequest(selector=job_pb2.JobSelector()), metadata=bearer("auditor")
    )
    assert {job.queue for job in everything.jobs} == {OWN, OTHERS}


async def test_change_touches_what_the_caller_may_touch(mesh: Mesh) -> None:
    """Of two jobs one's own is cancelled; the other's is unknown, and goes on."""
    both = job_pb2.JobIds(ids=[mesh.places[OWN].job_id, mesh.places[OTHERS].job_id])
    outcome = await mesh.api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=both), metadata=bearer("may-cancel"))
    assert (outcome.job_count, list(outcome.unknown_ids)) == (1, [mesh.places[OTHERS].job_id])
    request = job_pb2.GetJobRequest(id=mesh.places[OTHERS].job_id)
    other = await mesh.api.jobs.GetJob(request, metadata=bearer("auditor"))
    assert other.job.state == job_pb2.JOB_STATE_QUEUED


async def test_who_sees_a_job_is_told_that_more_is_needed_to_cancel_it(mesh: Mesh) -> None:
    """What one sees and may not touch is refused by name, not hidden."""
    add = access_pb2.AddGrantsRequest(grants=[access_pb2.Grant(subject="user:stranger", queue=OWN, verb="watch")])
    add.grants.add(subject="user:stranger", queue=OTHERS, verb="cancel")
    await mesh.api.access.AddGrants(add, metadata=bearer("root"))
    request = job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[mesh.places[OWN].job_id]))
    with pytest.raises(grpc.aio.AioRpcError, match="needs cancel on queue red"):
        await mesh.api.jobs.CancelJobs(request, metadata=bearer("stranger"))


async def test_nobody_adopts_a_job_of_a_queue_to_which_it_may_not_submit(mesh: Mesh) -> None:
    """Another's operator is as if it were not there; one's own is a parent."""
    request = submit(Place(OWN, ""))
    request.validate_only, request.items[0].operator = False, True
    own = (await mesh.api.jobs.SubmitJobs(request, metadata=bearer("root"))).job_ids[0]
    request.items[0].queue = OTHERS
    others = (await mesh.api.jobs.SubmitJobs(request, metadata=bearer("root"))).job_ids[0]
    told = []
    for job_id in (others, mesh.places[ABSENT].job_id):
        child = submit(Place(OWN, ""))
        child.items[0].parent.job_id = job_id
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await mesh.api.jobs.SubmitJobs(child, metadata=bearer("may-submit"))
        told.append((refused.value.code(), str(refused.value.details()).replace(job_id, "X")))
    assert told[0] == told[1]
    assert told[0][0] == HIDDEN
    child.items[0].parent.job_id = own
    await mesh.api.jobs.SubmitJobs(child, metadata=bearer("may-submit"))


async def test_who_edits_a_queue_gives_it_no_share_and_no_namespace(mesh: Mesh) -> None:
    """Weight, pool and namespaces of a queue are an administrator's."""
    queue = (await mesh.api.queues.GetQueue(queue_pb2.GetQueueRequest(name=OWN), metadata=bearer("may-edit"))).queue
    for path in ("weight", "pool", "namespaces", "*"):
        request = queue_pb2.UpdateQueueRequest(queue=queue, update_mask=FieldMask(paths=[path]))
        with pytest.raises(grpc.aio.AioRpcError, match="admin"):
            await mesh.api.queues.UpdateQueue(request, metadata=bearer("may-edit"))
    request = queue_pb2.UpdateQueueRequest(queue=queue, update_mask=FieldMask(paths=["max_queued_count"]))
    assert await mesh.api.queues.UpdateQueue(request, metadata=bearer("may-edit"))


async def test_grant_ends_with_its_queue(mesh: Mesh) -> None:
    """A queue that is made anew by an old name is nobody's; one that is not there gets no grants."""
    root = {"metadata": bearer("root")}
    await mesh.api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="brief")), **root)
    grant = access_pb2.Grant(subject="user:stranger", queue="brief", verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    await mesh.api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="brief"), **root)
    listed = await mesh.api.access.ListGrants(access_pb2.ListGrantsRequest(subject="user:stranger"), **root)
    assert list(listed.grants) == []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    assert caught.value.code() == HIDDEN


async def test_grants_are_listed_page_by_page_and_say_something(mesh: Mesh) -> None:
    """Pages go on where the last one ended; a role for a queue and a verb for none are refused."""
    root = {"metadata": bearer("root")}
    longest = access_pb2.Grant(subject="group:" + "\U0001f600" * 253, queue=OWN, verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[longest]), **root)
    request = access_pb2.ListGrantsRequest(page_size=1)
    pages = []
    while not pages or request.page_token:
        page = await mesh.api.access.ListGrants(request, **root)
        pages += [(one.subject, one.queue, one.verb) for one in page.grants]
        request.page_token = page.next_page_token
    assert pages == sorted(set(pages))
    assert len(pages) == len(Role) + len(Verb) + 2
    await mesh.api.access.RemoveGrants(access_pb2.RemoveGrantsRequest(grants=[longest]), **root)
    for queue, verb in ((OWN, "admin"), ("", "watch")):
        odd = access_pb2.AddGrantsRequest(grants=[access_pb2.Grant(subject="user:x", queue=queue, verb=verb)])
        with pytest.raises(grpc.aio.AioRpcError, match=r"grants\[0\]"):
            await mesh.api.access.AddGrants(odd, **root)


async def test_submitter_is_whose_token_was_sent_or_whom_a_facade_acts_as(mesh: Mesh) -> None:
    """A job keeps the name of who submitted it; in one transaction each its own, and none where nobody is asked."""
    request = submit(mesh.places[OWN])
    request.validate_only = False
    acting = (*bearer("impersonator"), ("argosy-acting-as", "may-submit"))
    answers = await asyncio.gather(
        *(mesh.api.jobs.SubmitJobs(request, metadata=metadata) for metadata in (bearer("admin"), acting))
    )
    read = [
        await mesh.api.jobs.GetJob(job_pb2.GetJobRequest(id=one.job_ids[0]), metadata=bearer("auditor"))
        for one in answers
    ]
    assert [one.job.submitter for one in read] == ["admin", "may-submit"]


async def test_facade_may_do_what_its_user_may_and_nothing_more(mesh: Mesh) -> None:
    """Acting as somebody without submit, or as an administrator, submits nothing."""
    for name in ("may-watch", "admin"):
        metadata = (*bearer("impersonator"), ("argosy-acting-as", name))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await mesh.api.jobs.SubmitJobs(submit(mesh.places[OWN]), metadata=metadata)
        assert caught.value.code() == DENIED


async def test_every_change_is_in_the_audit_with_who_made_it(mesh: Mesh) -> None:
    """Queues, jobs and grants: who, as whom, by which method; previews and refused calls changed nothing."""
    acting = (*bearer("impersonator"), ("argosy-acting-as", "may-cancel"))
    target = job_pb2.JobIds(ids=[mesh.places[OWN].job_id])
    preview = job_pb2.CancelJobsRequest(jobs=target, validate_only=True)
    await mesh.api.jobs.CancelJobs(preview, metadata=acting)
    await mesh.api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=target, reason="wrong input"), metadata=acting)
    await mesh.api.queues.CordonQueue(
        queue_pb2.CordonQueueRequest(name=OWN, reason="repair"), metadata=bearer("operator")
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await mesh.api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name=OTHERS), metadata=bearer("root"))
    request = access_pb2.ListAuditRecordsRequest(page_size=1)
    records = []
    while not records or request.page_token:
        page = await mesh.api.access.ListAuditRecords(request, metadata=bearer("auditor"))
        records += page.records
        request.page_token = page.next_page_token
    said = [
        (one.principal, one.acted_by, one.method.rpartition("/")[2], one.kind, one.name, one.detail) for one in records
    ]
    assert said[:2] == [
        ("operator", "", "CordonQueue", "Queue", OWN, "repair"),
        ("may-cancel", "impersonator", "CancelJobs", "Job", mesh.places[OWN].job_id, "cancel wrong input"),
    ]
    assert ("root", "", "AddGrants", "Grant", "user:auditor", "auditor") in said
    assert said[-2:] == [("root", "", "CreateQueue", "Queue", name, "") for name in (OTHERS, OWN)]
    assert {one.host for one in records} == {"ipv4:127.0.0.1"}
    mine = access_pb2.ListAuditRecordsRequest(principal="operator")
    assert len((await mesh.api.access.ListAuditRecords(mine, metadata=bearer("auditor"))).records) == 1


async def test_change_that_fails_is_not_in_the_audit(mesh: Mesh) -> None:
    """What is noted is in the transaction of the change: neither is there without the other."""
    with psycopg.connect(mesh.api.url, autocommit=True) as connection:
        before = connection.execute("SELECT count(*) FROM audit_records").fetchone()
        connection.execute("ALTER TABLE audit_records ADD CONSTRAINT none CHECK (kind <> 'Queue') NOT VALID")
        try:
            with pytest.raises(grpc.aio.AioRpcError):
                await mesh.api.queues.CordonQueue(queue_pb2.CordonQueueRequest(name=OWN), metadata=bearer("operator"))
        finally:
            connection.execute("ALTER TABLE audit_records DROP CONSTRAINT none")
        assert connection.execute("SELECT count(*) FROM audit_records").fetchone() == before
        assert connection.execute("SELECT cordoned FROM queues WHERE name = 'red'").fetchone() == (False,)


async def test_token_reaches_no_log_no_error_no_row_and_no_metric(
    mesh: Mesh, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known and unknown tokens are nowhere but with their holders."""
    secret = "argosy_a-token-that-nobody-knows"
    said = []
    for metadata in (
        bearer(secret),
        (("authorization", secret),),
        (*bearer("root"), ("argosy-acting-as", secret + " x")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), metadata=metadata)
        said.append(f"{caught.value.details()} {caught.value.trailing_metadata()}")
    captured = capsys.readouterr()
    said += [captured.out, captured.err, generate_latest().decode()]
    with psycopg.connect(mesh.api.url) as connection:
        tables = [row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        said += [str(connection.execute(f'SELECT * FROM "{table}"').fetchall()) for table in tables]
    assert [text[:200] for text in said if secret in text or hash_token("root") in text] == []


async def test_grant_holds_for_queues_below_and_not_above(mesh: Mesh) -> None:
    """Who may watch a queue may watch what stands below it, at any depth, and nothing beside or above it."""
    root = {"metadata": bearer("root")}
    for name, parent in (("top", ""), ("middle", "top"), ("bottom", "middle"), ("beside", "top")):
        queue = queue_pb2.Queue(name=name, parent=parent)
        await mesh.api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), **root)
    grant = access_pb2.Grant(subject="user:stranger", queue="middle", verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    listed = await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), metadata=bearer("stranger"))
    assert [queue.name for queue in listed.queues] == ["bottom", "middle"]


async def test_refused_calls_are_in_the_audit_counted_and_bounded(mesh: Mesh) -> None:
    """Who tried what, from where and how often: one row for each kind, and for whoever is not known none by name."""
    request = queue_pb2.DeleteQueueRequest(name=OTHERS)
    for metadata in (bearer("stranger"), bearer("stranger"), bearer("nobody's")):
        with pytest.raises(grpc.aio.AioRpcError):
            await mesh.api.queues.DeleteQueue(request, metadata=metadata)
    await mesh.api.app.refused_calls.store_counts()
    asked = access_pb2.ListAuditRecordsRequest(page_size=2)
    records = (await mesh.api.access.ListAuditRecords(asked, metadata=bearer("auditor"))).records
    assert {(one.principal, one.kind, one.name.rpartition("/")[2], one.detail) for one in records} == {
        ("stranger", "Call", "DeleteQueue", "PERMISSION_DENIED, 2 times"),
        ("", "Call", "DeleteQueue", "UNAUTHENTICATED, 1 times"),
    }
    for number in range(200):
        mesh.api.app.refused_calls.note(f"/x/{number}", Principal(name="stranger"), "PERMISSION_DENIED")
    with psycopg.connect(mesh.api.url, autocommit=True) as connection:
        before = connection.execute("SELECT count(*) FROM audit_records").fetchone()
        await mesh.api.app.refused_calls.store_counts()
        after = connection.execute("SELECT count(*) FROM audit_records").fetchone()
    assert before is not None
    assert after is not None
    assert after[0] - before[0] == 101


async def test_tenant_that_floods_is_held_to_its_quota_and_another_submits_on(
    serve: Any, database_url: str, tmp_path: Path
) -> None:
    """While nobody leads: mallory fills its bytes and is told when to come again; alice's submits go on."""
    entries = [{"name": name, "sha256": hash_token(name)} for name in ("mallory", "alice")]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(
        tokens_file=str(tmp_path / "tokens.yaml"),
        admins=("user:mallory", "user:alice"),
        quotas=QuotaSettings(stored_bytes_per_s=1.0),
    )
    async with serve(database_url, role="api", access=access) as api:
        queue = queue_pb2.Queue(name=OWN, namespaces=["default"])
        await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer("alice"))
        request = submit(Place(OWN, ""))
        request.validate_only = False

        async def flood() -> None:
            for _ in range(100):
                await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await flood()
        error = from_rpc_error(refused.value)
        assert isinstance(error, QuotaExceeded)
        assert error.reason == "USER_STORED_BYTES"
        assert (error.retry_delay_s or 0.0) > 0.0
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("alice"))).job_ids


async def test_user_with_as_many_open_jobs_as_allowed_is_refused_and_another_submits_on(
    serve: Any, database_url: str, tmp_path: Path
) -> None:
    """Two open jobs are all that a user may have: the third is refused by name until one has ended."""
    entries = [{"name": name, "sha256": hash_token(name)} for name in ("mallory", "alice")]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(
        tokens_file=str(tmp_path / "tokens.yaml"),
        admins=("user:mallory", "user:alice"),
        quotas=QuotaSettings(max_open_job_count=2),
    )
    async with serve(database_url, role="api", access=access) as api:
        queue = queue_pb2.Queue(name=OWN, namespaces=["default"])
        await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer("alice"))
        request = submit(Place(OWN, ""))
        request.validate_only = False
        jobs = [(await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))).job_ids[0] for _ in range(2)]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))
        error = from_rpc_error(refused.value)
        assert isinstance(error, QuotaExceeded)
        assert (error.reason, error.retry_delay_s) == ("USER_OPEN_JOBS", None)
        assert "mallory has 2 jobs that have not ended and may have 2; 1 more" in error.message
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("alice"))).job_ids
        await api.jobs.CancelJobs(
            job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=jobs[:1])), metadata=bearer("mallory")
        )
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))).job_ids

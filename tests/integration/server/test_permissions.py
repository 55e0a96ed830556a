"""The matrix of permissions: every method, called by everybody, about what is theirs, another's and not there.

What is allowed is asked of the table here, which is written by hand and has a line for every method; whether a method
that is not allowed tells something, of comparing the answers about another's object and about one that is absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.field_mask_pb2 import FieldMask

from argosy.api.v1 import access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy.debug.v1 import debug_pb2
from argosy.executor.v1 import executor_pb2
from argosy.lease.v1 import outlook_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_server.api.rules import RULES

from .tenants import ABSENT, CALLERS, OTHERS, OWN, ROLES, Mesh, Place, bearer, submit

DENIED = grpc.StatusCode.PERMISSION_DENIED
HIDDEN = grpc.StatusCode.NOT_FOUND
OVERSEERS = frozenset({"admin", "operator", "auditor"})
OPERATORS = frozenset({"admin", "operator"})
ADMINS = frozenset({"admin"})


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
    "/argosy.lease.v1.OutlookService/FindMissing": Case(
        lambda _: outlook_pb2.FindMissingRequest(), frozenset({"server"})
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


async def answer(channel: grpc.aio.Channel, path: str, request: Any, caller: str) -> tuple[grpc.StatusCode, str]:
    """Return code and text with which a call ends; streams are asked for their first answer."""
    call = channel.unary_stream(path)(request.SerializeToString(), metadata=bearer(caller), timeout=60)
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    else:
        return grpc.StatusCode.OK, ""
    finally:
        call.cancel()


def is_allowed(case: Case, caller: str) -> bool:
    """Return whether a caller may call a method about what is its own."""
    if case.anyone or caller in case.roles:
        return True
    return bool(case.verb) and (case.verb in ROLES.get(caller, ()) or caller == f"may-{case.verb}")


LEADERLESS = frozenset({"/argosy.executor.v1.ExecutorService/Sync", "/argosy.sampler.v1.SamplerService/Session"})
"""Methods that a process without the leader role does not serve; tests/integration/server/test_access.py has them."""


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

"""What it takes to call each method: the one table, by the method's path.

A method that is not here nobody may call where callers are asked who they are, and a test fails for one that the
protocol has and the table has not. Rules that name a verb only say who may call at all: which queue a request is about
its servicer asks of the caller, by `Caller.require` or `Permissions.queues_for`.

Source: design section 7, invariant 10; section 5, "Who is who".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from argosy_core.access import ANYONE, ClusterPart, Role, Rule, Verb

__all__ = ["RULES"]

_ADMIN: Final = Rule(frozenset({Role.ADMIN}))
_OPERATOR: Final = Rule(frozenset({Role.ADMIN, Role.OPERATOR}))
_AUDITOR: Final = Rule(frozenset({Role.ADMIN, Role.OPERATOR, Role.AUDITOR}))
_WATCH: Final = Rule(verb=Verb.WATCH)

RULES: Final[Mapping[str, Rule]] = {
    "/argosy.api.v1.AccessService/WhoAmI": ANYONE,
    "/argosy.api.v1.AccessService/AddGrants": _ADMIN,
    "/argosy.api.v1.AccessService/RemoveGrants": _ADMIN,
    "/argosy.api.v1.AccessService/ListGrants": _AUDITOR,
    "/argosy.api.v1.AccessService/ListAuditRecords": _AUDITOR,
    "/argosy.api.v1.AccessService/InviteCluster": _ADMIN,
    "/argosy.api.v1.AccessService/JoinCluster": Rule(joins=True),
    "/argosy.api.v1.AccessService/RevokeCluster": _ADMIN,
    "/argosy.api.v1.QueueService/CreateQueue": _ADMIN,
    "/argosy.api.v1.QueueService/GetQueue": ANYONE,
    "/argosy.api.v1.QueueService/ListQueues": ANYONE,
    "/argosy.api.v1.QueueService/UpdateQueue": Rule(verb=Verb.EDIT),
    "/argosy.api.v1.QueueService/DeleteQueue": _ADMIN,
    "/argosy.api.v1.QueueService/CordonQueue": Rule(frozenset({Role.OPERATOR}), Verb.EDIT),
    "/argosy.api.v1.QueueService/UncordonQueue": Rule(frozenset({Role.OPERATOR}), Verb.EDIT),
    "/argosy.api.v1.QueueService/GetQueuePolicy": ANYONE,
    "/argosy.api.v1.QueueService/SetQueuePolicy": _ADMIN,
    "/argosy.api.v1.JobService/SubmitJobs": Rule(verb=Verb.SUBMIT),
    "/argosy.api.v1.JobService/GetJob": _WATCH,
    "/argosy.api.v1.JobService/BatchGetJobs": _WATCH,
    "/argosy.api.v1.JobService/ListJobs": _WATCH,
    "/argosy.api.v1.JobService/ListJobSets": _WATCH,
    "/argosy.api.v1.JobService/CancelJobs": Rule(verb=Verb.CANCEL),
    "/argosy.api.v1.JobService/ReprioritizeJobs": Rule(verb=Verb.REPRIORITIZE),
    "/argosy.api.v1.JobService/HoldJobs": Rule(verb=Verb.REPRIORITIZE),
    "/argosy.api.v1.JobService/ReleaseJobs": Rule(verb=Verb.REPRIORITIZE),
    "/argosy.api.v1.JobService/PreemptJobs": Rule(verb=Verb.PREEMPT),
    "/argosy.api.v1.JobService/ExplainJob": _WATCH,
    "/argosy.api.v1.JobService/PlanJobs": Rule(verb=Verb.SUBMIT),
    "/argosy.api.v1.JobService/BatchGetJobStages": _WATCH,
    "/argosy.api.v1.JobService/ListPendingJobs": _WATCH,
    "/argosy.api.v1.JobService/GetJobLog": _WATCH,
    "/argosy.api.v1.EventService/WatchJobSet": _WATCH,
    "/argosy.api.v1.ClusterService/ListClusters": _AUDITOR,
    "/argosy.api.v1.ClusterService/GetCluster": _AUDITOR,
    "/argosy.api.v1.ClusterService/ListNodes": _AUDITOR,
    "/argosy.api.v1.ClusterService/ListScaledPods": _AUDITOR,
    "/argosy.api.v1.ClusterService/CordonCluster": _OPERATOR,
    "/argosy.api.v1.ClusterService/UncordonCluster": _OPERATOR,
    "/argosy.api.v1.ClusterService/DelegateCluster": _OPERATOR,
    "/argosy.api.v1.ClusterService/CordonNode": _OPERATOR,
    "/argosy.api.v1.ClusterService/UncordonNode": _OPERATOR,
    "/argosy.api.v1.ClusterService/SetMaxCapacity": _ADMIN,
    "/argosy.api.v1.ClusterService/ForgetCluster": _ADMIN,
    "/argosy.api.v1.SchedulingService/GetShares": ANYONE,
    "/argosy.api.v1.SchedulingService/GetLastRound": _AUDITOR,
    "/argosy.api.v1.SchedulingService/GetPoolSettings": _AUDITOR,
    "/argosy.api.v1.SchedulingService/SetPoolSettings": _ADMIN,
    "/argosy.api.v1.SchedulingService/ListPoolSettings": _AUDITOR,
    "/argosy.api.v1.ServerService/GetServerInfo": ANYONE,
    "/argosy.debug.v1.DebugService/DumpState": _AUDITOR,
    "/argosy.lease.v1.OutlookService/FindMissing": Rule(is_for_servers=True),
    "/argosy.executor.v1.ExecutorService/Sync": Rule(part=ClusterPart.EXECUTOR),
    "/argosy.sampler.v1.SamplerService/Session": Rule(part=ClusterPart.SAMPLER),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": ANYONE,
}
"""Rules by path. Clusters and their nodes are of the whole installation, whose tenants see their own queues only."""

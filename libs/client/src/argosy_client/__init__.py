"""Python client library of Argosy.

    async with ArgosyClient("127.0.0.1:50051") as client:
        ids = await client.submit([JobDraft(queue="science", job_set="first", manifests=(pod_yaml,))])
        async for batch in client.watch("science", "first", until_finished=True):
            print(batch.state_counts)

`documents` reads submissions from YAML and JSON; `batches` cuts long lists into requests.

Owns: how a program calls the API: values, retries, resumed watches, errors by name.
May import: wire types, gRPC and the core's errors; no NumPy, so that it loads fast in a user's program.
Start: `client.ArgosyClient`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.channel_credentials import ChannelCredentials, hash_token, new_token
    from argosy_client.access import AuditRecord, Identity
    from argosy_client.backoff import RetryPolicy
    from argosy_client.batches import split_drafts
    from argosy_client.client import ArgosyClient
    from argosy_client.cluster_values import Cluster, Node, ScaledPod
    from argosy_client.explanations import (
        ClusterWaitReason,
        Explanation,
        FilterCount,
        PromisedStart,
        QueueStanding,
        StartBand,
    )
    from argosy_client.planning import ItemPlan, Plan
    from argosy_client.pool_settings import PoolSetting, PoolSettings, PoolSettingsVersion
    from argosy_client.queue_values import (
        LastRound,
        Queue,
        QueueShare,
        ResourceCapacity,
        ResourceShare,
        Shares,
        StageLatency,
    )
    from argosy_client.values import (
        JOB_STATES,
        OPEN_STATES,
        ChangeResult,
        EventBatch,
        Job,
        JobDraft,
        JobEvent,
        JobPage,
        JobSelector,
        JobSet,
        JobStanding,
        Parent,
        PodGroup,
        RetryRules,
        Run,
        ScalingRules,
        ServerInfo,
        Submitted,
        SubmitWarning,
    )

__all__ = [
    "JOB_STATES",
    "OPEN_STATES",
    "ArgosyClient",
    "AuditRecord",
    "ChangeResult",
    "ChannelCredentials",
    "Cluster",
    "ClusterWaitReason",
    "EventBatch",
    "Explanation",
    "FilterCount",
    "Identity",
    "ItemPlan",
    "Job",
    "JobDraft",
    "JobEvent",
    "JobPage",
    "JobSelector",
    "JobSet",
    "JobStanding",
    "LastRound",
    "Node",
    "Parent",
    "Plan",
    "PodGroup",
    "PoolSetting",
    "PoolSettings",
    "PoolSettingsVersion",
    "PromisedStart",
    "Queue",
    "QueueShare",
    "QueueStanding",
    "ResourceCapacity",
    "ResourceShare",
    "RetryPolicy",
    "RetryRules",
    "Run",
    "ScaledPod",
    "ScalingRules",
    "ServerInfo",
    "Shares",
    "StageLatency",
    "StartBand",
    "SubmitWarning",
    "Submitted",
    "hash_token",
    "new_token",
    "split_drafts",
]

# Of names that are not in `argosy_client.values`.
_HOMES = {
    "argosy.channel_credentials": "ChannelCredentials hash_token new_token",
    "argosy_client.access": "AuditRecord Identity",
    "argosy_client.backoff": "RetryPolicy",
    "argosy_client.batches": "split_drafts",
    "argosy_client.client": "ArgosyClient",
    "argosy_client.cluster_values": "Cluster Node ScaledPod",
    "argosy_client.explanations": "ClusterWaitReason Explanation FilterCount PromisedStart QueueStanding StartBand",
    "argosy_client.planning": "ItemPlan Plan",
    "argosy_client.pool_settings": "PoolSetting PoolSettings PoolSettingsVersion",
    "argosy_client.queue_values": "LastRound Queue QueueShare ResourceCapacity ResourceShare Shares StageLatency",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the package has
    """Import what is asked for; a program loads what it uses."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names.split()), "argosy_client.values")
    globals()[name] = found = getattr(importlib.import_module(home), name)
    return found

"""Malformed and hostile requests: for each RPC the right code, a message that says what and where, and no crash."""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy.debug.v1 import debug_pb2
from argosy_runtime.errors import from_rpc_error
from argosy_store import create_database, drop_database

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = grpc.StatusCode.INVALID_ARGUMENT
MISSING = grpc.StatusCode.NOT_FOUND
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
FOREIGN_ID = str(uuid.UUID(int=5))
UNKNOWN_ID = "01a1fed6-54aa-7a51-8051-2a00000fffff"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
LONG_TEXTS = f"a: &a '{'x' * 100_000}'\nb: [{', '.join(['*a'] * 30_000)}]\n"
INJECTION = "'; DROP TABLE jobs; --"


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="api")
async def one_api(postgres_server: Any, serve: Any) -> AsyncIterator[Any]:
    """Give one running server with the queue red for the whole table: none of the requests may change anything."""
    url = create_database(postgres_server.url, "hostile", "argosy_template")
    async with serve(url) as api:
        await api.make_queue("red")
        yield api
    drop_database(postgres_server.url, "hostile")


def pod(**spec: Any) -> str:
    """Return a good pod with changes to its spec."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox", "resources": spec.pop("resources", resources)}
    container.update(spec.pop("container", {}))
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], **spec}})


def submit(manifest: str | None = None, *, specs: int = 1, items: int = 1, **item: Any) -> job_pb2.SubmitJobsRequest:
    """Return a submit with changes to its items or its manifest."""
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[manifest or pod()])] * specs,
        items=[job_pb2.JobItem(**{"queue": "red", "job_set": "one", **item})] * items,
    )


def selector(**fields: Any) -> job_pb2.JobSelector:
    """Return a selector over queue red."""
    return job_pb2.JobSelector(**{"queue": "red", **fields})


def update(**fields: Any) -> queue_pb2.UpdateQueueRequest:
    """Return a change of a queue's weight."""
    return queue_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(**fields), update_mask=FieldMask(paths=["weight"]))


SUBMITS = {
    "nothing": (job_pb2.SubmitJobsRequest(), INVALID, "specs"),
    "no items": (submit(items=0), INVALID, "items"),
    "1,001 items": (submit(items=1001), INVALID, "items"),
    "spec index past the end": (submit(spec=1), INVALID, "items[0].spec"),
    "spec index negative": (submit(spec=-1), INVALID, "items[0].spec"),
    "unknown queue": (submit(queue="blue"), MISSING, "queue 'blue' does not exist"),
    "empty queue": (submit(queue=""), INVALID, "items[0].queue"),
    "queue with emoji": (submit(queue="r\U0001f600d"), INVALID, "items[0].queue"),
    "queue with injection": (submit(queue=INJECTION), INVALID, "items[0].queue"),
    "empty job set": (submit(job_set=""), INVALID, "items[0].job_set"),
    "job set of 1,024": (submit(job_set="a" * 1024), INVALID, "items[0].job_set"),
    "job set with NUL": (submit(job_set="a\x00b"), INVALID, "items[0].job_set"),
    "job set with newline": (submit(job_set="a\nb"), INVALID, "items[0].job_set"),
    "job set right to left": (submit(job_set="a\u202eb"), INVALID, "items[0].job_set"),
    "job set upwards": (submit(job_set="../x"), INVALID, "items[0].job_set"),
    "job set upwards inside": (submit(job_set="a/../x"), INVALID, "items[0].job_set"),
    "client id of 101": (submit(client_id="a" * 101), INVALID, "items[0].client_id"),
    "client id with injection": (submit(client_id=INJECTION), INVALID, "items[0].client_id"),
    "count negative": (submit(count=-1), INVALID, "items[0].count"),
    "count of a billion": (submit(count=1_000_000_000), INVALID, "items[0].count"),
    "counts above the limit": (submit(count=60_000, items=2), INVALID, "ask for 120000 jobs"),
    "65 labels": (submit(labels={f"l{number}": "x" for number in range(65)}), INVALID, "items[0].labels"),
    "reserved label": (submit(labels={"argosy.dev/job": "x"}), INVALID, "reserved"),
    "label value with newline": (submit(labels={"a": "b\n"}), INVALID, "items[0].labels['a']"),
    "annotation of 1 MiB": (submit(annotations={"a": "x" * (1 << 20)}), INVALID, "items[0].annotations"),
    "manifest of no JSON": (submit("{nope"), INVALID, "specs[0].manifests[0]"),
    "manifest with NaN": (submit('{"a": NaN}'), INVALID, "specs[0].manifests[0]"),
    "manifest with a key twice": (submit('{"kind": "Pod", "kind": "Pod"}'), INVALID, "specs[0].manifests[0]"),
    "manifest nested deeply": (submit("[" * 20_000 + "]" * 20_000), INVALID, "specs[0].manifests[0]"),
    "manifest of no YAML": (submit("kind: [Pod"), INVALID, "not YAML"),
    "manifest of two documents": (submit("kind: Pod\n---\nkind: Pod\n"), INVALID, "holds 2 YAML documents"),
    "manifest of bombs": (submit(BOMB), INVALID, "values once its aliases are followed"),
    "manifest of long texts": (submit(LONG_TEXTS), INVALID, "characters once its aliases are followed"),
    "manifest of a tag": (submit("kind: !!python/name:os.system Pod"), INVALID, "the tag"),
    "manifest above 256 KiB": (submit('"' + "a" * 262_144 + '"'), INVALID, "specs[0].manifests[0]"),
    "pod of 65,536 bytes": (submit(pod(container={"args": ["a" * 65_536]})), INVALID, "a pod at most 65535"),
    "kind unknown": (submit('{"apiVersion": "v1", "kind": "Node"}'), INVALID, "manifests[0].kind"),
    "host path": (submit(pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}])), INVALID, "hostPath"),
    "git repository": (submit(pod(volumes=[{"name": "v", "gitRepo": {"repository": "x"}}])), INVALID, "gitRepo"),
    "flex volume": (submit(pod(volumes=[{"name": "v", "flexVolume": {"driver": "x"}}])), INVALID, "flexVolume"),
    "port of every node": (
        submit('{"apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort"}}'),
        INVALID,
        "spec.type",
    ),
    "host network": (submit(pod(hostNetwork=True)), INVALID, "hostNetwork"),
    "privileged": (submit(pod(container={"securityContext": {"privileged": True}})), INVALID, "privileged"),
    "node name": (submit(pod(nodeName="n1")), INVALID, "nodeName"),
    "service account": (submit(pod(serviceAccountName="admin")), INVALID, "serviceAccountName"),
    "no resources": (submit(pod(resources={})), INVALID, "specs[0].manifests[0].spec.containers[0]"),
    "negative cpu": (submit(pod(resources={"requests": {"cpu": "-1", "memory": "1Gi"}})), INVALID, "cpu"),
    "infinite cpu": (submit(pod(resources={"requests": {"cpu": "1e400", "memory": "1"}})), INVALID, "cpu"),
    "request above limit": (
        submit(pod(resources={"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}})),
        INVALID,
        "cpu",
    ),
    "capability that is a list": (
        submit(pod(container={"securityContext": {"capabilities": {"add": [[]]}}})),
        INVALID,
        "capabilities.add[0]",
    ),
    "profile that is an object": (
        submit(pod(securityContext={"seccompProfile": {"type": {}}})),
        INVALID,
        "seccompProfile.type",
    ),
    "sysctl that is a list": (submit(pod(securityContext={"sysctls": [{"name": []}]})), INVALID, "sysctls[0].name"),
    "protocol that is a list": (submit(pod(container={"ports": [{"protocol": []}]})), INVALID, "ports[0].protocol"),
    "key of half a pair": (submit(pod(volumes={"\ud800": 1})), INVALID, "surrogate"),
    "resource of half a pair": (submit(pod(overhead={"hugepages-\ud800": 1})), INVALID, "surrogate"),
    "argument with NUL": (submit(pod(container={"args": ["a\0b"]})), INVALID, "NUL"),
    "foreign namespace": (
        submit(pod().replace('"kind"', '"metadata": {"namespace": "kube-system"}, "kind"')),
        grpc.StatusCode.PERMISSION_DENIED,
        "kube-system",
    ),
}


@pytest.mark.parametrize(("request_", "code", "text"), SUBMITS.values(), ids=SUBMITS)
async def test_submit_refuses_hostile_request(api: Any, request_: Any, code: Any, text: str) -> None:
    """The code and text of the table; nothing is stored, and the next submit works."""
    before = api.app.store.highest_handle()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.SubmitJobs(request_)
    assert caught.value.code() == code
    shown = str(caught.value.details()) + str(from_rpc_error(caught.value).violations)
    assert text in shown
    assert "Traceback" not in shown
    assert api.app.store.highest_handle() == before
    assert len((await api.jobs.SubmitJobs(submit())).job_ids) == 1


CALLS: dict[str, tuple[str, str, Any, Any, str]] = {
    "create queue: nothing": ("queues", "CreateQueue", queue_pb2.CreateQueueRequest(), INVALID, "queue"),
    "create queue: bad name": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="../X")),
        INVALID, "queue.name",
    ),
    "create queue: weight NaN": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", weight=float("nan"))),
        INVALID, "queue.weight",
    ),
    "create queue: weight negative": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", weight=-1)),
        INVALID, "queue.weight",
    ),
    "create queue: namespace": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", namespaces=["A_"])),
        INVALID, "queue.namespaces[0]",
    ),
    "create queue: namespace of the cluster": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", namespaces=["kube-a"])),
        INVALID, "queue.namespaces[0]",
    ),
    "create queue: name of a namespace of the cluster": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="kube-system")),
        INVALID, "queue.name",
    ),
    "create queue: our own namespace": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", namespaces=["argosy"])),
        INVALID, "queue.namespaces[0]",
    ),
    "update queue: namespace of the cluster": (
        "queues", "UpdateQueue",
        update(name="red", etag="1-1", namespaces=["a", "kube-system"]),
        INVALID, "queue.namespaces[1]",
    ),
    "create queue: pool": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="x", pool="A b")),
        INVALID, "queue.pool",
    ),
    "create queue: another one": (
        "queues", "CreateQueue", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red", weight=9)),
        grpc.StatusCode.ALREADY_EXISTS, "red",
    ),
    "get queue: empty": ("queues", "GetQueue", queue_pb2.GetQueueRequest(), INVALID, "name"),
    "get queue: unknown": ("queues", "GetQueue", queue_pb2.GetQueueRequest(name="blue"), MISSING, "blue"),
    "get queue: injection": ("queues", "GetQueue", queue_pb2.GetQueueRequest(name=INJECTION), MISSING, "DROP"),
    "get queue: NUL": ("queues", "GetQueue", queue_pb2.GetQueueRequest(name="a\x00"), INVALID, ""),
    "list queues: page size": (
        "queues", "ListQueues", queue_pb2.ListQueuesRequest(page_size=1001), INVALID, "page_size",
    ),
    "list queues: forged token": (
        "queues", "ListQueues", queue_pb2.ListQueuesRequest(page_token="%%%"), INVALID, "page_token",
    ),
    "list queues: odd token": (
        "queues", "ListQueues", queue_pb2.ListQueuesRequest(page_token=base64.b64encode(b"\x03a\x00").decode()),
        INVALID, "page_token",
    ),
    "update queue: unknown": (
        "queues", "UpdateQueue", update(name="blue", etag="1-1"), MISSING, "blue",
    ),
    "update queue: stale etag": (
        "queues", "UpdateQueue", update(name="red", etag="99"), grpc.StatusCode.ABORTED, "etag",
    ),
    "update queue: no queue": ("queues", "UpdateQueue", queue_pb2.UpdateQueueRequest(), INVALID, "queue"),
    "update queue: weight that is no number": (
        "queues", "UpdateQueue", queue_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(name="red", weight=math.nan)),
        INVALID, "queue.weight",
    ),
    "update queue: odd namespace": (
        "queues", "UpdateQueue", queue_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(name="red", namespaces=["A b"])),
        INVALID, "queue.namespaces[0]",
    ),
    "delete queue: empty": ("queues", "DeleteQueue", queue_pb2.DeleteQueueRequest(), INVALID, "name"),
    "uncordon queue: empty": ("queues", "UncordonQueue", queue_pb2.UncordonQueueRequest(), INVALID, "name"),
    "settings: long key": (
        "scheduling", "SetPoolSettings", scheduling_pb2.SetPoolSettingsRequest(settings={"x" * 101: "1"}),
        INVALID, "settings",
    ),
    "settings: not hot": (
        "scheduling", "SetPoolSettings", scheduling_pb2.SetPoolSettingsRequest(settings={"leader.lease_s": "1"}),
        INVALID, "leader.lease_s",
    ),
    "settings: unknown": (
        "scheduling", "SetPoolSettings", scheduling_pb2.SetPoolSettingsRequest(settings={"leader.round.half_tim": "1"}),
        INVALID, "leader.round.half_time_s",
    ),
    "settings: bad page": (
        "scheduling", "ListPoolSettings", scheduling_pb2.ListPoolSettingsRequest(page_token="x"), INVALID, "page_token",
    ),
    "last round: long pool": (
        "scheduling", "GetLastRound", scheduling_pb2.GetLastRoundRequest(pool="x" * 64), INVALID, "pool",
    ),
    "delete queue: unknown": ("queues", "DeleteQueue", queue_pb2.DeleteQueueRequest(name="blue"), MISSING, "blue"),
    "cordon queue: unknown": ("queues", "CordonQueue", queue_pb2.CordonQueueRequest(name="blue"), MISSING, "blue"),
    "cordon queue: long reason": (
        "queues", "CordonQueue", queue_pb2.CordonQueueRequest(name="red", reason="x" * 257), INVALID, "reason",
    ),
    "uncordon queue: unknown": ("queues", "UncordonQueue", queue_pb2.UncordonQueueRequest(name="blue"),
        MISSING, "blue"),
    "get job: no uuid": ("jobs", "GetJob", job_pb2.GetJobRequest(id="x"), INVALID, "id"),
    "get job: foreign uuid": ("jobs", "GetJob", job_pb2.GetJobRequest(id=FOREIGN_ID), INVALID, "not a job id"),
    "get job: unknown": ("jobs", "GetJob", job_pb2.GetJobRequest(id=UNKNOWN_ID), MISSING, UNKNOWN_ID),
    "list jobs: unknown queue": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(queue="blue")), MISSING, "blue",
    ),
    "list jobs: unknown state": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(states=[99])), INVALID, "selector.states[0]",
    ),
    "list jobs: state unspecified": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(states=[0])), INVALID, "selector.states",
    ),
    "list jobs: odd label selector": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(label_selector="a in b")), INVALID, "character 1",
    ),
    "list jobs: injected label selector": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(label_selector=f"a={INJECTION}")),
        INVALID, "label_selector",
    ),
    "list jobs: time of no calendar": (
        "jobs", "ListJobs",
        job_pb2.ListJobsRequest(selector=selector(), create_time_from=Timestamp(seconds=1 << 62)),
        INVALID, "create_time_from",
    ),
    "list jobs: forged token": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(), page_token="AAAA"), INVALID, "page_token",
    ),
    "cancel: nothing": ("jobs", "CancelJobs", job_pb2.CancelJobsRequest(), INVALID, "target"),
    "cancel: no ids": ("jobs", "CancelJobs", job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds()), INVALID, "jobs.ids"),
    "cancel: odd id": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=["x"])), INVALID, "jobs.ids[0]",
    ),
    "cancel: foreign id": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[FOREIGN_ID])), INVALID, "jobs.ids[0]",
    ),
    "cancel: 10,001 ids": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[UNKNOWN_ID] * 10_001)),
        INVALID, "jobs.ids",
    ),
    "cancel: empty selector": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(selector=job_pb2.JobSelector()), INVALID, "selector.queue",
    ),
    "cancel: unknown queue": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(selector=selector(queue="blue")), MISSING, "blue",
    ),
    "cancel: odd job set": (
        "jobs", "CancelJobs", job_pb2.CancelJobsRequest(selector=selector(job_set="../x")), INVALID, "selector.job_set",
    ),
    "reprioritize: nothing": ("jobs", "ReprioritizeJobs", job_pb2.ReprioritizeJobsRequest(), INVALID, "target"),
    "reprioritize: empty selector": (
        "jobs", "ReprioritizeJobs", job_pb2.ReprioritizeJobsRequest(selector=job_pb2.JobSelector(job_set="one")),
        INVALID, "selector.queue",
    ),
    "explain: no uuid": ("jobs", "ExplainJob", job_pb2.ExplainJobRequest(id=""), INVALID, "id"),
    "explain: unknown": ("jobs", "ExplainJob", job_pb2.ExplainJobRequest(id=UNKNOWN_ID), MISSING, UNKNOWN_ID),
    "list clusters: page size": (
        "clusters", "ListClusters", cluster_pb2.ListClustersRequest(page_size=-1), INVALID, "page_size",
    ),
    "list clusters: forged token": (
        "clusters", "ListClusters", cluster_pb2.ListClustersRequest(page_token="A"), INVALID, "page_token",
    ),
    "get cluster: unknown": ("clusters", "GetCluster", cluster_pb2.GetClusterRequest(name="x"), MISSING, "x"),
    "list nodes: unknown": ("clusters", "ListNodes", cluster_pb2.ListNodesRequest(cluster="x"), MISSING, "x"),
    "list nodes: odd selector": (
        "clusters", "ListNodes", cluster_pb2.ListNodesRequest(cluster="x", label_selector=",,"),
        INVALID, "label_selector",
    ),
    "cordon cluster: unknown": (
        "clusters", "CordonCluster", cluster_pb2.CordonClusterRequest(name="x", reason="r"), MISSING, "x",
    ),
    "cordon node: odd name": (
        "clusters", "CordonNode", cluster_pb2.CordonNodeRequest(cluster="x", node="../n"), INVALID, "node",
    ),
    "cordon node: unknown cluster": (
        "clusters", "CordonNode", cluster_pb2.CordonNodeRequest(cluster="x", node="n"), MISSING, "x",
    ),
    "uncordon node: unknown cluster": (
        "clusters", "UncordonNode", cluster_pb2.UncordonNodeRequest(cluster="x", node="n"), MISSING, "x",
    ),
    "list jobs: unknown order": (
        "jobs", "ListJobs", job_pb2.ListJobsRequest(selector=selector(), order=9), INVALID, "order",  # type: ignore[arg-type]
    ),
    "batch get: nothing": ("jobs", "BatchGetJobs", job_pb2.BatchGetJobsRequest(), INVALID, "ids"),
    "batch get: foreign id": ("jobs", "BatchGetJobs", job_pb2.BatchGetJobsRequest(ids=[FOREIGN_ID]), INVALID, "ids[0]"),
    "list job sets: unknown queue": (
        "jobs", "ListJobSets", job_pb2.ListJobSetsRequest(queue="blue"), MISSING, "blue",
    ),
    "forget cluster: unknown": ("clusters", "ForgetCluster", cluster_pb2.ForgetClusterRequest(name="x"), MISSING, "x"),
    "shares: long pool": (
        "scheduling", "GetShares", scheduling_pb2.GetSharesRequest(pool="x" * 64), INVALID, "pool",
    ),
    "shares: no leader": (
        "scheduling", "GetShares", scheduling_pb2.GetSharesRequest(), UNAVAILABLE, "pool 'default' has no leader now",
    ),
    "last round: no leader": (
        "scheduling", "GetLastRound", scheduling_pb2.GetLastRoundRequest(pool="moon"), UNAVAILABLE, "'moon'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("service", "method", "request_", "code", "text"), CALLS.values(), ids=CALLS)
async def test_call_refuses_hostile_request(
    *, api: Any, service: str, method: str, request_: Any, code: Any, text: str
) -> None:
    """The code and text of the table, and the server lives."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(getattr(api, service), method)(request_)
    assert caught.value.code() == code
    shown = str(caught.value.details()) + str(from_rpc_error(caught.value).violations)
    assert text in shown
    assert "Traceback" not in shown
    assert (await api.queues.GetQueue(queue_pb2.GetQueueRequest(name="red"))).queue.name == "red"


STREAMS = {
    "no queue": (event_pb2.WatchJobSetRequest(job_set="one"), INVALID, "queue"),
    "unknown queue": (event_pb2.WatchJobSetRequest(queue="blue", job_set="one"), MISSING, "blue"),
    "unknown job set": (event_pb2.WatchJobSetRequest(queue="red", job_set="none"), MISSING, "no job set 'none'"),
    "odd job set": (event_pb2.WatchJobSetRequest(queue="red", job_set="a\x00"), INVALID, "job_set"),
    "cursor of no base64": (event_pb2.WatchJobSetRequest(queue="red", job_set="one", cursor="!"), INVALID, "cursor"),
    "cursor made up": (event_pb2.WatchJobSetRequest(queue="red", job_set="one", cursor="A" * 103), INVALID, "cursor"),
    "foreign job id": (
        event_pb2.WatchJobSetRequest(queue="red", job_set="one", job_ids=[FOREIGN_ID]),
        INVALID,
        "job_ids[0]",
    ),
    "odd labels": (event_pb2.WatchJobSetRequest(queue="red", job_set="one", label_selector=",,"), INVALID, "label"),
    "cursor of 257": (event_pb2.WatchJobSetRequest(queue="red", job_set="one", cursor="A" * 257), INVALID, "cursor"),
}


@pytest.mark.parametrize(("request_", "code", "text"), STREAMS.values(), ids=STREAMS)
async def test_watch_refuses_hostile_request(api: Any, request_: Any, code: Any, text: str) -> None:
    """A watch that cannot begin ends with the code and text of the table."""
    await api.submit()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.events.WatchJobSet(request_).read()
    assert caught.value.code() == code
    assert text in str(caught.value.details())


LOGS = {
    "no uuid": (job_pb2.GetJobLogRequest(id="x"), INVALID, "id"),
    "foreign uuid": (job_pb2.GetJobLogRequest(id=FOREIGN_ID), INVALID, "not a job id"),
    "unknown job": (job_pb2.GetJobLogRequest(id=UNKNOWN_ID), MISSING, UNKNOWN_ID),
    "attempt of -1": (job_pb2.GetJobLogRequest(id=UNKNOWN_ID, attempt=-1), INVALID, "attempt"),
    "pod of 32": (job_pb2.GetJobLogRequest(id=UNKNOWN_ID, pod=32), INVALID, "pod"),
    "long container": (job_pb2.GetJobLogRequest(id=UNKNOWN_ID, container="x" * 64), INVALID, "container"),
    "tail of -1": (job_pb2.GetJobLogRequest(id=UNKNOWN_ID, tail_line_count=-1), INVALID, "tail_line_count"),
}


@pytest.mark.parametrize(("request_", "code", "text"), LOGS.values(), ids=LOGS)
async def test_log_refuses_hostile_request(api: Any, request_: Any, code: Any, text: str) -> None:
    """A log that cannot be read ends with the code and text of the table."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.GetJobLog(request_).read()
    assert caught.value.code() == code
    assert text in str(caught.value.details())


async def test_dump_refuses_an_odd_pool(api: Any) -> None:
    """A stream checks its request as every other call does."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.debug.DumpState(debug_pb2.DumpStateRequest(pool="x" * 64)).read()
    assert (caught.value.code(), "pool" in str(caught.value.details())) == (INVALID, True)


async def test_dump_says_that_there_is_no_leader(api: Any) -> None:
    """A stream that needs a leader says so when there is none."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.debug.DumpState(debug_pb2.DumpStateRequest()).read()
    assert (caught.value.code(), "has no leader" in str(caught.value.details())) == (UNAVAILABLE, True)


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a\x05ab", b"\x0b" * 20_000], ids=["garbage", "truncated", "nested"])
async def test_every_method_refuses_bytes_that_are_no_message(api: Any, data: bytes) -> None:
    """Every method of every service answers malformed bytes with INVALID_ARGUMENT."""
    for module in (job_pb2, queue_pb2, cluster_pb2, scheduling_pb2, event_pb2, server_pb2, debug_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                call = api.channel.unary_stream(path)(data).read() if method.server_streaming else None
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await (call or api.channel.unary_unary(path)(data))
                assert caught.value.code() == INVALID, method.full_name


async def test_submit_lists_every_bad_item(api: Any) -> None:
    """A request with many faults gets all of them in one answer."""
    request = job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[pod(hostNetwork=True)]), job_pb2.JobSpec(manifests=["[]"])],
        items=[
            job_pb2.JobItem(spec=9, queue="blue", job_set="a b"),
            job_pb2.JobItem(queue="Blue!", job_set="ok", client_id="\x07"),
            job_pb2.JobItem(queue="red", job_set="ok", labels={"argosy.dev/x": "y"}),
        ],
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.SubmitJobs(request)
    assert caught.value.code() == INVALID
    fields = {violation.field for violation in from_rpc_error(caught.value).violations}
    assert fields == {
        "specs[0].manifests[0].spec.hostNetwork",
        "specs[1].manifests[0]",
        "items[0].spec",
        "items[0].queue",
        "items[0].job_set",
        "items[1].queue",
        "items[1].client_id",
        "items[2].labels['argosy.dev/x']",
    }

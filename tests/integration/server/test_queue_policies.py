"""What a queue lets its jobs' pods do, asked of a running server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import yaml
from google.rpc import error_details_pb2, status_pb2

from argosy.api.v1 import job_pb2, queue_pb2
from argosy.channel_credentials import hash_token
from argosy_runtime.access.guard import AccessSettings

RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.fixture
async def api(serve: Any, database_url: str) -> AsyncIterator[Any]:
    """Give a server with the queues red and blue."""
    async with serve(database_url) as api:
        await api.make_queue("red")
        await api.make_queue("blue")
        yield api


def pod(*, metadata: dict[str, Any] | None = None, image: str = "busybox", **spec: Any) -> str:
    """Return a pod as JSON."""
    container = {"name": "main", "image": image, "resources": RESOURCES}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata or {},
        "spec": {"containers": [container], **spec},
    }
    return json.dumps(document)


async def give(api: Any, name: str, **document: Any) -> None:
    """Give a queue a policy."""
    policy = json.dumps(document)
    await api.queues.SetQueuePolicy(queue_pb2.SetQueuePolicyRequest(name=name, policy=policy))


def submit(*queues: str, manifests: tuple[str, ...], **fields: Any) -> job_pb2.SubmitJobsRequest:
    """Return a submit of one spec to some queues."""
    items = [job_pb2.JobItem(queue=queue, job_set="one", **fields) for queue in queues]
    return job_pb2.SubmitJobsRequest(specs=[job_pb2.JobSpec(manifests=manifests)], items=items)


async def fields_of(call: Any) -> list[str]:
    """Return the fields that a call was refused for."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = status_pb2.Status.FromString(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    found = error_details_pb2.BadRequest()
    for detail in status.details:
        detail.Unpack(found)
    return [violation.field for violation in found.field_violations]


async def test_every_bad_item_of_a_pod_is_named_and_counts_at_once(api: Any) -> None:
    """The policy of the queue alone counts: what red refuses, blue takes, and what blue grants, red refuses."""
    await give(api, "red", images=["registry.example.org/"], priorityClasses=["batch"])
    await give(api, "blue", level="privileged")
    odd = submit("red", manifests=(pod(priorityClassName="urgent", hostNetwork=True),))
    assert set(await fields_of(api.jobs.SubmitJobs(odd))) == {
        "specs[0].manifests[0].spec.hostNetwork",
        "specs[0].manifests[0].spec.priorityClassName",
        "specs[0].manifests[0].spec.containers[0].image",
    }
    assert (await api.jobs.SubmitJobs(submit("blue", manifests=(pod(hostNetwork=True),)))).job_ids
    shared = submit("blue", "red", manifests=(pod(),))
    assert await fields_of(api.jobs.SubmitJobs(shared)) == ["specs[0].manifests[0].spec.containers[0].image"]
    await api.queues.SetQueuePolicy(queue_pb2.SetQueuePolicyRequest(name="red"))
    assert (await api.jobs.SubmitJobs(shared)).job_ids


async def test_each_queue_adds_its_own_to_one_spec(api: Any) -> None:
    """Of one spec for two queues each job gets its queue's defaults; a repeat is one, the same client id is known."""
    await give(api, "red", defaults={"nodeSelector": {"pool": "red"}})
    await give(api, "blue", defaults={"tolerations": [{"key": "blue", "operator": "Exists"}]})
    request = submit("red", "blue", "red", manifests=(pod(),))
    for number, item in enumerate(request.items):
        item.client_id = f"id-{number}"
    first = await api.jobs.SubmitJobs(request)
    assert list((await api.jobs.SubmitJobs(request)).job_ids) == list(first.job_ids)
    specs = []
    for job_id in first.job_ids:
        job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job
        specs.append(json.loads(job.spec.manifests[0])["spec"])
    assert [spec.get("nodeSelector") for spec in specs] == [{"pool": "red"}, None, {"pool": "red"}]
    assert [spec.get("tolerations") for spec in specs] == [None, [{"key": "blue", "operator": "Exists"}], None]


async def test_job_must_have_the_time_limit_that_its_queue_asks_for(api: Any) -> None:
    """One of its own or of its pod, and none that is longer."""
    await give(api, "red", maxTime="1h")
    for manifest, limit_s, is_right in (
        (pod(), 0, False),
        (pod(), 3601, False),
        (pod(), 3600, True),
        (pod(activeDeadlineSeconds=60), 0, True),
        (pod(activeDeadlineSeconds=7200), 60, True),
    ):
        request = submit("red", "blue", manifests=(manifest,))
        if limit_s:
            request.items[0].time_limit.FromSeconds(limit_s)
        if is_right:
            assert (await api.jobs.SubmitJobs(request)).job_ids
        else:
            assert await fields_of(api.jobs.SubmitJobs(request)) == ["items[0].time_limit"]


async def test_policy_is_read_back_and_its_faults_are_named(api: Any) -> None:
    """What is set is answered; a document with a misspelt key changes nothing; an unknown queue has none."""
    await give(api, "red", level="restricted")
    with pytest.raises(grpc.aio.AioRpcError):
        await give(api, "red", levels="baseline")
    answer = await api.queues.GetQueuePolicy(queue_pb2.GetQueuePolicyRequest(name="red"))
    assert json.loads(answer.policy) == {"level": "restricted"}
    for call in (
        api.queues.GetQueuePolicy(queue_pb2.GetQueuePolicyRequest(name="grey")),
        api.queues.SetQueuePolicy(queue_pb2.SetQueuePolicyRequest(name="grey", policy="{}")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_queue_without_a_policy_has_that_of_the_nearest_queue_above_it(database_url: str, serve: Any) -> None:
    """However far above; one of its own holds instead, and without both it is the installation's."""
    async with serve(database_url, api={"queue_cache_s": 0.0}) as api:
        for name, parent in (("lab", ""), ("team", "lab"), ("user", "team")):
            await api.make_queue(name, parent=parent)
        privileged = submit("user", manifests=(pod(hostNetwork=True),))
        assert await fields_of(api.jobs.SubmitJobs(privileged))
        await give(api, "lab", level="privileged")
        answer = await api.queues.GetQueuePolicy(queue_pb2.GetQueuePolicyRequest(name="user"))
        assert (json.loads(answer.policy), answer.inherited_from) == ({"level": "privileged"}, "lab")
        assert (await api.jobs.SubmitJobs(privileged)).job_ids
        await give(api, "team", level="restricted")
        assert await fields_of(api.jobs.SubmitJobs(privileged)), "the nearest one holds"
        await give(api, "user", level="privileged")
        assert (await api.jobs.SubmitJobs(privileged)).job_ids, "its own holds"
        answer = await api.queues.GetQueuePolicy(queue_pb2.GetQueuePolicyRequest(name="team"))
        assert (json.loads(answer.policy), answer.inherited_from) == ({"level": "restricted"}, "")


async def test_policy_that_cannot_be_read_lets_nothing_through(api: Any) -> None:
    """One that a newer version has stored: its queue waits for that version, and others go on."""
    await give(api, "red", level="privileged")
    with psycopg.connect(api.url, autocommit=True) as connection:
        connection.execute("UPDATE queue_policies SET document = '{\"newer\": 1}'")
    assert await fields_of(api.jobs.SubmitJobs(submit("red", manifests=(pod(),))))
    assert (await api.jobs.SubmitJobs(submit("blue", manifests=(pod(),)))).job_ids


async def test_namespaces_of_the_installation_are_no_queues(serve: Any, database_url: str) -> None:
    """Wherever it is installed: a pod in its namespace could name the secrets of its services."""
    async with serve(database_url, api={"reserved_namespaces": ("batch-system",)}) as api:
        for name, namespaces in (("batch-system", ()), ("red", ("red", "batch-system"))):
            queue = queue_pb2.Queue(name=name, namespaces=namespaces)
            with pytest.raises(grpc.aio.AioRpcError, match="no queue may use it"):
                await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue))
        queue = queue_pb2.Queue(name="batch-system", namespaces=("blue",))
        await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue))
        own = pod(metadata={"namespace": "batch-system"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.jobs.SubmitJobs(submit("batch-system", manifests=(own,)))
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_default_namespace_is_shared_only_where_nobody_is_asked_who_they_are(
    serve: Any, database_url: str, tmp_path: Path
) -> None:
    """A queue that names no namespaces has the one of its own name alone, unless the installation says otherwise."""
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": [{"name": "root", "sha256": hash_token("root")}]}))
    access = AccessSettings(tokens_file=str(tmp_path / "tokens.yaml"), admins=("user:root",))
    root = {"metadata": (("authorization", "Bearer root"),)}
    own = pod(metadata={"namespace": "red"})
    for wanted, is_shared in (("auto", False), ("shared", True)):
        async with serve(database_url, access=access, api={"default_namespace": wanted}) as api:
            await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red")), **root)
            assert (await api.jobs.SubmitJobs(submit("red", manifests=(own,)), **root)).job_ids
            call = api.jobs.SubmitJobs(submit("red", manifests=(pod(),)), **root)
            if is_shared:
                assert (await call).job_ids
            else:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call
                assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED

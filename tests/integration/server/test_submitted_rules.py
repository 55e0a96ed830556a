"""What a submit says beside manifests, against a real database: resizes, groups, retries, what becomes of lost runs."""

from __future__ import annotations

import json
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.integration.server.conftest import make_item

from argosy.api.v1 import job_pb2
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import FailureKind
from argosy_core.job.tables.interning import Layout
from argosy_runtime.errors import from_rpc_error


async def test_policy_for_resizes_becomes_annotations_and_is_read_back(api: Any) -> None:
    """It may be said twice, if it is the same; a submit under a used client id is compared with it."""
    least, most = job_pb2.ScaledAmounts(cpu="500m", memory="64Mi"), job_pb2.ScaledAmounts(cpu="4", memory="8Gi")
    policy = job_pb2.ScalingPolicy(min=least, max=most, unit=least, targets=job_pb2.ScalingTargets(load=0.5))
    notes = {
        "argosy.dev/autoscale-min": "cpu=500m,memory=64Mi",
        "argosy.dev/autoscale-max": "memory=8Gi,cpu=4",
        "argosy.dev/autoscale-unit": "cpu=500m,memory=64Mi",
        "argosy.dev/autoscale-targets": "load=0.5",
    }
    port = {"argosy.dev/autoscale-contract-port": "8321"}  # goes with a policy, and is none
    ids = await api.submit(
        {"scaling": policy, "client_id": "one"}, {"annotations": notes}, {}, {"scaling": policy, "annotations": port}
    )
    jobs = (await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=ids))).jobs
    assert [job.scaling for job in jobs] == [policy, policy, job_pb2.ScalingPolicy(), policy]
    assert [set(jobs[place].annotations) for place in (0, 3)] == [set(notes), {*notes, *port}]
    assert await api.submit({"scaling": policy, "client_id": "one"}) == ids[:1]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"client_id": "one"})
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS


@pytest.mark.parametrize(
    ("policy", "notes", "said"),
    [
        ({"min": ("1", "1Gi")}, {}, "min and max are both needed"),
        ({"min": ("1", "1Gi"), "max": ("1", "1Mi")}, {}, "min is above max"),
        ({"min": ("0", "1Gi"), "max": ("1", "1Gi")}, {}, "min must have some of each resource"),
        ({"min": ("1", "1Gi"), "max": ("x", "1Gi")}, {}, "max: "),
        ({"min": ("500m", "1Mi"), "max": ("4", "1Gi"), "unit": ("8", "1Gi")}, {}, "unit is above max"),
        ({"min": ("10m", "1Mi"), "max": ("20m", "8Gi")}, {}, "its max is 20m"),
        (
            {"min": ("10m", "1Mi"), "max": ("4", "8Gi")},
            {"argosy.dev/autoscale-min": "cpu=1,memory=1Mi", "argosy.dev/autoscale-max": "cpu=4,memory=8Gi"},
            "another thing than the annotation",
        ),
    ],
)
async def test_policy_for_resizes_that_cannot_be_kept_is_refused_at_submit(
    api: Any, policy: dict[str, tuple[str, str]], notes: dict[str, str], said: str
) -> None:
    """The item and its field are named, in the words of the field."""
    amounts = {name: job_pb2.ScaledAmounts(cpu=cpu, memory=memory) for name, (cpu, memory) in policy.items()}
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({}, {"scaling": job_pb2.ScalingPolicy(**amounts), "annotations": notes})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    (fault,) = from_rpc_error(caught.value).violations
    assert fault.field == "items[1].scaling"
    assert said in fault.description


async def test_distributed_job_is_stored_and_answered_as_it_was_given(api: Any) -> None:
    """Groups come back whole, YAML as JSON; its class says them, and its layout is that of every member."""
    head, config = make_item().specs[0].manifests[0], '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    resources = "{limits: {cpu: 1, memory: 1Gi}}"
    work = f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: main, image: app, resources: {resources}}}]}}\n"
    groups = [
        job_pb2.PodGroup(name="head", min=1, template=head),
        job_pb2.PodGroup(name="work", min=2, max=4, template=work, after="head", max_hops=0, shares_nodes=True),
    ]
    request = make_item(client_id="once")
    request.specs[0].CopyFrom(job_pb2.JobSpec(manifests=[config], groups=groups))
    (job_id,) = (await api.jobs.SubmitJobs(request)).job_ids
    spec = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job.spec
    assert list(spec.manifests) == [config]
    assert [json.loads(group.template)["kind"] for group in spec.groups] == ["Pod", "Pod"]
    for group, given in zip(spec.groups, groups, strict=True):
        group.template = given.template
        given.max = given.max or given.min
        assert group == given
    assert (await api.jobs.SubmitJobs(request)).existing_jobs == [0]
    request.specs[0].groups[1].min = 1
    with pytest.raises(grpc.RpcError) as told:
        await api.jobs.SubmitJobs(request)
    assert told.value.code() == grpc.StatusCode.ALREADY_EXISTS
    with psycopg.connect(api.url) as connection:
        (definition,) = connection.execute("SELECT definition FROM scheduling_classes").fetchall()[-1]
        layouts = [json.loads(bytes(row[0])) for row in connection.execute("SELECT layout FROM job_specs")]
    assert [group.name for group in SchedulingClass.parse(bytes(definition)).gang] == ["head", "work"]
    assert layouts == [[["ConfigMap", "a"], ["Service", "member"], ["Pod", "member"]]]


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (job_pb2.PodGroup(name="a", min=0, template="{}"), "specs[0].groups[0].min"),
        (job_pb2.PodGroup(name="a", min=1001, template="{}"), "specs[0].groups[0].min"),
        (
            job_pb2.PodGroup(name="a", min=3, max=2, template=make_item().specs[0].manifests[0]),
            "specs[0].groups[0].min",
        ),
        (job_pb2.PodGroup(name="", min=1, template="{}"), "specs[0].groups[0].name"),
        (job_pb2.PodGroup(name="a", min=1), "specs[0].groups[0].template"),
        (job_pb2.PodGroup(name="a", min=1, template="kind: [Pod"), "specs[0].groups[0].template"),
        (job_pb2.PodGroup(name="a", min=1, template="kind: Pod", max_hops=-1), "specs[0].groups[0].max_hops"),
    ],
    ids=["min-0", "min-many", "min-above-max", "no-name", "no-template", "no-yaml", "hops"],
)
async def test_group_that_cannot_be_is_refused(api: Any, group: job_pb2.PodGroup, field: str) -> None:
    """Nothing is accepted, and the answer names the field."""
    request = make_item()
    request.specs[0].CopyFrom(job_pb2.JobSpec(groups=[group]))
    with pytest.raises(grpc.RpcError) as told:
        await api.jobs.SubmitJobs(request)
    assert told.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert field in (told.value.details() or "")


async def test_rules_for_retries_are_stored_with_the_spec_and_answered(api: Any) -> None:
    """They come back whole, stand in the layout for the leader, and make another spec of the same manifests."""
    request = make_item(client_id="once")
    request.specs[0].retry.CopyFrom(
        job_pb2.RetryRules(
            max_failed_runs=4,
            by_kind=[job_pb2.FailureLimit(kind=job_pb2.FAILURE_KIND_EXIT_CODE, max_failed_runs=3)],
            first_back_off=Duration(seconds=1, nanos=500_000_000),
            back_off_factor=3.0,
            max_back_off=Duration(seconds=60),
        )
    )
    request.specs[0].node_lost.replace_after.FromSeconds(90)
    (job_id,) = (await api.jobs.SubmitJobs(request)).job_ids
    spec = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job.spec
    assert (spec.retry, spec.node_lost) == (request.specs[0].retry, request.specs[0].node_lost)
    with psycopg.connect(api.url) as connection:
        ((layout,),) = connection.execute("SELECT layout FROM job_specs").fetchall()
    rules = Layout.parse(bytes(layout)).rules
    assert rules is not None
    assert rules.replace_after_s == 90.0
    assert (rules.limit(FailureKind.EXIT_CODE, 10), rules.limit(FailureKind.EVICTED, 10)) == (3, 4)
    request.specs[0].ClearField("node_lost")
    with pytest.raises(grpc.RpcError) as told:
        await api.jobs.SubmitJobs(request)
    assert told.value.code() == grpc.StatusCode.ALREADY_EXISTS


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        (job_pb2.RetryRules(max_failed_runs=251), "max_failed_runs"),
        (job_pb2.RetryRules(by_kind=[job_pb2.FailureLimit(max_failed_runs=1)]), "kind"),
        (job_pb2.RetryRules(by_kind=[job_pb2.FailureLimit(kind=job_pb2.FAILURE_KIND_IMAGE)]), "max_failed_runs"),
        (job_pb2.RetryRules(first_back_off=Duration(seconds=-1)), "first_back_off"),
        (job_pb2.RetryRules(back_off_factor=0.5), "back_off_factor"),
    ],
    ids=["many", "no-kind", "no-limit", "negative", "factor"],
)
async def test_rules_for_retries_that_cannot_be_are_refused(api: Any, rules: job_pb2.RetryRules, field: str) -> None:
    """Nothing is accepted, and the answer names the field."""
    request = make_item()
    request.specs[0].retry.CopyFrom(rules)
    with pytest.raises(grpc.RpcError) as told:
        await api.jobs.SubmitJobs(request)
    assert told.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"specs[0].retry.{field}" in (told.value.details() or "") or f"].{field}" in (told.value.details() or "")


async def test_node_lost_may_be_said_alone(api: Any) -> None:
    """A spec that only says what becomes of unheard runs answers no rules for retries; half a second is refused."""
    request = make_item()
    request.specs[0].node_lost.replace_after.FromSeconds(90)
    (job_id,) = (await api.jobs.SubmitJobs(request)).job_ids
    spec = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job.spec
    assert (spec.HasField("retry"), spec.node_lost.replace_after.seconds) == (False, 90)
    request.specs[0].node_lost.replace_after.FromMilliseconds(500)
    with pytest.raises(grpc.RpcError, match="replace_after"):
        await api.jobs.SubmitJobs(request)


async def test_executor_lost_may_be_said_alone(api: Any) -> None:
    """As node_lost; it reaches the leader with the layout of the spec."""
    request = make_item()
    request.specs[0].executor_lost.stop_after.FromSeconds(90)
    (job_id,) = (await api.jobs.SubmitJobs(request)).job_ids
    spec = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job.spec
    assert [field.name for field, _ in spec.ListFields()] == ["manifests", "executor_lost"]
    assert spec.executor_lost.stop_after.seconds == 90
    with psycopg.connect(api.url) as connection:
        ((layout,),) = connection.execute("SELECT layout FROM job_specs").fetchall()
    rules = Layout.parse(bytes(layout)).rules
    assert rules is not None
    assert rules.stop_after_s == 90.0
    request.specs[0].executor_lost.stop_after.FromMilliseconds(500)
    with pytest.raises(grpc.RpcError, match="stop_after"):
        await api.jobs.SubmitJobs(request)

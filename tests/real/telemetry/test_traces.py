"""Traces of a whole mesh, as a collector gets them: from a caller's own span to the creation of its pods."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

from .collector import Collector, Received

pytestmark = pytest.mark.timeout(300)

MANIFEST = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": {"argosy.dev/simulated-run-time": "0s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
            ],
        },
    }
)
TRACED, UNTRACED = 3, 40


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, list[str], str, str]]:
    """What a collector got of a mesh that ran three traced jobs and forty others: (collector, ids, trace, span)."""
    with Collector() as collector, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with Mesh(tmp_path_factory.mktemp("traces") / "mesh") as mesh:
            mesh.up(MeshPlan(clusters=(ClusterPlan(name="c1", kinds="4:cpu=4,memory=16Gi"),)))
            job_ids, trace_id, span_id = asyncio.run(submit_and_wait(mesh.server))
        yield collector, job_ids, trace_id, span_id


async def submit_and_wait(server: str) -> tuple[list[str], str, str]:
    """Submit jobs within a span of ours and others without one; return ids of the former, the trace and the span."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("caller")
    async with ArgosyClient(server) as client:
        await client.create_queue(Queue(name="science"))
        for name, count in (("others", UNTRACED), ("mine", TRACED)):
            draft = JobDraft(queue="science", job_set=name, manifests=(MANIFEST,), count=count)
            if name == "others":
                await client.submit([draft])
                continue
            with tracer.start_as_current_span("caller") as span:
                job_ids = await client.submit([draft])
            ours = span.get_span_context()
        for name in ("others", "mine"):
            async for _ in client.watch("science", name, until_finished=True):
                pass
    return list(job_ids), format_trace_id(ours.trace_id), format_span_id(ours.span_id)


def test_submit_is_a_span_below_the_callers(told: tuple[Collector, list[str], str, str]) -> None:
    """The caller's context travels in the metadata of the call; a submit without one begins a trace."""
    collector, job_ids, trace_id, span_id = told
    submits = collector.named("submit")

    (mine,) = [span for span in submits if span.trace_id == trace_id]
    (other,) = [span for span in submits if span.trace_id != trace_id]

    assert (mine.parent_id, other.parent_id) == (span_id, "")
    assert (mine.attributes["argosy.job_ids"], mine.attributes["argosy.job_count"]) == (job_ids, TRACED)
    assert (len(other.attributes["argosy.job_ids"]), other.attributes["argosy.job_count"]) == (10, UNTRACED)
    assert {span.service for span in submits} == {"argosy-server"}


@pytest.mark.parametrize("stage", ["decide", "lease", "create"])
def test_traced_jobs_have_spans_in_the_callers_trace_and_others_have_none(
    told: tuple[Collector, list[str], str, str], stage: str
) -> None:
    """Only jobs whose submitter traces them cost a span each, below the submit's, from decision to creation."""
    collector, job_ids, trace_id, _ = told
    (submit,) = [span for span in collector.named("submit") if span.trace_id == trace_id]

    spans = collector.named(f"job.{stage}")

    assert sorted(span.attributes["argosy.job_id"] for span in spans) == sorted(job_ids)
    assert {(span.trace_id, span.parent_id) for span in spans} == {(trace_id, submit.span_id)}
    assert all(span.attributes["argosy.attempt"] == 1 and span.attributes["argosy.node"] for span in spans)
    assert all(span.attributes["argosy.cluster"] == "c1" for span in spans)
    assert not any(span.failed for span in spans)
    assert all(span.took_ns > 0 for span in spans)


def test_batches_form_a_chain_from_round_to_creation(told: tuple[Collector, list[str], str, str]) -> None:
    """A round, the record it published, its storing, its rows and the creates lie below each other, with counts."""
    collector, _, _, _ = told
    by_id = {span.span_id: span for span in collector.spans}

    def above(span: Received) -> Received:
        return by_id[span.parent_id]

    creates = collector.named("objects.create")
    assert sum(span.attributes["argosy.created_count"] for span in creates) == TRACED + UNTRACED
    assert {span.service for span in creates} == {"argosy-executor"}
    for create in [span for span in creates if span.parent_id]:
        rows = above(create)
        publish = above(rows)
        round_ = above(publish)
        assert [span.name for span in (rows, publish, round_)] == [
            "argosy.rows.send",
            "argosy.lease.publish",
            "argosy.round",
        ]
        assert len({span.trace_id for span in (create, rows, publish, round_)}) == 1
        assert not round_.parent_id
        assert round_.attributes["argosy.lease_count"] > 0
        assert round_.attributes["argosy.phase.decide_ms"] >= 0
    ingests = collector.named("lease.ingest")
    assert {above(span).name for span in ingests} == {"argosy.lease.publish"}
    assert sum(span.attributes["argosy.lease_count"] for span in collector.named("lease.publish")) == TRACED + UNTRACED


def test_jobs_are_linked_to_the_round_that_decided_them(told: tuple[Collector, list[str], str, str]) -> None:
    """From a job's trace one finds the batch that it was part of, and from the batch the traces of its jobs."""
    collector, _, trace_id, _ = told
    (submit,) = [span for span in collector.named("submit") if span.trace_id == trace_id]
    rounds = {span.span_id: span for span in collector.named("round")}

    for span in collector.named("job.decide"):
        (round_id,) = span.linked
        assert submit.span_id in rounds[round_id].linked
    batches = {span.span_id for span in collector.named("objects.create")}
    assert {linked for span in collector.named("job.create") for linked in span.linked} <= batches

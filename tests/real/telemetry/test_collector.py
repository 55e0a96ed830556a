"""Traces of a whole mesh through a real OpenTelemetry collector, with our configuration of it.

A backend is added by the second file that docs/telemetry.md shows, only the addresses are the test's own.
"""

import asyncio
import json
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id
from prometheus_client.parser import text_string_to_metric_families
from testbed.programs import Program

from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_local.processes import await_true, free_ports
from testbed import collector

from .collector import Collector as Backend
from .collector import Received

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = ROOT / "deploy" / "observability" / "otel" / "collector.yml"
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
COUNT = 3
ARRIVAL_S = 100.0
"""Batches are closed every 0.2 s by the collector and sent every 0.1 s by the services; a busy machine takes longer."""


@dataclass(kw_only=True)
class World:
    """A mesh that is traced, the collector that it sends to, and the backend behind that."""

    mesh: Mesh
    program: Program
    backend: Backend
    metrics_url: str
    """Where the collector tells of itself."""

    def counted(self, name: str) -> dict[str, float]:
        """Return a counter of the collector by component, summed over all else; nothing if it has not counted yet."""
        with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:
            text = answer.read().decode()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name:
                    component = sample.labels.get("exporter") or sample.labels.get("receiver") or ""
                    sums[component] = sums.get(component, 0.0) + sample.value
        return sums

    def is_ready(self) -> bool:
        """Return whether the collector answers."""
        try:
            self.counted("")
        except OSError:
            return False
        return True


def documented_addition() -> dict[str, Any]:
    """Return the second file of docs/telemetry.md, by which a backend is added."""
    (block,) = re.findall(r"```yaml\n(exporters:\n.*?)```", (ROOT / "docs" / "telemetry.md").read_text(), re.DOTALL)
    content: dict[str, Any] = yaml.safe_load(block)
    return content


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, note_part: Callable[[str, str], None]) -> Iterator[World]:
    """Mesh, collector and backend."""
    directory = tmp_path_factory.mktemp("telemetry")
    port, metrics_port = free_ports(2)
    binary = collector.build()
    with Backend() as backend, pytest.MonkeyPatch.context() as patch:
        own = documented_addition()
        own["exporters"]["otlp/backend"]["endpoint"] = backend.endpoint.removeprefix("http://")
        own["receivers"] = {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}}
        page = {"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": metrics_port}}}}
        own["service"]["telemetry"] = {"metrics": {"readers": [page]}}
        (directory / "own.yml").write_text(yaml.safe_dump(own))
        files = (f"--config={CONFIGURATION}", f"--config={directory / 'own.yml'}")
        program = Program("collector", [str(binary), *files], log=directory / "collector.log")
        mesh = Mesh(directory / "mesh")
        world = World(
            mesh=mesh, program=program, backend=backend, metrics_url=f"http://127.0.0.1:{metrics_port}/metrics"
        )
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        try:
            program.start()
            program.await_ready(world.is_ready, timeout_s=ARRIVAL_S)
            mesh.up(MeshPlan(clusters=(ClusterPlan(name="c1", kinds="4:cpu=4,memory=16Gi"),)))
            asyncio.run(_create_queue(mesh.server))
            note_part("OpenTelemetry collector", collector.version())
            yield world
        finally:
            mesh.down()
            program.stop()


async def _create_queue(server: str) -> None:
    async with ArgosyClient(server) as client:
        await client.create_queue(Queue(name="science"))


async def _run_traced_jobs(server: str, job_set: str) -> tuple[list[str], str, str]:
    """Submit jobs within a span of ours and wait for their end; return ids, the trace and the span."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("caller")
    async with ArgosyClient(server) as client:
        with tracer.start_as_current_span("caller") as span:
            draft = JobDraft(queue="science", job_set=job_set, manifests=(MANIFEST,), count=COUNT)
            job_ids = await client.submit([draft])
        async with asyncio.timeout(ARRIVAL_S):
            async for _ in client.watch("science", job_set, until_finished=True):
                pass
    context = span.get_span_context()
    return list(job_ids), format_trace_id(context.trace_id), format_span_id(context.span_id)


def test_our_configuration_is_valid_by_itself() -> None:
    """The collector takes the file that compose gives it, as it is."""
    done = subprocess.run(
        [collector.build(), "validate", f"--config={CONFIGURATION}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_trace_of_a_submit_reaches_the_backend_whole(world: World) -> None:
    """From the caller's span to the creation of pods: one trace, and beside it the chain of batches it was part of."""
    job_ids, trace_id, span_id = asyncio.run(_run_traced_jobs(world.mesh.server, "whole"))
    backend = world.backend

    def mine(name: str) -> list[Received]:
        return [span for span in backend.named(name) if span.trace_id == trace_id]

    stages = ("job.decide", "job.lease", "job.create")
    await_true(
        lambda: len(mine("submit")) == 1 and all(len(mine(name)) == COUNT for name in stages),
        "all spans of the trace",
        timeout_s=ARRIVAL_S,
    )

    (submit,) = mine("submit")
    assert (submit.service, submit.parent_id) == ("argosy-server", span_id)
    for name in stages:
        assert sorted(span.attributes["argosy.job_id"] for span in mine(name)) == sorted(job_ids)
        assert {span.parent_id for span in mine(name)} == {submit.span_id}
    assert {span.service for span in mine("job.create")} == {"argosy-executor"}
    (batch_id,) = {linked for span in mine("job.create") for linked in span.linked}

    def chain() -> list[Received]:
        """The batch and what lies above it, as far as it has arrived."""
        by_id = {span.span_id: span for span in list(backend.spans)}
        found, above = [], batch_id
        while above in by_id:
            found.append(by_id[above])
            above = found[-1].parent_id
        return found

    await_true(lambda: bool(chain()) and not chain()[-1].parent_id, "the chain of batches", timeout_s=ARRIVAL_S)
    assert [span.name.removeprefix("argosy.") for span in chain()] == [
        "objects.create", "rows.send", "lease.publish", "round",
    ]  # fmt: skip
    assert submit.span_id in chain()[-1].linked


def test_collector_passes_on_what_it_accepts(world: World) -> None:
    """Its own metrics, which Prometheus scrapes in the stack, tell as many spans in as out, and none refused."""
    asyncio.run(_run_traced_jobs(world.mesh.server, "counted"))

    def is_settled() -> bool:
        accepted = world.counted("otelcol_receiver_accepted_spans_total")
        sent = world.counted("otelcol_exporter_sent_spans_total")
        return accepted.get("otlp", 0.0) > 0 and sent == {"debug": accepted["otlp"], "otlp/backend": accepted["otlp"]}

    await_true(is_settled, "as many spans out as in", timeout_s=ARRIVAL_S)
    assert sum(world.counted("otelcol_receiver_refused_spans_total").values()) == 0
    assert '"otelcol.component.id": "debug"' in world.program.log.read_text()


def test_jobs_run_while_the_collector_is_away_and_are_traced_once_it_is_back(world: World) -> None:
    """Telemetry is no part of the way: its loss costs spans, not jobs, and nobody must restart anything."""
    world.program.kill()
    asyncio.run(_run_traced_jobs(world.mesh.server, "away"))
    world.program.start()
    world.program.await_ready(world.is_ready, timeout_s=ARRIVAL_S)

    def arrives() -> bool:
        _, trace_id, _ = asyncio.run(_run_traced_jobs(world.mesh.server, "back"))
        return any(span.trace_id == trace_id for span in list(world.backend.spans))

    await_true(arrives, "spans of a new trace", timeout_s=ARRIVAL_S)

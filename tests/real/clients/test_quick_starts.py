"""The quick starts of `docs/clients`, compiled from fresh stubs and run against a mesh; and reflection."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import stubs
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

from .cutting_proxy import CuttingProxy
from .programs import PROGRAMS, build

pytestmark = pytest.mark.timeout(900)

EVENT = re.compile(r" *(\d+) ([0-9a-f-]{36}) (\w+) (\S*)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a mesh with one simulated cluster of four nodes."""
    with Mesh(tmp_path_factory.mktemp("quick-start") / "mesh") as mesh:
        mesh.up(MeshPlan(clusters=(ClusterPlan(name="c1", kinds="4:cpu=4,memory=16Gi"),)))
        yield mesh.server


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that starts a language's quick start."""
    return build(request.param, tmp_path_factory.mktemp(request.param))


def start(command: list[str], server: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a quick start to its end."""
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "ARGOSY_SERVER": server, "ARGOSY_QUEUE": "quick-start"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def check_output(done: subprocess.CompletedProcess[str]) -> None:
    """Check that ten jobs were submitted, that each event was told once and in order, and that all jobs succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    queue_line, submit_line, *event_lines, summary = done.stdout.splitlines()
    assert queue_line == "queue quick-start"
    assert re.fullmatch(r"submitted 10 jobs to job set \w+-\d+", submit_line)
    assert summary == "10 succeeded"
    events = [match.groups() for line in event_lines if (match := EVENT.fullmatch(line))]
    assert len(events) == len(event_lines)
    assert [int(number) for number, *_ in events] == list(range(1, len(events) + 1))
    by_job: dict[str, list[str]] = {}
    for _, job_id, kind, _ in events:
        by_job.setdefault(job_id, []).append(kind)
    assert len(by_job) == 10
    assert all(kinds == ["submitted", "leased", "created", "running", "succeeded"] for kinds in by_job.values())
    assert all(node for _, _, kind, node in events if kind == "leased")


def test_quick_start_sees_ten_jobs_to_their_end(command: list[str], server: str, tmp_path: Path) -> None:
    """A quick start makes a queue (or takes the one that is there), submits, watches and sums up."""
    check_output(start(command, server, tmp_path))


def test_quick_start_misses_and_repeats_nothing_when_its_connection_breaks(
    command: list[str], server: str, tmp_path: Path
) -> None:
    """The watch goes on behind the last event received (invariant 6); calls are repeated by client id."""
    with CuttingProxy(server, cut_after_bytes=2500) as proxy:
        done = start(command, proxy.address, tmp_path)

    check_output(done)
    assert proxy.cut_count == 1


def test_quick_start_says_so_when_its_jobs_are_refused(command: list[str], server: str, tmp_path: Path) -> None:
    """A request that the server refuses ends a quick start at once, with the server's words and exit code 2."""
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "ARGOSY_SERVER": server, "ARGOSY_QUEUE": "Not A Name"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, "")
    assert "error: " in done.stderr
    assert "one field is wrong in the request" in done.stderr


def test_reflection_serves_grpcurl(server: str) -> None:
    """A stranger finds the services, their methods and messages, and calls one, without any file of ours."""
    grpcurl = stubs.install_grpcurl()

    def ask(*arguments: str) -> str:
        done = subprocess.run([grpcurl, "-plaintext", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    services = ask(server, "list").split()
    service = ask(server, "describe", "argosy.api.v1.JobService")
    message = ask(server, "describe", "argosy.api.v1.SubmitJobsRequest")
    clusters = json.loads(ask("-d", "{}", server, "argosy.api.v1.ClusterService/ListClusters"))

    assert {f"argosy.api.v1.{name}Service" for name in ("Job", "Queue", "Event", "Cluster", "Scheduling")} <= {
        *services
    }
    assert (
        "rpc SubmitJobs ( .argosy.api.v1.SubmitJobsRequest ) returns ( .argosy.api.v1.SubmitJobsResponse );" in service
    )
    assert "repeated .argosy.api.v1.JobItem items = 2" in message
    assert [cluster["name"] for cluster in clusters["clusters"]] == ["c1"]

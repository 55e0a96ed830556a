"""Commands that start a mesh of their own, use it, report, and leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(240)

TRACE = """\
version: argosy.dev/workload/v1
source: two queues on twenty nodes
queues:
  - {name: research, weight: 3}
  - {name: students}
nodes:
  - {count: 10, cluster: west, allocatable: {cpu: "4", memory: 16Gi}}
  - {count: 10, cluster: east, allocatable: {cpu: "4", memory: 16Gi}}
shapes:
  narrow: {requests: {cpu: "1", memory: 1Gi}}
  wide: {requests: {cpu: "2", memory: 2Gi}}
jobs:
  - {shape: narrow, queue: research, submit: 0s, run: 20s, count: 60}
  - {shape: narrow, queue: students, submit: 0s, run: 15s, count: 80}
  - {shape: wide, queue: students, submit: 10s, run: 10s, count: 40}
  - {shape: wide, queue: research, submit: 30s, run: 5s, count: 20}
"""
CORE_SECONDS = 60 * 20 + 80 * 15 + 40 * 2 * 10 + 20 * 2 * 5


@dataclass(frozen=True)
class Program:
    """The command as a process of its own, which keeps its temporary files in a folder of ours."""

    home: Path
    temporary: Path = field(init=False)

    def __post_init__(self) -> None:
        """Make the folder."""
        object.__setattr__(self, "temporary", self.home / "tmp")
        self.temporary.mkdir()

    def __call__(self, *arguments: str) -> str:
        """Run it to its good end and return its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "argosy_cli", "--home", str(self.home), *arguments],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def argosy(tmp_path: Path) -> Program:
    """The command in a home of its own."""
    return Program(tmp_path)


def check_times(report: dict[str, Any], count: int) -> None:
    """Check that each job has its time of each stage, and that the stages follow each other."""
    stages = [report["latency_ms"][stage] for stage in ("acknowledged", "considered", "leased", "running")]
    assert [stage["count"] for stage in stages] == [count] * 4
    assert all(0 < stage["p50"] <= stage["p90"] <= stage["p99"] <= stage["max"] for stage in stages)
    acknowledged, _, leased, running = stages
    assert acknowledged["mean"] < running["mean"]
    assert leased["mean"] < running["mean"]
    assert report["wait_s"]["count"] == report["bounded_slowdown"]["count"] == count
    assert report["wait_s"]["mean"] == pytest.approx(running["mean"] / 1000 * report["speed"], rel=1e-4)
    assert report["bounded_slowdown"]["p50"] >= 1


def test_replay_starts_a_mesh_runs_every_job_and_reports(argosy: Program) -> None:
    """Two hundred jobs of a file, tenfold as fast as they were: all are in the report, with all that it promises."""
    trace = argosy.home / "trace.yaml"
    trace.write_text(TRACE)

    printed = argosy("replay", str(trace), "--speed", "10", "--report", "report.json")

    report = json.loads((argosy.home / "report.json").read_text())
    assert (report["job_count"], report["states"]) == (200, {"succeeded": 200})
    assert (report["clock"], report["speed"], report["node_count"]) == ("real", 10, 20)
    assert report["capacity"] == {"cpu": 80_000, "memory": 20 * 16 * 2**30, "pods": 20 * 110}
    check_times(report, 200)
    assert {
        queue["name"]: (queue["weight"], queue["job_count"], queue["finished_count"]) for queue in report["queues"]
    } == {
        "research": (3, 80, 80),
        "students": (1, 120, 120),
    }
    # What was held follows from the trace: its work over the cores and the time that it took.
    least = CORE_SECONDS / 80 / report["makespan_s"]
    assert least * 0.9 <= report["utilisation"]["cpu"] <= min(1.0, least * 2)
    assert report["makespan_s"] >= 35
    assert report["throughput_per_s"] == pytest.approx(200 / report["elapsed_s"], rel=1e-4)
    assert len(report["series"]["utilisation"]["cpu"]) == len(report["series"]["waiting"]) == 240
    assert sum(queue["held_ratio"] for queue in report["queues"]) == pytest.approx(1, rel=1e-4)
    assert 0.5 <= report["fairness"]["jain_index"] <= 1
    assert {"conflicts", "retries", "calls repeated"} <= set(report["counters"])
    assert any("10 s of the trace" in note for note in report["notes"])
    assert "200: 200 succeeded" in printed
    assert list(argosy.temporary.iterdir()) == []


def test_demo_runs_a_part_of_its_workload_on_all_of_its_nodes(argosy: Program) -> None:
    """The demo's own way, with fewer jobs: three clusters, five queues, and a node that dies half way."""
    printed = argosy("demo", "--seconds", "10", "--scale", "0.1", "--report", "demo.html", "-o", "json")

    report = json.loads(printed)
    count = report["job_count"]
    assert (report["title"], report["states"]) == ("Argosy demo", {"succeeded": count})
    assert (report["node_count"], report["settings"]["clusters"]) == (48, "3")
    assert sum(queue["finished_count"] for queue in report["queues"]) == count > 100
    queues = {"spare", "research", "service", "flood", "training"}
    assert {queue["name"] for queue in report["queues"]} == queues
    assert {queue["name"] for queue in report["first_come"]["queues"]} == queues
    assert [one["text"] for one in report["happenings"] if one["kind"] == "gang"]
    check_times(report, count)
    assert any("as if it had died" in note for note in report["notes"])
    page = (argosy.home / "demo.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert f"All {count:,} jobs succeeded" in page
    assert "what ran on each node" in page
    assert list(argosy.temporary.iterdir()) == []


def test_bench_mesh_measures_what_it_lists(argosy: Program) -> None:
    """Rates, percentiles of each stage, CPU by process, rows, log bytes and memory, of a mesh of its own."""
    options = ["--clusters", "1", "--nodes", "20", "--queues", "4", "--classes", "8", "--call-size", "10"]
    times = ["--rate", "100", "--seconds", "3", "--warm-up", "1", "--run-time", "0.2s-0.6s"]

    document = json.loads(argosy("bench", "mesh", *options, *times, "--json"))

    assert (document["nodes"], document["clusters"], document["cores"]) == (20, 1, 640)
    assert (document["load"]["queue_count"], document["load"]["class_count"]) == (4, 8)
    (result,) = document["results"]
    assert document["highest_held_rate"] == (100 if result["held"] else None)
    assert bool(result["notes"]) == (not result["held"])
    for name, words in (("accepted_per_s", "were accepted"), ("finished_per_s", "jobs/s ended")):
        assert 0 < result[name] < 200
        assert (result[name] < 97) == (words in " ".join(result["notes"])), "what was not held is told"
    for stage in ("acknowledged", "considered", "leased", "running", "finished"):
        assert 0 < result["latency_ms"][stage]["p50_ms"] <= result["latency_ms"][stage]["p99_ms"]
    cpu_us = result["cpu_us_per_job"]
    assert set(cpu_us) == {"postgres", "api", "leader", "samplers", "executors", "clusters", "generator"}
    assert all(value > 0 for value in cpu_us.values())
    central = sum(cpu_us[role] for role in ("postgres", "api", "leader", "samplers"))
    assert result["central_cpu_us_per_job"] == pytest.approx(central, rel=1e-4)
    assert 0 < result["cores_used"] < (os.cpu_count() or 1) + 1
    rows = result["database"]
    # A job is four inserts and four updates; specs, events and what serves all jobs come on top.
    most = 12 * max(1.0, result["accepted_per_s"] / result["finished_per_s"])  # counted by jobs that ended
    assert 3 <= rows["inserted_per_job"] <= most
    assert 2 <= rows["updated_per_job"] <= most
    assert 0 < rows["hot_ratio"] <= 1
    assert rows["wal_bytes_per_job"] > 500
    assert set(result["peak_rss_bytes"]) == set(cpu_us) - {"generator"}
    assert all(value > 1 << 20 for value in result["peak_rss_bytes"].values())
    assert 0 < result["live_count"] < 1000
    assert result["leader_bytes_per_live_job"] is None
    assert 0 < result["utilisation_ratio"] < 1
    assert 0 < result["fairness"]["jain_index"] <= 1
    assert result["counters"]["rounds"] > 0
    assert result["generator"]["errors"] == {}
    assert list(argosy.temporary.iterdir()) == []

"""`argosy plan`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import job_pb2
from argosy_cli.output import time_text
from argosy_testkit.fake_api import FakeApi

_JOB = """\
queue: science
jobSet: first
spec:
  manifests:
    - {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Give a file of one document."""
    path = tmp_path / "jobs.yaml"
    path.write_text(_JOB)
    return str(path)


def test_plan_says_where_jobs_would_start_whom_that_stops_and_what_queues_would_hold(
    api: FakeApi, argosy: Any, file: str
) -> None:
    """Nothing is submitted by that."""
    api.plan.items.add(
        placed_count=3,
        places=[
            job_pb2.PlannedPlace(cluster="east", node="n1", job_count=2),
            job_pb2.PlannedPlace(cluster="west", node="n2", job_count=1),
        ],
    )
    api.plan.other_started_count = 2
    api.plan.preemptions.add(job_id="x", queue="red", cluster="east", node="n1", reason="makes room")
    api.plan.capacity_cores = 16
    api.plan.weightless_resources.append("example.com/gpu")
    api.plan.share_changes.add(queue="science", usage_before_cores=1, usage_after_cores=4, entitled_after_cores=8)
    done = argosy("plan", "-f", file)
    assert done.code == 0
    assert done.out.splitlines() == [
        f"{file}, document 1: 3 would start at once: 2 on east, 1 on west (first east/n1)",
        "2 other waiting jobs would start before or beside them",
        "would be stopped: x (red) on east/n1: makes room",
        "queue science: holds 6.25% -> 25% of the pool, entitled to 0% -> 50%",
        "example.com/gpu weighs nothing: whoever holds it is not seen as using anything",
    ]
    assert api.requests["SubmitJobs"] == []
    assert json.loads(argosy("plan", file, "-o", "json").out)["items"][0]["placedCount"] == 3


def test_plan_ends_with_2_if_a_job_can_never_run(api: FakeApi, argosy: Any, file: str) -> None:
    """So that a script need not read it."""
    item = api.plan.items.add(waiting_count=1)
    item.first_waiting.why = "no node of any cluster can ever hold it: no node has disk=ssd"
    item.first_waiting.missing.append("no node has disk=ssd")
    done = argosy("plan", file)
    assert done.code == 2
    assert "1 would wait: no node of any cluster can ever hold it: no node has disk=ssd" in done.out


def test_plan_tells_promised_and_expected_starts(api: FakeApi, argosy: Any, file: str) -> None:
    """What is promised comes first."""
    item = api.plan.items.add(waiting_count=1)
    moment = time_text(datetime.fromtimestamp(1_000_000_000, UTC))
    item.first_waiting.why = "full"
    item.first_waiting.expected_start.earliest.seconds = 1_000_000_000
    assert f"full; expected to start from {moment}" in argosy("plan", file).out
    promised = job_pb2.PromisedStart(time=Timestamp(seconds=1_000_000_000), firm=True, node="a/n")
    item.first_waiting.promised_start.CopyFrom(promised)
    assert f"full; promised a/n by {moment} (firm)" in argosy("plan", file).out
    api.plan.complete = False
    assert "time was up" in argosy("plan", file).err


def test_plan_without_files_is_a_mistake(argosy: Any) -> None:
    """There is nothing to plan."""
    assert argosy("plan").code == 2


def test_plan_of_a_distributed_job_counts_its_pods(api: FakeApi, argosy: Any, file: str) -> None:
    """One job is on as many nodes as it has pods."""
    places = [
        job_pb2.PlannedPlace(cluster="east", node=f"n{at}", job_count=int(not at), member_count=1) for at in range(3)
    ]
    api.plan.items.add(placed_count=1, places=places)
    assert "1 would start at once: 3 pods on east (first east/n0)" in argosy("plan", "-f", file).out

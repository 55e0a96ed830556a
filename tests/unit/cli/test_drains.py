"""`argosy node drain`, `argosy cluster drain` and `argosy node get`."""

import json
import time
from typing import Any

import pytest

from argosy.api.v1 import job_pb2
from argosy_testkit.fake_api import FakeApi


@pytest.fixture(name="running")
def running_jobs(api: FakeApi, argosy: Any, job_file: str) -> list[str]:
    """Jobs on c1/n1 without a lifetime, past it and within it, one on c1/n2 and one that waits."""
    for _ in range(5):
        argosy("submit", job_file, "--queue", "q", "--job-set", "s")
    for number, job in enumerate(list(api.jobs.values())[:4]):
        job.state = job_pb2.JOB_STATE_RUNNING
        run = job.runs.add(attempt=1, state=job_pb2.RUN_STATE_RUNNING, cluster="c1", node="n2" if number == 3 else "n1")
        run.start_time.FromSeconds(int(time.time()) - 600)
        if number in {1, 2}:
            job.lifetime.FromSeconds(60 if number == 1 else 3600)
    return list(api.jobs)


def test_drain_stops_what_is_past_its_lifetime_and_tells_what_goes_on(
    api: FakeApi, argosy: Any, running: list[str]
) -> None:
    """The node is cordoned; nothing that was promised to run on is stopped in silence."""
    checked = argosy("node", "drain", "c1", "n1", "--dry-run")
    assert "would be cordoned; 1 run would be stopped" in checked.out
    assert "CordonNode" not in api.requests
    outcome = argosy("node", "drain", "c1", "n1", "--reason", "disk", "-y")
    assert outcome.code == 0, outcome.err
    assert "node c1/n1 is cordoned; 1 run stopped" in outcome.out
    assert "2 runs go on (1 without a lifetime, 1 within it); --all stops them, too:" in outcome.err
    (cordon,) = api.requests["CordonNode"]
    assert (cordon.node, cordon.reason) == ("n1", "disk")
    assert [list(request.jobs.ids) for request in api.requests["PreemptJobs"]] == [[running[1]]]


def test_drain_of_everything_and_of_a_cluster(api: FakeApi, argosy: Any, running: list[str]) -> None:
    """--all stops what has no lifetime; a cluster's drain is one of all its nodes."""
    told = json.loads(argosy("cluster", "drain", "c1", "--all", "-y", "-o", "json").out)
    assert told == {"stopped": running[:4], "goingOn": []}
    assert len(api.requests["CordonCluster"]) == 1


def test_grace_lets_runs_end_by_themselves(api: FakeApi, argosy: Any, running: list[str]) -> None:
    """Nothing is stopped of a node that is empty before the grace is over."""
    for job_id in running:
        api.jobs[job_id].state = job_pb2.JOB_STATE_SUCCEEDED
    begun_s = time.monotonic()
    assert "0 runs stopped" in argosy("node", "drain", "c1", "n1", "--grace", "1h", "-y").out
    assert time.monotonic() - begun_s < 30
    assert "PreemptJobs" not in api.requests


def test_drain_is_refused_where_nobody_confirms_and_of_what_is_not_there(argosy: Any) -> None:
    """A mistyped name drains nothing."""
    assert "confirm with -y" in argosy("node", "drain", "c1", "n1").err
    missing = argosy("node", "drain", "c1", "nope", "--dry-run")
    assert (missing.code, "has no node nope" in missing.err) == (3, True)


def test_nodes_of_all_clusters_are_listed_with_their_clusters(argosy: Any) -> None:
    """Whoever names no cluster means all of them."""
    rows = [line.split() for line in argosy("node", "list").out.splitlines()]
    assert rows[0][:2] == ["CLUSTER", "NAME"]
    assert [row[:2] for row in rows[1:]] == [["c1", "n0"], ["c1", "n1"], ["c1", "n2"]]
    listed = json.loads(argosy("node", "list", "-o", "json").out)
    assert (listed[0]["cluster"], listed[0]["node"]["name"]) == ("c1", "n0")
    assert json.loads(argosy("node", "list", "c1", "-o", "json").out)[0]["name"] == "n0"


def test_node_get_shows_the_node_and_who_is_on_it(argosy: Any, running: list[str]) -> None:
    """One node with its amounts, labels and jobs."""
    out = argosy("node", "get", "c1", "n1").out
    assert "name:" in out
    assert running[0][-6:] in out
    assert running[3][-6:] not in out
    assert argosy("node", "get", "c1", "nope").code == 3

"""`argosy jobs`: which jobs it asks for, what it says of them, and one job whole."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from argosy.api.v1 import job_pb2
from argosy_testkit.fake_api import FakeApi


def test_jobs_are_listed_by_selector(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Conditions reach the server; a table row shows the job."""
    outcome = argosy("jobs", "--queue", "science", "--state", "queued", "-l", "team=tides")

    selector = api.requests["ListJobs"][0].selector
    assert (selector.queue, list(selector.states), selector.label_selector) == ("science", [1], "team=tides")
    assert outcome.out.splitlines()[1].split()[:4] == [job_id[-6:], "science", "first", "pending"]


def test_children_of_a_job_are_selected_by_the_end_of_its_id(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Lists and change requests alike; the label is ours, beside what the user selects by."""
    assert argosy("jobs", "--parent", job_id[-6:], "-l", "team=tides", "--sort", "newest").code == 0
    assert argosy("cancel", "--queue", "science", "--parent", job_id, "--yes").code == 0
    assert api.requests["ListJobs"][0].selector.label_selector == f"team=tides,argosy.dev/parent={job_id}"
    assert api.requests["CancelJobs"][0].selector.label_selector == f"argosy.dev/parent={job_id}"
    assert argosy("cancel", "--parent", job_id, "--yes").code == 2


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], [({1, 2, 3}, 2), ({4, 5, 6}, 2)]),
        (["--active"], [({1, 2, 3}, 2)]),
        (["--failed"], [({5}, 2)]),
        (["--state", "running", "--failed"], [({3}, 2), ({5}, 2)]),
        (["--sort", "newest"], [(set(), 2)]),
        (["--sort", "oldest", "--failed"], [({5}, 1)]),
    ],
)
def test_jobs_of_all_queues_are_listed_those_that_have_not_ended_first(
    api: FakeApi, argosy: Any, arguments: list[str], asked: list[tuple[set[int], int]]
) -> None:
    """What runs and waits is looked for most; each part begins with the newest."""
    assert argosy("jobs", *arguments).code == 0

    assert [(set(request.selector.states), request.order) for request in api.requests["ListJobs"]] == asked
    assert {request.selector.queue for request in api.requests["ListJobs"]} == {""}


def test_jobs_are_listed_since_a_time(api: FakeApi, argosy: Any) -> None:
    """A time is said as people do; one that is none is refused."""
    before = time.time()
    assert argosy("jobs", "--since", "2h30m").code == 0
    asked_s = api.requests["ListJobs"][0].create_time_from.seconds
    assert before - 9001 <= asked_s <= time.time() - 9000 + 1
    assert argosy("jobs", "--since", "yesterday").code == 2


def test_jobs_with_an_id_shows_that_job(argosy: Any, job_id: str) -> None:
    """One job with its manifests."""
    assert f"id:        {job_id}" in argosy("jobs", job_id).out
    assert json.loads(argosy("jobs", job_id, "-o", "json").out)["spec"]["manifests"] == [
        {"kind": "Pod", "apiVersion": "v1"}
    ]


def test_pages_of_a_list_hold_every_job_once(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """A list that was cut says how to go on, from those that have not ended to those that have."""
    path = tmp_path / "jobs.yaml"
    path.write_text("count: 5\nspec: {manifests: [{kind: Pod}]}\n")
    argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "first")
    for job in list(api.jobs.values())[3:]:
        job.state = job_pb2.JOB_STATE_FAILED
    listed: list[str] = []
    page: list[str] = []
    sizes = []
    while True:
        outcome = argosy("jobs", "--queue", "science", "--limit", "3", *page, "-o", "jsonl")
        ids = [json.loads(line)["id"] for line in outcome.out.splitlines()]
        listed += ids
        sizes.append(len(ids))
        told = re.search(r"more than 3; the same command with (--page) (\S+) goes on", outcome.err)
        if not told:
            break
        page = list(told.groups())

    assert (listed, sizes) == (list(api.jobs), [3, 2])
    assert "is no page of this list" in argosy("jobs", "--page", "7.x").err


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_of_a_list_of_one_cluster_hold_every_job_once(
    api: FakeApi, argosy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, limit: int
) -> None:
    """The list goes on behind the last job shown, wherever that stands in the page that the server gave."""
    monkeypatch.setattr("argosy_cli.commands.jobs._LARGEST_PAGE", 4)
    path = tmp_path / "jobs.yaml"
    path.write_text("count: 11\nspec: {manifests: [{kind: Pod}]}\n")
    argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "first")
    for number, job in enumerate(api.jobs.values()):
        job.runs.add(attempt=1, cluster="c1" if number % 2 else "c2", node="n")
        job.state = job_pb2.JOB_STATE_FAILED if number > 6 else job_pb2.JOB_STATE_RUNNING
    listed: list[str] = []
    page: tuple[str, ...] = ()
    while True:
        outcome = argosy("jobs", "--cluster", "c1", "--limit", str(limit), *page, "-o", "jsonl")
        listed += [json.loads(line)["id"] for line in outcome.out.splitlines()]
        told = re.search(r"--page (\S+) goes on", outcome.err)
        if not told:
            break
        page = ("--page", told[1])
    assert listed == [job.id for job in api.jobs.values() if job.runs[0].cluster == "c1"]


def test_rows_say_what_jobs_wait_for_and_ask_for(api: FakeApi, argosy: Any, job_id: str, job_file: str) -> None:
    """All waiting jobs of a list are asked about in one call; who has ended waits for nothing."""
    api.jobs[job_id].requests.update({"cpu": 2500, "memory": 1 << 30, "example.com/fpga": 1, "pods": 3})
    argosy("submit", "-f", job_file, "--queue", "science", "--job-set", "first")

    row = argosy("jobs", "--queue", "science").out.splitlines()[1]
    assert row.split()[3:6] == ["pending", "no", "room"]
    assert "cpu=2.5 mem=1Gi example.com/fpga=1  " in row
    assert [len(request.ids) for request in api.requests["BatchGetJobStages"]] == [2]
    api.pools_without_leader = ["gpus"]
    assert "pool gpus has no leader now" in argosy("jobs").err
    for job in api.jobs.values():
        job.state = job_pb2.JOB_STATE_SUCCEEDED
    api.requests["BatchGetJobStages"].clear()
    assert argosy("jobs", "--queue", "science", "--state", "active").code == 0
    assert not api.requests["BatchGetJobStages"]


def test_pending_jobs_are_those_whose_stage_says_so(api: FakeApi, argosy: Any, job_id: str, job_file: str) -> None:
    """Rounds make jobs pending, so no row of the database says which are; states beside it stay as they are."""
    argosy("submit", "-f", job_file, "--queue", "science", "--job-set", "first")
    (other,) = set(api.jobs) - {job_id}
    api.stages[job_id] = job_pb2.JOB_STAGE_QUEUED

    def listed(*options: str) -> list[str]:
        return [job["id"] for job in json.loads(argosy("jobs", "-o", "json", *options).out)]

    assert listed("--state", "pending") == [other]
    assert not api.requests["ListJobs"]  # however many wait, they are not looked through
    assert listed("--state", "pending", "--cluster", "c1") == []
    api.stages.clear()
    api.jobs[other].create_time.GetCurrentTime()
    assert listed("--state", "pending") == [other, job_id]
    assert listed("--state", "pending", "--limit", "1") == [other]
    assert listed("--state", "pending", "--sort", "oldest") == [job_id, other]
    assert listed("--state", "pending", "--since", "1h", "--queue", "science") == [other]
    api.stages[job_id] = job_pb2.JOB_STAGE_QUEUED
    assert sorted(listed("--state", "pending", "--state", "queued")) == sorted([job_id, other])
    api.jobs[job_id].state = job_pb2.JOB_STATE_RUNNING
    assert sorted(listed("--state", "pending", "--state", "running")) == sorted([job_id, other])
    assert argosy("cancel", "--queue", "science", "--state", "pending", "--yes").code == 2


def test_job_that_stops_being_pending_between_two_calls_is_not_listed(
    api: FakeApi, argosy: Any, job_id: str, job_file: str
) -> None:
    """Who lists pending jobs never sees another stage, though a round may come between the list and the question."""
    argosy("submit", "-f", job_file, "--queue", "science", "--job-set", "first")
    (other,) = set(api.jobs) - {job_id}

    def listed(*states: str) -> list[str]:
        api.stages.clear()
        options = [word for state in states for word in ("--state", state)]
        return [job["id"] for job in json.loads(argosy("jobs", "-o", "json", *options).out)]

    api.when_stages_asked = lambda: api.stages.update({job_id: job_pb2.JOB_STAGE_LEASED})
    assert listed("pending") == [other]
    assert listed("pending", "running") == [other]
    assert set(listed("pending", "leased")) == {job_id, other}


def test_cluster_that_is_none_is_told_from_one_without_jobs(argosy: Any, job_id: str) -> None:
    """A name with a slip finds nothing, too."""
    assert job_id
    misspelt = argosy("jobs", "--cluster", "c7")
    assert (misspelt.code, "there is no cluster c7" in misspelt.err) == (3, True)
    assert argosy("jobs", "--cluster", "c1").code == 0


def test_one_job_tells_start_duration_exit_code_and_events_in_order(api: FakeApi, argosy: Any, job_id: str) -> None:
    """What happened to a job stands with its times in one place."""
    job = api.jobs[job_id]
    job.state = job_pb2.JOB_STATE_FAILED
    run = job.runs.add(attempt=1, cluster="c1", node="n1", exit_code=7, state=job_pb2.RUN_STATE_FAILED, reason="bad")
    for number, field in enumerate(("lease_time", "start_time", "end_time")):
        getattr(run, field).FromSeconds(1_800_000_000 + 60 * number)
    job.create_time.FromSeconds(1_799_999_999)
    job.end_time.FromSeconds(1_800_000_121)

    lines = argosy("jobs", job_id).out.splitlines()
    assert "exit code: 7" in lines
    assert "ran:       60s" in lines
    at = next(index for index, line in enumerate(lines) if line.startswith("events:"))
    assert [line.split("  ")[-1] for line in lines[at : at + 5]] == [
        "submitted", "leased on c1/n1, attempt 1", "running, attempt 1", "failed, attempt 1: bad", "job failed",
    ]  # fmt: skip


def test_failures_of_a_list_are_summed_up_by_reason(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """A thousand failures have a handful of reasons; the commonest comes first."""
    path = tmp_path / "jobs.yaml"
    path.write_text("count: 3\nspec: {manifests: [{kind: Pod}]}\n")
    argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "first")
    for number, job in enumerate(api.jobs.values()):
        job.state = job_pb2.JOB_STATE_FAILED
        kind = job_pb2.FAILURE_KIND_EXIT_CODE if number else job_pb2.FAILURE_KIND_OUT_OF_MEMORY
        job.runs.add(attempt=1, cluster="c1", node=f"n{number}", exit_code=7, failure=kind)

    listed = argosy("jobs", "--queue", "science", "--failed")
    assert listed.err.splitlines() == ["3 failed:", "  2 ended with exit code 7", "  1 out of memory"]
    assert argosy("job-set", "get", "science", "first").err == listed.err
    assert "n1" not in argosy("jobs", "--queue", "science", "--node", "n0").out
    assert argosy("job-set", "get", "science", "none").code == 3
    argosy("queue", "create", "science")
    assert argosy("job-set", "list").out.splitlines()[1].split()[:2] == ["science", "first"]


def test_members_of_an_attempt_are_listed_one_by_one(api: FakeApi, argosy: Any, job_id: str) -> None:
    """An attempt on one node is its number; of one on several, each member is told."""
    del api.jobs[job_id].runs[:]
    api.jobs[job_id].runs.extend(
        job_pb2.Run(attempt=attempt, member=member, state=job_pb2.RUN_STATE_RUNNING, cluster="c", node=f"n{member}")
        for attempt, member in ((1, 0), (2, 0), (2, 1))
    )
    text = argosy("jobs", job_id).out
    assert "2 member 1: running on c/n1" in text
    assert "2 member 0: running on c/n0" in text
    assert "1: running on c/n0" in text
    assert "1 member" not in text
    assert '"member": 1' in argosy("jobs", job_id, "-o", "json").out


def test_distributed_job_is_told_by_its_attempt_and_not_by_the_member_that_came_last(
    api: FakeApi, argosy: Any, job_id: str
) -> None:
    """It began with its first member; one that was replaced tells nothing of it, nor does a stopped extra."""
    job = api.jobs[job_id]
    job.state = job_pb2.JOB_STATE_RUNNING
    del job.runs[:]
    running, failed, cancelled = job_pb2.RUN_STATE_RUNNING, job_pb2.RUN_STATE_FAILED, job_pb2.RUN_STATE_CANCELLED
    for member, replacement, state, began_s, ended_s in (
        (0, 0, failed, 1, 60), (1, 0, running, 2, 0), (2, 0, cancelled, 50, 70), (0, 1, running, 61, 0),
    ):  # fmt: skip
        run = job.runs.add(attempt=1, member=member, replacement=replacement, state=state, cluster="c")
        run.node = f"n{member}{replacement}"
        run.start_time.FromSeconds(1_800_000_000 + began_s)
        if ended_s:
            run.exit_code = 7 if state == failed else 0
            run.end_time.FromSeconds(1_800_000_000 + ended_s)

    lines = argosy("jobs", job_id).out.splitlines()
    assert "started:   2027-01-15 08:00:01+00:00" in lines
    assert not [line for line in lines if line.startswith("exit code:")]
    assert "n01" in argosy("jobs").out
    listed = {node: "running" in argosy("jobs", "--node", node).out for node in ("n00", "n01", "n10", "n20")}
    assert listed == {"n00": False, "n01": True, "n10": True, "n20": False}

    job.state = job_pb2.JOB_STATE_FAILED
    for run, state, exit_code in ((job.runs[1], failed, 3), (job.runs[3], cancelled, 0)):
        run.state, run.exit_code = state, exit_code
        run.end_time.FromSeconds(1_800_000_080 + (exit_code == 0))
    lines = argosy("jobs", job_id).out.splitlines()
    assert {"exit code: 3", "ran:       80s"} <= {*lines}

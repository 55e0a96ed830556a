"""One dialect of JSON: what commands print is named as the protocol's JSON is, and can be submitted again."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from argosy.api.v1 import cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy_cli.json_form import to_plain
from argosy_client import cluster_codec, codec, queue_codec, values
from argosy_client.explanations import explanation_of
from argosy_testkit.fake_api import FakeApi

ADDED = {"Job": {"stage", "waitReason"}}
"""What `argosy jobs` says of a job beside the message's fields, by the name of the value."""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (codec.job_of(job_pb2.Job(after=job_pb2.RunAfter(job_ids=["a"]))), job_pb2.Job()),
        (queue_codec.queue_of(queue_pb2.Queue()), queue_pb2.Queue()),
        (cluster_codec.cluster_of(cluster_pb2.Cluster()), cluster_pb2.Cluster()),
        (cluster_codec.node_of(cluster_pb2.Node()), cluster_pb2.Node()),
        (explanation_of(job_pb2.ExplainJobResponse()), job_pb2.ExplainJobResponse()),
        (queue_codec.shares_of(scheduling_pb2.GetSharesResponse()), scheduling_pb2.GetSharesResponse()),
        (codec.server_info_of(server_pb2.GetServerInfoResponse()), server_pb2.GetServerInfoResponse()),
        (codec.change_result_of(job_pb2.CancelJobsResponse()), job_pb2.CancelJobsResponse()),
        (
            values.JobEvent(number=1, job_id="", kind="", time_s=0.0, attempt=0, cluster="", node="", reason=""),
            event_pb2.JobEvent(),
        ),
        (values.JobDraft(queue="q", job_set="s", manifests=("{}",)), job_pb2.JobItem()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fields_are_called_as_in_the_protocol_s_json(value: Any, message: Any) -> None:
    """Whoever has read the stubs' JSON can read that of the command."""
    names = {field.json_name for field in message.DESCRIPTOR.fields}
    assert to_plain(value).keys() <= names | ADDED.get(type(value).__name__, set())


def test_words_times_and_durations_are_as_files_take_them() -> None:
    """A duration says its unit, a time its zone, and what is not said is null."""
    job = dataclasses.replace(
        codec.job_of(job_pb2.Job(state=job_pb2.JOB_STATE_RUNNING)),
        lifetime_s=90,
        create_time=datetime(2026, 11, 23, 5, tzinfo=UTC),
        after=("x",),
        after_until="ended",
    )
    plain = to_plain(job)
    assert (plain["lifetime"], plain["timeLimit"], plain["state"]) == ("90s", None, "running")
    assert plain["createTime"] == "2026-11-23T05:00:00.000Z"
    assert plain["after"] == {"jobIds": ["x"], "until": "ended"}


@pytest.mark.parametrize("form", ["json", "yaml", "jsonl"])
def test_what_was_printed_can_be_submitted_again(api: FakeApi, argosy: Any, tmp_path: Path, form: str) -> None:
    """A job that was printed makes another like it; what a dry run prints makes what the file would have made."""
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "queue: q\njobSet: s\ncount: 2\nclientId: mine\npriority: 3\ntimeLimit: 1h\nlifetime: 0\nlabels: {a: b}\n"
        "hold: true\nspec: {manifests: [{kind: Pod, apiVersion: v1}]}\n"
    )
    checked = tmp_path / f"checked.{form}"
    checked.write_text(argosy("submit", str(path), "--dry-run", "-o", form).out)
    assert argosy("submit", str(checked)).code == 0
    first, second = api.requests["SubmitJobs"]
    first.validate_only = False
    assert (second.specs, second.items) == (first.specs, first.items)

    job_id = next(iter(api.jobs))
    api.jobs[job_id].time_limit.FromSeconds(3600)
    printed = tmp_path / f"printed.{form}"
    printed.write_text(argosy("jobs", job_id, "-o", form).out)
    outcome = argosy("submit", str(printed), "--queue", "q", "--job-set", "again")
    assert (outcome.code, len(api.jobs)) == (0, 3), outcome.err
    again = api.requests["SubmitJobs"][2]
    assert again.specs == first.specs
    (item,) = again.items
    assert (item.priority, item.time_limit.seconds, dict(item.labels)) == (3, 3600, {"a": "b"})
    assert item.client_id.startswith("auto-")


def test_job_of_a_list_says_where_its_spec_is(api: FakeApi, argosy: Any, job_id: str, tmp_path: Path) -> None:
    """Lists hold no specs; whoever submits one is told what prints them."""
    path = tmp_path / "listed.json"
    api.jobs[job_id].ClearField("spec")
    path.write_text(argosy("jobs", "--queue", "science", "-o", "json").out)
    outcome = argosy("submit", str(path))
    assert outcome.code == 2
    assert "`argosy jobs ID -o json` prints a job with its spec" in outcome.err


def test_the_api_s_own_json_is_taken(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """Manifests as text, words with their prefixes and nulls, as stubs write them."""
    path = tmp_path / "job.json"
    document = {
        "queue": "q", "jobSet": "s", "clientId": None, "timeLimit": "60s",
        "after": {"jobIds": ["01890000-0000-7000-8000-000000000001"], "until": "AFTER_UNTIL_ENDED"},
        "spec": {"manifests": [json.dumps({"kind": "Pod", "apiVersion": "v1"})]},
    }  # fmt: skip
    path.write_text(json.dumps(document))
    assert argosy("submit", str(path)).code == 0
    (item,) = api.requests["SubmitJobs"][0].items
    assert (item.after.until, item.time_limit.seconds) == (job_pb2.AFTER_UNTIL_ENDED, 60)


def test_count_of_the_command_wins_and_a_changed_count_is_explained(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """A larger count under the same client id makes the rest, a smaller one makes and cancels nothing."""
    path = tmp_path / "job.yaml"
    path.write_text("queue: q\njobSet: s\nclientId: a\ncount: 2\nspec: {manifests: [{kind: Pod}]}\n")
    assert argosy("submit", str(path), "--count", "4").out.startswith("4 jobs accepted")
    more = argosy("submit", str(path), "--count", "5")
    assert (
        "4 of them existed already under the same client id, and were not made again; the other 1 are new" in more.err
    )
    fewer = argosy("submit", str(path))
    assert "all 2 existed already under the same client id, and none was made" in fewer.err
    assert "`argosy cancel` ends jobs" in fewer.err
    assert len(api.jobs) == 5
    assert argosy("submit", str(path), "--count", "100001").code == 2

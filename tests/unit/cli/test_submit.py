"""`argosy submit` and `resubmit`: what is read, what is sent, what is said of it."""

import json
import re
from pathlib import Path
from typing import Any

from argosy.api.v1 import job_pb2
from argosy_cli.exits import ExitCode
from argosy_testkit.fake_api import FakeApi


def test_submit_prints_the_id_of_a_single_job(api: FakeApi, job_id: str) -> None:
    """A script can take the id from the output."""
    assert list(api.jobs) == [job_id]
    assert (api.jobs[job_id].queue, api.jobs[job_id].job_set) == ("science", "first")


def test_submit_says_how_many_jobs_and_where(argosy: Any, tmp_path: Path) -> None:
    """Many jobs are summed up; ids of all come in the forms for programs."""
    path = tmp_path / "jobs.yaml"
    path.write_text("count: 3\nspec: {manifests: [{kind: Pod}]}\n---\nkind: Pod\n")

    shown = argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "first")
    listed = argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "second", "-o", "json")

    assert shown.out.startswith("4 jobs accepted in science/first; first 0189")
    assert len(json.loads(listed.out)) == 4


def test_submit_dry_run_submits_nothing(api: FakeApi, argosy: Any, job_file: str) -> None:
    """The server checks, and nothing is stored."""
    outcome = argosy("submit", "-f", job_file, "--queue", "science", "--job-set", "first", "--dry-run")

    assert outcome.code == 0
    assert api.requests["SubmitJobs"][0].validate_only
    assert api.jobs == {}


def test_submit_shows_the_servers_warnings_where_the_field_is_written(
    api: FakeApi, argosy: Any, tmp_path: Path
) -> None:
    """What is hardly meant is told with file, line and column, and the answer stays clean for scripts."""
    path = tmp_path / "job.yaml"
    path.write_text("kind: Pod\nspec:\n  nodeSelecter: {}\n")
    api.warnings = [job_pb2.SubmitWarning(field="specs[0].manifests[0].spec.nodeSelecter", description="is no field")]

    outcome = argosy("submit", "-f", str(path), "--queue", "a", "--job-set", "b", "--validate", "warn")

    assert api.requests["SubmitJobs"][0].validation == job_pb2.MANIFEST_VALIDATION_WARN
    assert outcome.err == f"warning: {path}:3:3: document 1: spec.nodeSelecter: is no field\n"
    assert outcome.out.split() == list(api.jobs)


def test_submit_of_a_wrong_file_sends_nothing_and_names_the_line(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """Exit code 2 and the place of every mistake."""
    path = tmp_path / "job.yaml"
    path.write_text("count: 0\nspec: {manifests: [{kind: Pod}]}\n")

    outcome = argosy("submit", "-f", str(path), "--queue", "science", "--job-set", "first")

    assert outcome.code == 2
    assert f"{path}:1:1: document 1: count: must be a whole number from 1" in outcome.err
    assert "SubmitJobs" not in api.requests


def test_submit_sends_durations_and_jobs_shows_them(api: FakeApi, argosy: Any, job_file: str) -> None:
    """Options are for documents that do not say so themselves; a job is shown with what its submitter said."""
    names = ("--queue", "q", "--job-set", "s", "--job-set-limit", "7")
    outcome = argosy("submit", "-f", job_file, "--lifetime", "0", "--time-limit", "1h30m", *names)
    assert outcome.code == ExitCode.OK, outcome.err
    item = api.requests["SubmitJobs"][-1].items[0]
    assert (item.HasField("lifetime"), item.lifetime.seconds, item.time_limit.seconds) == (True, 0, 5400)
    assert (item.HasField("estimate"), item.job_set_limit) == (False, 7)
    job = next(reversed(api.jobs.values()))
    job.lifetime.FromSeconds(0)
    job.time_limit.FromSeconds(5400)
    job.job_set_limit = 7
    shown = argosy("jobs", job.id).out
    assert re.search(r"lifetime: +0s\ntime limit: +1h30m\n", shown)
    assert "estimate" not in shown
    assert "most of its job set: 7\n" in re.sub(" +", " ", shown)
    outcome = argosy("submit", "-f", job_file, "--estimate", "30")
    assert outcome.code == ExitCode.USAGE
    assert "write whole numbers with units" in outcome.err


def test_resubmit_submits_failed_jobs_once_each(api: FakeApi, argosy: Any, job_id: str) -> None:
    """The same command twice makes no third job; without a terminal it is confirmed by -y."""
    api.jobs[job_id].state = job_pb2.JOB_STATE_FAILED
    assert argosy("resubmit", "--failed", "--queue", "science").code == 2
    assert argosy("resubmit", "--failed", "--queue", "science", "--dry-run").out == "would submit 1 job again\n"
    made = argosy("resubmit", "--failed", "--queue", "science", "-y").out.strip()
    again = argosy("resubmit", job_id[-6:])
    assert (again.out.strip(), again.err) == (made, "it was submitted again already, and not once more\n")
    assert json.loads(argosy("resubmit", job_id, "-o", "json").out) == [{"id": made, "alreadyExisted": True}]
    assert list(api.jobs) == [job_id, made]
    assert (api.jobs[made].queue, api.jobs[made].job_set) == ("science", "first")
    assert list(api.jobs[made].spec.manifests) == list(api.jobs[job_id].spec.manifests)


def test_submit_takes_files_directories_and_patterns(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """Files may stand without -f; of a directory those count that can be submissions; none at all is an error."""
    for name in ("b.yaml", "a.json", "notes.txt"):
        (tmp_path / name).write_text('{"kind": "Pod"}' if name != "notes.txt" else "nothing")
    where = ("--queue", "q", "--job-set", "s")
    for given, count in (((str(tmp_path),), 2), ((str(tmp_path / "*.yaml"),), 1), ((str(tmp_path / "a.json"),), 1)):
        before = len(api.jobs)
        assert argosy("submit", *given, *where).code == 0
        assert len(api.jobs) == before + count
    (tmp_path / "empty").mkdir()
    assert argosy("submit", str(tmp_path / "empty"), *where).code == 2
    assert argosy("submit", *where).code == 2


def test_submit_says_which_jobs_existed_before(argosy: Any, tmp_path: Path) -> None:
    """A client id that was used with a smaller count makes the rest, and says so."""
    path = tmp_path / "jobs.yaml"
    path.write_text("clientId: a\ncount: 2\nspec: {manifests: [{kind: Pod}]}\n")
    where = ("--queue", "q", "--job-set", "s")
    assert argosy("submit", str(path), *where).err == ""
    path.write_text(path.read_text().replace("2", "3"))
    assert "2 of them existed already under the same client id" in argosy("submit", str(path), *where).err
    again = json.loads(argosy("submit", str(path), *where, "-o", "json").out)
    assert [one["alreadyExisted"] for one in again] == [True] * 3


def test_submit_may_wait_for_the_end(api: FakeApi, argosy: Any, job_file: str) -> None:
    """The exit code says how the jobs ended, as that of `argosy wait`."""
    where = ("--queue", "q", "--job-set", "s", "--wait")
    api.submitted_state = job_pb2.JOB_STATE_SUCCEEDED
    assert argosy("submit", job_file, *where).code == 0
    api.submitted_state = job_pb2.JOB_STATE_FAILED
    failed = argosy("submit", job_file, *where)
    assert (failed.code, failed.out.splitlines()[1]) == (5, "1 failed")


def test_dry_run_has_an_answer_for_programs(api: FakeApi, argosy: Any, job_file: str) -> None:
    """JSON is asked for, and JSON comes."""
    outcome = argosy("submit", job_file, "--queue", "q", "--job-set", "s", "--dry-run", "-o", "json")
    (draft,) = json.loads(outcome.out)
    assert (draft["queue"], draft["jobSet"], draft["spec"]["manifests"][0]["kind"]) == ("q", "s", "Pod")
    assert api.jobs == {}

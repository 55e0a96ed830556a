"""A whole mesh of separate processes, used by command as a newcomer would."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from argosy_cli.root import run

pytestmark = pytest.mark.timeout(240)

JOBS = """\
queue: {queue}
jobSet: {job_set}
count: {count}
lifetime: 1m
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations: {{argosy.dev/simulated-run-time: "{run_time}"}}
      spec:
        restartPolicy: Never
        containers:
          - name: main
            image: busybox:1.36
            resources: {{requests: {{cpu: "{cores}", memory: 64Mi}}}}
"""

TRACE = """\
version: argosy.dev/workload/v1
shapes:
  one: {requests: {cpu: "1", memory: 64Mi}}
nodes:
  - {count: 20, allocatable: {cpu: "4", memory: 16Gi}}
jobs:
  - {shape: one, queue: replayed, submit: 0s, run: 100ms, count: 3}
  - {shape: one, queue: replayed, submit: 0s, run: 1h}
"""


@dataclass(frozen=True)
class CommandLine:
    """The command in a home of its own."""

    home: Path

    @property
    def program(self) -> list[str]:
        """Arguments by which it becomes a process of its own."""
        return [sys.executable, "-m", "argosy_cli", "--home", str(self.home)]

    def __call__(self, *arguments: str, expected: int = 0) -> str:
        """Run a command line, check its exit code, and return its standard output."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["--home", str(self.home), *arguments])
        assert code == expected, f"argosy {' '.join(arguments)}: {code}\n{out.getvalue()}{err.getvalue()}"
        return out.getvalue()

    def status(self, role: str) -> Any:
        """Return how a process is, whether or not all serve."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            run(["--home", str(self.home), "-o", "json", "status"])
        return next(process for process in json.loads(out.getvalue()) if process["role"] == role)

    def file(self, text: str) -> str:
        """Write a file and return its name."""
        path = self.home / "jobs.yaml"
        path.write_text(text)
        return str(path)

    def json(self, *arguments: str) -> Any:
        """Run a command line and return what it printed as JSON."""
        return json.loads(self("-o", "json", *arguments))

    def submit(
        self, job_set: str, *, count: int, run_time: str = "1s-2s", cores: float = 1, queue: str = "science"
    ) -> list[str]:
        """Submit jobs and return their ids."""
        document = JOBS.format(queue=queue, job_set=job_set, count=count, run_time=run_time, cores=cores)
        return [entry["id"] for entry in self.json("submit", "-f", self.file(document))]


@pytest.fixture(scope="module")
def argosy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A mesh of two clusters of ten nodes with 4 cores each, and a queue; started by a process that has ended."""
    home = tmp_path_factory.mktemp("home")
    command = CommandLine(home)
    try:
        up = ["up", "--port", "0", "--clusters", "2", "--nodes", "10", "--node", "cpu=4,memory=16Gi"]
        done = subprocess.run([*command.program, *up], capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("ready: server 127.0.0.1:")
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("ARGOSY_SERVER", raising=False)
            command("queue", "create", "science", "--weight", "2")
            command("queue", "create", "narrow", "--max-running", "1")
            command("queue", "create", "replayed")
            yield command
    finally:
        command("down", "--purge", "--yes")
    assert not (home / "mesh").exists()


@pytest.fixture(autouse=True)
def _leave_nothing(argosy: CommandLine) -> Iterator[None]:
    """End what a test leaves, failed or not: an hour's jobs on all cores would be the end of the tests after it."""
    yield
    for queue in ("science", "narrow", "replayed"):
        argosy("cancel", "--queue", queue, "-y")
    while argosy.json("jobs", "--active"):  # the test's time limit ends it
        pass


def test_jobs_submitted_by_command_run_to_their_end(argosy: CommandLine) -> None:
    """Two hundred jobs on eighty cores are accepted, placed, leased, run and seen to their end."""
    ids = argosy.submit("march", count=200)

    last = argosy("watch", "science", "march").strip()

    assert len(set(ids)) == 200
    assert last == "200 succeeded"
    jobs = argosy.json("jobs", "--queue", "science", "--job-set", "march", "--sort", "oldest", "--limit", "200")
    assert [job["id"] for job in jobs] == ids
    assert {run["cluster"] for job in jobs for run in job["runs"]} == {"c1", "c2"}
    assert all(job["runs"][-1]["state"] == "succeeded" and job["endTime"] for job in jobs)


def test_submit_by_the_same_client_id_makes_no_second_job(argosy: CommandLine) -> None:
    """One job per queue and client id (invariant 3)."""
    document = "clientId: only-once\n" + JOBS.format(queue="science", job_set="once", count=1, run_time="1s", cores=1)

    first = argosy("submit", "-f", argosy.file(document))
    second = argosy("submit", "-f", argosy.file(document))
    other = argosy("submit", "-f", argosy.file(document.replace("64Mi", "65Mi")), expected=1)

    assert (first, other) == (second, "")


def test_waiting_job_is_explained_then_cancelled(argosy: CommandLine) -> None:
    """A job that fits no node says so with counts and the nearest miss, and a cancel by selector ends it."""
    (job_id,) = argosy.submit("giant", count=1, cores=64)

    explained: dict[str, Any] = {}
    while not explained.get("examinedNodeCount"):
        explained = argosy.json("explain", job_id)
    preview = argosy("cancel", "--queue", "science", "--job-set", "giant", "--dry-run")
    argosy("cancel", "--queue", "science", "--job-set", "giant", "-y")
    watched = argosy("watch", "science", "giant", expected=5).strip()

    assert explained["stage"] in {"queued", "pending"}
    assert sum(count["nodeCount"] for count in explained["filters"]) == explained["examinedNodeCount"] == 20
    assert "cpu" in explained["nearestMiss"]
    assert "would cancel 1 job" in preview
    assert watched == "1 cancelled"


def test_list_says_of_each_waiting_job_what_its_explanation_says(argosy: CommandLine) -> None:
    """A limit comes second to that no node can ever hold a job; who is pending is found without a look at the rest."""
    (runs,) = argosy.submit("limited", count=1, run_time="1h", queue="narrow")
    while not argosy.json("jobs", "--queue", "narrow", "--state", "running"):
        pass
    (waits,) = argosy.submit("limited", count=1, queue="narrow")
    (giant,) = argosy.submit("giant", count=1, cores=64, queue="narrow")
    bound = JOBS.replace("restartPolicy: Never", "restartPolicy: Never\n        nodeSelector: {{disk: none}}")
    document = bound.format(queue="narrow", job_set="bound", count=1, run_time="1s", cores=1)
    (picky,) = (entry["id"] for entry in argosy.json("submit", "-f", argosy.file(document)))
    expected = {waits: "limit", giant: "mismatch", picky: "mismatch"}

    listed: dict[str, str] = {}
    while listed != expected:  # as of 5 s ago; the test's time limit ends it
        listed = {job["id"]: job["waitReason"] for job in argosy.json("jobs", "--queue", "narrow")}
        assert listed.pop(runs) == ""
    assert {one: argosy.json("explain", one)["waitReason"] for one in expected} == expected

    argosy.submit("crowd", count=100, run_time="1h")
    pending: list[Any] = []
    while not pending:
        pending = argosy.json("jobs", "--state", "pending")
    assert {(job["stage"], job["jobSet"]) for job in pending} == {("pending", "crowd")}
    assert len(pending) < 20  # the first of those that wait


def test_run_past_its_time_limit_is_stopped_and_its_job_fails(argosy: CommandLine) -> None:
    """The limit of the command ends a run that would take an hour; the job says why."""
    document = JOBS.format(queue="science", job_set="limited", count=1, run_time="1h", cores=1)
    argosy("submit", "-f", argosy.file(document), "--time-limit", "1s", "--watch", expected=5)
    (job,) = argosy.json("jobs", "--queue", "science", "--job-set", "limited")
    assert (job["state"], job["timeLimit"], job["runs"][-1]["failure"]) == ("failed", "1s", "time_limit")
    assert job["reason"] == "the run took longer than its time limit of 1 s"


def test_running_jobs_are_cancelled_and_shares_tell_who_holds_what(argosy: CommandLine) -> None:
    """Running jobs count as usage of their queue until a change request ended them."""
    argosy.submit("long", count=8, run_time="1h")
    while len(argosy.json("jobs", "--queue", "science", "--job-set", "long", "--state", "running")) < 8:
        pass

    (share,) = [share for share in argosy.json("shares")["shares"] if share["queue"] == "science"]
    argosy("cancel", "--queue", "science", "--job-set", "long", "-y")
    watched = argosy("watch", "science", "long", expected=5).strip()

    assert share["weight"] == 2.0
    assert share["usageCores"] >= 8
    assert watched == "8 cancelled"


def test_replay_says_by_its_exit_code_that_a_job_was_cancelled(argosy: CommandLine) -> None:
    """The replay ends with all its jobs, the report counts them by state, and the exit code is that of `watch`."""
    trace, report = argosy.home / "trace.yaml", argosy.home / "report.json"
    trace.write_text(TRACE)
    options = ["--existing", "--report", str(report)]

    replay = subprocess.Popen([*argosy.program, "replay", str(trace), *options], stderr=subprocess.PIPE, text=True)
    try:
        states: list[str] = []
        while states != ["running", "succeeded", "succeeded", "succeeded"]:
            assert replay.poll() is None
            states = sorted(job["state"] for job in argosy.json("jobs", "--queue", "replayed", "--limit", "1000"))
        argosy("cancel", "--queue", "replayed", "--state", "running", "-y")
        _, said = replay.communicate(timeout=60)
    finally:
        replay.kill()

    assert replay.returncode == 5
    assert json.loads(report.read_text())["states"] == {"succeeded": 3, "cancelled": 1}
    assert "not every job succeeded: 3 succeeded, 1 cancelled" in said


def test_log_of_a_job_comes_from_its_cluster(argosy: CommandLine) -> None:
    """From the command to the API, its leader, the cluster's executor and back; what is not there says why."""
    (job_id,) = argosy.submit("written", count=1, run_time="1s")

    followed = argosy("logs", job_id, "-f")
    whole = argosy("logs", job_id)
    (waiting,) = argosy.submit("unwritten", count=1, cores=64)

    assert followed.splitlines()
    assert whole == followed
    assert argosy("logs", job_id, "--tail", "1").splitlines() == whole.splitlines()[-1:]
    assert argosy("logs", job_id, "--tail", "0") == ""
    for arguments in ([waiting], [job_id, "--attempt", "9"], [job_id, "--pod", "3"], [job_id, "-c", "side"]):
        assert argosy("logs", *arguments, expected=3) == ""


def test_status_shows_every_process_serving(argosy: CommandLine) -> None:
    """Two servers, Postgres, and three processes for each cluster."""
    processes = argosy.json("status")

    assert {process["role"] for process in processes} == {
        "postgres",
        "api",
        "leader",
        "supervisor",
        *(f"{kind}-{cluster}" for kind in ("cluster", "sampler", "executor") for cluster in ("c1", "c2")),
    }
    assert {process["health"] for process in processes} == {"serving"}
    assert all(process["cpuS"] > 0 and process["rssBytes"] > 1 << 20 for process in processes)


def test_role_that_died_is_started_again_and_counted(argosy: CommandLine) -> None:
    """Nobody has to look after a mesh for a day; `status` tells what was started again."""
    before = argosy.status("executor-c2")
    os.kill(before["pid"], signal.SIGKILL)

    now = before
    while now["health"] != "serving" or now["pid"] == before["pid"]:  # the test's time limit ends it
        now = argosy.status("executor-c2")

    assert now["restartCount"] == before["restartCount"] + 1


def test_second_mesh_in_the_same_home_is_refused(argosy: CommandLine) -> None:
    """A mesh that runs is not started again, nor harmed by the attempt."""
    argosy("up", expected=1)

    assert len(argosy.json("cluster", "list")) == 2

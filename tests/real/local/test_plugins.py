"""The worked examples of `examples/plugins` in a real mesh, registered as an operator would."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy_cli.root import run
from argosy_testkit.plugins import install_plugins, install_project

pytestmark = pytest.mark.timeout(240)

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
JOB = """\
queue: science
jobSet: {job_set}
count: {count}
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations: {{argosy.dev/simulated-run-time: "1h"}}
      spec:
        restartPolicy: Never
        containers:
          - name: main
            image: busybox:1.36
            resources: {{requests: {{cpu: "1", memory: 64Mi}}}}
        nodeSelector: {selector}
"""


def argosy(home: Path, *arguments: str) -> Any:
    """Run a command line and return what it printed as JSON."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--home", str(home), "-o", "json", *arguments])
    assert code == 0, err.getvalue()
    return json.loads(out.getvalue() or "null")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mesh of two clusters of three nodes whose samplers and leader have plugins, and a queue."""
    tmp_path = tmp_path_factory.mktemp("plugins")
    install_project(tmp_path / "installed", EXAMPLES)
    install_plugins(tmp_path / "installed", {"recording": "recording_plugin:Recording"}, distribution="recording")
    path = [str(tmp_path / "installed"), str(EXAMPLES), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    settings = {
        "PYTHONPATH": os.pathsep.join(path),
        "ARGOSY_SAMPLER_PLUGINS": "node-hours,prefer-label,one-per-rack",
        "ARGOSY_SAMPLER_PLUGIN_SETTINGS": "prefer-label.label=kubernetes.io/hostname,prefer-label.value=c1-n00002,"
        "one-per-rack.most=100",
        "ARGOSY_SAMPLER_COMMIT_PLUGINS": "keep-free",
        "ARGOSY_SAMPLER_COMMIT_PLUGIN_SETTINGS": "keep-free.ratio=0.5,keep-free.nodes=c2-n00001",
        "ARGOSY_SERVER_LEADER_PLUGINS": "cluster-costs,start-together,attach-disk,recording",
        "ARGOSY_SERVER_LEADER_PLUGIN_SETTINGS": "cluster-costs.c2=2.5,cluster-costs.c1=1,"
        f"recording.path={tmp_path / 'recorded'},attach-disk.directory={tmp_path / 'disks'}",
        "ARGOSY_SERVER_LEADER_PLUGIN_WEIGHTS": "cluster-costs=10",
        "ARGOSY_SERVER_LEADER_ROUND_CLUSTERS_TO_SAMPLE_RATIO": "1",
        "ARGOSY_SERVER_LEADER_ROUND_SPREAD": "false",
    }
    home = tmp_path / "home"
    program = [sys.executable, "-m", "argosy_cli", "--home", str(home)]
    up = [*program, "up", "--port", "0", "--clusters", "2", "--nodes", "3", "--node", "cpu=4,memory=16Gi"]
    try:
        done = subprocess.run(
            up, env={**os.environ, **settings}, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("ARGOSY_SERVER", raising=False)
            argosy(home, "queue", "create", "science", "--weight", "1")
            yield home
    finally:
        subprocess.run([*program, "down", "--purge", "--yes"], capture_output=True, timeout=60, check=False)


def submit(home: Path, job_set: str, count: int, labels: str = "", *, selector: str = "{}") -> Any:
    """Submit jobs and return what the command answered."""
    path = home / "jobs.yaml"
    path.write_text(JOB.format(job_set=job_set, count=count, selector=selector) + labels)
    return argosy(home, "submit", "-f", str(path))


def run_jobs(home: Path, job_set: str, count: int, labels: str = "", *, selector: str = "{}") -> list[tuple[str, str]]:
    """Submit jobs and return cluster and node of each of their job set once all of it run."""
    submit(home, job_set, count, labels, selector=selector)
    jobs: list[Any] = []
    while not jobs or any(job["state"] != "running" for job in jobs):  # the test's time limit ends it
        jobs = argosy(home, "jobs", "--queue", "science", "--job-set", job_set)
    return [(job["runs"][-1]["cluster"], job["runs"][-1]["node"]) for job in jobs]


def test_examples_choose_cluster_and_node_and_pre_bind_comes_before_post_bind(home: Path) -> None:
    """Jobs go to the cheap cluster, and there to the preferred node for as long as it has room.

    Pre-bind is called for each run with its place, on a thread beside the leader's; post-bind once it was reported.
    """
    assert run_jobs(home, "first", 4) == [("c1", "c1-n00002")] * 4
    lines: list[str] = []
    while len(bound := [line.removeprefix("post-bind ") for line in lines if line.startswith("post-bind")]) < 4:
        # Whoever lists jobs may see the last of them run before the leader's thread has written of it.
        lines = [line for line in (home.parent / "recorded").read_text().splitlines() if "c1/" in line]
    assert [run.split()[1] for run in bound] == ["c1/c1-n00002"] * 4
    assert all(lines.index(f"pre-bind {run}") < lines.index(f"post-bind {run}") for run in bound)
    later = run_jobs(home, "second", 4)
    assert {cluster for cluster, _ in later} == {"c1"}
    assert ("c1", "c1-n00002") not in later
    check_disks(home)


def check_disks(home: Path) -> None:
    """Check that a disk is attached to a job's node, and that another job waits for it until it is free."""
    labels, disk = "labels: {example.com/disk: scratch}\n", home.parent / "disks" / "scratch"
    ((cluster, node),) = run_jobs(home, "first-disk", 1, labels)
    (attached,) = disk.iterdir()
    assert attached.read_text() == f"{cluster}/{node}\n"
    submit(home, "second-disk", 1, labels)
    (job,) = argosy(home, "jobs", "--queue", "science", "--job-set", "second-disk")
    while "disk scratch is attached elsewhere" not in argosy(home, "explain", job["id"])["summary"]:
        pass  # the test's time limit ends it
    attached.unlink()
    while argosy(home, "jobs", "--queue", "science", "--job-set", "second-disk")[0]["state"] != "running":
        pass  # likewise
    (attached,) = disk.iterdir()
    (run,) = argosy(home, "jobs", "--queue", "science", "--job-set", "second-disk")[0]["runs"][-1:]
    assert attached.read_text() == f"{run['cluster']}/{run['node']}\n"


def test_example_starts_a_group_together(home: Path) -> None:
    """Two of three are placed and held back, for a reason that people read; all run once the third is there.

    They run on a node that no other test uses.
    """
    labels = 'labels: {example.com/group: ring, example.com/group-size: "3"}\n'
    selector = "{kubernetes.io/hostname: c2-n00000}"
    submit(home, "ring", 2, labels, selector=selector)
    jobs = argosy(home, "jobs", "--queue", "science", "--job-set", "ring")
    told: Any = {}
    # Each of the two may be placed in a round of its own. The test's time limit ends it.
    while not str(told.get("summary")).endswith("held back by start-together: 2 of 3 of its group are placed"):
        told = argosy(home, "explain", jobs[0]["id"])
    assert (told["stage"], told["waitReason"]) == ("in_flight", "plugin")
    assert {job["state"] for job in argosy(home, "jobs", "--queue", "science", "--job-set", "ring")} == {"queued"}
    assert run_jobs(home, "ring", 1, labels, selector=selector) == [("c2", "c2-n00000")] * 3


def test_example_of_the_commit_profile_keeps_half_of_a_node_free(home: Path) -> None:
    """Two of three jobs that want the node run; the third meets conflicts, which people read."""
    submit(home, "kept", 3, selector="{kubernetes.io/hostname: c2-n00001}")
    states: list[str] = []
    while states.count("running") < 2:  # the test's time limit ends it
        jobs = argosy(home, "jobs", "--queue", "science", "--job-set", "kept")
        states = [job["state"] for job in jobs]
    (waiting,) = [job["id"] for job in jobs if job["state"] == "queued"]
    while argosy(home, "explain", waiting)["waitReason"] != "conflict":
        pass  # likewise
    assert states.count("running") == 2

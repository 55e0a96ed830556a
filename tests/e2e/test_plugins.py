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
from argosy_testkit.plugins import install_project

pytestmark = pytest.mark.timeout(240)

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
JOB = """\
queue: science
jobSet: plugged
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
"""


def argosy(home: Path, *arguments: str) -> Any:
    """Run a command line and return what it printed as JSON."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--home", str(home), "-o", "json", *arguments])
    assert code == 0, err.getvalue()
    return json.loads(out.getvalue() or "null")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mesh of two clusters of three nodes whose samplers and leader have plugins."""
    install_project(tmp_path / "installed", EXAMPLES)
    monkeypatch.delenv("ARGOSY_SERVER", raising=False)
    settings = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "installed"), str(EXAMPLES), os.environ.get("PYTHONPATH", "")]),
        "ARGOSY_SAMPLER_PLUGINS": "node-hours,prefer-label,one-per-rack",
        "ARGOSY_SAMPLER_PLUGIN_SETTINGS": "prefer-label.label=kubernetes.io/hostname,prefer-label.value=c1-n00002,"
        "one-per-rack.most=2",
        "ARGOSY_SERVER_LEADER_PLUGINS": "cluster-costs",
        "ARGOSY_SERVER_LEADER_PLUGIN_SETTINGS": "cluster-costs.c2=2.5,cluster-costs.c1=1",
        "ARGOSY_SERVER_LEADER_PLUGIN_WEIGHTS": "cluster-costs=10",
        "ARGOSY_SERVER_LEADER_ROUND_CLUSTERS_TO_SAMPLE_RATIO": "1",
        "ARGOSY_SERVER_LEADER_ROUND_SPREAD": "false",
    }
    home = tmp_path / "home"
    program = [sys.executable, "-m", "argosy_cli", "--home", str(home)]
    up = [*program, "up", "--clusters", "2", "--nodes", "3", "--node", "cpu=4,memory=16Gi"]
    try:
        done = subprocess.run(
            up, env={**os.environ, **settings}, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        yield home
    finally:
        subprocess.run([*program, "down"], capture_output=True, timeout=60, check=False)


def test_examples_choose_cluster_and_node_and_hold_back_what_starts_at_once(home: Path) -> None:
    """Eight jobs go to the cheap cluster, first to the node preferred there, though only two may start at once."""
    argosy(home, "queue", "create", "science", "--weight", "1")
    path = home / "jobs.yaml"
    path.write_text(JOB.format(count=8))
    argosy(home, "submit", "-f", str(path))

    jobs = argosy(home, "jobs", "--queue", "science", "--job-set", "plugged")
    while sum(job["state"] == "running" for job in jobs) < 8:  # the test's time limit ends it
        jobs = argosy(home, "jobs", "--queue", "science", "--job-set", "plugged")

    places = [(job["runs"][-1]["cluster"], job["runs"][-1]["node"]) for job in jobs]
    assert {cluster for cluster, _ in places} == {"c1"}
    assert [node for _, node in places].count("c1-n00002") == 4

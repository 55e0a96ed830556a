"""Delegated clusters in a mesh of separate processes, whose executors ask their samplers over the network."""

import contextlib
import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from argosy_cli.root import run

pytestmark = pytest.mark.timeout(240)

JOBS = """\
queue: science
jobSet: packed
count: 10
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations: {argosy.dev/simulated-run-time: "1h"}
      spec:
        restartPolicy: Never
        securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
        containers:
          - name: main
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
            image: busybox:1.36
            resources: {requests: {cpu: "1", memory: 64Mi}}
"""


def argosy(home: Path, *arguments: str) -> Any:
    """Run a command line and return what it printed as JSON."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--home", str(home), "-o", "json", *arguments])
    assert code == 0, err.getvalue()
    return json.loads(out.getvalue() or "null")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A secured mesh of two clusters of three nodes of four cores, and a queue."""
    home = tmp_path / "home"
    program = [sys.executable, "-m", "argosy_cli", "--home", str(home)]
    up = [*program, "up", "--port", "0", "--clusters", "2", "--nodes", "3", "--node", "cpu=4,memory=16Gi", "--secure"]
    try:
        done = subprocess.run(up, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("ARGOSY_SERVER", raising=False)
            argosy(home, "queue", "create", "science", "--weight", "1")
            yield home
    finally:
        subprocess.run([*program, "down", "--purge", "--yes"], capture_output=True, timeout=60, check=False)


def test_delegated_clusters_choose_the_fewest_nodes_by_themselves(home: Path) -> None:
    """Every job runs on a node that its cluster chose, and none was begun before another was full."""
    assert {one["name"]: one["delegated"] for one in argosy(home, "cluster", "list")} == {"c1": False, "c2": False}
    for name in ("c1", "c2"):
        assert argosy(home, "cluster", "delegate", name)["delegated"]
    path = home / "jobs.yaml"
    path.write_text(JOBS)
    argosy(home, "submit", "-f", str(path))
    jobs: list[Any] = []
    while not jobs or any(job["state"] != "running" for job in jobs):  # the test's time limit ends it
        jobs = argosy(home, "jobs", "--queue", "science", "--job-set", "packed")
    places = Counter((job["runs"][-1]["cluster"], job["runs"][-1]["node"]) for job in jobs)
    assert all(node.startswith(cluster) for cluster, node in places)
    for name in ("c1", "c2"):
        mine = [count for (cluster, _), count in places.items() if cluster == name]
        assert len(mine) == ceil(sum(mine) / 4)

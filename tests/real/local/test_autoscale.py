"""Autoscaling on one machine: `argosy up --autoscale`, a job that says within what, and what is told of its size."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.local.test_pages import Shell

pytestmark = pytest.mark.timeout(180)

WITHIN_S = 60.0
JOB = """\
queue: science
jobSet: sizes
annotations:
  argosy.dev/autoscale-min: cpu=250m,memory=1Gi
  argosy.dev/autoscale-max: cpu=8,memory=32Gi
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations:
          argosy.dev/simulated-run-time: 10m
          argosy.dev/simulated-use: cpu=200m,memory=500Mi
      spec:
        containers:
          - {name: main, image: example.test/work:1, resources: {requests: {cpu: "4", memory: 4Gi}}}
"""


@pytest.fixture(name="shell")
def shell_that_leaves_nothing(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose mesh is gone afterwards."""
    shell = Shell(tmp_path / "home")
    yield shell
    shell.type("argosy down --purge --yes")


def test_an_idle_pod_gives_back_what_it_does_not_use(shell: Shell, tmp_path: Path) -> None:
    """It is shrunk in place while it runs, and the commands say from what to what."""
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    for line in ("argosy up --clusters 1 --port 0 --autoscale", "argosy queue create science", f"argosy submit {job}"):
        done = shell.type(line)
        assert done.returncode == 0, done.stderr
    deadline_s = time.monotonic() + WITHIN_S
    pods: list[dict[str, Any]] = []
    while not pods or pods[0]["actual"]["cpu"] > 1000 or pods[0]["actual"] != pods[0]["approved"]:
        assert time.monotonic() < deadline_s, pods
        time.sleep(0.5)
        pods = json.loads(shell.type("argosy autoscale list -o json").stdout or "[]")
    (pod,) = pods
    assert pod["actual"] == pod["approved"] == pod["requested"]
    told = json.loads(shell.type(f"argosy autoscale history {pod['jobId']} -o json").stdout)
    assert told[0]["actual"]["cpu"] == 4000
    assert told[-1]["actual"] == pod["actual"]
    freed = json.loads(shell.type("argosy cluster list -o json").stdout)
    assert freed[0]["total"]["cpu"] - freed[0]["free"]["cpu"] == pod["actual"]["cpu"]

"""Autoscaling on one machine: `argosy up --autoscale`, a job that says within what, and what is told of its size."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.local.test_pages import Shell

pytestmark = pytest.mark.timeout(300)

WITHIN_S = 150.0
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
    found: list[Any] = []
    while not shrunk(*found):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.5)
        pods = json.loads(shell.type("argosy autoscale list -o json").stdout or "[]")
        told = json.loads(shell.type(f"argosy autoscale history {pods[0]['jobId']} -o json").stdout) if pods else []
        found = [pods, told, json.loads(shell.type("argosy cluster list -o json").stdout)]


def shrunk(pods: Any = (), told: Any = (), clusters: Any = ()) -> bool:
    """Return whether list, history and cluster tell of one size far below the first.

    They are asked one after the other while the pod may still be shrunk further, so they agree in the end only.
    """
    if not pods or not told:
        return False
    (pod,), (cluster,), first, last = pods, clusters, told[0], told[-1]
    assert first["actual"]["cpu"] == 4000
    held = cluster["total"]["cpu"] - cluster["free"]["cpu"]
    is_agreed = pod["requested"] == pod["approved"] == pod["actual"] == last["actual"]
    return bool(is_agreed and held == pod["actual"]["cpu"] <= 1000)

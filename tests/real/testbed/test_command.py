"""`python -m testbed`: parts that are started by hand outlive the command, and go without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testbed.cache import CACHE_VARIABLE

import testbed
from argosy_local.processes import await_true
from testbed import kubernetes

Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs the command with a cache of the test's own, and ends what it left running."""
    environment = {
        **os.environ,
        CACHE_VARIABLE: str(tmp_path / "cache"),
        kubernetes.BINARY_VARIABLE: str(kubernetes.build()),
        "PYTHONPATH": str(Path(testbed.__file__).parent.parent),
    }

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "testbed", *arguments],
            check=True, capture_output=True, text=True, env=environment, timeout=120,
        )  # fmt: skip
        return done.stdout.splitlines()

    yield run
    run("down")


def running(tmp_path: Path) -> dict[str, str]:
    """Return what the command wrote down about the one part that runs."""
    (row,) = json.loads((tmp_path / "cache" / "running.json").read_text())
    return dict(row)


def test_cluster_that_was_started_by_hand_answers_until_it_is_taken_down(run: Run, tmp_path: Path) -> None:
    """It has nodes and a second `up` finds it; once dead it is told and made anew; `down` leaves nothing."""
    (line,) = run("up", "kubernetes", "--nodes=2")
    kubeconfig = line.removeprefix("export KUBECONFIG=")
    nodes = subprocess.run(
        [kubernetes.build(), "kubectl", "get", "nodes", "--output=name"],
        check=True, capture_output=True, text=True, env={**os.environ, "KUBECONFIG": kubeconfig}, timeout=60,
    )  # fmt: skip
    assert nodes.stdout.split() == ["node/node-0", "node/node-1"]
    assert run("up", "kubernetes") == [line]
    assert run("status", "kubernetes") == [f"kubernetes: running KUBECONFIG={kubeconfig}"]

    for pid, _ in running(tmp_path)["processes"]:
        os.kill(int(pid), signal.SIGKILL)

    def state() -> str:
        return run("status", "kubernetes")[0].split()[1]

    await_true(lambda: state() == "dead", "the part to be dead", timeout_s=30.0)
    (other,) = run("up", "kubernetes", "--nodes=0")
    assert other != line
    assert state() == "running"

    run("down")
    assert not Path(other.removeprefix("export KUBECONFIG=")).exists()
    assert run("status", "kubernetes") == ["kubernetes: not started"]

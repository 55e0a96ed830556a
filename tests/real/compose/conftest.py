"""An engine with the images, the stack for each generation of compose, and a real cluster beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from images.engine import find_compose, running_engine
from images.upstream_images import ensure
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions

from argosy_local.processes import free_ports

from .stack import AGENT_FILES, LABEL, REAL_NODES, ROOT, UP_S, Stack, await_true, docker, say

BASES = ROOT / "deploy" / "kustomize"
NEEDED_IMAGES = ("PYTHON_IMAGE", "POSTGRES_IMAGE", "PULSAR_IMAGE", "PROMETHEUS_IMAGE", "COLLECTOR_IMAGE")
"""Grafana's is not among them: nothing here can make it."""


@pytest.fixture(scope="module")
def engine(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[str]:
    """An engine that has the images which the stack names and cannot build."""
    with running_engine(real_directory / "engine", say=say) as version:
        note_part("container engine", version)
        settings = dict(
            line.split("=", 1) for line in (ROOT / ".env").read_text().splitlines() if line and not line.startswith("#")
        )
        for reference, origin in ensure([settings[name] for name in NEEDED_IMAGES], say=say).items():
            note_part(f"image {reference}", origin)
        yield version


@pytest.fixture(scope="module")
def built() -> list[str]:
    """Who has built the images in this run; nobody yet."""
    return []


@pytest.fixture(scope="module", params=[2, 1], ids=["v2", "v1"])
def stack(
    request: pytest.FixtureRequest, engine: str, built: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The stack, up and healthy, and taken down afterwards."""
    note_part: Callable[[str, str], None] = request.getfixturevalue("note_part")
    compose = find_compose(request.param, say=say)
    (port,) = free_ports(1)
    project = f"argosy-test-{os.getpid()}-{request.param}"
    stack = Stack(compose=compose, project=project, directory=tmp_path_factory.mktemp("jobs"), api_port=port)
    try:
        if not built:  # once for both: the other builder would fetch and compile everything again
            say("building images")
            started = time.monotonic()
            stack.run(*AGENT_FILES, "build", timeout_s=900)
            stack.figures["images built"] = f"{time.monotonic() - started:.0f} s"
            built.append(compose.version)
        started = time.monotonic()
        stack.run("up", "-d", "--no-build")
        await_true(stack.is_healthy, "all services healthy", UP_S)
        stack.figures["up to healthy"] = f"{time.monotonic() - started:.1f} s"
        stack.use()
        stack.figures["up to a context"] = f"{time.monotonic() - started:.1f} s"
        yield stack
    finally:
        started = time.monotonic()
        take_down(stack, with_profile=request.param == 2)
        stack.figures["down"] = f"{time.monotonic() - started:.1f} s"
        note_part(f"compose {compose.version}", ", ".join(f"{name} {value}" for name, value in stack.figures.items()))
        left = [
            docker(*kind, "-q", "--filter", f"label={LABEL}={project}")
            for kind in (("ps", "-a"), ("volume", "ls"), ("network", "ls"))
        ]
        assert left == ["", "", ""], "`down -v` left something behind"


def take_down(stack: Stack, *, with_profile: bool) -> None:
    """Remove everything by the very command that docs/deploy.md gives, once with containers of a profile there."""
    profile = ("--profile", "observability") if with_profile else ()
    try:
        if with_profile:
            stack.run(*profile, "up", "-d", "--no-build", "--no-deps", "collector", "prometheus")
    finally:
        stack.run(*profile, "down", "-v")


@pytest.fixture(scope="module")
def real_cluster(kube_api_factory: Callable[..., KubeApi]) -> Iterator[KubeApi]:
    """A real control plane that containers reach, with the accounts of our kustomize bases."""
    cluster = kube_api_factory(ControlPlaneOptions(server_flags=("--bind-address=0.0.0.0",)))
    cluster.add_nodes(2, prefix="real", labels=REAL_NODES)
    for base in ("cluster", "cluster-agent"):
        documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(BASES / base)))
        accounts = [document for document in documents if document["kind"] != "Deployment"]
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(accounts))
    yield cluster
    cluster.stop()

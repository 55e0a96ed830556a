"""A container engine and the two generations of compose, for tests of the compose stack.

An engine that answers is used. Otherwise, as root, one is started with data of its own and ended with the tests. Where
`ARGOSY_TESTBED_INSTALL` is 1, what is missing is installed with apt-get first: for machines that live for one run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.cache import obtain

from testbed import debian, reaper

__all__ = ["Compose", "EngineUnavailable", "find_compose", "running_engine"]

PACKAGES: Final = {"dockerd": "docker.io", "docker-compose": "docker-compose", "mmdebstrap": "mmdebstrap"}
COMPOSE_VERSION: Final = "v2.40.3"
COMPOSE_MODULE: Final = "github.com/docker/compose/v2"
START_S: Final = 60.0


class EngineUnavailable(Exception):
    """There is no engine or no compose, and none can be had; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """One generation of compose."""

    command: tuple[str, ...]
    """How it is called."""
    version: str
    """What it says of itself."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that it needs."""


def _answers() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30)
    return done.returncode == 0


def install_missing(say: Callable[[str], None]) -> None:
    """Install the programs that are missing, where the variable and our rights allow it."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    debian.install(["iptables", *missing] if missing else [], say=say)


@contextmanager
def running_engine(directory: Path, *, say: Callable[[str], None]) -> Iterator[str]:
    """Give the version of an engine that answers during the context.

    Args:
        directory: Where an engine that is started keeps its data; removed by the caller.
        say: Told of what takes long.

    Raises:
        EngineUnavailable: None answers and none can be started.
    """
    install_missing(say)
    if _answers():
        yield _version()
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        raise EngineUnavailable(
            "no container engine answers `docker info`, and none can be started here: start one, or as root"
            f" `apt-get install {' '.join(PACKAGES.values())}` (or set {debian.INSTALL_VARIABLE}=1)"
        )
    directory.mkdir(parents=True, exist_ok=True)
    reaper.end_lost_engines(f"{tempfile.gettempdir()}/argosy-real-*/{directory.name}")
    say("starting dockerd")
    reaper.watch("engine", directory)
    with (directory / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("dockerd", "--data-root", str(directory / "data"), "--exec-root", str(directory / "exec")),
                *("--pidfile", str(directory / "dockerd.pid")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_S
        while not _answers():
            if process.poll() is not None or time.monotonic() > deadline:
                words = (directory / "dockerd.log").read_text(errors="replace")[-1500:]
                raise EngineUnavailable(f"dockerd does not start here:\n{words}")
            time.sleep(0.2)
        yield _version()
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        reaper.end_engine(directory)
        process.wait(20)
        reaper.release("engine", directory)


def _version() -> str:
    done = subprocess.run(
        ["docker", "version", "-f", "{{.Server.Version}}"], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def _says(*command: str) -> str:
    try:
        done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        return ""
    return done.stdout.strip().removeprefix("v") if done.returncode == 0 else ""


def find_compose(generation: int, *, say: Callable[[str], None]) -> Compose:
    """Return compose of a generation: 2, built from Go modules if it is not installed, or 1.

    Raises:
        EngineUnavailable: There is none and it cannot be had.
    """
    if generation == 1:
        version = _says("docker-compose")
        if not version.startswith("1."):
            raise EngineUnavailable("compose 1.29 is missing: apt-get install docker-compose")
        # The engine's own builder: what the command line would call instead may not be installed.
        environment = {"COMPOSE_DOCKER_CLI_BUILD": "0", "DOCKER_BUILDKIT": "0"}
        return Compose(command=("docker-compose",), version=version, environment=environment)
    version = _says("docker", "compose")
    if version.startswith("2."):
        return Compose(command=("docker", "compose"), version=version)
    binary = obtain(f"compose-{COMPOSE_VERSION}", lambda folder: _build_compose(folder, say), say) / "docker-compose"
    return Compose(command=(str(binary),), version=_says(str(binary)))


def _build_compose(folder: Path, say: Callable[[str], None]) -> None:
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise EngineUnavailable("compose v2 is missing: install its plugin, or Go to build it")
    say(f"building compose {COMPOSE_VERSION}; some minutes")
    work = folder / "module"
    work.mkdir()
    # As a tool of a module of our own: its own go.mod excludes versions, which `go install` refuses.
    for arguments in (
        ["mod", "init", "tools"],
        ["get", "-tool", f"{COMPOSE_MODULE}/cmd@{COMPOSE_VERSION}"],
        [
            *("build", "-trimpath", "-ldflags", f"-s -w -X {COMPOSE_MODULE}/internal.Version={COMPOSE_VERSION}"),
            *("-o", str(folder / "docker-compose"), f"{COMPOSE_MODULE}/cmd"),
        ],
    ):
        done = subprocess.run(
            [go, *arguments], cwd=work, capture_output=True, text=True, check=False, timeout=1800,
            env={**os.environ, "CGO_ENABLED": "0"},
        )  # fmt: skip
        if done.returncode != 0:
            raise EngineUnavailable(f"compose v2 cannot be built: {done.stderr.strip()[-800:]}")
    shutil.rmtree(work)

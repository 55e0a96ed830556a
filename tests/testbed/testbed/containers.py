"""Containers, where an engine answers; their names begin with `argosy-testbed-`."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from testbed import reaper
from testbed.cache import Tell, is_cached

__all__ = ["SOURCE_VARIABLE", "Container", "Source", "is_container_part", "is_running", "remove_container", "source"]

SOURCE_VARIABLE: Final = "ARGOSY_TESTBED_SOURCE"
"""Variable that says where parts come from, a value of Source."""
_PULL_TIMEOUT_S: Final = 900.0
_TAIL_LINES: Final = "20"


class Source(StrEnum):
    """Where parts come from that come both ways."""

    AUTO = "auto"
    """What is cached, else containers where an engine answers and has or gets the image, else package registries."""
    CONTAINER = "container"
    """Containers only."""
    REGISTRY = "registry"
    """Package registries only."""


def source() -> Source:
    """Return where parts shall come from.

    Raises:
        NotAllowedNow: The variable has a value that is none.
    """
    stated = os.environ.get(SOURCE_VARIABLE, "") or Source.AUTO
    try:
        return Source(stated)
    except ValueError as error:
        raise NotAllowedNow(f"{SOURCE_VARIABLE} is {stated!r}; it must be one of {', '.join(Source)}") from error


def _engine(*arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments], check=False, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
    )


@cache
def _answers() -> bool:
    """Return whether there is an engine and it answers."""
    if shutil.which("docker") is None:
        return False
    try:
        return _engine("info", "--format", "{{.ServerVersion}}", timeout_s=15.0).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@cache
def is_container_part(image: str, folder: str, tell: Tell) -> bool:
    """Return whether a part runs in a container: wanted, an engine answers, and the image is there or comes.

    What the cache holds already is used where nothing else was asked for: it needs no engine and no fetching.

    Args:
        image: The part's image.
        folder: Name of its folder in the cache, if it came from a package registry.
        tell: Is told what is pulled.

    Raises:
        NotAllowedNow: Containers are wanted and cannot be had.
    """
    wanted = source()
    if wanted is Source.REGISTRY or (wanted is Source.AUTO and is_cached(folder)):
        return False
    if _answers() and (_engine("image", "inspect", image).returncode == 0 or _pull(image, tell)):
        return True
    if wanted is Source.CONTAINER:
        raise NotAllowedNow(f"{SOURCE_VARIABLE} asks for containers, and no engine answers that has or gets {image}")
    return False


def _pull(image: str, tell: Tell) -> bool:
    tell(f"pulling {image}")
    try:
        done = _engine("pull", "--quiet", image, timeout_s=_PULL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode != 0:
        tell(f"{image} cannot be pulled")
    return done.returncode == 0


class Container:
    """A container that can be killed and started again with its state.

    Args:
        part: Name of the part.
        image: Image.
        ports: Ports of the container, published on the same ports of the loopback interface or on other ones.
        arguments: Command and its arguments.
        environment: Variables.
        files: Files of this machine by their path in the container, read only.
        options: Further options of `docker run`.
        is_tied: It is removed when this process ends, in whatever way.
    """

    def __init__(
        self,
        part: str,
        image: str,
        *,
        ports: Mapping[int, int],
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, Path] | None = None,
        options: Sequence[str] = (),
        is_tied: bool = True,
    ) -> None:
        """Remember; nothing runs yet."""
        self.name = f"argosy-testbed-{part}-{secrets.token_hex(4)}"
        """Name of the container."""
        self._is_made = False
        self._is_tied = is_tied
        words = ["--detach", "--name", self.name]
        for inside, outside in ports.items():
            words += ["--publish", f"127.0.0.1:{outside}:{inside}"]
        for key, value in (environment or {}).items():
            words += ["--env", f"{key}={value}"]
        for inside_path, path in (files or {}).items():
            words += ["--volume", f"{path}:{inside_path}:ro"]
        self._words = [*words, *options, image, *arguments]

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return is_running(self.name)

    def start(self) -> None:
        """Make it, or start it again.

        Raises:
            BackendUnavailable: The engine refuses.
        """
        if self._is_made:
            done = _engine("start", self.name)
        else:
            if self._is_tied:
                reaper.watch("container", self.name)
            done = _engine("run", *self._words)
            self._is_made = True
        if done.returncode != 0:
            raise BackendUnavailable(f"{self.name} does not start: {done.stderr.strip()}")

    def stop(self) -> None:
        """Stop it in order; it can be started again."""
        _engine("stop", "--time", "30", self.name, timeout_s=60.0)

    def kill(self) -> None:
        """Kill it; it can be started again."""
        _engine("kill", self.name)

    def remove(self) -> None:
        """Remove it and its volumes."""
        if self._is_made:
            _engine("rm", "--force", "--volumes", self.name)
            if self._is_tied:
                reaper.release("container", self.name)
            self._is_made = False

    def last_words(self) -> str:
        """Return the end of its output."""
        done = _engine("logs", "--tail", _TAIL_LINES, self.name)
        return (done.stdout + done.stderr).strip() or "it said nothing"


def remove_container(name: str) -> None:
    """Remove a container that another process started, with its volumes; one that is gone is fine."""
    _engine("rm", "--force", "--volumes", name)


def is_running(name: str) -> bool:
    """Return whether a container of that name runs."""
    return _engine("inspect", "--format", "{{.State.Running}}", name).stdout.strip() == "true"

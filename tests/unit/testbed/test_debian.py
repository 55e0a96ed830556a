"""Debian packages are installed where that is allowed, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from testbed import debian


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program named apt-get first on PATH, which notes how it is called; return its notes."""
    program = tmp_path / "apt-get"
    program.write_text(f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {tmp_path}/calls\nexit "${{APT_EXIT:-0}}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(debian.INSTALL_VARIABLE, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "calls"


def test_packages_are_installed_for_root_that_allows_it(apt_get: Path) -> None:
    """The lists are brought up to date, then exactly what was asked for is installed, without a request."""
    said: list[str] = []

    assert debian.install(["cmake", "libgrpc++-dev"], say=said.append)

    update, install = apt_get.read_text().splitlines()
    assert update.startswith("noninteractive ")
    assert update.endswith(" update")
    assert install.endswith(" install -y --no-install-recommends cmake libgrpc++-dev")
    assert said == ["installing cmake, libgrpc++-dev"]


@pytest.mark.parametrize(
    ("allowed", "user"), [("0", 0), ("", 0), ("1", 1000)], ids=["forbidden", "not asked for", "not root"]
)
def test_nothing_is_installed_elsewhere(
    allowed: str, user: int, apt_get: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A developer's machine is left as it is: without the variable and without root's rights."""
    monkeypatch.setenv(debian.INSTALL_VARIABLE, allowed)
    monkeypatch.setattr(os, "geteuid", lambda: user)

    assert not debian.install(["cmake"], say=pytest.fail)
    assert not apt_get.exists()


def test_nothing_is_installed_without_need(apt_get: Path) -> None:
    """A machine that has everything waits for no package list."""
    assert not debian.install([], say=pytest.fail)
    assert not apt_get.exists()


def test_failed_installation_is_an_error(apt_get: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be installed is not silently left out."""
    monkeypatch.setenv("APT_EXIT", "100")

    with pytest.raises(subprocess.CalledProcessError):
        debian.install(["cmake"], say=print)
    assert "install -y" not in apt_get.read_text()

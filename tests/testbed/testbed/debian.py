"""Debian packages that tests need: named where they are missing, installed where that is allowed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["INSTALL_VARIABLE", "install"]

INSTALL_VARIABLE: Final = "ARGOSY_TESTBED_INSTALL"
LOCK_WAIT_S: Final = 300
"""How long apt-get waits for another one: the two processes of a test run may both install."""


def install(packages: Iterable[str], *, say: Callable[[str], None]) -> bool:
    """Install packages with apt-get, if `ARGOSY_TESTBED_INSTALL` is 1 and we are root: for machines of one run.

    Returns:
        Whether they were installed; where it is not allowed, nothing happens.

    Raises:
        subprocess.CalledProcessError: apt-get failed.
    """
    wanted = [*packages]
    if not wanted or os.environ.get(INSTALL_VARIABLE) != "1" or os.geteuid() != 0:
        return False
    say(f"installing {', '.join(wanted)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt_get = ("apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}")
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        subprocess.run([*apt_get, *arguments], env=environment, check=True, capture_output=True, timeout=900)
    return True

"""promtool, which tries alert rules on made-up series: what is installed, else Debian's, unpacked into the cache.

Debian's package is not installed, since that would start a Prometheus.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable
from testbed.cache import Tell, obtain

__all__ = ["find_promtool"]

_PACKAGE: Final = "prometheus"
_TIMEOUT_S: Final = 600


def find_promtool(tell: Tell) -> str:
    """Return the path of promtool.

    Args:
        tell: Is told what takes long.

    Raises:
        BackendUnavailable: It is not installed and cannot be fetched.
    """
    return shutil.which("promtool") or str(obtain("promtool", lambda folder: _unpack(folder, tell), tell) / "promtool")


def _unpack(folder: Path, tell: Tell) -> None:
    tell("fetching promtool from Debian's package")
    package = folder / "package"
    package.mkdir()
    if os.geteuid() == 0:  # others take the lists that are there
        _run("apt-get", "-q", "update", folder=package)
    _run("apt-get", "-q", "download", _PACKAGE, folder=package)
    (archive,) = package.glob("*.deb")
    _run("dpkg-deb", "-x", str(archive), ".", folder=package)
    (package / "usr" / "bin" / "promtool").rename(folder / "promtool")
    shutil.rmtree(package)


def _run(*command: str, folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError:
        raise BackendUnavailable("promtool is missing: install Prometheus") from None
    if done.returncode != 0:
        raise BackendUnavailable(f"promtool is missing, and `{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")

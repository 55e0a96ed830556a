"""Helm, for tests of the chart: what is installed, else built from its Go module into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from testbed.cache import obtain

__all__ = ["HelmUnavailable", "find_helm"]

HELM_MODULE: Final = "helm.sh/helm/v3/cmd/helm@v3.19.0"


class HelmUnavailable(Exception):
    """There is no Helm and none can be built; the message says what to install."""


def find_helm(say: Callable[[str], None]) -> str:
    """Return the path of Helm 3.

    Raises:
        HelmUnavailable: It is not installed and cannot be built.
    """
    found = shutil.which("helm")
    if found:
        return found
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise HelmUnavailable("Helm is missing: install it, or Go to build it")

    def build(folder: Path) -> None:
        say("building Helm; a minute or two")
        done = subprocess.run(
            [go, "install", "-trimpath", HELM_MODULE],
            env={**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        if done.returncode != 0:
            raise HelmUnavailable(f"Helm cannot be built: {done.stderr.strip()[-800:]}")

    return str(obtain(f"helm-{HELM_MODULE.rpartition('@')[2]}", build, say) / "helm")

"""Programs built from Go modules, once per content of their folder, with the module versions that its go.sum pins."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from testbed.cache import Tell, obtain

__all__ = ["build", "module_version"]

_OLDEST_GO: Final = (1, 26)
_BUILD_TIMEOUT_S: Final = 2400.0


def module_version(source: Path, module: str) -> str:
    """Return the release of a module, with its `v`, that the go.mod in a folder requires."""
    text = (source / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)(?: // indirect)?$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def build(
    source: Path, name: str, *, binary_variable: str, linked: Mapping[str, str], tell: Tell, package: str = "."
) -> Path:
    """Return the path of a program, built first if it is not in the cache.

    Args:
        source: Folder of its go.mod, go.sum and Go files, whose content is part of its folder's name in the cache.
        name: Part and version, as `control-plane-v1.36.3`.
        binary_variable: Environment variable that names a program to use instead, as it is.
        linked: Values of Go variables that are set when it is linked, by their full names.
        tell: Is told what happens.
        package: What is built: the folder's own program, or one of a module that its go.mod names as a tool.

    Raises:
        NotAllowedNow: There is no Go, or the variable names no program.
        BackendUnavailable: It cannot be built; the message ends with what the compiler said.
    """
    stated = os.environ.get(binary_variable)
    if stated:
        if not os.access(stated, os.X_OK):
            raise NotAllowedNow(f"{binary_variable} names {stated}, which is no program")
        return Path(stated)
    program = source.name.replace("_", "")
    recipe = hashlib.sha256()
    files = [source / "go.mod", source / "go.sum", source / "main.go"]
    for path in [*files, *sorted(set(source.glob("*.go")) - set(files))]:
        if path.exists():
            recipe.update(path.read_bytes())
    flags = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in linked.items())])

    def make(folder: Path) -> None:
        go = _find_go(name, binary_variable)
        tell(f"building {name}: minutes from nothing, seconds with Go's caches")
        began_s = time.monotonic()
        _compile(go, source, package, folder / program, linker_flags=flags)
        tell(f"built {name} in {time.monotonic() - began_s:.0f} s")

    return obtain(f"{name}-{recipe.hexdigest()[:12]}", make, tell) / program


def _find_go(name: str, binary_variable: str) -> str:
    """Return the path of a Go compiler that is new enough.

    Raises:
        NotAllowedNow: There is none.
    """
    asked = "{} is built from Go modules; install Go {}.{} or newer".format(name, *_OLDEST_GO)
    candidates = [shutil.which("go"), "/usr/local/go/bin/go"]
    path = next((name for name in candidates if name and Path(name).exists()), None)
    if path is None:
        raise NotAllowedNow(f"{asked} (looked on PATH and in /usr/local/go), or name a binary in {binary_variable}")
    said = subprocess.run([path, "version"], check=False, capture_output=True, text=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_GO:
        raise NotAllowedNow(f"{asked}; {path} says {said.strip()!r}")
    return path


def _compile(go: str, source: Path, package: str, target: Path, *, linker_flags: str) -> None:
    # Reads the module files as they are and links nothing of this machine, so that the result depends on them alone.
    done = subprocess.run(
        [
            *("nice", go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"),
            *("-ldflags", linker_flags, "-o", str(target), package),
        ],
        check=False,
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise BackendUnavailable(f"{source.name} cannot be built: {done.stderr.strip()[-1500:]}")

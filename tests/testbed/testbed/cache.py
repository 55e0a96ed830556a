"""The cache: what was fetched or built, one folder per part and version, made once and never changed.

A folder appears under its name only when it is complete, and a lock makes a second process wait for the first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["CACHE_VARIABLE", "Tell", "cache_directory", "is_cached", "locked", "obtain"]

CACHE_VARIABLE: Final = "ARGOSY_TESTBED_CACHE"
"""Variable that names the cache's folder."""

Tell = Callable[[str], None]
"""Is told what happens, a line each time."""


def cache_directory() -> Path:
    """Return the cache's folder, made if it is not there.

    Root's is the system's: Postgres refuses to be root, and other accounts may not enter root's home.
    """
    stated = os.environ.get(CACHE_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME") or ("/var/cache" if os.geteuid() == 0 else "~/.cache")
    path = Path(stated or Path(home) / "argosy" / "testbed").expanduser().absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def is_cached(name: str) -> bool:
    """Return whether the folder of a name is there."""
    return (cache_directory() / name).exists()


@contextmanager
def locked(name: str, tell: Tell) -> Iterator[None]:
    """Hold the cache's lock of a name; a process that ends in any way lets go of it."""
    with (cache_directory() / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"{name}: waiting for another process that builds it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def obtain(name: str, make: Callable[[Path], None], tell: Tell) -> Path:
    """Return the folder of a name, made first if it is not there.

    Args:
        name: Name that tells part, version and recipe; another content has another name.
        make: Fills an empty folder; if it raises, nothing stays.
        tell: Is told when another process is waited for.
    """
    folder = cache_directory() / name
    if folder.exists():
        return folder
    with locked(name, tell):
        if not folder.exists():
            staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
            try:
                staging.chmod(0o755)
                make(staging)
                staging.rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder

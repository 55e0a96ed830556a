"""The process of `argosy up` that starts again what has died, ever more seldom if it dies at once.

::

    python -m argosy_local.supervisor DIRECTORY

It reads and writes `mesh.json`, and ends when the mesh is stopped. What it does it says on its output, which is the log
of the role `supervisor`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final

from argosy_core.errors import ArgosyError
from argosy_local.mesh import SUPERVISOR, Mesh
from argosy_local.process_status import POSTGRES

__all__ = ["Backoff", "main", "supervise"]

_LOOK_S: Final = 0.5
_FIRST_S: Final = 1.0
_MOST_S: Final = 60.0
_STEADY_S: Final = 60.0


@dataclass(slots=True)
class Backoff:
    """When a role may be started again: at once, then after 1 s, 2 s, 4 s and so on up to 60 s.

    What has run for a minute begins anew.
    """

    wait_s: float = 0.0
    """Wait before the next start."""
    last_s: float = float("-inf")
    """When it was started last."""

    def is_due(self, now_s: float) -> bool:
        """Return whether what has died may be started now."""
        if now_s - self.last_s >= _STEADY_S + self.wait_s:
            self.wait_s = 0.0
        return now_s - self.last_s >= self.wait_s

    def started(self, now_s: float) -> None:
        """Take note of a start."""
        self.last_s = now_s
        self.wait_s = min(max(self.wait_s * 2, _FIRST_S), _MOST_S)


def supervise(mesh: Mesh, backoffs: dict[str, Backoff], now_s: float) -> list[str]:
    """Start again what has died and is due; return what was done, in words.

    Args:
        mesh: The mesh as it is written down now.
        backoffs: Of each role, kept between calls.
        now_s: Now, on a monotonic clock.
    """
    told = []
    for role in mesh.dead_roles():
        backoff = backoffs.setdefault(role, Backoff())
        if role == SUPERVISOR or not backoff.is_due(now_s):
            continue
        backoff.started(now_s)
        try:
            mesh.restart(role)
        except ArgosyError as error:
            told.append(f"{role} has died and cannot be started: {error}; next try in {backoff.wait_s:g} s")
        else:
            log = mesh.log_path(role)
            told.append(f"{role} had died and was started again; its log is {log}")
        if role == POSTGRES:
            break  # the others come up again by themselves once it is there
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch over the mesh in a directory until it is stopped; return the exit status."""
    (directory,) = sys.argv[1:] if arguments is None else arguments
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    backoffs: dict[str, Backoff] = {}
    while not stop.wait(_LOOK_S):
        try:
            mesh = Mesh(Path(directory))
            if not mesh.is_known:
                break
            told = supervise(mesh, backoffs, time.monotonic())
        except ArgosyError as error:
            told = [str(error)]
        for line in told:
            sys.stdout.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

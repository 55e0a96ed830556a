"""A process that ends what its parent started and could not end itself, because it was killed.

It reads lines from its standard input: `+ PID TICKS`, `- PID TICKS`, `+ container NAME`, `- container NAME`,
`+ folder PATH`, `- folder PATH`. When the input ends, whatever was added and not taken back is killed or removed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

from argosy_cli.processes import ProcessId, await_true, is_alive, signal_process
from argosy_core.errors import BackendUnavailable

__all__ = ["dismiss", "main", "release", "watch"]

_KILL_S: Final = 20.0
_lock: Final = threading.Lock()
_reapers: Final[list[subprocess.Popen[str]]] = []


def _say(line: str) -> None:
    with _lock:
        if not _reapers or _reapers[0].poll() is not None:
            _reapers[:] = [
                subprocess.Popen(
                    [sys.executable, "-P", __file__],
                    stdin=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            ]
        stream = _reapers[0].stdin
        assert stream is not None
        stream.write(line + "\n")
        stream.flush()


def watch(*words: object) -> None:
    """Have something ended if this process ends without `release`."""
    _say(" ".join(["+", *map(str, words)]))


def release(*words: object) -> None:
    """Take back a `watch`."""
    _say(" ".join(["-", *map(str, words)]))


def dismiss() -> None:
    """End the reaper; whatever it still watches is ended first."""
    with _lock:
        for reaper in _reapers:
            if reaper.stdin is not None:
                reaper.stdin.close()
            reaper.wait(timeout=60)
        _reapers.clear()


def _end(what: tuple[str, ...]) -> None:
    if what[0] == "container":
        subprocess.run(["docker", "rm", "--force", "--volumes", what[1]], check=False, capture_output=True)
    elif what[0] == "folder":
        shutil.rmtree(" ".join(what[1:]), ignore_errors=True)
    else:
        process = ProcessId(pid=int(what[0]), start_ticks=int(what[1]))
        signal_process(process, signal.SIGKILL)
        # One that is dying may still write into the folder that is removed next.
        await_true(lambda: not is_alive(process), f"process {process.pid} to be killed", timeout_s=_KILL_S)


def main() -> None:
    """Read until the input ends, then end what is left, processes before their folders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    left: dict[tuple[str, ...], None] = {}
    for line in sys.stdin:
        sign, *words = line.split()
        if sign == "+":
            left[tuple(words)] = None
        else:
            left.pop(tuple(words), None)
    for what in sorted(left, key=lambda words: words[0] == "folder"):
        with suppress(BackendUnavailable, OSError, ValueError):
            _end(what)


if __name__ == "__main__":
    main()

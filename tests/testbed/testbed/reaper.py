"""A process that ends what its parent started and could not end itself, because it was killed.

It reads lines from its standard input: `+ PID TICKS`, `- PID TICKS`, and the same of `container NAME`, `engine PATH`
and `folder PATH`. When the input ends, whatever was added and not taken back is killed or removed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable
from argosy_local.processes import ProcessId, await_true, end_process, identify, is_alive, signal_process

__all__ = ["dismiss", "end_engine", "end_lost_engines", "main", "release", "watch"]

_KILL_S: Final = 20.0
_MOUNTS: Final = Path("/proc/self/mountinfo")
_ENGINE_S: Final = 60.0
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


def end_engine(directory: Path) -> None:
    """End the container engine of a directory and all that it started, whichever part of it is still alive.

    Its daemon ends its containers if it is asked. Where it is gone already, each container still has a process that
    keeps it (its shim), whose command line names the engine's directory too; the container is that one's child.
    """
    for pid in _named_in(directory, "dockerd"):
        with suppress(BackendUnavailable):
            end_process(identify(pid), grace_s=_ENGINE_S)
    keepers = _named_in(directory)
    for pid in [*keepers, *_descendants(keepers)]:
        with suppress(BackendUnavailable):
            _kill(identify(pid))
    for line in reversed(_MOUNTS.read_text(encoding="utf-8").splitlines()):
        place = Path(line.split()[4])
        if place.is_relative_to(directory):
            subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def end_lost_engines(folders: str) -> None:
    """End what is left of engines whose daemon is gone, as of a run that was killed with all its helpers.

    Args:
        folders: Pattern of their directories, as an absolute path; the directory is what it matches.
    """
    for directory in Path("/").glob(folders.lstrip("/")):
        if not _named_in(directory, "dockerd") and _named_in(directory):
            end_engine(directory)


def _named_in(directory: Path, program: str = "") -> list[int]:
    """Return the processes whose program is the named one, if any is, and whose arguments lie below a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            is_below = any(Path(word.partition("=")[2] or word).is_relative_to(directory) for word in words[1:])
            if is_below and program in {"", Path(words[0]).name}:
                found.append(int(path.parent.name))
    return found


def _descendants(pids: list[int]) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
    found = list(pids)
    for pid in found:  # grows on the way
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found[len(pids) :]


def _end(what: tuple[str, ...]) -> None:
    if what[0] == "container":
        subprocess.run(["docker", "rm", "--force", "--volumes", what[1]], check=False, capture_output=True)
    elif what[0] == "engine":
        end_engine(Path(" ".join(what[1:])))
    elif what[0] == "folder":
        shutil.rmtree(" ".join(what[1:]), ignore_errors=True)
    else:
        _kill(ProcessId(pid=int(what[0]), start_ticks=int(what[1])))


def _kill(process: ProcessId) -> None:
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

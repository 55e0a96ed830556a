"""Processes that read YAML for a server, whose interpreter stays free for its event loop meanwhile.

A thread that reads YAML takes the interpreter at each step, and the loop gets it back a millisecond later whenever it
wakes, ten times and more for a submit. A process takes a processor only, and gives way to the server at that, too.

One line goes in for each call, a JSON list of texts, and one comes out. A process ends when its input does, so none is
left behind by a server that was killed.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from argosy_core.errors import BackendUnavailable
from argosy_server.api.submits.manifests import Converted, read_all

__all__ = ["YamlProcesses", "main"]

_MAX_MEMORY_BYTES: Final = 1 << 30
_NICE: Final = 10
_Process = subprocess.Popen[bytes]


class YamlProcesses:
    """Reads YAML in other processes, as many as there are calls at once. Calls block, and may come from any thread."""

    def __init__(self) -> None:
        """Start none before it is needed."""
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._is_closed = False

    def read(self, texts: Sequence[str | None]) -> list[Converted]:
        """Return YAML texts as JSON; nothing of those that are None.

        Raises:
            BackendUnavailable: The process ended meanwhile; the next call starts another one.
        """
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = _start()
        line = b""
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):  # a process that ended tells nothing, either
                process.stdin.write(json.dumps(texts).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
        finally:
            self._give_back(process, is_usable=line.endswith(b"\n"))
        if not line.endswith(b"\n"):
            raise BackendUnavailable("the process that reads YAML ended; send manifests as JSON, or try again")
        return [Converted(text, fault) for text, fault in json.loads(line)]

    def close(self) -> None:
        """End the processes; one that is reading ends once it has answered."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            _end(process)

    def _give_back(self, process: _Process, *, is_usable: bool) -> None:
        with self._lock:
            if is_usable and not self._is_closed:
                self._idle.append(process)
                return
        _end(process)


def _start() -> _Process:
    # In a session of its own, so that Ctrl-C in a terminal reaches the server alone, which ends it.
    return subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


def _end(process: _Process) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def main() -> None:
    """Read lines until there are no more."""
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    for line in sys.stdin.buffer:
        try:
            converted = read_all(json.loads(line))
        except MemoryError:
            converted = [Converted(fault="needs too much memory to be read as YAML")] * len(json.loads(line))
        sys.stdout.buffer.write(json.dumps(converted).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

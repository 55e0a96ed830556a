"""Programs of the testbed's parts: started with a log, waited for, stopped, killed; ended with us if they shall be."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable
from argosy_local.processes import ProcessId, await_true, end_process, is_alive, signal_process, spawn, usage
from testbed import reaper

__all__ = ["Program"]

_POLL_S: Final = 0.05
_TAIL_CHARS: Final = 1500


class Program:
    """A program that can be started again and again.

    Args:
        name: Name for messages and of the log file.
        arguments: Program and arguments.
        log: File its output is added to.
        environment: Variables beside ours.
        is_tied: It ends when this process ends, in whatever way.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        is_tied: bool = True,
    ) -> None:
        """Remember; nothing runs yet."""
        self.name = name
        """Name for messages."""
        self.log = log
        """File of its output."""
        self.process: ProcessId | None = None
        """The process, None before the first start."""
        self._arguments = list(arguments)
        self._environment = environment
        self._is_tied = is_tied

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self.process is not None and is_alive(self.process)

    @property
    def rss_bytes(self) -> int:
        """Memory in use, 0 if it does not run."""
        return usage(self.process.pid).rss_bytes if self.process and self.is_running else 0

    @property
    def cpu_s(self) -> float:
        """CPU time since its start, seconds."""
        return usage(self.process.pid).cpu_s if self.process and self.is_running else 0.0

    def start(self) -> None:
        """Start it; one that runs is left alone."""
        if self.is_running:
            return
        self.process = spawn(self._arguments, log=self.log, environment=self._environment)
        if self._is_tied:
            reaper.watch(self.process.pid, self.process.start_ticks)

    def attach(self, process: ProcessId) -> None:
        """Be the program that another process started."""
        self.process = process

    def await_ready(self, is_ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Wait until it answers.

        Raises:
            BackendUnavailable: It ended, or took too long; the message ends with what it said.
        """
        deadline_s = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running:
                raise BackendUnavailable(f"{self.name} ended: {self.last_words()}")
            if time.monotonic() > deadline_s:
                raise BackendUnavailable(f"{self.name} is not ready after {timeout_s:g} s: {self.last_words()}")
            time.sleep(_POLL_S)

    def stop(self, *, grace_s: float = 20.0) -> None:
        """End it in order, or by force once the grace has passed; one that does not run is fine."""
        if self.process is not None:
            end_process(self.process, grace_s=grace_s)
            self._forget()

    def kill(self) -> None:
        """End it as a power failure would."""
        if self.process is not None:
            process = self.process
            signal_process(process, signal.SIGKILL)
            await_true(lambda: not is_alive(process), f"{self.name} to be killed", timeout_s=20.0)
            self._forget()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, as SIGSTOP."""
        if self.process is not None:
            signal_process(self.process, number)

    def last_words(self) -> str:
        """Return the end of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "it has no log"
        return text[-_TAIL_CHARS:].strip() or "it said nothing"

    def _forget(self) -> None:
        if self._is_tied and self.process is not None:
            reaper.release(self.process.pid, self.process.start_ticks)
        self.process = None

"""Ctrl-C in `argosy run` on a terminal: who interrupts is asked what becomes of the job."""

import asyncio
import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.api.v1 import job_pb2
from argosy_cli.interrupts import run_to_end
from argosy_testkit.fake_api import FakeApi

CTRL_C = b"\x03"
WITHIN_S = 60
PATIENCE_S = 5
"""After how long somebody presses Ctrl-C once more."""
TAKE_TERMINAL = (
    "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " runpy.run_module('argosy_cli', run_name='__main__', alter_sys=True)"
)
"""Makes the terminal that of the process, so that Ctrl-C reaches it, and is the command then."""


class Terminal:
    """A terminal at which somebody has typed `argosy run -- work`."""

    def __init__(self, server: str) -> None:
        """Start it."""
        self.text = ""
        """What it has shown."""
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, "run", "--", "work"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "ARGOSY_SERVER": server},
            start_new_session=True,
        )
        os.close(theirs)

    def await_text(self, awaited: str) -> None:
        """Return once something is shown behind what was awaited before."""
        end_s = time.monotonic() + WITHIN_S
        while awaited not in self.text:
            assert time.monotonic() < end_s, self.text
            if select.select([self._ours], [], [], 1)[0]:
                self.text += os.read(self._ours, 65_536).decode()
        self.text = self.text.partition(awaited)[2]

    def type(self, keys: bytes) -> None:
        """Type some keys."""
        os.write(self._ours, keys)

    def interrupt_question(self) -> None:
        """Press Ctrl-C, as often as a person would until something happens.

        Python looks for signals between its own steps: one that comes just before it begins to wait for a key is seen
        with the next. What waits for a server is woken by each; see `argosy_cli.interrupts`.
        """
        self.type(CTRL_C)
        while self.process.poll() is None and not self._shows_more():
            self.type(CTRL_C)

    def _shows_more(self) -> bool:
        """Return whether something but the echo of Ctrl-C is shown before long, or the process ends."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s and self.process.poll() is None:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    shown = os.read(self._ours, 65_536).decode()
                except OSError:  # the other end is closed
                    return True
                self.text += shown
                if shown.replace("^C", "").strip():
                    return True
        return self.process.poll() is not None

    def end(self) -> int:
        """Return the exit code once all is shown."""
        while select.select([self._ours], [], [], WITHIN_S)[0]:
            try:
                self.text += os.read(self._ours, 65_536).decode()
            except OSError:  # the other end is closed and empty
                break
        return self.process.wait(WITHIN_S)

    def close(self) -> None:
        """Leave nothing running."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(server: str, api: FakeApi) -> Iterator[Terminal]:
    """A job that runs, and whose log is on the screen."""
    api.submitted_state = job_pb2.JOB_STATE_RUNNING
    api.submitted_runs = [job_pb2.Run(attempt=1, state=job_pb2.RUN_STATE_RUNNING, cluster="c1", node="n1")]
    api.log_goes_on = True
    opened = Terminal(server)
    opened.await_text("second line")
    yield opened
    opened.close()


def end_well(api: FakeApi) -> None:
    """Let the job succeed, after some more words."""
    (job,) = api.jobs.values()
    job.state = job_pb2.JOB_STATE_SUCCEEDED
    job.runs[0].state, job.runs[0].exit_code = job_pb2.RUN_STATE_SUCCEEDED, 0
    api.log_pieces = [*api.log_pieces, b"last line\n"]
    api.log_goes_on = False


def test_who_declines_to_cancel_goes_on_where_the_log_was(terminal: Terminal, api: FakeApi) -> None:
    """A declined question is no interruption: nothing is cancelled, no line comes twice, the exit code is the job's."""
    (job_id,) = api.jobs
    terminal.type(CTRL_C)
    terminal.await_text(f"cancel job {job_id}? [y/N]:")
    end_well(api)
    terminal.type(b"n\n")
    assert terminal.end() == 0
    assert "last line" in terminal.text
    assert "first line" not in terminal.text
    assert not api.requests["CancelJobs"]


def test_who_wants_to_cancel_ends_the_job(terminal: Terminal, api: FakeApi) -> None:
    """The job's events say why it ended."""
    (job_id,) = api.jobs
    terminal.type(CTRL_C)
    terminal.await_text("[y/N]:")
    terminal.type(b"y\n")
    assert terminal.end() == 130
    assert f"asked to cancel job {job_id}" in terminal.text
    (request,) = api.requests["CancelJobs"]
    assert (list(request.jobs.ids), request.reason) == ([job_id], "interrupted")


def test_who_interrupts_the_question_leaves_the_job_to_itself(terminal: Terminal, api: FakeApi) -> None:
    """How to come back to it is said."""
    (job_id,) = api.jobs
    terminal.type(CTRL_C)
    terminal.await_text("[y/N]:")
    terminal.interrupt_question()
    assert terminal.end() == 130
    assert f"`argosy logs -f {job_id}` follows it" in terminal.text
    assert not api.requests["CancelJobs"]


def await_wait(thread_id: int) -> None:
    """Return once a thread waits for events, as far as the kernel tells, else after a second."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            if "epoll" in Path(f"/proc/self/task/{thread_id}/wchan").read_text():
                return
        threading.Event().wait(0.01)


def test_signal_that_another_thread_took_ends_a_wait() -> None:
    """As one does that comes between the last step and the wait: it does not interrupt the wait by itself."""
    main_thread_id = threading.get_native_id()
    begins, ends = threading.Event(), threading.Event()
    presses: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []

    def press() -> None:
        begins.wait(WITHIN_S)
        await_wait(main_thread_id)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while not presses or not ends.wait(PATIENCE_S):
            presses.append(threading.get_ident())
            signal.pthread_kill(presses[-1], signal.SIGINT)
            if len(presses) > 1:  # so that the test ends
                loops[0].call_soon_threadsafe(int)

    async def wait() -> None:
        loops.append(asyncio.get_running_loop())
        begins.set()
        await asyncio.Event().wait()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_to_end(wait())
    finally:
        ends.set()
        presser.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert len(presses) == 1

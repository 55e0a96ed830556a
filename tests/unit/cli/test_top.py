"""`argosy top`: what its keys do, and what it shows."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import ExitStack
from typing import Any

import click
import pytest

from argosy.api.v1 import job_pb2
from argosy_cli.commands.top import View, fitted
from argosy_testkit.fake_api import FakeApi


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(["j", "j", "k"], View(line=1), id="down-and-up"),
        pytest.param(["\x1b[B"] * 9, View(line=2), id="no-further-than-the-last"),
        pytest.param(["\x1b[A"], View(), id="no-further-than-the-first"),
        pytest.param(["j", "\r"], View(line=1, queue="b"), id="look-in"),
        pytest.param(["j", "\r", "\x1b"], View(line=1), id="and-back"),
        pytest.param(["s", "s", "s"], View(sort="name"), id="sort"),
        pytest.param(["s"] * 4, View(), id="all-sorts"),
        pytest.param(["q"], View(is_over=True), id="quit"),
        pytest.param(["x", "\x1b[C"], View(), id="nothing"),
    ],
)
def test_keys_change_the_view(keys: list[str], expected: View) -> None:
    """Each key does one thing, and none leads out of what is shown."""
    view = View()
    for key in keys:
        view = view.after(key, ["a", "b", "c"])
    assert view == expected


def test_without_a_terminal_the_screen_is_printed_once(argosy: Any) -> None:
    """Queues and clusters, as text or for programs."""
    shown = argosy("top")
    assert shown.code == 0
    assert re.search(r"^12\.5 of 64\.0 cores running, 0 jobs waiting$", shown.out, re.MULTILINE)
    assert re.search(r"^science +12\.5 +20\.0 +40\.0", shown.out, re.MULTILINE)
    assert re.search(r"^c1 +yes +no +3", shown.out, re.MULTILINE)
    assert "example.com/gpu weighs nothing: whoever holds it is not seen as using anything" in shown.out
    assert json.loads(argosy("top", "-o", "json").out)["shares"][0]["queue"] == "science"


def test_screen_is_cut_to_the_terminal_and_the_marked_queue_stays_in_sight() -> None:
    """No line goes on in the next, and those who mark the last of many queues see it."""
    rows = [f"queue-{number:03} {'x' * 90}" for number in range(50)]
    view = View(line=40)
    lines = ["sum", "", "QUEUE", *rows]
    lines[43] = click.style(lines[43], reverse=True)
    shown = fitted("\n".join([*lines, "", "CLUSTER"]), view, width=60, height=12).split("\n")
    assert len(shown) == 11
    assert shown[:3] == lines[:3]
    assert shown[-1] == click.style(rows[40][:60], reverse=True)
    assert max(len(click.unstyle(line)) for line in shown) == 60
    wide = fitted("\n".join(lines), View(), width=200, height=100)
    assert wide.split("\n") == lines


def test_keys_sort_look_in_and_lead_back_on_a_terminal_of_any_size(server: str, api: FakeApi) -> None:
    """As fast as they are typed; a terminal of another size is drawn anew at once, not after the interval."""
    job_id = "01890000-0000-7000-8000-000000abcdef"
    api.jobs[job_id] = job_pb2.Job(id=job_id, queue="science", job_set="s", state=job_pb2.JOB_STATE_QUEUED)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 200))
    command = [sys.executable, "-m", "argosy_cli", "top", "--interval", "600"]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "ARGOSY_SERVER": server, "COLUMNS": "200"},  # of a shell that set it once
        start_new_session=True,
    )
    with process, ExitStack() as stack:
        os.close(theirs)

        def read_until(awaited: str) -> str:
            text, end_s = "", time.monotonic() + 60
            while not re.search(awaited, text, re.DOTALL):
                assert time.monotonic() < end_s, text
                if select.select([ours], [], [], 1)[0]:
                    text += os.read(ours, 65_536).decode()
            return text

        stack.callback(process.kill)  # if something is not seen; else it has ended by then
        read_until("CLUSTER.*c1")
        os.write(ours, b"ss\r")
        looked_in = read_until(f"queue science\r\n.*{job_id[-6:]}.*the newest that waits")
        assert "no room" in looked_in  # as lists say it, not its turn
        os.write(ours, b"\x1b")
        read_until("CLUSTER.*c1")
        termios.tcsetwinsize(ours, (40, 30))
        os.kill(process.pid, signal.SIGWINCH)
        # Fifteen more for what marks a line; the widest of them has 68 columns.
        read_until(r"\x1b\[2J(?:[^\r\n]{0,45}\r\n)*CLUSTER[^\r\n]{0,23}\r\nc1")
        os.write(ours, b"sq")
        assert process.wait(timeout=60) == 0
    os.close(ours)


def test_on_a_terminal_it_ends_with_its_key_and_leaves_the_screen(server: str, api: FakeApi) -> None:
    """The screen is one of its own: what stood there before is back afterwards."""
    job_id = "01890000-0000-7000-8000-000000abcdef"
    api.jobs[job_id] = job_pb2.Job(id=job_id, queue="science", job_set="s", state=job_pb2.JOB_STATE_RUNNING)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "argosy_cli", "top", "--interval", "0.2"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "ARGOSY_SERVER": server},
    )
    os.close(theirs)
    text = ""
    end_s = time.monotonic() + 30
    for awaited, key in (("QUEUE", b"\r"), (f"queue science\r\n.*{job_id[-6:]}", b"q")):
        while not re.search(awaited, text, re.DOTALL) and time.monotonic() < end_s:
            if select.select([ours], [], [], 1)[0]:
                text += os.read(ours, 65_536).decode()
        os.write(ours, key)
    assert process.wait(timeout=20) == 0
    while select.select([ours], [], [], 0.2)[0]:
        try:
            text += os.read(ours, 65_536).decode()
        except OSError:  # the other end is closed and empty
            break
    os.close(ours)
    assert text.startswith("\x1b[?1049h")
    assert "\x1b[?1049l" in text

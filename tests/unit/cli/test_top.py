"""`argosy top`: what its keys do, and what it shows."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import Any

import pytest

from argosy.api.v1 import job_pb2
from argosy_cli.commands.top import View
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
    assert json.loads(argosy("top", "-o", "json").out)["shares"][0]["queue"] == "science"


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

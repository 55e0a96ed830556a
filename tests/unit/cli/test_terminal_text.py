"""What programs wrote is shown on a terminal, and does not command it."""

from __future__ import annotations

import os
import pty
import sys
from typing import Any

import pytest

from argosy_cli.output import TerminalText, show_error
from argosy_core.errors import InvalidRequest, NotFound, Resource
from argosy_testkit.fake_api import FakeApi

JOB_ID = "01890000-0000-7000-8000-00000000ffff"
HOSTILE = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\r50 %\n"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"plain\ttext\n"], "plain\ttext\n"),
        ([b"\x1b[1;38;5;9mbold", b"\x1b[0m"], "\x1b[1;38;5;9mbold\x1b[0m"),
        ([b"\x1b", b"[3", b"1mred"], "\x1b[31mred"),
        ([b"\x1b", b"]52;c;aGk=\x07"], "\\u001b]52;c;aGk=\\u0007"),
        ([b"\x1b[2", b"J\x08\x9b1m"], "\\u001b[2J\\u0008\ufffd1m"),
        ([b"\xc2", b"\x9b1m"], "\\u009b1m"),
        (["\u202eabc".encode()], "\\u202eabc"),
        ([b"50 %\r60 %\r"], "50 %\r60 %\r"),
        ([b"end \x1b[3"], "end \\u001b[3"),
        ([b"end \xe2\x82"], "end \ufffd"),
        ([b"\x1b[" + b"1" * 100 + b"m"], "\\u001b[" + "1" * 100 + "m"),
    ],
)
def test_terminal_gets_colours_and_sees_the_rest(pieces: list[bytes], text: str) -> None:
    """Whatever the pieces, a colour passes whole and any other escape sequence is shown."""
    reader = TerminalText()
    read = [reader.read(piece) for piece in pieces]
    assert "".join([*read, reader.read(b"", is_last=True)]) == text


@pytest.mark.parametrize(("flags", "is_shown"), [((), True), (("--raw",), False)])
def test_logs_on_a_terminal_are_sent_as_they_are_only_if_asked(
    api: FakeApi,
    argosy: Any,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    *,
    is_shown: bool,
) -> None:
    """The default shows escape sequences and takes colours off at the end; --raw sends all."""
    api.log_pieces = [HOSTILE[:3], HOSTILE[3:]]
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        argosy("logs", JOB_ID, *flags)
        terminal.flush()
        shown = b"\\u001b]0;owned\\u0007\\u001b[2J\x1b[31mred\x1b[0m\r50 %\n\x1b[0m"
        expected = shown if is_shown else HOSTILE
        sent = b""
        while len(sent) < len(expected):  # a terminal hands on what was written in pieces of its own
            sent += os.read(ours, 4096).replace(b"\r\n", b"\n")
    os.close(ours)
    assert sent == expected


def test_what_does_not_exist_is_told_with_what_lists_its_like(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped name is found in a list; a message that says so itself is left alone."""
    show_error(NotFound("there is no queue a", resource=Resource(kind="Queue", name="a")))
    show_error(NotFound("no such job; `argosy jobs` lists them", resource=Resource(kind="Job", name="a")))
    show_error(InvalidRequest("no", resource=Resource(kind="Queue", name="a")))
    assert capsys.readouterr().err.splitlines() == [
        "error: there is no queue a; `argosy queue list` lists them",
        "error: no such job; `argosy jobs` lists them",
        "error: no",
    ]

"""Calls that log, read as syntax trees, against the page that says what stands in logs."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "telemetry.md"
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"_log", "log", "get_logger"}
BINDERS = {"get_logger", "bind_contextvars"}
RENDERED = {"exc_info": "exception"}
"""Keys that are written under another name."""
NAMES = re.compile(rf"\b(?:{'|'.join(sorted(LOGGERS | BINDERS))})\b")
"""One of these stands in each file that has a call that logs; most files, and nearly all generated ones, have none."""


def name_of(function: ast.expr) -> str:
    """Return the last word of what is called; of a chain of calls, of the first one."""
    name = ""
    while True:
        match function:
            case ast.Call():
                name, function = "", function.func
            case ast.Attribute():
                name, function = name or function.attr, function.value
            case ast.Name():
                return name or function.id
            case _:
                return name


def log_calls() -> tuple[list[str], set[str]]:
    """Return messages that are no constants, by file and line, and all keys."""
    varying: list[str] = []
    keys: set[str] = set()
    for path in sorted([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]):
        text = path.read_text(encoding="utf-8")
        if not NAMES.search(text):
            continue  # to parse all files would take four times as long
        for call in ast.walk(ast.parse(text)):
            if not isinstance(call, ast.Call):
                continue
            function = call.func
            says = (
                isinstance(function, ast.Attribute) and function.attr in METHODS and name_of(function.value) in LOGGERS
            )
            if says and not (len(call.args) == 1 and isinstance(call.args[0], ast.Constant)):
                varying.append(f"{path.name}:{call.lineno}")
            if says or name_of(function) in BINDERS:
                keys |= {RENDERED.get(word.arg, word.arg) for word in call.keywords if word.arg}
    return varying, keys


def test_messages_are_constants_and_keys_are_those_of_the_page() -> None:
    """Whoever searches logs finds a message by its text, and a thing under its one key."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Logs\n")[2].partition("\n## ")[0]
    table = re.findall(r"^\| (`.*?`) \|", section, flags=re.MULTILINE)
    on_page = {key for cell in table for key in re.findall(r"`(\w+)`", cell)}
    varying, keys = log_calls()
    assert varying == []
    assert len(keys) > 20
    assert keys - {"service", "exception"} == on_page

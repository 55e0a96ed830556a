"""What commands print: tables for people, JSON, YAML and JSON lines for programs.

Tables are plain aligned columns, so that they can be cut and searched; colour only on a terminal.

Source: design section 9.
"""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import click

from argosy_cli.exits import Declined
from argosy_cli.json_form import to_plain
from argosy_cli.options import Settings
from argosy_core.errors import ArgosyError, NotFound

__all__ = [
    "Column",
    "TerminalText",
    "age_text",
    "amount_text",
    "ask",
    "part_text",
    "print_one",
    "print_rows",
    "print_value",
    "show_error",
    "shown",
    "state_text",
    "table_text",
    "time_text",
]

Row = TypeVar("Row")

_STATE_COLOURS: Final = {
    "running": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "lost": "red",
    "unknown": "red",
}
_GAP: Final = "  "
_LISTERS: Final = {"Queue": "argosy queue list", "Cluster": "argosy cluster list", "Job": "argosy jobs"}
_HIDDEN: Final = re.compile(
    "(?P<colour>\x1b\\[(?:3[0-7]|0)m)"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal would obey rather than show: all but tabs, ends of lines, and the colours of `state_text`."""
_HIDDEN_IN_LOGS: Final = re.compile(
    "(?P<colour>\x1b\\[[0-9;:]{0,40}m)"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BEGUN_COLOUR: Final = re.compile("\x1b(?:\\[[0-9;:]{0,40})?$")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table."""

    title: str
    """Heading, upper case."""
    text: Callable[[Row], str]
    """Text of a row; may carry colour."""
    wide: bool = False
    """Only with `-o wide`."""
    right: bool = False
    """Numbers stand to the right."""


def print_rows(
    settings: Settings, rows: Iterable[Row], columns: Sequence[Column[Row]], *, empty: str, is_paged: bool = False
) -> None:
    """Print values in the form the settings say.

    Args:
        settings: The form.
        rows: Values; with jsonl each is printed as it comes.
        columns: Columns of tables; the other forms print all fields.
        empty: Said on the standard error if there is nothing to put in a table.
        is_paged: Show a table that is longer than the terminal in the user's pager.
    """
    if settings.output == "jsonl":
        for row in rows:
            click.echo(shown(json.dumps(to_plain(row), ensure_ascii=False)))
        return
    listed = list(rows)
    if not settings.is_table:
        print_value(settings, listed)
        return
    if not listed:
        click.echo(empty, err=True)
        return
    kept = [column for column in columns if settings.output == "wide" or not column.wide]
    text = table_text(kept, listed)
    if is_paged and sys.stdout.isatty() and len(listed) >= shutil.get_terminal_size().lines:
        click.echo_via_pager(text + "\n")
    else:
        click.echo(text)


def print_one(settings: Settings, value: object, lines: Iterable[tuple[str, str]]) -> None:
    """Print one value: as `name: text` lines for people, whole otherwise."""
    if not settings.is_table:
        print_value(settings, value)
        return
    pairs = [(name, text) for name, text in lines if text]
    width = max((len(name) for name, _ in pairs), default=0) + 1
    for name, text in pairs:
        first, *rest = shown(text).splitlines() or [""]
        click.echo(f"{name + ':':<{width}} {first}")
        for line in rest:
            click.echo(" " * (width + 1) + line)


def print_value(settings: Settings, value: object) -> None:
    """Print any value as JSON, JSON lines or YAML."""
    plain = to_plain(value)
    if settings.output == "jsonl":
        for item in plain if isinstance(plain, list) else [plain]:
            click.echo(shown(json.dumps(item, ensure_ascii=False)))
    elif settings.output == "yaml":
        import yaml

        click.echo(shown(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)), nl=False)
    else:
        click.echo(shown(json.dumps(plain, indent=2, ensure_ascii=False)))


def ask(question: str) -> None:
    """Return if somebody at the terminal says yes.

    Raises:
        Declined: They say no.
    """
    if not click.confirm(question, err=True):
        raise Declined


def show_error(error: ArgosyError) -> None:
    """Say on the standard error what went wrong, with everything that was wrong with a request."""
    click.echo(f"{click.style('error:', fg='red')} {shown(error.message)}{_hint(error)}", err=True)
    for violation in error.violations:
        if violation.description not in error.message:
            click.echo(shown(f"  {violation.field}: {violation.description}"), err=True)


def _hint(error: ArgosyError) -> str:
    """Return what lists the things of which one was named that does not exist; empty if the message says it."""
    lister = _LISTERS.get(error.resource.kind) if isinstance(error, NotFound) and error.resource is not None else None
    return f"; `{lister}` lists them" if lister is not None and "`argosy" not in error.message else ""


def shown(text: str) -> str:
    """Return a text as a terminal may get it: what it would obey stands as an escape, colours, tabs and lines apart."""
    return _HIDDEN.sub(lambda found: found["colour"] or f"\\u{ord(found[0]):04x}", text)


class TerminalText:
    """Bytes of a program, in pieces, as text that a terminal may get.

    Colours pass, since logs are full of them, and so do returns to the line's begin, with which progress is shown; what
    else a terminal would obey (moves, titles, the clipboard, other screens) is shown as an escape, as `less -R` does.
    """

    def __init__(self) -> None:
        """Start with nothing held back."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def read(self, piece: bytes, *, is_last: bool = False) -> str:
        """Return what a piece adds; the begin of a colour is held back until the next piece shows its end."""
        text = self._held + self._decoder.decode(piece, is_last)
        begun = None if is_last else _BEGUN_COLOUR.search(text)
        self._held = text[begun.start() :] if begun else ""
        end = len(text) - len(self._held)
        return _HIDDEN_IN_LOGS.sub(lambda found: found["colour"] or f"\\u{ord(found[0]):04x}", text[:end])


def state_text(state: str) -> str:
    """Return a state in its colour; the colour is taken off again where the output is no terminal."""
    colour = _STATE_COLOURS.get(state)
    return click.style(state, fg=colour) if colour else state


def age_text(time: datetime | None, *, now: datetime | None = None) -> str:
    """Return how long ago something was, as `12s`, `5m`, `3h` or `2d`; `-` if never."""
    if time is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - time).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_text(time: datetime | None) -> str:
    """Return a moment for people, in their time zone and to the second; empty for none."""
    return "" if time is None else time.astimezone().isoformat(sep=" ", timespec="seconds")


def cordon_text(*, cordoned: bool, reason: str) -> str:
    """Return whether something is cordoned, and why."""
    return ("yes" + f" ({reason})" * bool(reason)) if cordoned else "no"


def part_text(ratio: float) -> str:
    """Return a part of a whole for people, as 62% or 0.125%."""
    return f"{100 * ratio:.3g}%" if ratio < 9.995 else f"{100 * ratio:,.0f}%"


def pool_part_text(cores: float | None, capacity_cores: float | None) -> str:
    """Return a part of a pool for people; a dash where one of both is not known, or the pool has nothing."""
    return part_text(cores / capacity_cores) if capacity_cores and cores is not None else "-"


def weightless_text(resources: Sequence[str]) -> str:
    """Return what stands beside shares of a pool that has something which weighs nothing."""
    verb = "weighs" if len(resources) == 1 else "weigh"
    return f"{' and '.join(resources)} {verb} nothing: whoever holds it is not seen as using anything"


def known_text(amount: float | None, *, digits: int = 1) -> str:
    """Return an amount for people; a dash where it is not known."""
    return "-" if amount is None else f"{amount:,.{digits}f}"


def amount_text(resource: str, amount: int) -> str:
    """Return an amount in base units for people: cores for cpu, binary units for memory and storage."""
    if resource == "cpu":
        return f"{amount / 1000:.10g}"
    if resource == "memory" or "storage" in resource or resource.startswith("hugepages"):
        for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if abs(amount) >= size:
                return f"{amount / size:.4g}{unit}"
    return str(amount)


def table_text(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """Return a table with a heading, of all given columns."""
    cells = [[shown(column.text(row)).replace("\n", " ") for column in columns] for row in rows]
    widths = [
        max([len(column.title), *(len(click.unstyle(line[index])) for line in cells)])
        for index, column in enumerate(columns)
    ]
    lines = [_line_text([column.title for column in columns], columns, widths)]
    lines += [_line_text(line, columns, widths) for line in cells]
    return "\n".join(lines)


def _line_text(cells: Sequence[str], columns: Sequence[Column[Row]], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - len(click.unstyle(cell)))
        padded.append(space + cell if column.right else cell + space)
    return _GAP.join(padded).rstrip()

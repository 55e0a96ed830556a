"""Options that every command takes, and what they lead to: form of output, server, home.

Source: design section 9, "`-o table|wide|json|yaml|jsonl` everywhere".
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click

from argosy_core.errors import InvalidRequest

__all__ = [
    "OUTPUT_FORMS",
    "FiniteRange",
    "Settings",
    "common_options",
    "duration",
    "event_log_options",
    "global_options",
    "new_secret_file",
    "output_options",
    "read_amounts",
    "settings_of",
]

OUTPUT_FORMS: Final = ("table", "wide", "json", "yaml", "jsonl")
"""Forms of output."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A range of numbers, of which `nan` and `inf` are none; they pass every comparison, or bound nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's signature
        """Return the number.

        Raises:
            BadParameter: It is not finite, or out of the range.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def duration(text: str) -> int:
    """Return a duration, as `90s`, `1h30m` or `7d`, in whole seconds: the type of an option.

    Raises:
        BadParameter: It is no duration.
    """
    from argosy_client.durations import parse_duration_s

    try:
        return parse_duration_s(text)
    except InvalidRequest as error:
        raise click.BadParameter(error.message) from error


def read_amounts(texts: Sequence[str], *, option: str) -> dict[str, int]:
    """Return amounts by resource, base units, of an option's values, `RESOURCE=AMOUNT` each or several with commas.

    Raises:
        click.UsageError: One cannot be read.
    """
    from argosy_core.resources import parse_quantity

    amounts: dict[str, int] = {}
    for text in (part for value in texts for part in value.split(",")):
        name, _, amount = text.partition("=")
        try:
            amounts[name] = parse_quantity(name, amount)
        except InvalidRequest as cause:
            raise click.UsageError(f"{option} {text!r} is no RESOURCE=AMOUNT: {cause}") from cause
    return amounts


def new_secret_file(context: click.Context, path: Path) -> IO[str]:
    """Return a new file that is the user's alone (mode 0600), for a secret.

    Raises:
        UsageError: There is a file by that name.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; name a new file.", context) from None
    return os.fdopen(descriptor, "w", encoding="ascii")


def _default_home() -> Path:
    return Path(os.environ.get("ARGOSY_HOME") or "~/.argosy").expanduser()


@dataclass(slots=True, kw_only=True)
class Settings:
    """What the global options say."""

    output: str = "table"
    """One of `OUTPUT_FORMS`."""
    server: str = field(default_factory=lambda: os.environ.get("ARGOSY_SERVER", ""))
    """host:port of the API; empty for that of the mesh in `home`, or else of this machine's default port."""
    home: Path = field(default_factory=_default_home)
    """Where `argosy up` keeps its mesh."""
    timeout_s: float = 10.0
    """How long to try to reach the server, seconds."""

    @property
    def mesh_directory(self) -> Path:
        """Directory of the mesh that `argosy up` starts."""
        return self.home / "mesh"

    @property
    def is_table(self) -> bool:
        """Whether the output is for people."""
        return self.output in {"table", "wide"}


def settings_of(context: click.Context) -> Settings:
    """Return the settings of a command line."""
    return context.find_root().ensure_object(Settings)


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def remember(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        if value is not None:
            setattr(settings_of(context), name, value)

    return remember


def global_options(function: _Function) -> _Function:
    """Add the global options to the root command."""
    for option in (
        click.option(
            "--home",
            type=click.Path(file_okay=False, path_type=Path),
            expose_value=False,
            callback=_set("home"),
            help="Where `argosy up` keeps its mesh.",
        ),
    ):
        function = option(function)
    return common_options(function)


def event_log_options(function: _Function) -> _Function:
    """Add the options of commands that start a mesh: where its event log is."""
    for option in (
        click.option(
            "--event-log-admin",
            default="",
            metavar="URL",
            help="Admin API of these brokers, as in http://127.0.0.1:8080; else the usual port.",
        ),
        click.option(
            "--event-log",
            default="",
            metavar="URL",
            help="Brokers of the event log, as in pulsar://127.0.0.1:6650; else the log is kept in the database.",
        ),
    ):
        function = option(function)
    return function


def output_options(function: _Function) -> _Function:
    """Add the options that stand behind a command that talks to no server of the user's choice."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(OUTPUT_FORMS),
        expose_value=False,
        callback=_set("output"),
        help="Form of the output.",
    )
    return option(function)


def common_options(function: _Function) -> _Function:
    """Add the options that stand behind any command of a server, too."""
    for option in (
        click.option(
            "--timeout",
            type=FiniteRange(0, 86400),
            expose_value=False,
            callback=_set("timeout_s"),
            metavar="SECONDS",
            help="How long to try to reach the server.",
        ),
        click.option(
            "--server",
            expose_value=False,
            callback=_set("server"),
            metavar="HOST:PORT",
            help="API server; else ARGOSY_SERVER, else that of the context in use, else the mesh of `argosy up`, else"
            " what listens at 127.0.0.1:50051.",
        ),
    ):
        function = option(function)
    return output_options(function)

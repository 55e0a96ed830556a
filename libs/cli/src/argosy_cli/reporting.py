"""Reports of replays and simulations on the standard output.

Source: design section 9; `argosy_workload.report`.
"""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from argosy_cli.options import Settings
from argosy_cli.output import print_value

if TYPE_CHECKING:
    from argosy_workload.report import Report

__all__ = ["made_by", "print_report"]


def made_by() -> dict[str, str]:
    """Return the command, its version and the date, as a report's settings."""
    command = " ".join(["argosy", *(shlex.quote(argument) for argument in sys.argv[1:])])
    return {
        "command": command[:500],
        "version": version("argosy-cli"),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def print_report(settings: Settings, report: Report) -> None:
    """Print a report: text for people, whole for programs."""
    from argosy_workload.rendering import report_to_json, report_to_text

    if settings.is_table:
        click.echo(report_to_text(report), nl=False)
    elif settings.output == "json":
        click.echo(report_to_json(report), nl=False)
    else:
        print_value(settings, json.loads(report_to_json(report)))

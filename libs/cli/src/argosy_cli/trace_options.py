"""Options that say which trace is meant: the fields of `argosy_local.node_files.TraceChoice`.

Source: design section 9, "replay", "simulate".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

__all__ = ["ESTIMATES", "FORMATS", "format_option", "trace_options"]

FORMATS: Final = ("swf", "openb-pods", "philly", "surf", "native", "profile")
"""What `argosy_workload.traces` reads jobs from, which is too slow to import for --help; a test holds them equal."""

ESTIMATES: Final = ("user", "exact", "none")
"""What `argosy_workload.model.estimate` knows, which is too slow to import for --help; a test holds them equal."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


format_option = click.option(
    "--format",
    "trace_format",
    type=click.Choice(FORMATS),
    help="Format of the trace; found out from its text if not given.",
)


def trace_options(function: _Function) -> _Function:
    """Add --nodes, --clusters, --jobs, --seed, --queue-by, --estimates, --time-limits and --format to a command."""
    for option in (
        format_option,
        click.option(
            "--queue-by",
            type=click.Choice(["auto", "queue", "user"]),
            default="auto",
            help="What is the queue of an SWF job.",
        ),
        click.option(
            "--estimates",
            type=click.Choice(ESTIMATES),
            default="user",
            show_default=True,
            help="Estimate of a job: the time that its user asked for, where the trace has it, or its run time.",
        ),
        click.option(
            "--time-limits", is_flag=True, help="Estimates are time limits, too: a job that runs longer is stopped."
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Source of all chance."),
        click.option("--jobs", "job_limit", type=click.IntRange(1), help="Only the first so many jobs."),
        click.option(
            "--clusters", type=click.IntRange(1, 100), default=3, show_default=True, help="Clusters to deal nodes to."
        ),
        click.option(
            "--nodes",
            default="",
            help="Node list, or 4x32cpu,128Gi, or 4:cpu=32,memory=128Gi; else as the trace says, or guessed from it.",
        ),
    ):
        function = option(function)
    return function

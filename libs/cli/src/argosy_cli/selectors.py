"""Options that select jobs, shared by lists and change requests.

Source: proto/argosy/api/v1/job.proto, JobSelector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from argosy_client import JobSelector

__all__ = ["ACTIVE_STATES", "JOB_STATE_NAMES", "make_selector", "selector_options"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

JOB_STATE_NAMES: Final = ("queued", "leased", "running", "succeeded", "failed", "cancelled")
"""States of a job; a test holds them equal to the client's, which is too slow to import for --help."""


ACTIVE_STATES: Final = ("leased", "queued", "running")
"""Those of jobs that have not ended."""


def selector_options(function: _Function) -> _Function:
    """Add --queue, --job-set, --state and --selector to a command."""
    for option in (
        click.option(
            "-l", "--selector", "label_selector", default="", help="Label selector, as in team=tides,env!=test."
        ),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice((*JOB_STATE_NAMES, "active")),
            help="State, or `active` for those of jobs that have not ended; may be repeated.",
        ),
        click.option("--job-set", default="", help="Job set."),
        click.option("--queue", default="", help="Queue."),
    ):
        function = option(function)
    return function


def make_selector(queue: str, job_set: str, states: tuple[str, ...], label_selector: str) -> JobSelector:
    """Return the selector of the options."""
    from argosy_client import JobSelector

    named = tuple(dict.fromkeys(state for one in states for state in (ACTIVE_STATES if one == "active" else (one,))))
    return JobSelector(queue=queue, job_set=job_set, states=named, label_selector=label_selector)

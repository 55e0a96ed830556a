"""Options that select jobs, shared by lists and change requests.

Source: proto/argosy/api/v1/job.proto, JobSelector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from argosy_cli.job_ids import whole_id
from argosy_core.job.reading.families import PARENT_LABEL

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, JobSelector

__all__ = [
    "ACTIVE_STATES",
    "JOB_STATE_NAMES",
    "list_selector_options",
    "make_selector",
    "selector_options",
    "with_parent",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

JOB_STATE_NAMES: Final = ("queued", "leased", "running", "succeeded", "failed", "cancelled")
"""States of a job; a test holds them equal to the client's, which is too slow to import for --help."""


ACTIVE_STATES: Final = ("leased", "queued", "running")
"""Those of jobs that have not ended."""


def selector_options(function: _Function) -> _Function:
    """Add --queue, --job-set, --state, --selector and --parent to a command."""
    return _selecting(
        function, (*JOB_STATE_NAMES, "active"), "State, or `active` for those of jobs that have not ended"
    )


def list_selector_options(function: _Function) -> _Function:
    """Add the same to a command that looks at each job, and so knows `pending`: a stage, which rounds change."""
    text = "State; `active` for those of jobs that have not ended, `pending` for queued jobs whose turn it is"
    return _selecting(function, (*JOB_STATE_NAMES, "active", "pending"), text)


def _selecting(function: _Function, states: tuple[str, ...], states_text: str) -> _Function:
    for option in (
        click.option("--parent", default="", metavar="JOB_ID", help="Only jobs that this one submitted."),
        click.option(
            "-l", "--selector", "label_selector", default="", help="Label selector, as in team=tides,env!=test."
        ),
        click.option(
            "--state", "states", multiple=True, type=click.Choice(states), help=f"{states_text}; may be repeated."
        ),
        click.option("--job-set", default="", help="Job set."),
        click.option("--queue", default="", help="Queue."),
    ):
        function = option(function)
    return function


async def with_parent(client: ArgosyClient, selector: JobSelector, parent: str) -> JobSelector:
    """Return a selector that means children of a job only, named by its id or the end of that; as it is without one."""
    if not parent:
        return selector
    of_parent = f"{PARENT_LABEL}={await whole_id(client, parent)}"
    return replace(selector, label_selector=",".join(filter(None, (selector.label_selector, of_parent))))


def make_selector(queue: str, job_set: str, states: tuple[str, ...], label_selector: str) -> JobSelector:
    """Return the selector of the options."""
    from argosy_client import JobSelector

    named = tuple(dict.fromkeys(state for one in states for state in (ACTIVE_STATES if one == "active" else (one,))))
    return JobSelector(queue=queue, job_set=job_set, states=named, label_selector=label_selector)

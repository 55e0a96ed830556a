"""`argosy job-set`: the named groups of a queue's jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from argosy_cli.commands.jobs import say_failures
from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, print_rows
from argosy_cli.selectors import JOB_STATE_NAMES, make_selector
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Job, JobSet

__all__ = ["job_set"]

_MOST_FAILED = 1000


@click.group("job-set")
def job_set() -> None:
    """Show job sets."""


@job_set.command("list")
@click.argument("queue", default="")
@common_options
@click.pass_context
def list_job_sets(context: click.Context, *, queue: str) -> None:
    """List the job sets of QUEUE, or of all queues, with their jobs by state."""

    async def fetch(client: ArgosyClient) -> list[JobSet]:
        names = [queue] if queue else [one.name async for one in client.list_queues()]
        return [one for name in names async for one in client.list_job_sets(name, count_states=True)]

    settings = settings_of(context)
    columns: list[Column[JobSet]] = [Column("QUEUE", lambda s: s.queue), Column("JOB SET", lambda s: s.name)]
    columns += [_state_column(state) for state in JOB_STATE_NAMES]
    columns.append(Column("LAST EVENT", lambda s: str(s.last_event_number), right=True, wide=True))
    print_rows(settings, call(settings, fetch), columns, empty="no job sets", is_paged=True)


@job_set.command("get")
@click.argument("queue")
@click.argument("name")
@common_options
@click.pass_context
def get_job_set(context: click.Context, *, queue: str, name: str) -> None:
    """Show how many jobs of the job set NAME of QUEUE are in each state, and why some failed."""

    async def fetch(client: ArgosyClient) -> tuple[list[JobSet], list[Job]]:
        found = [one async for one in client.list_job_sets(queue, count_states=True) if one.name == name]
        failed: list[Job] = []
        async for job in client.list_jobs(make_selector(queue, name, ("failed",), ""), newest_first=True):
            failed.append(job)
            if len(failed) == _MOST_FAILED:
                break
        return found, failed

    settings = settings_of(context)
    found, failed = call(settings, fetch)
    if not found:
        raise NotFound(f"queue {queue} has no job set {name}; `argosy job-set list {queue}` lists them")
    columns: list[Column[JobSet]] = [Column("JOB SET", lambda s: s.name)]
    print_rows(settings, found, columns + [_state_column(state) for state in JOB_STATE_NAMES], empty="")
    if settings.is_table:
        say_failures(failed)


def _state_column(state: str) -> Column[JobSet]:
    return Column(state.upper(), lambda s: str(s.state_counts.get(state, 0)), right=True)

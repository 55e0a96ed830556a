"""`argosy watch`: follow a job set."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from argosy_cli.exits import exit_code_of_jobs
from argosy_cli.json_form import to_plain
from argosy_cli.options import Settings, common_options, settings_of
from argosy_cli.output import print_value, shown, state_text, time_text
from argosy_cli.progress import CountsDisplay
from argosy_cli.selectors import JOB_STATE_NAMES
from argosy_cli.session import call
from argosy_core.job.identity import short_id

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, JobEvent

__all__ = ["follow", "watch"]


@click.command()
@click.argument("queue")
@click.argument("job_set")
@click.option("--cursor", default="", help="Go on where an interrupted watch ended.")
@click.option("--events", is_flag=True, help="Print every event, not only the counts.")
@click.option("--forever", is_flag=True, help="Go on after all jobs have ended.")
@common_options
@click.pass_context
def watch(context: click.Context, *, queue: str, job_set: str, cursor: str, events: bool, forever: bool) -> int:
    """Follow the job set JOB_SET of QUEUE until all its jobs ended.

    On a terminal, a live bar shows the jobs of each state. Ends with exit code 5 if a job failed or was cancelled. An
    interrupt prints the cursor at which `--cursor` goes on.
    """
    return follow(settings_of(context), queue, job_set, cursor=cursor, events=events, forever=forever)


def follow(
    settings: Settings, queue: str, job_set: str, *, cursor: str, events: bool = False, forever: bool = False
) -> int:
    """Follow a job set and return the exit code: JOBS_FAILED if a job failed or was cancelled.

    Args:
        settings: Form of output; other forms than tables print every event.
        queue: Queue.
        job_set: Job set.
        cursor: Where to begin.
        events: Print every event.
        forever: Go on after all jobs have ended.
    """
    shows_events = events or not settings.is_table
    last_cursor = cursor
    counts: Mapping[str, int] = {}

    async def run(client: ArgosyClient) -> None:
        nonlocal last_cursor, counts
        with CountsDisplay(f"{queue}/{job_set}", live=not shows_events) as display:
            stream = client.watch(queue, job_set, cursor=cursor, until_finished=not forever)
            async for batch in stream:
                for event in batch.events if shows_events else ():
                    _print_event(settings, event)
                last_cursor, counts = batch.cursor, batch.state_counts
                display.update(counts)

    try:
        call(settings, run)
    except KeyboardInterrupt:
        if last_cursor:
            click.echo(f"go on with: argosy watch {queue} {job_set} --cursor {last_cursor}", err=True)
        raise
    if settings.is_table:
        parts = [f"{counts[state]} {state_text(state)}" for state in JOB_STATE_NAMES if counts.get(state)]
        click.echo(", ".join(parts) or "no jobs")
    return exit_code_of_jobs(counts)


def _member_text(event: JobEvent) -> str:
    """Return which member of a run an event is about."""
    return f"member {event.member}" + (f", replacement {event.replacement}" if event.replacement else "")


def _print_event(settings: Settings, event: JobEvent) -> None:
    if settings.output == "json":
        print_value(Settings(output="jsonl"), event)  # a stream has no end to close a list at
    elif settings.output == "yaml":
        click.echo("---")
        print_value(settings, event)
    elif settings.output == "jsonl":
        print_value(settings, to_plain(event))
    else:
        where = f" on {event.cluster}/{event.node}" if event.cluster else ""
        where += f", {_member_text(event)}" if event.kind.startswith("member") else ""
        reason = f": {shown(event.reason)}" if event.reason else ""
        kind = state_text(event.kind.replace("_", " "))
        time = time_text(datetime.fromtimestamp(event.time_s, UTC))
        click.echo(f"{event.number:>8}  {time}  {short_id(event.job_id)}  {kind}{where}{reason}")
    sys.stdout.flush()

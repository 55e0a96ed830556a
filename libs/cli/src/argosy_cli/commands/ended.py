"""`argosy wait` and `argosy resubmit`: what comes after jobs."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from argosy_cli.commands.jobs import say_failures
from argosy_cli.exits import ExitCode, exit_code_of_jobs
from argosy_cli.job_ids import whole_ids
from argosy_cli.options import Settings, common_options, duration, settings_of
from argosy_cli.output import ask, print_value, state_text
from argosy_cli.selectors import JOB_STATE_NAMES, make_selector
from argosy_cli.session import call
from argosy_core.errors import DeadlineExceeded, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from argosy_client import ArgosyClient, Job, JobDraft

__all__ = ["ended_jobs", "report_ended", "resubmit", "wait"]

_ENDED: Final = ("succeeded", "failed", "cancelled")
_LOOK_S: Final = 0.5
_LONGEST_LOOK_S: Final = 5.0
_AT_ONCE: Final = 1000
"""Jobs that a server answers by their ids in one call."""


@click.command()
@click.argument("job_ids", nargs=-1)
@click.option("--queue", default="", help="Instead of ids: queue of the jobs.")
@click.option("--job-set", default="", help="Instead of ids: job set of the queue.")
@click.option(
    "--within", "within_s", type=duration, metavar="TIME", help="Give up after this time, with exit code 4; as in 90s."
)
@common_options
@click.pass_context
def wait(context: click.Context, *, job_ids: tuple[str, ...], queue: str, job_set: str, within_s: int | None) -> int:
    """Return when the jobs JOB_IDS, or those that a job set has now, have ended.

    Ends with exit code 5 if one of them failed or was cancelled.
    """
    if bool(job_ids) == bool(queue and job_set) or (job_ids and (queue or job_set)):
        raise click.UsageError("give job ids, or --queue and --job-set", context)
    settings = settings_of(context)
    asked: list[str] = []

    async def follow(client: ArgosyClient) -> list[Job]:
        ids = await whole_ids(client, job_ids)
        if not ids:
            ids = tuple([job.id async for job in client.list_jobs(make_selector(queue, job_set, (), ""))])
            if not ids:
                raise NotFound(
                    f"queue {queue} has no jobs in a job set {job_set}; `argosy job-set list` lists the sets"
                )
        asked.extend(ids)
        async with asyncio.timeout(within_s):
            return await ended_jobs(client, ids)

    try:
        jobs = call(settings, follow)
    except TimeoutError as cause:
        who = "the job has not" if len(asked) == 1 else f"not all of the {len(asked):,} jobs have"
        raise DeadlineExceeded(f"{who} ended within {within_s} s") from cause
    return report_ended(settings, jobs)


def report_ended(settings: Settings, jobs: list[Job]) -> ExitCode:
    """Say how jobs ended, and why some failed; return what to end with."""
    counts = Counter(job.state for job in jobs)
    if settings.is_table:
        click.echo(", ".join(f"{counts[state]} {state_text(state)}" for state in JOB_STATE_NAMES if counts[state]))
        say_failures(jobs)
    else:
        print_value(settings, jobs)
    return exit_code_of_jobs(counts)


async def ended_jobs(client: ArgosyClient, ids: Sequence[str]) -> list[Job]:
    """Return jobs once all have ended; looks less often the longer it takes.

    Raises:
        NotFound: There is no such job.
    """
    ended: dict[str, Job] = {}
    pause_s = _LOOK_S
    while True:
        open_ids = [job_id for job_id in ids if job_id not in ended]
        for start in range(0, len(open_ids), _AT_ONCE):
            found, unknown = await client.get_jobs(open_ids[start : start + _AT_ONCE])
            if unknown:
                raise NotFound(f"there is no job {unknown[0]}")
            ended |= {job.id: job for job in found if job.state in _ENDED}
        if len(ended) == len(set(ids)):
            return [ended[job_id] for job_id in dict.fromkeys(ids)]
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.2, _LONGEST_LOOK_S)


@click.command()
@click.argument("job_ids", nargs=-1)
@click.option("--failed", is_flag=True, help="Instead of ids: the jobs of --queue and --job-set that failed.")
@click.option("--queue", default="", help="Queue of the failed jobs.")
@click.option("--job-set", default="", help="Only failed jobs of this job set.")
@click.option("--dry-run", is_flag=True, help="Say how many are meant, submit none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def resubmit(
    context: click.Context,
    /,
    *,
    job_ids: tuple[str, ...],
    failed: bool,
    queue: str,
    job_set: str,
    **flags: bool,
) -> int:
    """Submit the jobs JOB_IDS, or those that failed (--failed), again: same manifests, priority and labels.

    A job is submitted again once, however often the command is repeated: what becomes of it then can be submitted
    again in its turn.
    """
    if bool(job_ids) == failed or (failed and not queue) or (job_ids and (queue or job_set)):
        raise click.UsageError("give job ids, or --failed with --queue", context)
    settings = settings_of(context)

    async def find(client: ArgosyClient) -> tuple[str, ...]:
        if job_ids:
            return await whole_ids(client, job_ids)
        selected = client.list_jobs(make_selector(queue, job_set, ("failed",), ""))
        return tuple([job.id async for job in selected])

    ids = call(settings, find)
    what = f"{len(ids)} job{'' if len(ids) == 1 else 's'}"
    if flags["dry_run"] or not ids:
        click.echo(f"would submit {what} again")
        return ExitCode.OK
    if failed and not flags["yes"]:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this would submit {what} again; confirm with -y, or look with --dry-run", context)
        ask(f"submit {what} again?")

    async def send(client: ArgosyClient) -> list[tuple[str, bool]]:
        from argosy_client.batches import split_drafts

        drafts = [_draft_of(await client.get_job(job_id)) for job_id in ids]
        answers = [await client.submit_checked(part, validation="ignore") for part in split_drafts(drafts)]
        return [(job_id, at in answer.existing) for answer in answers for at, job_id in enumerate(answer.job_ids)]

    _print_made(settings, call(settings, send))
    return ExitCode.OK


def _print_made(settings: Settings, made: list[tuple[str, bool]]) -> None:
    """Say which jobs were submitted again, and of how many that had been done before."""
    if not settings.is_table:
        print_value(settings, [{"id": job_id, "alreadyExisted": existed} for job_id, existed in made])
        return
    if len(made) == 1:
        click.echo(made[0][0])
    else:
        click.echo(f"{len(made):,} jobs accepted; first {made[0][0]}, last {made[-1][0]}")
    existing_count = sum(existed for _, existed in made)
    if existing_count:
        which = "it was" if len(made) == 1 else f"{existing_count:,} of them were"
        click.echo(f"{which} submitted again already, and not once more", err=True)


def _draft_of(job: Job) -> JobDraft:
    """Return what submits a job again, under an id that makes it one job however often it is sent."""
    from argosy_client import JobDraft

    return JobDraft(
        queue=job.queue,
        job_set=job.job_set,
        manifests=job.manifests,
        groups=job.groups,
        retry=job.retry,
        priority=job.priority,
        client_id=f"again-{job.id}",
        labels=job.labels,
        annotations=job.annotations,
        lifetime_s=job.lifetime_s,
        time_limit_s=job.time_limit_s,
        estimate_s=job.estimate_s,
        job_set_limit=job.job_set_limit,
    )

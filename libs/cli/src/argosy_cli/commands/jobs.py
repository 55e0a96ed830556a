"""`argosy jobs`: list jobs, or show one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from argosy_cli.options import Settings, common_options, settings_of
from argosy_cli.output import Column, age_text, print_one, print_rows, state_text
from argosy_cli.selectors import make_selector, selector_options
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Job

__all__ = ["job_columns", "jobs"]


@click.command()
@click.argument("job_id", required=False)
@selector_options
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Most jobs to list.")
@common_options
@click.pass_context
def jobs(
    context: click.Context,
    *,
    job_id: str | None,
    queue: str,
    job_set: str,
    states: tuple[str, ...],
    label_selector: str,
    limit: int,
) -> None:
    """List jobs by selector, in submit order, or show the job JOB_ID with its runs."""
    settings = settings_of(context)
    if job_id:
        if queue or job_set or states or label_selector:
            raise click.UsageError("give a job id or a selector, not both", context)
        _print(settings, call(settings, lambda client: client.get_job(job_id)))
        return
    if not queue:
        raise click.UsageError("give a job id, or at least --queue", context)
    selector = make_selector(queue, job_set, states, label_selector)

    async def fetch(client: ArgosyClient) -> list[Job]:
        found: list[Job] = []
        async for job in client.list_jobs(selector, page_size=min(limit + 1, 1000)):
            found.append(job)
            if len(found) > limit:
                break
        return found

    found = call(settings, fetch)
    print_rows(settings, found[:limit], job_columns(), empty="no such jobs")
    if len(found) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)


def job_columns() -> list[Column[Job]]:
    """Return the columns of a table of jobs."""
    return [
        Column("ID", lambda j: j.id),
        Column("QUEUE", lambda j: j.queue, wide=True),
        Column("JOB SET", lambda j: j.job_set),
        Column("STATE", lambda j: state_text(j.state) + (" (cancel asked)" if _is_ending(j) else "")),
        Column("PRIORITY", lambda j: str(j.priority), right=True),
        Column("CLUSTER", lambda j: j.runs[-1].cluster if j.runs else "-"),
        Column("NODE", lambda j: j.runs[-1].node if j.runs else "-", wide=True),
        Column("ATTEMPT", lambda j: str(j.runs[-1].attempt) if j.runs else "-", wide=True, right=True),
        Column("LIFETIME", lambda j: _duration_text(j.lifetime_s) or "-", wide=True, right=True),
        Column("TIME LIMIT", lambda j: _duration_text(j.time_limit_s) or "-", wide=True, right=True),
        Column("ESTIMATE", lambda j: _duration_text(j.estimate_s) or "-", wide=True, right=True),
        Column("CLIENT ID", lambda j: j.client_id or "-", wide=True),
        Column("AGE", lambda j: age_text(j.create_time), right=True),
        Column("REASON", lambda j: j.reason, wide=True),
    ]


def _duration_text(seconds: int | None) -> str:
    """Return a duration for people, empty for none."""
    from argosy_client.durations import duration_text

    return "" if seconds is None else duration_text(seconds)


def _is_ending(job: Job) -> bool:
    return job.cancel_requested and job.state in {"queued", "leased", "running"}


def _print(settings: Settings, job: Job) -> None:
    runs = "\n".join(
        f"{run.attempt}: {state_text(run.state)} on {run.cluster}/{run.node}"
        + (f", exit code {run.exit_code}" if run.exit_code else "")
        + (f", {run.reason}" if run.reason else "")
        for run in job.runs
    )
    lines = [
        ("id", job.id),
        ("queue", job.queue),
        ("job set", job.job_set),
        ("state", state_text(job.state) + (" (cancel asked)" if _is_ending(job) else "")),
        ("reason", job.reason),
        ("priority", str(job.priority)),
        ("client id", job.client_id),
        ("lifetime", _duration_text(job.lifetime_s)),
        ("time limit", _duration_text(job.time_limit_s)),
        ("estimate", _duration_text(job.estimate_s)),
        ("submitted", job.create_time.isoformat(timespec="milliseconds") if job.create_time else ""),
        ("ended", job.end_time.isoformat(timespec="milliseconds") if job.end_time else ""),
        ("labels", ", ".join(f"{key}={value}" for key, value in job.labels.items())),
        ("annotations", ", ".join(f"{key}={value}" for key, value in job.annotations.items())),
        ("runs", runs),
        ("manifests", "---\n".join(_manifest_text(manifest) for manifest in job.manifests).rstrip()),
    ]
    print_one(settings, job, lines)


def _manifest_text(manifest: str) -> str:
    """Return a manifest as people write it; as it is if it cannot be read."""
    import json

    import yaml

    try:
        return str(yaml.safe_dump(json.loads(manifest), sort_keys=False, allow_unicode=True))
    except ValueError:
        return manifest + "\n"

"""`argosy jobs`: list jobs, or show one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

import click

from argosy_cli.job_ids import whole_id
from argosy_cli.options import Settings, common_options, duration, settings_of
from argosy_cli.output import Column, age_text, print_one, print_rows, shown, state_text, time_text
from argosy_cli.selectors import make_selector, selector_options
from argosy_cli.session import call
from argosy_core.job.identity import short_id

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Job, Run

__all__ = ["job_columns", "jobs", "say_failures"]

_ACTIVE: Final = ("leased", "queued", "running")
_NARROWING: Final = ("states", "failed", "active", "label_selector", "since_s", "cluster", "node")
_MOST_REASONS: Final = 10
_ENDED: Final = ("cancelled", "failed", "succeeded")


class _ListOptions(TypedDict):
    """Which jobs to list, and in what order."""

    states: tuple[str, ...]
    label_selector: str
    failed: bool
    active: bool
    since_s: int | None
    sort: Literal["active", "newest", "oldest"]
    limit: int
    cluster: str
    node: str


@click.command()
@click.argument("job_id", required=False)
@selector_options
@click.option("--failed", is_flag=True, help="Only jobs that failed, as --state failed.")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@click.option(
    "--since",
    "since_s",
    type=duration,
    metavar="TIME",
    help="Only jobs submitted within this time, as in 90s, 6h or 7d.",
)
@click.option(
    "--sort",
    type=click.Choice(("active", "newest", "oldest")),
    default="active",
    show_default=True,
    help="active: those that have not ended first, the newest first.",
)
@click.option("--cluster", default="", help="Only jobs whose last run is on this cluster.")
@click.option("--node", default="", help="Only jobs whose last run is on this node.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Most jobs to list.")
@common_options
@click.pass_context
def jobs(
    context: click.Context, /, *, job_id: str | None, queue: str, job_set: str, **options: Unpack[_ListOptions]
) -> None:
    """List jobs, those that have not ended first, or show the job JOB_ID with its runs."""
    settings = settings_of(context)
    if job_id:
        narrowed = any(options[name] for name in _NARROWING)
        if queue or job_set or narrowed:
            raise click.UsageError("give a job id or a selector, not both", context)

        async def get(client: ArgosyClient) -> Job:
            return await client.get_job(await whole_id(client, job_id))

        _print(settings, call(settings, get))
        return
    limit, since_s = options["limit"], options["since_s"]
    created_from = None if since_s is None else datetime.now(UTC) - timedelta(seconds=since_s)

    async def fetch(client: ArgosyClient) -> list[Job]:
        found: dict[str, Job] = {}  # a job may end between two lists
        for states in _steps(options):
            listed = client.list_jobs(
                make_selector(queue, job_set, states, options["label_selector"]),
                page_size=min(limit + 1, 1000),
                newest_first=options["sort"] != "oldest",
                created_from=created_from,
            )
            async for job in _at(listed, options["cluster"], options["node"]):
                found.setdefault(job.id, job)
                if len(found) > limit:
                    return list(found.values())
        return list(found.values())

    found = call(settings, fetch)
    print_rows(settings, found[:limit], job_columns(), empty="no such jobs", is_paged=True)
    if len(found) > limit:
        click.echo(f"there are more than {limit}; --limit shows more", err=True)
    if settings.is_table:
        say_failures(found[:limit])


def say_failures(jobs: Iterable[Job]) -> None:
    """Say on the standard error how many of some jobs failed, and why, the commonest first."""
    reasons = Counter(_failure_text(job) for job in jobs if job.state == "failed")
    if not reasons:
        return
    click.echo(f"{sum(reasons.values())} failed:", err=True)
    for reason, count in reasons.most_common(_MOST_REASONS):
        click.echo(f"  {count:,} {shown(reason)}", err=True)
    if len(reasons) > _MOST_REASONS:
        click.echo(f"  and {len(reasons) - _MOST_REASONS} more reasons", err=True)


def _failure_text(job: Job) -> str:
    """Return why a job failed, equal for jobs that failed alike: names of nodes and numbers of pods are left out."""
    run = job.runs[-1] if job.runs else None
    if run is not None and run.failure == "exit_code":
        return f"ended with exit code {run.exit_code}"
    return (run.failure.replace("_", " ") if run is not None and run.failure else "") or job.reason or "unknown reason"


async def _at(jobs: AsyncIterator[Job], cluster: str, node: str) -> AsyncIterator[Job]:
    """Give the jobs whose last run is on a cluster and a node; empty for any."""
    async for job in jobs:
        run = job.runs[-1] if job.runs else None
        if (not cluster or (run and run.cluster == cluster)) and (not node or (run and run.node == node)):
            yield job


def _steps(options: _ListOptions) -> list[tuple[str, ...]]:
    """Return the states to list, one list after the other; no states mean all."""
    chosen = {*options["states"]}
    if options["failed"]:
        chosen.add("failed")
    if options["active"]:
        chosen.update(_ACTIVE)
    if options["sort"] != "active":
        return [tuple(sorted(chosen))]
    parts = (tuple(state for state in part if not chosen or state in chosen) for part in (_ACTIVE, _ENDED))
    return [part for part in parts if part]


def job_columns() -> list[Column[Job]]:
    """Return the columns of a table of jobs."""
    return [
        Column("ID", lambda j: short_id(j.id), wide=False),
        Column("WHOLE ID", lambda j: j.id, wide=True),
        Column("QUEUE", lambda j: j.queue),
        Column("JOB SET", lambda j: j.job_set),
        Column("STATE", lambda j: state_text(j.state) + _mark(j)),
        Column("PRIORITY", lambda j: str(j.priority), wide=True, right=True),
        Column("CLUSTER", lambda j: j.runs[-1].cluster if j.runs else "-"),
        Column("NODE", lambda j: j.runs[-1].node if j.runs else "-"),
        Column("ATTEMPT", lambda j: str(j.runs[-1].attempt) if j.runs else "-", wide=True, right=True),
        Column("LIFETIME", lambda j: _duration_text(j.lifetime_s) or "-", wide=True, right=True),
        Column("TIME LIMIT", lambda j: _duration_text(j.time_limit_s) or "-", wide=True, right=True),
        Column("SUBMITTER", lambda j: j.submitter or "-", wide=True),
        Column("ESTIMATE", lambda j: _duration_text(j.estimate_s) or "-", wide=True, right=True),
        Column("CLIENT ID", lambda j: j.client_id or "-", wide=True),
        Column("RAN", _run_time_text, right=True),
        Column("EXIT", _exit_text, right=True),
        Column("AGE", lambda j: age_text(j.create_time), right=True),
        Column("REASON", lambda j: j.reason, wide=True),
    ]


def _duration_text(seconds: int | None) -> str:
    """Return a duration for people, empty for none."""
    from argosy_client.durations import duration_text

    return "" if seconds is None else duration_text(seconds)


def _run_time_text(job: Job) -> str:
    """Return how long the last run has run, `-` if it has not begun."""
    if not job.runs or job.runs[-1].start_time is None:
        return "-"
    return age_text(job.runs[-1].start_time, now=job.runs[-1].end_time)


def _exit_text(job: Job) -> str:
    code = job.runs[-1].exit_code if job.runs else None
    return "-" if code is None else str(code)


def _mark(job: Job) -> str:
    """Return what is asked of a job that has not ended, in brackets."""
    if job.state not in _ACTIVE:
        return ""
    return " (cancel asked)" if job.cancel_requested else " (held)" if job.held else ""


def _run_number(job: Job, run: Run) -> str:
    """Return the attempt, and which of its members if it has several."""
    is_one_of_many = sum(other.attempt == run.attempt for other in job.runs) > 1 or run.member
    return f"{run.attempt} member {run.member}" if is_one_of_many else f"{run.attempt}"


def _print(settings: Settings, job: Job) -> None:
    runs = "\n".join(f"{_run_number(job, run)}: {_run_text(run)}" for run in job.runs)
    lines = [
        ("id", job.id),
        ("queue", job.queue),
        ("job set", job.job_set),
        ("state", state_text(job.state) + _mark(job)),
        ("reason", job.reason),
        ("priority", str(job.priority)),
        ("client id", job.client_id),
        ("lifetime", _duration_text(job.lifetime_s)),
        ("time limit", _duration_text(job.time_limit_s)),
        ("submitter", job.submitter),
        ("estimate", _duration_text(job.estimate_s)),
        ("after", f"{', '.join(job.after)} {job.after_until}" if job.after else ""),
        ("submitted", time_text(job.create_time)),
        ("ended", time_text(job.end_time)),
        ("labels", ", ".join(f"{key}={value}" for key, value in job.labels.items())),
        ("annotations", ", ".join(f"{key}={value}" for key, value in job.annotations.items())),
        ("runs", runs),
        ("manifests", "---\n".join(_manifest_text(manifest) for manifest in job.manifests).rstrip()),
    ]
    print_one(settings, job, lines)


def _run_text(run: Run) -> str:
    """Return a run as a line: where, since when, how long, how it ended."""
    parts = [f"{state_text(run.state)} on {run.cluster}/{run.node}"]
    if run.start_time is not None:
        parts.append(f"began {time_text(run.start_time)}, ran {age_text(run.start_time, now=run.end_time)}")
    elif run.lease_time is not None:
        parts.append(f"leased {time_text(run.lease_time)}")
    if run.exit_code is not None:
        parts.append(f"exit code {run.exit_code}")
    if run.reason:
        parts.append(run.reason)
    return ", ".join(parts)


def _manifest_text(manifest: str) -> str:
    """Return a manifest as people write it; as it is if it cannot be read."""
    import json

    import yaml

    try:
        return str(yaml.safe_dump(json.loads(manifest), sort_keys=False, allow_unicode=True))
    except ValueError:
        return manifest + "\n"

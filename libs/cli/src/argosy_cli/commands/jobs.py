"""`argosy jobs`: list jobs, or show one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

import click

from argosy_cli.attempts import current_members, told_run
from argosy_cli.job_ids import whole_id
from argosy_cli.job_text import job_columns, print_job
from argosy_cli.options import common_options, duration, settings_of
from argosy_cli.output import print_rows, shown
from argosy_cli.selectors import ACTIVE_STATES, list_selector_options, make_selector, with_parent
from argosy_cli.session import call
from argosy_core.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Job, JobStanding

__all__ = ["jobs", "say_failures", "with_stages"]

_NARROWING: Final = ("states", "failed", "active", "label_selector", "since_s", "cluster", "node", "page", "parent")
_MOST_REASONS: Final = 10
_LARGEST_PAGE: Final = 1000
_CUT: Final = "cut"
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
    page: str
    parent: str


class _Order(TypedDict):
    """In what order jobs are listed, and how far back."""

    newest_first: bool
    created_from: datetime | None


@click.command()
@click.argument("job_id", required=False)
@list_selector_options
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
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most jobs to list.")
@click.option("--page", default="", metavar="TOKEN", help="Go on after the jobs of an earlier list, which told it.")
@common_options
@click.pass_context
def jobs(
    context: click.Context, /, *, job_id: str | None, queue: str, job_set: str, **options: Unpack[_ListOptions]
) -> None:
    """List jobs, those that have not ended first, or show the job JOB_ID with its runs and events."""
    settings = settings_of(context)
    if job_id:
        narrowed = any(options[name] for name in _NARROWING)
        if queue or job_set or narrowed:
            raise click.UsageError("give a job id or a selector, not both", context)

        async def get(client: ArgosyClient) -> Job:
            job = await client.get_job(await whole_id(client, job_id))
            (told,), _ = await with_stages(client, [job])
            return told

        print_job(settings, call(settings, get))
        return

    async def fetch(client: ArgosyClient) -> tuple[list[Job], str, tuple[str, ...]]:
        found, token, unled = await _list(client, queue, job_set, options)
        if options["cluster"] and not found:
            await _check_cluster(client, options["cluster"])
        told, leaderless = await with_stages(client, found)
        return _without_moved_on(told, options), token, tuple(sorted({*unled, *leaderless}))

    found, token, leaderless = call(settings, fetch)
    print_rows(settings, found, job_columns(), empty="no such jobs", is_paged=True)
    for pool in leaderless:
        click.echo(f"pool {pool} has no leader now, so nobody knows what its jobs wait for", err=True)
    if settings.is_table:
        say_failures(found)
    if token == _CUT:
        click.echo(f"there are more than {len(found)}; --limit shows more", err=True)
    elif token:
        click.echo(f"there are more than {len(found)}; the same command with --page {token} goes on", err=True)


async def _list(
    client: ArgosyClient, queue: str, job_set: str, options: _ListOptions
) -> tuple[list[Job], str, tuple[str, ...]]:
    """Return the jobs of a list, where it goes on, and pools of which nobody knows what is pending.

    It goes on nowhere (empty) at its end, at `_CUT` if only a higher limit shows more. Pending jobs come first, before
    those of other states.

    Raises:
        InvalidRequest: The page is none of this list.
    """
    limit, since_s = options["limit"], options["since_s"]
    created_from = None if since_s is None else datetime.now(UTC) - timedelta(seconds=since_s)
    cluster, node = options["cluster"], options["node"]
    is_looked_at = bool(cluster or node)
    steps = _steps(options)
    at, token = _read_page(options["page"], len(steps))
    everyone = await with_parent(
        client, make_selector(queue, job_set, (), options["label_selector"]), options["parent"]
    )
    order: _Order = {"newest_first": options["sort"] != "oldest", "created_from": created_from}
    found: dict[str, Job] = {}  # a job may end between two lists
    leaderless: tuple[str, ...] = ()
    if _means_pending(options) and not options["page"]:
        pending, leaderless = await client.list_pending_jobs(everyone)
        pending.sort(key=_created, reverse=True)
        recent = [job for job in pending if created_from is None or _created(job) >= created_from]
        in_order = reversed(recent) if options["sort"] == "oldest" else recent
        found = {job.id: job for job in in_order if _is_at(job, cluster, node)}
        if len(found) > limit:
            return list(found.values())[:limit], _CUT, leaderless
    while at < len(steps):
        is_full = len(found) >= limit
        query = replace(everyone, states=make_selector("", "", steps[at], "").states)
        page = await client.list_jobs_page(
            query,
            # Whether there is more after a step is found out by its first job; what is looked at in vain is looked at
            # many at a time.
            page_size=_LARGEST_PAGE if is_looked_at else 1 if is_full else min(limit - len(found), _LARGEST_PAGE),
            page_token=token,
            **order,
        )
        meant = [job for job in page.jobs if _is_at(job, cluster, node)]
        if is_full and (meant or page.next_page_token) and not is_looked_at:
            return list(found.values()), f"{at}.{token}", leaderless
        for job in meant:
            found.setdefault(job.id, job)
        if len(found) > limit:
            shown = list(found.values())[:limit]
            places = [place for place, job in enumerate(page.jobs, 1) if job.id == shown[-1].id]
            if places:  # what comes behind the last one shown is where the list goes on
                behind = await client.list_jobs_page(query, page_size=places[0], page_token=token, **order)
                token = behind.next_page_token
            return shown, f"{at}.{token}", leaderless
        if page.next_page_token and len(found) == limit and not is_looked_at:  # the server has seen one more
            return list(found.values()), f"{at}.{page.next_page_token}", leaderless
        at, token = (at, page.next_page_token) if page.next_page_token else (at + 1, "")
    return list(found.values()), "", leaderless


def _means_pending(options: _ListOptions) -> bool:
    """Return whether pending jobs are asked for, which leaders know, and not all queued ones beside them."""
    return "pending" in options["states"] and not {"queued", "active"} & {*options["states"]} and not options["active"]


def _without_moved_on(told: list[Job], options: _ListOptions) -> list[Job]:
    """Leave out jobs that were pending when they were listed, and not any more when they were asked about."""
    if not _means_pending(options):
        return told
    return [job for job in told if job.state != "queued" or job.stage in {"", *options["states"]}]


async def _check_cluster(client: ArgosyClient, name: str) -> None:
    """Refuse the name of no cluster.

    Raises:
        NotFound: No cluster has it.
    """
    if name not in [one.name async for one in client.list_clusters()]:
        raise NotFound(f"there is no cluster {name}; `argosy cluster list` lists them")


def _read_page(text: str, step_count: int) -> tuple[int, str]:
    """Return the step and the server's token of `--page`.

    Raises:
        InvalidRequest: It is none.
    """
    step, dot, token = text.partition(".")
    if not text:
        return 0, ""
    if not dot or not step.isdecimal() or int(step) >= step_count:
        raise InvalidRequest(f"--page {text[:40]!r} is no page of this list; take what `argosy jobs` says of it")
    return int(step), token


async def with_stages(client: ArgosyClient, found: list[Job]) -> tuple[list[Job], tuple[str, ...]]:
    """Return jobs with where they stand and what they wait for, and pools without a leader, which cannot tell."""
    standings: dict[str, JobStanding] = {}
    leaderless: set[str] = set()
    waiting = [job.id for job in found if job.state == "queued"]
    for start in range(0, len(waiting), _LARGEST_PAGE):
        told, pools = await client.get_job_stages(waiting[start : start + _LARGEST_PAGE])
        standings |= told
        leaderless.update(pools)
    return [
        replace(job, stage=standing.stage, wait_reason=standing.wait_reason)
        if (standing := standings.get(job.id)) is not None
        else job
        for job in found
    ], tuple(sorted(leaderless))


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
    run = told_run(job)
    if run is not None and run.failure == "exit_code":
        return f"ended with exit code {run.exit_code}"
    return (run.failure.replace("_", " ") if run is not None and run.failure else "") or job.reason or "unknown reason"


def _created(job: Job) -> datetime:
    return job.create_time or datetime.fromtimestamp(0, UTC)


def _is_at(job: Job, cluster: str, node: str) -> bool:
    """Return whether a member of a job's newest attempt is, or was last, on a cluster and a node; empty for any."""
    if not (cluster or node):
        return True
    members = current_members(job)
    at = [run for run in members if run.end_time is None] or members
    return any(cluster in {"", run.cluster} and node in {"", run.node} for run in at)


def _steps(options: _ListOptions) -> list[tuple[str, ...]]:
    """Return the states to list, one list after the other; no states mean all."""
    chosen = {*options["states"]} - {"pending"}
    if options["failed"]:
        chosen.add("failed")
    if options["states"] and not chosen:
        return []  # pending ones alone
    if options["active"] or "active" in chosen:
        chosen = chosen - {"active"} | {*ACTIVE_STATES}
    if options["sort"] != "active":
        return [tuple(sorted(chosen))]
    parts = (tuple(state for state in part if not chosen or state in chosen) for part in (ACTIVE_STATES, _ENDED))
    return [part for part in parts if part]

"""`argosy node drain` and `argosy cluster drain`: cordon, and stop what may be stopped."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from argosy_cli.attempts import start_time
from argosy_cli.exits import ExitCode
from argosy_cli.job_text import job_columns
from argosy_cli.options import Settings, common_options, duration, settings_of
from argosy_cli.output import ask, print_rows, print_value
from argosy_cli.selectors import make_selector
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Job

__all__ = ["drain_cluster", "drain_node", "jobs_at"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LOOK_S: Final = 1.0
_AT_ONCE: Final = 1000
"""Jobs that are preempted in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drain:
    """What to drain, and how."""

    cluster: str
    node: str
    """Empty for the whole cluster."""
    reason: str
    grace_s: int
    everything: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return f"node {self.cluster}/{self.node}" if self.node else f"cluster {self.cluster}"


def _options(function: _Function) -> _Function:
    """Add the options of both commands."""
    for option in (
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--dry-run", is_flag=True, help="Show what would be stopped and what would go on; change nothing."
        ),
        click.option(
            "--all", "everything", is_flag=True, help="Stop runs that have no lifetime, or are within it, too."
        ),
        click.option(
            "--grace",
            "grace_s",
            type=duration,
            default="0",
            metavar="TIME",
            help="Time for runs to end by themselves before any is stopped, as 10m; none by default.",
        ),
        click.option("--reason", default="", help="Shown with the cordon and in the jobs' events."),
    ):
        function = option(function)
    return function


@click.command("drain")
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("name", metavar="NODE")
@_options
@common_options
@click.pass_context
def drain_node(context: click.Context, /, *, cluster_name: str, name: str, dry_run: bool, yes: bool, **how: Any) -> int:  # noqa: ANN401 - fields of _Drain
    """Cordon NODE of CLUSTER, and stop its runs that are past their lifetimes; their jobs wait again.

    A run without a lifetime, or within it, goes on and is told, unless --all is given.
    """
    return _run(context, _Drain(cluster=cluster_name, node=name, **how), dry_run=dry_run, yes=yes)


@click.command("drain")
@click.argument("name")
@_options
@common_options
@click.pass_context
def drain_cluster(context: click.Context, /, *, name: str, dry_run: bool, yes: bool, **how: Any) -> int:  # noqa: ANN401 - fields of _Drain
    """Cordon the cluster NAME, and stop its runs that are past their lifetimes; their jobs wait again.

    A run without a lifetime, or within it, goes on and is told, unless --all is given.
    """
    return _run(context, _Drain(cluster=name, node="", **how), dry_run=dry_run, yes=yes)


async def jobs_at(client: ArgosyClient, cluster: str, node: str) -> list[Job]:
    """Return the jobs that have a run on a cluster, or on one of its nodes; looks at all jobs that have a run."""
    selector = make_selector("", "", ("leased", "running"), "")
    return [
        job
        async for job in client.list_jobs(selector)
        if any(run.end_time is None and run.cluster == cluster and (not node or run.node == node) for run in job.runs)
    ]


def _run(context: click.Context, drain: _Drain, *, dry_run: bool, yes: bool) -> int:
    """Carry out a drain; return the exit code."""
    settings = settings_of(context)
    if dry_run:
        stopped, kept = call(settings, lambda client: _look(client, drain))
        _print(settings, drain, stopped, kept, would="would be ")
        return ExitCode.OK
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"this would drain {drain.name}; confirm with -y, or look with --dry-run", context)
        stopped, kept = call(settings, lambda client: _look(client, drain))
        _print(Settings(), drain, stopped, kept, would="would be ")
        ask(f"drain {drain.name}?")
    stopped, kept = call(settings, lambda client: _drain(client, drain))
    _print(settings, drain, stopped, kept, would="")
    return ExitCode.OK


async def _look(client: ArgosyClient, drain: _Drain) -> tuple[list[Job], list[Job]]:
    """Return the jobs whose runs are to be stopped now, and those whose runs go on.

    Raises:
        NotFound: There is no such cluster or node.
    """
    await client.get_cluster(drain.cluster)
    if drain.node and not [node async for node in client.list_nodes(drain.cluster, node=drain.node)]:
        raise NotFound(
            f"cluster {drain.cluster} has no node {drain.node}; `argosy node list {drain.cluster}` lists them"
        )
    found = await jobs_at(client, drain.cluster, drain.node)
    now = datetime.now(UTC)
    stopped: list[Job] = []
    kept: list[Job] = []
    for job in found:
        (stopped if drain.everything or _is_past_lifetime(job, now) else kept).append(job)
    return stopped, kept


async def _drain(client: ArgosyClient, drain: _Drain) -> tuple[list[Job], list[Job]]:
    """Cordon, wait the grace, preempt; return the jobs whose runs are stopped, and those whose runs go on."""
    reason = drain.reason or "drained"
    if drain.node:
        await client.cordon_node(drain.cluster, drain.node, reason)
    else:
        await client.cordon_cluster(drain.cluster, reason)
    until_s = time.monotonic() + drain.grace_s
    while True:
        stopped, kept = await _look(client, drain)
        if not (stopped or kept) or time.monotonic() >= until_s:
            break
        await asyncio.sleep(min(_LOOK_S, max(until_s - time.monotonic(), 0)))
    ids = [job.id for job in stopped]
    for start in range(0, len(ids), _AT_ONCE):
        await client.preempt_jobs(ids[start : start + _AT_ONCE], reason=f"{drain.name} is drained")
    return stopped, kept


def _is_past_lifetime(job: Job, now: datetime) -> bool:
    """Return whether the run of a job may be preempted by what its submitter said."""
    began = start_time(job)
    if job.lifetime_s is None:
        return False
    return began is None or (now - began).total_seconds() >= job.lifetime_s


def _print(settings: Settings, drain: _Drain, stopped: list[Job], kept: list[Job], *, would: str) -> None:
    """Say what was, or would be, stopped, and what goes on because it has no lifetime or is within it."""
    if not settings.is_table:
        print_value(settings, {"stopped": [job.id for job in stopped], "goingOn": [job.id for job in kept]})
        return
    click.echo(f"{drain.name} {'would be' if would else 'is'} cordoned; {_count(len(stopped))} {would}stopped")
    if not kept:
        return
    endless = sum(job.lifetime_s is None for job in kept)
    parts = [f"{endless} without a lifetime"] * bool(endless) + [f"{len(kept) - endless} within it"] * (
        len(kept) > endless
    )
    click.echo(
        f"{_count(len(kept))} {'would go' if would else 'go'} on ({', '.join(parts)}); --all stops them, too:", err=True
    )
    print_rows(settings, kept, job_columns(), empty="")


def _count(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"

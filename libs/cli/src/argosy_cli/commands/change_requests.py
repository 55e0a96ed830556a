"""`argosy cancel`, `reprioritize`, `preempt`, `hold` and `release`: change requests, by id or selector, previewed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from argosy_cli.exits import ExitCode
from argosy_cli.job_ids import whole_ids
from argosy_cli.job_text import job_columns
from argosy_cli.options import Settings, common_options, settings_of
from argosy_cli.output import ask, print_rows, print_value
from argosy_cli.selectors import make_selector, selector_options, with_parent
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, ChangeResult, JobSelector

__all__ = ["cancel", "hold", "preempt", "release", "reprioritize"]


class _Asked(TypedDict):
    """Which jobs are meant, and how sure somebody is."""

    job_ids: tuple[str, ...]
    queue: str
    job_set: str
    states: tuple[str, ...]
    label_selector: str
    parent: str
    dry_run: bool
    yes: bool


@click.command()
@click.argument("job_ids", nargs=-1)
@selector_options
@click.option("--reason", default="", help="Shown in the jobs' events.")
@click.option("--dry-run", is_flag=True, help="Show which jobs are meant, cancel none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def cancel(context: click.Context, /, *, reason: str, **asked: Unpack[_Asked]) -> int:
    """Ask that jobs end, by JOB_IDS or by selector; a selector shows how many it means and asks first."""
    return _change(
        context,
        asked,
        "cancel",
        lambda client, target, only: client.cancel_jobs(target, reason=reason, validate_only=only),
    )


@click.command()
@click.argument("job_ids", nargs=-1)
@click.option(
    "--priority", type=click.IntRange(-(2**31), 2**31 - 1), required=True, help="The new priority, higher first."
)
@selector_options
@click.option("--dry-run", is_flag=True, help="Show which jobs are meant, change none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def reprioritize(context: click.Context, /, *, priority: int, **asked: Unpack[_Asked]) -> int:
    """Give jobs another priority, by JOB_IDS or by selector; jobs that have a run do not move."""
    return _change(
        context,
        asked,
        "reprioritize",
        lambda client, target, only: client.reprioritize_jobs(target, priority, validate_only=only),
    )


@click.command()
@click.argument("job_ids", nargs=-1)
@selector_options
@click.option("--reason", default="", help="Shown in the jobs' events.")
@click.option("--dry-run", is_flag=True, help="Show which jobs are meant, preempt none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def preempt(context: click.Context, /, *, reason: str, **asked: Unpack[_Asked]) -> int:
    """Stop the runs of jobs, by JOB_IDS or by selector: they keep their places and wait again."""
    return _change(
        context,
        asked,
        "preempt",
        lambda client, target, only: client.preempt_jobs(target, reason=reason, validate_only=only),
    )


@click.command()
@click.argument("job_ids", nargs=-1)
@selector_options
@click.option("--reason", default="", help="Shown in the jobs' events.")
@click.option("--dry-run", is_flag=True, help="Show which jobs are meant, hold none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def hold(context: click.Context, /, *, reason: str, **asked: Unpack[_Asked]) -> int:
    """Hold jobs back, by JOB_IDS or by selector: none begins until it is released; running ones go on."""
    return _change(
        context, asked, "hold", lambda client, target, only: client.hold_jobs(target, reason=reason, validate_only=only)
    )


@click.command()
@click.argument("job_ids", nargs=-1)
@selector_options
@click.option("--dry-run", is_flag=True, help="Show which jobs are meant, release none.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def release(context: click.Context, /, **asked: Unpack[_Asked]) -> int:
    """Let held jobs go, by JOB_IDS or by selector; they have kept their places."""
    return _change(
        context, asked, "release", lambda client, target, only: client.release_jobs(target, validate_only=only)
    )


def _change(
    context: click.Context,
    asked: _Asked,
    verb: str,
    send: Callable[[ArgosyClient, Sequence[str] | JobSelector, bool], Awaitable[ChangeResult]],
) -> int:
    """Carry out a change request as the command line asks for it; return the exit code."""
    selector = make_selector(asked["queue"], asked["job_set"], asked["states"], asked["label_selector"])
    _check_target(context, asked["job_ids"], selector, asked["parent"])
    sure = asked["yes"] or bool(asked["job_ids"])

    def change_request(only: bool) -> Callable[[ArgosyClient], Awaitable[ChangeResult]]:  # noqa: FBT001 - private
        async def carry_out(client: ArgosyClient) -> ChangeResult:
            ids = asked["job_ids"]
            chosen = await whole_ids(client, ids) if ids else await with_parent(client, selector, asked["parent"])
            return await send(client, chosen, only)

        return carry_out

    return _carry_out(
        settings_of(context),
        change_request,
        verb=verb,
        dry_run=asked["dry_run"],
        sure=sure,
    )


def _check_target(context: click.Context, job_ids: tuple[str, ...], selector: JobSelector, parent: str) -> None:
    has_selector = bool(selector.queue or selector.job_set or selector.states or selector.label_selector or parent)
    if job_ids and has_selector:
        raise click.UsageError("give job ids or a selector, not both", context)
    if not job_ids and not selector.queue:
        raise click.UsageError("give job ids, or a selector with at least --queue", context)


def _carry_out(
    settings: Settings,
    change_request: Callable[[bool], Callable[[ArgosyClient], Awaitable[ChangeResult]]],
    *,
    verb: str,
    dry_run: bool,
    sure: bool,
) -> int:
    """Preview if asked to or unsure, ask, then carry out; return the exit code."""
    if dry_run or not sure:
        preview = call(settings, change_request(True))
        if dry_run:
            _print(settings, preview, f"would {verb}")
            return ExitCode.NOT_FOUND if preview.unknown_ids else ExitCode.OK
        if preview.job_count == 0:
            _print(settings, preview, f"asked to {verb}")
            return ExitCode.NOT_FOUND if preview.unknown_ids else ExitCode.OK
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"this would {verb} {_count(preview.job_count)}; confirm with -y, or look with --dry-run"
            )
        _print(Settings(), preview, f"would {verb}")
        ask(f"{verb} {_count(preview.job_count)}?")
    answer = call(settings, change_request(False))
    _print(settings, answer, f"asked to {verb}")
    return ExitCode.NOT_FOUND if answer.unknown_ids else ExitCode.OK


def _count(number: int) -> str:
    return f"{number} job{'' if number == 1 else 's'}"


def _print(settings: Settings, answer: ChangeResult, what: str) -> None:
    if not settings.is_table:
        print_value(settings, answer)
        return
    if answer.sample and what.startswith("would"):
        print_rows(settings, answer.sample, job_columns(), empty="")
        rest = answer.job_count - len(answer.sample)
        if rest > 0:
            click.echo(f"... and {rest} more")
    click.echo(f"{what} {_count(answer.job_count)}")
    if not answer.job_count and not answer.unknown_ids:
        click.echo("what was named has ended, or nothing of it would change", err=True)
    for job_id in answer.unknown_ids:
        click.echo(f"{click.style('error:', fg='red')} there is no job {job_id}", err=True)

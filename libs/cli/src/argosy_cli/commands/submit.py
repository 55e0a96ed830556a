"""`argosy submit`: submit jobs from files."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from argosy_cli.commands.ended import ended_jobs, report_ended
from argosy_cli.commands.watch import follow
from argosy_cli.exits import ExitCode
from argosy_cli.options import Settings, common_options, duration, settings_of
from argosy_cli.output import print_value, shown
from argosy_cli.session import call
from argosy_core.errors import ArgosyError, InvalidRequest

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, JobDraft
    from argosy_client.documents import DocumentOptions

__all__ = ["expanded", "submit"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")


def _limit_options(function: _Function) -> _Function:
    """Add --lifetime, --time-limit, --estimate, --job-set-limit and --parent to a command."""
    text = "Job whose children all jobs are; by default what ARGOSY_PARENT_ID says, as in pods of operators."
    function = click.option("--parent", default="", envvar="ARGOSY_PARENT_ID", metavar="JOB_ID", help=text)(function)
    text = "Whatever the documents say: most jobs of a job set at once; 0 for no limit."
    function = click.option("--job-set-limit", type=click.IntRange(0), metavar="COUNT", help=text)(function)
    for name, what in (
        ("estimate", "time that a run is expected to take"),
        ("time-limit", "time after which a run is stopped and its job fails"),
        ("lifetime", "time of a run after which it may be preempted; 0 is at once"),
    ):
        text = f"Whatever the documents say: {what}. As 90s, 1h30m or 7d."
        function = click.option(f"--{name}", f"{name.replace('-', '_')}_s", type=duration, help=text)(function)
    return function


def _check_options(function: _Function) -> _Function:
    """Add --dry-run and --validate to a command."""
    for option in (
        click.option(
            "--validate",
            "validation",
            type=click.Choice(("strict", "warn", "ignore")),
            default="strict",
            show_default=True,
            help="What to do with fields of manifests that Kubernetes does not know.",
        ),
        click.option(
            "--dry-run",
            is_flag=True,
            help="Check all documents, submit nothing; -o json prints what would be submitted. Only a submit sees"
            " whether a client id was used before.",
        ),
    ):
        function = option(function)
    return function


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    help="YAML or JSON file, directory of such, pattern as 'jobs/*.yaml', or - for standard input; may be repeated.",
)
@click.option("--queue", default="", help="Queue of all documents, whatever they name.")
@click.option("--job-set", default="", help="Job set of all documents, whatever they name.")
@_limit_options
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    help="Number of equal jobs of each document, whatever it says; at most 100,000.",
)
@click.option("--hold", is_flag=True, help="Hold all jobs until `argosy release`.")
@click.option("--after", multiple=True, metavar="JOB_ID", help="Begin all jobs after this one; may be repeated.")
@click.option(
    "--after-until",
    type=click.Choice(("succeeded", "ended")),
    default="succeeded",
    show_default=True,
    help="What the jobs of --after must have done.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=VALUES|FILE.csv",
    help="Submit once for each value of {{NAME}}, as lr=0.1,0.2 or seed=1..5, or row of a CSV file; may be repeated.",
)
@_check_options
@click.option("--watch", "watched", is_flag=True, help="Follow the job set until all its jobs ended.")
@click.option("--wait", "waited", is_flag=True, help="Return when the jobs have ended; exit code 5 if one failed.")
@common_options
@click.pass_context
def submit(
    context: click.Context,
    /,
    *,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    dry_run: bool,
    watched: bool,
    waited: bool,
    validation: Literal["strict", "warn", "ignore"],
    **options: Any,  # noqa: ANN401 - fields of DocumentOptions, and sweeps
) -> int:
    """Submit jobs from YAML or JSON files of one or many documents.

    A document is a submission (fields queue, jobSet, priority, count, clientId, labels, annotations, lifetime,
    timeLimit, estimate, hold, jobSetLimit, after, operator, parent, spec.manifests and spec.groups) or a Pod manifest;
    options win over its fields. Up to 1,000 documents go as one request, all of them or none; more go in parts. One
    with a clientId is submitted once, however often the command is repeated; one without is anew each time.
    """
    from argosy_client.documents import DocumentOptions

    if not paths and not files:
        raise click.UsageError("give files to submit, or - for standard input", context)
    settings = settings_of(context)
    sweeps: tuple[str, ...] = options.pop("sweeps")
    drafts = _read(expanded((*paths, *files)), DocumentOptions(**options), sweeps)
    targets = sorted({(draft.queue, draft.job_set) for draft in drafts})
    if watched and len(targets) > 1:
        raise click.UsageError(f"--watch follows one job set, and the files name {len(targets)}", context)
    ids, existing = call(settings, lambda client: _send(client, drafts, dry_run=dry_run, validation=validation))
    if dry_run:
        _report_checked(settings, drafts)
        return ExitCode.OK
    _report(settings.is_table, ids, drafts)
    if not settings.is_table:
        made = [{"id": job_id, "alreadyExisted": index in existing} for index, job_id in enumerate(ids)]
        print_value(settings, made)
    elif existing:
        click.echo(_existing_text(len(existing), len(ids)), err=True)
    if watched:
        return follow(settings, *targets[0], cursor="")
    return report_ended(settings, call(settings, lambda client: ended_jobs(client, ids))) if waited else ExitCode.OK


def _read(paths: list[str], options: DocumentOptions, sweeps: tuple[str, ...]) -> tuple[JobDraft, ...]:
    """Return the drafts of files, of each combination of values if there are sweeps."""
    from argosy_client.documents import read_documents, read_text
    from argosy_client.sweeps import read_sweeps, sweep_documents

    if not sweeps:
        return read_documents(paths, options)
    combinations = read_sweeps(sweeps)
    return tuple(
        draft
        for path in paths
        for draft in sweep_documents(read_text(path), source=path, options=options, combinations=combinations)
    )


def expanded(paths: Iterable[str]) -> list[str]:
    """Return the files that paths, directories and patterns mean; those of each in order of their names.

    Raises:
        InvalidRequest: A directory or pattern means none.
    """
    files: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            found = sorted(str(one) for one in Path(path).iterdir() if one.suffix in _SUFFIXES)
        elif glob.has_magic(path) and not Path(path).exists():
            found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - a pattern of any root
        else:
            found = [path]
        if not found:
            raise InvalidRequest(f"{path}: holds no file that ends in {', '.join(_SUFFIXES)}")
        files += found
    return files


async def _send(
    client: ArgosyClient,
    drafts: tuple[JobDraft, ...],
    *,
    dry_run: bool,
    validation: Literal["strict", "warn", "ignore"],
) -> tuple[list[str], set[int]]:
    """Submit drafts, in parts where they are many, and show the server's warnings.

    Returns:
        The ids, and the indices of those that existed before.
    """
    from argosy_client.batches import split_drafts
    from argosy_client.documents import name_places, name_warnings

    parts = list(split_drafts(drafts))
    ids: list[str] = []
    existing: set[int] = set()
    for number, part in enumerate(parts, start=1):
        try:
            answer = await client.submit_checked(part, validate_only=dry_run, validation=validation)
        except ArgosyError as error:
            _say_accepted(number, len(parts), len(ids))
            raise name_places(error, part) from error
        except BaseException:
            _say_accepted(number, len(parts), len(ids))
            raise
        existing |= {len(ids) + index for index in answer.existing}
        ids += answer.job_ids
        for told in name_warnings(answer.warnings, part):
            click.echo(shown(f"warning: {told.field}: {told.description}"), err=True)
    return ids, existing


def _say_accepted(number: int, part_count: int, job_count: int) -> None:
    """Say what was accepted before part `number` failed."""
    if number > 1:
        click.echo(f"parts 1 to {number - 1} of {part_count} were accepted ({job_count} jobs)", err=True)


def _report_checked(settings: Settings, drafts: tuple[JobDraft, ...]) -> None:
    """Say that nothing was submitted, and how much would have been."""
    job_count = sum(draft.count for draft in drafts)
    what = f"{_count(job_count, 'job')} in {_count(len(drafts), 'document')} checked; nothing was submitted"
    click.echo(what, err=True)
    if not settings.is_table:
        print_value(settings, drafts)


def _existing_text(existing_count: int, count: int) -> str:
    """Return what to say of jobs that were there before, and of counts that have changed since."""
    if count == 1:
        return "it existed already under the same client id, and was not made again"
    if existing_count < count:
        return (
            f"{existing_count:,} of them existed already under the same client id, and were not made again; the other"
            f" {count - existing_count:,} are new"
        )
    return (
        f"all {count:,} existed already under the same client id, and none was made; if the count was larger before,"
        " its other jobs are still there: `argosy cancel` ends jobs"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _report(is_table: bool, ids: list[str], drafts: tuple[JobDraft, ...]) -> None:  # noqa: FBT001 - private
    if not is_table:
        return
    if len(ids) == 1:
        click.echo(ids[0])
        return
    targets = sorted({f"{draft.queue}/{draft.job_set}" for draft in drafts})
    where = ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")
    click.echo(f"{len(ids)} jobs accepted in {where}; first {ids[0]}, last {ids[-1]}")

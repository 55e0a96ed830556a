"""`argosy run`: a command as a job, without a manifest.

Source: design section 9.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from argosy_cli.attempts import told_run
from argosy_cli.commands.ended import ended_jobs
from argosy_cli.commands.logs import PrintedLog, stream_log
from argosy_cli.commands.watch import follow
from argosy_cli.drafts import DEFAULT_QUEUE, MOST_SCRIPT_BYTES, Array, make_drafts, submit_drafts
from argosy_cli.exits import OWN_FAILURE, ExitCode, own_failures
from argosy_cli.options import Settings, common_options, duration, settings_of
from argosy_cli.output import print_value
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient

__all__ = ["DEFAULT_IMAGE", "OPTIONS", "read_array", "run"]

DEFAULT_IMAGE: Final = "busybox:1.36"
"""Small, and has a shell."""
OPTIONS: Final = {
    "queue": "--queue",
    "job_set": "--name",
    "name": "--name",
    "time_limit": "--time",
    "priority": "--priority",
    "after": "--after",
    "scaling": "--autoscale",
    "image": "IMAGE",
    "variables": "--env",
    "cpu": "--cpu",
    "mem": "--mem",
    "gpu": "--gpu",
}
"""What fills a field of a submit, as `name_options` takes it."""
_MOST_INDICES: Final = 10_000
_LEAST_BYTES: Final = 1 << 20
"""Less memory than this, without a unit, is a unit that was forgotten."""
_MOST_MEMBERS: Final = 1000
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


class _Run(click.Command):
    """A command whose arguments behind `--` are another's, options included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, dashes, rest = (
            (args[: args.index("--")], "--", args[args.index("--") + 1 :]) if "--" in args else (args, "", [])
        )
        ctx.meta["argosy.command"] = tuple(rest) if dashes else ()
        with own_failures():
            try:
                return super().parse_args(ctx, own)
            except click.UsageError as error:
                if not dashes and "unexpected extra argument" in error.message:
                    hint = "write the command behind --, as in `argosy run -- echo hello`"
                    raise click.UsageError(f"{error.message}; {hint}", error.ctx) from error
                raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        with own_failures():
            return super().invoke(ctx)


def read_array(text: str) -> Array:
    """Return the array that `0-99`, `1,5,7`, `0-90:10` or, with at most ten at once, `0-99%10` means.

    Raises:
        BadParameter: It means none, or has too many indices.
    """
    found: dict[int, None] = {}
    ranges, percent, limit = text.partition("%")
    if percent and not re.fullmatch(r"0*[1-9]\d{0,5}", limit):
        raise click.BadParameter(f"{limit[:40]!r} is no number of jobs at once; write 0-99%10")
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise click.BadParameter(f"{part[:40]!r} is no index or range; write 0-99, 1,5,7 or 0-90:10")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or (last - first) // step >= _MOST_INDICES:
            raise click.BadParameter(f"{part[:40]!r} is no range of 1 to {_MOST_INDICES:,} indices")
        found |= dict.fromkeys(range(first, last + 1, step))
    if len(found) > _MOST_INDICES:
        raise click.BadParameter(f"has {len(found):,} indices, at most {_MOST_INDICES:,} are allowed")
    return Array(tuple(found), int(limit or 0))


def _cores(text: str) -> str:
    """Return cores, as Kubernetes reads them.

    Raises:
        BadParameter: They are none.
    """
    if re.fullmatch(r"\d{1,9}(\.\d{1,3})?|\d{1,12}m", text) is None:
        raise click.BadParameter(f"{text[:40]!r} is no number of cores; write 4, 0.5 or 500m")
    return text


def _image(text: str) -> str:
    """Return the reference of an image.

    Raises:
        BadParameter: No registry could have it: no pull would ever succeed.
    """
    if re.fullmatch(r"[!-~]{1,500}", text) is None:
        raise click.BadParameter(f"{text[:40]!r} is no image; write, for instance, {DEFAULT_IMAGE}")
    return text


def _memory(text: str) -> str:
    """Return an amount of memory, as Kubernetes reads it.

    Raises:
        BadParameter: It is none, or has no unit: a few bytes are never meant.
    """
    found = re.fullmatch(r"(\d{1,15})(\.\d{1,3})?(|[KMGTP]i?|[kKMGTP])", text)
    if found is None or found[3] == "K":
        raise click.BadParameter(f"{text[:40]!r} is no amount of memory; write 2Gi or 512Mi")
    if not found[3] and int(found[1]) < _LEAST_BYTES:
        raise click.BadParameter(f"{text} would be bytes; write {text}Gi or {text}Mi")
    return text


def _members(text: str) -> tuple[int, int]:
    """Return how many pods a job has at least and at most.

    Raises:
        click.BadParameter: The text is no number, and no range from 1 to 1,000.
    """
    found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text)
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most <= _MOST_MEMBERS:
        raise click.BadParameter(f"{text[:40]!r} must be COUNT or COUNT-MOST, as 4 or 2-8, from 1 to {_MOST_MEMBERS}")
    return least, most


def _member_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of jobs of several pods."""
    options = (
        click.option(
            "--members",
            type=_members,
            metavar="COUNT[-MOST]",
            help="Run it in so many pods at once, which know each other by ARGOSY_PEERS, and in up to MOST while there"
            " is room; the log shown is member 0's.",
        ),
        click.option(
            "--share-nodes", is_flag=True, help="Let --members share nodes with other jobs; else they take whole ones."
        ),
        click.option(
            "--member-failure",
            type=click.Choice(["endRun", "replaceLost", "replace"]),
            help="What follows when one of --members fails or is lost: the run ends (by default), or it is replaced.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(cls=_Run, options_metavar="[OPTIONS]", epilog="Behind --: the command and its arguments.")
@click.argument("image", type=_image, default=DEFAULT_IMAGE, metavar=f"[IMAGE, else {DEFAULT_IMAGE}]")
@click.option("--cpu", type=_cores, metavar="CORES", default="1", show_default=True, help="Cores, as in 4 or 500m.")
@click.option(
    "--mem",
    type=_memory,
    metavar="AMOUNT",
    default="1Gi",
    show_default=True,
    help="Memory, as in 2Gi; using more ends the job.",
)
@click.option("--gpu", type=click.IntRange(0, 1024), default=0, help="GPUs (nvidia.com/gpu).")
@click.option(
    "--autoscale",
    metavar="MIN-MAX",
    help="Resize it while it runs, from MIN to MAX times --cpu and --mem in steps of MIN, as in 1-8 or 0.5-4.",
)
@click.option(
    "--array",
    type=read_array,
    metavar="0-99[%10]",
    help="One job for each index, in ARGOSY_ARRAY_INDEX; behind %, how many run at once.",
)
@_member_options
@click.option("--time", "time_limit_s", type=duration, metavar="TIME", help="Stop the job after this time, as in 1h.")
@click.option("--after", multiple=True, metavar="JOB_ID", help="Begin after this job has succeeded; may be repeated.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable; may be repeated.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Local file (at most {MOST_SCRIPT_BYTES // 1000} kB) that travels along in a config map and is run, with the"
    " command behind -- as its arguments.",
)
@click.option(
    "--root",
    is_flag=True,
    help="Run it as the image's own user, root in most, with a container's usual rights; the queue must allow it.",
)
@click.option("--name", default="run", show_default=True, help="Name of the pod, and of the job set.")
@click.option(
    "--priority", type=click.IntRange(-(2**31), 2**31 - 1), default=0, help="Order in the queue, higher first."
)
@click.option(
    "--queue", envvar="ARGOSY_QUEUE", default="", help="Queue; else ARGOSY_QUEUE, else `default`, made if missing."
)
@click.option(
    "--watch/--detach",
    " /-d",
    default=True,
    help="Follow the job until it has ended, as by default; or print its id and return.",
)
@common_options
@click.pass_context
def run(context: click.Context, /, *, watch: bool, queue: str, after: tuple[str, ...], **what: Any) -> int:  # noqa: ANN401 - options of the job
    """Run a command as a job, show what it writes, and end with its exit code.

    Arrays are followed by their counts, and end with exit code 5 if a job of theirs failed. Where not the command
    failed but its submit, its placement or its cluster, or where an option is wrong, the exit code is 125. Ctrl-C asks
    whether to cancel: no goes on following, and Ctrl-C again leaves the job to itself.

    It runs as user 65534 and without rights that programs rarely need, as the level restricted wants it, unless --root.
    """
    settings = settings_of(context)
    drafts = make_drafts(queue or DEFAULT_QUEUE, context.meta["argosy.command"], **what)
    ids = call(settings, lambda client: submit_drafts(client, drafts, after, makes_queue=not queue, options=OPTIONS))
    if not watch or not settings.is_table:
        if settings.is_table:
            click.echo("\n".join(ids))
        else:
            print_value(settings, [{"id": job_id} for job_id in ids])
        return ExitCode.OK
    printed = PrintedLog()
    while True:
        try:
            if what["array"]:
                return follow(settings, drafts[0].queue, drafts[0].job_set, cursor="")
            return call(settings, lambda client: _follow(client, ids[0], printed))
        except KeyboardInterrupt:
            if not _is_declined(settings, ids):
                raise


async def _follow(client: ArgosyClient, job_id: str, printed: PrintedLog) -> int:
    """Show what a job writes until it has ended; return its exit code, or 125 if it has none."""
    try:
        await stream_log(client, job_id, printed)
    except NotFound as error:
        click.echo(error.message, err=True)
    (job,) = await ended_jobs(client, (job_id,))
    if job.state == "succeeded":
        return ExitCode.OK
    told = told_run(job)
    exit_code = told.exit_code if told is not None else None
    if job.state == "failed" and exit_code:
        return exit_code
    click.echo(f"the job has {'failed' if job.state == 'failed' else 'been cancelled'}: {job.reason}", err=True)
    return OWN_FAILURE


def _is_declined(settings: Settings, ids: list[str]) -> bool:
    """Ask whoever interrupted whether to cancel, and do so; return whether they want neither that nor to leave.

    Where nobody can be asked, or who is asked interrupts again, jobs go on, and how to come back to them is said.
    """
    what = f"job {ids[0]}" if len(ids) == 1 else f"{len(ids):,} jobs"
    try:
        if sys.stdin.isatty():
            if not click.confirm(f"\ncancel {what}?", err=True):
                return True
            call(settings, lambda client: client.cancel_jobs(ids, reason="interrupted"))
            click.echo(f"asked to cancel {what}", err=True)
            return False
    except click.Abort:
        click.echo(err=True)
    click.echo(f"{what} goes on; `argosy logs -f {ids[0]}` follows it, `argosy cancel {ids[0]}` ends it", err=True)
    return False

"""`argosy slurm`: the common options of sbatch, squeue, scancel and sinfo, for those who come from there.

A partition is a queue, a job's name the beginning of its job set's. An option that has no meaning here is refused by
its name, in the script as on the command line, so that nothing is left out in silence.

Source: design section 9.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from argosy_cli.attempts import end_time, start_time, told_run
from argosy_cli.commands.jobs import with_stages
from argosy_cli.commands.run import DEFAULT_IMAGE, OPTIONS, read_array
from argosy_cli.drafts import DEFAULT_QUEUE, make_drafts, submit_drafts
from argosy_cli.exits import ExitCode
from argosy_cli.job_ids import whole_ids
from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, age_text, print_rows
from argosy_cli.selectors import make_selector
from argosy_cli.session import call
from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import short_id

if TYPE_CHECKING:
    from argosy_cli.drafts import Array
    from argosy_client import ArgosyClient, Cluster, Job

__all__ = ["memory_text", "seconds_of", "slurm"]

_TIME: Final = re.compile(r"(?:(?P<days>\d{1,4})-)?(?P<parts>\d{1,6}(?::\d{1,2}){0,2})")
_MEMORY: Final = re.compile(r"(\d{1,9})([KMGT]?)B?", re.IGNORECASE)
_GPUS: Final = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,4})")
_DEPENDENCY: Final = re.compile(r"(afterok|afterany)((?::[0-9A-Fa-f-]{4,36})+)")
_OPTIONS: Final = {
    **OPTIONS,
    "queue": "--partition",
    "job_set": "--job-name",
    "name": "--job-name",
    "after": "--dependency",
    "image": "--image",
    "cpu": "--cpus-per-task",
    "gpu": "--gpus",
}
"""As `OPTIONS` of `argosy run`."""
_submit = partial(submit_drafts, options=_OPTIONS)
_SHORT_STATES: Final = {"queued": "PD", "leased": "CF", "running": "R"}
_REASONS: Final = {
    "mismatch": "BadConstraints",
    "no_room": "Resources",
    "held": "JobHeldUser",
    "dependency": "Dependency",
    "limit": "QOSResourceLimit",
    "cordoned": "PartitionDown",
    "away": "NodeDown",
    "back_off": "BeginTime",
}
"""What squeue says of a job that waits, by what it waits for here; `Priority` of all else."""
_MOST_LISTED: Final = 1000


def seconds_of(text: str) -> int:
    """Return a time limit as Slurm writes it, in seconds: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S.

    Raises:
        BadParameter: It is none.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text[:40]!r} is no time; write minutes, H:M:S or D-H:M:S")
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        total = int(match["days"]) * 86_400 + hours * 3600 + minutes * 60 + seconds
    elif len(parts) == 3:
        total = parts[0] * 3600 + parts[1] * 60 + parts[2]
    else:
        total = parts[0] * 60 + (parts[1] if len(parts) > 1 else 0)
    if not total:
        raise click.BadParameter("a time limit is longer than nothing")
    return total


def memory_text(text: str) -> str:
    """Return an amount of memory as Slurm writes it (megabytes, or with K, M, G or T) as a quantity.

    Raises:
        BadParameter: It is none.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None or not int(match[1]):
        raise click.BadParameter(f"{text[:40]!r} is no amount of memory; write 4000 (megabytes) or 4G")
    return f"{match[1]}{(match[2] or 'M').upper()}i"


def _gpus_of(text: str) -> int:
    match = _GPUS.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text[:40]!r} is no number of GPUs; write 1 or gpu:1")
    return int(match[1])


def _others_of(text: str) -> tuple[str, tuple[str, ...]]:
    match = _DEPENDENCY.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text[:40]!r} is not known here; write afterok:ID or afterany:ID, IDs joined by ':'")
    return ("succeeded" if match[1] == "afterok" else "ended"), tuple(match[2][1:].split(":"))


def _one(text: str) -> int:
    if text.strip() != "1":
        raise click.BadParameter(
            "jobs of several tasks or nodes are not made here; write 1, use --array, or `argosy run --members`"
        )
    return 1


def _name_of(job_name: str) -> str:
    """Return the name of a job's pod."""
    return re.sub(r"[^a-z0-9]+", "-", job_name.lower()).strip("-")[:32].strip("-") or "sbatch"


@click.group()
def slurm() -> None:
    """sbatch, squeue, scancel and sinfo, for those who come from Slurm."""


def _own_options(script: Path) -> list[str]:
    """Return the options of a script's #SBATCH lines.

    Raises:
        InvalidRequest: It is no text.
    """
    try:
        lines = script.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as cause:
        raise InvalidRequest(f"{script} is no UTF-8 text") from cause
    found: list[str] = []
    for line in lines:
        if line.startswith("#SBATCH"):
            found += shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif line.strip() and not line.startswith("#"):
            break  # as there: what comes behind the first command is none
    return found


class _Sbatch(click.Command):
    """Reads the options of the script before those of the command line, which win."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Options that the script gives stand before those of the command line, and the last one counts.
        plain, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        words = plain.get("script")
        path = Path(words[0]) if isinstance(words, tuple) and words else None
        given = _own_options(path) if path is not None and path.is_file() else []
        return super().parse_args(ctx, [*given, *args])


@slurm.command("sbatch", cls=_Sbatch, context_settings={"allow_interspersed_args": False})
@click.argument("script", nargs=-1, metavar="[SCRIPT [ARGS]...]")
@click.option("-J", "--job-name", default="sbatch", show_default=True, help="Name.")
@click.option("-p", "--partition", default="", help=f"Queue; else {DEFAULT_QUEUE}, made if missing.")
@click.option("-c", "--cpus-per-task", type=click.IntRange(1, 4096), default=1, show_default=True, help="Cores.")
@click.option(
    "--mem",
    type=memory_text,
    metavar="AMOUNT",
    default="1G",
    show_default=True,
    help="Memory, megabytes or with K, M, G, T.",
)
@click.option(
    "-t", "--time", "time_limit_s", type=seconds_of, metavar="TIME", help="Time limit: minutes, H:M:S or D-H:M:S."
)
@click.option(
    "-a",
    "--array",
    type=read_array,
    metavar="0-99[%10]",
    help="Indices of an array, in SLURM_ARRAY_TASK_ID; behind %, how many run at once.",
)
@click.option("-G", "--gpus", type=_gpus_of, metavar="COUNT", default="0", help="GPUs.")
@click.option("--gres", type=_gpus_of, metavar="gpu:COUNT", default="0", help="GPUs, as in gpu:1.")
@click.option("-d", "--dependency", type=_others_of, metavar="afterok:ID", help="afterok:ID or afterany:ID.")
@click.option("-n", "--ntasks", type=_one, metavar="1", default="1", help="1; more are no job here.")
@click.option("-N", "--nodes", type=_one, metavar="1", default="1", help="1; more are no job here.")
@click.option("--wrap", default="", help="A shell's command line, instead of a script.")
@click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="Image; no option of Slurm's.")
@click.option("--root", is_flag=True, help="Run it as the image's own user; no option of Slurm's.")
@click.option("--parsable", is_flag=True, help="Print the id alone.")
@common_options
@click.pass_context
def sbatch(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    /,
    *,
    script: tuple[str, ...],
    job_name: str,
    partition: str,
    cpus_per_task: int,
    mem: str,
    array: Array | None,
    gpus: int,
    gres: int,
    dependency: tuple[str, tuple[str, ...]] | None,
    wrap: str,
    parsable: bool,
    **rest: Any,  # noqa: ANN401 - options that are passed on, and those that can be 1 only
) -> int:
    """Submit SCRIPT, whose #SBATCH lines are options as well; what the job writes `argosy logs` shows."""
    if bool(script) == bool(wrap):
        raise click.UsageError("give a script, or a command line with --wrap", context)
    if script and not Path(script[0]).is_file():
        raise click.UsageError(f"there is no file {script[0]}", context)
    variables = [f"SLURM_JOB_NAME={job_name}", f"SLURM_CPUS_PER_TASK={cpus_per_task}"]
    variables += ["SLURM_ARRAY_TASK_ID=$(ARGOSY_ARRAY_INDEX)"] if array else []
    drafts = make_drafts(
        partition or DEFAULT_QUEUE,
        ("/bin/sh", "-c", wrap) if wrap else script[1:],
        name=_name_of(job_name),
        array=array,
        time_limit_s=rest["time_limit_s"],
        priority=0,
        image=rest["image"],
        cpu=str(cpus_per_task),
        mem=mem,
        gpu=gpus or gres,
        variables=tuple(variables),
        script=Path(script[0]) if script else None,
        root=rest["root"],
    )
    until, others = dependency or ("succeeded", ())
    drafts = [replace(draft, after_until=until) for draft in drafts]
    ids = call(settings_of(context), partial(_submit, drafts=drafts, after=others, makes_queue=not partition))
    click.echo(short_id(ids[0]) if parsable else f"Submitted batch job {short_id(ids[0])}")
    if len(ids) > 1:
        click.echo(f"and {len(ids) - 1} more, up to {short_id(ids[-1])}, in job set {drafts[0].job_set}", err=True)
    return ExitCode.OK


@slurm.command("squeue")
@click.option("-p", "--partition", default="", help="Queue.")
@click.option("-j", "--jobs", "wanted", default="", help="Ids, joined by commas.")
@click.option("--me", is_flag=True, help="Taken and without effect: what you may see is listed.")
@common_options
@click.pass_context
def squeue(context: click.Context, /, *, partition: str, wanted: str, me: bool) -> None:
    """List the jobs that have not ended."""
    del me

    async def fetch(client: ArgosyClient) -> list[Job]:
        told, _ = await with_stages(client, await find(client))
        return told

    async def find(client: ArgosyClient) -> list[Job]:
        if wanted:
            found, _ = await client.get_jobs(await whole_ids(client, wanted.split(",")))
            return [job for job in found if job.state in _SHORT_STATES]
        listed: list[Job] = []
        async for job in client.list_jobs(make_selector(partition, "", tuple(_SHORT_STATES), "")):
            listed.append(job)
            if len(listed) == _MOST_LISTED:
                click.echo(f"there are more than {_MOST_LISTED}; `argosy jobs --limit` shows more", err=True)
                break
        return listed

    columns: list[Column[Job]] = [
        Column("JOBID", lambda j: short_id(j.id), right=True),
        Column("PARTITION", lambda j: j.queue),
        Column("NAME", lambda j: j.job_set),
        Column("ST", lambda j: _SHORT_STATES[j.state]),
        Column("TIME", _time_text, right=True),
        Column("NODES", lambda j: str(len({run.node for run in j.runs[-1:]})), right=True),
        Column("NODELIST(REASON)", _place_text),
    ]
    settings = settings_of(context)
    print_rows(settings, call(settings, fetch), columns, empty="no jobs")


def _place_text(job: Job) -> str:
    """Return the node of a job, or what it waits for in Slurm's words."""
    run = told_run(job)
    return run.node if run and job.state != "queued" else f"({_REASONS.get(job.wait_reason, 'Priority')})"


def _time_text(job: Job) -> str:
    began = start_time(job)
    return "0s" if began is None else age_text(began, now=end_time(job))


@slurm.command("scancel")
@click.argument("job_ids", nargs=-1, required=True)
@common_options
@click.pass_context
def scancel(context: click.Context, /, *, job_ids: tuple[str, ...]) -> int:
    """End the jobs JOB_IDS."""

    async def cancel(client: ArgosyClient) -> tuple[str, ...]:
        answer = await client.cancel_jobs(await whole_ids(client, job_ids), reason="scancel")
        return answer.unknown_ids

    unknown = call(settings_of(context), cancel)
    for job_id in unknown:
        click.echo(f"scancel: error: Invalid job id {job_id}", err=True)
    return ExitCode.NOT_FOUND if unknown else ExitCode.OK


@slurm.command("sinfo")
@common_options
@click.pass_context
def sinfo(context: click.Context) -> None:
    """List the clusters."""

    async def fetch(client: ArgosyClient) -> list[Cluster]:
        return [cluster async for cluster in client.list_clusters()]

    columns: list[Column[Cluster]] = [
        Column("CLUSTER", lambda c: c.name),
        Column("AVAIL", lambda c: "up" if c.sampler_connected and c.executor_connected else "down"),
        Column("NODES", lambda c: str(c.node_count), right=True),
        Column("STATE", _state_text),
    ]
    settings = settings_of(context)
    print_rows(settings, call(settings, fetch), columns, empty="no cluster has ever connected")


def _state_text(cluster: Cluster) -> str:
    if cluster.cordoned:
        return "drain"
    free, total = cluster.free.get("cpu", 0), cluster.total.get("cpu", 0)
    return "idle" if free == total else "alloc" if free <= 0 else "mix"

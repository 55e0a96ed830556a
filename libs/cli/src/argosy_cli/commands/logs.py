"""`argosy logs`: what a job's container wrote."""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from argosy_cli.job_ids import whole_id
from argosy_cli.options import common_options, duration, settings_of
from argosy_cli.output import TerminalText
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from argosy_client import ArgosyClient, Job

__all__ = ["PrintedLog", "logs", "stream_log"]

_POLL_S: Final = 0.5
_EXPLAIN_POLLS: Final = 4
"""A job that waits is asked why after so many polls, and again after as many."""
_NO_COLOUR: Final = "\x1b[0m"


@click.command()
@click.argument("job_id")
@click.option("-f", "--follow", is_flag=True, help="Go on while the container writes; wait for a job that waits.")
@click.option("--tail", type=click.IntRange(0, 1_000_000), help="Begin so many lines before the end.")
@click.option("-c", "--container", default="", help="Container; the first if not given.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time at which the cluster took it.")
@click.option(
    "--since",
    "since_s",
    type=duration,
    metavar="TIME",
    help="Only lines of this time back, as in 90s, 6h or 7d.",
)
@click.option("--all-containers", is_flag=True, help="Every container of the pod, one after another, by name.")
@click.option("--pod", type=click.IntRange(0, 31), default=0, show_default=True, help="Which of the job's pods.")
@click.option("--attempt", type=click.IntRange(1, 32_767), help="Attempt; the newest if not given.")
@click.option("--member", type=click.IntRange(0, 32_767), default=0, show_default=True, help="Which of its members.")
@click.option("--raw", is_flag=True, help="Send a terminal whatever the container wrote, commands to it included.")
@common_options
@click.pass_context
def logs(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    /,
    *,
    job_id: str,
    tail: int | None,
    since_s: int | None,
    container: str,
    pod: int,
    attempt: int | None,
    member: int,
    **flags: bool,
) -> None:
    """Print what a container of the job JOB_ID wrote, as it wrote it.

    On a terminal colours pass and other escape sequences are shown, so that no job commands it; into a file or a pipe
    everything goes as it is.

    Logs are read from the job's cluster for as long as its pod is there, and afterwards from what its executor has kept
    of them, by default of pods that failed on `argosy up`. The form of the output (-o) does not matter here.
    """
    if flags["all_containers"] and (container or flags["follow"]):
        raise click.UsageError("--all-containers goes with neither --container nor --follow", context)

    async def show(client: ArgosyClient) -> None:
        whole = await whole_id(client, job_id)
        if flags["follow"] and attempt is None:
            await _wait_for_pod(client, whole)
        names = [container]
        if container:
            _check_container(await client.get_job(whole), pod, container)
        since = None if since_s is None else datetime.now(UTC) - timedelta(seconds=since_s)
        if flags["all_containers"]:
            names = _container_names(await client.get_job(whole), pod)
        for number, name in enumerate(names):
            if flags["all_containers"]:
                click.echo(f"{chr(10) if number else ''}==> {name} <==")
            pieces = client.read_log(
                whole,
                attempt=attempt or 0,
                member=member,
                pod=pod,
                container=name,
                follow=flags["follow"],
                tail_line_count=tail,
                timestamps=flags["timestamps"],
                since=since,
            )
            await _print(pieces, is_raw=flags["raw"])

    call(settings_of(context), show)


def _container_names(job: Job, pod: int) -> list[str]:
    """Return the names of the containers of a job's pod, as its manifest says, init containers first, as they run.

    Raises:
        NotFound: It has no such pod.
    """
    import json

    pods = [one for one in map(json.loads, job.manifests) if one.get("kind") == "Pod"]
    if pod >= len(pods):
        raise NotFound(f"job {job.id} has {len(pods)} pods, counted from 0; there is no pod {pod}")
    spec = pods[pod].get("spec") or {}
    return [one["name"] for key in ("initContainers", "containers") for one in spec.get(key) or ()]


def _check_container(job: Job, pod: int, name: str) -> None:
    """Refuse a container that the manifest of a pod does not have; pods that something else makes are not known here.

    Raises:
        NotFound: There is none of that name.
    """
    try:
        names = _container_names(job, pod)
    except NotFound:
        return
    if names and name not in names:
        raise NotFound(f"pod {pod} of job {job.id} has no container {name!r}; it has {', '.join(names)}")


@dataclass(slots=True)
class PrintedLog:
    """How much of a log has been printed."""

    byte_count: int = 0
    """From its beginning on."""


async def stream_log(client: ArgosyClient, job_id: str, printed: PrintedLog) -> None:
    """Print what the first container of a job writes until it ends, from the moment it has a pod.

    Args:
        client: Of the server.
        job_id: The job.
        printed: What is left out, because it was printed before; grows by what is printed now.

    Raises:
        NotFound: It ended without a pod, or its pod is gone.
    """
    await _wait_for_pod(client, job_id)
    await _print(_behind(client.read_log(job_id, follow=True), printed), is_raw=False)


async def _behind(pieces: AsyncGenerator[bytes, None], printed: PrintedLog) -> AsyncGenerator[bytes, None]:
    """Yield what of a log has not been printed, and count it as printed."""
    async with contextlib.aclosing(pieces):
        left_count = printed.byte_count
        async for piece in pieces:
            rest = piece[left_count:]
            left_count -= len(piece) - len(rest)
            printed.byte_count += len(rest)
            if rest:
                yield rest


async def _print(pieces: AsyncGenerator[bytes, None], *, is_raw: bool) -> None:
    """Print a log as it comes; a terminal gets what it may get, unless it is to get all."""
    async with contextlib.aclosing(pieces):
        if is_raw or not sys.stdout.isatty():
            async for piece in pieces:
                _write(piece)
        else:
            await _show(pieces)


def _write(piece: bytes) -> None:
    """Print bytes as they are; where the output takes text only, as text."""
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(piece.decode(errors="replace"))
    else:
        out.write(piece)
        out.flush()


async def _show(pieces: AsyncIterator[bytes]) -> None:
    """Print bytes as a terminal may get them; a colour that was left on ends with them."""
    text = TerminalText()
    try:
        async for piece in pieces:
            click.echo(text.read(piece), nl=False, color=True)
    finally:
        click.echo(text.read(b"", is_last=True) + _NO_COLOUR, nl=False, color=True)


async def _wait_for_pod(client: ArgosyClient, job_id: str) -> None:
    """Return once a job has a pod, or will get none; say why it waits, and again when that changes.

    Raises:
        NotFound: There is no such job, or it ended without a pod.
    """
    import asyncio

    told = ""
    for poll in itertools.count():
        job = await client.get_job(job_id)
        if _has_pod(job):
            return
        if job.state not in {"queued", "leased", "running"}:
            raise NotFound(f"job {job_id} ended, {job.state}, and nothing is known of a pod; it wrote nothing")
        if not told:
            told = f"the job is {job.state}; waiting for its pod"
            click.echo(told, err=True)
        elif job.state == "queued" and poll % _EXPLAIN_POLLS == 0:
            found = await client.explain_job(job_id)
            why = found.summary + (f" ({found.nearest_miss})" if found.nearest_miss else "")
            if why != told:
                told = why
                click.echo(told, err=True)
        await asyncio.sleep(_POLL_S)


def _has_pod(job: Job) -> bool:
    return bool(job.runs) and (job.runs[-1].state != "leased" and job.state != "queued")

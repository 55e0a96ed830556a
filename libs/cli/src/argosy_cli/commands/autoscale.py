"""`argosy autoscale`: pods that are resized while they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from argosy_cli.job_ids import whole_id
from argosy_cli.job_text import scaling_text
from argosy_cli.options import Settings, common_options, settings_of
from argosy_cli.output import Column, age_text, amount_text, print_rows, time_text
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, ScaledPod

__all__ = ["autoscale"]


@click.group()
def autoscale() -> None:
    """Show pods that are resized while they run, and why they have their sizes."""


@autoscale.command("list")
@click.option("--cluster", "cluster_name", default="", help="Only pods of this cluster.")
@click.option("-q", "--queue", default="", help="Only pods of jobs of this queue.")
@common_options
@click.pass_context
def list_pods(context: click.Context, *, cluster_name: str, queue: str) -> None:
    """List the pods that are resized: what they asked for, may have, and have."""

    async def fetch(client: ArgosyClient) -> list[ScaledPod]:
        return [
            pod
            for name in await _clusters(client, cluster_name)
            async for pod in client.list_scaled_pods(name)
            if queue in {"", pod.queue}
        ]

    settings = settings_of(context)
    _print(settings, call(settings, fetch), empty="no pods are resized")


@autoscale.command("show")
@click.argument("job")
@common_options
@click.pass_context
def show_job(context: click.Context, *, job: str) -> None:
    """Show the resized pods of JOB, an id or the end of one, and within what they are resized."""

    async def fetch(client: ArgosyClient) -> tuple[list[ScaledPod], str]:
        job_id = await whole_id(client, job)
        found = [
            pod for name in await _clusters(client, "") async for pod in client.list_scaled_pods(name, job_id=job_id)
        ]
        return _known(found, job), scaling_text((await client.get_job(job_id)).scaling)

    settings = settings_of(context)
    pods, within = call(settings, fetch)
    column: Column[ScaledPod] = Column("WITHIN", lambda _: within or "as its manifest says")
    _print(settings, pods, column, empty="")


@autoscale.command("history")
@click.argument("job")
@common_options
@click.pass_context
def show_history(context: click.Context, *, job: str) -> None:
    """Show what the resized pods of JOB were, oldest first, as far as the leader remembers."""

    async def fetch(client: ArgosyClient) -> list[ScaledPod]:
        job_id = await whole_id(client, job)
        found = [pod for name in await _clusters(client, "") for pod in await client.get_scaling_history(name, job_id)]
        return _known(found, job)

    settings = settings_of(context)
    since: Column[ScaledPod] = Column("SINCE", lambda pod: time_text(pod.since))
    print_rows(settings, call(settings, fetch), [since, *_columns()], empty="")


async def _clusters(client: ArgosyClient, name: str) -> list[str]:
    return [name] if name else [cluster.name async for cluster in client.list_clusters()]


def _known(found: list[ScaledPod], job: str) -> list[ScaledPod]:
    """Return pods, of which there is one.

    Raises:
        NotFound: There is none.
    """
    if not found:
        raise NotFound(f"no pod of job {job} is resized: it does not run, or has no bounds (docs/autoscale.md)")
    return found


def _print(settings: Settings, pods: list[ScaledPod], *more: Column[ScaledPod], empty: str) -> None:
    age: Column[ScaledPod] = Column("FOR", lambda pod: age_text(pod.since), right=True)
    print_rows(settings, pods, [*_columns(), age, *more], empty=empty, is_paged=True)


def _columns() -> list[Column[ScaledPod]]:
    return [
        Column("JOB", lambda pod: pod.job_id),
        Column("MEMBER", lambda pod: str(pod.member), right=True, wide=True),
        Column("ATTEMPT", lambda pod: str(pod.attempt), right=True, wide=True),
        Column("QUEUE", lambda pod: pod.queue),
        Column("CLUSTER", lambda pod: pod.cluster),
        Column("REQUESTED", lambda pod: _amounts_text(pod.requested)),
        Column("APPROVED", lambda pod: _amounts_text(pod.approved)),
        Column("ACTUAL", lambda pod: _amounts_text(pod.actual)),
        Column("WHY", lambda pod: pod.state),
    ]


def _amounts_text(amounts: Mapping[str, int]) -> str:
    held = [f"{amount_text(name, amount)} {name}" for name, amount in amounts.items() if amount]
    return ", ".join(held) or "-"

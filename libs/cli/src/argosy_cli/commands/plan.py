"""`argosy plan`: what would become of jobs if they were submitted now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import click

from argosy_cli.commands.submit import expanded
from argosy_cli.exits import ExitCode
from argosy_cli.options import common_options, settings_of
from argosy_cli.output import pool_part_text, print_value, shown, time_text, weightless_text
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, ItemPlan, JobDraft, Plan

__all__ = ["plan"]


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@click.option("-f", "--file", "files", multiple=True, help="As of `argosy submit`; may be repeated.")
@click.option("--queue", default="", help="Queue of all documents, whatever they name.")
@click.option("--job-set", default="", help="Job set of all documents, whatever they name.")
@click.option(
    "--validate",
    "validation",
    type=click.Choice(("strict", "warn", "ignore")),
    default="strict",
    show_default=True,
    help="What to do with fields of manifests that Kubernetes does not know.",
)
@common_options
@click.pass_context
def plan(
    context: click.Context,
    /,
    *,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    queue: str,
    job_set: str,
    validation: Literal["strict", "warn", "ignore"],
) -> int:
    """Say what would become of jobs if they were submitted now: where they would start, or why and how long they wait.

    The pool's leader does real rounds on a copy of its memory; nothing is submitted. Up to 10,000 jobs of 1,000
    documents. Exit code 2 if some of them could never run on the nodes that are known.
    """
    from argosy_client.documents import DocumentOptions, name_places, name_warnings, read_documents
    from argosy_core.errors import ArgosyError

    if not paths and not files:
        raise click.UsageError("give files to plan, or - for standard input", context)
    settings = settings_of(context)
    drafts = read_documents(expanded((*paths, *files)), DocumentOptions(queue=queue, job_set=job_set))

    async def fetch(client: ArgosyClient) -> Plan:
        try:
            return await client.plan_jobs(drafts, validation=validation)
        except ArgosyError as error:
            raise name_places(error, drafts) from error

    answer = call(settings, fetch)
    for told in name_warnings(answer.warnings, drafts):
        click.echo(shown(f"warning: {told.field}: {told.description}"), err=True)
    if settings.is_table:
        _print(drafts, answer)
    else:
        print_value(settings, answer)
    return ExitCode.USAGE if any(item.can_never_run for item in answer.items) else ExitCode.OK


def _print(drafts: tuple[JobDraft, ...], answer: Plan) -> None:
    """Print a plan for people."""
    for draft, item in zip(drafts, answer.items, strict=True):
        where = f"{draft.place.source}, document {draft.place.number}" if draft.place else draft.queue
        click.echo(shown(f"{where}: {_item_text(item)}"))
    if answer.other_started_count:
        click.echo(f"{answer.other_started_count:,} other waiting jobs would start before or beside them")
    for one in answer.preemptions:
        click.echo(shown(f"would be stopped: {one.job_id} ({one.queue}) on {one.cluster}/{one.node}: {one.reason}"))
    for change in answer.share_changes:
        amounts = (
            change.usage_before_cores,
            change.usage_after_cores,
            change.entitled_before_cores,
            change.entitled_after_cores,
        )
        parts = [pool_part_text(cores, answer.capacity_cores) for cores in amounts]
        holds, entitled = " -> ".join(parts[:2]), " -> ".join(parts[2:])
        click.echo(shown(f"queue {change.queue}: holds {holds} of the pool, entitled to {entitled}"))
    if answer.share_changes and answer.weightless_resources:
        click.echo(shown(weightless_text(answer.weightless_resources)))
    if not answer.complete:
        click.echo("time was up before nothing more could be placed: more may start than is said here", err=True)


def _item_text(item: ItemPlan) -> str:
    """Return what would become of the jobs of one document."""
    texts = []
    if item.placed_count:
        by_cluster: Counter[str] = Counter()
        for place in item.places:
            by_cluster[place.cluster] += max(place.member_count, place.job_count)
        pods = " pods" if by_cluster.total() > item.placed_count else ""
        where = ", ".join(f"{count:,}{pods} on {cluster}" for cluster, count in by_cluster.items())
        first = item.places[0]
        node = f" (first {first.cluster}/{first.node})"
        texts.append(f"{item.placed_count:,} would start at once: {where}{node}")
    waiting = item.first_waiting
    if waiting is not None:
        texts.append(f"{item.waiting_count:,} would wait: {waiting.why or waiting.summary}")
        if waiting.promised_start is not None:
            kind = "firm" if waiting.promised_start.firm else "expected"
            texts.append(f"promised {waiting.promised_start.node} by {time_text(waiting.promised_start.time)} ({kind})")
        elif waiting.expected_start is not None:
            latest = waiting.expected_start.latest
            until = f" to {time_text(latest)}" if latest else ""
            texts.append(f"expected to start from {time_text(waiting.expected_start.earliest)}{until}")
    return "; ".join(texts)

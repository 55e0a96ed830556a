"""`argosy shares`: who has what share."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, amount_text, known_text, part_text, pool_part_text, print_rows, print_value
from argosy_cli.session import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy_client import QueueShare, ResourceCapacity, ResourceShare, Shares

__all__ = ["shares"]

_GIB = 1 << 30


@click.command()
@click.option("--pool", default="", help="Pool; the default one if not given.")
@common_options
@click.pass_context
def shares(context: click.Context, *, pool: str) -> None:
    """Show what each queue asks for, has running and is entitled to: of the whole pool, then of each resource.

    Of the pool every resource counts by its weight, which is told below; MOST OF is the resource of which the queue has
    the largest part. With -o wide and in JSON the amounts stand in cores of weighted resources, too.
    """
    settings = settings_of(context)
    answer = call(settings, lambda client: client.get_shares(pool))
    if not settings.is_table:
        print_value(settings, answer if settings.output != "jsonl" else answer.shares)
        return
    print_rows(settings, answer.shares, _queue_columns(answer), empty="no queues have or had work")
    weightless = {one.resource for one in answer.resources if not one.unit_cores}
    rows = [(share.queue, one) for share in answer.shares for one in share.resources if one.resource != "pods"]
    if rows:
        click.echo()
        print_rows(settings, rows, _resource_columns(weightless), empty="")
    if answer.capacity_cores is None:
        click.echo(
            "capacity of the pool: not known, since none of its clusters is connected (yet); so no parts of it",
            err=True,
        )
    else:
        click.echo(f"capacity of the pool: {answer.capacity_cores:,.1f} cores of weighted resources", err=True)
    for capacity in answer.resources:
        click.echo(f"  {_capacity_text(capacity)}", err=True)


def _queue_columns(answer: Shares) -> list[Column[QueueShare]]:
    """Return the columns of what queues have of the pool; in cores in wide tables."""
    capacity = answer.capacity_cores
    amounts = {one.resource: one.capacity for one in answer.resources if one.unit_cores}

    def most_of(share: QueueShare) -> str:
        """Return the resource of which a queue has the largest part, with that."""
        known = [one for one in share.resources if amounts.get(one.resource)]
        parts = [(one.running / amounts[one.resource], one.resource) for one in known]
        part, resource = max(parts, default=(0.0, ""))
        return f"{part_text(part)} {resource}" if part else "-"

    columns: list[Column[QueueShare]] = [
        Column("QUEUE", lambda s: s.queue),
        Column("PARENT", lambda s: s.parent or "-", wide=True),
        Column("WEIGHT", lambda s: f"{s.weight:g}", right=True),
        Column("SHARE", lambda s: part_text(s.fair_share_ratio), right=True),
    ]
    names = {"REQUESTED": "demand", "RUNNING": "usage", "ENTITLED": "entitled", "FLOW": "flow"}
    for name, field in names.items():
        columns += _amount_columns(name, attrgetter(f"{field}_cores"), capacity)
    return [
        *columns,
        Column("MOST OF", most_of, right=True),
        Column("NON-PREEMPTIBLE", _capped_text, right=True, wide=True),
        Column("BUDGET", _budget_text, right=True, wide=True),
        Column("HELD BACK", _held_back_text, right=True, wide=True),
        Column("QUEUED", lambda s: f"{s.queued_count:,}", right=True),
        Column("PENDING", lambda s: f"{s.pending_count:,}", right=True),
        Column("LEASED", lambda s: f"{s.leased_count:,}", right=True),
    ]


def _amount_columns(
    name: str, cores: Callable[[QueueShare], float | None], capacity: float | None
) -> list[Column[QueueShare]]:
    """Return the columns of one amount: of the pool, and in cores."""
    return [
        Column(name, lambda s: pool_part_text(cores(s), capacity), right=True),
        Column(f"{name} CORES", lambda s: known_text(cores(s)), right=True, wide=True),
    ]


def _capped_text(share: QueueShare) -> str:
    """Return the flow of jobs without a lifetime, and its cap, in cores."""
    return f"{share.non_preemptible_flow_cores:,.1f}/{known_text(share.non_preemptible_cap_cores)}"


def _held_back_text(share: QueueShare) -> str:
    """Return how many jobs limits hold back, and by which."""
    limit = f" at {share.max_running_count:,} running" if share.max_running_count else ""
    texts = [f"{share.limited_count:,}{limit}"] if share.limited_count else []
    if share.rate_limited_count:
        texts.append(f"{share.rate_limited_count:,} at {share.lease_rate_per_s:g}/s")
    return ", ".join(texts) or "-"


def _budget_text(share: QueueShare) -> str:
    """Return what is taken of the excess flow budget, in core-minutes."""
    return f"{share.charged_core_min:,.0f}/{known_text(share.budget_core_min, digits=0)}"


def _resource_columns(weightless: set[str]) -> list[Column[tuple[str, ResourceShare]]]:
    """Return the columns of what queues have of single resources; those that weigh nothing are marked."""
    return [
        Column("QUEUE", lambda row: row[0]),
        Column("RESOURCE", lambda row: row[1].resource),
        Column("REQUESTED", lambda row: amount_text(row[1].resource, row[1].requested), right=True),
        Column("RUNNING", lambda row: amount_text(row[1].resource, row[1].running), right=True),
        Column("ENTITLED", lambda row: _entitled_text(row[1]), right=True),
        Column("", lambda row: "weighs nothing" if row[1].resource in weightless else ""),
    ]


def _entitled_text(one: ResourceShare) -> str:
    """Return what a queue is entitled to of a resource."""
    return "-" if one.entitled is None else amount_text(one.resource, one.entitled)


def _capacity_text(one: ResourceCapacity) -> str:
    """Return what a pool has of a resource, and what that counts."""
    amount = amount_text(one.resource, one.capacity)
    if not one.unit_cores:
        return f"{one.resource}: {amount}, weighs nothing: whoever holds it is not seen as using anything"
    is_bytes = amount_text(one.resource, _GIB) == "1Gi"
    unit, cores = ("1 GiB", one.unit_cores * _GIB) if is_bytes else ("1", one.unit_cores)
    return f"{one.resource}: {amount}, {unit} counts {cores:.4g} cores"

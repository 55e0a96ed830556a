"""`argosy shares`: who has what share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, print_rows, print_value
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import QueueShare

__all__ = ["shares"]


@click.command()
@click.option("--pool", default="", help="Pool; the default one if not given.")
@common_options
@click.pass_context
def shares(context: click.Context, *, pool: str) -> None:
    """Show usage, flow, entitlement and demand of each queue, in cores of weighted resources."""
    settings = settings_of(context)
    answer = call(settings, lambda client: client.get_shares(pool))
    if not settings.is_table:
        print_value(settings, answer if settings.output != "jsonl" else answer.shares)
        return
    columns: list[Column[QueueShare]] = [
        Column("QUEUE", lambda s: s.queue),
        Column("WEIGHT", lambda s: f"{s.weight:g}", right=True),
        Column("SHARE", lambda s: f"{s.fair_share_ratio:.1%}", right=True),
        Column("USAGE", lambda s: f"{s.usage_cores:,.1f}", right=True),
        Column("ENTITLED", lambda s: f"{s.entitled_cores:,.1f}", right=True),
        Column("FLOW", lambda s: f"{s.flow_cores:,.1f}", right=True),
        Column("DEMAND", lambda s: f"{s.demand_cores:,.1f}", right=True, wide=True),
        Column("QUEUED", lambda s: f"{s.queued_count:,}", right=True),
        Column("PENDING", lambda s: f"{s.pending_count:,}", right=True),
        Column("LEASED", lambda s: f"{s.leased_count:,}", right=True),
    ]
    print_rows(settings, answer.shares, columns, empty="no queues have or had work")
    click.echo(f"capacity of the pool: {answer.capacity_cores:,.1f} cores", err=True)

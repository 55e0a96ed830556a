"""`argosy whoami`, `grant`, `revoke`, `grants`: who calls, and what is granted to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, duration, settings_of
from argosy_cli.output import Column, age_text, print_rows, print_value
from argosy_cli.session import call
from argosy_core.access import Grant, Role, Verb

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, AuditRecord

__all__ = ["audit", "grant", "grants", "revoke", "whoami"]

_VERBS = [*(str(verb) for verb in Verb), *(str(role) for role in Role)]


@click.command()
@common_options
@click.pass_context
def whoami(context: click.Context) -> None:
    """Show who the server takes you for, and what you may do."""
    settings = settings_of(context)
    identity = call(settings, lambda client: client.who_am_i())
    if not settings.is_table:
        print_value(settings, identity)
        return
    if not identity.name:
        click.echo("nobody: this server asks nobody who they are, and everybody may do everything")
        return
    click.echo(identity.name + (f", of cluster {identity.cluster}" if identity.cluster else ""))
    for title, values in (
        ("groups", identity.groups),
        ("roles", identity.roles),
        ("on queues", tuple(f"{one.verb} on {one.queue}" for one in identity.grants)),
    ):
        if values:
            click.echo(f"{title}: {', '.join(values)}")


@click.command()
@click.argument("subject")
@click.argument("verbs", nargs=-1, required=True, type=click.Choice(_VERBS))
@click.option("--queue", default="", help="Queue that the verbs are about; none for roles.")
@common_options
@click.pass_context
def grant(context: click.Context, *, subject: str, verbs: tuple[str, ...], queue: str) -> None:
    """Grant VERBS on a queue, or roles, to SUBJECT: user:NAME or group:NAME."""
    wanted = [Grant(subject=subject, queue=queue, verb=verb) for verb in verbs]
    call(settings_of(context), lambda client: client.add_grants(wanted))


@click.command()
@click.argument("subject")
@click.argument("verbs", nargs=-1, required=True, type=click.Choice(_VERBS))
@click.option("--queue", default="", help="Queue that the verbs are about; none for roles.")
@common_options
@click.pass_context
def revoke(context: click.Context, *, subject: str, verbs: tuple[str, ...], queue: str) -> None:
    """Take VERBS on a queue, or roles, from SUBJECT: user:NAME or group:NAME."""
    unwanted = [Grant(subject=subject, queue=queue, verb=verb) for verb in verbs]
    call(settings_of(context), lambda client: client.remove_grants(unwanted))


@click.command()
@click.option("--subject", default="", help="Only what this user:NAME or group:NAME may do.")
@click.option("--queue", default="", help="Only what may be done with this queue.")
@common_options
@click.pass_context
def grants(context: click.Context, *, subject: str, queue: str) -> None:
    """List what is granted to whom; administrators that servers' settings name are not among it."""

    async def fetch(client: ArgosyClient) -> list[Grant]:
        return [one async for one in client.list_grants(subject=subject, queue=queue)]

    settings = settings_of(context)
    columns: list[Column[Grant]] = [
        Column("SUBJECT", lambda g: g.subject),
        Column("QUEUE", lambda g: g.queue or "-"),
        Column("MAY", lambda g: g.verb),
    ]
    print_rows(settings, call(settings, fetch), columns, empty="nothing is granted to anybody")


@click.command()
@click.option("--principal", default="", help="Only what this caller changed.")
@click.option("--name", default="", help="Only changes of the queue, cluster, job or subject of this name or id.")
@click.option("--since", "since_s", type=duration, metavar="TIME", help="Only this time back, as in 90s, 6h or 7d.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most changes.")
@common_options
@click.pass_context
def audit(context: click.Context, *, principal: str, name: str, since_s: int | None, limit: int) -> None:
    """List who changed what, the newest first; submits are not among it, since jobs keep their submitter."""
    created_from = None if since_s is None else datetime.now(UTC) - timedelta(seconds=since_s)

    async def fetch(client: ArgosyClient) -> list[AuditRecord]:
        found: list[AuditRecord] = []
        records = client.list_audit_records(
            principal=principal, name=name, created_from=created_from, page_size=min(limit, 1000)
        )
        async for record in records:
            found.append(record)
            if len(found) == limit:
                break
        return found

    settings = settings_of(context)
    columns: list[Column[AuditRecord]] = [
        Column("AGE", lambda r: age_text(r.create_time), right=True),
        Column("WHO", lambda r: r.principal + (f" (by {r.acted_by})" if r.acted_by else "")),
        Column("FROM", lambda r: r.host, wide=True),
        Column("DID", lambda r: r.method.rpartition("/")[2]),
        Column("KIND", lambda r: r.kind),
        Column("NAME", lambda r: r.name),
        Column("DETAIL", lambda r: r.detail or "-"),
    ]
    print_rows(
        settings,
        call(settings, fetch),
        columns,
        empty="no change is on record; a server that asks nobody who they are keeps none",
    )

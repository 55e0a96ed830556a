"""`argosy whoami`, `grant`, `revoke`, `grants`: who calls, and what is granted to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, print_rows, print_value
from argosy_cli.session import call
from argosy_core.access import Grant, Role, Verb

if TYPE_CHECKING:
    from argosy_client import ArgosyClient

__all__ = ["grant", "grants", "revoke", "whoami"]

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

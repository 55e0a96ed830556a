"""`argosy admin quarantine`: what leaders have set aside, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from argosy_cli.options import Settings, output_options, settings_of
from argosy_cli.output import Column, print_rows, print_value

if TYPE_CHECKING:
    from argosy_store.terms.suspects import SetAsideRow

__all__ = ["quarantine_group"]

_KINDS = ("job", "change", "record", "class", "sampler", "executor", "unread change", "unread record")


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat("T", "seconds")


def quarantine_group(
    database: Callable[[Settings, str, str], str], database_options: Callable[..., Any]
) -> click.Group:
    """Return the commands.

    Args:
        database: Finds the database that options mean.
        database_options: Adds these options to a command.
    """

    @click.group()
    def quarantine() -> None:
        """What leaders set aside because it could not be applied, or ended one."""

    @quarantine.command("list")
    @database_options
    @output_options
    @click.pass_context
    def list_command(context: click.Context, *, database_url: str, database_password_file: str) -> None:
        """List what is set aside, oldest first."""
        from argosy_store.terms.suspects import list_set_aside

        settings = settings_of(context)
        rows = list_set_aside(database(settings, database_url, database_password_file))
        columns: list[Column[SetAsideRow]] = [
            Column("POOL", lambda row: row.pool),
            Column("KIND", lambda row: row.kind),
            Column("KEY", lambda row: row.key),
            Column(
                "SINCE", lambda row: datetime.fromtimestamp(row.create_time_us / 1e6, UTC).isoformat("T", "seconds")
            ),
            Column("ERROR", lambda row: row.error),
        ]
        print_rows(settings, rows, columns, empty="nothing is set aside")

    @quarantine.command()
    @click.argument("kind", type=click.Choice(_KINDS))
    @click.argument("key")
    @click.option("--pool", default="default", show_default=True, help="Pool.")
    @database_options
    @output_options
    @click.pass_context
    def retry(
        context: click.Context, *, kind: str, key: str, pool: str, database_url: str, database_password_file: str
    ) -> None:
        """Let something be tried again: changes and clusters at once, the rest by the next leader."""
        from argosy_store.terms.suspects import retry_set_aside

        settings = settings_of(context)
        retry_set_aside(database(settings, database_url, database_password_file), pool, kind=kind, key=key)
        _tell(settings, kind, key, "tried again")

    @quarantine.command()
    @click.argument("kind", type=click.Choice(_KINDS))
    @click.argument("key")
    @click.option("--pool", default="default", show_default=True, help="Pool.")
    @database_options
    @output_options
    @click.pass_context
    def drop(
        context: click.Context, *, kind: str, key: str, pool: str, database_url: str, database_password_file: str
    ) -> None:
        """Give up a change or a record for good."""
        from argosy_store.terms.suspects import drop_set_aside

        settings = settings_of(context)
        drop_set_aside(database(settings, database_url, database_password_file), pool, kind=kind, key=key)
        _tell(settings, kind, key, "dropped")

    return quarantine


def _tell(settings: Settings, kind: str, key: str, done: str) -> None:
    """Say what was done."""
    if settings.is_table:
        click.echo(f"{kind} {key} is {done}")
    else:
        print_value(settings, {"kind": kind, "key": key, "done": done})

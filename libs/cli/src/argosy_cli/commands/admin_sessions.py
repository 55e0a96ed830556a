"""`argosy admin sessions`: which sessions leaders ended because of what was said there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from argosy_cli.options import Settings, output_options, settings_of
from argosy_cli.output import Column, print_rows

if TYPE_CHECKING:
    from argosy_store.terms.ended_sessions import EndedSession

__all__ = ["sessions_command"]


def sessions_command(
    database: Callable[[Settings, str, str], str], database_options: Callable[..., Any]
) -> click.Command:
    """Return `argosy admin sessions`, which lists sessions that leaders ended for what was said there.

    Args:
        database: Finds the database that options mean.
        database_options: Adds these options to a command.
    """

    @click.command("sessions")
    @database_options
    @output_options
    @click.pass_context
    def sessions(context: click.Context, *, database_url: str, database_password_file: str) -> None:
        """List sessions of samplers and executors that leaders ended for what was said there, oldest first."""
        from argosy_store.terms.ended_sessions import list_ended_sessions

        settings = settings_of(context)
        rows = list_ended_sessions(database(settings, database_url, database_password_file))
        columns: list[Column[EndedSession]] = [
            Column("POOL", lambda row: row.pool),
            Column("CLUSTER", lambda row: row.cluster),
            Column("ROLE", lambda row: row.role),
            Column("HOST", lambda row: row.host),
            Column("ENDED", lambda row: datetime.fromtimestamp(row.end_time_us / 1e6, UTC).isoformat("T", "seconds")),
            Column("REASON", lambda row: row.reason),
        ]
        print_rows(settings, rows, columns, empty="no session was ended for what was said there")

    return sessions

"""`argosy apply`: make queues, limits, grants and cordons as files declare them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy_cli.exits import ExitCode
from argosy_cli.options import common_options, settings_of
from argosy_cli.output import print_value, shown
from argosy_cli.session import call
from argosy_core.errors import ArgosyError, InvalidRequest

if TYPE_CHECKING:
    from argosy_client import ArgosyClient
    from argosy_client.declared import Change, Declared, Present

__all__ = ["apply"]

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


@click.command()
@click.option("-f", "--file", "path", required=True, metavar="FILE", help="YAML or JSON file, or - for standard input.")
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@common_options
@click.pass_context
def apply(context: click.Context, *, path: str, dry_run: bool) -> int:
    """Make queues, their limits and grants, roles and cordons as FILE declares them, and show what changes.

    The file has the lists queues, roles and clusters. What it does not name stays as it is, and nothing is deleted. It
    is read and compared whole before anything is changed: a file that is wrong anywhere changes nothing.
    """
    from argosy_client.declared import compare
    from argosy_client.declared_reader import read_declared

    settings = settings_of(context)
    declared = read_declared(_text(path), source=path)

    async def carry_out(client: ArgosyClient) -> list[Change]:
        changes = compare(declared, await _present(client, declared))
        if settings.is_table:
            _print(changes)
        for number, change in enumerate(() if dry_run else changes):
            try:
                await change.make(client)
            except ArgosyError:
                made = sum(len(one.lines) for one in changes[:number])
                click.echo(f"stopped at: {shown(change.lines[0])}; of the lines above, the first {made} hold", err=True)
                raise
        return changes

    changes = call(settings, carry_out)
    if not settings.is_table:
        print_value(settings, {"changes": [list(change.lines) for change in changes], "applied": not dry_run})
    elif not changes:
        click.echo("everything is as declared")
    elif dry_run:
        click.echo("nothing was changed", err=True)
    return ExitCode.OK


def _text(path: str) -> str:
    """Return what a file says.

    Raises:
        InvalidRequest: It cannot be read.
    """
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidRequest(f"{path}: cannot be read: {getattr(cause, 'strerror', None) or cause}") from cause


async def _present(client: ArgosyClient, declared: Declared) -> Present:
    """Return what there is of all that is declared."""
    from argosy_client.declared import Present

    named = {cluster.name for cluster in declared.clusters}
    clusters = {one.name: one async for one in client.list_clusters() if one.name in named} if named else {}
    with_nodes = {one.name for one in declared.clusters if one.nodes}
    return Present(
        queues={one.name: one async for one in client.list_queues()} if declared.queues else {},
        grants=frozenset([one async for one in client.list_grants()]) if declared.says_grants else frozenset(),
        clusters=clusters,
        nodes={
            name: frozenset([node.name async for node in client.list_nodes(name)])
            for name, cluster in clusters.items()
            if name in with_nodes and cluster.sampler_connected
        },
    )


def _print(changes: Sequence[Change]) -> None:
    """Show what changes, coloured on a terminal."""
    for change in changes:
        for line in change.lines:
            click.echo(click.style(shown(line), fg=_COLOURS.get(line[0])))

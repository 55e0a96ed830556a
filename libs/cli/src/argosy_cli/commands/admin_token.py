"""`argosy admin token`: a secret for a user or a process, and what the server keeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from argosy_cli.options import new_secret_file, output_options, settings_of
from argosy_cli.output import print_value
from argosy_core.access import ClusterPart, is_subject

__all__ = ["token_command"]


@click.command("token")
@click.argument("name", default="")
@click.option("--group", "groups", multiple=True, help="Group of the user; may be given many times.")
@click.option("--cluster", default="", help="Make it for the processes of a cluster instead of a user.")
@click.option(
    "--part", type=click.Choice([str(part) for part in ClusterPart]), help="For this process of the cluster alone."
)
@click.option(
    "--for-servers", "is_server", is_flag=True, help="Make it for servers, which forward calls to each other."
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="New file that gets the token, for its holder alone (mode 0600).",
)
@output_options
@click.pass_context
def token_command(
    context: click.Context,
    *,
    name: str,
    groups: tuple[str, ...],
    cluster: str,
    part: str | None,
    is_server: bool,
    secret_file: Path,
) -> None:
    """Draw a token for the user NAME, for a cluster or for servers.

    The token goes to the file alone. What is printed is the entry for the file that `access.tokens_file` of servers
    names, under its key `tokens`; nobody can make the token of it.
    """
    from argosy_client import hash_token, new_token

    if [bool(name), bool(cluster), is_server].count(True) != 1:
        raise click.UsageError("Whose token? Give a NAME, or --cluster, or --for-servers.", context)
    odd = next((text for text in (name, *groups) if text and not is_subject(f"user:{text}")), None)
    if odd is not None:
        raise click.UsageError(f"{odd!r} is no name: it has spaces or commas.", context)
    token = new_token()
    with new_secret_file(context, secret_file) as file:
        file.write(token + "\n")
    entry: dict[str, Any] = {"server": True} if is_server else {"cluster": cluster} if cluster else {"name": name}
    if part:
        entry["part"] = part
    if groups:
        entry["groups"] = list(groups)
    entry["sha256"] = hash_token(token)
    settings = settings_of(context)
    if settings.is_table:
        import json

        click.echo(f"- {json.dumps(entry)}")  # JSON is YAML, on one line
    else:
        print_value(settings, entry)

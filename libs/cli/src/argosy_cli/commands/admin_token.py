"""`argosy admin token`: a secret for a user or a process, and what the server keeps of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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
@click.option(
    "--tokens-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of tokens that servers read: the entry is added to it, too.",
)
@output_options
@click.pass_context
def token_command(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    *,
    name: str,
    groups: tuple[str, ...],
    cluster: str,
    part: str | None,
    is_server: bool,
    secret_file: Path,
    tokens_file: Path | None,
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
    entry: dict[str, Any] = {"server": True} if is_server else {"cluster": cluster} if cluster else {"name": name}
    if part:
        entry["part"] = part
    if groups:
        entry["groups"] = list(groups)
    entry["sha256"] = hash_token(token)
    grown = None if tokens_file is None else _with_entry(context, tokens_file, entry)
    with new_secret_file(context, secret_file) as file:
        file.write(token + "\n")
    if tokens_file is not None and grown is not None:
        _replace(tokens_file, grown)
    settings = settings_of(context)
    if settings.is_table:
        click.echo(f"- {json.dumps(entry)}")  # JSON is YAML, on one line
    else:
        print_value(settings, entry)


def _with_entry(context: click.Context, path: Path, entry: Mapping[str, Any]) -> str:
    """Return the text of a file of tokens with one entry more; what people wrote in it stays as it is where it can.

    Raises:
        UsageError: The file is no list of tokens.
    """
    import yaml

    text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        document = yaml.safe_load(text) or {"tokens": []}
    except yaml.YAMLError as cause:
        raise click.UsageError(f"{path} is no YAML; it stays as it is.", context) from cause
    if not isinstance(document, dict) or not isinstance(entries := document.get("tokens") or [], list):
        raise click.UsageError(f"{path} needs a list under the key tokens; it stays as it is.", context)
    wanted = {**document, "tokens": [*entries, entry]}
    lines = (text or "tokens:").removesuffix("\n")
    for indent in ("", "  "):
        longer = f"{lines}\n{indent}- {json.dumps(entry)}\n"
        try:
            if yaml.safe_load(longer) == wanted:
                return longer
        except yaml.YAMLError:
            continue
    return yaml.safe_dump(wanted, sort_keys=False)  # written in another style, as one line of JSON


def _replace(path: Path, text: str) -> None:
    """Write a file in one step, with the rights that it had; a new one is its owner's alone."""
    fresh = path.with_name(f"{path.name}.new")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)

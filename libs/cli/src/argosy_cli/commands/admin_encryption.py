"""`argosy admin encryption-key`: a key by which servers seal what holds the secrets of jobs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from argosy_cli.options import output_options, settings_of
from argosy_cli.output import print_value
from argosy_core.errors import InvalidRequest

__all__ = ["encryption_key_command"]


@click.command("encryption-key")
@click.argument("key_id", metavar="ID")
@click.option(
    "--keys-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File of keys (mode 0600), new or one that has some; the new one stands first.",
)
@output_options
@click.pass_context
def encryption_key_command(context: click.Context, *, key_id: str, keys_file: Path) -> None:
    """Draw the key ID, with which servers seal bodies of specs from then on; those above which it stands open the rest.

    Servers name the file by `encryption_keys_file`. Whoever loses a key loses the jobs that it sealed.
    """
    from argosy_store.sealing import new_seal_key, read_seal_keys

    try:
        before = keys_file.read_bytes() if keys_file.exists() else b""
        after = new_seal_key(key_id).encode() + before
        read_seal_keys(after)
    except (InvalidRequest, OSError) as cause:
        raise click.UsageError(f"{keys_file}: {cause}", context) from cause
    fresh = keys_file.with_name(f"{keys_file.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(after)
    fresh.replace(keys_file)
    settings = settings_of(context)
    if settings.is_table:
        click.echo(f"key {key_id} is the first of {keys_file}")
    else:
        print_value(settings, {"keyId": key_id, "keysFile": str(keys_file)})

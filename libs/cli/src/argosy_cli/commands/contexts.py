"""`argosy context`: named servers, and how each is reached."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy_cli.options import output_options, settings_of
from argosy_cli.output import Column, print_rows

if TYPE_CHECKING:
    from argosy_client.contexts import ClientContext

__all__ = ["context_group"]

_file = click.Path(path_type=Path)


@click.group("context")
def context_group() -> None:
    """Keep servers by name, with how each is reached; commands talk to the one in use."""


@context_group.command("set")
@click.argument("name")
@click.option("--address", required=True, metavar="HOST:PORT", help="API server.")
@click.option("--authority-file", default="", help="Authorities that sign its certificate, PEM; or `system`.")
@click.option("--server-name", default="", help="Name in its certificate, if it is not the one dialled.")
@click.option("--token-file", type=_file, help="File that holds your token.")
@click.option("--issuer", default="", metavar="URL", help="Where you log in with `argosy login`.")
@click.option("--client-id", default="", help="The client at the issuer that you log in with.")
@click.option("--issuer-authority-file", type=_file, help="Authorities that sign its certificate, if not the system's.")
@click.option("--scope", default="", help="What is asked for there; `openid offline_access` unless set.")
@click.option("--certificate-file", type=_file, help="Your certificate, PEM.")
@click.option("--key-file", type=_file, help="Its key, PEM.")
@output_options
@click.pass_context
def set_(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    name: str,
    address: str,
    authority_file: str,
    server_name: str,
    token_file: Path | None,
    certificate_file: Path | None,
    key_file: Path | None,
    issuer: str,
    client_id: str,
    issuer_authority_file: Path | None,
    scope: str,
) -> None:
    """Make the context NAME, or change it, and use it."""
    from argosy_client import ChannelCredentials
    from argosy_client.contexts import ClientContext, read_contexts, write_contexts
    from argosy_client.login import LoginSettings

    authority = Path(authority_file).absolute() if authority_file not in {"", "system"} else authority_file
    credentials = ChannelCredentials(
        authority_file=str(authority),
        server_name=server_name,
        token_file=_absolute(token_file),
        certificate_file=_absolute(certificate_file),
        key_file=_absolute(key_file),
    )
    if bool(issuer) != bool(client_id) or (issuer and token_file):
        raise click.UsageError("--issuer and --client-id go together, and without --token-file.")
    login = None
    if issuer:
        given = {"authority_file": _absolute(issuer_authority_file), "scope": scope}
        chosen = {key: value for key, value in given.items() if value}
        login = LoginSettings(issuer=issuer, client_id=client_id, **chosen)
    known = read_contexts()
    made = ClientContext(server=address, credentials=credentials, login=login)
    write_contexts(replace(known, current=name, contexts={**known.contexts, name: made}))
    _print(context)


@context_group.command("use")
@click.argument("name")
@output_options
@click.pass_context
def use(context: click.Context, *, name: str) -> None:
    """Let commands talk to the server of the context NAME."""
    from argosy_client.contexts import read_contexts, write_contexts

    known = read_contexts()
    known.find(name)
    write_contexts(replace(known, current=name))
    _print(context)


@context_group.command("remove")
@click.argument("name")
@output_options
@click.pass_context
def remove(context: click.Context, *, name: str) -> None:
    """Forget the context NAME; its files stay."""
    from argosy_client.contexts import read_contexts, write_contexts

    known = read_contexts()
    known.find(name)
    rest = {other: one for other, one in known.contexts.items() if other != name}
    write_contexts(replace(known, current="" if known.current == name else known.current, contexts=rest))
    _print(context)


@context_group.command("export")
@click.argument("name", default="")
@click.option("--address", default="", metavar="HOST:PORT", help="API server, if not the context's own.")
def export(*, name: str, address: str) -> None:
    """Print the context NAME, else the one in use, with what its files hold: for `argosy context import`.

    That is a secret: whoever has it is you.
    """
    from argosy_client.contexts import export_context, read_contexts

    found = read_contexts().find(name)
    if found is None:
        raise click.UsageError("no context is in use; name one.")
    click.echo(export_context(replace(found, server=address or found.server)))


@context_group.command("import")
@click.argument("name")
@output_options
@click.pass_context
def import_(context: click.Context, *, name: str) -> None:
    """Read from standard input what `argosy context export` printed, keep it as NAME, and use it."""
    from argosy_client.contexts import import_context, read_contexts, write_contexts

    made = import_context(sys.stdin.read(), name)
    known = read_contexts()
    write_contexts(replace(known, current=name, contexts={**known.contexts, name: made}))
    _print(context)


@context_group.command("list")
@output_options
@click.pass_context
def list_(context: click.Context) -> None:
    """List contexts; the one in use has a star."""
    _print(context)


def _print(context: click.Context) -> None:
    from argosy_client.contexts import read_contexts

    known = read_contexts()
    columns: list[Column[tuple[str, ClientContext]]] = [
        Column("NAME", lambda c: c[0] + (" *" if c[0] == known.current else "")),
        Column("SERVER", lambda c: c[1].server),
        Column("TLS", lambda c: "yes" if c[1].credentials.authority_file else "no"),
        Column("TOKEN", lambda c: c[1].login.issuer if c[1].login else c[1].credentials.token_file or "-"),
        Column("CERTIFICATE", lambda c: c[1].credentials.certificate_file or "-", wide=True),
    ]
    print_rows(settings_of(context), sorted(known.contexts.items()), columns, empty="no contexts")


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path.expanduser().absolute())

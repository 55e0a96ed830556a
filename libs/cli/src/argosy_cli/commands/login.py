"""`argosy login`, `logout`: who the user is at the issuer of the context in use.

Source: `docs/security.md`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from argosy_cli.options import output_options

if TYPE_CHECKING:
    from argosy_client.login import Login

__all__ = ["login", "logout"]


@click.command()
@click.option("--browser", is_flag=True, help="With the browser of this machine, instead of a code for any.")
@output_options
def login(*, browser: bool) -> None:
    """Log in at the issuer of the context in use; the token is kept, and refreshed by whatever uses it."""
    import webbrowser

    from argosy.issuer import IssuerError
    from argosy_cli.login_flows import log_in_by_browser, log_in_by_device
    from argosy_core.errors import BackendUnavailable

    opened = _login()
    try:
        published = opened.discover()
    except IssuerError as cause:
        raise BackendUnavailable(str(cause)) from cause
    if browser:
        answer = log_in_by_browser(opened.settings, published, open_page=webbrowser.open)
    else:
        answer = log_in_by_device(opened.settings, published, tell=lambda line: click.echo(line, err=True))
    opened.save(answer)
    click.echo("logged in; `argosy whoami` shows as whom", err=True)


@click.command()
@output_options
def logout() -> None:
    """Forget the token, and tell the issuer that it is not needed any more."""
    was_told = _login().forget()
    click.echo("logged out" + ("" if was_told else "; the issuer was not told"), err=True)


def _login() -> Login:
    from argosy_client.contexts import read_contexts

    context = read_contexts().find(os.environ.get("ARGOSY_CONTEXT", ""))
    opened = None if context is None else context.open_login()
    if opened is None:
        raise click.UsageError(
            "the context in use names no issuer; `argosy context set NAME --issuer URL --client-id ID` does."
        )
    return opened

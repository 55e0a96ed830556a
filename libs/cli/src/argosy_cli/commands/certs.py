"""`argosy certs`: an authority of one's own for a small installation, and certificates that it signs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from argosy_cli.options import output_options, settings_of
from argosy_cli.output import print_value
from argosy_core.access import ClusterPart
from argosy_core.job.reading.findings import is_dns_name

__all__ = ["certs"]

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.@-]{0,61}[A-Za-z0-9])?")
_folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.group()
def certs() -> None:
    """Make the certificates of a small installation: an authority, and what it signs. Needs the program openssl.

    Keep the folder where nobody else reads it: whoever has authority.key is everybody. Give each process its own
    certificate and key, and authority.pem.
    """


@certs.command()
@_folder_argument
@click.option("--installation", default="argosy", show_default=True, help="Trust domain of all identities.")
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=3650, show_default=True, help="How long it is good for."
)
@output_options
@click.pass_context
def init(context: click.Context, *, folder: Path, installation: str, days: int) -> None:
    """Make an authority in FOLDER."""
    from argosy_cli.certificates import make_authority

    _check_name(context, installation)
    make_authority(folder, installation=installation, days=days)
    _say(context, {"authority": str(folder / "authority.pem"), "key": str(folder / "authority.key")})


@certs.command()
@_folder_argument
@click.option("--for-servers", "is_server", is_flag=True, help="Of servers.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Name or address under which a server, or the sampler of a cluster, is dialled; repeatable.",
)
@click.option("--cluster", default="", help="Of the processes of this cluster.")
@click.option("--part", type=click.Choice([str(part) for part in ClusterPart]), help="Of this process of it alone.")
@click.option("--user", default="", help="Of this user.")
@click.option("--days", type=click.IntRange(1, 36_500), default=365, show_default=True, help="How long it is good for.")
@output_options
@click.pass_context
def issue(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    folder: Path,
    is_server: bool,
    hosts: tuple[str, ...],
    cluster: str,
    part: str | None,
    user: str,
    days: int,
) -> None:
    """Sign a certificate with the authority of FOLDER, for a server, a cluster or a user."""
    from argosy_cli.certificates import CertificateText, open_authority

    if [is_server, bool(cluster), bool(user)].count(True) != 1 or (part and not cluster):
        raise click.UsageError("Whose? Give --for-servers, or --cluster (and --part), or --user.", context)
    if (is_server and not hosts) or (hosts and user):
        raise click.UsageError("A server needs --host, as often as it has names; a user has none.", context)
    for host in hosts:
        if not is_dns_name(host) and not re.fullmatch(r"[0-9A-Fa-f.:]+", host):
            raise click.UsageError(f"{host!r} is neither a name nor an address.", context)
    authority = open_authority(folder)
    root = f"spiffe://{authority.installation}"
    if is_server:
        text = CertificateText(name="server", uri=f"{root}/server", hosts=hosts, days=days)
    elif cluster:
        _check_name(context, cluster)
        parts = "-".join(filter(None, ("cluster", cluster, part)))
        uri = "/".join(filter(None, (root, "cluster", cluster, part)))
        text = CertificateText(name=parts, uri=uri, hosts=hosts, days=days)
    else:
        _check_name(context, user)
        text = CertificateText(name=f"user-{user}", uri=f"{root}/user/{user}", days=days)
    certificate, key = authority.issue(text)
    _say(context, {"certificate": str(certificate), "key": str(key), "identity": text.uri})


@certs.command()
@_folder_argument
@click.option(
    "--within", "within_days", type=click.IntRange(0), default=30, show_default=True, help="Days to their end."
)
@output_options
@click.pass_context
def renew(context: click.Context, *, folder: Path, within_days: int) -> None:
    """Sign certificates of FOLDER again that end soon; servers read them without a restart."""
    from argosy_cli.certificates import open_authority

    authority = open_authority(folder)
    due = [name for name in sorted(authority.texts) if authority.ends_within(name, within_days)]
    for name in due:
        authority.renew(name)
    settings = settings_of(context)
    if not settings.is_table:
        print_value(settings, {"renewed": due})
    else:
        none = f"none of {len(authority.texts)} ends within {within_days} days"
        click.echo(f"renewed: {', '.join(due)}" if due else none)


def _check_name(context: click.Context, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"{name!r} is no name: 1 to 63 letters, digits and -_.@, no sign at either end.", context
        )


def _say(context: click.Context, made: dict[str, str]) -> None:
    settings = settings_of(context)
    if settings.is_table:
        for what, where in made.items():
            click.echo(f"{what}: {where}")
    else:
        print_value(settings, made)

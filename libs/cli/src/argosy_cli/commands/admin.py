"""`argosy admin`: what an installation needs: migrations, roles, and a look at everything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from argosy_cli.commands.admin_encryption import encryption_key_command
from argosy_cli.commands.admin_log import check_log_command, setup_log
from argosy_cli.commands.admin_quarantine import quarantine_group
from argosy_cli.commands.admin_release import release_cluster
from argosy_cli.commands.admin_sessions import sessions_command
from argosy_cli.commands.admin_token import token_command
from argosy_cli.exits import ExitCode
from argosy_cli.options import Settings, output_options, settings_of
from argosy_cli.output import Column, print_rows, print_value
from argosy_cli.session import local_mesh

if TYPE_CHECKING:
    from argosy_store.schema.inspection import Finding

__all__ = ["admin"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_VARIABLES: Final = ("ARGOSY_DATABASE_URL", "ARGOSY_SERVER_DATABASE_URL")
_FILE_VARIABLES: Final = ("ARGOSY_DATABASE_PASSWORD_FILE", "ARGOSY_SERVER_DATABASE_PASSWORD_FILE")


@click.group()
def admin() -> None:
    """Prepare and check what an installation rests on."""


def _database_options(function: _Function) -> _Function:
    for option in (
        click.option(
            "--database-password-file",
            default="",
            metavar="FILE",
            help="File that holds the password of the URL's user.",
        ),
        click.option(
            "--database-url",
            default="",
            metavar="URL",
            help="PostgreSQL 15 or newer; else ARGOSY_DATABASE_URL, else ARGOSY_SERVER_DATABASE_URL, else the database"
            " of `argosy up`. A password is better in the variable, or in the file, than on the command line.",
        ),
    ):
        function = option(function)
    return function


_prefix_option = click.option(
    "--prefix", default="argosy", show_default=True, help="What the names of the database roles begin with."
)


def _database(settings: Settings, url: str, password_file: str) -> str:
    """Return the URL that is meant, password included."""
    from argosy_store.postgres.connection import with_password_file

    password_file = password_file or next(filter(None, map(os.environ.get, _FILE_VARIABLES)), "")
    url = url or next(filter(None, map(os.environ.get, _VARIABLES)), "")
    if url:
        return with_password_file(url, password_file)
    state = local_mesh(settings)
    if state is None:
        raise click.UsageError("Which database? Give --database-url, or set ARGOSY_DATABASE_URL.")
    return state.database_url


_grant_option = click.option(
    "--grant", is_flag=True, help="Make the roles that are missing, and grant each what it needs."
)


@admin.command()
@_database_options
@_grant_option
@_prefix_option
@click.option(
    "--role-password-file",
    "password_files",
    multiple=True,
    metavar="ROLE=FILE",
    help="With --grant: give a role (migrator, api, leader, relay, server, reader) the password that a file holds.",
)
@output_options
@click.pass_context
def migrate(
    context: click.Context,
    *,
    database_url: str,
    database_password_file: str,
    grant: bool,
    prefix: str,
    password_files: tuple[str, ...],
) -> None:
    """Bring the database to the version of this argosy; repeating it does nothing.

    With --grant the tables belong to the role PREFIX_migrator. Roles that are missing are made, which takes an
    administrator; once they are there, the migrator's own rights do for every later migration.
    """
    from argosy_store import migrate as migrate_database
    from argosy_store.schema.migrate import as_role
    from argosy_store.schema.roles import grant_rights, make_roles, role_name
    from argosy_store.schema.versions import read_version

    settings = settings_of(context)
    url = _database(settings, database_url, database_password_file)
    if password_files and not grant:
        raise click.UsageError("--role-password-file goes with --grant.")
    if grant:
        owner = role_name(prefix, "migrator")
        make_roles(url, prefix, _passwords(password_files))
        migrate_database(url, owner=owner)
        grant_rights(as_role(url, owner), prefix)
    else:
        migrate_database(url)
    version = read_version(url).present
    if settings.is_table:
        click.echo(f"the database is at version {version}{', and every role has its rights' if grant else ''}")
    else:
        print_value(settings, {"version": version, "granted": grant})


@admin.command()
@_database_options
@_grant_option
@_prefix_option
@output_options
@click.pass_context
def upgrade(context: click.Context, *, database_url: str, database_password_file: str, grant: bool, prefix: str) -> int:
    """Bring the database of a stopped installation to the version of this argosy, and look at what goes on.

    Pods run on meanwhile. Stop servers, samplers and executors first, start those of this version afterwards. Refused
    while somebody leads or is connected. Exits with 1 if something has to be done, and says what.
    """
    from argosy_store.schema.migrate import as_role
    from argosy_store.schema.roles import grant_rights, make_roles, role_name
    from argosy_store.schema.upgrade import upgrade as upgrade_database

    settings = settings_of(context)
    url = _database(settings, database_url, database_password_file)
    owner = role_name(prefix, "migrator") if grant else ""
    if grant:
        make_roles(url, prefix)
    findings = upgrade_database(url, owner=owner)
    if grant:
        grant_rights(as_role(url, owner), prefix)
    code = _print_findings(settings, findings)
    if settings.is_table and code == ExitCode.OK:
        click.echo(
            "\nstart the servers of this version, then its samplers and executors; `argosy admin check` follows them"
        )
    return code


def _print_findings(settings: Settings, findings: Sequence[Finding]) -> ExitCode:
    """Print what was found and what is to be done; return the exit code."""
    columns: list[Column[Finding]] = [
        Column("SUBJECT", lambda f: f.subject),
        Column("STATUS", lambda f: click.style(f.status, fg="red" if f.is_problem else "green")),
        Column("FOUND", lambda f: f.text),
    ]
    print_rows(settings, findings, columns, empty="nothing was looked at")
    problems = [finding for finding in findings if finding.is_problem]
    if problems and settings.is_table:
        click.echo("\nto do:", err=True)
        for finding in problems:
            click.echo(f"  {finding.subject}: {finding.advice}", err=True)
    return ExitCode.SERVER if problems else ExitCode.OK


def _passwords(entries: tuple[str, ...]) -> dict[str, str]:
    """Return passwords by role."""
    from argosy_store.postgres.connection import read_password

    passwords = {}
    for entry in entries:
        role, separator, path = entry.partition("=")
        if not separator:
            raise click.UsageError(f"--role-password-file should be ROLE=FILE, and not {entry!r}.")
        passwords[role] = read_password(path)
    return passwords


@admin.command()
@_database_options
@_prefix_option
@output_options
@click.pass_context
def check(context: click.Context, *, database_url: str, database_password_file: str, prefix: str) -> int:
    """Look at the database: version, migrations, rights, settings, partitions, quarantine, log.

    Exits with 1 if something has to be done, and says what.
    """
    from argosy_store.schema.inspection import inspect_database

    settings = settings_of(context)
    url = _database(settings, database_url, database_password_file)
    return _print_findings(settings, inspect_database(url, time.time_ns() // 1000, prefix=prefix))


@admin.command()
@_prefix_option
@click.option("--database", default="argosy", show_default=True, help="Name of the database.")
@click.option("--schema", default="public", show_default=True, help="Schema of the tables.")
@output_options
@click.pass_context
def roles(context: click.Context, *, prefix: str, database: str, schema: str) -> None:
    """Print the SQL that makes the database roles, for an administrator to run once.

    Rights on tables are granted by `argosy admin migrate --grant`.
    """
    from argosy_store.schema.roles import ROLES, role_name, roles_script

    settings = settings_of(context)
    script = roles_script(prefix, database=database, schema=schema)
    if settings.is_table:
        click.echo(script, nl=False)
    else:
        names = [{"role": role, "name": role_name(prefix, role), "purpose": text} for role, text in ROLES.items()]
        print_value(settings, {"script": script, "roles": names})


admin.add_command(setup_log)
admin.add_command(check_log_command)
admin.add_command(release_cluster)
admin.add_command(quarantine_group(_database, _database_options))
admin.add_command(sessions_command(_database, _database_options))
admin.add_command(token_command)
admin.add_command(encryption_key_command)

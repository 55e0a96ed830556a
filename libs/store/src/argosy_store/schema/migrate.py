"""Migrations: a step of its own, safe to run from several places at once.

Source: design section 4, "Migrations with alembic as a step of their own".
"""

from __future__ import annotations

import time
from itertools import count
from typing import Final
from urllib.parse import quote

import psycopg
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from argosy_core.errors import NotAllowedNow
from argosy_store.postgres.connection import (
    MAINTENANCE_SETTINGS,
    OLDEST_VERSION,
    connect,
    sqlalchemy_engine,
    translated,
)
from argosy_store.postgres.partitions import ensure_partitions
from argosy_store.schema.versions import migration_config, read_version

__all__ = [
    "as_role",
    "check",
    "check_server",
    "create_database",
    "database_of",
    "drop_database",
    "migrate",
    "require_version",
    "url_of",
]

_MIGRATION_LOCK: Final = 7_310_002
_SETTINGS: Final = {**MAINTENANCE_SETTINGS, "idle_session_timeout": "60000"}
"""A process that is stopped between two transactions would keep the lock, and all others waiting, without end."""
_LOCK_WAIT: Final = "500ms"
_LOCK_ATTEMPTS: Final = 120
_LOCK_PAUSE_S: Final = 0.5


@translated
def migrate(url: str, *, owner: str = "") -> None:
    """Bring the tables to the newest version and make the partitions of these days.

    Repeating it does nothing; concurrent callers wait for each other. Later days get their partitions by
    `argosy_store.postgres.partitions.ensure_partitions`, daily.

    Args:
        url: Database.
        owner: Role that shall own what is made; the URL's user must be a member. Empty for that user.

    Raises:
        NotAllowedNow: The server is too old.
        BackendUnavailable: Postgres cannot be reached.
    """
    url = as_role(url, owner) if owner else url
    check_server(url)
    engine = sqlalchemy_engine(url, _SETTINGS)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_MIGRATION_LOCK})")
        connection.commit()
        try:
            _upgrade(connection)
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_MIGRATION_LOCK})")
            connection.commit()
    engine.dispose()
    ensure_partitions(url, days_ahead=4)


def _upgrade(connection: sqlalchemy.Connection) -> None:
    """Run the migrations that are missing, each in a transaction of its own.

    A migration waits for the locks of tables but briefly, since whoever comes after it waits too; then it is rolled
    back and tried again.
    """
    from alembic import command  # late: services only look which version is there

    config = migration_config()
    config.attributes["connection"] = connection
    for attempt in count(1):
        try:
            connection.exec_driver_sql(f"SET lock_timeout = '{_LOCK_WAIT}'")
            command.upgrade(config, "head")
            connection.commit()
        except sqlalchemy.exc.OperationalError as error:
            connection.rollback()
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or attempt == _LOCK_ATTEMPTS:
                raise
            time.sleep(_LOCK_PAUSE_S)
        else:
            return


@translated
def check(url: str) -> None:
    """Raise unless the server and the tables are those this version works with (see `versions`).

    Raises:
        NotAllowedNow: The server is too old, the migrations have not been run, or those of a version that ended the
            work of this one have.
        BackendUnavailable: Postgres cannot be reached.
    """
    check_server(url)
    version = read_version(url)
    if not version.works:
        raise NotAllowedNow(f"the database is at {version}: {version.advice}")


@translated
def check_server(url: str) -> int:
    """Return the server's version, as `server_version_num` says it.

    Raises:
        NotAllowedNow: It is too old.
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        version = connection.info.server_version
    require_version(version)
    return version


def require_version(version: int) -> None:
    """Raise if a server of this version would not do.

    Raises:
        NotAllowedNow: It is too old.
    """
    if version < OLDEST_VERSION:
        raise NotAllowedNow(
            f"Postgres {OLDEST_VERSION // 10000} or newer is needed, this one is {version // 10000}.{version % 10000}"
        )


def as_role(url: str, role: str) -> str:
    """Return a URL whose sessions act as another role, of which the URL's user is a member."""
    given = conninfo_to_dict(url)
    return make_conninfo(url, options=f"{given.get('options') or ''} -c role={role}".strip())


def database_of(url: str, name: str) -> str:
    """Return a URL or connection string that differs in the database only."""
    return make_conninfo(url, dbname=name)


@translated
def create_database(url: str, name: str, template: str | None = None) -> str:
    """Make a database on the server of `url`, as a copy of another one where a template is named.

    Args:
        url: Any database of the server.
        name: Name of the new database.
        template: Name of a database nobody is connected to.

    Returns:
        Connection string of the new database.

    Raises:
        AlreadyExists: There is one by that name.
    """
    statement = psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
    if template is not None:
        statement += psycopg.sql.SQL(" TEMPLATE {}").format(psycopg.sql.Identifier(template))
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute(statement)
        except psycopg.errors.DuplicateDatabase as cause:
            raise psycopg.errors.UniqueViolation(str(cause)) from cause
    return database_of(url, name)


@translated
def drop_database(url: str, name: str) -> None:
    """Drop a database, ending its connections; one that does not exist is fine."""
    statement = psycopg.sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(psycopg.sql.Identifier(name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def url_of(host: str, port: int, database: str, user: str) -> str:
    """Return a libpq URL for a server on a Unix socket directory."""
    return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(host, safe='')}&port={port}"

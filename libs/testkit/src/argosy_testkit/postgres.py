"""Pytest plugin: a Postgres for tests.

One server per test process (so one per xdist worker), migrated once into a template; every test that asks gets a
database of its own, copied from the template, or one that an earlier test has done with, emptied. Load it with
`pytest_plugins = ["argosy_testkit.postgres"]` in the top-level conftest. The store is imported by the first test that
asks, so that others start fast.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from argosy_store import EmbeddedPostgres

__all__ = [
    "TEST_SETTINGS",
    "database_url",
    "empty_database_url",
    "idle_databases",
    "postgres_directory",
    "postgres_server",
    "set_database_time",
    "today",
]

TEST_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_size": "512MB",
    "min_wal_size": "80MB",
}
"""What makes a throw-away server fast. Tests about durability start one of their own, with our usual settings."""

_TEMPLATE: Final = "argosy_template"
_numbers = itertools.count(1)
_moved: set[str] = set()
"""Databases whose clock was set."""


def today() -> int:
    """Return the current day, days since the Unix epoch."""
    return int(time.time() // 86400)


def set_database_time(url: str, now_us: int) -> None:
    """Have a database believe that it is another time, as far as days and retention go; it stands still then.

    Args:
        url: A database of the test's own, as its migrator.
        now_us: Microseconds since the Unix epoch.
    """
    from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connect

    with connect(url, MAINTENANCE_SETTINGS) as connection:
        connection.execute(
            f"CREATE OR REPLACE FUNCTION argosy_now_us() RETURNS bigint LANGUAGE sql AS 'SELECT {int(now_us)}::bigint'"
        )
    _moved.add(url)


def _clear(url: str) -> tuple[int, ...]:
    """Delete everything from a database whose tables stay, ending all other connections; return days with partitions.

    Numbers go on, so that no job has the handle of an earlier one.
    """
    from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connect

    with connect(url, MAINTENANCE_SETTINGS) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        used = connection.execute(
            "SELECT quote_ident(relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND pg_relation_size(oid) > 0 AND relname NOT IN"
            " ('alembic_version', 'shared_state', 'partition_state', 'schema_support')"
        ).fetchall()
        if used:
            connection.run(f"TRUNCATE {', '.join(name for (name,) in used)} RESTART IDENTITY")
        # Identities of partitioned tables belong to the parents, which hold no rows themselves.
        row = connection.execute(
            "UPDATE partition_state SET closed_days = '{}', deleted_queue_ids = '{}', first_open_day = 0 RETURNING days"
        ).fetchone()
        connection.execute("SELECT pg_stat_reset()")
    return tuple(sorted(row[0])) if row else ()


@pytest.fixture(scope="session")
def postgres_directory() -> Iterator[Path]:
    """Give a short directory that any account can reach."""
    path = Path(tempfile.mkdtemp(prefix="argosy-pg-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(postgres_directory: Path) -> Iterator[EmbeddedPostgres]:
    """Give a running server with a migrated template database."""
    from argosy_store import EmbeddedPostgres, create_database, migrate

    server = EmbeddedPostgres(postgres_directory / "server", settings=TEST_SETTINGS)
    url = server.start()
    template = create_database(url, _TEMPLATE)
    migrate(template)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def idle_databases() -> list[str]:
    """Keep databases that earlier tests have left clean: emptying one costs a tenth of making one."""
    return []


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres, idle_databases: list[str]) -> Iterator[str]:
    """Give a migrated, empty database of the test's own, with the partitions that migrations make."""
    from argosy_store import create_database, drop_database
    from argosy_store.schema.migrate import database_of

    name = idle_databases.pop() if idle_databases else ""
    if not name:
        name = f"test_{next(_numbers)}"
        create_database(postgres_server.url, name, _TEMPLATE)
    url = database_of(postgres_server.url, name)
    yield url
    if url not in _moved and _clear(url) == tuple(range(today() - 1, today() + 4)):
        idle_databases.append(name)
    else:
        drop_database(postgres_server.url, name)


@pytest.fixture
def empty_database_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """Give a database of the test's own without tables."""
    from argosy_store import create_database, drop_database

    name = f"test_{next(_numbers)}"
    yield create_database(postgres_server.url, name)
    drop_database(postgres_server.url, name)

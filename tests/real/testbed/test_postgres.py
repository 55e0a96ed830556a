"""The Postgres servers of the testbed answer, are killed, and come back with what they had committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from testbed import postgres

if TYPE_CHECKING:
    from argosy_store import EmbeddedPostgres


def test_servers_are_of_two_major_releases(postgres_url: str, oldest_postgres: postgres.Server) -> None:
    """What holds on both holds on every release between."""
    releases = [int(postgres.server_version(url).split(".")[0]) for url in (oldest_postgres.url, postgres_url)]
    assert releases[0] == int(postgres.VERSION)
    assert releases[1] > releases[0]


def test_any_postgres_url_lets_its_user_create_databases(any_postgres_url: str) -> None:
    """Tests take a database of their own on either server."""
    with psycopg.connect(any_postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE testbed_probe")
        connection.execute("DROP DATABASE testbed_probe")


def test_killed_server_comes_back_with_what_was_committed(oldest_postgres: postgres.Server) -> None:
    """A kill loses nothing that was acknowledged, and the URL stays."""
    with psycopg.connect(oldest_postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    oldest_postgres.kill()
    oldest_postgres.start()
    with psycopg.connect(oldest_postgres.url, autocommit=True) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
        connection.execute("DROP TABLE kept")


def test_killed_embedded_server_comes_back_with_what_was_committed(real_postgres: EmbeddedPostgres) -> None:
    """The same of the embedded one, which syncs to the disk here as in production."""
    with psycopg.connect(real_postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    real_postgres.kill()
    real_postgres.start()
    with psycopg.connect(real_postgres.url, autocommit=True) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
        connection.execute("DROP TABLE kept")

"""Migrations and the tables they make."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from argosy_core.errors import BackendUnavailable, InvariantViolation, NotAllowedNow
from argosy_store import ApiStore, check, create_database, drop_database, migrate
from argosy_store.embedded import EmbeddedPostgres
from argosy_store.postgres.connection import sqlalchemy_engine
from argosy_store.schema.tables import metadata
from argosy_store.schema.versions import migration_config, newest_version


def test_migrations_make_what_the_metadata_says(database_url: str) -> None:
    """The tables that migrations make are those of the metadata; partitions are not listed."""
    engine = sqlalchemy_engine(database_url)
    with engine.connect() as connection:

        def include(_thing: object, name: str | None, kind: str, _reflected: bool, _other: object) -> bool:  # noqa: FBT001
            return not (kind == "table" and "_d" in (name or "") and (name or "")[-1].isdigit()) and not (
                kind == "table" and ((name or "").endswith("_carried") or (name or "").startswith("deduplication_"))
            )

        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": False, "include_object": include}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_migrate_from_several_places_at_once_runs_once(empty_database_url: str) -> None:
    """Concurrent and repeated migrations wait for each other and change nothing the second time."""
    with pytest.raises(NotAllowedNow):
        check(empty_database_url)
    with ThreadPoolExecutor(3) as executor:
        for future in [executor.submit(migrate, empty_database_url) for _ in range(3)]:
            future.result()
    check(empty_database_url)


def test_migration_that_is_stopped_between_transactions_loses_its_lock(empty_database_url: str) -> None:
    """Else every other migration would wait for it without end: Postgres ends no idle session unless told to."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE told (seconds text);"
            "CREATE FUNCTION tell() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO public.told VALUES (current_setting('idle_session_timeout')); END $$;"
            "CREATE EVENT TRIGGER tell ON ddl_command_end EXECUTE FUNCTION tell()"
        )
        migrate(empty_database_url)
        connection.execute("DROP EVENT TRIGGER tell")
        first = connection.execute("SELECT seconds FROM told LIMIT 1").fetchone()
    assert first == ("1min",)


def test_newest_version_is_the_last_migration_in_their_order() -> None:
    """Services read it off the names of files, without loading what they say of each other."""
    scripts = ScriptDirectory.from_config(migration_config())
    assert newest_version() == scripts.get_current_head()
    assert all(Path(script.path).name.startswith(f"{script.revision}_") for script in scripts.walk_revisions())


def _migrate_to(url: str, version: str) -> None:
    """Bring an empty database to an older version."""
    config = migration_config()
    engine = sqlalchemy_engine(url)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        connection.commit()
    engine.dispose()


def test_migration_waits_for_readers_without_holding_up_others(empty_database_url: str) -> None:
    """A long reader of a table delays a migration; whoever comes meanwhile does not wait for either."""
    _migrate_to(empty_database_url, "0006")
    with psycopg.connect(empty_database_url) as reader, ThreadPoolExecutor(1) as threads:
        reader.execute("SELECT * FROM partition_state").fetchall()  # its lock stays until the transaction ends
        migration = threads.submit(migrate, empty_database_url)
        with psycopg.connect(empty_database_url, options="-c statement_timeout=10s") as other:
            for _ in range(20):
                other.execute("UPDATE partition_state SET days = days")
                other.commit()
        assert not migration.done()
        reader.rollback()
        migration.result(60)
    check(empty_database_url)


@pytest.fixture
def newer_tables(database_url: str) -> Iterator[Callable[[str | None], None]]:
    """Give a function that makes the tables those of a later version, which names the oldest that works with them."""

    def pretend(oldest: str | None, version: str = "9999") -> None:
        with psycopg.connect(database_url) as connection:
            connection.execute("UPDATE alembic_version SET version_num = %s", [version])
            connection.execute("DELETE FROM schema_support")
            if oldest is not None:
                connection.execute("INSERT INTO schema_support (oldest_version) VALUES (%s)", [oldest])

    with psycopg.connect(database_url) as connection:
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
        (oldest,) = connection.execute("SELECT oldest_version FROM schema_support").fetchone() or ("",)
    yield pretend
    pretend(oldest, version)


@pytest.mark.parametrize("oldest", ["0001", "0007"])
def test_check_takes_newer_tables_that_say_they_work_with_us(
    database_url: str, newer_tables: Callable[[str | None], None], oldest: str
) -> None:
    """While versions are replaced one by one, and when one is put back, the tables may be newer than the process."""
    newer_tables(oldest)
    check(database_url)


@pytest.mark.parametrize("oldest", ["9999", None])
def test_check_refuses_newer_tables_that_do_not(
    database_url: str, newer_tables: Callable[[str | None], None], oldest: str | None
) -> None:
    """A version whose work a migration has ended does not begin."""
    newer_tables(oldest)
    with pytest.raises(NotAllowedNow, match=r"at version 9999, needed is \d+: use the version of argosy"):
        check(database_url)


def test_new_databases_number_their_jobs_from_different_places(
    empty_database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    """A cluster may hold objects of an earlier database, which handles of a new one must not mean."""
    other_url = create_database(postgres_server.url, "numbered")
    starts = []
    for url in (empty_database_url, other_url):
        migrate(url)
        store = ApiStore(url)
        starts.append(store.reserve_numbers(1))
        store.close()
    drop_database(postgres_server.url, "numbered")
    assert abs(starts[0] - starts[1]) > 1_000_000


def test_a_store_without_tables_says_that_migrations_are_missing(empty_database_url: str) -> None:
    """The error says what to do."""
    store = ApiStore(empty_database_url)
    with pytest.raises(InvariantViolation, match="migrations"):
        store.get_queue("x")
    store.close()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    """Nothing of the driver's leaves the package."""
    url = "postgresql://nobody@127.0.0.1:1/none"
    for call in (check, migrate):
        with pytest.raises(BackendUnavailable):
            call(url)


def test_copies_that_were_accepted_before_are_found_by_their_new_names(empty_database_url: str) -> None:
    """A submit that is repeated after the upgrade is still a repeat; what only looks like a copy keeps its name."""
    _migrate_to(empty_database_url, "0009")
    one, two = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
    rows = [("a", 10, one), ("a/1", 11, one), ("a/2", 12, one), ("a/3", 99, one), ("b/1", 20, one), ("a/4", 14, two)]
    with psycopg.connect(empty_database_url) as connection:
        connection.cursor().executemany("INSERT INTO deduplication VALUES (1, %s, %s, 0, %s)", rows)
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        found = connection.execute("SELECT handle, client_id FROM deduplication ORDER BY handle").fetchall()
    assert found == [(10, "a"), (11, "a~1"), (12, "a~2"), (14, "a/4"), (20, "b/1"), (99, "a/3")]

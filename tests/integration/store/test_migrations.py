"""Migrations and the tables they make."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from argosy_core.errors import BackendUnavailable, InvariantViolation, NotAllowedNow
from argosy_store import ApiStore, check, create_database, drop_database, migrate
from argosy_store.embedded import EmbeddedPostgres
from argosy_store.migrate import sqlalchemy_engine
from argosy_store.tables import metadata


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

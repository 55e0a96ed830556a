"""Queries beside each other that see one moment."""

import psycopg.errors
import pytest

from argosy_store.postgres.binary import INT8
from argosy_store.postgres.connection import READ_SETTINGS, connect
from argosy_store.postgres.shared_reads import SharedReads
from argosy_testkit.store_world import StoreWorld

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_HANDLES = "SELECT handle FROM jobs"


def test_queries_see_what_their_transaction_sees(world: StoreWorld, database_url: str) -> None:
    """What is committed after the snapshot is in none of them, however late it is read."""
    handles = world.submit_jobs(3).tolist()
    connection = connect(database_url, READ_SETTINGS)
    with connection.transaction_block(_BEGIN), SharedReads(database_url, READ_SETTINGS, connection) as reads:
        world.submit_jobs(2)
        columns = [reads.columns(_HANDLES, [INT8]) for _ in range(5)]
        count = reads.rows("SELECT count(*) FROM jobs")
        assert [sorted(column.result()[0].tolist()) for column in columns] == [handles] * 5
        assert count.result() == [(3,)]
    connection.close()


def test_error_of_a_query_comes_with_its_result(world: StoreWorld, database_url: str) -> None:
    """Whoever waits for it learns of it."""
    connection = connect(database_url, READ_SETTINGS)
    with (
        pytest.raises(psycopg.errors.UndefinedTable),
        connection.transaction_block(_BEGIN),
        SharedReads(database_url, READ_SETTINGS, connection) as reads,
    ):
        reads.columns("SELECT 1::bigint FROM nowhere", [INT8]).result()
    connection.close()

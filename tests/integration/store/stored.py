"""What stands in the tables, for tests of what a leader may write."""

import psycopg

from argosy_testkit.store_world import StoreWorld


def object_states(world: StoreWorld) -> list[int]:
    """Return the states of all objects in key order."""
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT state FROM objects ORDER BY handle, attempt, object").fetchall()
    return [row[0] for row in rows]


def fingerprint(world: StoreWorld) -> list[object]:
    """Return everything that a leader may write."""
    tables = ("jobs", "runs", "objects", "job_sets", "job_set_events", "pools", "quarantine", "changes", "clusters")
    with psycopg.connect(world.url) as connection:
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]

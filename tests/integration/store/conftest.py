"""Fixtures of the store's tests."""

from collections.abc import Iterator

import pytest

from argosy_testkit.store_world import StoreWorld


@pytest.fixture
def world(database_url: str) -> Iterator[StoreWorld]:
    """Give a database with a queue, a job set, a class and a leader."""
    with StoreWorld(database_url) as made:
        yield made

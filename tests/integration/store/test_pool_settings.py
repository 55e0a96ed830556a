"""Settings of pools as versions."""

from __future__ import annotations

import psycopg
import pytest

from argosy_core.errors import StateConflict
from argosy_store.replicas.audit import ACTOR, Actor
from argosy_testkit.store_world import StoreWorld


def _set(world: StoreWorld, version: int, settings: dict[str, str], pool: str = "default") -> None:
    world.api.set_pool_settings(
        pool, settings, version=version, comment=f"why {version}", news=b"settings", detail="half time"
    )


def _news(world: StoreWorld) -> int:
    """Return how often the leader was told."""
    return [payload for _, payload in world.leader.read_changes(10)].count(b"settings")


def test_each_version_is_whole_and_says_who_set_it_when_and_why(world: StoreWorld) -> None:
    """The newest holds, and the leader is told in the same transaction as the audit."""
    assert world.api.pool_settings("default") is None
    token = ACTOR.set(Actor(method="/x/Set", principal="root", acted_by="", host="h"))
    try:
        _set(world, 1, {"a": "1", "b": "2"})
    finally:
        ACTOR.reset(token)
    _set(world, 2, {"b": "3"})
    _set(world, 1, {"other": "pool"}, pool="gpu")
    newest = world.api.pool_settings("default")
    assert newest is not None
    assert (newest.version, newest.settings, newest.principal, newest.comment) == (2, {"b": "3"}, "", "why 2")
    listed = world.api.list_pool_settings("default")
    assert [(row.version, row.principal) for row in listed] == [(2, ""), (1, "root")]
    assert listed[0].create_time_us >= listed[1].create_time_us > 0
    assert [row.version for row in world.api.list_pool_settings("default", before_version=2, limit=1)] == [1]
    assert world.leader.read_settings() == newest
    assert _news(world) == 2
    (record,) = world.api.list_audit(name="default")
    assert (record.actor.principal, record.kind, record.detail) == ("root", "PoolSettings", "half time")


def test_of_two_who_set_a_version_at_once_one_is_told_to_look_again(world: StoreWorld) -> None:
    """Nobody's change is lost unseen; what was refused told no leader."""
    _set(world, 1, {"a": "1"})
    for version in (1, 3):
        with pytest.raises(StateConflict, match="were changed meanwhile"):
            _set(world, version, {"a": "2"})
    assert _news(world) == 1


def test_the_last_thousand_versions_are_kept(world: StoreWorld) -> None:
    """So that no table grows for ever."""
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pool_settings (pool, version, settings, principal, comment)"
            " SELECT 'default', n, '{}', '', '' FROM generate_series(1, 1000) AS n"
        )
    _set(world, 1001, {"a": "1"})
    rows = world.api.list_pool_settings("default", limit=2000)
    assert (len(rows), rows[-1].version) == (1000, 2)

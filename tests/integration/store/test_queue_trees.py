"""Queues below queues: what is a tree of one pool, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pytest

from argosy_core.errors import AlreadyExists, NotAllowedNow
from argosy_store.rows import QueueRow
from argosy_testkit.store_world import StoreWorld


def encode_queue_changes(queue_ids: Sequence[int]) -> bytes:
    """Return news of queues."""
    return ",".join(map(str, queue_ids)).encode()


def make(world: StoreWorld, name: str, parent: str = "", pool: str = "default") -> QueueRow:
    """Make a queue."""
    return world.api.create_queue(
        name, weight=1.0, pool=pool, create_time_us=1, encode=encode_queue_changes, parent=parent
    )


def move(world: StoreWorld, name: str, **changes: str) -> QueueRow:
    """Change a queue as it is now."""
    etag = world.api.get_queue(name).etag
    return world.api.update_queue(name, etag=etag, changes=changes, encode=encode_queue_changes)


def test_a_queue_stands_below_another_and_moves(world: StoreWorld) -> None:
    """Made below one, moved below another and to the top; equal ones are success, others are not."""
    make(world, "physics")
    make(world, "biology")
    assert make(world, "optics", "physics").parent == "physics"
    assert make(world, "optics", "physics").parent == "physics"
    with pytest.raises(AlreadyExists):
        make(world, "optics", "biology")
    assert move(world, "optics", parent="biology").parent == "biology"
    assert move(world, "optics", parent="").parent == ""


def test_circles_and_unknown_parents_are_refused(world: StoreWorld) -> None:
    """The message names the way round."""
    with pytest.raises(NotAllowedNow, match="there is no queue nobody for optics"):
        make(world, "optics", "nobody")
    make(world, "physics")
    make(world, "optics", "physics")
    make(world, "lasers", "optics")
    with pytest.raises(NotAllowedNow, match="physics below lasers below optics below physics"):
        move(world, "physics", parent="lasers")
    with pytest.raises(NotAllowedNow, match="cannot stand below itself"):
        move(world, "physics", parent="physics")


def test_a_tree_is_of_one_pool(world: StoreWorld) -> None:
    """Neither made nor moved across, and what has queues below it moves to no other pool."""
    make(world, "physics")
    make(world, "optics", "physics")
    with pytest.raises(NotAllowedNow, match="a tree of queues is of one pool"):
        make(world, "far", "physics", pool="gpu")
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM changes")  # the leader has taken them
    with pytest.raises(NotAllowedNow, match="optics stands below queue physics"):
        move(world, "physics", pool="gpu")
    with pytest.raises(NotAllowedNow, match="a tree of queues is of one pool"):
        move(world, "optics", pool="gpu")


def test_a_queue_with_others_below_it_is_not_deleted(world: StoreWorld) -> None:
    """They would stand nowhere; without them it is."""
    make(world, "physics")
    make(world, "optics", "physics")
    with pytest.raises(NotAllowedNow, match="optics stands below queue physics, so that cannot be deleted"):
        world.api.delete_queue("physics", encode=encode_queue_changes)
    world.api.delete_queue("optics", encode=encode_queue_changes)
    world.api.delete_queue("physics", encode=encode_queue_changes)


def test_queues_stand_in_eight_levels_at_most(world: StoreWorld) -> None:
    """Counted with what a queue brings along."""
    for level in range(8):
        make(world, f"l{level}", f"l{level - 1}" if level else "")
    with pytest.raises(NotAllowedNow, match="9 levels, but at most 8"):
        make(world, "l8", "l7")
    make(world, "top")
    with pytest.raises(NotAllowedNow, match="9 levels, but at most 8"):
        move(world, "l0", parent="top")


def test_limits_are_stored_with_the_queue(world: StoreWorld) -> None:
    """As they were given; with others it is another queue."""
    limits = {"max_running_count": 3, "max_running_amounts": ["cpu=64000"]}
    made = world.api.create_queue(
        "small", weight=1.0, pool="default", create_time_us=1, encode=encode_queue_changes, **limits
    )
    assert (made.max_running_count, made.max_running_amounts) == (3, ("cpu=64000",))
    with pytest.raises(AlreadyExists):
        make(world, "small")
    changed = world.api.update_queue(
        "small", etag=made.etag, changes={"max_running_amounts": []}, encode=encode_queue_changes
    )
    assert (changed.max_running_count, changed.max_running_amounts) == (3, ())

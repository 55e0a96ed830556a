"""Kinds that cannot be looked at: what was not seen of them is no word about what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argosy_testkit.cluster_model import make_observations
from argosy_testkit.reconcile_world import World

BAG = ("Widget.example.test", "Secret", "Pod")
MADE = [(7, 0, "RUNNING"), (7, 1, "RUNNING"), (7, 2, "CREATED")]


def list_without(world: World, *hidden: str) -> None:
    """Bring a listing in which some kinds are hidden."""
    seen = [item for item in world.cluster.objects.values() if item.kind == "Pod"]
    listing = replace(make_observations(seen, time_us=world.now.wall_us), unlistable_kinds=hidden)
    world.reconciler.take_listing(listing, started_s=world.now_s, now=world.now)


def made(world: World) -> World:
    """Return a world with one bag that runs."""
    world.give([7], *BAG)
    for _ in range(3):
        world.act()
    assert sorted(world.report()) == MADE
    world.pass_time(10.0)
    return world


@pytest.mark.parametrize(
    ("hidden", "lost"),
    [
        pytest.param(("Secret", "Widget.example.test"), [], id="both"),
        pytest.param(("Secret", "*.example.test"), [], id="a-whole-group"),
        pytest.param(("Secret",), [0], id="not-the-widget"),
        pytest.param((), [0, 1], id="none"),
    ],
)
def test_listing_says_nothing_about_kinds_that_it_could_not_look_at(
    world: World, hidden: tuple[str, ...], lost: list[int]
) -> None:
    """Their objects count as there; those of the others are lost."""
    made(world)
    list_without(world, *hidden)
    told = {(position, state) for _, position, state in world.report()}
    assert told == {(position, "LOST") for position in lost}
    assert world.reconciler.unlistable_count == 2 - len(lost)
    assert (world.actions().deletes is None) == (not lost)


def test_successor_takes_for_there_what_must_be_and_cannot_be_seen(world: World) -> None:
    """A pod of the bag was seen, so all before it was made; when it can be looked at again, the truth is told."""
    made(world)
    successor = World(cluster=world.cluster, now_s=world.now_s)
    list_without(successor, "Secret", "*.example.test")
    successor.give([7], *BAG, seen=True)
    for _ in range(2):
        assert successor.act().creates is None
    assert sorted(successor.report()) == MADE
    assert successor.reconciler.unlistable_count == 2
    successor.cluster.remove((7, 1, 1))
    successor.pass_time(1.0)
    successor.list_all()
    assert (7, 1, "LOST") in successor.report()
    assert successor.reconciler.unlistable_count == 0


def test_bag_that_is_stopped_asks_for_the_deletion_of_what_cannot_be_seen(world: World) -> None:
    """It may be there, so it is not told as cancelled before the cluster says that it is gone."""
    made(world)
    successor = World(cluster=world.cluster, now_s=world.now_s)
    list_without(successor, "Secret", "*.example.test")
    successor.give([7], *BAG, seen=True)
    successor.stop(7)
    deletes = successor.actions().deletes
    assert deletes is not None
    assert sorted(deletes.object_column.tolist()) == [0, 1, 2]
    assert "CANCELLED" not in [state for _, _, state in successor.report()]

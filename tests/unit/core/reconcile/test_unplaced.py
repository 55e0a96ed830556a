"""Runs that were leased to the cluster as a whole: nothing is made before their row has a node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argosy_core.job.states import FailureKind
from argosy_core.job.tables.members import Members
from argosy_core.nodes import ANY_NODE
from argosy_core.placement import PlaceReply
from argosy_testkit.reconcile_world import World, rows_of


def give(world: World, *handles: int, node: str = ANY_NODE, kinds: tuple[str, ...] = ("Pod",)) -> None:
    """Send rows that name a node."""
    world.reconciler.take_rows(replace(rows_of(list(handles), *kinds), nodes=(node,)), world.now)


def asked(world: World) -> list[int]:
    """Return for which jobs the sampler is to be asked now."""
    places = world.act().places
    return [] if places is None else places.handle.tolist()


def answer(world: World, handle: int, node: str = "", why: str = "") -> None:
    """Have the sampler answer for a run."""
    reply = PlaceReply(nodes=(node,), reasons=(why,))
    world.reconciler.take_place_response(Members.of([handle], [1]), reply, world.now)


def test_nothing_is_made_before_the_row_comes_with_a_node() -> None:
    """What the sampler says is stored by the leader first, so whoever restarts knows it."""
    world = World()
    world.list_all()
    give(world, 7)
    assert asked(world) == [7]
    answer(world, 7, "n1")
    world.settle()
    assert not world.cluster.objects
    give(world, 7, node="n1")
    creates = world.act().creates
    assert creates is not None
    assert creates.nodes == ("n1",)
    assert list(world.cluster.objects) == [(7, 1, 0)]


def test_other_objects_of_a_bag_wait_for_the_node_as_well() -> None:
    """A run that is returned must leave nothing behind."""
    world = World()
    world.list_all()
    give(world, 7, kinds=("ConfigMap", "Pod"))
    world.settle()
    assert not world.cluster.objects
    give(world, 7, node="n1", kinds=("ConfigMap", "Pod"))
    world.settle()
    assert sorted(world.cluster.objects) == [(7, 1, 0), (7, 1, 1)]


def test_returned_run_ends_with_the_samplers_reason_and_is_forgotten() -> None:
    """No pod of it ever existed, and nobody asks for it again."""
    world = World()
    world.list_all()
    give(world, 7)
    asked(world)
    answer(world, 7, why="no node holds it")
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].failure_column.tolist() == [FailureKind.RETURNED]
    assert world.reports[-1].texts == ("no node holds it",)
    world.pass_time(100.0)
    assert asked(world) == []
    world.settle()
    assert world.reconciler.object_count == 0


def test_sampler_is_asked_again_after_a_lost_answer_and_given_up_after_a_minute() -> None:
    """Without a sampler the run goes back, since another cluster may have room."""
    world = World()
    world.list_all()
    give(world, 7)
    assert asked(world) == [7]
    assert asked(world) == []
    world.reconciler.take_place_response(Members.of([7], [1]), None, world.now)
    world.pass_time(1.0)
    assert asked(world) == [7]
    world.pass_time(59.0)
    world.reconciler.take_place_response(Members.of([7], [1]), None, world.now)
    assert world.report() == [(7, 0, "FAILED")]
    assert world.reports[-1].texts == ("the cluster's sampler has not answered for 60 s",)


def test_row_that_is_lost_after_the_answer_is_asked_for_again() -> None:
    """The sampler then tells the leader again."""
    world = World()
    world.list_all()
    give(world, 7)
    asked(world)
    answer(world, 7, "n1")
    world.pass_time(6.0)
    assert asked(world) == [7]


def test_run_without_a_node_is_told_as_unknown_so_that_its_row_comes_again() -> None:
    """It may have a node by now."""
    world = World()
    world.list_all()
    give(world, 7)
    give(world, 8, node="n1")
    assert world.reconciler.known_runs().handle.tolist() == [8]


def test_stopped_run_without_a_node_ends_as_cancelled_and_its_node_comes_too_late() -> None:
    """A cancel request wins over the sampler's answer."""
    world = World()
    world.list_all()
    give(world, 7)
    asked(world)
    world.stop(7)
    give(world, 7, node="n1")
    world.act()
    assert world.report() == [(7, 0, "CANCELLED")]
    assert not world.cluster.objects
    world.pass_time(10.0)
    assert asked(world) == []


def test_nobody_is_asked_while_the_executor_may_not_act() -> None:
    """Another executor may be at work."""
    world = World()
    world.list_all()
    give(world, 7)
    assert world.actions(may_act=False).places is None
    assert np.array_equal(world.actions().places.handle, [7])  # type: ignore[union-attr]

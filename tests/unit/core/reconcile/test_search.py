"""What a predecessor saw is called absent only after a look for its name: its labels may be gone, and it may run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.reconcile import Reconciler, settle_time_s
from argosy_testkit.cluster_model import ModelObject
from argosy_testkit.reconcile_world import World

FENCE_S, CALL_S = 15.0, 30.0
SETTLED_S = 51.0


def successor(*, settles: bool = True) -> World:
    """Return a world whose executor has listed the cluster and, if it settles, was welcomed after another one."""
    world = World(reconciler=Reconciler(keep_finished_s=60.0, call_timeout_s=CALL_S, settled_at_s=math.inf))
    world.list_all()
    settled_at_s = settle_time_s(world.now_s, fence_s=FENCE_S, call_timeout_s=CALL_S) if settles else 0.0
    world.reconciler.settle_at(settled_at_s, world.now)
    return world


def hide(world: World, position: int = 0, kind: str = "Pod", state: ObjectState = ObjectState.RUNNING) -> None:
    """Let an object of run 7/1 be there without labels."""
    key = (7, 1, position)
    world.cluster.objects[key] = ModelObject(key, 50 + position, kind, state)
    world.cluster.unlabelled.add(key)


def settle(world: World) -> None:
    """Let the calls of a predecessor run out, and everything follow that does."""
    world.pass_time(SETTLED_S)
    world.settle(steps=5)


@pytest.mark.parametrize("has_predecessor", [True, False])
def test_pod_without_labels_is_found_by_its_name_and_is_the_same_run(*, has_predecessor: bool) -> None:
    """It was reported before, no list shows it, and it is neither lost nor made again; its end ends the run."""
    world = successor(settles=has_predecessor)
    hide(world)
    world.give([7], seen=True)
    settle(world)
    assert [state for batch in world.reports for state in batch.state_column.tolist()] == [ObjectState.RUNNING]
    assert world.cluster.created_pods == {}
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    assert world.report() == [(7, 0, "SUCCEEDED")]
    world.pass_time(61.0)
    world.settle(steps=3)
    assert (world.cluster.objects, world.reconciler.object_count) == ({}, 0)


def test_pod_that_nobody_finds_is_lost() -> None:
    """A look by name has shown nothing, and so has the list."""
    world = successor()
    world.give([7], seen=True)
    world.settle(steps=2)
    settle(world)
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]
    assert world.cluster.lookup_count == 2, "at once, and after the last call that could make it"


def test_look_that_is_not_answered_is_repeated_and_proves_nothing() -> None:
    """Nobody knows whether it is there."""
    world = successor()
    hide(world)
    world.give([7], seen=True)
    for _ in range(4):
        world.act(lost_answers=True)
        assert world.report() == []
        world.pass_time(31.0)
    assert world.cluster.lookup_count == 0
    world.settle(steps=3)
    assert world.reports[-1].state_column.tolist() == [ObjectState.RUNNING]


def test_look_under_way_is_not_given_out_again() -> None:
    """Each object is looked for once until the answer comes; a stop meanwhile changes nothing about that."""
    world = successor()
    world.give([7], seen=True)
    lookups = world.actions().lookups
    assert lookups is not None
    assert (lookups.handle_column.tolist(), lookups.owners, lookups.nodes) == ([7], (("queue", "set"),), ("node-1",))
    world.stop(7)
    world.list_all()
    assert world.actions().lookups is None
    world.reconciler.take_found(lookups, None, started_s=world.now_s, now=world.now)
    world.pass_time(1.0)
    assert world.actions().lookups is not None


@pytest.mark.parametrize(("seen", "count"), [(True, 1), (False, 0)])
def test_look_before_the_last_call_has_run_out_proves_nothing(*, seen: bool, count: int) -> None:
    """What it does not find could still be made, so one is enough, and only for what was reported."""
    world = successor()
    world.give([7], seen=seen)
    world.stop(7)
    for _ in range(9):
        world.settle(steps=1)
        world.pass_time(3.0)
    assert (world.cluster.lookup_count, world.reports) == (count, [])


def test_pod_that_was_reported_is_found_at_once() -> None:
    """Its run would be deaf until the last call has run out."""
    world = successor()
    hide(world)
    world.give([7], seen=True)
    world.settle(steps=2)
    assert [batch.state_column.tolist() for batch in world.reports] == [[ObjectState.RUNNING]]


def test_cancelled_run_whose_pod_has_lost_its_labels_is_deleted() -> None:
    """Cancelled is told when it is gone, and not because nobody sees it."""
    world = successor()
    hide(world)
    world.give([7], seen=True)
    world.stop(7)
    settle(world)
    assert world.cluster.objects == {}
    assert world.reports[-1].state_column.tolist()[-1] == ObjectState.CANCELLED


def test_run_that_was_never_reported_is_looked_for_before_it_is_cancelled() -> None:
    """A predecessor may have made its pod and told nobody."""
    world = successor()
    hide(world)
    world.give([7])
    world.stop(7)
    settle(world)
    assert world.cluster.objects == {}
    assert world.reports[-1].state_column.tolist()[-1] == ObjectState.CANCELLED


def test_refusal_is_believed_only_after_a_look() -> None:
    """Who refuses it now may have let a predecessor make it."""
    world = successor()
    hide(world)
    world.cluster.refused.add(7)
    world.give([7])
    settle(world)
    for _ in range(3):
        world.pass_time(31.0)
        world.settle(steps=2)
    assert world.reports[-1].state_column.tolist() == [ObjectState.RUNNING]


@pytest.mark.parametrize("hidden", [0, 1], ids=["config-map", "pod"])
def test_object_of_a_bag_without_labels_is_found_and_the_bag_goes_on(hidden: int) -> None:
    """One of its objects is not listed; the bag is neither lost nor torn down, and goes as a whole in the end."""
    world = World()
    for position, kind in enumerate(("ConfigMap", "Pod")):
        hide(world, position, kind)
    world.cluster.unlabelled = {(7, 1, hidden)}
    world.reconciler = Reconciler(keep_finished_s=60.0, call_timeout_s=CALL_S, settled_at_s=math.inf)
    world.list_all()
    world.reconciler.settle_at(settle_time_s(world.now_s, fence_s=FENCE_S, call_timeout_s=CALL_S), world.now)
    world.give([7], "ConfigMap", "Pod", seen=True)
    settle(world)
    told = {state for batch in world.reports for state in batch.state_column.tolist()}
    assert told == {ObjectState.RUNNING}
    assert world.cluster.lookup_count == 1
    world.cluster.show((7, 1, 1), ObjectState.SUCCEEDED)
    world.watch()
    for _ in range(3):
        world.settle(steps=2)
        world.pass_time(61.0)
    world.settle(steps=2)
    assert (world.cluster.objects, world.reconciler.object_count) == ({}, 0)


def test_pod_that_ended_and_went_while_it_was_looked_for_is_told_as_it_ended() -> None:
    """What the look shows as gone has its last state."""
    world = successor()
    hide(world, state=ObjectState.SUCCEEDED)
    world.give([7], seen=True)
    lookups = world.actions().lookups
    found = world.cluster.find(lookups)
    found.gone_column[:] = True
    world.reconciler.take_found(lookups, found, started_s=world.now_s, now=world.now)
    assert world.report() == [(7, 0, "SUCCEEDED")]


def test_look_that_may_not_see_a_kind_proves_nothing_about_it() -> None:
    """Its objects are looked for again until somebody may look."""
    world = successor()
    world.give([7], seen=True)
    world.settle(steps=2)
    world.pass_time(SETTLED_S)
    world.act()
    world.list_all()
    lookups = world.actions().lookups
    blind = replace(world.cluster.find(lookups), unlistable_kinds=("Pod",))
    world.reconciler.take_found(lookups, blind, started_s=world.now_s, now=world.now)
    world.pass_time(1.0)
    world.act()
    assert world.report() == []
    settle(world)
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]


def test_ordinary_life_and_an_ordinary_succession_look_for_nothing() -> None:
    """Made, seen, listed by a successor, ended, deleted: a look costs a call, and none is needed."""
    world = successor()
    world.give([7, 8])
    world.give([9], "ConfigMap", "Pod")
    settle(world)
    world.reconciler = successor().reconciler
    world.list_all()
    world.give([9], "ConfigMap", "Pod", seen=True)
    for key in [item.key for item in world.cluster.pods()]:
        world.cluster.show(key, ObjectState.SUCCEEDED)
    world.watch()
    for _ in range(4):
        settle(world)
        world.pass_time(61.0)
    world.settle(steps=3)
    assert (world.cluster.objects, world.cluster.lookup_count) == ({}, 0)

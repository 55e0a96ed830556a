"""What is not there is lost only when nothing can make it any more: no predecessor's call, and none of our own."""

from __future__ import annotations

import math

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.reconcile import Reconciler, settle_time_s
from argosy_testkit.cluster_model import ModelObject
from argosy_testkit.reconcile_world import World

KEY = (7, 1, 0)
FENCE_S, CALL_S = 15.0, 30.0


def successor() -> World:
    """Return a world whose executor has listed the cluster and was welcomed after another one."""
    world = World(reconciler=Reconciler(keep_finished_s=60.0, call_timeout_s=CALL_S, settled_at_s=math.inf))
    world.list_all()
    world.reconciler.settle_at(settle_time_s(world.now_s, fence_s=FENCE_S, call_timeout_s=CALL_S), world.now)
    return world


def late_call(world: World, uid: int = 55) -> None:
    """Let a predecessor's creation come through."""
    world.cluster.objects[KEY] = ModelObject(KEY, uid, "Pod", ObjectState.CREATED)
    world.cluster.show(KEY, ObjectState.RUNNING)


def test_settling_takes_fence_calls_and_a_margin_from_the_first_welcome() -> None:
    """A predecessor is confirmed until its successor is admitted, and acts and calls on after that."""
    assert settle_time_s(1000.0, fence_s=15.0, call_timeout_s=30.0) == 1050.0


@pytest.mark.parametrize("kinds", [("Pod",), ("ConfigMap", "Pod")], ids=["pod", "bag"])
def test_run_that_was_seen_and_is_not_there_stays_undecided_until_all_calls_have_run_out(
    kinds: tuple[str, ...],
) -> None:
    """It is neither made again nor called lost, and then only after a listing that was asked for late enough."""
    world = successor()
    world.give([7], *kinds, seen=True)
    for _ in range(9):
        assert world.act().creates is None
        assert world.report() == []
        world.pass_time(5.0)
    world.list_all()
    world.pass_time(5.0)
    assert world.act().creates is None
    assert world.report() == [], "the listing was asked for before the last call had run out"
    assert world.reconciler.wants_listing
    world.list_all()
    world.act()
    assert world.report() == [], "nobody has looked for its name yet"
    world.act()
    assert (7, len(kinds) - 1, "LOST") in world.report()


def test_pod_that_a_late_call_makes_is_the_runs_own() -> None:
    """While it was not called lost, no other run was begun; so it goes on."""
    world = successor()
    world.give([7], seen=True)
    world.act()
    late_call(world)
    world.watch()
    assert world.act().deletes is None
    assert world.report() == [(7, 0, "RUNNING")]
    world.pass_time(60.0)
    world.list_all()
    assert world.act().deletes is None
    assert world.report() == []


def test_pod_that_vanishes_before_settling_is_lost_only_after_it() -> None:
    """It may be made again by the same call that made it, sent twice; then it is the run's own again."""
    world = successor()
    world.give([7])
    world.settle(steps=2)
    world.cluster.remove(KEY)
    world.watch()
    assert world.report() == []
    late_call(world, uid=99)
    world.watch()
    assert world.report() == [(7, 0, "RUNNING")]
    world.cluster.remove(KEY)
    world.watch()
    assert world.act().creates is None
    assert world.report() == []
    world.pass_time(51.0)
    world.settle(steps=2)
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]


def test_old_list_does_not_bring_back_what_is_gone() -> None:
    """Events of the pod that is known to be gone are late ones."""
    world = successor()
    world.give([7])
    world.settle(steps=2)
    world.cluster.show(KEY, ObjectState.RUNNING)
    late = list(world.cluster.unread)
    world.cluster.remove(KEY)
    world.watch()
    world.report()
    world.cluster.unread.extend(late)
    world.watch()
    assert world.act().deletes is None
    world.pass_time(51.0)
    world.settle(steps=2)
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]


def test_stopped_run_that_vanishes_before_settling_is_cancelled_after_it() -> None:
    """A late call could make it again; it would be deleted, too, and only then is the run over."""
    world = successor()
    world.give([7])
    world.settle(steps=2)
    world.stop(7)
    assert world.act().deletes is not None
    world.watch()
    assert world.report() == []
    late_call(world)
    world.watch()
    assert world.act().deletes is not None
    world.watch()
    world.pass_time(51.0)
    world.settle(steps=3)
    assert world.reports[-1].state_column.tolist()[-1] == ObjectState.CANCELLED
    assert world.cluster.objects == {}


@pytest.mark.parametrize("settled", [False, True])
def test_first_executor_of_a_cluster_waits_for_nobody(*, settled: bool) -> None:
    """Where there was no predecessor, what is gone is lost at once; before the welcome nobody knows."""
    world = World(reconciler=Reconciler(settled_at_s=math.inf))
    late_call(world)
    world.list_all()
    world.cluster.remove(KEY)
    world.watch()
    world.report()
    assert ObjectState.LOST not in world.reports[-1].state_column
    if settled:
        world.reconciler.settle_at(0.0, world.now)
        world.act()
        assert world.report() == [(7, 0, "LOST")]


def test_own_call_without_an_answer_is_waited_for_as_a_predecessors() -> None:
    """Its pod was seen, went, and could be made again by the call that is still under way."""
    world = World(reconciler=Reconciler(call_timeout_s=CALL_S))
    world.list_all()
    world.give([7])
    world.act(lost_answers=True)
    world.watch()
    world.report()
    world.cluster.remove(KEY)
    world.watch()
    assert world.report() == []
    world.pass_time(CALL_S + 6.0)
    world.settle(steps=2)
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]


def test_refusal_before_settling_is_not_believed() -> None:
    """What is refused to us may be granted to the predecessor's call; after that it is final."""
    world = successor()
    world.cluster.refused.add(7)
    world.give([7])
    world.act()
    assert world.report() == []
    for _ in range(5):
        world.pass_time(31.0)
        world.settle(steps=1)
    assert world.reports[-1].state_column.tolist() == [ObjectState.FAILED]


def test_rest_of_a_broken_bag_is_decided_by_the_listing_after_the_last_call() -> None:
    """An object went while the creation of the pod had no answer; nothing else happens that would bring it up again."""
    world = World(reconciler=Reconciler(call_timeout_s=CALL_S))
    world.list_all()
    world.give([7], "Service", "Pod")
    world.act()
    world.watch()
    world.report()
    world.act(lost_calls=True)
    world.cluster.remove(KEY)
    world.watch()
    assert world.report() == [(7, 0, "LOST")]
    for _ in range(3):
        world.pass_time(CALL_S)
        world.settle(steps=2)
    assert world.reconciler.object_count == 0, "all is told, stored and forgotten"
    assert world.reports[-1].state_column.tolist() == [ObjectState.LOST]


def test_nothing_of_a_bag_is_made_while_the_end_of_an_object_is_not_certain() -> None:
    """What vanished may come back or be lost; a pod that is made meanwhile could work in a bag that is over."""
    world = successor()
    world.give([7], "Service", "Pod")
    world.act()
    world.cluster.remove(KEY)
    world.watch()
    assert world.act().creates is None
    world.pass_time(51.0)
    world.settle()
    assert world.cluster.created_pods == {}
    assert world.reports[-1].state_column.tolist()[-1] == ObjectState.LOST


def test_call_that_was_never_answered_is_waited_for_although_the_next_one_was() -> None:
    """The second answer says nothing about the first call, which may still come through."""
    world = World(reconciler=Reconciler(call_timeout_s=CALL_S))
    world.list_all()
    world.give([7])
    world.act(lost_calls=True)
    world.pass_time(0.6)
    world.cluster.full.add(7)
    assert world.act().creates is not None
    world.stop(7)
    world.pass_time(1.0)
    world.list_all()
    world.act()
    assert world.report() == []
    world.pass_time(CALL_S + 6.0)
    world.settle(steps=3)
    assert world.reports[-1].state_column.tolist() == [ObjectState.CANCELLED]

"""What the reconcile step does with bags of several objects."""

from __future__ import annotations

import pytest

from argosy_core.job.states import ObjectState
from argosy_core.reconcile import Reconciler
from argosy_testkit.reconcile_world import World

BAG = ("ConfigMap", "Service", "Pod", "Pod")


def created(world: World) -> list[int]:
    """Act once; return the positions of the objects created."""
    creates = world.act().creates
    return [] if creates is None else creates.object_column.tolist()


def reported(world: World) -> list[tuple[int, ObjectState]]:
    """Return positions and states in the order in which they were reported."""
    return [
        (at, ObjectState(state))
        for batch in world.reports
        for at, state in zip(batch.object_column.tolist(), batch.state_column.tolist(), strict=True)
    ]


def test_bag_is_made_with_its_pods_last(world: World) -> None:
    """Other objects first, then the pods."""
    world.give([7], *BAG)
    assert [created(world) for _ in range(3)] == [[0, 1], [2, 3], []]
    assert world.report() == [(7, 0, "RUNNING"), (7, 1, "RUNNING"), (7, 2, "CREATED"), (7, 3, "CREATED")]


def test_message_of_no_rows_changes_nothing_beside_a_bag(world: World) -> None:
    """A leader need not have anything to tell."""
    world.give([7], *BAG)
    world.give([], *BAG)
    assert created(world) == [0, 1]


def test_bag_waits_while_an_object_before_is_not_there(world: World) -> None:
    """No pod is made while the cluster has not answered for the objects it needs."""
    world.give([7], "Service", "Pod")
    world.act(lost_calls=True)
    assert created(world) == []
    world.pass_time(1.0)
    assert created(world) == [0]
    assert created(world) == [1]


def test_bag_ends_when_all_pods_succeeded_and_goes_as_one(world: World) -> None:
    """The other objects end with the pods, stay as long, and everything is forgotten."""
    world.give([7], *BAG)
    world.settle(steps=4)
    world.cluster.show((7, 1, 2), ObjectState.SUCCEEDED)
    world.settle()
    world.pass_time(600.0)
    world.settle()
    assert len(world.cluster.objects) == 4, "what ended early stays with the bag"
    assert dict(reported(world))[0] == ObjectState.RUNNING
    world.cluster.show((7, 1, 3), ObjectState.SUCCEEDED)
    world.settle()
    assert dict(reported(world)) == dict.fromkeys(range(4), ObjectState.SUCCEEDED)
    assert sorted(world.cluster.objects) == [(7, 1, 0), (7, 1, 1), (7, 1, 3)], "the early one has had its time"
    world.pass_time(60.0)
    world.settle()
    assert world.cluster.objects == {}
    assert world.reconciler.object_count == 0


def test_any_failure_deletes_the_bag(world: World) -> None:
    """When a pod fails the rest goes at once and ends as failed; the failed pod stays for its logs."""
    world.give([7], *BAG)
    world.settle(steps=4)
    world.cluster.show((7, 1, 3), ObjectState.FAILED, exit_code=2)
    world.settle(steps=3)
    assert list(world.cluster.objects) == [(7, 1, 3)]
    assert dict(reported(world)) == dict.fromkeys(range(4), ObjectState.FAILED)
    world.pass_time(60.0)
    world.settle()
    assert world.reconciler.object_count == 0


def test_refused_object_ends_the_bag_before_its_pods(world: World) -> None:
    """If an object cannot be made, no pod is."""
    world.cluster.unmanaged_pods.add((7, 1, 1))
    world.give([7], *BAG)
    world.settle()
    assert world.cluster.created_pods == {}
    assert world.cluster.objects == {}
    assert world.reconciler.object_count == 0
    states = [state for batch in world.reports for state in batch.state_column.tolist()]
    assert states.count(ObjectState.FAILED) == 4


@pytest.mark.parametrize("position", [0, 2])
def test_lost_object_deletes_the_bag_as_lost(world: World, position: int) -> None:
    """When an object is removed by others the run is lost as a whole."""
    world.give([7], *BAG)
    world.settle(steps=4)
    world.cluster.remove((7, 1, position))
    world.settle(steps=2)
    assert world.cluster.objects == {}
    assert {(2, ObjectState.LOST), (3, ObjectState.LOST)} <= set(reported(world))


def test_stop_deletes_the_whole_bag(world: World) -> None:
    """A stopped bag's objects all end as cancelled, made or not."""
    world.give([7], *BAG)
    assert created(world) == [0, 1]
    world.stop(7)
    world.settle()
    assert world.cluster.objects == {}
    assert world.cluster.created_pods == {}
    assert world.reconciler.object_count == 0
    assert {(at, ObjectState.CANCELLED) for at in range(4)} <= set(reported(world))


def restart(world: World) -> None:
    """Let a new executor begin from a listing."""
    world.pass_time(1.0)
    world.reconciler = Reconciler()
    world.list_all()
    world.reconciler.restart_session()


def test_bag_without_pods_is_made_whole_after_a_restart(world: World) -> None:
    """A predecessor that made only the service left a run that needs its row; with the row the pods follow."""
    world.give([7], "Service", "Pod")
    assert created(world) == [0]
    restart(world)
    assert world.reconciler.known_runs().handle.tolist() == []
    world.give([7], "Service", "Pod")
    assert created(world) == [1]
    assert world.cluster.created_pods == {(7, 1, 1): 1}


def test_whole_bag_is_adopted_after_a_restart(world: World) -> None:
    """A bag that was only seen needs its row; with everything there nothing is made or deleted."""
    world.give([7], *BAG)
    world.settle(steps=4)
    restart(world)
    assert world.reconciler.known_runs().handle.tolist() == []
    world.settle()
    assert len(world.cluster.objects) == 4
    world.give([7], *BAG, seen=True)
    world.settle()
    assert len(world.cluster.objects) == 4
    assert world.reconciler.known_runs().handle.tolist() == [7]


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_bag_with_a_gap_is_deleted_as_lost_after_a_restart(world: World, missing: int) -> None:
    """What vanished while nobody watched was lost, and the rest of the bag goes with it."""
    world.give([7], *BAG)
    world.settle(steps=4)
    world.cluster.remove((7, 1, missing))
    restart(world)
    world.give([7], *BAG, seen=True)
    world.settle()
    assert world.cluster.objects == {}
    assert dict(reported(world)) == dict.fromkeys(range(4), ObjectState.LOST)


def test_bag_with_half_its_pods_is_lost_after_a_restart(world: World) -> None:
    """A predecessor that died between two pods left a bag that cannot be continued: its first pod may have worked."""
    world.give([7], *BAG)
    created(world)
    assert created(world) == [2, 3]
    world.cluster.remove((7, 1, 2))
    restart(world)
    world.give([7], *BAG)
    world.settle()
    assert world.cluster.objects == {}
    assert world.cluster.created_pods == {(7, 1, 2): 1, (7, 1, 3): 1}


def test_missing_objects_of_a_run_seen_before_are_lost(world: World) -> None:
    """A row of a bag whose pods were reported does not bring them back."""
    world.give([7], *BAG, seen=True)
    world.settle()
    assert world.cluster.created_pods == {}
    assert world.cluster.objects == {}
    assert world.reconciler.object_count == 0

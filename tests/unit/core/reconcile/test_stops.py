"""What the reconcile step does with runs of one pod that shall not be."""

from __future__ import annotations

from argosy_core.job.states import ObjectState
from argosy_testkit.cluster_model import ModelObject
from argosy_testkit.reconcile_world import World


def test_stop_deletes_running_pod_and_reports_cancelled(world: World) -> None:
    """A stopped run's pod is deleted with its uid, and its end is cancelled though the kill makes it fail."""
    world.give([7])
    world.settle(steps=1)
    world.stop(7)
    deletes = world.actions().deletes
    assert deletes is not None
    world.cluster.show((7, 1, 0), ObjectState.FAILED, exit_code=143)
    world.watch()
    assert world.report() == [(7, 0, "CANCELLED")]
    world.reconciler.take_delete_responses(deletes, world.cluster.delete(deletes), world.now)
    world.settle()
    assert world.reconciler.object_count == 0


def test_success_wins_over_a_stop(world: World) -> None:
    """What the pod did wins over what was asked."""
    world.give([7])
    world.settle(steps=1)
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.stop(7)
    world.act()
    world.watch()
    assert world.report() == [(7, 0, "SUCCEEDED")]


def test_stop_before_creation_makes_nothing(world: World) -> None:
    """A run that is stopped before its pod was made ends as cancelled, and no pod is made."""
    world.give([7])
    world.stop(7)
    world.settle()
    assert world.cluster.created_pods == {}
    assert world.reports[0].state_column.tolist() == [ObjectState.CANCELLED]


def test_stop_of_unknown_run_is_answered_with_cancelled(world: World) -> None:
    """The leader hears that there is nothing, once."""
    world.stop(9, attempt=3)
    world.act()
    assert world.report() == [(9, 0, "CANCELLED")]
    assert world.reports[0].ordinal_column.tolist() == [3]
    world.act()
    assert world.reconciler.object_count == 0


def test_stopped_run_with_unknown_creation_waits_for_a_listing(world: World) -> None:
    """Only a listing tells whether an unanswered creation came through; nothing is created to find out."""
    world.give([7])
    world.act(lost_answers=True)
    world.stop(7)
    world.pass_time(5.0)
    assert world.act().creates is None
    assert not world.reconciler.wants_listing, "the call may still be under way"
    world.pass_time(30.0)
    assert world.act().creates is None
    assert world.reconciler.wants_listing
    world.list_all()
    assert not world.reconciler.wants_listing
    assert world.act().deletes is not None
    world.give([8])
    world.act(lost_calls=True)
    world.stop(8)
    world.act()
    world.pass_time(1.0)
    world.list_all()
    world.act()
    assert (8, 0, "CANCELLED") not in world.report(), "the call may still be under way"
    world.pass_time(36.0)
    world.settle()
    assert world.reports[-1].state_column.tolist()[-1] == ObjectState.CANCELLED


def test_late_pod_of_ended_run_is_deleted(world: World) -> None:
    """A pod that appears after its run was called over goes, and the run's end stays what it was."""
    world.stop(9)
    world.act()
    world.report(store=False)
    world.cluster.objects[9, 1, 0] = ModelObject((9, 1, 0), 55, "Pod", ObjectState.CREATED)
    world.cluster.show((9, 1, 0), ObjectState.RUNNING)
    world.watch()
    world.reconciler.acknowledge(1)
    assert world.act().deletes.uid_column.tobytes() == (55).to_bytes(16, "little")
    world.settle()
    assert world.cluster.objects == {}
    assert world.reconciler.object_count == 0


def test_unanswered_delete_is_repeated_and_gone_is_an_answer(world: World) -> None:
    """A delete that nobody answered is asked again; that there is no such object ends the run."""
    world.give([7])
    world.settle(steps=1)
    world.stop(7)
    world.act(lost_answers=True)
    world.cluster.unread.clear()
    world.pass_time(1.0)
    world.act()
    assert world.report() == [(7, 0, "CANCELLED")]


def test_orphan_stays_until_the_leader_says_stop(world: World) -> None:
    """An object of ours that the leader has not named is reported and left alone until it says stop."""
    world.cluster.objects[3, 1, 0] = ModelObject((3, 1, 0), 77, "Pod", ObjectState.RUNNING)
    world.list_all()
    world.pass_time(3600.0)
    assert world.act().deletes is None
    assert world.report() == [(3, 0, "RUNNING")]
    assert world.reconciler.known_runs().handle.tolist() == [3]
    world.stop(3)
    world.settle()
    assert world.cluster.objects == {}

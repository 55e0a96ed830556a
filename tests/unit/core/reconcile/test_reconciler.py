"""What the reconcile step does with runs of one pod."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.reconcile import Instant, Reconciler
from argosy_core.reconcile.reports import REPORT_INTERVAL_S
from argosy_testkit.cluster_model import ModelObject, make_observations
from argosy_testkit.reconcile_world import World


def test_pod_is_created_followed_and_deleted_in_a_quiet_life(world: World) -> None:
    """Create, report created, running, succeeded; delete after the keep time once the end is stored; forget."""
    world.give([7])
    creates = world.act().creates
    assert creates is not None
    assert (creates.handle_column.tolist(), creates.ordinal_column.tolist(), creates.object_column.tolist()) == (
        [7],
        [1],
        [0],
    )
    assert (creates.nodes, creates.owners, creates.id_high_column.tolist()) == (
        ("node-1",),
        (("queue", "set"),),
        [1007],
    )
    assert world.report() == [(7, 0, "CREATED")]
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.watch()
    assert world.report() == [(7, 0, "RUNNING")]
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    assert world.report() == [(7, 0, "SUCCEEDED")]
    assert world.act().deletes is None
    world.pass_time(60.0)
    deletes = world.act().deletes
    assert deletes is not None
    assert deletes.uid_column.tobytes() == (1).to_bytes(16, "little")
    world.watch()
    world.act()
    assert world.reconciler.object_count == 0
    assert world.report() == []


def test_action_is_given_out_once_until_its_answer(world: World) -> None:
    """Nobody creates twice while an answer is missing."""
    world.give([7, 8])
    assert len(world.actions().creates) == 2
    world.give([7, 8])
    assert world.actions().creates is None


def test_rows_that_stand_twice_in_a_message_are_one_run(world: World) -> None:
    """A repeated row changes nothing."""
    world.give([7, 7, 8, 7])
    assert sorted(world.act().creates.handle_column.tolist()) == [7, 8]
    assert world.reconciler.object_count == 2


def test_overtaken_states_are_reported_in_order_in_one_batch(world: World) -> None:
    """A state that was overtaken within the interval still goes up, before the one that overtook it."""
    world.give([7])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    assert world.report() == [(7, 0, "CREATED"), (7, 0, "RUNNING"), (7, 0, "SUCCEEDED")]


def test_reports_leave_at_most_once_an_interval(world: World) -> None:
    """States gather; a second batch waits for the interval."""
    world.give([7])
    world.act()
    assert world.reconciler.next_reports(world.now) is not None
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.watch()
    world.pass_time(REPORT_INTERVAL_S / 2)
    assert world.reconciler.next_reports(world.now) is None
    world.pass_time(REPORT_INTERVAL_S / 2 + 0.01)
    assert world.reconciler.next_reports(world.now).number == 2


def test_end_waits_for_storage_before_deletion(world: World) -> None:
    """A pod whose end is not stored stays, however long: its end would be lost with it."""
    world.give([7])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    world.report(store=False)
    world.pass_time(3600.0)
    assert world.act().deletes is None
    world.reconciler.acknowledge(1)
    assert world.act().deletes is not None


@pytest.mark.parametrize("keep_s", [0.0, 20.0, 300.0])
def test_what_ended_before_the_first_welcome_stays_as_long_as_the_leader_says(world: World, *, keep_s: float) -> None:
    """The listing comes before the leader does; his time counts for what it shows as well, shorter or longer."""
    world.cluster.objects[7, 1, 0] = ModelObject((7, 1, 0), 55, "Pod", ObjectState.RUNNING)
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.list_all()
    listed_s = world.now_s
    world.reconciler.keep_for(keep_s)
    world.settle()
    if keep_s:
        world.now_s = listed_s + keep_s - 1.0
        world.settle(steps=1)
        assert len(world.cluster.pods()) == 1
    world.now_s = listed_s + keep_s + 1.0
    world.settle(steps=1)
    assert world.cluster.pods() == []


@pytest.mark.parametrize(("keep_s", "keep_failed_s", "gone_after_s"), [(10.0, 300.0, 300.0), (60.0, 0.0, 60.0)])
def test_pods_that_failed_stay_for_the_longer_of_both_times(
    world: World, *, keep_s: float, keep_failed_s: float, gone_after_s: float
) -> None:
    """Whoever looks for why a job failed comes later than the next job; what succeeded goes at its own time."""
    world.reconciler.keep_for(keep_s, keep_failed_s)
    world.give([7, 8])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.FAILED)
    world.cluster.show((8, 1, 0), ObjectState.SUCCEEDED)
    world.settle()
    ended_s = world.now_s
    world.now_s = ended_s + keep_s + 1.0
    world.settle(steps=1)
    world.now_s = ended_s + gone_after_s - 5.0 if keep_failed_s else world.now_s
    world.settle(steps=1)
    assert [pod.key[0] for pod in world.cluster.pods()] == ([7] if keep_failed_s else [])
    world.now_s = ended_s + gone_after_s + 1.0
    world.settle(steps=1)
    assert world.cluster.pods() == []


def test_new_time_for_what_ended_spares_no_pod_that_came_too_late(world: World) -> None:
    """A pod of a run that was over before it was made goes at once, however long what ended stays."""
    world.stop(9)
    world.act()
    world.report(store=False)
    world.cluster.objects[9, 1, 0] = ModelObject((9, 1, 0), 55, "Pod", ObjectState.CREATED)
    world.cluster.show((9, 1, 0), ObjectState.RUNNING)
    world.watch()
    world.reconciler.keep_for(3600.0)
    world.reconciler.acknowledge(1)
    assert world.act().deletes is not None


def test_failure_is_reported_with_exit_code_and_kind(world: World) -> None:
    """A failed pod's exit code and kind go up with its end, and only with it."""
    world.give([7])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.FAILED, exit_code=137)
    world.watch()
    world.report()
    batch = world.reports[-1]
    assert batch.state_column.tolist() == [ObjectState.CREATED, ObjectState.FAILED]
    assert batch.exit_code_column.tolist() == [0, 137]
    assert batch.failure_column.tolist() == [0, FailureKind.EXIT_CODE]
    assert batch.uid_column[1].tobytes() == (1).to_bytes(16, "little")


@pytest.mark.parametrize("by_listing", [False, True], ids=["watch", "listing"])
def test_seen_pod_that_vanishes_is_lost_and_never_made_again(world: World, *, by_listing: bool) -> None:
    """Create only while no pod was ever seen; later absence is a loss, for the leader to mend."""
    world.give([7])
    world.settle(steps=1)
    world.cluster.remove((7, 1, 0))
    world.pass_time(1.0)
    if by_listing:
        world.list_all()
    else:
        world.watch()
    assert world.report() == [(7, 0, "LOST")]
    world.give([7])
    world.settle()
    assert world.cluster.created_pods == {(7, 1, 0): 1}
    assert "gone" in world.reports[-1].texts[0]


def test_listing_does_not_judge_what_was_made_after_it_was_asked_for(world: World) -> None:
    """A listing that began before a pod was made does not make it lost."""
    world.give([7])
    started_s = world.now_s
    before = make_observations([])
    world.pass_time(REPORT_INTERVAL_S)
    world.act()
    world.reconciler.take_listing(before, started_s=started_s, now=world.now)
    assert world.report() == [(7, 0, "CREATED")]


def test_row_of_run_that_was_reported_before_is_lost_not_made(world: World) -> None:
    """A new executor that gets a row whose pod was reported, and finds no pod, reports the loss."""
    world.give([7], seen=True)
    world.settle()
    assert world.cluster.created_pods == {}
    assert [batch.state_column.tolist() for batch in world.reports] == [[ObjectState.LOST]]
    assert world.reconciler.object_count == 0


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
def test_create_without_answer_is_asked_again_and_adopts(world: World, *, applied: bool) -> None:
    """An unknown outcome is settled by asking again: the name is the run's own, so what exists is adopted."""
    world.give([7])
    world.act(lost_answers=applied, lost_calls=not applied)
    assert world.act().creates is None
    world.pass_time(0.6)
    assert world.act().creates is not None
    assert world.report() == [(7, 0, "CREATED")]
    assert world.cluster.created_pods == {(7, 1, 0): 1}


def test_event_before_the_answer_counts_as_the_answer(world: World) -> None:
    """A pod that is seen while its creation is unanswered exists; the late answer changes nothing."""
    world.give([7])
    creates = world.actions().creates
    answers = world.cluster.create(creates)
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.watch()
    world.reconciler.take_create_responses(creates, answers, world.now)
    assert world.report() == [(7, 0, "CREATED"), (7, 0, "RUNNING")]


def test_waits_between_retries_double_up_to_thirty_seconds(world: World) -> None:
    """A cluster that does not answer is not hammered."""
    world.give([7])
    waits = []
    for _ in range(9):
        world.act(lost_calls=True)
        wake_s = world.reconciler.next_wake_s()
        waits.append(wake_s - world.now_s)
        world.now_s = wake_s
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])


def test_refused_object_fails_with_the_clusters_words(world: World) -> None:
    """What the cluster will never take, or a name that somebody else has, is a failure that repeating cannot help."""
    world.cluster.refused.add(7)
    world.cluster.unmanaged_pods.add((8, 1, 0))
    world.give([7, 8])
    world.settle()
    batch = world.reports[0]
    assert batch.state_column.tolist() == [ObjectState.FAILED] * 2
    assert batch.failure_column.tolist() == [FailureKind.REJECTED] * 2
    assert batch.texts == ("refused by the cluster",)
    assert world.reconciler.object_count == 0


def test_quota_is_waited_for(world: World) -> None:
    """A full quota is no failure; the pod is made once there is room."""
    world.cluster.full.add(7)
    world.give([7])
    world.act()
    assert world.report() == []
    world.cluster.full.clear()
    world.pass_time(1.0)
    world.act()
    assert world.report() == [(7, 0, "CREATED")]


def test_absence_is_not_concluded_before_a_predecessor_has_settled(world: World) -> None:
    """A predecessor's creation may arrive until its fence and a margin have passed; only then is there nothing."""
    world.reconciler.settle_at(world.now_s + 20.0, world.now)
    world.stop(9)
    world.act()
    assert world.report() == []
    world.cluster.objects[9, 1, 0] = ModelObject((9, 1, 0), 55, "Pod", ObjectState.CREATED)
    world.cluster.show((9, 1, 0), ObjectState.RUNNING)
    world.watch()
    assert world.act().deletes is not None
    world.stop(10)
    world.pass_time(20.0)
    world.act()
    assert (10, 0, "CANCELLED") not in world.report(), "the watch may lag; a listing asked for now decides"
    assert world.reconciler.wants_listing
    world.list_all()
    world.act()
    assert (10, 0, "CANCELLED") in world.report()


def test_restarted_executor_adopts_pods_and_reports_their_states(world: World) -> None:
    """Nothing is kept on disk: the listing and the leader's rows are enough."""
    world.give([7, 8])
    world.settle(steps=1)
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.cluster.show((8, 1, 0), ObjectState.SUCCEEDED)
    world.reconciler = Reconciler()
    world.list_all()
    world.reconciler.restart_session()
    assert world.reconciler.known_runs().handle.tolist() == [7, 8]
    assert world.report() == [(7, 0, "RUNNING"), (8, 0, "SUCCEEDED")]
    world.give([7])
    assert world.act().creates is None


def test_new_session_reports_once_what_was_not_stored(world: World) -> None:
    """After a reconnect each object whose stored state is behind is reported as it is now, and batches count from 1."""
    world.give([7, 8])
    world.act()
    world.report()
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.watch()
    world.report(store=False)
    world.cluster.show((7, 1, 0), ObjectState.SUCCEEDED)
    world.watch()
    world.reconciler.restart_session()
    assert world.report() == [(7, 0, "SUCCEEDED")]
    assert world.reports[-1].number == 1


def test_nothing_is_given_out_while_fenced_and_everything_after(world: World) -> None:
    """Without a fresh confirmation the cluster is not touched; what is due stays due."""
    world.give([7])
    assert world.actions(may_act=False).creates is None
    assert world.actions(may_act=False).creates is None
    assert world.actions().creates is not None


def test_what_is_due_while_fenced_takes_no_more_room_than_there_are_objects(world: World) -> None:
    """News of hours without a leader are kept as the objects they were about, each once, and then looked at."""
    world.give([7, 8])
    world.settle(steps=1)
    for _ in range(50):
        for state in (ObjectState.UNKNOWN, ObjectState.RUNNING):
            world.cluster.show((7, 1, 0), state)
        world.watch()
        assert world.actions(may_act=False).deletes is None
    assert sum(slots.size for slots in world.reconciler._ready) <= world.reconciler.object_count
    world.stop(7)
    assert world.actions(may_act=False).deletes is None
    assert world.actions().deletes.handle_column.tolist() == [7]


def test_unknown_node_is_reported_and_comes_back(world: World) -> None:
    """Unknown stands beside running and is no end."""
    world.give([7])
    world.settle(steps=1)
    for state in (ObjectState.RUNNING, ObjectState.UNKNOWN, ObjectState.RUNNING, ObjectState.CREATED):
        world.cluster.show((7, 1, 0), state)
    world.watch()
    assert [state for _, _, state in world.report()] == ["RUNNING", "UNKNOWN", "RUNNING"]


def test_repeated_and_late_events_change_nothing(world: World) -> None:
    """The same history again has no effect."""
    world.give([7])
    world.act()
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    history = list(world.cluster.unread)
    world.watch()
    world.report()
    world.reconciler.take_observed(make_observations(history), world.now)
    assert world.report() == []


def test_event_about_another_uid_changes_nothing(world: World) -> None:
    """A copy of a pod's name and labels by somebody else is not the pod."""
    world.give([7])
    world.settle(steps=1)
    copy = ModelObject((7, 1, 0), 99, "Pod", ObjectState.FAILED, is_gone=True)
    world.reconciler.take_observed(make_observations([copy]), world.now)
    assert world.report() == []


def test_hundreds_of_runs_share_batches(world: World) -> None:
    """Columns hold for many runs; slots are used again and the table does not grow with time."""
    for wave in range(6):
        handles = list(range(wave * 300, wave * 300 + 300))
        world.give(handles)
        assert len(world.act().creates) == 300
        for handle in handles:
            world.cluster.show((handle, 1, 0), ObjectState.SUCCEEDED)
        world.watch()
        assert len(world.report()) == 600
        world.pass_time(61.0)
        assert len(world.act().deletes) == 300
        world.watch()
        world.act()
    assert world.reconciler.object_count == 0
    assert set(world.cluster.created_pods.values()) == {1}


def test_large_waves_are_given_out_in_parts(world: World) -> None:
    """No batch is larger than what the cluster takes at once."""
    world.give(list(range(12_000)))
    sizes = [len(world.actions().creates) for _ in range(3)]
    assert sizes == [5000, 5000, 2000]


def test_large_reports_leave_in_parts_without_waiting() -> None:
    """More states than a batch holds leave at once, in order."""
    reconciler = Reconciler()
    objects = [ModelObject((handle, 1, 0), handle + 1, "Pod", ObjectState.RUNNING) for handle in range(20_001)]
    now = Instant(5.0, 5_000_000)
    reconciler.take_listing(make_observations(objects), started_s=5.0, now=now)
    sizes = []
    while (batch := reconciler.next_reports(now)) is not None:
        sizes.append(len(batch))
    assert sizes == [20_000, 1]
    assert np.all(batch is None)

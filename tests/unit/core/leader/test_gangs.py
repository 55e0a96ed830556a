"""Distributed jobs: from a scheduling class with sub-groups to leases of all members, and to one end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobEventKind, JobState, ObjectState
from argosy_core.job.tables.members import attempt_of, ordinal_of
from argosy_core.leader import instructions as say
from argosy_core.placement import CommitReply, CommitRequest, WaitReason
from argosy_core.scheduler import RoundSettings, explain
from argosy_core.scheduler.memory.work_ends import find_work
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

RUNNING, SUCCEEDED, FAILED = ObjectState.RUNNING, ObjectState.SUCCEEDED, ObjectState.FAILED
_EVERY_CLUSTER = RoundSettings(clusters_to_sample_ratio=1.0)


def pods(cpu: int, minimum: int, maximum: int = 0, **more: Any) -> GangGroup:
    """Return a sub-group of pods that ask for millicores."""
    pod = SchedulingClass(requests=(("cpu", cpu),))
    return GangGroup(name="workers", pod=pod, minimum=minimum, maximum=maximum or minimum, **more)


def world_of(*groups: GangGroup, nodes: int = 2, **more: Any) -> LeaderWorld:
    """Return a world of nodes of four cores, whose class 2 is a gang."""
    world = LeaderWorld(**{"clusters": {"a": nodes}, **more})
    world.define_gang(2, *groups)
    return world


def nodes_of(world: LeaderWorld, handle: int) -> list[str]:
    """Return the node of each member of a job's last run."""
    return [run.node for _, run in sorted(world.job(handle).runs.items())]


def tell(world: LeaderWorld, handle: int, *states: tuple[int, ObjectState], attempt: int = 1, **report: Any) -> None:
    """Have the executor report (member, state) of a run."""
    rows = [Report(handle=handle, attempt=attempt, member=m, state=int(s), **report) for m, s in states]
    world.report("a", rows)


def held(world: LeaderWorld) -> tuple[float, int]:
    """Return the cores that jobs hold, and the cores free by the leader's account."""
    cpu = world.state.classes.axis.index("cpu")
    return int(world.state.queues.usage.sum()) / 1e6, int(world.state.clusters.free[0, cpu]) // 1000


def test_gang_is_leased_with_all_its_members_and_charged_for_what_each_asks_for() -> None:
    """One lease, a row and a placement for each member; a coordinator costs less than a worker."""
    world = world_of(pods(500, 1), pods(3000, 2))
    (handle,) = world.submit(1, class_id=2)
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    assert world.kinds(handle) == [JobEventKind.SUBMITTED, JobEventKind.LEASED]
    assert list(world.job(handle).runs) == [1, ordinal_of(1, 1), ordinal_of(1, 2)]
    assert sorted(nodes_of(world, handle)[1:]) == ["a-0", "a-1"]
    assert world.sent(say.SendRows) == [("a", handle, ordinal_of(1, member)) for member in range(3)]
    assert world.clusters["a"].ledger.placement_count == 3
    assert held(world) == (6.5, 1)
    tell(world, handle, *((member, RUNNING) for member in range(3)))
    tell(world, handle, (0, SUCCEEDED))
    assert held(world) == (6.0, 2)
    tell(world, handle, (2, SUCCEEDED), (1, SUCCEEDED))
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert held(world) == (0.0, 8)
    assert world.clusters["a"].ledger.placement_count == 0


def test_gang_without_room_for_all_its_pods_holds_nothing_and_says_how_many_fit() -> None:
    """It waits for room, gets it when the last pod fits, and no round asks for it before."""
    world = world_of(pods(3000, 3))
    (handle,) = world.submit(1, class_id=2)
    world.round()
    world.round()
    assert world.clusters["a"].ledger.placement_count == 0
    explain(world.state, handle, world.now_s)
    world.round()
    found = explain(world.state, handle, world.now_s)
    assert found is not None
    assert found.reason == WaitReason.MISMATCH
    assert "2 of 3 pods of workers fit" in str(found)
    world.add_cluster("b", 3)
    world.round()
    assert sorted(nodes_of(world, handle)) == ["b-0", "b-1", "b-2"]


def test_gang_waits_for_room_and_is_told_once_when_it_is_there() -> None:
    """A full cluster is not asked about it in every round; the end of what is in its way wakes it."""
    world = world_of(pods(3000, 2), settings=RoundSettings(promised_nodes_ratio=0.0))
    world.define_class(3, cpu=2000)
    (small,) = world.submit(1, class_id=3)
    world.round()
    (handle,) = world.submit(1, class_id=2)
    world.round()
    found = explain(world.state, handle, world.now_s)
    assert found is not None
    assert (found.reason, world.state.live.flags[world.state.live.slots(np.array([handle]))[0]] & 4) == (2, 4)
    world.state.explained.clear()
    before = len([said for said in world.said if isinstance(said, say.SendSample)])
    world.tell_news()
    world.round()
    assert len([said for said in world.said if isinstance(said, say.SendSample)]) == before
    tell(world, small, (0, RUNNING))
    tell(world, small, (0, SUCCEEDED))
    world.tell_news()
    world.round()
    assert world.job_state(handle) == JobState.LEASED


def test_gangs_that_need_the_same_nodes_are_placed_one_and_none() -> None:
    """Of more than there is room for some stand whole; the others hold nothing, and none fails of having no room."""
    world = world_of(pods(1000, 5), nodes=4)
    handles = world.submit(6, class_id=2)
    for _ in range(15):
        world.round()
        world.now_s += 5.0
        world.tell_news()
    placed = [handle for handle in handles if world.job_state(handle) == JobState.LEASED]
    assert len(placed) == 3
    assert world.clusters["a"].ledger.placement_count == 15
    assert {world.job_state(handle) for handle in handles if handle not in placed} == {JobState.QUEUED}


def test_gangs_and_other_jobs_get_the_room_in_their_order() -> None:
    """What stands first in the queue has it, whichever it is."""
    world = world_of(pods(4000, 1), nodes=1)
    world.define_class(3, cpu=4000)
    (first,) = world.submit(1, class_id=2)
    (second,) = world.submit(1, class_id=3)
    world.round()
    assert (world.job_state(first), world.job_state(second)) == (JobState.LEASED, JobState.QUEUED)


def test_pods_of_a_gang_that_wants_whole_nodes_share_them_with_nobody_else() -> None:
    """Not with what came before, nor with what comes after; with each other they do."""
    world = world_of(pods(1000, 4, whole_nodes=True), nodes=3)
    world.define_class(3, cpu=1000)
    (single,) = world.submit(1, class_id=3)
    world.round()
    (handle,) = world.submit(1, class_id=2)
    world.round()
    taken = set(nodes_of(world, handle))
    assert len(taken) == 1
    assert nodes_of(world, single)[0] not in taken
    later = world.submit(12, class_id=3)
    for _ in range(3):
        world.round()
    leased = [job for job in later if world.job_state(job) == JobState.LEASED]
    assert len(leased) == 7
    assert not taken & {node for job in leased for node in nodes_of(world, job)}
    world.reconnect("a")
    assert world.clusters["a"].ledger.placement_count == 12
    tell(world, handle, *((member, RUNNING) for member in range(4)))
    tell(world, handle, *((member, SUCCEEDED) for member in range(4)))
    world.tell_news()
    world.round()
    assert sum(world.job_state(job) == JobState.LEASED for job in later) == 11


def test_member_that_fails_ends_the_run_and_one_retry_places_all_anew() -> None:
    """A lost node costs the run as a whole one attempt."""
    world = world_of(pods(2000, 3), nodes=3)
    (handle,) = world.submit(1, class_id=2)
    world.round()
    tell(world, handle, *((member, RUNNING) for member in range(3)))
    tell(world, handle, (1, ObjectState.LOST))
    tell(world, handle, (0, ObjectState.CANCELLED), (2, ObjectState.CANCELLED))
    assert world.job_state(handle) == JobState.QUEUED
    assert held(world) == (0.0, 12)
    world.now_s += 60.0
    world.round()
    runs = world.job(handle).runs
    assert Counter(attempt_of(ordinal) for ordinal in runs) == {1: 3, 2: 3}
    assert held(world) == (6.0, 6)


def test_cancelled_gang_has_all_members_stopped() -> None:
    """Those that have ended by then are left alone."""
    world = world_of(pods(1000, 3))
    (handle,) = world.submit(1, class_id=2)
    world.round()
    tell(world, handle, *((member, RUNNING) for member in range(3)))
    tell(world, handle, (0, SUCCEEDED))
    world.cancel([handle])
    world.round()
    assert world.sent(say.SendStops) == [("a", handle, ordinal_of(1, 1)), ("a", handle, ordinal_of(1, 2))]
    tell(world, handle, (1, ObjectState.CANCELLED), (2, ObjectState.CANCELLED))
    assert world.job_state(handle) == JobState.CANCELLED


@pytest.mark.parametrize("published", [False, True])
def test_leader_that_ends_with_a_gang_reserved_leaves_none_of_it(*, published: bool) -> None:
    """What was not published is dropped by the next one's list; what was is leased whole."""
    world = world_of(pods(1000, 3))
    (handle,) = world.submit(1, class_id=2)
    plan = world.plan()
    assert world.clusters["a"].ledger.placement_count == 3
    world.take_over(unread=plan if published else None)
    assert world.job_state(handle) == (JobState.LEASED if published else JobState.QUEUED)
    assert world.clusters["a"].ledger.placement_count == (3 if published else 0)
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    assert world.clusters["a"].ledger.placement_count == 3


@pytest.mark.parametrize("answered", [False, True])
def test_gang_reserved_at_a_sampler_that_restarts_is_there_whole_or_not_at_all(*, answered: bool) -> None:
    """The new incarnation takes all members from the leader's list, or none if the leader never heard of them."""
    world = world_of(pods(3000, 3), nodes=3)
    (handle,) = world.submit(1, class_id=2)

    def lose(request: CommitRequest) -> None:
        world.commit(request)

    plan = world.plan() if answered else world.plan(answer_commit=lose)
    world.reconnect_sampler("a")
    assert world.clusters["a"].ledger.placement_count == (3 if answered else 0)
    world.ingest(plan)
    world.now_s += 5.0
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    assert sorted(nodes_of(world, handle)) == ["a-0", "a-1", "a-2"]
    assert world.clusters["a"].ledger.placement_count == 3
    assert held(world) == (9.0, 3)


@pytest.mark.parametrize("tampered", ["half", "unanswered"])
def test_gang_of_which_a_sampler_says_half_is_released_as_a_whole(tampered: str) -> None:
    """A sampler that restarts in the middle, or errs, holds nothing of it afterwards; the job waits on."""
    world = world_of(pods(1000, 3))
    (handle,) = world.submit(1, class_id=2)

    def err(request: CommitRequest) -> CommitReply | None:
        reply = world.commit(request)
        reply.outcome[1:] = 2
        return reply if tampered == "half" else None

    plan = world.plan(answer_commit=err)
    assert not plan.handle.size
    world.ingest(plan)
    assert world.clusters["a"].ledger.placement_count == 0
    world.now_s += 5.0
    world.round()
    assert world.job_state(handle) == JobState.LEASED


def test_gang_goes_to_one_cluster_which_has_room_for_all_of_it() -> None:
    """Two clusters with half of the room each hold none of it."""
    world = world_of(pods(4000, 3), clusters={"a": 2, "b": 2}, settings=_EVERY_CLUSTER)
    (handle,) = world.submit(1, class_id=2)
    world.round()
    assert world.job_state(handle) == JobState.QUEUED
    world.add_cluster("c", 3)
    world.round()
    assert {node[0] for node in nodes_of(world, handle)} == {"c"}


def test_gang_on_whole_nodes_is_charged_for_all_of_them() -> None:
    """Evenly over its members on each, whoever leads; what it leaves unused is free for nobody."""

    def cores(world: LeaderWorld) -> tuple[int, int]:
        cpu = world.state.classes.axis.index("cpu")
        return int(world.state.queues.held[:, cpu].sum()) // 1000, held(world)[1]

    world = world_of(pods(1000, 3, whole_nodes=True), pods(3000, 1, whole_nodes=True), nodes=3)
    (handle,) = world.submit(1, class_id=2)
    world.round()
    assert Counter(Counter(nodes_of(world, handle)).values()) == {3: 1, 1: 1}
    world.tell_whole_nodes("a")
    world.send_capacity("a")
    assert cores(world) == (8, 4)
    world.round()
    world.take_over()
    assert cores(world)[0] == 8
    tell(world, handle, *((member, RUNNING) for member in range(4)))
    tell(world, handle, (0, SUCCEEDED))
    world.tell_whole_nodes("a")
    assert cores(world)[0] == 8
    tell(world, handle, *((member, SUCCEEDED) for member in range(1, 4)))
    world.tell_whole_nodes("a")
    world.send_capacity("a")
    assert cores(world) == (0, 12)


def test_job_is_promised_a_node_that_a_member_of_a_gang_has_to_leave_first() -> None:
    """What members hold comes free with their run, on the node of each."""
    world = world_of(pods(3000, 2))
    world.define_class(3, cpu=1000)
    world.define_class(4, cpu=4000)
    (gang,) = world.submit(1, class_id=2)
    world.round()
    world.submit(2, class_id=3)
    world.round()
    nodes = np.array([0, 1], dtype=np.int32)
    work = find_work(world.state, 0, nodes, world.now_s)
    cpu = world.state.classes.axis.index("cpu")
    found = sorted(zip(work.node.tolist(), (work.amount[:, cpu] // 1000).tolist(), strict=True))
    assert found == [(0, 1), (0, 3), (1, 1), (1, 3)]
    (large,) = world.submit(1, class_id=4)
    for _ in range(3):
        world.now_s += 6.0
        world.round()
    promise = world.state.promises.standing[large]
    assert promise.moment_s > world.now_s
    assert world.job_state(gang) == JobState.LEASED

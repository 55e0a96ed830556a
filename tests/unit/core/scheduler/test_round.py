"""Rounds: from waiting jobs to leases, over real samplers and ledgers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.framework import Point, Registration
from argosy_core.job.states import JobEventKind, JobStage, JobState, ObjectState
from argosy_core.leader.instructions import SendReleases, SendRows
from argosy_core.placement import CommitReply, CommitRequest, SampleReply, SampleRequest, WaitReason
from argosy_core.scheduler import (
    ClusterView,
    QueueView,
    RoundSettings,
    begin_round,
    explain,
    last_round,
    next_due_s,
    placements_of,
    set_cluster,
    set_queues,
)
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

ALL_CLUSTERS = RoundSettings(clusters_to_sample_ratio=1.0, nodes_to_sample_ratio=1.0)


def _conflict(request: CommitRequest) -> CommitReply:
    count = len(request.members)
    return CommitReply(incarnation=1, node=np.full(count, -1, np.int32), outcome=np.full(count, 2, np.int8))


def test_class_of_which_some_jobs_found_no_place_is_not_asked_for_again_until_room_comes() -> None:
    """The sampler said that there is not room for all: the rest waits, and no round asks while nothing has changed."""
    world = LeaderWorld(clusters={"a": 4})
    world.define_class(2, cpu=3000)
    world.submit(5, class_id=2)
    assert world.round().handle.size == 4, "a core is left on each node: enough in sum, too little on each"
    idle = begin_round(world.state, world.now_s, world.rng)
    assert idle.requests == ()
    idle.finish(world.now_s)
    _end_all(world, "a")
    assert world.round().handle.size == 1


def test_round_that_ends_unanswered_releases_what_it_had_asked_for() -> None:
    """Nobody knows whether the sampler holds it: the release is in the plan, and the job is placed by a later round."""
    world = LeaderWorld()
    handles = world.submit(1)
    current = begin_round(world.state, world.now_s, world.rng)
    current.take_sample("a", world.sample(current.requests[0]))
    world.commit(current.decide(world.rng)[0])
    plan = current.finish(world.now_s)
    assert (plan.handle.tolist(), world.state.statistics.decided_count) == ([], 1)
    assert [(runs.cluster, runs.members.handle.tolist()) for runs in plan.releases] == [("a", handles)]


def _end_all(world: LeaderWorld, cluster: str) -> None:
    runs = world.live_runs(cluster)
    world.report(cluster, [Report(handle=handle, attempt=attempt, state=4) for handle, attempt in runs])


def test_round_leases_what_fits_and_leaves_the_rest_queued() -> None:
    """Four nodes of four cores take sixteen jobs of one core; four wait and follow when there is room."""
    world = LeaderWorld(clusters={"a": 4})
    handles = world.submit(20)
    plan = world.round()
    assert plan.handle.tolist() == handles[:16]
    assert world.state.heads.tolist() == handles[16:17]
    assert not world.round().has_news
    _end_all(world, "a")
    assert world.round().handle.tolist() == handles[16:]
    assert world.job_state(handles[0]) == JobState.SUCCEEDED
    assert last_round(world.state).totals["leases"] == 20


def test_heads_are_let_go_once_nobody_waits() -> None:
    """The head that found its room is none any more, and nobody is elected while nothing waits."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(5)
    world.round()
    assert world.state.heads.tolist() == handles[4:]
    _end_all(world, "a")
    assert world.round().handle.tolist() == handles[4:]
    assert world.state.pending_slots().size == world.state.heads.size == 0
    world.submit(1)
    world.round()
    assert world.state.pending_slots().size == world.state.heads.size == 0


def test_jobs_of_other_classes_pass_a_blocked_one_but_not_its_own_class() -> None:
    """The blocked job keeps its place; others that fit elsewhere go on."""
    world = LeaderWorld(clusters={"a": 1}, settings=ALL_CLUSTERS)
    world.define_class(2, cpu=4000)
    small, large = world.submit(2), world.submit(2, class_id=2)
    world.now_s += 1
    later = world.submit(1)
    world.round()
    world.round()
    assert {handle for handle, _ in world.live_runs("a")} == {*small, *later}
    assert world.state.heads.tolist() == large[:1]
    explanation = explain(world.state, large[1], world.now_s)
    assert explanation is not None
    assert (explanation.stage, explanation.queue_position) == (JobStage.QUEUED, 1)


def test_clusters_asked_are_the_configured_share_of_those_that_can_hold_the_class() -> None:
    """ceil(Cp x clusters), drawn among clusters with a node that is large enough."""
    world = LeaderWorld(clusters={"a": 2, "b": 2, "c": 2, "d": 2}, settings=RoundSettings(clusters_to_sample_ratio=0.3))
    world.add_cluster("large", 1, {"cpu": 64_000, "memory": 64 << 30})
    world.define_class(2, cpu=32_000)
    world.submit(1)
    world.submit(1, class_id=2)
    current = begin_round(world.state, world.now_s, world.rng)
    asked = {class_id: [] for class_id in (1, 2)}
    for request in current.requests:
        for class_id in request.class_ids.tolist():
            asked[class_id].append(request.cluster)
    assert len(asked[1]) == 2  # ceil(0.3 x 5)
    assert asked[2] == ["large"]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(ClusterView(name="a", connected=True, cordoned=True), id="cordoned"),
        pytest.param(ClusterView(name="a", connected=False), id="not-connected"),
    ],
)
def test_cluster_that_may_not_be_given_work_is_not_asked(view: ClusterView) -> None:
    """Until it may again."""
    world = LeaderWorld()
    world.submit(1)
    set_cluster(world.state, view)
    assert begin_round(world.state, world.now_s, world.rng).requests == ()
    assert world.state.round is not None
    world.state.round.finish(world.now_s)
    set_cluster(world.state, ClusterView(name="a", connected=True))
    assert world.round().handle.size == 1


def test_cordoned_queue_keeps_its_jobs_queued() -> None:
    """None of its jobs is placed."""
    world = LeaderWorld(queues={"alice": 1, "bob": 1})
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1, cordoned=True)])
    world.submit(1, queue=1)
    other = world.submit(1, queue=2)
    assert world.round().handle.tolist() == other
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1, cordoned=False)])
    assert world.round().handle.size == 1


def test_conflict_on_all_candidates_is_one_failed_attempt_with_back_off() -> None:
    """The job keeps its place, is passed over for 1 s, 2 s, 4 s ..., and its count goes with the round state."""
    world = LeaderWorld(clusters={"a": 2})
    first = world.submit(1)[0]
    plan = world.plan(answer_commit=_conflict)
    assert plan.handle.size == 0
    assert plan.round_state.attempted_handle.tolist() == [first]
    assert plan.round_state.failed_attempt.tolist() == [1]
    assert world.plan().handle.size == 0
    world.now_s += 1.0
    assert world.plan(answer_commit=_conflict).round_state.failed_attempt.tolist() == [2]
    world.now_s += 1.9
    assert world.plan().handle.size == 0
    world.submit(1)
    world.now_s += 0.2
    assert world.round().handle.tolist()[0] == first
    assert last_round(world.state).totals["retries"] == 2


def test_ten_failed_attempts_fail_the_job() -> None:
    """The tenth conflict ends it, with an event, and it is not decided again in between."""
    world = LeaderWorld(clusters={"a": 2})
    handle = world.submit(1)[0]
    for _ in range(9):
        world.ingest(world.plan(answer_commit=_conflict))
        world.now_s += 20
    plan = world.plan(answer_commit=_conflict)
    assert plan.failed_handle.tolist() == [handle]
    assert world.plan().handle.size == 0
    world.ingest(plan)
    assert world.job_state(handle) == JobState.FAILED
    assert next_due_s(world.state, world.now_s) == math.inf
    assert world.job(handle).state == JobState.FAILED


def test_job_that_fails_while_it_is_cancelled_ends_once() -> None:
    """The API had ended its row by then, and its request, which comes later, is no news."""
    world = LeaderWorld(settings=RoundSettings(max_failed_attempts=1))
    handle = world.submit(1)[0]
    plan = world.plan(answer_commit=_conflict)
    read = world.cancel([handle], deliver=False)
    world.ingest(plan)
    read()
    world.take()
    assert world.kinds(handle) == [JobEventKind.SUBMITTED, JobEventKind.CANCELLED]
    assert world.job(handle).state == JobState.CANCELLED


def test_conflict_in_one_cluster_goes_on_to_the_next_candidate_in_another() -> None:
    """Stages: the best remaining candidate's cluster, until one keeps the run."""
    world = LeaderWorld(clusters={"a": 1, "b": 1, "c": 1}, settings=ALL_CLUSTERS)
    handle = world.submit(1)[0]
    stages: list[tuple[int, str]] = []

    def answer(request: CommitRequest) -> CommitReply:
        stages.append((request.stage, request.cluster))
        return world.commit(request) if len(stages) == 3 else _conflict(request)

    plan = world.plan(answer_commit=answer)
    assert [stage for stage, _ in stages] == [1, 2, 3]
    assert {cluster for _, cluster in stages} == {"a", "b", "c"}
    assert plan.handle.tolist() == [handle]
    assert plan.clusters == (stages[-1][1],)
    assert world.state.statistics.failed_attempt_count == 0


def test_commit_whose_answer_is_lost_is_released_and_decided_again() -> None:
    """What may have been placed is given back; it is no failed attempt."""
    world = LeaderWorld(clusters={"a": 1})
    handle = world.submit(1)[0]

    def place_in_silence(request: CommitRequest) -> None:
        world.commit(request)

    plan = world.plan(answer_commit=place_in_silence)
    assert plan.handle.size == 0
    assert world.sent(SendReleases) == [("a", handle, 1)]
    assert world.clusters["a"].ledger.placement_count == 0
    assert world.round().handle.tolist() == [handle]


def test_answers_of_another_incarnation_count_for_nothing() -> None:
    """A sampler that restarted between request and answer has other node indices."""
    world = LeaderWorld(clusters={"a": 2})
    world.submit(1)
    current = begin_round(world.state, world.now_s, world.rng)
    reply = world.sample(current.requests[0])
    world.reconnect_sampler("a")
    current.take_sample("a", reply)
    assert current.decide(world.rng) == ()
    current.finish(world.now_s)
    assert world.round().handle.size == 1


@pytest.mark.parametrize("told", [False, True], ids=["before", "meanwhile"])
def test_placements_are_taken_off_free_capacity_once_when_totals_that_hold_them_come_first(*, told: bool) -> None:
    """Counted twice they would hide room from a class that waits, until a sampler that is quiet speaks again."""
    world = LeaderWorld(clusters={"a": 4})
    world.submit(9)

    def answer(request: CommitRequest) -> CommitReply:
        reply = world.commit(request)
        if told:
            world.send_capacity("a")
        return reply

    assert world.plan(answer_commit=answer).handle.size == 9
    assert world.state.clusters.free[0, 0] == (16 - 9) * 1000


def test_placed_run_is_in_the_list_of_placements_before_its_lease_is_published() -> None:
    """A sampler that reconnects in the middle of a round must not lose what it has just promised."""
    world = LeaderWorld(clusters={"a": 2})
    handle = world.submit(1)[0]
    plan = world.plan()
    assert placements_of(world.state, "a").members.handle.tolist() == [handle]
    world.reconnect_sampler("a")
    assert world.clusters["a"].ledger.placement_count == 1
    world.ingest(plan)
    assert world.job_state(handle) == JobState.LEASED


def test_commit_answered_before_a_new_session_counts_for_nothing() -> None:
    """The new session was told its placements without it, so its sampler has dropped it."""
    world = LeaderWorld(clusters={"a": 1})
    handle = world.submit(1)[0]

    def answer_then_reconnect(request: CommitRequest) -> CommitReply:
        reply = world.commit(request)
        set_cluster(world.state, ClusterView(name="a", connected=False, incarnation=1))
        assert not len(placements_of(world.state, "a").members)
        set_cluster(world.state, ClusterView(name="a", connected=True, incarnation=1))
        return reply

    plan = world.plan(answer_commit=answer_then_reconnect)
    assert plan.handle.size == 0
    assert world.sent(SendReleases) == [("a", handle, 1)]
    assert world.round().handle.tolist() == [handle]


def test_round_refuses_to_begin_inside_another() -> None:
    """Filling twice for one round would move jobs twice."""
    world = LeaderWorld()
    begin_round(world.state, world.now_s, world.rng)
    with pytest.raises(InvariantViolation):
        begin_round(world.state, world.now_s, world.rng)


def test_leases_go_to_queues_by_flow_and_weight() -> None:
    """Weights 3 and 1 share sixteen cores 12 to 4; past use lets the other come first later."""
    world = LeaderWorld(
        clusters={"a": 4},
        queues={"alice": 3, "bob": 1},
    )
    world.submit(30, queue=1)
    world.submit(30, queue=2)
    plan = world.round()
    owners = [1 if handle < (20_000 << 40) + 31 else 2 for handle in plan.handle.tolist()]
    assert (owners.count(1), owners.count(2)) == (12, 4)


def test_suspect_class_is_asked_completely_next() -> None:
    """No candidate after looking at some nodes is not "does not fit"."""
    world = LeaderWorld(clusters={"a": 4})
    world.submit(1)

    def half_answer(request: SampleRequest) -> SampleReply:
        reply = world.sample(request)
        nothing = {"offset": np.zeros_like(reply.offset), "candidate": reply.candidate[:0], "score": reply.score[:0]}
        return replace(reply, **nothing, complete=np.zeros_like(reply.complete))

    world.plan(answer_sample=half_answer)
    current = begin_round(world.state, world.now_s, world.rng)
    assert current.requests[0].complete.tolist() == [1]


def test_explain_counts_filters_over_all_clusters_and_names_the_nearest_miss() -> None:
    """The round after the request asks every connected cluster in full."""
    world = LeaderWorld(clusters={"a": 2, "b": 3}, settings=RoundSettings(clusters_to_sample_ratio=0.1))
    world.define_class(2, cpu=5000)
    handle = world.submit(1, class_id=2)[0]
    before = explain(world.state, handle, world.now_s)
    assert before is not None
    assert (before.stage, before.filters) == (JobStage.QUEUED, ())
    world.round()
    after = explain(world.state, handle, world.now_s)
    assert after is not None
    assert (after.stage, after.reason, after.examined_node_count) == (JobStage.QUEUED, WaitReason.MISMATCH, 5)
    assert [(told.cluster, told.reason) for told in after.cluster_reasons] == [
        ("a", WaitReason.MISMATCH), ("b", WaitReason.MISMATCH),
    ]  # fmt: skip
    assert sum(one.node_count for one in after.filters) == 5
    assert "cpu" in after.nearest_miss
    assert explain(world.state, 5, world.now_s) is None


def test_explain_tells_what_a_filter_of_a_site_says_of_the_nodes_it_turned_away() -> None:
    """In its own words if it has some, else by its name."""
    world = LeaderWorld(clusters={"a": 3})
    framework = world.clusters["a"].sampling.sampler.framework
    for name, text, first in (("warm", "too warm: {nodes}", 1), ("mute", "", 3)):
        judge = lambda cycle, first=first: cycle.nodes >= first  # noqa: E731
        framework.register(Registration(point=Point.FILTER, name=name, function=judge, explanation=text))
    (handle,) = world.submit(1)
    world.round()
    found = explain(world.state, handle, world.now_s)
    assert found is not None
    assert [(one.filter, one.text) for one in found.filters] == [
        ("mute", "filter mute not passed by 2 nodes"), ("warm", "too warm: 1 node"),
    ]  # fmt: skip


def test_explanation_says_in_words_where_a_job_is_or_why_it_waits() -> None:
    """A job that runs is told with its node; one that waits with the reason, of its queue or of its class."""
    world = LeaderWorld(clusters={"a": 1}, settings=ALL_CLUSTERS)
    handles = world.submit(5)
    world.round()
    world.round()
    texts = [explain(world.state, handle, world.now_s).summary for handle in handles[3:]]  # type: ignore[union-attr]
    assert texts == [
        "leased on node a-0 of cluster a, attempt 1",
        "pending with 0 jobs of its queue before it; every node that could hold it is full now",
    ]
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1.0, cordoned=True)])
    assert explain(world.state, handles[4], world.now_s).summary.endswith("; its queue is cordoned")  # type: ignore[union-attr]


def test_asking_for_an_explanation_places_nothing_in_a_cordoned_cluster() -> None:
    """What is cordoned is not even asked."""
    world = LeaderWorld(clusters={"a": 1})
    handle = world.submit(1)[0]
    set_cluster(world.state, ClusterView(name="a", connected=True, cordoned=True))
    explain(world.state, handle, world.now_s)
    assert world.round().handle.size == 0


def test_explanation_is_dropped_once_the_class_fits_again() -> None:
    """Yesterday's counts are no answer."""
    world = LeaderWorld(clusters={"a": 1}, settings=ALL_CLUSTERS)
    handles = world.submit(5)
    world.round()
    assert explain(world.state, handles[4], world.now_s).reason == WaitReason.NO_ROOM  # type: ignore[union-attr]
    world.round()
    assert explain(world.state, handles[4], world.now_s).filters  # type: ignore[union-attr]
    world.report("a", [Report(handle=handles[0], state=ObjectState.SUCCEEDED)])
    world.round()
    assert not world.state.answers


def test_events_of_a_lease_carry_attempt_cluster_and_node() -> None:
    """Whoever watches sees where a job went."""
    world = LeaderWorld(clusters={"a": 1})
    world.submit(2)
    plan = world.plan()
    world.ingest(plan)
    group = world.stored[-1].events[0].groups()[0]
    assert group.kind.tolist() == [JobEventKind.LEASED] * 2
    assert group.attempt.tolist() == [1, 1]
    assert [group.texts[index] for index in group.cluster.tolist()] == ["a", "a"]
    assert [group.texts[index] for index in group.node.tolist()] == ["a-0", "a-0"]
    (sent,) = [said.rows for said in world.said if isinstance(said, SendRows)]
    assert (sent.owners, sent.nodes) == ((("alice", "set"),), ("a-0",))

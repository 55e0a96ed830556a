"""Promised starts in the leader: who gets one, who may go before it, and when it ends."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from argosy_core.backfill import PromiseKind
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.leader.instructions import SendCommit
from argosy_core.placement import WaitReason
from argosy_core.scheduler import PromisedStart, RoundSettings, explain, next_due_s
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SETTINGS = RoundSettings(
    clusters_to_sample_ratio=1.0,
    promise_after_s=1.0,
    run_allowance_s=0.0,
    assumed_run_time_s=1000.0,
    wait_expiry_s=1.0,
)
LIMIT_100 = (-1, 100, -1)


def begin(world: LeaderWorld, handles: list[int]) -> None:
    """Have pods of jobs run from now on."""
    for handle in handles:
        world.report(world.place(handle)[0], [Report(handle=handle, state=ObjectState.RUNNING)])


def end(world: LeaderWorld, handles: list[int]) -> None:
    """Have jobs end with success, and their samplers hear of it."""
    for handle in handles:
        world.report(world.place(handle)[0], [Report(handle=handle, state=ObjectState.SUCCEEDED)])


def pass_time(world: LeaderWorld, seconds: float) -> None:
    """Let time pass, with a round whenever one is due."""
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        world.now_s += 0.5
        world.tell_news()
        world.round()


def promised(world: LeaderWorld, handle: int) -> PromisedStart:
    """Return what a job was promised."""
    return world.state.promises.standing[handle]


def half_full(
    options: tuple[int, int, int] | None = LIMIT_100, settings: RoundSettings = SETTINGS
) -> tuple[LeaderWorld, list[int], int]:
    """Return three nodes of four cores with two jobs of a core each, and a waiting job of a whole node."""
    world = LeaderWorld(clusters={"a": 3}, settings=settings)
    world.define_class(4, cpu=4000)
    small = world.submit(6, options=options)
    world.round()
    begin(world, small)
    assert Counter(Counter(world.place(handle)[1] for handle in small).values()) == {2: 3}
    [large] = world.submit(1, class_id=4)
    return world, small, large


def test_a_head_without_room_is_promised_the_earliest_moment_and_a_node() -> None:
    """By time limits the promise is firm: the job starts no later than the first of the running jobs has to end."""
    world, small, large = half_full()
    begun_s = world.now_s
    pass_time(world, 3.0)
    promise = promised(world, large)
    assert promise.kind == PromiseKind.FIRM
    assert promise.moment_s == pytest.approx(begun_s + 100)
    names = {world.place(handle)[1] for handle in small}
    assert world.state.clusters.nodes[promise.cluster].names[promise.node] in names
    assert world.state.totals["promises_firm"] == 1


def test_without_time_limits_the_promise_is_only_expected() -> None:
    """It goes by the stated prior where nothing is known."""
    world, _, large = half_full(options=None)
    pass_time(world, 3.0)
    assert promised(world, large).kind == PromiseKind.EXPECTED


def test_jobs_that_could_delay_the_promised_one_are_kept_from_its_node() -> None:
    """Of six free cores the two on the promised node stay free, and those who wait for them are told so."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    later = world.submit(6, class_id=1)
    pass_time(world, 1.0)
    node = world.state.clusters.nodes[0].names[promised(world, large).node]
    placed = [world.place(handle)[1] for handle in later if world.job(handle).runs]
    assert len(placed) == 4
    assert node not in placed
    waiting = explain(world.state, later[-1], world.now_s)
    assert waiting is not None
    assert waiting.reason == WaitReason.PROMISED


def test_a_job_that_was_kept_from_a_promised_node_is_asked_for_again_when_something_has_changed() -> None:
    """Not every second: passing time alone lets nobody start there, but more jobs, and more that is free, may."""
    world, small, large = half_full()
    pass_time(world, 3.0)
    node = world.state.clusters.nodes[0].names[promised(world, large).node]
    world.submit(6, class_id=1)
    pass_time(world, 1.0)
    until_s, reason = world.state.waits.until_s, world.state.waits.reason
    class_index = world.state.classes.ids.find(1)
    assert reason[class_index, 0] == WaitReason.PROMISED
    assert until_s[class_index, 0] >= world.now_s + 500.0
    [short] = world.submit(1, class_id=1, options=(-1, 50, -1), priority=1)
    assert world.now_s < until_s[class_index, 0] <= world.now_s + 1.0
    pass_time(world, 2.0)
    assert world.place(short)[1] == node
    world.set_nodes("a", {"cpu": 5000, "memory": 16 << 30})
    assert until_s[class_index, 0] <= world.now_s + 1.0
    end(world, [handle for handle in small if world.place(handle)[1] == node][:1])
    assert reason[class_index, 0] == WaitReason.NONE


def test_a_head_is_promised_a_start_when_it_is_due_though_nothing_happens() -> None:
    """A round is due at that moment, once."""
    world, _, large = half_full(settings=replace(SETTINGS, wait_expiry_s=100.0, promise_after_s=7.0))
    world.round()
    world.round()
    assert next_due_s(world.state, world.now_s) == pytest.approx(world.now_s + 7.0)
    world.now_s += 7.0
    world.round()
    assert large in world.state.promises.standing


def test_what_a_run_has_left_does_not_count_twice_while_its_end_is_on_its_way() -> None:
    """As free and as what it will give back: with that a job that is not over in time would pass a firm promise."""
    world = LeaderWorld(clusters={"a": 1}, settings=SETTINGS)
    world.define_class(4, cpu=4000)
    first = world.submit(2, options=LIMIT_100)
    world.round()
    begin(world, first)
    [large] = world.submit(1, class_id=4)
    pass_time(world, 3.0)
    assert promised(world, large).kind == PromiseKind.FIRM
    world.clusters["a"].ledger.release(Members.of([first[0]], [1]))
    [later] = world.submit(1, class_id=1)
    pass_time(world, 1.0)
    assert not world.job(later).runs


def test_a_job_that_is_over_before_the_promised_moment_goes_first() -> None:
    """A time limit that ends before it delays nobody."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    later = world.submit(6, class_id=1, options=(-1, 50, -1))
    pass_time(world, 1.0)
    assert large in world.state.promises.standing
    assert all(world.place(handle)[1] for handle in later)


def test_jobs_that_a_promise_holds_back_hide_nobody_of_their_class_behind_them() -> None:
    """Two cores are free on the promised node; of ten jobs of a core the last alone is over by the promised moment."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    node = world.state.clusters.nodes[0].names[promised(world, large).node]
    *later, short = [*world.submit(13, class_id=1), *world.submit(1, class_id=1, options=(-1, 50, -1))]
    pass_time(world, 2.0)
    assert [bool(world.job(handle).runs) for handle in later] == [True] * 4 + [False] * 9
    assert world.place(short)[1] == node


def test_a_job_that_needs_no_more_than_is_spare_goes_first() -> None:
    """What the promised job leaves of its node is for everybody, for as long as there is some."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 6000, "memory": 16 << 30}, settings=SETTINGS)
    world.define_class(5, cpu=5000)
    first = world.submit(3, options=LIMIT_100)
    world.round()
    begin(world, first)
    [large] = world.submit(1, class_id=5)
    pass_time(world, 3.0)
    assert large in world.state.promises.standing
    later = world.submit(2, class_id=1)
    pass_time(world, 3.0)
    assert [bool(world.job(handle).runs) for handle in later] == [True, False]


@pytest.mark.parametrize("seed", range(8))
def test_no_more_jobs_may_come_to_a_promised_node_than_is_spare_there(seed: int) -> None:
    """Be it as the last of their candidates: whoever loses those before it would delay the promised job."""
    settings = replace(SETTINGS, commit_candidate_count=3)
    node_amounts = {"cpu": 6000, "memory": 16 << 30}
    world = LeaderWorld(clusters={"a": 4}, node_amounts=node_amounts, settings=settings, seed=seed)
    world.define_class(5, cpu=5000)
    first = world.submit(12, options=LIMIT_100)
    world.round()
    begin(world, first)
    assert Counter(Counter(world.place(handle)[1] for handle in first).values()) == {3: 4}
    [large] = world.submit(1, class_id=5)
    pass_time(world, 3.0)
    node = promised(world, large).node
    world.said.clear()
    world.submit(4, class_id=1)
    pass_time(world, 1.0)
    names = world.state.clusters.nodes[0]
    candidates = [
        names.translate(request.candidate[begin:end]).tolist()
        for request in [one.request for one in world.said if isinstance(one, SendCommit)]
        for begin, end in pairwise(request.offset.tolist())
    ]
    assert len(candidates) == 4
    assert max(map(len, candidates)) > 1
    assert sum(node in one for one in candidates) <= 1


def test_the_promised_job_starts_as_soon_as_there_is_room() -> None:
    """Its promise is kept then, whoever has come meanwhile."""
    world, small, large = half_full()
    pass_time(world, 3.0)
    node = world.state.clusters.nodes[0].names[promised(world, large).node]
    later = world.submit(8, class_id=1)
    end(world, [handle for handle in small if world.place(handle)[1] == node])
    pass_time(world, 2.0)
    assert world.place(large)[1] == node
    assert (world.state.promises.standing, world.state.totals["promises_kept"]) == ({}, 1)
    assert sum(bool(world.job(handle).runs) for handle in later) == 4
    world.check()


def test_a_firm_promise_outlives_its_leader() -> None:
    """The next leader keeps the node for the same job until the same moment."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    before = promised(world, large)
    name = world.state.clusters.nodes[before.cluster].names[before.node]
    world.take_over()
    after = promised(world, large)
    assert after.kind == before.kind
    assert after.moment_s == pytest.approx(before.moment_s, abs=1e-3)
    assert world.state.clusters.nodes[after.cluster].names[after.node] == name
    later = world.submit(6, class_id=1)
    pass_time(world, 2.0)
    assert promised(world, large) == after
    assert sum(bool(world.job(handle).runs) for handle in later) == 4


def test_a_promised_node_that_is_gone_breaks_the_promise_and_another_is_given() -> None:
    """It is counted with its reason."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    before = promised(world, large)
    name = world.state.clusters.nodes[before.cluster].names[before.node]
    world.clusters["a"].ledger.remove_nodes([name])
    world.send_capacity("a")
    pass_time(world, 15.0)
    after = promised(world, large)
    assert after.node != before.node
    assert world.state.totals["promises_broken_capacity"] == 1
    assert world.state.totals["firm_promises_broken"] == 1


def test_an_expected_moment_that_passes_breaks_the_promise_and_another_is_given() -> None:
    """Runs take longer than was expected of them."""
    world, _, large = half_full(options=(-1, -1, 20))
    pass_time(world, 3.0)
    assert promised(world, large).kind == PromiseKind.EXPECTED
    pass_time(world, 40.0)
    assert world.state.totals["promises_broken_late"] >= 1
    assert promised(world, large).moment_s > world.now_s


def test_a_node_whose_runs_take_longer_than_expected_stays_promised() -> None:
    """Else it would be given away in the moment in which it is almost empty."""
    world, _, large = half_full(options=(-1, -1, 20))
    pass_time(world, 3.0)
    promise = promised(world, large)
    while not world.state.totals["promises_broken_late"]:
        pass_time(world, 0.5)
    again = promised(world, large)
    assert (again.cluster, again.node, again.kind) == (promise.cluster, promise.node, PromiseKind.EXPECTED)
    assert again.moment_s > promise.moment_s


@pytest.mark.parametrize(("estimate_s", "is_promised"), [(8, False), (1000, True)], ids=["soon", "late"])
def test_a_head_is_promised_nothing_while_a_run_of_its_own_kind_ends_soon(
    estimate_s: int, *, is_promised: bool
) -> None:
    """That room is its own as a waiting head, and a promise would keep others from another node."""
    world = LeaderWorld(clusters={"a": 3}, settings=replace(SETTINGS, wait_expiry_s=10.0))
    world.define_class(4, cpu=4000)
    whole = world.submit(1, class_id=4, options=(-1, -1, estimate_s))
    world.round()
    begun = world.submit(4, options=LIMIT_100)
    world.round()
    begin(world, whole + begun)
    [large] = world.submit(1, class_id=4)
    pass_time(world, 4.0)
    assert world.state.heads.size or is_promised
    assert (large in world.state.promises.standing) == is_promised


def test_a_queue_below_its_share_is_promised_as_many_starts_as_it_is_short_of() -> None:
    """Two of four nodes are its own; one promise after the other would take as many times as long."""
    settings = replace(SETTINGS, non_preemptible_excess_ratio=1e9)
    world = LeaderWorld(clusters={"a": 4}, queues={"small": 1.0, "large": 1.0}, settings=settings)
    world.define_class(4, cpu=4000)
    small = world.submit(16, queue=1, options=LIMIT_100)
    world.round()
    begin(world, small)
    world.submit(16, queue=1, options=LIMIT_100)
    large = world.submit(3, class_id=4, queue=2)
    while not world.state.promises.standing:
        pass_time(world, 0.5)
    assert sorted(world.state.promises.standing) == large[:2]
    assert len({promised(world, handle).node for handle in large[:2]}) == 2


def test_a_promise_ends_with_its_job() -> None:
    """A job that is cancelled keeps nobody from its node."""
    world, _, large = half_full()
    pass_time(world, 3.0)
    later = world.submit(6, class_id=1)
    pass_time(world, 1.0)
    world.cancel([large])
    pass_time(world, 3.0)
    assert world.state.promises.standing == {}
    assert all(world.job(handle).runs for handle in later)


def test_only_a_share_of_the_nodes_is_promised_at_once() -> None:
    """Of three nodes one, whoever else waits for one."""
    world, _, large = half_full()
    world.submit(5, class_id=4)
    pass_time(world, 5.0)
    assert list(world.state.promises.standing) == [large]
    assert next_due_s(world.state, world.now_s) > world.now_s


def test_nothing_is_promised_where_nobody_wants_it() -> None:
    """A share of 0 turns promises off."""
    world = LeaderWorld(clusters={"a": 1}, settings=RoundSettings(promised_nodes_ratio=0.0))
    world.define_class(4, cpu=4000)
    world.submit(1, options=LIMIT_100)
    world.round()
    world.submit(1, class_id=4)
    pass_time(world, 20.0)
    assert world.state.promises.standing == {}
    assert world.state.heads.size == 1


def test_a_job_for_which_one_run_has_to_end_is_promised_nothing() -> None:
    """It gets that room by itself as a waiting head; a promise would only keep others from the node."""
    world = LeaderWorld(clusters={"a": 1}, settings=SETTINGS)
    begun = world.submit(4, options=LIMIT_100)
    world.round()
    begin(world, begun)
    world.submit(1)
    pass_time(world, 15.0)
    assert world.state.heads.size == 1
    assert world.state.promises.standing == {}


@pytest.mark.parametrize("is_promised", [False, True])
def test_room_that_one_run_leaves_is_promised_where_the_pool_says_so(is_promised: bool) -> None:  # noqa: FBT001
    """Then what lasts longer is not begun on what is free there already; a single setting decides."""
    world = LeaderWorld(clusters={"a": 1}, settings=replace(SETTINGS, promise_one_run=is_promised))
    for class_id in (3, 4):
        world.define_class(class_id, cpu=1000 * class_id)
    [begun] = world.submit(1, class_id=3, options=LIMIT_100)
    world.round()
    begin(world, [begun])
    [large] = world.submit(1, class_id=4)
    pass_time(world, 15.0)
    assert [*world.state.promises.standing] == [large] * is_promised
    [long] = world.submit(1, options=(-1, 1000, -1))
    pass_time(world, 2.0)
    [short] = world.submit(1, options=(-1, 10, -1), priority=1)
    pass_time(world, 15.0)
    started = {handle for handle, _ in world.live_runs("a")} - {begun}
    assert started == ({short} if is_promised else {long})


def test_a_job_that_its_cap_holds_back_has_its_turn_for_what_its_queues_own_run_leaves() -> None:
    """Though the end is reported only later; but no other room, and others keep from that node until then."""
    settings = replace(SETTINGS, non_preemptible_excess_ratio=0.2, resource_weights={"cpu": 0.001})
    world = LeaderWorld(clusters={"a": 3}, queues={"light": 2.0, "heavy": 1.0}, settings=settings)
    world.define_class(4, cpu=4000)
    [first] = world.submit(1, class_id=4, queue=2)
    world.round()
    world.submit(8, queue=1)
    world.round()
    [second] = world.submit(1, class_id=4, queue=2)
    state, later = world.state, world.submit(4, queue=1)
    [queue] = state.live.queue[state.live.slots(np.array([second]))].tolist()
    [heavy] = state.classes.ids.indices(np.array([4])).tolist()
    state.promises.kinds[queue, heavy] = math.inf
    pass_time(world, 2.0)
    told = explain(state, second, world.now_s)
    assert told is not None
    assert told.reason == WaitReason.LIMIT
    world.clusters["a"].ledger.release(Members.of([first], [1]))
    pass_time(world, 1.0)
    assert world.place(second) == world.place(first)
    end(world, [first])
    pass_time(world, 1.0)
    assert sum(bool(world.job(handle).runs) for handle in later) <= 1
    world.check()


def test_a_job_that_its_cap_holds_back_gets_no_other_room() -> None:
    """It is tried in every round, and begins nowhere before a run of its queue has left its node."""
    settings = replace(SETTINGS, non_preemptible_excess_ratio=0.2, resource_weights={"cpu": 0.001})
    world = LeaderWorld(clusters={"a": 3}, queues={"light": 2.0, "heavy": 1.0}, settings=settings)
    world.define_class(4, cpu=4000)
    [first] = world.submit(1, class_id=4, queue=2)
    world.round()
    small = world.submit(8, queue=1)
    world.round()
    [second] = world.submit(1, class_id=4, queue=2)
    state, _ = world.state, world.submit(1, queue=1)
    [queue] = state.live.queue[state.live.slots(np.array([second]))].tolist()
    [heavy] = state.classes.ids.indices(np.array([4])).tolist()
    state.promises.kinds[queue, heavy] = math.inf
    pass_time(world, 2.0)
    assert second in state.promises.followers
    end(world, small)
    pass_time(world, 1.0)
    assert next_due_s(state, world.now_s) > world.now_s  # room that it may not have is no reason for rounds on end
    pass_time(world, 3.0)
    assert not world.job(second).runs
    end(world, [first])
    pass_time(world, 1.0)
    assert world.job(second).runs
    world.check()

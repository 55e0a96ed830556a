"""Jobs that get no node now keep their places, cost nobody else anything, and are told why they wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.live import PENDING
from argosy_core.job.tables.members import Members
from argosy_core.ledger import PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import SampleReply, SampleRequest, WaitReason
from argosy_core.scheduler import (
    ClusterView,
    QueueView,
    RoundSettings,
    begin_round,
    check_invariants,
    count_waiting,
    explain,
    hold_up,
    next_due_s,
    set_cluster,
    set_queues,
    shares,
)
from argosy_core.scheduler.memory.waits import WaitTable
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_SETTINGS = RoundSettings(clusters_to_sample_ratio=1.0, promised_nodes_ratio=0.0, non_preemptible_excess_ratio=1e9)


def _pending(world: LeaderWorld) -> list[int]:
    return world.state.live.handle[world.state.pending_slots()].tolist()


def _reason(world: LeaderWorld, handle: int) -> WaitReason:
    found = explain(world.state, handle, world.now_s)
    assert found is not None
    world.state.explained.clear()
    return found.reason


def _idle(world: LeaderWorld) -> bool:
    """Return whether a round now asks nobody anything."""
    world.tell_news()
    current = begin_round(world.state, world.now_s, world.rng)
    current.finish(world.now_s)
    return current.requests == ()


def _full(settings: RoundSettings = _SETTINGS) -> tuple[LeaderWorld, list[int], list[int]]:
    """Return two nodes with two free cores each, the two jobs that run there, and a job of three cores that waits."""
    world = LeaderWorld(clusters={"a": 2}, settings=settings)
    world.define_class(2, cpu=2000)
    world.define_class(3, cpu=3000)
    small = world.submit(2, class_id=2)
    world.round()
    assert len({world.place(handle)[1] for handle in small}) == 2
    large = world.submit(1, class_id=3)
    world.round()
    return world, small, large


def test_jobs_that_match_nothing_keep_nobody_from_running() -> None:
    """Neither other queues nor the jobs behind them in their own wait a single round."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1, "bob": 1}, settings=_SETTINGS)
    world.define_class(2, cpu=64_000)
    impossible = world.submit(20, queue=1, class_id=2)
    own, other = world.submit(2, queue=1), world.submit(1, queue=2)
    assert sorted(world.round().handle.tolist()) == [*own, *other]
    assert _pending(world) == []
    assert _reason(world, impossible[0]) == WaitReason.MISMATCH
    assert count_waiting(world.state)[WaitReason.MISMATCH] == 20


def test_they_run_in_order_once_something_fits_them() -> None:
    """A new cluster is asked for them at once."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    world.define_class(2, cpu=64_000)
    impossible = world.submit(20, class_id=2)
    world.round()
    world.add_cluster("large", 5, {"cpu": 256_000, "memory": 64 << 30})
    assert world.round().handle.tolist() == impossible


def test_saturated_pool_asks_nothing_until_a_run_ends() -> None:
    """With work for many times its size, a full pool costs nothing, and one job is pending."""
    world = LeaderWorld(clusters={"a": 2}, settings=RoundSettings())
    handles = world.submit(500)
    world.round()
    assert _idle(world)
    assert next_due_s(world.state, world.now_s) > world.now_s
    assert _pending(world) == [handles[8]]
    world.report("a", [Report(handle=handle, attempt=1, state=4) for handle, _ in world.live_runs("a")[:2]])
    assert next_due_s(world.state, world.now_s) == world.now_s
    assert world.round().handle.tolist() == handles[8:10]


def test_round_that_leaves_nothing_to_ask_is_not_followed_by_another() -> None:
    """It says so itself: the next one waits for news, or for the end of a reason."""
    world = LeaderWorld(clusters={"a": 2}, settings=RoundSettings())
    world.submit(500)
    assert world.round().handle.size == 8
    assert next_due_s(world.state, world.now_s) > world.now_s


def test_what_waits_raises_neither_usage_nor_flow() -> None:
    """Only held jobs count: a trial touches nothing."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    world.submit(50)
    begin_round(world.state, world.now_s, world.rng)
    assert (world.state.queues.usage == 0).all()
    assert (world.state.queues.flow == 0).all()
    assert world.state.round is not None
    world.state.round.finish(world.now_s)
    world.round()
    share = shares(world.state, world.now_s).queues[0]
    assert (share.usage_cores, share.flow_cores, share.leased_count) == (4.0, 4.0, 4)
    assert (share.queued_count, share.pending_count) == (45, 1)


def test_class_that_fits_no_node_is_asked_again_only_when_its_sampler_says_that_it_fits() -> None:
    """Three cores do not fit twice two free ones; a core that comes free beside them changes nothing."""
    world, small, large = _full()
    assert _idle(world)
    assert _pending(world) == large
    assert _reason(world, large[0]) == WaitReason.NO_ROOM
    world.submit(1)
    world.round()
    tiny = [handle for handle, _ in world.live_runs("a") if handle not in small]
    world.report("a", [Report(handle=tiny[0], state=4)])
    assert _idle(world)
    world.report("a", [Report(handle=small[0], state=4)])
    assert world.round().handle.tolist() == large


def test_class_is_asked_again_when_one_node_rises_by_what_another_falls() -> None:
    """The sums are as before, and yet a node has room now that had none."""
    world, small, large = _full()
    ledger = world.clusters["a"].ledger
    _, goal = (ledger.rows_of_names([world.place(handle)[1]]) for handle in small)
    moved = PodEvents(
        members=Members.of(np.array(small[:1], dtype=np.int64), np.array([1], dtype=np.int32)),
        uids=np.ones((1, 16), dtype=np.uint8),
        nodes=goal,
        ended=np.zeros(1, dtype=np.bool_),
        requests=ledger.classes.requests[ledger.classes.slots(np.array([2], dtype=np.int32))],
    )
    assert ledger.observe(moved).replaced_count == 1
    assert world.round().handle.tolist() == large


def test_reason_ends_by_itself_when_news_are_lost() -> None:
    """Ten seconds later the sampler is asked again, and next_due_s says so."""
    world, small, large = _full()
    world.clusters["a"].ledger.release(Members.of(np.array(small[:1], dtype=np.int64), np.array([1], dtype=np.int32)))
    assert world.clusters["a"].sampling.sampler.take_fitting()[0].tolist() == [3]
    world.state.clusters.free[0] = world.clusters["a"].ledger.totals().free
    world.state.change_count += 1
    assert _idle(world)
    due_s = next_due_s(world.state, world.now_s)
    assert world.now_s < due_s <= world.now_s + 10
    world.now_s = due_s
    assert world.round().handle.tolist() == large


@pytest.mark.parametrize("expiry_s", [10.0, 3600.0])
def test_reason_to_wait_holds_for_as_long_as_the_settings_say(expiry_s: float) -> None:
    """Ten seconds by default; a pool whose streams lose nothing may take its time."""
    world, _, _ = _full(replace(_SETTINGS, wait_expiry_s=expiry_s))
    assert next_due_s(world.state, world.now_s) == world.now_s + expiry_s


def test_moment_of_a_reason_that_has_ended_is_no_reason_for_a_round() -> None:
    """What has got room meanwhile is not waited for: the next moment is that of a reason that holds."""
    waits = WaitTable(10.0)
    waits.ensure(2, 1)
    no_room, unsaid = np.array([WaitReason.NO_ROOM], dtype=np.int8), np.zeros(1)
    for row, now_s in enumerate((0.0, 8.0)):
        waits.wait(np.array([row]), 0, no_room, retry_after_s=unsaid, now_s=now_s)
    assert waits.due_s(9.0) == 10.0
    waits.wake(np.array([0]), 0, np.array([1]))
    assert waits.due_s(10.0) == 18.0


def test_news_in_the_middle_of_a_round_outlast_its_answers() -> None:
    """The answer was given before capacity rose, but is taken in after it was told."""
    world, small, large = _full()
    world.state.waits.clear_cluster(0)
    world.state.change_count += 1

    def answer(request: SampleRequest) -> SampleReply:
        reply = world.sample(request)
        world.clusters["a"].ledger.release(Members.of(small[:1], [1]))
        world.send_capacity("a")
        return reply

    assert world.plan(answer_sample=answer).handle.size == 0
    assert world.round().handle.tolist() == large


def test_new_session_of_a_sampler_is_asked_everything_again() -> None:
    """What an earlier incarnation said of its nodes says nothing of these."""
    world, _, _ = _full()
    assert _idle(world)
    world.reconnect_sampler("a")
    assert not _idle(world)


def test_waiting_head_gets_an_emptied_node_before_any_later_small_job() -> None:
    """It is asked for whenever anything is, and tried at its place in the order."""
    world = LeaderWorld(clusters={"a": 2}, queues={"alice": 1, "bob": 1}, settings=_SETTINGS)
    world.define_class(2, cpu=4000)
    world.submit(8, queue=1)
    world.round()
    whole = world.submit(3, queue=2, class_id=2)
    world.submit(100, queue=1)
    world.round()
    assert _pending(world) == whole[:1]
    running: dict[str, list[int]] = {}
    for handle, _ in world.live_runs("a"):
        running.setdefault(world.place(handle)[1], []).append(handle)
    node, runs = running.popitem()
    world.report("a", [Report(handle=handle, state=4) for handle in runs])
    assert world.round().handle.tolist() == whole[:1]
    assert world.place(whole[0]) == ("a", node)


def test_job_that_matches_no_node_of_a_full_pool_is_no_waiting_head() -> None:
    """A full cluster is asked once whether its nodes match, so that nothing which can never run stands for room."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1, "bob": 1}, settings=_SETTINGS)
    world.define_class(2, cpu=4000)
    world.define_class(3, cpu=1000, node_selector=(("disk", "ssd"),))
    running = world.submit(4, queue=1)
    world.round()
    impossible, whole = world.submit(3, queue=2, class_id=3), world.submit(1, queue=2, class_id=2)
    world.round()
    assert _reason(world, impossible[0]) == WaitReason.MISMATCH
    assert _pending(world) == whole
    assert _idle(world)
    world.report("a", [Report(handle=handle, state=4) for handle in running])
    assert world.round().handle.tolist() == whole


def test_more_urgent_job_of_the_same_queue_goes_first() -> None:
    """A job that waits longer keeps nothing."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    handles = world.submit(50)
    world.round()
    urgent = world.submit(1, priority=5)
    world.report("a", [Report(handle=handles[0], state=4)])
    assert world.round().handle.tolist() == urgent


@pytest.mark.parametrize("heads", [0, 1, 3])
def test_no_more_jobs_are_pending_than_waiting_heads_are_allowed(heads: int) -> None:
    """They are the next in fairness order over the pool, not one per queue."""
    settings = replace(_SETTINGS, waiting_heads=heads)
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 9, "bob": 1}, settings=settings)
    first = world.submit(30, queue=1)
    world.submit(30, queue=2)
    world.round()
    world.round()
    held = {handle for handle, _ in world.live_runs("a")}
    assert _pending(world) == [handle for handle in first if handle not in held][:heads]


def test_heads_that_can_share_no_cluster_do_not_use_up_each_others_place() -> None:
    """One waits for accelerators of one cluster, one for cores of the other."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    world.add_cluster("gpus", 1, {"cpu": 4000, "gpu": 1, "memory": 16 << 30})
    world.define_class(2, cpu=1000, gpu=1)
    world.define_class(3, cpu=4000, memory=15 << 30)
    world.submit(8)
    world.round()
    world.round()
    gpu, cores = world.submit(1, class_id=2), world.submit(1, class_id=3)
    world.round()
    assert _pending(world) == gpu
    set_cluster(world.state, ClusterView(name="gpus", connected=True, cordoned=True))
    world.round()
    assert _pending(world) == cores
    assert _reason(world, gpu[0]) == WaitReason.MISMATCH


def test_heads_that_can_share_no_node_do_not_use_up_each_others_place() -> None:
    """Selectors keep two classes apart in one cluster; a third one fits where either does, and has to wait its turn."""
    world = LeaderWorld(clusters={"a": 2}, settings=_SETTINGS)
    zones = (("zone", "east"),), (("zone", "west"),)
    world.clusters["a"].specs[:] = [
        NodeSpec(name=f"a-{row}", total=world.node_amounts, labels=dict(zone)) for row, zone in enumerate(zones)
    ]
    world.reconnect_sampler("a")
    running = world.submit(8)
    world.round()
    for class_id, zone in enumerate(zones, 2):
        world.define_class(class_id, cpu=4000, node_selector=zone)
    world.define_class(4, cpu=4000)
    (east,), (either,), (west,) = (world.submit(1, class_id=class_id) for class_id in (2, 4, 3))
    world.round()
    assert _pending(world) == [east, west]
    world.report("a", [Report(handle=handle, state=4) for handle in running])
    assert world.round().handle.tolist() == [east, either]


def test_invariant_finds_too_many_pending_jobs() -> None:
    """More than allowed is a violation, wherever it comes from."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    handles = world.submit(9)
    world.round()
    state = world.state
    slots = state.live.slots(np.array(handles[4:7], dtype=np.int64))
    state.heads = state.live.handle[slots]
    state.live.flags[slots] |= PENDING
    with pytest.raises(InvariantViolation, match="waiting heads"):
        check_invariants(state)
    state.head_kinds = np.ones((3, 1), dtype=np.int64)
    with pytest.raises(InvariantViolation, match="more waiting heads than allowed"):
        check_invariants(state)


def test_failed_filter_is_asked_again_after_a_back_off_that_doubles() -> None:
    """1 s, 2 s, 4 s ... to a minute; told as a fault, counted, and over with the first good answer."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)
    handle = world.submit(1)[0]

    def fail(request: SampleRequest) -> SampleReply:
        reply = world.sample(request)
        count = request.class_ids.size
        return replace(
            reply,
            offset=np.zeros_like(reply.offset),
            candidate=reply.candidate[:0],
            score=reply.score[:0],
            reason=np.full(count, int(WaitReason.FAULT), dtype=np.int8),
            texts=("flaky: OSError: no answer",) * count,
            retry_after_s=np.zeros(count, dtype=np.float32),
        )

    waits = []
    for _ in range(8):
        world.plan(answer_sample=fail)
        assert _reason(world, handle) == WaitReason.FAULT
        assert _idle(world)
        due_s = next_due_s(world.state, world.now_s)
        waits.append(due_s - world.now_s)
        world.now_s = due_s
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])
    assert world.state.answers[int(world.state.live.class_index[0]), 0].text == "flaky: OSError: no answer"
    assert world.state.totals["faults"] == 8
    assert world.round().handle.tolist() == [handle]


def test_classes_of_a_round_that_failed_wait_everywhere_and_half_of_them_longer() -> None:
    """So the one that causes it is alone soon, and the others are served again; `explain` tells what happened."""
    world = LeaderWorld(clusters={"a": 2, "b": 2}, settings=_SETTINGS)
    handles = [world.submit(1, class_id=class_id)[0] for class_id in range(1, 9)]
    state = world.state
    classes = state.live.class_index[state.live.slots(np.array(handles))].astype(np.int64)
    hold_up(state, classes, "the round failed: ValueError: odd", now_s=world.now_s, rng=world.rng)
    assert _idle(world)
    assert {_reason(world, handle) for handle in handles} == {WaitReason.FAULT}
    assert {state.answers[row, index].text for row in classes.tolist() for index in (0, 1)} == {
        "the round failed: ValueError: odd"
    }
    assert state.totals["faults"] == 8
    sooner_s = next_due_s(state, world.now_s)
    assert sooner_s > world.now_s
    world.now_s = sooner_s
    first = world.round().handle.tolist()
    assert len(first) == 4
    world.now_s = next_due_s(state, world.now_s)
    assert sorted(first + world.round().handle.tolist()) == handles


def test_class_of_a_round_that_failed_waits_longer_each_time_if_it_was_alone() -> None:
    """A fault that stays is met ever more seldom."""
    world = LeaderWorld(clusters={"a": 2}, settings=_SETTINGS)
    world.submit(1)
    waits_s = []
    for _ in range(3):
        hold_up(world.state, np.array([0]), "odd", now_s=world.now_s, rng=world.rng)
        waits_s.append(world.state.waits.next_end_s - world.now_s)
        world.now_s = world.state.waits.next_end_s
        world.state.waits.expire(world.now_s)
    assert waits_s == pytest.approx([1, 2, 4])


def test_shares_are_never_more_than_the_pool_has() -> None:
    """A sampler gives away what a pod held as soon as it ended, before its executor has told the leader so."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1, "bob": 1}, settings=_SETTINGS)
    world.submit(4, queue=1)
    world.round()
    ended = Members.of(*zip(*world.live_runs("a"), strict=True))
    world.clusters["a"].sampling.release(world.machine.epoch, ended)
    world.submit(4, queue=2)
    world.send_capacity("a")
    assert world.round().handle.size == 4
    told = shares(world.state, world.now_s)
    assert int(world.state.queues.usage.sum()) == 8_000_000
    assert [row.usage_cores for row in told.queues] == [2.0, 2.0]
    assert told.capacity_cores == 8.0


def test_job_of_a_cordoned_queue_waits_for_its_release() -> None:
    """People keep it, not the pool; a round has nothing to do for it."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1, cordoned=True)])
    assert _idle(world)
    assert next_due_s(world.state, world.now_s) > world.now_s
    assert _reason(world, handle) == WaitReason.CORDONED
    set_queues(world.state, [QueueView(queue_id=1, name="alice", weight=1)])
    assert world.round().handle.tolist() == [handle]

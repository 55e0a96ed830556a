"""What fair shares hold back: the cap of work without a lifetime, and the excess flow budget, in the leader."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.arrays import has_true
from argosy_core.placement import WaitReason
from argosy_core.queueing import QueueLimits
from argosy_core.scheduler import (
    Explanation,
    QueueView,
    RoundSettings,
    change_settings,
    explain,
    next_due_s,
    set_queues,
)
from argosy_core.scheduler.memory.flows import counted_usage
from argosy_core.scheduler.turns.fair_caps import find_caps
from argosy_core.scheduler.turns.limits import Beyond, heads_of_each, heads_within
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_SETTINGS = RoundSettings(resource_weights={"cpu": 0.001}, clusters_to_sample_ratio=1.0, promised_nodes_ratio=0.0)
"""Sixteen cores, one job counts one: of two equal queues each has a fair share of eight."""


def make_world(settings: RoundSettings = _SETTINGS, **more: float) -> LeaderWorld:
    """Return a pool of sixteen cores and two queues."""
    return LeaderWorld(queues={"alice": 1.0, "bob": 1.0}, settings=replace(settings, **more))


def with_lifetime(seconds: int, limit_s: int = -1) -> tuple[int, ...]:
    """Return the options of a job."""
    return seconds, limit_s, -1, -1


def why(world: LeaderWorld, handle: int) -> Explanation:
    """Explain a job."""
    answer = explain(world.state, handle, world.now_s)
    assert answer is not None
    return answer


def end(world: LeaderWorld, handles: list[int]) -> None:
    """Have jobs succeed."""
    for handle in handles:
        world.report(world.place(handle)[0], [Report(handle=handle, attempt=1, state=4)])


def charged(world: LeaderWorld) -> int:
    """Return what is charged to the first queue, core-seconds."""
    return int(world.state.queues.charged_core_s[0])


@pytest.mark.parametrize(("ratio", "count"), [(0.2, 9), (0.0, 8), (0.5, 12), (1e9, 16)])
def test_work_without_a_lifetime_stays_below_its_cap(ratio: float, count: int) -> None:
    """Eight cores are the share of one of two queues, a fifth more makes nine jobs; the rest stays free."""
    world = make_world(non_preemptible_excess_ratio=ratio)
    jobs = world.submit(20)
    assert world.round().handle.tolist() == jobs[:count]
    assert world.round().handle.size == 0
    if count < 16:
        answer = why(world, jobs[count])
        assert answer.reason == WaitReason.LIMIT
        assert f"the flow of such jobs of its queue is {100 * count / 16:.3g}% of at most" in answer.summary
        assert "for a fair share of 50%" in answer.summary
        assert world.state.pending_slots().size == 0, "what may not begin is no waiting head"


def test_the_share_is_taken_over_all_queues_that_there_are() -> None:
    """A queue that never had work counts; when it gets less weight, the other may hold more at once."""
    world = make_world()
    world.submit(20)
    assert world.round().handle.size == 9
    assert world.round().handle.size == 0
    assert next_due_s(world.state, world.now_s) > world.now_s
    set_queues(world.state, [QueueView(queue_id=2, name="bob", weight=1 / 3)])
    assert next_due_s(world.state, world.now_s) == world.now_s
    assert world.round().handle.size == 5


def test_a_cap_no_less_than_the_pool_holds_nothing_back() -> None:
    """Of an only queue, a job that finds the pool full waits for room, as a waiting head."""
    world = LeaderWorld(settings=_SETTINGS)
    world.submit(16)
    world.round()
    [whole] = world.submit(1, class_id=world.define_class(2, cpu=4000) or 2)
    world.round()
    assert why(world, whole).reason == WaitReason.NO_ROOM
    assert world.state.live.handle[world.state.pending_slots()].tolist() == [whole]


def test_a_cap_follows_its_setting_while_the_pool_is_led() -> None:
    """Without a new leader."""
    world = make_world()
    world.submit(20)
    assert world.round().handle.size == 9
    assert world.round().handle.size == 0
    settings = replace(world.state.settings, non_preemptible_excess_ratio=0.5)
    change_settings(world.state, settings, world.now_s)
    assert world.round().handle.size == 3


def test_shares_below_queues_are_parts_of_the_share_above() -> None:
    """Of a branch of eight cores, a child with a quarter of it may hold two, and with it a fifth more."""
    world = LeaderWorld(
        queues={"physics": 1.0, "biology": 1.0, "optics": 1.0, "quanta": 2.0},
        parents={"optics": "physics", "quanta": "physics"},
        settings=replace(_SETTINGS, non_preemptible_excess_ratio=0.5),
    )
    world.submit(20, queue=3, job_set="of-optics")
    assert world.round().handle.size == 3
    world.submit(20, queue=1, job_set="of-physics")
    assert world.round().handle.size == 3, "a queue's own jobs stand beside its children with weight 1"


def test_a_queue_may_always_hold_one_job() -> None:
    """Even if that is far more than its share, or it has none at all; and then no other."""
    world = LeaderWorld(queues={"alice": 1.0, "bob": 9.0, "zero": 0.0}, settings=_SETTINGS)
    world.define_class(2, cpu=4000)
    large = world.submit(2, queue=1, class_id=2)
    none = world.submit(2, queue=3, job_set="of-zero")
    assert sorted(world.round().handle.tolist()) == sorted([large[0], none[0]])
    assert world.round().handle.size == 0
    end(world, large[:1])
    world.now_s += 3000.0
    assert world.round().handle.tolist() == large[1:]


def test_what_fits_below_the_cap_passes_what_does_not() -> None:
    """A job of four cores does not fit beside six of at most nine and a half; one of one core does."""
    world = make_world()
    world.define_class(2, cpu=4000)
    first = world.submit(6)
    large, small = world.submit(1, class_id=2), world.submit(4)
    assert world.round().handle.tolist() == [*first, *small[:3]]
    assert "it counts 25% of the pool and has no lifetime" in why(world, large[0]).summary


def test_what_could_only_begin_alone_is_not_passed_by_its_kind() -> None:
    """A job above the cap begins when the queue holds nothing else of that kind; jobs with lifetimes pass it."""
    world = LeaderWorld(queues={"alice": 1.0, "bob": 7.0}, settings=_SETTINGS)
    world.define_class(2, cpu=4000)
    first = world.submit(2)
    assert world.round().handle.tolist() == first
    large, small, ending = world.submit(1, class_id=2), world.submit(5), world.submit(1, options=with_lifetime(0))
    assert world.round().handle.tolist() == ending
    end(world, first[:1])
    assert world.round().handle.size == 0
    end(world, first[1:])
    world.now_s += 3000.0
    assert world.round().handle.tolist() == large
    end(world, large)
    world.now_s += 3000.0
    assert world.round().handle.tolist() == small[:2]


@pytest.mark.parametrize("seed", range(6))
def test_heads_of_several_queues_are_those_of_each(seed: int) -> None:
    """Queues without a limit, below their caps, above them and with limits, together and one by one."""
    rng = np.random.default_rng(seed)
    world = LeaderWorld(queues={f"q{number}": 1.0 for number in range(6)}, settings=_SETTINGS, clusters={"a": 40})
    for class_id in range(1, 5):
        world.define_class(class_id, cpu=1000 * class_id)
    limits = QueueLimits(max_running_count=3)
    set_queues(world.state, [QueueView(queue_id=6, name="q5", weight=1.0, limits=limits)])
    for _ in range(24):
        world.submit(int(rng.integers(1, 9)), queue=int(rng.integers(1, 7)), class_id=int(rng.integers(1, 5)))
    world.round()
    state = world.state
    state.caps = find_caps(state)
    if seed % 2:
        state.queues.flow = state.queues.flow * rng.choice([1.0, 5.0], state.queues.flow.size)
    assert has_true(state.caps.binds)
    rows = list(range(6))
    for count in (1, 5, 200):
        alone = [heads_within(state, row, count, None, view=0) for row in rows]
        together = heads_of_each(state, rows, count, None, view=0, beyond_cap=Beyond.NOBODY)
        for (slots, is_all), (own_slots, own_is_all) in zip(together, alone, strict=True):
            assert (slots.tolist(), is_all) == (own_slots.tolist(), own_is_all)


def test_a_flow_above_the_cap_is_waited_for() -> None:
    """Flow remembers a job above the cap; a round is due when it has fallen to the cap, and not before."""
    world = LeaderWorld(queues={"alice": 1.0, "bob": 7.0}, settings=_SETTINGS)
    world.define_class(2, cpu=4000)
    large = world.submit(1, class_id=2)
    world.round()
    end(world, large)
    jobs = world.submit(3)
    assert world.round().handle.tolist() == jobs[:1]
    world.round()
    due_s = next_due_s(world.state, world.now_s)
    assert due_s - world.now_s == pytest.approx(300.0 * np.log2((4.0 - 1.0) / (2.4 - 1.0)), abs=1.0)
    world.now_s = due_s + 0.001
    assert world.round().handle.tolist() == jobs[1:2]


def test_waiting_jobs_that_were_promised_a_start_count_as_begun() -> None:
    """What is kept for them is not given to later jobs of their queue."""
    world = make_world(promised_nodes_ratio=0.25, promise_after_s=1.0)
    world.define_class(2, cpu=4000)
    fillers = world.submit(12, queue=2, job_set="of-bob", options=with_lifetime(0))
    world.round()
    [whole] = world.submit(1, class_id=2)
    for _ in range(4):
        world.now_s += 1.0
        world.tell_news()
        world.round()
    assert [*world.state.promises.standing] == [whole]
    later = world.submit(9, priority=1)
    end(world, fillers)
    world.tell_news()
    assert sorted(world.round().handle.tolist()) == sorted([whole, *later[:5]])


def test_a_start_beyond_the_share_is_charged_until_the_job_leaves() -> None:
    """Eight cores are the share; two more of ten minutes each cost 20 core-minutes, which are given back whole."""
    world = make_world(excess_budget_min=2.5)  # of eight cores: 20 core-minutes
    jobs = world.submit(20, options=with_lifetime(600))
    assert world.round().handle.tolist() == jobs[:10]
    assert charged(world) == 1200
    answer = why(world, jobs[10])
    assert answer.reason == WaitReason.LIMIT
    assert "it costs 10 core-minutes, and 20 of 20 are taken" in answer.summary
    paid = [job for job in jobs[:10] if world.state.live.charge_core_s[world.state.live.slots(np.array([job]))[0]]]
    assert paid == jobs[8:10]
    end(world, paid[:1])
    assert charged(world) == 600
    assert world.round().handle.tolist() == jobs[10:11]
    assert charged(world) == 1200
    world.check()


@pytest.mark.parametrize(
    ("options", "minimum_s", "cost"),
    [
        pytest.param(with_lifetime(0), 0.0, 0, id="lifetime-0-costs-nothing"),
        pytest.param(with_lifetime(600), 0.0, 600, id="its-lifetime"),
        pytest.param(with_lifetime(600, 60), 0.0, 60, id="the-lesser-of-lifetime-and-time-limit"),
        pytest.param(with_lifetime(0), 30.0, 30, id="the-guard-lengthens-the-lifetime"),
        pytest.param(with_lifetime(0, 10), 30.0, 10, id="but-no-time-limit"),
    ],
)
def test_what_a_start_beyond_the_share_costs(options: tuple[int, ...], minimum_s: float, cost: int) -> None:
    """Its usage, for as long as it is safe from preemption."""
    world = make_world(minimum_run_s=minimum_s)
    world.submit(9, options=options)
    assert world.round().handle.size == 9
    assert charged(world) == cost


def test_a_job_that_costs_more_than_the_budget_begins_alone() -> None:
    """Else it would wait for ever; nothing else is charged beside it, and jobs of lifetime 0 pass what waits."""
    world = make_world(excess_budget_min=1.0)
    filler = world.submit(8)
    long = world.submit(2, options=with_lifetime(86_400))
    short = world.submit(1, options=with_lifetime(30))
    free = world.submit(2, options=with_lifetime(0))
    assert world.round().handle.tolist() == [*filler, long[0], *free]
    assert charged(world) == 86_400
    assert world.round().handle.size == 0
    end(world, long[:1])
    assert charged(world) == 0
    assert world.round().handle.tolist() == long[1:]
    end(world, long[1:])
    assert world.round().handle.tolist() == short


def test_flow_budget_and_charges_outlast_a_takeover() -> None:
    """The next leader knows what is charged for which run, and the flow of what has no lifetime apart."""
    world = make_world(excess_budget_min=2.5)
    lasting = world.submit(4)
    ending = world.submit(9, options=with_lifetime(600))
    assert world.round().handle.size == 10
    end(world, lasting[:2])
    world.round()
    world.ingest(world.plan())
    before = world.state.queues
    world.take_over()
    world.read()
    after = world.state.queues
    assert after is not before
    assert charged(world) == before.charged_core_s[0] > 0
    assert after.non_preemptible_flow[0] == pytest.approx(before.non_preemptible_flow[0], rel=0.01)
    assert after.non_preemptible_flow[0] > 3.9
    end(world, [job for job in ending if world.job(job).live_attempt])
    assert charged(world) == 0


def test_a_plan_that_its_leader_did_not_see_stored_keeps_its_charges() -> None:
    """The next leader reads them in the log."""
    world = make_world()
    world.submit(10, options=with_lifetime(600))
    plan = world.plan()
    assert plan.charge_core_s is not None
    world.take_over(plan)
    assert charged(world) == 1200
    world.check()


def test_ends_that_the_last_leader_did_not_store_leave_no_flow_above_the_cap() -> None:
    """What ended and what was leased in its place are both held until the ends are told again; the flow is of one."""
    before, world = make_world(), make_world()
    before.submit(40)
    world.submit(40)
    first = before.round().handle.tolist()
    assert world.round().handle.tolist() == first
    end(before, first)
    plan = before.plan()
    assert plan.handle.size == 9
    world.take_over(plan)
    assert world.state.queues.flow[0] == pytest.approx(9, abs=0.01)
    end(world, first)
    assert counted_usage(world.state)[0] == world.state.queues.usage[0]
    end(world, plan.handle.tolist())
    assert world.round().handle.size == 9

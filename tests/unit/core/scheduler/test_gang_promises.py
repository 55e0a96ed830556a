"""Promised starts of gangs: when nodes that are kept for one are free together, and who may start there until then."""

from __future__ import annotations

import pytest

from argosy_core.backfill import PromiseKind
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, ObjectState
from argosy_core.scheduler import RoundSettings, explain
from argosy_core.scheduler.memory.promised import BrokenBy, GatheredNodes
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SETTINGS = RoundSettings(
    clusters_to_sample_ratio=1.0,
    promise_after_s=1.0,
    run_allowance_s=5.0,
    assumed_run_time_s=1000.0,
    wait_expiry_s=1.0,
    non_preemptible_excess_ratio=1e9,
)


GANG = GangGroup(pod=SchedulingClass(requests=(("cpu", 4000),)), minimum=2, maximum=2)


def limit(seconds: int) -> tuple[int, int, int]:
    """Return the options of a job with a time limit."""
    return (-1, seconds, -1)


def report(world: LeaderWorld, handles: list[int], state: ObjectState) -> None:
    """Have executors tell of pods."""
    for handle in handles:
        world.report(world.place(handle)[0], [Report(handle=handle, state=int(state))])


def pass_time(world: LeaderWorld, seconds: float) -> None:
    """Let time pass, with a round twice a second."""
    for _ in range(round(2 * seconds)):
        world.now_s += 0.5
        world.tell_news()
        world.round()


class FullWorld:
    """Four nodes of four cores: three are taken of two of them for a hundred seconds, all of two for a thousand.

    A gang of two whole nodes waits.

    Args:
        settings: Of the rounds.
        short_s: Time limit of what is on the first two nodes.
    """

    def __init__(self, settings: RoundSettings = SETTINGS, *, short_s: int = 100) -> None:
        """Fill the nodes, and let time pass until the gang has nodes that are kept for it."""
        self.world = world = LeaderWorld(clusters={"a": 4}, settings=settings)
        world.define_class(3, cpu=3000)
        world.define_class(4, cpu=4000)
        world.define_gang(2, GANG)
        self.short = world.submit(2, class_id=3, options=limit(short_s))
        self.long = world.submit(2, class_id=4, options=limit(1000))
        world.round()
        report(world, [*self.short, *self.long], ObjectState.RUNNING)
        self.begun_s = world.now_s
        (self.gang,) = world.submit(1, class_id=2)
        pass_time(world, 4.0)

    def gathered(self) -> GatheredNodes:
        """Return what is kept for the gang."""
        (gathered,) = self.world.state.promises.gathered.values()
        assert gathered.handle == self.gang
        return gathered


def test_gang_is_promised_the_moment_at_which_its_nodes_are_free_by_time_limits() -> None:
    """Firm, on the nodes that are free first, and people read it."""
    full = FullWorld()
    gathered, world = full.gathered(), full.world
    assert gathered.kind is PromiseKind.FIRM
    assert gathered.moment_s == pytest.approx(full.begun_s + 105)
    assert {f"a/{node}" for node in gathered.nodes} == {"/".join(world.place(handle)) for handle in full.short}
    told = explain(world.state, full.gang, world.now_s)
    assert told is not None
    assert told.promise is not None
    assert (told.promise.is_firm, told.promise.moment_s) == (True, gathered.moment_s)
    assert "promised a start on a/" in told.summary
    assert "2 nodes of a are kept for it until all its pods fit" in told.summary
    assert told.start is not None
    assert told.start.latest_s == gathered.moment_s


def test_others_start_on_nodes_kept_for_a_gang_only_if_their_limits_end_them_before_its_moment() -> None:
    """One that has ended by then passes, one that could be there then does not, nor one without a limit."""
    full = FullWorld()
    world, kept = full.world, full.gathered().nodes
    report(world, full.short[:1], ObjectState.SUCCEEDED)
    (later,) = world.submit(1, class_id=4, options=limit(120))
    (never,) = world.submit(1, class_id=4)
    (sooner,) = world.submit(1, class_id=3, options=limit(50))
    pass_time(world, 4.0)
    assert [world.job_state(handle) for handle in (later, never)] == [JobState.QUEUED] * 2
    assert world.job_state(sooner) == JobState.LEASED
    assert world.place(sooner)[1] in kept


def test_gang_starts_by_its_moment_though_others_passed_it() -> None:
    """The promise is counted as kept, and nothing is kept any more."""
    full = FullWorld()
    world = full.world
    report(world, full.short[:1], ObjectState.SUCCEEDED)
    (sooner,) = world.submit(1, class_id=4, options=limit(50))
    pass_time(world, 4.0)
    report(world, [sooner], ObjectState.RUNNING)
    pass_time(world, 50.0)
    report(world, [sooner, full.short[1]], ObjectState.SUCCEEDED)
    pass_time(world, 2.0)
    assert world.job_state(full.gang) == JobState.LEASED
    assert world.now_s < full.begun_s + 105
    pass_time(world, 1.0)
    assert not world.state.promises.gathered
    totals = world.state.totals
    assert (totals["promises_firm"], totals["promises_kept"], totals["firm_promises_broken"]) == (1, 1, 0)


def test_next_leader_keeps_the_promise_of_a_gang() -> None:
    """With all its nodes and its moment; the job is tried in every round as before."""
    full = FullWorld()
    before = full.gathered()
    full.world.take_over()
    after = full.gathered()
    assert (after.kind, set(after.nodes), after.cluster) == (before.kind, set(before.nodes), before.cluster)
    assert after.moment_s == pytest.approx(before.moment_s, abs=1e-5)
    report(full.world, full.short, ObjectState.SUCCEEDED)
    pass_time(full.world, 4.0)
    assert full.world.job_state(full.gang) == JobState.LEASED


def test_promise_of_a_gang_is_broken_by_a_node_that_goes_and_others_are_kept() -> None:
    """For lost capacity, as users are told; the next moment is that of nodes that are there."""
    full = FullWorld()
    world, gone = full.world, full.gathered().nodes[0]
    world.clusters["a"].ledger.remove_nodes([gone])
    world.send_capacity("a")
    pass_time(world, 15.0)
    assert world.state.promises.broken[full.gang] is BrokenBy.CAPACITY
    assert world.state.totals["firm_promises_broken"] == 1
    assert gone not in full.gathered().nodes


def test_late_promise_of_a_gang_is_broken_and_its_nodes_stay_kept() -> None:
    """What should have ended and has not may end any moment: nobody else gets what is nearly empty."""
    full = FullWorld(short_s=10)
    kept = full.gathered().nodes
    pass_time(full.world, 15.0)
    assert full.world.state.promises.broken[full.gang] is BrokenBy.LATE
    assert full.gathered().nodes == kept
    assert full.gathered().kind is not PromiseKind.FIRM
    report(full.world, full.short, ObjectState.SUCCEEDED)
    pass_time(full.world, 4.0)
    assert full.world.job_state(full.gang) == JobState.LEASED


def test_no_other_job_is_promised_a_node_that_is_kept_for_a_gang() -> None:
    """Its promise could not be kept beside the other."""
    world = LeaderWorld(clusters={"a": 2}, settings=SETTINGS)
    world.define_class(4, cpu=4000)
    world.define_gang(2, GANG)
    small = world.submit(8, options=limit(100))
    world.round()
    report(world, small, ObjectState.RUNNING)
    world.submit(1, class_id=2)
    pass_time(world, 4.0)
    assert world.state.promises.gathered
    world.submit(1, class_id=4, options=limit(500))
    pass_time(world, 10.0)
    assert not world.state.promises.standing


def test_gang_is_promised_what_is_expected_where_nothing_is_limited() -> None:
    """No limit ends anything, so nobody passes, and the promise is no firm one."""
    world = LeaderWorld(clusters={"a": 2}, settings=SETTINGS)
    world.define_class(4, cpu=4000)
    world.define_gang(2, GANG)
    jobs = world.submit(2, class_id=4)
    world.round()
    report(world, jobs, ObjectState.RUNNING)
    world.submit(1, class_id=2)
    pass_time(world, 4.0)
    (gathered,) = world.state.promises.gathered.values()
    assert gathered.kind is PromiseKind.EXPECTED
    report(world, jobs[:1], ObjectState.SUCCEEDED)
    (small,) = world.submit(1, class_id=4)
    pass_time(world, 4.0)
    assert world.job_state(small) == JobState.QUEUED

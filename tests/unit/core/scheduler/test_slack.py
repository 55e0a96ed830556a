"""Slack of firm promises: until the promised moment order decides who has the node, round by round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argosy_core.backfill import PromiseKind
from argosy_core.job.states import ObjectState
from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

STRICT = RoundSettings(
    clusters_to_sample_ratio=1.0,
    job_order="smallest-area",
    promise_order="smallest-area",
    promise_after_s=1.0,
    run_allowance_s=0.0,
    wait_expiry_s=1.0,
    non_preemptible_excess_ratio=1e9,
)
SLACK = replace(STRICT, promise_slack_ratio=2.0)
LIMIT_S = 100


def promised_world(settings: RoundSettings) -> tuple[LeaderWorld, list[int], int]:
    """Return a node of eight cores with six jobs of one that end within 100 s, and a job of all that is promised it."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 8000, "memory": 16 << 30}, settings=settings)
    for cores in (2, 6, 7, 8):
        world.define_class(cores, cpu=1000 * cores)
    running = world.submit(6, options=(-1, LIMIT_S, -1))
    world.round()
    for handle in running:
        world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
    [whole] = world.submit(1, class_id=8, options=(-1, LIMIT_S, LIMIT_S))
    pass_time(world, 3.0)
    assert [*world.state.promises.standing] == [whole]
    return world, running, whole


def pass_time(world: LeaderWorld, seconds: float) -> None:
    """Let time pass."""
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        world.now_s += 0.5
        world.tell_news()
        world.round()


def end(world: LeaderWorld, handles: list[int]) -> None:
    """Have jobs end with success."""
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED) for handle in handles])


def submit_short(world: LeaderWorld, class_id: int, limit_s: int) -> int:
    """Submit a job that takes as long as its limit, and return it."""
    [handle] = world.submit(1, class_id=class_id, options=(-1, limit_s, limit_s))
    return handle


def test_a_firm_promise_is_as_much_later_as_its_slack_says() -> None:
    """Three times as far away with a slack of two, and it stays so."""
    (strict, *_, whole), (slack, *_) = promised_world(STRICT), promised_world(SLACK)
    begun_s = strict.state.promises.standing[whole].moment_s - LIMIT_S
    promise = slack.state.promises.standing[whole]
    assert promise.kind == PromiseKind.FIRM
    given_s = begun_s + LIMIT_S - (promise.moment_s - begun_s - LIMIT_S) / 2
    assert begun_s + 1 <= given_s <= begun_s + 3
    slack.submit(1, class_id=2)
    pass_time(slack, 5.0)
    assert slack.state.promises.standing[whole] == promise


@pytest.mark.parametrize(("settings", "is_first"), [(STRICT, False), (SLACK, True)])
def test_who_has_its_turn_earlier_goes_before_a_promise_with_slack(
    settings: RoundSettings,
    is_first: bool,  # noqa: FBT001
) -> None:
    """As long as it is over by the promised moment; without slack the promised job is next."""
    world, running, whole = promised_world(settings)
    sooner = submit_short(world, 7, 90)
    pass_time(world, 30.0)
    end(world, running)
    pass_time(world, 1.0)
    assert bool(world.job(sooner).runs) is is_first
    assert bool(world.job(whole).runs) is not is_first


def test_whose_turn_it_is_is_not_delayed_by_those_behind_it() -> None:
    """They would be over by the promised moment, but not when it could start; who is over by then may pass."""
    world, _, _ = promised_world(SLACK)
    submit_short(world, 7, 20)
    late = submit_short(world, 2, 150)
    pass_time(world, 2.0)
    assert not world.job(late).runs
    [early] = world.submit(1, class_id=2, options=(-1, 80, 79))
    pass_time(world, 2.0)
    assert world.job(early).runs


def test_who_has_its_turn_before_is_not_held_back_for_those_behind_it() -> None:
    """Of the jobs that have no room the first in order has its turn; those that stand before it begin."""
    world, _, _ = promised_world(SLACK)
    submit_short(world, 6, 120)
    before = submit_short(world, 2, 150)
    pass_time(world, 2.0)
    assert world.job(before).runs


def test_what_goes_beyond_a_promised_moment_does_not_pass_its_slack() -> None:
    """Whoever's turn it is: the moment is a bound."""
    world, _, whole = promised_world(SLACK)
    moment_s = world.state.promises.standing[whole].moment_s
    [beyond] = world.submit(1, class_id=2, options=(-1, round(moment_s - world.now_s) + 5, 1))
    pass_time(world, 2.0)
    assert not world.job(beyond).runs

"""What a leadership shows on /metrics is what it counted, and nothing is left of it at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from argosy_core.leader import LeaderMachine, MachineSettings
from argosy_core.leader.events import Role, Session
from argosy_core.scheduler import forget_cluster, set_cluster, set_queues
from argosy_core.scheduler.columns.messages import ClusterView, QueueView
from argosy_runtime.metrics import METRICS_REGISTRY
from argosy_server.leader.sessions.executors import SyncSession
from argosy_server.leader.sessions.outbox import SessionTable
from argosy_server.leader.sessions.samplers import SamplerSession
from argosy_server.leader.show.gauges import LeaderGauges
from argosy_server.leader.show.notes import PhaseClock

POOL = "figures"


def value(name: str, **labels: str) -> float:
    """A sample of this process, 0 if it has none."""
    return METRICS_REGISTRY.get_sample_value(f"argosy_{name}", labels) or 0.0


@dataclass
class World:
    """A leadership and what it shows."""

    machine: LeaderMachine
    clock: PhaseClock
    executors: SessionTable[SyncSession]
    gauges: LeaderGauges


@pytest.fixture
def world() -> World:
    """A leadership of two queues in its fourth epoch."""
    machine = LeaderMachine(POOL, 4, settings=MachineSettings(), rng=np.random.default_rng(1))
    set_queues(
        machine.state, [QueueView(queue_id=one, name=f"figures-{one}", weight=1.0, cordoned=False) for one in (1, 2)]
    )
    clock = PhaseClock()
    executors: SessionTable[SyncSession] = SessionTable()
    samplers: SessionTable[SamplerSession] = SessionTable()
    gauges = LeaderGauges(POOL, machine, clock, samplers=samplers, executors=executors)
    return World(machine, clock, executors, gauges)


@pytest.mark.parametrize("name", ["grown", "replaced", "taken_back"])
def test_members_that_come_and_go_are_counted_once(name: str, world: World) -> None:
    """Each total of a leadership has its counter, and adds to it what came since the last look."""
    before = value(f"{name}_members_total", pool=POOL)
    with world.gauges.leading():
        for total in (3, 5):
            world.machine.totals[f"members_{name}"] = total
            world.gauges.show()
    assert value(f"{name}_members_total", pool=POOL) - before == 5


def test_leadership_shows_what_it_has_and_then_nothing(world: World) -> None:
    """Gauges are those of the moment; at the end nobody leads here and nothing waits here."""
    queues = world.machine.state.queues
    queues.queued_count[:2] = (3, 4)
    queues.leased_count[:2] = (1, 1)
    queues.charged_core_s[:2] = (600, 0)
    queues.flow[:2] = (2.5, 0.0)
    world.executors.enter(SyncSession(Session("c1", Role.EXECUTOR, 1, 1)))
    world.machine.totals.update(published_records=5, stored_records=3)
    for name in ("c1", "c2", "gone"):
        set_cluster(world.machine.state, ClusterView(name=name))
    forget_cluster(world.machine.state, "gone", 1.0)
    names = ("queued_jobs", "live_runs", "known_clusters", "connected_executors", "log_lag_records", "leading")

    with world.gauges.leading():
        assert value("leading", pool=POOL) == 0, "who has not taken over decides nothing"
        world.gauges.note_ready()
        world.gauges.show()
        during: dict[str, Any] = {name: value(name, pool=POOL) for name in names}
        flow = value("queue_flow_cores", queue="figures-1")
        assert value("queue_non_preemptible_flow_cores", queue="figures-1") == 2.5
        assert value("queue_charged_core_min", queue="figures-1") == 10
        assert value("leader_epoch", pool=POOL) == 4

    assert during == {
        "queued_jobs": 7,
        "live_runs": 2,
        "known_clusters": 2,
        "connected_executors": 1,
        "log_lag_records": 2,
        "leading": 1,
    }
    assert flow == 2.5
    assert {value(name, pool=POOL) for name in names} == {0}
    for name in ("queue_flow_cores", "queue_non_preemptible_flow_cores", "queue_charged_core_min"):
        assert METRICS_REGISTRY.get_sample_value(f"argosy_{name}", {"queue": "figures-1"}) is None


def test_counters_grow_by_what_was_counted_since_the_last_time(world: World) -> None:
    """Looking twice counts nothing twice, and what came after the last look is not lost at the end."""
    totals = world.machine.state.totals
    before = value("leased_runs_total", pool=POOL), value("finished_jobs_total", state="failed")

    with world.gauges.leading():
        totals.update(leases=10, failed=1)
        world.gauges.show()
        world.gauges.show()
        totals.update(leases=5)

    after = value("leased_runs_total", pool=POOL), value("finished_jobs_total", state="failed")
    assert (after[0] - before[0], after[1] - before[1]) == (15, 1)


def test_durations_come_over_from_the_fine_histogram(world: World) -> None:
    """Jobs are counted in the buckets that their durations belong to, and the sum is right to 5 %."""
    names = ("considered_seconds_count", "considered_seconds_sum")
    before = [value(name) for name in names] + [value("considered_seconds_bucket", le="0.2")]
    world.clock.reach("considered", np.array([0] * 30, dtype=np.int64), 150_000)
    world.clock.reach("considered", np.array([0] * 10, dtype=np.int64), 4_000_000)

    world.gauges.show()
    world.gauges.show()

    after = [value(name) for name in names] + [value("considered_seconds_bucket", le="0.2")]
    count, total_s, fast = (new - old for new, old in zip(after, before, strict=True))
    assert (count, fast) == (40, 30)
    assert total_s == pytest.approx(30 * 0.15 + 10 * 4.0, rel=0.05)

"""Simulated worlds that need one defence of the mesh more than others, so that few of them show that it is missing.

Source: design section 7, "Simulation".
"""

from __future__ import annotations

from dataclasses import replace
from types import MethodType
from typing import Final

import numpy as np

from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.leader import MachineSettings
from argosy_core.scheduler import LeasePlan
from argosy_simulation import ChangeRequestPlan, World, WorldSettings, draw_plan
from argosy_simulation.leader_actor import LeaderActor
from argosy_testkit.fair_worlds import UNCAPPED
from argosy_testkit.simulated_worlds import NO_FAULTS, make_world

__all__ = [
    "DEFENDED_WORLDS",
    "crowded_world",
    "fickle_world",
    "gone_in_flight_world",
    "gone_world",
    "half_published_world",
    "haunted_world",
    "late_world",
    "littered_world",
    "rivals_world",
    "theft_world",
    "torn_world",
]


def crowded_world(seed: int) -> World:
    """Return a world with slow messages in which pods of others come all the time."""
    settings = WorldSettings(message_s=(0.2, 0.6), check_steps=0)
    return make_world(seed, settings, replace(NO_FAULTS, unmanaged_pods=100))


def torn_world(seed: int) -> World:
    """Return a world with a slow log in which samplers lose their sessions all the time."""
    settings = WorldSettings(transaction_s=(0.3, 0.8), dial_s=(0.0, 0.1), check_steps=0)
    return make_world(seed, settings, replace(NO_FAULTS, stream_cuts=150))


def fickle_world(seed: int) -> World:
    """Return a world with a slow network in which jobs are cancelled right after their submit."""
    rng = np.random.default_rng([seed, 18])
    plan = draw_plan(rng, 60.0)
    change_requests = [
        ChangeRequestPlan(at_s=float(submit_s + rng.uniform(1.0, 6.0)), jobs=(job,))
        for job, submit_s in enumerate(plan.submit_s.tolist())
    ]
    plan = replace(plan, change_requests=tuple(sorted(change_requests, key=lambda change_request: change_request.at_s)))
    return World(plan, seed=seed, settings=WorldSettings(message_s=(0.2, 0.5), check_steps=0))


def rivals_world(seed: int) -> World:
    """Return a world in which leaders are replaced again and again without knowing it."""
    settings = WorldSettings(renew_s=(5.0, 10.0), check_steps=0)
    return make_world(seed, settings, replace(NO_FAULTS, leader_depositions=15, stream_cuts=30))


def haunted_world(seed: int) -> World:
    """Return a world in which calls of executors that were replaced come through late, and pods vanish all the time.

    One of its jobs may never end. No queue is capped, or others would wait for ever behind one that has all of its cap.
    """
    settings = WorldSettings(
        restart_s=(0.1, 1.0),
        watch_s=(0.0, 0.3),
        pod_stop_s=(0.0, 2.0),
        check_steps=0,
        leader=MachineSettings(round=UNCAPPED),
    )
    faults = replace(
        NO_FAULTS,
        until_s=150.0,
        executor_overlaps=20,
        overlap_s=(60.0, 150.0),
        node_losses=60,
        node_away_s=(0.2, 2.0),
        call_loss_ratio=0.5,
        call_delay_s=29.0,
        repeat_ratio=0.3,
    )
    return make_world(seed, settings, faults)


def littered_world(seed: int) -> World:
    """Return a world in which somebody makes objects of runs again that ended long ago."""
    world = make_world(seed, WorldSettings(keep_finished_s=0.0, check_steps=0), NO_FAULTS)
    clusters = {cluster.name: cluster for cluster in world.clusters}

    def litter() -> None:
        for handle, job in world.context.store.jobs.items():
            for attempt, run in job.runs.items():
                key = handle, attempt, 0
                if len(run.objects) > 1 and all(IS_RUN_TERMINAL[state] for state in run.objects):
                    cluster = clusters[run.cluster]
                    if key not in cluster.objects:
                        cluster._make(key, min(cluster.nodes), was_known=False)

    world.context.agenda.after(300.0, world.clusters[0], litter)
    return world


def half_published_world(seed: int) -> World:
    """Return a world whose first leaders each die between two records of one plan, and read before each round."""
    settings = WorldSettings(leader=MachineSettings(max_record_bytes=1_100, read_wait_s=0.05), check_steps=0)
    world = make_world(seed, settings, NO_FAULTS)
    intact = LeaderActor._appended

    def appended(self: LeaderActor, record: LeasePlan, index: int, position: int) -> None:
        assert self._publishing is not None
        if index == 0 and len(self._publishing.records) > 1 and self.epoch <= 3:
            self.context.counters["deaths between records"] += 1
            self.give_up()
        else:
            intact(self, record, index, position)

    for leader in world.leaders:
        leader._appended = MethodType(appended, leader)  # type: ignore[method-assign]
    elect = world.elect

    def elect_frail() -> None:
        elect()
        world.leaders[-1]._appended = MethodType(appended, world.leaders[-1])  # type: ignore[method-assign]

    world.elect = elect_frail  # type: ignore[method-assign]
    return world


def late_world(seed: int) -> World:
    """Return a world in which leaders are replaced all the time, and their commits are handed over afterwards."""
    settings = WorldSettings(message_s=(0.05, 0.3), election_s=(0.2, 1.0), dial_s=(0.05, 0.3), check_steps=0)
    return make_world(seed, settings, replace(NO_FAULTS, leader_depositions=5, leader_crashes=10, late_commits=100))


def theft_world(seed: int) -> World:
    """Return a world in which executors are killed and the labels of their runs' pods taken meanwhile."""
    return make_world(seed, WorldSettings(check_steps=0), replace(NO_FAULTS, label_thefts=6))


def gone_world(seed: int) -> World:
    """Return a world in which clusters are declared gone and stay away for long."""
    faults = replace(NO_FAULTS, forgotten_clusters=4, forget_after_s=(1.0, 5.0), return_after_s=(200.0, 300.0))
    return make_world(seed, WorldSettings(check_steps=0), faults)


def gone_in_flight_world(seed: int) -> World:
    """Return a world whose first leader dies between the append of a lease and its storing, while its cluster goes."""
    world = make_world(seed, WorldSettings(check_steps=0), replace(NO_FAULTS, until_s=1.0))
    leader = world.leaders[0]
    intact = leader._appended

    def appended(record: LeasePlan, index: int, position: int) -> None:
        if not record.handle.size:
            intact(record, index, position)
            return
        cluster = record.clusters[record.cluster[0]]
        index = [other.name for other in world.clusters].index(cluster)
        world.lose_cluster(index, 1e6, 600.0)
        world.context.store.forget(cluster)
        leader.give_up()

    leader._appended = appended  # type: ignore[method-assign]
    return world


DEFENDED_WORLDS: Final = (
    crowded_world,
    torn_world,
    fickle_world,
    rivals_world,
    haunted_world,
    littered_world,
    half_published_world,
    late_world,
    gone_world,
    gone_in_flight_world,
)
"""Those that hold with every seed as long as they have their defence."""

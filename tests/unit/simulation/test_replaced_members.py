"""Gangs that lose members, and grow, in whole worlds: real samplers and executors, nodes and leaders that go."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import attempt_of, member_of, place_of, replacement_of
from argosy_core.nodes import NodeSpec
from argosy_simulation import World, WorldPlan, WorldResult, WorldSettings
from argosy_simulation.plan import REPLACING_LAYOUTS


class GangWorld(World):
    """A world of one cluster of four nodes and one gang, of members that take a node each."""

    def __init__(self, seed: int, *, layout: int, least: int = 2, most: int = 2) -> None:
        zero = np.zeros(1, dtype=np.int32)
        nodes = tuple(NodeSpec(name=f"n{number}", total={"cpu": 4000}) for number in range(4))
        pod = SchedulingClass(requests=(("cpu", 4000),))
        plan = WorldPlan(
            clusters=(("alpha", nodes),),
            queues=(("alice", 1.0),),
            classes=(SchedulingClass.of_gang([GangGroup(pod=pod, minimum=least, maximum=most)]),),
            job_sets=((0, "set"),),
            submit_s=np.zeros(1),
            run_s=np.full(1, 60.0),
            class_index=zero,
            job_set=zero,
            priority=zero,
            exit_code=zero,
            layout=zero + layout,
        )
        super().__init__(plan, seed=seed, settings=WorldSettings(pod_start_s=(0.0, 3.0)))
        self.has_lost = self.has_died = False

    def watch(self, *, dies_after: str = "") -> WorldResult:
        """Run; once both members run take away the node of member 1, and end the leader when that has come to be."""

        def look() -> None:
            jobs = list(self.context.store.jobs.values())
            runs = {member_of(ordinal): run for job in jobs for ordinal, run in job.runs.items()}
            if not self.has_lost and len(runs) >= 2 and all(run.start_time_us for run in runs.values()):
                self.has_lost = True
                self.clusters[0].lose_node(runs[1].node, 5.0)
            is_lost = 1 in runs and runs[1].ended
            is_replaced = any(replacement_of(number) for number in runs)
            if not self.has_died and self.leaders and {"loss": is_lost, "growth": is_replaced}.get(dies_after):
                self.has_died = True
                self.leaders[-1].give_up()
            if self.context.agenda.elapsed_s < 600:
                self.context.agenda.after(0.2, self.context.store, look)

        self.context.agenda.after(0.2, self.context.store, look)
        return self.run()

    def ends(self) -> list[tuple[int, int, str]]:
        """Return (attempt, member number, how it ended) of all that was stored."""
        (job,) = self.context.store.jobs.values()
        return [
            (attempt_of(ordinal), member_of(ordinal), RunState(run.state).name)
            for ordinal, run in sorted(job.runs.items(), key=lambda row: member_of(row[0]))
        ]


@pytest.mark.parametrize("layout", REPLACING_LAYOUTS, ids=["pod", "bag"])
@pytest.mark.parametrize("dies_after", ["", "loss", "growth"])
def test_member_whose_node_is_lost_is_replaced_whoever_leads(dies_after: str, layout: int) -> None:
    """One run, whose other member is never stopped; the invariants of worlds hold at every step."""
    world = GangWorld(1, layout=layout)
    result = world.watch(dies_after=dies_after)
    assert (world.has_lost, world.has_died) == (True, bool(dies_after))
    assert world.ends() == [(1, 0, "SUCCEEDED"), (1, 1, "LOST"), (1, 1025, "SUCCEEDED")]
    assert result.times.state.tolist() == [JobState.SUCCEEDED]
    assert result.counters["pods made"] == 3


def test_gang_that_says_nothing_gets_a_whole_new_run() -> None:
    """As ever."""
    world = GangWorld(1, layout=0)
    world.watch()
    assert sorted(attempt for attempt, _, _ in world.ends()) == [1, 1, 2, 2]


def test_gang_grows_over_all_that_is_spare() -> None:
    """From one member to as many as it may have, in one run."""
    world = GangWorld(1, layout=0, least=1, most=3)
    world.run()
    assert [(place_of(member), end) for _, member, end in world.ends()] == [
        (number, "SUCCEEDED") for number in range(3)
    ]

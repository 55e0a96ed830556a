"""Runs of two members in whole worlds: real executors make their pods on two nodes, leaders and nodes come and go.

Nothing places such runs yet, so a plan is changed on its way to the log as gang placement would make it, and its leader
dies of it: the next one takes it up as it would any plan that nobody ingested.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import ordinal_of
from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import LeasePlan
from argosy_simulation import World, WorldPlan, WorldResult, WorldSettings

NODES = ("n0", "n1")
PAIR = (1, ordinal_of(1, 1))


class PairWorld(World):
    """A world of one cluster and one job, whose first run gets a member on each of two nodes."""

    def __init__(self, seed: int, *, exit_code: int = 0, layout: int = 0) -> None:
        zero = np.zeros(1, dtype=np.int32)
        plan = WorldPlan(
            clusters=(("alpha", tuple(NodeSpec(name=name, total={"cpu": 4000}) for name in NODES)),),
            queues=(("alice", 1.0),),
            classes=(SchedulingClass(requests=(("cpu", 4000),)),),
            job_sets=((0, "set"),),
            submit_s=np.zeros(1),
            run_s=np.full(1, 20.0),
            class_index=zero,
            job_set=zero,
            priority=zero,
            exit_code=zero + exit_code,
            layout=zero + layout,
        )
        super().__init__(plan, seed=seed, settings=WorldSettings(pod_start_s=(0.0, 10.0)))
        self.append = self.context.store.append
        self.context.store.append = self.append_pair  # type: ignore[method-assign]
        self.is_paired = False
        self.killed_between = False

    def append_pair(self, epoch: int, plan: LeasePlan | None) -> int:
        """Append a record; of the first lease make one with two members, and kill its leader."""
        if plan is None or not plan.handle.size or self.is_paired:
            return self.append(epoch, plan)
        self.is_paired = True
        self.context.agenda.after(0.0, self.context.store, self.leaders[-1].give_up)
        columns = {name: np.repeat(getattr(plan, name), 2) for name in ("handle", "attempt", "cluster")}
        of_members = {"member": np.arange(2, dtype=np.int16), "node": np.arange(2, dtype=np.int32), "nodes": NODES}
        return self.append(epoch, replace(plan, **columns, **of_members))

    def watch(self, act: str) -> WorldResult:
        """Run, and do something once: kill the leader between the ends, or take away a node on which a member runs."""

        def look() -> None:
            (job,) = self.context.store.jobs.values() or (None,)
            runs = [] if job is None else [job.runs[ordinal] for ordinal in PAIR if ordinal in job.runs]
            if act == "leader" and len(runs) == 2 and runs[0].ended != runs[1].ended and self.leaders:
                self.killed_between = True
                self.leaders[-1].give_up()
            elif act == "node" and len(runs) == 2 and all(run.start_time_us for run in runs):
                self.clusters[0].lose_node("n1", 5.0)
            elif self.context.agenda.elapsed_s < 600:
                self.context.agenda.after(0.5, self.context.store, look)

        if act:
            self.context.agenda.after(1.0, self.context.store, look)
        return self.run()

    def states(self) -> dict[int, int]:
        """Return how each stored member of a run ended, by attempt and member."""
        (job,) = self.context.store.jobs.values()
        return {ordinal: run.state for ordinal, run in job.runs.items()}


@pytest.mark.parametrize("layout", [0, 1], ids=["pod", "bag"])
@pytest.mark.parametrize("act", ["", "leader"])
@pytest.mark.parametrize("seed", [1, 2])
def test_run_of_two_members_succeeds_once_both_have(seed: int, act: str, layout: int) -> None:
    """Whoever leads when the last ends; each pod is made once, and nothing of it is left."""
    world = PairWorld(seed, layout=layout)
    result = world.watch(act)
    assert world.killed_between == (act == "leader")
    assert world.states() == dict.fromkeys(PAIR, int(RunState.SUCCEEDED))
    assert result.times.state.tolist() == [JobState.SUCCEEDED]
    assert result.counters["pods made"] == 2


@pytest.mark.parametrize("act", ["", "leader"])
@pytest.mark.parametrize("seed", [1, 2])
def test_run_of_two_members_fails_with_the_first_and_the_other_is_stopped(seed: int, act: str) -> None:
    """The job is not tried again, since its own exit code failed it."""
    world = PairWorld(seed, exit_code=3)
    result = world.watch(act)
    assert world.killed_between == (act == "leader")
    assert sorted(world.states().values()) == sorted([RunState.FAILED, RunState.CANCELLED])
    assert result.times.state.tolist() == [JobState.FAILED]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_run_of_two_members_that_loses_a_node_is_stopped_and_tried_again(seed: int) -> None:
    """The member that went on is stopped before the next attempt begins, which has both nodes to choose from."""
    world = PairWorld(seed)
    result = world.watch("node")
    states = world.states()
    assert [states[ordinal] for ordinal in PAIR] == [RunState.CANCELLED, RunState.LOST]
    assert states[2] == RunState.SUCCEEDED
    assert result.times.state.tolist() == [JobState.SUCCEEDED]

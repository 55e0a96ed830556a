"""What single runs hold and weigh, under leases, resizes, ends, other nodes and lost leaders, against a plain sum."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_CLASSES = {1: (1000, 1 << 30, 1), 2: (3000, 0, 1)}


class DemandMachine(RuleBasedStateMachine):
    """A small pool, and beside it what each run was last said to hold."""

    @initialize()
    def begin(self) -> None:
        """Two queues, two classes, two clusters."""
        self.world = LeaderWorld(clusters={"a": 2, "b": 1}, queues={"alice": 1, "bob": 3})
        for class_id, (cpu, memory, _) in _CLASSES.items():
            self.world.define_class(class_id, cpu=cpu, **({"memory": memory} if memory else {}))
        self.said: dict[tuple[int, int], int] = {}

    @rule(count=st.integers(1, 4), queue=st.integers(1, 2), class_id=st.sampled_from(sorted(_CLASSES)))
    def submit(self, count: int, queue: int, class_id: int) -> None:
        """Jobs come."""
        self.world.submit(count, queue=queue, class_id=class_id, job_set=f"of-{queue}")

    @rule(numbers=st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 4000)), min_size=1, max_size=4))
    def resize(self, *, numbers: list[tuple[int, int]]) -> None:
        """Samplers tell what runs hold by now, -1 for what their class says; all together no more than there is."""
        for cluster in "ab":
            runs = self.world.live_runs(cluster)
            chosen = {(runs[n % len(runs)][0], runs[n % len(runs)][1]): cpu for n, cpu in numbers if runs}
            if chosen and self._beyond(cluster, {**self.said, **chosen}) <= self._cpu(cluster):
                self.world.tell_amounts(cluster, chosen)
                self.said.update(chosen)

    def _cpu(self, cluster: str) -> int:
        """Return what the leader knows that a cluster has."""
        state = self.world.state
        return int(state.clusters.total[state.clusters.index(cluster), state.classes.axis.index("cpu")])

    def _beyond(self, cluster: str, said: dict[tuple[int, int], int]) -> int:
        """Return what runs of a cluster hold beyond what they ask for."""
        runs = [(run[0], run[1]) for run in self.world.live_runs(cluster)]
        return sum(max(said.get(run, -1) - _CLASSES[self.world.job_index.class_of(run[0]) + 1][0], 0) for run in runs)

    @rule(seconds=st.integers(1, 20))
    def round(self, seconds: int) -> None:
        """Jobs are leased."""
        self.world.now_s += seconds
        self.world.round()

    @rule(gib=st.integers(8, 64), seconds=st.integers(0, 2000))
    def swap_memory(self, gib: int, seconds: int) -> None:
        """A cluster's nodes get more or less memory, so that what it weighs begins to move."""
        self.world.set_nodes("b", {"cpu": 4000, "memory": gib << 30})
        self.world.now_s += seconds

    @rule(
        cluster=st.sampled_from("ab"),
        ends=st.lists(st.tuples(st.integers(0, 50), st.sampled_from([3, 4, 5, 7]), st.integers(0, 6)), max_size=4),
    )
    def report(self, cluster: str, ends: list[tuple[int, int, int]]) -> None:
        """Runs begin and end, some to wait again."""
        runs = self.world.live_runs(cluster)
        reports = [
            Report(handle=runs[n % len(runs)][0], attempt=runs[n % len(runs)][1], state=state,
                   failure=kind if state == 5 else 0)
            for n, state, kind in ends if runs
        ]  # fmt: skip
        if reports:
            self.world.report(cluster, reports)

    @rule()
    def forget(self) -> None:
        """A cluster is gone; its jobs wait again."""
        self.world.forget("b")
        self.world.reconnect("b")

    @rule()
    def take_over(self) -> None:
        """A new leader loads what is stored."""
        self.world.round()
        self.world.take_over()

    @invariant()
    def usage_is_the_sum_over_jobs(self) -> None:
        """Of what each run holds; a job that waits again counts as it asks."""
        world = getattr(self, "world", None)
        if world is None:
            return
        state = world.state
        sums = {"usage": [0, 0], "queued_usage": [0, 0]}
        for slot in state.live.live_slots().tolist():
            handle = int(state.live.handle[slot])
            of_class = _CLASSES[world.job_index.class_of(handle) + 1]
            waits = bool(state.stage_is_queued(np.array([slot]))[0])
            cpu = -1 if waits else self.said.get((handle, int(state.live.attempt[slot])), -1)
            held = of_class if cpu < 0 else (cpu, *of_class[1:])
            queue = world.job_index.plan.job_sets[world.job_index.plan.job_set[world.job_index.index(handle)]][0]
            sums["queued_usage" if waits else "usage"][queue] += int(state.classes.weigh(np.array([held]))[0])
        rows = [state.queues.ids.find(queue_id) for queue_id in (1, 2)]
        assert {name: getattr(state.queues, name)[rows].tolist() for name in sums} == sums
        world.check()


DemandMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, phases=[Phase.generate]
)
TestDemands = DemandMachine.TestCase
TestDemands.__doc__ = "Usage is the sum over jobs of what each holds, whatever happens."

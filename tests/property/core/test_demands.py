"""What single jobs ask for and may hold, under leases, resizes, ends and lost leaders, against a plain sum."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from argosy_core.queueing.usage import weigh_amounts
from argosy_core.resources import DEFAULT_AXIS
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

_CLASSES = {1: (1000, 0, 1), 2: (3000, 0, 1)}
_AMOUNTS = st.integers(0, 4000)


class DemandMachine(RuleBasedStateMachine):
    """A small pool, and beside it what each job was last said to ask for and to hold."""

    @initialize()
    def begin(self) -> None:
        """Two queues, two classes, two clusters."""
        self.world = LeaderWorld(clusters={"a": 2, "b": 1}, queues={"alice": 1, "bob": 3})
        for class_id, (cpu, _, _) in _CLASSES.items():
            self.world.define_class(class_id, cpu=cpu)
        self.held: set[int] = set()

    @rule(count=st.integers(1, 4), queue=st.integers(1, 2), class_id=st.sampled_from(sorted(_CLASSES)))
    def submit(self, count: int, queue: int, class_id: int) -> None:
        """Jobs come."""
        self.world.submit(count, queue=queue, class_id=class_id, job_set=f"of-{queue}")

    @rule(
        numbers=st.lists(st.tuples(st.integers(0, 60), _AMOUNTS, _AMOUNTS), min_size=1, max_size=4), back=st.booleans()
    )
    def resize(self, *, numbers: list[tuple[int, int, int]], back: bool) -> None:
        """Jobs, waiting or held, ask for something else and are permitted a part of it, or are as their class again."""
        state = self.world.state
        live = sorted(state.live.handle[state.live.live_slots()].tolist())
        chosen: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for number, first, second in numbers if live else ():
            handle = live[number % len(live)]
            asked, held = max(first, second), min(first, second)
            of_class = _CLASSES[self.world.book.class_of(handle) + 1]
            chosen[handle] = (of_class, of_class) if back else ((asked, 7, 1), (held, 0, 1))
        if chosen:
            state.advance_flow(self.world.now_s)
            amounts = np.array(list(chosen.values()), dtype=np.int64)
            state.set_demands(state.live.slots(np.array(list(chosen))), amounts[:, 0], amounts[:, 1])
        self.world.demands.update(chosen)

    @rule(seconds=st.integers(1, 20))
    def round(self, seconds: int) -> None:
        """Jobs are leased."""
        self.world.now_s += seconds
        self.world.round()

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
        self.world.take_over()

    @invariant()
    def usage_is_the_sum_over_jobs(self) -> None:
        """Of what each job is permitted; one that waits again is permitted all that it asks for."""
        world = getattr(self, "world", None)
        if world is None:
            return
        state = world.state
        sums = {"usage": [0, 0], "queued_usage": [0, 0]}
        for slot in state.live.live_slots().tolist():
            handle = int(state.live.handle[slot])
            of_class = _CLASSES[world.book.class_of(handle) + 1]
            asked, held = world.demands.get(handle, (of_class, of_class))
            waits = bool(state.stage_is_queued(np.array([slot]))[0])
            if waits and handle in self.held and handle in world.demands:
                world.demands[handle] = asked, asked
                held = asked
            amounts = tuple(zip(DEFAULT_AXIS.names, held, strict=True))
            queue = world.book.plan.job_sets[world.book.plan.job_set[world.book.index(handle)]][0]
            sums["queued_usage" if waits else "usage"][queue] += weigh_amounts(
                amounts, world.settings.round.resource_weights
            )
        rows = [state.queues.ids.find(queue_id) for queue_id in (1, 2)]
        slots = state.live.live_slots()
        self.held = set(state.live.handle[slots[~state.stage_is_queued(slots)]].tolist())
        assert {name: getattr(state.queues, name)[rows].tolist() for name in sums} == sums
        world.check()


DemandMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, phases=[Phase.generate]
)
TestDemands = DemandMachine.TestCase
TestDemands.__doc__ = "Usage is the sum over jobs of what each is permitted, whatever happens."

"""A pool under everything at once: submits, change requests, rounds, reports, lost leaders and samplers, in any order.

The world checks all invariants of the leader's memory and of the ledgers after every step, every event's number and
legality, and that the database never holds two live runs of a job.
"""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from argosy_core.job.states import JobState
from argosy_core.placement import CommitReply, CommitRequest
from argosy_core.scheduler import LeasePlan, RoundSettings, explain
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import BAG_LAYOUT, POD_LAYOUT, Report

_CLUSTERS = ("a", "b")


class PoolMachine(RuleBasedStateMachine):
    """Draws steps; jobs are drawn by number."""

    @initialize(seed=st.integers(0, 1000), excess_ratio=st.sampled_from([0.2, 1e9]))
    def begin(self, *, seed: int, excess_ratio: float) -> None:
        """Make a small pool that fills up soon, where shares cap what is never preempted and where they do not."""
        self.world = LeaderWorld(
            clusters={"a": 2, "b": 1},
            queues={"alice": 1, "bob": 3, "zero": 0},
            settings=RoundSettings(
                max_failed_attempts=3,
                max_runs=4,
                waiting_heads=2,
                max_round_leases=9,
                excess_budget_min=1.0,
                non_preemptible_excess_ratio=excess_ratio,
            ),
            seed=seed,
        )
        self.world.define_class(1, cpu=1000)
        self.world.define_class(2, cpu=3000)
        self.world.define_class(3, cpu=9000)
        self.plan: LeasePlan | None = None
        self.taken = []

    def _pick(self, number: int) -> int | None:
        handles = sorted(self.world.store.jobs)
        return handles[number % len(handles)] if handles else None

    @rule(
        count=st.integers(1, 6),
        queue=st.integers(1, 3),
        class_id=st.integers(1, 3),
        priority=st.integers(-1, 2),
        layout=st.sampled_from([POD_LAYOUT, POD_LAYOUT, BAG_LAYOUT]),
        lifetime_s=st.sampled_from([-1, 0, 30, 600]),
    )
    def submit(self, *, count: int, queue: int, class_id: int, priority: int, layout: bytes, lifetime_s: int) -> None:
        """Submit jobs."""
        job_set = f"of-{queue}"
        self.world.submit(
            count,
            queue=queue,
            class_id=class_id,
            priority=priority,
            layout=layout,
            job_set=job_set,
            options=None if lifetime_s < 0 else (lifetime_s, -1, -1),
        )

    @rule(numbers=st.lists(st.integers(0, 200), min_size=1, max_size=3), deliver=st.booleans())
    def cancel(self, *, numbers: list[int], deliver: bool) -> None:
        """Cancel open jobs; the leader may hear of it later."""
        handles = {self._pick(number) for number in numbers} - {None}
        handles = sorted(h for h in handles if self.world.job(h).state == 0 and not self.world.job(h).change_request)
        if handles:
            take = self.world.cancel(handles, deliver=deliver)
            if not deliver:
                self.taken.append(take)

    @rule()
    def deliver(self) -> None:
        """Have the leader take change requests that it has not heard of."""
        for take in self.taken:
            take()
        self.taken = []

    @rule(number=st.integers(0, 200), priority=st.integers(-3, 3))
    def reprioritize(self, number: int, priority: int) -> None:
        """Move a job."""
        handle = self._pick(number)
        if handle is not None:
            self.world.reprioritize([handle], priority)

    @rule(lost=st.booleans(), conflict=st.sampled_from([0, 0, 0, 1, 2]), seconds=st.sampled_from([0.0, 0.1, 3.0, 12.0]))
    def run_round(self, *, lost: bool, conflict: int, seconds: float) -> None:
        """Run a round; some answers are conflicts or lost, and its plan may wait in the log for a while."""
        self.ingest()
        self.world.now_s += seconds
        turn = 0

        def answer(request: CommitRequest) -> CommitReply | None:
            nonlocal turn
            turn += 1
            if conflict == 2 or (conflict == 1 and turn % 2):
                reply = self.world.commit(request)
                self.world.clusters[request.cluster].ledger.release(request.members)
                return CommitReply(
                    incarnation=reply.incarnation, node=reply.node * 0 - 1, outcome=reply.outcome * 0 + 2
                )
            reply = self.world.commit(request)
            return None if lost and turn == 1 else reply

        self.plan = self.world.plan(answer_commit=answer)

    @rule()
    def ingest(self) -> None:
        """Ingest the plan that stands in the log."""
        if self.plan is not None:
            self.world.ingest(self.plan)
            self.plan = None

    @rule(
        cluster=st.sampled_from(_CLUSTERS),
        reports=st.lists(
            st.tuples(
                st.integers(0, 50),
                st.integers(0, 2),
                st.sampled_from([2, 3, 3, 4, 4, 4, 5, 6, 7, 8]),
                st.integers(0, 6),
            ),
            max_size=6,
        ),
        stale=st.booleans(),
    )
    def report(self, *, cluster: str, reports: list[tuple[int, int, int, int]], stale: bool) -> None:
        """Report any states of any objects of live runs, and of one that is not."""
        runs = self.world.live_runs(cluster)
        batch = []
        for number, index, state, failure in reports:
            if runs:
                handle, attempt = runs[number % len(runs)]
                kind = failure if state == 5 else 0
                batch.append(Report(handle=handle, attempt=attempt, object_index=index, state=state, failure=kind))
        if stale and (handle := self._pick(7)) is not None:
            batch.append(Report(handle=handle, attempt=200, state=3))
        if batch:
            self.world.report(cluster, batch)

    @rule()
    def take_over(self) -> None:
        """Lose the leader; change requests that it had not read are read by the next."""
        plan, self.plan = self.plan, None
        self.world.take_over(unread=plan)

    @rule(cluster=st.sampled_from(_CLUSTERS))
    def restart_sampler(self, cluster: str) -> None:
        """Lose a sampler."""
        self.world.reconnect_sampler(cluster)

    @rule(cluster=st.sampled_from(_CLUSTERS))
    def forget(self, cluster: str) -> None:
        """Take a cluster for gone, then have it back, empty."""
        self.ingest()
        self.world.forget(cluster)
        self.world.reconnect(cluster)

    @invariant()
    def terminal_jobs_are_not_live(self) -> None:
        """What the events say has ended is not in memory."""
        world = getattr(self, "world", None)
        if world is not None:
            for handle in world.state.live.handle[world.state.live.live_slots()].tolist():
                assert world.job(handle).event_state <= JobState.RUNNING

    def teardown(self) -> None:
        """Once faults stop, every job that fits somewhere ends, and nothing leaks."""
        if not hasattr(self, "world"):
            return
        self.deliver()
        self.ingest()
        world = self.world
        for _ in range(120):
            world.now_s += 15
            world.round()
            for cluster in _CLUSTERS:
                runs = world.live_runs(cluster)
                reports = [Report(handle=h, attempt=a, object_index=i, state=4) for h, a in runs for i in range(3)]
                if reports:
                    world.report(cluster, reports)
            classes = world.state.classes.class_id[world.state.live.class_index[world.state.live.live_slots()]]
            if not (classes != 3).any():
                break
        left = [handle for handle in world.store.open_handles if world.job_index.class_of(handle) + 1 != 3]
        assert not left, [explain(world.state, handle, world.now_s) for handle in left]
        assert all(job.event_state == job.state for job in world.store.jobs.values() if job.state)
        assert [cluster.ledger.placement_count for cluster in world.clusters.values()] == [0, 0]


PoolMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=35, deadline=None, phases=[Phase.generate]
)
TestPool = PoolMachine.TestCase
TestPool.__doc__ = "Any order of steps keeps every invariant, and all jobs that fit end once faults stop."

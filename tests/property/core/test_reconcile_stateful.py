"""Whatever happens between leader, executor and cluster: one pod per run, nothing lost, nothing left over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from argosy_core.job.states import IS_RUN_TERMINAL, RUN_MAY_FOLLOW, ObjectState
from argosy_core.reconcile import Creates, Reconciler, ReportBatch
from argosy_testkit.cluster_model import Key, make_observations
from argosy_testkit.reconcile_world import World

SETTLE_S = 20.0
LAYOUTS = (("Pod",), ("Pod",), ("Pod",), ("Service", "Pod"), ("ConfigMap", "Pod", "Pod"))
PLACES = st.integers(0, 7)


@dataclass(slots=True)
class LeaderRun:
    """A run as the leader has stored it."""

    kinds: tuple[str, ...]
    states: list[int]
    is_stopped: bool = False
    has_ended: bool = False

    def pod_states(self) -> list[int]:
        """Return the stored states of its pods."""
        return [state for kind, state in zip(self.kinds, self.states, strict=True) if kind == "Pod"]

    def was_seen(self) -> bool:
        """Return whether a pod of it was reported."""
        return any(state > ObjectState.LEASED for state in self.pod_states())


@dataclass(slots=True)
class LeaderModel:
    """What a leader stores of reports, and says at a hello."""

    runs: dict[tuple[int, int], LeaderRun] = field(default_factory=dict)
    told_to_stop: list[tuple[int, int]] = field(default_factory=list)

    def live(self, handle: int) -> tuple[int, int] | None:
        """Return the job's run that has not ended."""
        return next((key for key, run in self.runs.items() if key[0] == handle and not run.has_ended), None)

    def store(self, batch: ReportBatch) -> None:
        """Apply states by rank; end runs; stop what is not live."""
        columns = (batch.handle_column, batch.ordinal_column, batch.object_column, batch.state_column)
        for handle, attempt, position, state in zip(*(column.tolist() for column in columns), strict=True):
            run = self.runs.get((handle, attempt))
            if run is None or run.has_ended:
                if not IS_RUN_TERMINAL[state]:
                    self.told_to_stop.append((handle, attempt))
                continue
            if RUN_MAY_FOLLOW[run.states[position], state]:
                run.states[position] = state
            pods = run.pod_states()
            broken = run.is_stopped or any(state in (ObjectState.FAILED, ObjectState.LOST) for state in run.states)
            run.has_ended = all(IS_RUN_TERMINAL[pod] or (broken and pod == ObjectState.LEASED) for pod in pods)
            if run.has_ended and not run.is_stopped:
                assert ObjectState.CANCELLED not in run.states, (
                    f"run {handle}/{attempt} was cancelled without a change request"
                )


def split(creates: Creates, count: int) -> tuple[Creates, Creates]:
    """Return the first `count` creates and the rest."""
    names = [name for name in Creates.__slots__ if name.endswith("_column")]
    first = replace(creates, **{name: getattr(creates, name)[:count] for name in names})
    return first, replace(creates, **{name: getattr(creates, name)[count:] for name in names})


class ExecutorMachine(RuleBasedStateMachine):
    """One executor, its leader and its cluster under faults."""

    @initialize()
    def begin(self) -> None:
        """Start with nothing."""
        self.world = World()
        self.world.list_all()
        self.leader = LeaderModel()
        self.next_handle = 1
        self.succeeded: set[Key] = set()
        self.removed: set[Key] = set()
        self.late: list[tuple[float, Creates]] = []
        self.connect()

    def connect(self) -> None:
        """Say hello: what is not known comes as rows, what is not live comes as stops."""
        world, leader = self.world, self.leader
        self.is_connected = True
        world.reconciler.restart_session()
        told = world.reconciler.known_runs()
        known = set(zip(told.handle.tolist(), told.attempt.tolist(), strict=True))
        for (handle, attempt), run in leader.runs.items():
            # Nobody can see what is missing of a bag, so its row comes even if some of it is known.
            if not run.has_ended and ((handle, attempt) not in known or len(run.kinds) > 1):
                world.give([handle], *run.kinds, attempt=attempt, seen=run.was_seen())
        for handle, attempt in known:
            live = leader.runs.get((handle, attempt))
            if live is None or live.has_ended:
                world.stop(handle, attempt=attempt)
        for (handle, attempt), run in leader.runs.items():
            if run.is_stopped and not run.has_ended:
                world.stop(handle, attempt=attempt)

    def some_pod(self, place: int) -> Key | None:
        """Return one of the pods that exist."""
        pods = self.world.cluster.pods()
        return pods[place % len(pods)].key if pods else None

    # --- the leader

    @rule(layout=st.sampled_from(LAYOUTS))
    def lease(self, layout: tuple[str, ...]) -> None:
        """A new job gets its first run."""
        self.start_run(self.next_handle, 1, layout)
        self.next_handle += 1

    def start_run(self, handle: int, attempt: int, layout: tuple[str, ...]) -> None:
        """Store a run and send its row."""
        self.leader.runs[handle, attempt] = LeaderRun(layout, [int(ObjectState.LEASED)] * len(layout))
        self.world.give([handle], *layout, attempt=attempt)

    @rule(place=PLACES)
    def lease_again(self, place: int) -> None:
        """A job whose last run was lost gets another."""
        newest = dict(sorted(self.leader.runs))
        lost = [
            (handle, attempt)
            for handle, attempt in newest.items()
            if self.leader.runs[handle, attempt].has_ended
            and ObjectState.LOST in self.leader.runs[handle, attempt].states
        ]
        if lost:
            handle, attempt = lost[place % len(lost)]
            self.start_run(handle, attempt + 1, self.leader.runs[handle, attempt].kinds)

    @rule(place=PLACES)
    def stop(self, place: int) -> None:
        """A job is cancelled."""
        live = [key for key, run in self.leader.runs.items() if not run.has_ended]
        if live:
            handle, attempt = live[place % len(live)]
            self.leader.runs[handle, attempt].is_stopped = True
            self.world.stop(handle, attempt=attempt)

    @rule(is_stored=st.booleans())
    def report(self, *, is_stored: bool) -> None:
        """A batch goes up and is stored, or the stream breaks with it."""
        self.world.pass_time(1.0)
        if not self.is_connected:
            return
        batch = self.world.reconciler.next_reports(self.world.now)
        if batch is not None and is_stored:
            self.leader.store(batch)
            self.world.reconciler.acknowledge(batch.number)
            for handle, attempt in self.leader.told_to_stop:
                self.world.stop(handle, attempt=attempt)
            self.leader.told_to_stop.clear()
        self.is_connected = is_stored

    @rule()
    def reconnect(self) -> None:
        """The stream breaks and comes back."""
        self.connect()

    # --- the executor

    @rule(lost_answers=st.booleans(), lost_calls=st.booleans())
    def act(self, *, lost_answers: bool, lost_calls: bool) -> None:
        """Actions are done, with or without an answer."""
        self.check_creations(lambda: self.world.act(lost_answers=lost_answers, lost_calls=lost_calls))

    def check_creations(self, step) -> None:  # noqa: ANN001 - a lambda of this class
        """Do something; no pod that the leader knows of may be created by it."""
        before = dict(self.world.cluster.created_pods)
        step()
        for key, count in self.world.cluster.created_pods.items():
            if count != before.get(key, 0):
                run = self.leader.runs[key[0], key[1]]
                assert run.states[key[2]] == ObjectState.LEASED, f"{key} was reported and is made again"
                assert not run.has_ended, f"{key} is made although its run is over"

    @rule(times=st.integers(1, 3))
    def work(self, times: int) -> None:
        """A quiet moment: what is due is done, seen, and stored."""
        for _ in range(times):
            self.work_once()

    def work_once(self) -> None:
        """Act, watch and report once, without faults."""
        if not self.is_connected:
            self.connect()
        self.act(lost_answers=False, lost_calls=False)
        self.world.watch()
        self.report(is_stored=True)

    @rule(applied_count=st.integers(0, 3), late=st.booleans())
    def crash(self, *, applied_count: int, late: bool) -> None:
        """The executor dies with calls under way; some come through, others later or never; another one starts."""
        actions = self.world.actions()
        if actions.creates is not None:
            now, rest = split(actions.creates, applied_count)
            self.check_creations(lambda: self.world.cluster.create(now))
            if late:
                self.late.append((self.world.now_s + SETTLE_S, rest))
        if actions.deletes is not None and applied_count:
            self.world.cluster.delete(actions.deletes)
        self.restart()

    def restart(self) -> None:
        """A new executor starts from a listing."""
        self.world.pass_time(1.0)
        self.world.reconciler = Reconciler(keep_finished_s=60.0)
        self.world.reconciler.settle_at(self.world.now_s + SETTLE_S, self.world.now)
        self.world.list_all()
        self.connect()

    @rule()
    def call_comes_late(self) -> None:
        """A dead executor's creation comes through, within its fence."""
        waiting, self.late = self.late, []
        for until_s, creates in waiting:
            if self.world.now_s < until_s:
                for handle, attempt in zip(
                    creates.handle_column.tolist(), creates.ordinal_column.tolist(), strict=True
                ):
                    run = self.leader.runs[handle, attempt]
                    ends = {ObjectState.CANCELLED, ObjectState.LOST}
                    assert not (run.has_ended and ends & set(run.states)), "ended with a call under way"
                self.world.cluster.create(creates)

    @rule()
    def watch(self) -> None:
        """Events arrive."""
        self.world.watch()

    @rule()
    def watch_twice(self) -> None:
        """Events arrive and are delivered again."""
        events = list(self.world.cluster.unread)
        self.world.watch()
        self.world.reconciler.take_observed(make_observations(events), self.world.now)

    @rule()
    def relist(self) -> None:
        """The cluster is listed."""
        self.world.pass_time(0.1)
        self.world.list_all()

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 61.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.world.pass_time(seconds)

    # --- the cluster

    @rule(
        place=PLACES,
        state=st.sampled_from([ObjectState.RUNNING, ObjectState.SUCCEEDED, ObjectState.FAILED, ObjectState.UNKNOWN]),
    )
    def pod_moves(self, place: int, state: ObjectState) -> None:
        """A pod shows another state."""
        key = self.some_pod(place)
        if key is not None:
            self.world.cluster.show(key, state)
            if self.world.cluster.objects[key].state == ObjectState.SUCCEEDED:
                self.succeeded.add(key)

    @rule(place=PLACES)
    def object_vanishes(self, place: int) -> None:
        """Somebody removes an object by hand."""
        keys = sorted(self.world.cluster.objects)
        if keys:
            self.removed.add(keys[place % len(keys)])
            self.world.cluster.remove(keys[place % len(keys)])

    @rule(place=PLACES)
    def object_vanishes_while_nobody_watches(self, place: int) -> None:
        """Somebody removes an object between two executors."""
        self.object_vanishes(place)
        self.restart()

    @rule(place=PLACES)
    def labels_are_taken_while_nobody_watches(self, place: int) -> None:
        """Somebody takes the labels of a pod of a live run away between two executors."""
        runs = self.leader.runs
        keys = [pod.key for pod in self.world.cluster.pods() if not runs[pod.key[0], pod.key[1]].has_ended]
        if keys:
            self.world.cluster.unlabelled.add(keys[place % len(keys)])
            self.restart()

    @invariant()
    def one_run_at_a_time(self) -> None:
        """No two runs of a job have pods that may still work."""
        if not hasattr(self, "world"):
            return
        ended = (ObjectState.SUCCEEDED, ObjectState.FAILED)
        working: dict[int, set[int]] = {}
        for pod in self.world.cluster.pods():
            if pod.state not in ended:
                working.setdefault(pod.key[0], set()).add(pod.key[1])
        assert all(len(attempts) == 1 for attempts in working.values()), working

    @invariant()
    def no_pod_works_after_its_run(self) -> None:
        """A run is not called over while a pod of it may still work, unless one of its objects failed or was lost."""
        if not hasattr(self, "world"):
            return
        for pod in self.world.cluster.pods():
            run = self.leader.runs[pod.key[0], pod.key[1]]
            is_working = pod.state not in (ObjectState.SUCCEEDED, ObjectState.FAILED)
            assert not (is_working and IS_RUN_TERMINAL[run.states[pod.key[2]]]), (
                f"{pod.key} works and was reported over"
            )

    @invariant()
    def table_holds(self) -> None:
        """What must hold of the objects between two events does."""
        if hasattr(self, "world"):
            self.world.reconciler.check_invariants()

    # --- quiet

    def settle(self) -> None:
        """Let everything that follows happen, without faults."""
        for _ in range(14):
            self.world.act()
            if self.world.reconciler.wants_listing:
                self.world.list_all()
            self.world.watch()
            self.world.pass_time(SETTLE_S + 11.0)
            self.report(is_stored=True)
        self.world.list_all()
        self.settle_reports()

    def settle_reports(self) -> None:
        """Store what is left to report."""
        for _ in range(4):
            self.world.act()
            self.world.watch()
            self.report(is_stored=True)

    def teardown(self) -> None:
        """After quiet the rows equal the cluster, both ways; and once the pods have ended nothing is left."""
        if not hasattr(self, "world"):
            return
        self.late.clear()
        self.connect()
        self.settle()
        wanted = {
            (handle, attempt, position)
            for (handle, attempt), run in self.leader.runs.items()
            if not run.has_ended
            for position in range(len(run.kinds))
        }
        ended = (ObjectState.SUCCEEDED, ObjectState.FAILED)
        unfinished = {key for key, item in self.world.cluster.objects.items() if item.state not in ended}
        assert unfinished <= wanted, f"left over: {unfinished - wanted}"
        missing = wanted - self.world.cluster.objects.keys()
        assert not missing, f"not there: {missing}"
        for pod in self.world.cluster.pods():
            self.world.cluster.show(pod.key, ObjectState.SUCCEEDED)
        self.settle()
        assert all(run.has_ended for run in self.leader.runs.values())
        for handle, attempt, position in self.succeeded - self.removed - self.world.cluster.untold_ends:
            run = self.leader.runs[handle, attempt]
            assert len(run.kinds) > 1 or run.states[position] == ObjectState.SUCCEEDED, "a success was lost"
        assert self.world.cluster.objects == {}
        assert self.world.reconciler.object_count == 0
        assert not len(self.world.reconciler.known_runs())


TestReconcile = ExecutorMachine.TestCase
TestReconcile.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

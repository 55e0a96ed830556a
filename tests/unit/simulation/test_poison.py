"""What stands anywhere and raises whenever it is met ends at most one leader term, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import JobState
from argosy_core.leader import LeaderMachine, cycle, intake, takeover
from argosy_core.leader.events import (
    AmountsHeld,
    Bound,
    CapacityTold,
    ChangesRead,
    CommitAnswered,
    EndsRead,
    Event,
    Explained,
    Heard,
    Loaded,
    MarkerPublished,
    MovesNamed,
    NodesChosen,
    PluginAnswered,
    Published,
    RecordsRead,
    Role,
    RowsLost,
    RunsSeen,
    SampleAnswered,
    SamplerReady,
    SessionLost,
    StatesReported,
    Stored,
    Tick,
)
from argosy_core.leader.machine import LeaderMachine as Machine
from argosy_core.scheduler.rounds import round as rounds
from argosy_simulation import START_US, ChangeRequestPlan, World, WorldPlan, WorldSettings
from argosy_simulation.cluster_actor import NodeSpec
from argosy_simulation.leader_actor import LeaderActor

JOBS = 24
BAD_JOB = 5
"""Index of the job that is poisonous; it alone is of the second class."""
BAD_CLUSTER = "c0"
ERROR = "nobody foresaw this"


class Poison(Exception):
    """Raised wherever the poison is met."""


def plan(*, delegated: frozenset[str] = frozenset()) -> WorldPlan:
    """Return two clusters that hold everything, a job a second, and a crash's worth of time."""
    zeros = np.zeros(JOBS, dtype=np.int32)
    classes = zeros.copy()
    classes[BAD_JOB] = 1
    node = {"cpu": 64_000, "memory": 1 << 36}
    return WorldPlan(
        clusters=tuple((name, (NodeSpec(name=f"{name}-n", total=node),)) for name in ("c0", "c1")),
        queues=(("alice", 1.0),),
        classes=(SchedulingClass(requests=(("cpu", 1000),)), SchedulingClass(requests=(("cpu", 2000),))),
        job_sets=((0, "set"),),
        submit_s=np.arange(JOBS, dtype=np.float64),
        run_s=np.full(JOBS, 3.0),
        class_index=classes,
        job_set=zeros,
        priority=zeros,
        exit_code=zeros,
        layout=zeros,
        change_requests=(ChangeRequestPlan(at_s=4.5, jobs=(4,), priority=7),),
        delegated=delegated,
    )


class Poisoned:
    """A world with a poison in it.

    Args:
        monkeypatch: Puts it there.
        delegated: Clusters that choose nodes by themselves.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, delegated: frozenset[str] = frozenset()) -> None:
        self._patch = monkeypatch
        self.met = 0
        monkeypatch.setattr(LeaderActor, "FORESEEN", (Poison,))
        self.world = World(plan(delegated=delegated), seed=3, settings=WorldSettings())
        self.job_index = self.world.context.job_index
        self.bad_handle = int(self.job_index.handles(np.array([BAD_JOB]))[0])

    def poison(self, owner: Any, name: str, is_met: Callable[..., bool]) -> None:
        """Let a function raise whenever it meets the poison."""
        function = getattr(owner, name)

        def poisoned(*arguments: Any, **options: Any) -> Any:
            if is_met(*arguments, **options):
                self.met += 1
                raise Poison(ERROR)
            return function(*arguments, **options)

        self._patch.setattr(owner, name, poisoned)

    def poison_event(self, kind: type[Event], is_met: Callable[[Any], bool]) -> None:
        """Let the handler of an event raise whenever that meets the poison."""
        make = Machine.__init__

        def start(machine: LeaderMachine, *arguments: Any, **options: Any) -> None:
            make(machine, *arguments, **options)
            handle = machine._handlers[kind]

            def poisoned(event: Any) -> None:
                if is_met(event):
                    self.met += 1
                    raise Poison(ERROR)
                handle(event)

            machine._handlers[kind] = poisoned

        self._patch.setattr(Machine, "__init__", start)
        self.world.leaders[0].give_up()  # it was made before

    def run(self, *, until_s: float = 150.0) -> None:
        """Let time pass."""
        agenda = self.world.context.agenda
        while agenda.now_us < START_US + until_s * 1e6 and agenda.step():
            pass

    @property
    def ended_terms(self) -> int:
        """How many terms the poison ended."""
        return self.world.context.counters["terms ended by an input"]

    def unfinished(self) -> list[int]:
        """Return the indices of jobs that did not succeed."""
        jobs = self.world.context.store.jobs.values()
        return [job.index for job in jobs if job.state != JobState.SUCCEEDED]

    def check(self, *, waiting: list[int], ended: int = 1) -> None:
        """Check that the poison was met, ended so many terms, and that no other job waits."""
        assert self.met
        assert self.ended_terms == ended
        assert self.world.context.counters["epochs"] <= ended + 2
        assert self.unfinished() == waiting
        assert self.world.leaders[-1].serving


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Poisoned:
    """Return a world into which a test puts its poison."""
    return Poisoned(monkeypatch)


SESSION_EVENTS = {
    Bound,
    CapacityTold,
    SampleAnswered,
    CommitAnswered,
    NodesChosen,
    SamplerReady,
    SessionLost,
    StatesReported,
}
ANSWERS = {MarkerPublished, Stored, RecordsRead, Published, Loaded, ChangesRead, Tick}
NOT_IN_THIS_WORLD = {AmountsHeld, EndsRead, Heard, Explained, MovesNamed, RowsLost, PluginAnswered, RunsSeen}


def test_every_kind_of_event_is_poisoned_here() -> None:
    """A new one is put into one of the lists, with its test."""
    world = World(plan(), seed=3, settings=WorldSettings())
    assert set(world.leaders[0].machine._handlers) == SESSION_EVENTS | ANSWERS | NOT_IN_THIS_WORLD


@pytest.mark.parametrize("kind", sorted(SESSION_EVENTS, key=lambda kind: kind.__name__))
def test_a_peer_whose_words_raise_is_refused_and_the_other_cluster_goes_on(
    monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """Its next session is refused until an operator lets it in; only what runs there waits for that."""
    poisoned = Poisoned(monkeypatch, frozenset({BAD_CLUSTER}) if kind is NodesChosen else frozenset())
    role = Role.EXECUTOR if kind is StatesReported else Role.SAMPLER
    poisoned.poison_event(kind, lambda event: event.session[:2] == (BAD_CLUSTER, role))
    world = poisoned.world
    if kind is SessionLost:
        world.context.agenda.after(5.0, world.context.store, world._kill, world.samplers[0])
    poisoned.run()
    assert poisoned.met == poisoned.ended_terms == 1
    store = world.context.store
    assert {tuple(origin) for origin in store.suspects} == {(role.value, BAD_CLUSTER)}
    left = [store.jobs[handle] for handle in store.open_handles]
    assert all(job.runs[job.live_attempt].cluster == BAD_CLUSTER for job in left)
    assert len(left) < JOBS


@pytest.mark.parametrize("kind", [MarkerPublished, Stored, RecordsRead], ids=lambda kind: kind.__name__)
def test_an_error_that_is_nobodys_input_ends_one_term(poisoned: Poisoned, kind: type) -> None:
    """An answer of the database or the log does not come again; everything is done by the next leader."""
    poisoned.poison_event(kind, lambda _: poisoned.met == 0)
    poisoned.run()
    poisoned.check(waiting=[])


def test_an_accepted_job_that_raises_is_held_with_its_change(poisoned: Poisoned) -> None:
    """All others of the time around it are taken."""
    poisoned.poison(intake, "take_jobs", lambda _, columns, __: poisoned.bad_handle in columns.handle)
    poisoned.run()
    poisoned.check(waiting=[BAD_JOB])
    (origin,) = poisoned.world.context.store.suspects
    assert origin.kind == "change"


def test_a_change_that_is_let_in_again_is_taken_by_the_same_leader(poisoned: Poisoned) -> None:
    """Once the cause is mended, an operator's word is enough."""
    is_bad = [True]
    poisoned.poison(intake, "take_jobs", lambda _, columns, __: is_bad[0] and poisoned.bad_handle in columns.handle)
    poisoned.run(until_s=60.0)
    is_bad.clear()
    is_bad.append(False)
    poisoned.world.context.store.suspects.clear()
    poisoned.world.leaders[-1].look_for_changes()
    poisoned.run()
    poisoned.check(waiting=[])


def test_a_change_request_that_raises_is_set_aside(poisoned: Poisoned) -> None:
    """The job that it is about goes on."""
    poisoned.poison(intake, "take_change_requests", lambda *_: True)
    poisoned.run()
    poisoned.check(waiting=[])


def test_states_that_raise_cost_their_cluster_alone(poisoned: Poisoned) -> None:
    """Reports of all clusters are taken at once; whose it was is found out."""
    poisoned.poison(intake, "take_states", lambda _, reports, __: any(cluster == BAD_CLUSTER for cluster, _ in reports))
    poisoned.run()
    assert poisoned.ended_terms == 1
    assert {tuple(origin) for origin in poisoned.world.context.store.suspects} == {("executor", BAD_CLUSTER)}


def test_a_stored_job_that_raises_is_found_among_all_and_held(poisoned: Poisoned) -> None:
    """It raises in every load until it is left out."""
    poisoned.poison(takeover, "recover", lambda _, columns, __: poisoned.bad_handle in columns.jobs.handle)
    poisoned.world.context.agenda.after(5.5, poisoned.world.context.store, poisoned.world.leaders[-1].give_up)
    poisoned.run()
    poisoned.check(waiting=[BAD_JOB])
    (origin,) = poisoned.world.context.store.suspects
    assert tuple(origin) == ("job", str(poisoned.bad_handle))


def test_a_decided_lease_that_raises_goes_to_quarantine_and_its_class_waits(poisoned: Poisoned) -> None:
    """The record is met again by the next leader, and the same job would be leased again."""
    poisoned.poison(cycle, "draft_ingest", lambda _, leases: poisoned.bad_handle in leases.handle)
    poisoned.run()
    assert poisoned.ended_terms == 1
    assert {origin.kind for origin in poisoned.world.context.store.suspects} == {"record", "class"}
    assert BAD_JOB in poisoned.unfinished()
    bad_class = int(poisoned.job_index.columns(np.array([BAD_JOB]), np.ones(1), np.zeros(1)).class_id[0])
    assert str(bad_class) in {origin.key for origin in poisoned.world.context.store.suspects}


@pytest.mark.parametrize("step", ["decide", "begin"])
def test_a_round_that_raises_on_a_class_is_given_up_and_only_that_class_waits(poisoned: Poisoned, step: str) -> None:
    """No term ends: nothing was placed yet."""
    bad_class = int(poisoned.job_index.columns(np.array([BAD_JOB]), np.ones(1), np.zeros(1)).class_id[0])

    def asks(round_: Any, *_: Any) -> bool:
        return any(bad_class in request.class_ids for request in round_.requests)

    if step == "decide":
        poisoned.poison(rounds.Round, "decide", asks)
    else:
        poisoned.poison(
            rounds,
            "choose",
            lambda state, classes, *_, **__: bad_class in state.classes.class_id[classes],
        )
    poisoned.run()
    poisoned.check(waiting=[BAD_JOB], ended=0)
    assert poisoned.world.leaders[-1].machine.totals["abandoned_rounds"] >= 2


def test_a_round_that_raises_after_it_placed_holds_what_it_asked_for(poisoned: Poisoned) -> None:
    """What was placed is in nobody's memory any more, so the term ends, once."""
    bad_class = int(poisoned.job_index.columns(np.array([BAD_JOB]), np.ones(1), np.zeros(1)).class_id[0])
    poisoned.poison(
        rounds.Round, "finish", lambda round_, *_: any(bad_class in request.class_ids for request in round_.requests)
    )
    poisoned.run()
    assert poisoned.ended_terms == 1
    assert BAD_JOB in poisoned.unfinished()
    assert {origin.kind for origin in poisoned.world.context.store.suspects} == {"class"}

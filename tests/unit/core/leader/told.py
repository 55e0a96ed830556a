"""A leader machine that is told events by hand, and the events of a pool of one cluster to tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.leader import LeaderMachine, MachineSettings
from argosy_core.leader import instructions as say
from argosy_core.leader.events import (
    Bound,
    CapacityTold,
    Change,
    ChangesRead,
    ClusterSettings,
    CommitAnswered,
    Event,
    Loaded,
    MarkerPublished,
    Moment,
    ReadRecord,
    RecordsRead,
    References,
    Role,
    SampleAnswered,
    SamplerReady,
    Session,
    Stored,
    Tick,
)
from argosy_core.placement import CommitReply, SampleReply
from argosy_core.scheduler import CapacityColumns, JobColumns, JobSetView, QueueView, SpecReference, StateColumns
from argosy_simulation import JobTimes
from argosy_simulation.durable import DurableStore
from argosy_testkit.world_rows import empty_index

KindT = TypeVar("KindT")
NOBODY = np.zeros(0, dtype=np.int64)
SAMPLER = Session("c1", Role.SAMPLER, 1, 1)
EXECUTOR = Session("c1", Role.EXECUTOR, 1, 2)
C1 = ClusterSettings(name="c1")
DEFINITION = SchedulingClass(requests=(("cpu", 1000),)).definition()


class Told:
    """A machine, the time it is told, and what it says."""

    def __init__(self, *, plugins: Mapping[str, object] | None = None, **settings: Any) -> None:
        self.settings = replace(MachineSettings(busy_s=0.0), **settings)
        profile = self.settings.round.make_profile(plugins)
        self.machine = LeaderMachine(
            "default", 3, settings=self.settings, rng=np.random.default_rng(1), decision_profile=profile
        )
        self.now_s = 1000.0
        self.said = self.machine.start(self.moment)

    @property
    def moment(self) -> Moment:
        """Now."""
        return Moment(self.now_s, round(self.now_s * 1e6))

    def tell(self, *events: Event) -> list[say.Instruction]:
        """Tell events; return what is said to all of them."""
        self.said = [said for event in events for said in self.machine.handle(event, self.moment)]
        return self.said

    def pass_time(self, length_s: float) -> list[say.Instruction]:
        """Let time pass, with a tick at its end."""
        self.now_s += length_s
        return self.tell(Tick())

    def one(self, kind: type[KindT]) -> KindT:
        """Return the one instruction of a kind among those last said."""
        (found,) = [said for said in self.said if isinstance(said, kind)]
        return found

    def kinds(self) -> list[type]:
        """Return the kinds of what was last said."""
        return [type(said) for said in self.said]


def loaded(log_position: int = 0) -> Loaded:
    """Return a pool without open jobs, with one queue."""
    return Loaded(
        columns=DurableStore(empty_index({}), JobTimes(0)).load(),
        classes={},
        queues=(QueueView(queue_id=1, name="alice", weight=1.0),),
        clusters=(),
        log_position=log_position,
    )


def lead(**settings: Any) -> Told:
    """Return a machine that has taken over a pool in which nothing is open."""
    told = Told(**settings)
    told.tell(MarkerPublished(position=1), loaded(), ChangesRead(changes=()))
    told.tell(RecordsRead(records=(ReadRecord(position=1, epoch=3, plan=None),)))
    told.tell(Stored(number=1, refused=NOBODY))
    assert told.one(say.Serve)
    told.pass_time(1.0)
    return told


def submitted(change_id: int, *numbers: int) -> ChangesRead:
    """Return a change that accepts jobs, with what it refers to."""
    count = len(numbers)
    jobs = JobColumns(
        handle=np.array(numbers, dtype=np.int64),
        id_high=np.zeros(count, dtype=np.int64),
        queue=np.ones(count, dtype=np.int32),
        job_set=np.ones(count, dtype=np.int64),
        class_id=np.ones(count, dtype=np.int32),
        priority=np.zeros(count, dtype=np.int32),
        submit_time_us=np.ones(count, dtype=np.int64),
        spec=np.zeros(count, dtype=np.int32),
        metadata_index=np.full(count, -1, dtype=np.int32),
        specs=(SpecReference(hash=bytes(16), day=1, layout=b'[["Pod","work"]]'),),
    )
    references = References(
        classes={1: DEFINITION}, job_sets=(JobSetView(job_set_id=1, queue_id=1, name="set", last_event_number=0),)
    )
    return ChangesRead(changes=(Change(change_id=change_id, jobs=jobs),), references=references)


def capacity(cores: int = 8) -> CapacityColumns:
    """Return a cluster of one node."""
    amounts = np.array([1000 * cores, 100], dtype=np.int64)
    return CapacityColumns(
        incarnation=1,
        resources=("cpu", "pods"),
        node=np.zeros(1, dtype=np.int32),
        names=("n1",),
        allocatable=amounts.reshape(1, 2),
        free=amounts.reshape(1, 2),
        flag=np.ones(1, dtype=np.int8),
        total=amounts,
        total_free=amounts,
        node_count=1,
        placement_count=0,
        fitting=np.zeros(0, dtype=np.int32),
        fitting_room=np.zeros(0, dtype=np.int32),
    )


def connect(told: Told) -> None:
    """Let cluster c1 in, with sampler and executor."""
    connect_sampler(told)
    told.tell(Bound(session=EXECUTOR, settings=C1, known=Members.of([], [])))
    assert told.one(say.Listen)
    told.pass_time(1.0)


def connect_sampler(told: Told) -> None:
    """Let the sampler of cluster c1 in, and store that it was heard."""
    said = told.tell(
        Bound(session=SAMPLER, settings=C1), CapacityTold(session=SAMPLER, columns=capacity()),
        SamplerReady(session=SAMPLER),
    )  # fmt: skip
    store_all(told, said)


def store_all(told: Told, said: list[say.Instruction]) -> None:
    """Let the database do what was asked of it."""
    for one in said:
        if isinstance(one, say.Store):
            told.tell(Stored(number=one.number, refused=NOBODY))


def candidates(request: say.SendSample) -> SampleAnswered:
    """Return the answer of a sampler whose one node holds everything."""
    amounts = {"cpu": 8000, "pods": 100}
    free = np.array([amounts.get(name, 0) for name in request.request.resources], dtype=np.int64)
    reply = SampleReply(
        incarnation=1,
        node=np.zeros(1, dtype=np.int32),
        free=free.reshape(1, -1),
        offset=np.array([0, 1], dtype=np.int32),
        candidate=np.zeros(1, dtype=np.int32),
        score=np.ones(1, dtype=np.float32),
        examined=np.ones(1, dtype=np.int32),
        eligible=np.ones(1, dtype=np.int32),
        filters=(),
        filter_texts=(),
        rejection=np.zeros((1, 0), dtype=np.int32),
        total_free=free,
        complete=np.ones(1, dtype=np.int8),
        nearest_misses=("",),
        reason=np.zeros(1, dtype=np.int8),
        texts=(),
        retry_after_s=np.zeros(0, dtype=np.float32),
    )
    return SampleAnswered(session=request.session, round_number=request.request.round_number, reply=reply)


def placed(request: say.SendCommit) -> CommitAnswered:
    """Return the answer of a sampler that placed everything."""
    count, asked = len(request.request.members), request.request
    reply = CommitReply(incarnation=1, node=np.zeros(count, dtype=np.int32), outcome=np.ones(count, dtype=np.int8))
    return CommitAnswered(session=request.session, round_number=asked.round_number, stage=asked.stage, reply=reply)


def plan(told: Told, change_id: int, *numbers: int) -> say.Publish:
    """Submit jobs and decide about them; return what is to be published."""
    told.tell(submitted(change_id, *numbers))
    told.pass_time(told.settings.window_idle_s)
    told.tell(candidates(told.one(say.SendSample)))
    told.tell(placed(told.one(say.SendCommit)))
    return told.one(say.Publish)


def running(number: int, attempt: int = 1) -> StateColumns:
    """Return the report of a run whose pod runs."""
    return StateColumns(
        handle=np.array([number], dtype=np.int64),
        attempt=np.array([attempt], dtype=np.int32),
        object_index=np.zeros(1, dtype=np.int16),
        state=np.array([3], dtype=np.int8),
        time_us=np.array([5], dtype=np.int64),
        exit_code=np.zeros(1, dtype=np.int32),
        failure=np.zeros(1, dtype=np.int8),
        message=np.full(1, -1, dtype=np.int32),
        uid=bytes(16),
    )

"""What would become of jobs if they were submitted now: real rounds on a copy of a pool's memory.

The copy is a fork of the leader's memory, and samplers are played on nodes as the real ones have told them last, by
the filters that are built in. Nothing is decided: what is planned may be otherwise a moment later. What ends meanwhile
is not known, so jobs that must wait for an end are told the start that they would be promised, or when one is expected.

Source: design section 9 (`argosy plan`); section 5, "Round".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.options import OPTION_NAMES, UNSET, JobOptions
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeTable
from argosy_core.placement import NodeSampler, Placements, SamplerSession
from argosy_core.queueing import MICRO
from argosy_core.scheduler.columns.messages import JobColumns, JobSetView, SpecReference
from argosy_core.scheduler.explain.causes import ClusterStanding, explain_by_nodes
from argosy_core.scheduler.explain.explanation import Explanation
from argosy_core.scheduler.explain.views import explain
from argosy_core.scheduler.incoming.definitions import define_classes, define_job_sets
from argosy_core.scheduler.incoming.ingest import apply_ingested
from argosy_core.scheduler.incoming.intake import take_jobs
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import LeasePlan
from argosy_core.scheduler.rounds.round import begin_round
from argosy_core.scheduler.turns.shares import QueueShares, shares, weightless_resources

__all__ = [
    "MOST_PLANNED",
    "JobPlan",
    "Plan",
    "PlannedItem",
    "PlannedPlace",
    "PlannedPreemption",
    "ShareChange",
    "plan_jobs",
]

MOST_PLANNED: Final = 10_000
"""Jobs of one plan."""
_EPOCH: Final = 1
_MOST_ROUNDS: Final = 12
_FIRST_HANDLE: Final = 1 << 62
_FIRST_ID: Final = 1 << 30
"""Ids of classes and job sets that the database does not give."""
_LONE_POD: Final = b'[["Pod","pod"]]'
_MOST_TOLD: Final = 100
_AFTER_S: Final = 0.001
_NO_CORES: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """Equal jobs to plan."""

    queue_id: int
    """Queue."""
    definition: bytes
    """Definition of their scheduling class."""
    count: int
    """How many, at least 1."""
    priority: int = 0
    """Priority."""
    job_set: str = "plan"
    """Name of their job set; what runs of it now counts for its limit."""
    options: Mapping[str, int] = field(default_factory=dict)
    """What is said of each, by a name of `job.reading.options.OPTION_NAMES`; what is not named is not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPlace:
    """Where jobs of an item would start at once."""

    cluster: str
    """Cluster."""
    node: str
    """Node."""
    count: int
    """Jobs of the item whose first member, or only one, is there."""
    member_count: int
    """Members of these and of others of the item that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What would become of the jobs of one item."""

    placed_count: int
    """Jobs that would start at once."""
    places: tuple[PlannedPlace, ...]
    """Where, those with most jobs first; the first 100."""
    waiting_count: int
    """Jobs that would wait."""
    waiting: Explanation | None
    """Why the first of the others would wait, with what it would be promised and when it would start; None if none
    would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPreemption:
    """A run that would be stopped to make room."""

    handle: int
    """Its job."""
    queue: str
    """Queue of the job."""
    cluster: str
    """Cluster of the run."""
    node: str
    """Node of the run."""
    reason: str
    """Why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """What a queue would hold."""

    queue: str
    """Name."""
    usage_before_cores: float
    """Weighted usage now, cores."""
    usage_after_cores: float
    """Weighted usage once all that could start has started, cores."""
    entitled_before_cores: float
    """What it is entitled to now, cores."""
    entitled_after_cores: float
    """What it would be entitled to, cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of jobs if they were submitted now."""

    items: tuple[JobPlan, ...]
    """By item."""
    preemptions: tuple[PlannedPreemption, ...]
    """Runs that would be stopped to make room for waiting jobs, these or others; the first 100."""
    shares: tuple[ShareChange, ...]
    """Queues whose usage or entitlement would change, by name."""
    other_count: int
    """Other waiting jobs that would start before or beside them."""
    is_complete: bool
    """False if time was up before nothing more could be placed."""
    capacity_cores: float
    """What the whole pool counts, cores."""
    weightless_resources: tuple[str, ...] = ()
    """What the pool has that weighs nothing: whoever holds it is not seen as using anything."""


class _Samplers:
    """Plays the samplers of a fork."""

    def __init__(self, state: PoolState, tables: Mapping[str, NodeTable], rng: np.random.Generator) -> None:
        """Have a sampler for each cluster whose nodes are known."""
        self._state = state
        self._sessions: dict[str, SamplerSession] = {}
        none = np.zeros(0, dtype=np.int32)
        nothing = Placements(members=Members.of(none.astype(np.int64), none), class_ids=none, node=none, nodes=())
        for name, table in tables.items():
            index = state.clusters.find(name)
            if index is not None:
                ledger = NodeLedger(nodes=table)
                sampler = NodeSampler(ledger, incarnation=int(state.clusters.incarnation[index]))
                session = self._sessions[name] = SamplerSession(ledger, sampler, rng)
                session.take_placements(nothing, is_last=True)

    def run_round(self, now_s: float, rng: np.random.Generator) -> LeasePlan:
        """Do a round with them."""
        round_ = begin_round(self._state, now_s, rng)
        for request in round_.requests:
            session = self._sessions.get(request.cluster)
            if session is not None:
                session.define((one, self._state.classes.definition(one)) for one in request.class_ids.tolist())
            round_.take_sample(request.cluster, session.sample(_EPOCH, request) if session is not None else None)
        commits = round_.decide(rng)
        while commits:
            for commit in commits:
                round_.take_commits(commit.cluster, self._sessions[commit.cluster].commit(_EPOCH, commit))
            commits = round_.next_commits()
        return round_.finish(now_s)


def plan_jobs(
    state: PoolState,
    tables: Mapping[str, NodeTable],
    items: tuple[PlannedItem, ...],
    *,
    now_s: float,
    rng: np.random.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> Plan:
    """Return what would become of jobs if they were submitted now.

    Args:
        state: A fork of the pool's memory, which is used up.
        tables: Nodes by cluster, used up likewise.
        items: At most 10,000 jobs; their queues must be known.
        now_s: Now.
        rng: Chance.
        should_stop: Asked between rounds; once it says yes, what was found so far is the answer.

    Raises:
        InvalidRequest: There are too many jobs.
        NotFound: A queue is not known to the leader yet.

    Complexity: that of the rounds that it takes, at most 12.
    """
    if sum(item.count for item in items) > MOST_PLANNED:
        raise InvalidRequest(f"a plan is of at most {MOST_PLANNED:,} jobs")
    before = {row.queue: row for row in shares(state, now_s).queues}
    preempted_before = set(state.room.preempted)
    handles = _take(state, items, now_s)
    samplers = _Samplers(state, tables, rng)
    moment_s, leased_count, is_complete = now_s, 0, False
    for _ in range(_MOST_ROUNDS):
        if should_stop():
            break
        plan = samplers.run_round(moment_s, rng)
        apply_ingested(state, plan, moment_s)
        leased_count += np.unique(plan.handle).size
        if plan.handle.size:
            continue
        waits = state.stage_is_queued(state.live.slots(np.concatenate(handles)))
        if moment_s > now_s or not waits.any():
            is_complete = True
            break
        # What has no room is promised a start after a while in which nothing else would happen here.
        moment_s = now_s + state.settings.promise_after_s + _AFTER_S
        state.change_count += 1
    found = tuple(_found(state, tables, own, moment_s) for own in handles)
    own_count = sum(one.placed_count for one in found)
    return Plan(
        items=found,
        preemptions=_preemptions(state, preempted_before),
        shares=_share_changes(state, before, moment_s),
        other_count=leased_count - own_count,
        is_complete=is_complete,
        capacity_cores=state.capacity_usage() / MICRO,
        weightless_resources=weightless_resources(state),
    )


def _take(state: PoolState, items: tuple[PlannedItem, ...], now_s: float) -> list[Int64s]:
    """Have the fork take jobs as if they were accepted now, and return the handles of each item."""
    class_of = {definition: state.classes.class_id[index] for index, definition in state.classes.definitions.items()}
    fresh = dict.fromkeys(item.definition for item in items if item.definition not in class_of)
    ids = {definition: _FIRST_ID + place for place, definition in enumerate(fresh)}
    define_classes(state, {class_id: definition for definition, class_id in ids.items()})
    sets = state.job_sets
    set_ids = {(int(sets.queue_id[at]), name): int(sets.job_set_id[at]) for at, name in sets.names.items()}
    fresh_sets = [key for key in dict.fromkeys((item.queue_id, item.job_set) for item in items) if key not in set_ids]
    views = [
        JobSetView(job_set_id=_FIRST_ID + place, queue_id=queue, name=name, last_event_number=0)
        for place, (queue, name) in enumerate(fresh_sets)
    ]
    set_ids |= {(view.queue_id, view.name): view.job_set_id for view in views}
    define_job_sets(state, views, now_s)
    counts = np.array([item.count for item in items])
    handles = np.arange(_FIRST_HANDLE, _FIRST_HANDLE + int(counts.sum()), dtype=np.int64)

    def column(values: list[int], kind: type[np.integer]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values, dtype=kind), counts)

    class_ids = [int(ids.get(item.definition, class_of.get(item.definition, 0))) for item in items]
    columns = JobColumns(
        handle=handles,
        id_high=np.zeros(handles.size, dtype=np.int64),
        queue=column([item.queue_id for item in items], np.int32),
        job_set=column([set_ids[item.queue_id, item.job_set] for item in items], np.int64),
        class_id=column(class_ids, np.int32),
        priority=column([item.priority for item in items], np.int32),
        submit_time_us=np.full(handles.size, round(now_s * 1e6), dtype=np.int64),
        spec=np.zeros(handles.size, dtype=np.int32),
        metadata_index=np.full(handles.size, -1, dtype=np.int32),
        specs=(SpecReference(hash=bytes(16), day=0, layout=_LONE_POD),),
        options=_options(items, counts),
    )
    take_jobs(state, columns, now_s)
    return np.split(handles, np.cumsum(counts)[:-1])


def _options(items: tuple[PlannedItem, ...], counts: Int64s) -> JobOptions | None:
    """Return what is said of the jobs; None if nothing is said of any."""
    if not any(item.options for item in items):
        return None
    return JobOptions(
        **{
            name: np.repeat(np.array([item.options.get(name, UNSET) for item in items], dtype=np.int32), counts)
            for name in OPTION_NAMES
        }
    )


def _found(state: PoolState, tables: Mapping[str, NodeTable], handles: Int64s, now_s: float) -> JobPlan:
    """Return what became of the jobs of one item."""
    live = state.live
    slots = live.slots(handles)
    slots = slots[slots >= 0]
    waits = state.stage_is_queued(slots)
    placed = slots[~waits & (live.cluster[slots] >= 0)]
    members = live.live_members(placed)
    pairs = np.stack([live.cluster[members.slot], members.node], axis=1)
    distinct, which, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    which, numbers = which.reshape(-1), members.keys.numbers()
    firsts = np.bincount(which if numbers is None else which[numbers == 0], minlength=len(distinct))
    first = np.argsort(-counts, kind="stable")[:_MOST_TOLD]
    waiting = None
    if waits.any():
        slot = int(slots[waits][0])
        told = explain(state, int(live.handle[slot]), now_s)
        assert told is not None
        definition = SchedulingClass.parse(state.classes.definitions[int(live.class_index[slot])])
        standings = {
            name: ClusterStanding(
                cordoned=f"cluster {name} is cordoned" if state.clusters.cordoned[index] else "",
                away="" if state.clusters.connected[index] else f"cluster {name} is not heard",
            )
            for index, name in enumerate(state.clusters.names)
        }
        waiting = explain_by_nodes(told, definition, tables, clusters=standings)
    return JobPlan(
        placed_count=placed.size,
        waiting_count=int(np.count_nonzero(waits)),
        places=tuple(
            PlannedPlace(
                cluster=state.clusters.names[cluster],
                node=state.clusters.nodes[cluster].names[node],
                count=count,
                member_count=member_count,
            )
            for (cluster, node), count, member_count in zip(
                distinct[first].tolist(), firsts[first].tolist(), counts[first].tolist(), strict=True
            )
        ),
        waiting=waiting,
    )


def _preemptions(state: PoolState, before: set[int]) -> tuple[PlannedPreemption, ...]:
    """Return the runs that were stopped on the fork."""
    live = state.live
    found: list[PlannedPreemption] = []
    for handle, reason in list(state.room.preempted.items()):
        slot = int(live.slots(np.array([handle], dtype=np.int64))[0])
        if handle not in before and slot >= 0 and len(found) < _MOST_TOLD:
            cluster = int(live.cluster[slot])
            found.append(
                PlannedPreemption(
                    handle=handle,
                    queue=state.queues.names[int(live.queue[slot])],
                    cluster=state.clusters.names[cluster],
                    node=state.clusters.nodes[cluster].names[int(live.node[slot])],
                    reason=reason,
                )
            )
    return tuple(found)


def _share_changes(state: PoolState, before: Mapping[str, QueueShares], now_s: float) -> tuple[ShareChange, ...]:
    """Return the queues that hold more or less on the fork than before, or are entitled to it."""
    changes = []
    for after in shares(state, now_s).queues:
        first = before[after.queue]
        amounts = first.usage_cores, after.usage_cores, first.entitled_cores, after.entitled_cores
        if abs(amounts[0] - amounts[1]) > _NO_CORES or abs(amounts[2] - amounts[3]) > _NO_CORES:
            changes.append(
                ShareChange(
                    queue=after.queue,
                    usage_before_cores=amounts[0],
                    usage_after_cores=amounts[1],
                    entitled_before_cores=amounts[2],
                    entitled_after_cores=amounts[3],
                )
            )
    return tuple(changes)

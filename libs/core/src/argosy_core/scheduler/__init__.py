"""The round and all that surrounds it: a pool leader's memory and the pure functions that change it.

`PoolState` is the one mutable value. Only the functions here change it; each answers what the shell has to write, send
or publish. Call them from one thread. Time is `now_s`, seconds since the Unix epoch; randomness is a
`numpy.random.Generator` of the caller's.

Setting up::

    state = PoolState(settings)                                   # RoundSettings
    define_classes(state, {class_id: definition})                 # argosy_core.job.reading.classes JSON
    set_queues(state, [QueueView...])                             # adds or changes
    remove_queues(state, [queue_id...])
    define_job_sets(state, [JobSetView...])
    set_cluster(state, ClusterView)                               # adds or changes; new incarnation drops node indices
    recover(state, LoadedColumns, now_s) -> RecoverEffects        # a new leader, before the first round

    change_settings(state, RoundSettings, now_s)                  # between rounds
    adopt_plan(state, LeasePlan) -> LeasePlan                     # a record that an earlier leader left on the log

Changes (jobs need their classes, queues and job sets defined; `missing` says which are not)::

    missing(state, JobColumns) -> Missing
    settle_missing(state, JobColumns) -> handles to leave out     # what the database does not have either
    fail_unfit(state, now_s) -> UnfitJobs | None                  # jobs whose rows cannot be used
    take_jobs(state, JobColumns, now_s) -> TakeEffects
    take_change_requests(state, ChangeRequestColumns, now_s) -> ChangeRequestEffects
    note_ended(state, EndedJobs, reason=..., now_s=...) -> EventDraft

Samplers::

    placements_of(state, cluster) -> Placements                   # in-flight and just committed ones included
    update_capacity(state, cluster, CapacityColumns) -> None
    class_definitions(state, class_ids) -> list[bytes]

Round::

    next_due_s(state, now_s) -> float                             # when a round could do something without news
    round = begin_round(state, now_s, rng)                        # chooses whom to ask for what
    round.requests -> tuple[SampleRequest, ...]
    round.take_sample(cluster, SampleReply | None)                # None: no answer in time
    round.decide(rng) -> tuple[CommitRequest, ...]               # stage 1; may be empty
    round.take_commits(cluster, CommitReply | None)               # None: outcome not known, will be released
    round.next_commits() -> tuple[CommitRequest, ...]            # further stages until empty
    round.finish(now_s) -> LeasePlan
    hold_up(state, classes, text, now_s=..., rng=...) -> None     # after a round that failed

Ingest (runs of a plan are in flight until then)::

    draft_ingest(state, plan) -> (NewRuns, NewObjects)            # changes nothing; the store answers refused handles
    apply_ingested(state, plan, now_s) -> LeaseEffects               # inside that transaction: events go with rows
    give_up_placements(state, handles, retry_after_s, now_s) -> RefusedEffects   # before: what plugins turned away
    refuse_leases(state, refused_handles, now_s) -> RefusedEffects    # where refusals are known only after the commit
    Refusals().correct(draft_number, drafts, refused) -> list[EventDraft]  # there: the events, inside the transaction

Executors::

    rows_missing(state, cluster, Members) -> RowsMissing             # at hello
    take_states(state, [(cluster, StateColumns)...], now_s) -> StateEffects
    failed_states(state, Members, reason, now_s) -> StateColumns     # of runs whose rows cannot be made
    forget_cluster(state, cluster, now_s) -> StateEffects         # runs lost, jobs queued again
    preempt(state, slots, reason) -> slots                        # runs that the next round stops
    take_held_amounts(state, HeldAmounts, now_s, cluster) -> HeldAmounts     # pods resized in place; what is news
    take_nodes(state, cluster, PlacedNodes) -> PlacedNodes                   # where delegated clusters placed runs

Views::

    explain(state, handle, now_s) -> Explanation | None
    explain_by_nodes(explanation, definition, tables, clusters=...) -> Explanation
    standings(state, handles) -> {handle: (stage, reason)}        # and for lists:
    reason_by_nodes(reason, definition, tables, clusters=..., is_of_queue=...) -> WaitReason
    pending_handles(state) -> list[int]
    shares(state, now_s) -> PoolShares
    count_waiting(state) -> dict[WaitReason, int]
    last_choice_job_sets(state, cluster, now_s) -> by node
    last_round(state) -> RoundStatistics
    dump(state, now_s, seed=) -> Iterator[str]                    # JSON text in chunks
    check_invariants(state) -> None                               # InvariantViolation

Source: design section 5 and 6; seed 003.
"""

from argosy_core.scheduler.columns.messages import (
    CapacityColumns,
    ChangeRequestColumns,
    ClusterRuns,
    ClusterView,
    EndedJobs,
    JobColumns,
    JobSetView,
    Missing,
    QueueView,
    RoundStateColumns,
    SpecReference,
    StateColumns,
)
from argosy_core.scheduler.explain.causes import (
    ClusterStanding,
    explain_by_nodes,
    may_be_put_by_nodes,
    reason_by_nodes,
)
from argosy_core.scheduler.explain.dump import dump, last_round
from argosy_core.scheduler.explain.explanation import ClusterReason, Explanation, FilterCount
from argosy_core.scheduler.explain.outlook import QueueStanding, StartBand
from argosy_core.scheduler.explain.views import (
    count_waiting,
    explain,
    last_choice_job_sets,
    pending_handles,
    standings,
)
from argosy_core.scheduler.incoming.capacity import set_cluster, update_capacity
from argosy_core.scheduler.incoming.definitions import (
    class_definitions,
    define_classes,
    define_job_sets,
    queue_weights,
    remove_queues,
    set_queues,
)
from argosy_core.scheduler.incoming.ingest import (
    apply_ingested,
    draft_added,
    draft_ingest,
    give_up_placements,
    refuse_leases,
    rows_of,
)
from argosy_core.scheduler.incoming.intake import missing, note_ended, take_change_requests, take_jobs
from argosy_core.scheduler.incoming.orphans import cancel_orphans
from argosy_core.scheduler.incoming.unfit import fail_unfit, settle_missing
from argosy_core.scheduler.invariants import check_invariants
from argosy_core.scheduler.memory.capacity_bounds import MAX_NODES, MAX_TOTAL, check_growth
from argosy_core.scheduler.memory.held_amounts import take_held_amounts
from argosy_core.scheduler.memory.promised import PromisedStart
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import (
    ChangeRequestEffects,
    EndedMembers,
    ExecutorRows,
    LeaseEffects,
    LeasePlan,
    LoadedColumns,
    LoadedObjects,
    LoadedRuns,
    StateEffects,
)
from argosy_core.scheduler.outgoing.events import EventDraft
from argosy_core.scheduler.outgoing.refusals import Refusals
from argosy_core.scheduler.recovery import adopt_plan, placements_of, recover, rows_missing
from argosy_core.scheduler.rounds.plan import lease_columns
from argosy_core.scheduler.rounds.preparation import next_due_s
from argosy_core.scheduler.rounds.round import Round, begin_round
from argosy_core.scheduler.runs.outcomes import (
    failed_states,
    forget_cluster,
    silent_states,
    take_states,
    unheard_states,
)
from argosy_core.scheduler.runs.preempting import preempt
from argosy_core.scheduler.runs.returning import take_nodes
from argosy_core.scheduler.settings import RoundSettings
from argosy_core.scheduler.tuning import change_settings
from argosy_core.scheduler.turns.asking import hold_up
from argosy_core.scheduler.turns.shares import PoolShares, QueueShares, ResourceCapacity, ResourceShares, shares

__all__ = [
    "MAX_NODES",
    "MAX_TOTAL",
    "CapacityColumns",
    "ChangeRequestColumns",
    "ChangeRequestEffects",
    "ClusterReason",
    "ClusterRuns",
    "ClusterStanding",
    "ClusterView",
    "EndedJobs",
    "EndedMembers",
    "EventDraft",
    "ExecutorRows",
    "Explanation",
    "FilterCount",
    "JobColumns",
    "JobSetView",
    "LeaseEffects",
    "LeasePlan",
    "LoadedColumns",
    "LoadedObjects",
    "LoadedRuns",
    "Missing",
    "PoolShares",
    "PoolState",
    "PromisedStart",
    "QueueShares",
    "QueueStanding",
    "QueueView",
    "Refusals",
    "ResourceCapacity",
    "ResourceShares",
    "Round",
    "RoundSettings",
    "RoundStateColumns",
    "SpecReference",
    "StartBand",
    "StateColumns",
    "StateEffects",
    "adopt_plan",
    "apply_ingested",
    "begin_round",
    "cancel_orphans",
    "change_settings",
    "check_growth",
    "check_invariants",
    "class_definitions",
    "count_waiting",
    "define_classes",
    "define_job_sets",
    "draft_added",
    "draft_ingest",
    "dump",
    "explain",
    "explain_by_nodes",
    "fail_unfit",
    "failed_states",
    "forget_cluster",
    "give_up_placements",
    "hold_up",
    "last_choice_job_sets",
    "last_round",
    "lease_columns",
    "may_be_put_by_nodes",
    "missing",
    "next_due_s",
    "note_ended",
    "pending_handles",
    "placements_of",
    "preempt",
    "queue_weights",
    "reason_by_nodes",
    "recover",
    "refuse_leases",
    "remove_queues",
    "rows_missing",
    "rows_of",
    "set_cluster",
    "set_queues",
    "settle_missing",
    "shares",
    "silent_states",
    "standings",
    "take_change_requests",
    "take_held_amounts",
    "take_jobs",
    "take_nodes",
    "take_states",
    "unheard_states",
    "update_capacity",
]

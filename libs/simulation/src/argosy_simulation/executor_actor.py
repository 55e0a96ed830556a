"""An executor: carries out what the reconcile step says, and brings it what the leader and the cluster say.

Source: design section 5, "Sync" and "Fencing executors".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.placement import PlaceReply
from argosy_core.reconcile import (
    CreateResponses,
    Creates,
    DeleteResponses,
    Deletes,
    Fence,
    Instant,
    Observations,
    Reconciler,
    RunRows,
    settle_time_s,
)
from argosy_core.reconcile.rendering import DEFAULT_NAMESPACE
from argosy_core.reconcile.reports import REPORT_INTERVAL_S
from argosy_core.scheduler import ClusterRuns, ExecutorRows
from argosy_simulation.agenda import Process
from argosy_simulation.cluster_actor import ClusterActor
from argosy_simulation.cluster_changes import ObjectChange, Scope, uid_column
from argosy_simulation.context import Context
from argosy_simulation.network import Stream
from argosy_simulation.plan import CONFIG_MAP, POD

__all__ = ["ExecutorActor", "ExecutorHello"]

_KINDS: Final = (POD, CONFIG_MAP)
_LOOK_PERIOD_S: Final = 1.0
"""How often an executor without a session looks whether runs have been without a leader for too long."""
_CALL_COUNT: Final = 4
"""Create calls, and delete calls, under way at once."""


@dataclass(frozen=True, slots=True)
class ExecutorHello:
    """An executor's first message."""

    executor: ExecutorActor
    """Who speaks; stands for the cluster's name and the incarnation."""
    known: Members
    """Runs that need no row."""
    said_at_s: float
    """When it was said."""


class ExecutorActor(Process):
    """One executor process.

    Args:
        context: The world.
        cluster: Its cluster.
        incarnation: Grows with each start.
    """

    def __init__(self, context: Context, cluster: ClusterActor, incarnation: int) -> None:
        """List the cluster; dial the leader when that is done."""
        super().__init__(f"{cluster.name}/executor{incarnation}")
        self._context = context
        self.cluster = cluster
        self.incarnation = incarnation
        self.reconciler = Reconciler(
            keep_finished_s=context.settings.keep_finished_s,
            call_timeout_s=context.settings.call_timeout_s,
            settled_at_s=math.inf,
        )
        self.fence = Fence(context.agenda.now_s)
        self.stream: Stream | None = None
        self.isolated_until_us = 0
        """Until then no leader can be reached."""
        self._welcomed = False
        self._settles = False
        self._watching = False
        self._listing = False
        self._acting = False
        self._reporting = False
        self._dialling = False
        self._last_report_s = 0.0
        self._creating = 0
        self._deleting = 0
        self._wake_us = 0
        self._refused_count = 0
        self._list()

    def _now(self) -> Instant:
        return Instant(self._context.agenda.now_s, self._context.agenda.now_us)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        if not self._listing:
            self._listing = True
            started_s = self._context.agenda.now_s

            def take_listing(rows: list[tuple[object, ...]], position: int) -> None:
                self._take_listing(rows, position, started_s)

            self.cluster.list_all(self, Scope.OBJECTS, take_listing, has_strays=not self._watching)

    def _take_listing(self, rows: list[tuple[object, ...]], position: int, started_s: float) -> None:
        self._listing = False
        first = not self._watching
        self.cluster.watches.forget(self)
        self._watching = True
        self.reconciler.take_listing(self._observations(rows), started_s=started_s, now=self._now())
        if self.cluster.watches.begin(self, Scope.OBJECTS, self._take_changes, position) is None:
            self._list()
        if first:
            self._dial_soon(0.0)
        self._news()

    def _take_changes(self, rows: list[tuple[object, ...]]) -> None:
        self.reconciler.take_observed(self._observations(rows), self._now())
        self._news()

    def watch_ended(self, _scope: Scope) -> None:
        """List again: a watch that ended cannot be resumed."""
        self._list()

    # --- acting -------------------------------------------------------------------------------------------------------

    def _news(self) -> None:
        """See to it that the executor acts and reports soon."""
        if not self._acting:
            self._acting = True
            self._context.agenda.after(self._context.settings.gather_s, self, self._act)
        self._report_soon()

    def _act(self) -> None:
        self._acting = False
        if not self._watching:
            return
        if _CALL_COUNT in {self._creating, self._deleting}:
            return  # an answer, or its absence, leads here again
        now = self._now()
        may_act = self._may_act()
        actions = self.reconciler.next_actions(now, may_act=may_act, silent_s=self.fence.silent_s(now.monotonic_s))
        if actions.creates is not None:
            self._creating += 1
            self.cluster.create(self, actions.creates, self._take_created, is_superseded=self.is_superseded())
        if actions.deletes is not None:
            self._deleting += 1
            self.cluster.delete(self, actions.deletes, self._take_deleted)
        if actions.lookups is not None:
            self._look(actions.lookups)
        if actions.places is not None:
            self.cluster.place(self, actions.places, self._take_placed)
        if self.reconciler.wants_listing:
            self._list()
        self._report_soon()
        wake_s = self.reconciler.next_wake_s()
        if self.stream is None and self.reconciler.stops_when_cut_off:
            wake_s = min(now.monotonic_s + _LOOK_PERIOD_S, math.inf if wake_s is None else wake_s)
        if wake_s is not None and math.isfinite(wake_s):
            self._wake_at(round(wake_s * 1e6))

    def _wake_at(self, time_us: int) -> None:
        """Act at a moment, unless something makes it act before."""
        agenda = self._context.agenda
        if not agenda.now_us < self._wake_us <= time_us:
            self._wake_us = max(time_us, agenda.now_us + 1)
            agenda.at(self._wake_us, self, self._wake, self._wake_us)

    def _wake(self, due_us: int) -> None:
        if due_us == self._wake_us:
            self._wake_us = 0
            self._news()

    def _may_act(self) -> bool:
        """Return whether the fence is open; a session that stands was confirmed by its last heartbeat."""
        if self.stream is not None and self._welcomed and self.stream.open:
            self.fence.confirm(self._context.network.confirmed_s(self.stream))
        return self.fence.may_act(self._context.agenda.now_s)

    def _take_created(self, creates: Creates, answers: CreateResponses | None) -> None:
        self._creating -= 1
        if answers is None:
            count = len(creates)
            none = np.zeros(count, dtype=np.bool_)
            answers = CreateResponses(
                exists_column=none,
                refused_column=none,
                later_column=none,
                uid_column=np.zeros((count, 16), dtype=np.uint8),
                message_column=np.full(count, -1, dtype=np.int32),
                messages=(),
            )
        self.reconciler.take_create_responses(creates, answers, self._now())
        self._news()

    def _take_deleted(self, deletes: Deletes, answers: DeleteResponses | None) -> None:
        self._deleting -= 1
        if answers is None:
            none = np.zeros(len(deletes), dtype=np.bool_)
            answers = DeleteResponses(accepted_column=none, gone_column=none)
        self.reconciler.take_delete_responses(deletes, answers, self._now())
        self._news()

    def _look(self, lookups: Creates) -> None:
        started_s = self._context.agenda.now_s

        def take_found(lookups: Creates, found: list[ObjectChange] | None) -> None:
            rows = None if found is None else self._observations(list(found))
            self.reconciler.take_found(lookups, rows, started_s=started_s, now=self._now())
            self._news()

        self.cluster.find(self, lookups, take_found)

    def _take_placed(self, members: Members, reply: PlaceReply | None) -> None:
        self.reconciler.take_place_response(members, reply, self._now())
        self._news()

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _dial_soon(self, wait_s: float) -> None:
        if not self._dialling:
            self._dialling = True
            self._context.agenda.after(wait_s, self, self._dial)

    def _dial(self) -> None:
        self._dialling = False
        agenda, network = self._context.agenda, self._context.network
        if self.isolated_until_us > agenda.now_us:
            self._dial_soon((self.isolated_until_us - agenda.now_us) / 1e6)
            return
        leader = self._context.directory.find_leader()
        if leader is None:
            self._dial_soon(network.draw_s(self._context.settings.dial_s))
            return
        self._welcomed = False
        self.reconciler.restart_session()
        self.stream = network.dial(self, leader)
        hello = ExecutorHello(self, self.reconciler.known_runs(), agenda.now_s)
        network.tell(self.stream, "take_executor_hello", hello)

    def stream_closed(self, stream: Stream) -> None:
        """Dial again; the fence stays open for a while."""
        if stream is not self.stream:
            return
        self._refused_count = 0 if self._welcomed else self._refused_count + 1
        self.stream, self._welcomed = None, False
        self._news()
        if self._refused_count > 3 and self.is_superseded():
            self.alive = False
            self.cluster.watches.forget(self)
            return
        self._dial_soon(self._context.network.draw_s(self._context.settings.dial_s))

    def is_superseded(self) -> bool:
        """Return whether a newer executor of this cluster was bound."""
        return self._context.store.incarnations.get((self.cluster.name, "executor"), 0) > self.incarnation

    def take_welcome(self, stream: Stream, fence_s: float, said_at_s: float, *, is_first: bool) -> None:
        """Begin a session.

        Args:
            stream: On which stream.
            fence_s: How long to act after a confirmation.
            said_at_s: When the hello was said.
            is_first: No executor of the cluster was admitted before.
        """
        if stream is not self.stream:
            return
        self.fence.welcome(fence_s, said_at_s)
        if not self._settles:
            self._settles = True
            now = self._now()
            settled_at_s = settle_time_s(
                now.monotonic_s, fence_s=fence_s, call_timeout_s=self._context.settings.call_timeout_s
            )
            self.reconciler.settle_at(0.0 if is_first else settled_at_s, now)
        self._welcomed = True
        self._news()

    def take_rows(self, stream: Stream, rows: ExecutorRows) -> None:
        """Take runs that the leader wants."""
        if stream is self.stream:
            self.reconciler.take_rows(self._run_rows(rows), self._now())
            self._news()

    def _run_rows(self, rows: ExecutorRows) -> RunRows:
        job_index = self._context.job_index
        return RunRows(
            handle_column=rows.handle,
            ordinal_column=Members.of(rows.handle, rows.attempt, rows.member).ordinal,
            id_high_column=rows.id_high,
            spec_column=rows.spec,
            node_column=rows.node,
            metadata_column=rows.metadata_index,
            owner_column=rows.owner,
            seen_column=rows.seen,
            bodies=tuple(job_index.body_of(spec.hash) for spec in rows.specs),
            nodes=rows.nodes,
            metadata=rows.metadata,
            owners=rows.owners,
        )

    def take_stops(self, stream: Stream, stops: ClusterRuns) -> None:
        """Take runs whose objects shall not be."""
        if stream is self.stream:
            self.reconciler.take_stops(stops.members)
            self._news()

    def take_stored(self, stream: Stream, batch: int) -> None:
        """Take the leader's word that states up to a batch are stored."""
        if stream is self.stream:
            self.reconciler.acknowledge(batch)
            self._news()

    # --- reports ------------------------------------------------------------------------------------------------------

    def _report_soon(self) -> None:
        if not self._reporting and self._welcomed and not self.reconciler.all_stored:
            self._reporting = True
            now_s = self._context.agenda.now_s
            due_s = max(self._last_report_s + REPORT_INTERVAL_S, now_s + self._context.settings.report_wait_s)
            self._context.agenda.at(round(due_s * 1e6) + 2, self, self._report)

    def _report(self) -> None:
        self._reporting = False
        stream = self.stream
        if stream is None or not self._welcomed:
            return
        batch = self.reconciler.next_reports(self._now())
        while batch is not None:
            self._last_report_s = self._context.agenda.now_s
            self._context.network.tell(stream, "take_states", batch, repeatable=True)
            batch = self.reconciler.next_reports(self._now())

    def _observations(self, rows: list[tuple[object, ...]]) -> Observations:
        """Return changes as the reconcile step takes them."""
        changes = [row for row in rows if isinstance(row, ObjectChange) and row.is_labelled]
        times_s = [self._context.job_index.stop_after_s(change.handle) for change in changes]
        return _columns(changes, {place: time_s for place, time_s in enumerate(times_s) if time_s})


def _columns(changes: list[ObjectChange], stop_after_s: dict[int, float]) -> Observations:
    """Return changes as columns, with how long some may stay without a leader, by place."""
    return Observations(
        gone_column=np.array([change.gone for change in changes], dtype=np.bool_),
        handle_column=np.array([change.handle for change in changes], dtype=np.int64),
        ordinal_column=np.array([change.ordinal for change in changes], dtype=np.int64),
        object_column=np.array([change.position for change in changes], dtype=np.int16),
        kind_column=np.array([_KINDS.index(change.kind) for change in changes], dtype=np.int16),
        state_column=np.array([change.state for change in changes], dtype=np.int8),
        uid_column=uid_column([change.uid for change in changes]),
        time_us_column=np.array([change.time_us for change in changes], dtype=np.int64),
        exit_code_column=np.array([change.exit_code for change in changes], dtype=np.int32),
        failure_column=np.array([change.failure for change in changes], dtype=np.int8),
        message_column=np.full(len(changes), -1, dtype=np.int32),
        namespace_column=np.zeros(len(changes), dtype=np.int32),
        kinds=_KINDS,
        texts=(DEFAULT_NAMESPACE,),
        stop_after_s=stop_after_s,
    )

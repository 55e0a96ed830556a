"""A reconciler with a model cluster and a clock around it: rows in, answers and events back, reports stored.

Tests of the reconcile step say what the leader and the cluster do, and look at what the step makes of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np

from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import Actions, Instant, Reconciler, ReportBatch, RunRows
from argosy_core.reconcile.reports import REPORT_INTERVAL_S
from argosy_testkit.cluster_model import ClusterModel

__all__ = ["World", "body_of", "rows_of"]


def body_of(*kinds: str) -> bytes:
    """Return a body with objects of these kinds."""
    return json.dumps([{"kind": kind, "metadata": {"name": f"o{index}"}} for index, kind in enumerate(kinds)]).encode()


def rows_of(handles: list[int], *kinds: str, attempt: int = 1, seen: bool = False) -> RunRows:
    """Return rows of runs that share one bag and one node."""
    count = len(handles)
    zeros = np.zeros(count, dtype=np.int32)
    return RunRows(
        handle_column=np.array(handles, dtype=np.int64),
        ordinal_column=np.full(count, attempt),
        id_high_column=np.array(handles, dtype=np.int64) + 1000,
        spec_column=zeros,
        node_column=zeros,
        metadata_column=zeros - 1,
        owner_column=zeros,
        seen_column=np.full(count, seen),
        bodies=(body_of(*(kinds or ("Pod",))),),
        nodes=("node-1",),
        metadata=(),
        owners=(("queue", "set"),),
    )


@dataclass(slots=True)
class World:
    """Reconciler, cluster and clock."""

    reconciler: Reconciler = field(default_factory=lambda: Reconciler(keep_finished_s=60.0))
    """The step under test."""
    cluster: ClusterModel = field(default_factory=ClusterModel)
    """What exists."""
    now_s: float = 100.0
    """Monotonic seconds; the wall clock shows the same."""
    reports: list[ReportBatch] = field(default_factory=list)
    """Every batch that was taken."""

    @property
    def now(self) -> Instant:
        """The present."""
        return Instant(self.now_s, int(self.now_s * 1e6))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def give(self, handles: list[int], *kinds: str, attempt: int = 1, seen: bool = False) -> None:
        """Send rows."""
        self.reconciler.take_rows(rows_of(handles, *kinds, attempt=attempt, seen=seen), self.now)

    def stop(self, *handles: int, attempt: int = 1) -> None:
        """Send stops."""
        self.reconciler.take_stops(Members.of(handles, np.full(len(handles), attempt)))

    def actions(self, *, may_act: bool = True) -> Actions:
        """Return the next actions without doing them."""
        return self.reconciler.next_actions(self.now, may_act=may_act)

    def act(self, *, lost_answers: bool = False, lost_calls: bool = False) -> Actions:
        """Do the next actions and bring the answers back."""
        actions = self.actions()
        if actions.creates is not None:
            made = self.cluster.create(actions.creates, lost_answers=lost_answers, lost_calls=lost_calls)
            self.reconciler.take_create_responses(actions.creates, made, self.now)
        if actions.deletes is not None:
            gone = self.cluster.delete(actions.deletes, lost_answers=lost_answers, lost_calls=lost_calls)
            self.reconciler.take_delete_responses(actions.deletes, gone, self.now)
        if actions.lookups is not None:
            found = self.cluster.find(actions.lookups, time_us=self.now.wall_us) if not lost_answers else None
            self.reconciler.take_found(actions.lookups, found, started_s=self.now_s, now=self.now)
        return actions

    def watch(self) -> None:
        """Bring unread events."""
        self.reconciler.take_observed(self.cluster.read_events(time_us=self.now.wall_us), self.now)

    def list_all(self, *, started_s: float | None = None) -> None:
        """Bring a listing."""
        started = self.now_s if started_s is None else started_s
        listing = self.cluster.read_listing(time_us=self.now.wall_us)
        self.reconciler.take_listing(listing, started_s=started, now=self.now)

    def report(self, *, store: bool = True) -> list[tuple[int, int, str]]:
        """Take the next batch as (handle, position, state) and, unless told otherwise, store it."""
        self.pass_time(1.01 * REPORT_INTERVAL_S)
        batch = self.reconciler.next_reports(self.now)
        if batch is None:
            return []
        self.reports.append(batch)
        if store:
            self.reconciler.acknowledge(batch.number)
        columns = zip(
            batch.handle_column.tolist(), batch.object_column.tolist(), batch.state_column.tolist(), strict=True
        )
        return [(handle, position, ObjectState(state).name) for handle, position, state in columns]

    def settle(self, *, steps: int = 8) -> None:
        """Act, watch, and report until nothing more follows."""
        for _ in range(steps):
            self.act()
            if self.reconciler.wants_listing:
                self.list_all()
            self.watch()
            self.report()
            self.reconciler.check_invariants()

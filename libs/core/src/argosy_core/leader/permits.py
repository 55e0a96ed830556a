"""Placements between their commit and their lease: what plugins let go on, hold back, or turn away.

::

    committed -> asked (permit) -> called (pre-bind, off this machine) -> ready -> in the next plan
                   |   ^  |                     |
                   +---+  +-- denied, time-out, failed, cancelled: unreserve in reverse order, released, queued again

What is held back stays in flight: it counts as usage, and stands in every list of placements. A next leader knows
nothing of it, so its list releases it. Without such a plugin nothing here does anything.

Source: seed 002 "Permit", "Approving a Pod binding", "Reject", "Pre-Bind"; design section 5, "Plugins".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Float64s, Int8s, Int32s, Int64s, has_true, true_places
from argosy_core.framework import Framework, JobBatch, PermitBatch, Point, Verdicts, objects
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT
from argosy_core.leader.events import PluginAnswered, StatesReported
from argosy_core.leader.instructions import CallPlugin
from argosy_core.leader.term import Term
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import ClusterRuns, LeasePlan, give_up_placements, lease_columns
from argosy_core.scheduler.columns.codes import OBJECT_CANCELLED, OBJECT_FAILED, OBJECT_LOST, RUN_LEASED

__all__ = ["Permits"]

_ASKED: Final = 0
_PERMITTED: Final = 1
_CALLED: Final = 2
_READY: Final = 3
_DENIED: Final = 4
_ASK_AGAIN_S: Final = 1.0
"""Permit plugins are asked again about what waits at least so often, seconds: their answer may go by what others do."""
_MOST_CALLS: Final = 4
"""Calls of pre-bind plugins under way at once, those that ran into their time limit and have not come back included."""


@dataclass(slots=True)
class _Held:
    """n placements that are not published."""

    batch: PermitBatch
    """What plugins see of them."""
    since_s: Float64s
    """(n,) when each was committed, monotonic seconds."""
    deadline_s: Float64s
    """(n,) when each is turned away unless it has gone on, monotonic seconds."""
    stage: Int8s
    """(n,) how far each is."""
    call: Int64s
    """(n,) number of the pre-bind call that each is in; 0 for none."""
    line: Int64s
    """(n,) its line there."""
    text: npt.NDArray[np.object_]
    """(n,) what a plugin said of each."""
    retry_after_s: Float64s
    """(n,) when what is denied may be tried again, seconds."""

    def take(self, lines: npt.NDArray[np.integer] | Bools) -> _Held:
        """Return some of them."""
        columns = (getattr(self, field.name)[lines] for field in fields(self)[1:])
        return _Held(self.batch.take(lines), *columns)


class Permits:
    """The placements of one term that are held back.

    Args:
        term: The term.
        release: Has samplers told of placements that ended.
    """

    def __init__(self, term: Term, release: Callable[[Iterable[ClusterRuns]], None]) -> None:
        """Start with none."""
        self._term = term
        self._release = release
        self._is_used = self._framework.has(Point.PERMIT, Point.PRE_BIND)
        self._held: _Held | None = None
        self._published: PermitBatch | None = None
        self._calls: dict[int, CallPlugin] = {}
        self._call_count = 0
        self._asked_s = -math.inf

    @property
    def _framework(self) -> Framework:
        return self._term.state.decision_profile.framework

    @property
    def on_hold_count(self) -> int:
        """How many placements are held back."""
        return 0 if self._held is None else len(self._held.batch)

    def due_s(self) -> float:
        """Return when something is to be done, monotonic seconds; infinite if only news helps."""
        held = self._held
        if held is None:
            return math.inf
        stages = set(held.stage.tolist())
        if stages & {_READY, _DENIED} or (_PERMITTED in stages and len(self._calls) < _MOST_CALLS):
            return -math.inf
        again_s = self._asked_s + _ASK_AGAIN_S if _ASKED in stages else math.inf
        return min(again_s, float(held.deadline_s.min()))

    # --- before a plan is published -----------------------------------------------------------------------------------

    def admit(self, plan: LeasePlan, transaction: Transaction) -> LeasePlan:
        """Return a plan with the leases that may be published now, of its round and of earlier ones.

        Args:
            plan: What a round decided.
            transaction: Takes what becomes of placements that are turned away.
        """
        if not self._is_used or (self._held is None and not plan.handle.size):
            return plan
        state = self._term.state
        held = self._drop_gone(self._join(plan))
        self._drop_unwanted(held)
        self._ask(held)
        self._expire(held)
        self._begin_calls(held)
        self._turn_away(held.take(held.stage == _DENIED), transaction)
        ready, kept = held.batch.take(held.stage == _READY), held.take(held.stage < _READY)
        for handle in ready.handle.tolist():
            state.objections.pop(handle, None)
        state.objections.update(zip(kept.batch.handle.tolist(), kept.text.tolist(), strict=True))
        self._published = ready
        self._held = kept if len(kept.batch) else None
        return replace(plan, **lease_columns(state, state.live.slots(ready.handle)))

    def _join(self, plan: LeasePlan) -> _Held:
        """Return what is held back and what a plan would lease."""
        now_s, count = self._term.now.mono_s, plan.handle[plan.firsts].size
        fresh = _Held(
            batch=self._batch(self._term.state.live.slots(plan.handle[plan.firsts])),
            since_s=np.full(count, now_s),
            deadline_s=np.full(count, np.inf),
            stage=np.full(count, _ASKED, dtype=np.int8),
            call=np.zeros(count, dtype=np.int64),
            line=np.zeros(count, dtype=np.int64),
            text=objects([""] * count),
            retry_after_s=np.zeros(count),
        )
        if self._held is None:
            return fresh
        columns = (np.concatenate([getattr(self._held, f.name), getattr(fresh, f.name)]) for f in fields(fresh)[1:])
        return _Held(self._held.batch.join(fresh.batch), *columns)

    def _batch(self, slots: Int32s) -> PermitBatch:
        """Return placed jobs as plugins see them."""
        state, live = self._term.state, self._term.state.live
        jobs, clusters = state.job_batch(slots), live.cluster[slots].tolist()
        nodes = zip(clusters, live.node[slots].tolist(), strict=True)
        return PermitBatch(
            **{field.name: getattr(jobs, field.name) for field in fields(JobBatch)},
            attempt=live.attempt[slots].astype(np.int32),
            cluster=objects(state.clusters.names[cluster] for cluster in clusters),
            node=objects(state.clusters.nodes[cluster].names[node] for cluster, node in nodes),
            waited_s=np.zeros(slots.size),
            lines=np.arange(slots.size),
            verdicts=Verdicts(slots.size),
        )

    def _drop_gone(self, held: _Held) -> _Held:
        """Leave out jobs that ended meanwhile; whoever ended them has released their placements."""
        live = self._term.state.live
        slots = live.slots(held.batch.handle)
        there = (slots >= 0) & ((live.flags[slots] & IN_FLIGHT) != 0) & (live.attempt[slots] == held.batch.attempt)
        if not there.all():
            self._unreserve(held.batch.take(~there))
        return held.take(there)

    def _drop_unwanted(self, held: _Held) -> None:
        """Deny what is to be cancelled, or was placed on a cluster that is gone."""
        state = self._term.state
        slots = state.live.slots(held.batch.handle)
        gone = np.isin(state.live.cluster[slots], list(state.clusters.forgotten))
        self._deny(held, gone | ((state.live.flags[slots] & CANCEL_REQUESTED) != 0), "")

    def _deny(self, held: _Held, lines: Bools, text: str) -> None:
        held.stage[lines] = _DENIED
        held.text[lines] = text

    def _ask(self, held: _Held) -> None:
        """Ask the permit plugins about what is new and what waits, all together."""
        asked = true_places(held.stage == _ASKED)
        if not asked.size:
            return
        self._asked_s = now_s = self._term.now.mono_s
        batch = replace(held.batch.take(asked), waited_s=now_s - held.since_s[asked])
        verdicts = self._framework.permit(batch)
        timeout_s = np.minimum(verdicts.timeout_s, self._term.settings.permit_timeout_max_s)
        waits = verdicts.waits & ~verdicts.denied
        held.deadline_s[asked] = np.where(
            waits, held.since_s[asked] + timeout_s, now_s + self._term.settings.pre_bind_timeout_s
        )
        passed = _PERMITTED if self._framework.has(Point.PRE_BIND) else _READY
        held.stage[asked] = np.where(verdicts.denied, _DENIED, np.where(waits, _ASKED, passed))
        held.text[asked], held.retry_after_s[asked] = verdicts.texts, verdicts.retry_after_s

    def _expire(self, held: _Held) -> None:
        """Deny what has waited for too long."""
        now_s = self._term.now.mono_s
        for line in true_places((held.stage < _READY) & (held.deadline_s <= now_s)).tolist():
            said = held.text[line] or "pre-bind has not answered"
            held.text[line] = f"{said}; given up after {now_s - held.since_s[line]:.0f} s"
            held.stage[line] = _DENIED

    def _begin_calls(self, held: _Held) -> None:
        """Have the pre-bind plugins called, unless too many calls are under way."""
        lines = true_places(held.stage == _PERMITTED)
        if not lines.size or len(self._calls) >= _MOST_CALLS:
            return
        self._call_count += 1
        call = CallPlugin(
            number=self._call_count, framework=self._framework.only(Point.PRE_BIND), batch=held.batch.take(lines)
        )
        self._calls[call.number] = call
        self._term.say(call)
        held.stage[lines], held.call[lines], held.line[lines] = _CALLED, call.number, np.arange(lines.size)
        held.deadline_s[lines] = self._term.now.mono_s + self._term.settings.pre_bind_timeout_s

    def take_answer(self, event: PluginAnswered) -> None:
        """Take what pre-bind plugins answered; what was given up meanwhile stays so."""
        self._framework.add_faults(self._calls.pop(event.number).framework.take_faults())
        held = self._held
        if held is None:
            return
        mine = true_places(held.call == event.number)
        lines = held.line[mine]
        held.stage[mine] = np.where(event.verdicts.denied[lines], _DENIED, _READY)
        held.text[mine] = event.verdicts.texts[lines]
        held.retry_after_s[mine] = event.verdicts.retry_after_s[lines]

    # --- undoing ------------------------------------------------------------------------------------------------------

    def _turn_away(self, held: _Held, transaction: Transaction) -> None:
        """Have jobs wait in their queues again, and tell why."""
        batch, term = held.batch, self._term
        if not len(batch):
            return
        self._unreserve(batch)
        effects = give_up_placements(term.state, batch.handle, held.retry_after_s, term.now.db_s)
        transaction.add_events(effects.events)
        transaction.add_job_ends(effects.job_updates)
        self._release(effects.releases)
        term.totals["turned_away"] += len(batch)
        term.stories.note(term.now.db_us, "turned away by a plugin", batch.handle)
        still = term.state.live.slots(batch.handle) >= 0
        term.state.objections.update(zip(batch.handle[still].tolist(), held.text[still].tolist(), strict=True))

    def _unreserve(self, batch: PermitBatch) -> None:
        self._framework.unreserve(batch)

    def note_ingested(self) -> None:
        """Undo what was published for jobs that had ended by then."""
        published, self._published = self._published, None
        if published is not None and len(published):
            live = self._term.state.live
            slots = live.slots(published.handle)
            lost = (slots < 0) | (live.run_state[slots] == 0) | (live.attempt[slots] != published.attempt)
            if has_true(lost):
                self._unreserve(published.take(lost))

    def note_reports(self, reported: Iterable[StatesReported]) -> None:
        """Tell plugins of runs of which executors report for the first time; call before the reports are taken.

        A first report that says that the run has failed, or is gone, means that it came to nothing.
        """
        if not self._framework.has(Point.POST_BIND, Point.UNRESERVE):
            return
        state, live = self._term.state, self._term.state.live
        for states in reported:
            columns, cluster = states.columns, state.clusters.find(states.session.cluster)
            slots = live.slots(columns.handle)
            first = (slots >= 0) & (live.run_state[slots] == RUN_LEASED) & (live.attempt[slots] == columns.attempt)
            first &= live.cluster[slots] == (-1 if cluster is None else cluster)
            slots, which = np.unique(slots[first], return_index=True)
            is_there = ~np.isin(columns.state[first][which], (OBJECT_FAILED, OBJECT_CANCELLED, OBJECT_LOST))
            if has_true(is_there):
                self._framework.post_bind(self._batch(slots[is_there]))
            if not is_there.all():
                self._unreserve(self._batch(slots[~is_there]))

    def note_refused(self, handles: Int64s) -> None:
        """Undo what was done for leases that the database refused; call before they are taken back."""
        if self._is_used:
            slots = self._term.state.live.slots(handles)
            self._unreserve(self._batch(slots[(slots >= 0) & (self._term.state.live.cluster[slots] >= 0)]))

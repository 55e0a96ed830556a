"""A round: from waiting jobs to a lease plan.

::

    begin_round -> take_sample per cluster -> decide -> take_commits per cluster -> next_commits ... -> finish

Rule of today for jobs that do not fit: a class that fits nowhere is blocked, its jobs keep their places in the pending
order, and jobs of other classes that stand behind them may pass. Nothing is promised to the blocked ones yet. How many
of them may stand before others of their queue is bounded, in number and time (see `prioritise`).

Between the steps other events may change the pool: a job of the round that ended meanwhile is left out, and its
placement released. A placed run counts as in flight at once, so that it is in every list of placements from then on.

Source: design section 5, "Round"; 003 "Global prioritisation", "Scheduler architecture"; seed 000.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation
from argosy_core.job.interning import distinct
from argosy_core.job.live import BACKING_OFF, CANCEL_WISHED, IN_FLIGHT, PENDING, STOP_SENT
from argosy_core.placement import CandidatePool, decide
from argosy_core.scheduler.asking import blocked_classes, choose
from argosy_core.scheduler.commits import CommitStages, Placed
from argosy_core.scheduler.effects import LeasePlan
from argosy_core.scheduler.messages import (
    Bools,
    ClusterRuns,
    CommitQuestion,
    CommitReply,
    Int32s,
    Int64s,
    RoundStateColumns,
    Runs,
    SampleQuestion,
    SampleReply,
)
from argosy_core.scheduler.outcomes import back_off_s
from argosy_core.scheduler.prioritise import move_to_pending, unpark
from argosy_core.scheduler.rows import cluster_runs
from argosy_core.scheduler.state import ClassAnswer, PoolState, RoundStatistics

__all__ = ["Round", "begin_round", "has_work"]


def has_work(state: PoolState) -> bool:
    """Return whether a round could do anything: a job waits, or a stop is to be sent."""
    waiting = int(state.queues.queued_count.sum()) + state.pending.size
    return bool(waiting or state.unsent_stops or state.explained)


def begin_round(state: PoolState, now_s: float, rng: np.random.Generator) -> Round:
    """Move jobs to pending and return the round with its questions to samplers.

    Args:
        state: The pool.
        now_s: Now.
        rng: Draws the clusters.

    Raises:
        InvariantViolation: The last round was not finished.

    Complexity: O(pending + moved + classes x clusters) in NumPy, Python work per queue and per cluster asked.
    """
    if state.round is not None:
        raise InvariantViolation("a round was begun before the last one was finished")
    state.round_number += 1
    state.totals["rounds"] += 1
    state.end_back_offs(now_s)
    state.advance_flow(now_s)
    blocked = blocked_classes(state)
    moved_count = move_to_pending(state, blocked, now_s)
    return Round(state, _to_decide(state, blocked), rng, moved_count=moved_count, blocked=blocked)


def _to_decide(state: PoolState, blocked: Bools) -> Int32s:
    """Return the pending jobs that this round tries to place, in order.

    Not more than fill what is free with the look-ahead: whatever stands behind could not be placed anyhow.
    """
    live, settings = state.live, state.settings
    slots = state.pending
    slots = slots[~blocked[live.class_index[slots]] & ((live.flags[slots] & BACKING_OFF) == 0)]
    usage = state.job_usage(slots)
    before = np.cumsum(usage) - usage
    limit = int((1.0 + settings.look_ahead_ratio) * state.free_usage())
    inside: Bools = (before <= limit) | (np.arange(slots.size) < settings.look_ahead_min_count)
    chosen: Int32s = slots[inside][: settings.max_round_leases]
    return chosen


class Round:
    """One round in progress; made by `begin_round`, ended by `finish`."""

    def __init__(
        self, state: PoolState, slots: Int32s, rng: np.random.Generator, *, moved_count: int, blocked: Bools
    ) -> None:
        """Choose whom to ask.

        Args:
            state: The pool.
            slots: Pending jobs to place, in order.
            rng: Draws the clusters.
            moved_count: Jobs that became pending.
            blocked: Which classes fit nowhere now.
        """
        self._state = state
        self._slots = slots
        self._handles = state.live.handle[slots]
        classes, which = distinct(state.live.class_index[slots])
        wanted = np.bincount(which, minlength=classes.size)
        self._asking = choose(state, classes.astype(np.int32), wanted.astype(np.int32), rng)
        self._pool = CandidatePool(
            self._asking.class_ids,
            state.classes.vector[self._asking.classes],
            state.decision_profile,
            ports=state.classes.host_ports(self._asking.classes),
            definition=state.classes.definition,
            cluster_names=state.clusters.names,
        )
        self.questions: tuple[SampleQuestion, ...] = self._asking.questions(state)
        """What to ask the samplers; each answers with `take_sample`."""
        self._waiting = {question.cluster for question in self.questions}
        self.number = state.round_number
        """Number of the round."""
        self._stages: CommitStages | None = None
        self._told_count = state.clusters.told_count.copy()
        self._leased: list[npt.NDArray[np.int64]] = []
        self._releases: list[ClusterRuns] = []
        self._statistics = RoundStatistics(
            round_number=self.number,
            moved_count=moved_count,
            class_count=int(self._asking.classes.size),
            blocked_class_count=int(blocked.sum()),
            asked_cluster_count=len(self.questions),
        )
        state.round = self

    # --- sampling -------------------------------------------------------------------------------------------------

    def take_sample(self, cluster: str, reply: SampleReply | None) -> None:
        """Take a sampler's answer.

        Args:
            cluster: Its cluster; one that was not asked, or has answered, is ignored.
            reply: The answer; None if there was none in time. One of another incarnation is ignored.
        """
        state, asking = self._state, self._asking
        if cluster not in self._waiting:
            return
        self._waiting.discard(cluster)
        index = state.clusters.index(cluster)
        if reply is None or reply.incarnation != state.clusters.incarnation[index]:
            return
        if reply.incarnation != asking.incarnation[index]:
            return
        rows = asking.rows(index)
        self._pool.add(index, asking.class_ids[rows], reply)
        columns = len(asking.axis)
        state.clusters.free[index, :columns] = reply.total_free
        seen = asking.generation[index]
        if state.clusters.note_risen(index, reply.risen) and state.clusters.free_generation[index] == seen + 1:
            seen += 1  # the answer is from after the rise, and nothing else rose since the question
        self._note_answers(index, rows, reply, seen=int(seen))

    def _note_answers(self, index: int, rows: npt.NDArray[np.int64], reply: SampleReply, *, seen: int) -> None:
        """Remember which classes had no candidate there, and why; `seen` is the free generation of the answer."""
        state, asking = self._state, self._asking
        classes = asking.classes[rows]
        # The class may have been forgotten and its index given to another while the question was on its way.
        same = state.classes.class_id[classes] == asking.class_ids[rows]
        empty = (np.diff(reply.offset) == 0) & same
        complete = reply.complete != 0
        state.empty_generation[classes[empty & complete], index] = seen
        state.asked_complete.difference_update(classes[~empty | complete].tolist())
        state.asked_complete.update(classes[empty & ~complete].tolist())
        for row in np.flatnonzero(empty & complete).tolist():
            state.answers[int(classes[row]), index] = ClassAnswer(
                filters=reply.filters,
                rejections=tuple(reply.rejection[row].tolist()) if reply.rejection.size else (),
                examined_count=int(reply.examined[row]),
                nearest_miss=reply.nearest_misses[row] if reply.nearest_misses else "",
                round_number=self.number,
            )
        fitting = classes[~empty & same]
        unpark(state, fitting)
        if state.answers:
            for class_index in fitting.tolist():
                state.answers.pop((class_index, index), None)

    # --- decision and commit --------------------------------------------------------------------------------------

    def decide(self, rng: np.random.Generator) -> tuple[CommitQuestion, ...]:
        """Choose commit candidates and return the first stage of commits, one question per cluster; may be empty.

        Args:
            rng: Orders candidates of equal score.
        """
        live = self._state.live
        there = (live.handle[self._slots] == self._handles) & ((live.flags[self._slots] & PENDING) != 0)
        slots = self._slots[there]
        class_ids = self._state.classes.class_id[live.class_index[slots]]
        decision = decide(self._pool, class_ids, self._state.settings.commit_candidate_count, rng)
        self._stages = CommitStages(self._state, slots, decision)
        self._told_count = self._state.clusters.told_count.copy()
        self._statistics.decided_count = self._stages.decided_count
        return self._stages.next_questions(self.number)

    def take_commits(self, cluster: str, reply: CommitReply | None) -> None:
        """Take a sampler's answer to the present stage.

        Args:
            cluster: Its cluster; one that was not asked in this stage is ignored.
            reply: The answer; None if it is not known what became of the commits: they are released, and the runs are
                decided again in a later round.
        """
        index = self._state.clusters.find(cluster)
        if self._stages is None or index is None:
            return
        placed = self._stages.take(index, reply)
        if placed is not None:
            self._statistics.conflict_count += placed.conflict_count
            self._hold(placed)

    def _hold(self, placed: Placed) -> None:
        """Count placed runs as in flight from now on; release what cannot be."""
        state, stages = self._state, self._stages
        assert stages is not None
        live, index = state.live, placed.cluster
        rows, slots = placed.rows, stages.slots[placed.rows]
        node = state.clusters.nodes[index].translate(placed.sampler_node)
        there = (live.handle[slots] == stages.handle[rows]) & ((live.flags[slots] & PENDING) != 0) & (node >= 0)
        stages.give_up(rows[~there])
        self._release(index, np.concatenate([rows[~there], placed.lost]))
        rows, slots, node = rows[there], slots[there], node[there]
        state.count_pending(slots, -1)
        live.flags[slots] = (live.flags[slots] & np.uint8(0xFF ^ PENDING)) | np.uint8(IN_FLIGHT)
        live.cluster[slots] = index
        live.node[slots] = node
        live.attempt[slots] = stages.attempt[rows]
        live.failed_attempts[slots] = 0
        state.count_held(slots, 1)
        if state.clusters.told_count[index] == self._told_count[index]:
            state.clusters.free[index] -= state.classes.vector[live.class_index[slots]].sum(axis=0)
        # Else totals that came meanwhile may hold these placements already. Taken off twice, they would hide room until
        # the sampler speaks again, and a quiet one does not; if not taken off at all, its next word is under way.
        self._leased.append(rows)

    def _release(self, index: int, rows: npt.NDArray[np.int64]) -> None:
        """Have a cluster's sampler release runs."""
        if rows.size:
            stages = self._stages
            assert stages is not None
            name = self._state.clusters.names[index]
            self._releases.append(cluster_runs(name, stages.handle[rows], stages.attempt[rows]))

    def next_commits(self) -> tuple[CommitQuestion, ...]:
        """Begin the next stage and return its questions; empty once every run is placed or out of candidates.

        A cluster that has not answered the stage before counts as one whose answer is not known.
        """
        if self._stages is None:
            return ()
        self._close_stage()
        self._told_count = self._state.clusters.told_count.copy()
        return self._stages.next_questions(self.number)

    def _close_stage(self) -> None:
        """Take missing answers as not known."""
        if self._stages is not None:
            for index in self._stages.unanswered():
                self.take_commits(self._state.clusters.names[index], None)

    # --- the plan -------------------------------------------------------------------------------------------------

    def finish(self, now_s: float) -> LeasePlan:
        """End the round and return what it decided. Its leases stay in flight until `apply_ingested`.

        Args:
            now_s: Now.
        """
        state = self._state
        self._close_stage()
        state.advance_flow(now_s)
        failed_handle, reasons = self._count_failures(now_s)
        state.drop_from_pending()
        stages = self._stages
        rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self._leased]))
        slots = stages.slots[rows] if stages is not None else np.zeros(0, dtype=np.int32)
        if stages is not None:
            rows, slots = self._still_held(rows, slots)
        clusters, cluster = distinct(state.live.cluster[slots])
        nodes, node = distinct(state.live.cluster[slots].astype(np.int64) << 32 | state.live.node[slots])
        plan = LeasePlan(
            round_number=self.number,
            create_time_us=round(now_s * 1e6),
            handle=state.live.handle[slots],
            attempt=state.live.attempt[slots].astype(np.int32),
            cluster=cluster.astype(np.int32),
            node=node.astype(np.int32),
            clusters=tuple(state.clusters.names[index] for index in clusters.tolist()),
            nodes=tuple(state.clusters.nodes[pair >> 32].names[pair & 0xFFFFFFFF] for pair in nodes.tolist()),
            stops=_decide_stops(state),
            failed_handle=failed_handle,
            failed_reasons=reasons,
            round_state=round_state(state),
            releases=tuple(self._releases),
        )
        self._end(plan)
        return plan

    def _still_held(self, rows: npt.NDArray[np.int64], slots: Int32s) -> tuple[npt.NDArray[np.int64], Int32s]:
        """Return the placed runs whose job is still there, and release the others."""
        live, stages = self._state.live, self._stages
        assert stages is not None
        held = (live.handle[slots] == stages.handle[rows]) & ((live.flags[slots] & IN_FLIGHT) != 0)
        clusters = stages.placed_cluster(rows)
        for index in np.unique(clusters[~held]).tolist():
            self._release(index, rows[~held & (clusters == index)])
        return rows[held], slots[held]

    def _still_pending(self, rows: npt.NDArray[np.int64]) -> Int32s:
        """Return the slots of those runs whose job is there and pending."""
        live, stages = self._state.live, self._stages
        assert stages is not None
        slots = stages.slots[rows]
        pending: Int32s = slots[(live.handle[slots] == stages.handle[rows]) & ((live.flags[slots] & PENDING) != 0)]
        return pending

    def _count_failures(self, now_s: float) -> tuple[Int64s, tuple[str, ...]]:
        """Count failed attempts; return the jobs that have failed for good, and why."""
        state, stages = self._state, self._stages
        none = np.zeros(0, dtype=np.int64)
        if stages is None:
            return none, ()
        live, limit = state.live, state.settings.max_failed_attempts
        slots = self._still_pending(stages.refused())
        state.back_off_until(slots, now_s + back_off_s(state, np.ones(slots.size, dtype=np.int64)))
        slots = self._still_pending(stages.conflicted())
        live.failed_attempts[slots] += 1
        counts = live.failed_attempts[slots].astype(np.int64)
        self._statistics.failed_attempt_count = int(slots.size)
        again = counts < limit
        state.back_off_until(slots[again], now_s + back_off_s(state, counts[again]))
        over = slots[~again]
        if over.size:
            # In flight without a placement: not decided again, and gone once the plan is ingested.
            state.count_pending(over, -1)
            live.flags[over] = (live.flags[over] & np.uint8(0xFF ^ PENDING)) | np.uint8(IN_FLIGHT)
            state.count_held(over, 1)
        reason = f"placement failed {limit} times: every commit candidate was taken by others"
        return live.handle[over], (reason,) * int(over.size)

    def _end(self, plan: LeasePlan) -> None:
        """Write the statistics and let the next round begin."""
        state, statistics = self._state, self._statistics
        state.round = None
        statistics.leased_count = int(plan.handle.size)
        statistics.stage_count = self._stages.stage if self._stages else 0
        statistics.pending_count = int(state.pending.size)
        statistics.queued_count = int(state.queues.queued_count.sum())
        state.totals["conflicts"] += statistics.conflict_count
        state.totals["retries"] += statistics.failed_attempt_count
        state.statistics = statistics


def _decide_stops(state: PoolState) -> Runs:
    """Return the runs to stop now: those of wished jobs that are ingested; others wait for the next round."""
    live = state.live
    handles = np.fromiter(state.unsent_stops, dtype=np.int64, count=len(state.unsent_stops))
    slots = live.slots(handles)
    ready = (slots >= 0) & ((live.flags[slots] & (IN_FLIGHT | STOP_SENT)) == 0) & (live.run_state[slots] > 0)
    ready &= (live.flags[slots] & CANCEL_WISHED) != 0
    chosen = slots[ready]
    live.flags[chosen] |= STOP_SENT
    for handle in handles[ready | (slots < 0)].tolist():
        del state.unsent_stops[handle]
    return Runs(handle=live.handle[chosen], attempt=live.attempt[chosen].astype(np.int32))


def round_state(state: PoolState) -> RoundStateColumns:
    """Return what the next leader needs to continue: flows, pending order, failed attempts."""
    live, queues = state.live, state.queues
    rows = np.flatnonzero((queues.flow > 0) & (queues.queue_id > 0))
    attempted = state.pending[live.failed_attempts[state.pending] > 0]
    return RoundStateColumns(
        queue=queues.queue_id[rows],
        flow=queues.flow[rows],
        flow_time_us=round(state.flow_time_s * 1e6),
        pending_handle=live.handle[state.pending],
        attempted_handle=live.handle[attempted],
        failed_attempt=live.failed_attempts[attempted].astype(np.int32),
    )

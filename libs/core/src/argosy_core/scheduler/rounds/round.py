"""A round: from waiting jobs to a lease plan.

::

    begin_round -> take_sample per cluster -> decide -> take_commits per cluster -> next_commits ... -> finish

Jobs are tried one by one in fairness order where samplers said that they fit. A job is placed in that round, or stays
at its place in its queue; trying it changes nothing that anybody else sees, usage and flow rise when a placement is
committed. What fits nowhere is passed over until a sampler says otherwise (`waits`). The next jobs in fairness order
that have no room stay *pending*, at most `waiting_heads`: they are tried in every round, at their place in the order,
so that they get what comes free before any later job.

Between the steps other events may change the pool: a job of the round that ended meanwhile is left out, and its
placement released. A placed run counts as in flight at once, so that it is in every list of placements from then on.

Source: design section 5, "Round"; 003 "Global prioritisation", "Scheduler architecture"; seed 000.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s, are_among, has_true, run_sizes, true_places
from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.ids import grow
from argosy_core.job.tables.live import BACKING_OFF, IN_FLIGHT, PENDING
from argosy_core.nodes import ANY_NODE
from argosy_core.placement import (
    CandidatePool,
    CommitReply,
    CommitRequest,
    Decider,
    SampleReply,
    SampleRequest,
)
from argosy_core.queueing import Filled, walk
from argosy_core.scheduler.backfill.clearing import Clearing, find_clearing
from argosy_core.scheduler.backfill.freed import note_left
from argosy_core.scheduler.backfill.gathering import gather, gathered_entries, review_gathered
from argosy_core.scheduler.backfill.passing import Passing
from argosy_core.scheduler.backfill.promises import give_promises, note_heads, plan_asking, review_promises
from argosy_core.scheduler.columns.messages import ClusterRuns
from argosy_core.scheduler.memory.flows import advance_flows, raise_flows
from argosy_core.scheduler.memory.results import RoundStatistics
from argosy_core.scheduler.memory.run_members import add_members
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import LeasePlan
from argosy_core.scheduler.rounds.additions import Additions
from argosy_core.scheduler.rounds.answers import Answers
from argosy_core.scheduler.rounds.commits import CommitStages, Placed, kept_nodes
from argosy_core.scheduler.rounds.last_choices import find_last_choices
from argosy_core.scheduler.rounds.plan import decide_stops, lease_columns, round_state
from argosy_core.scheduler.rounds.preparation import prepare
from argosy_core.scheduler.runs.retrying import back_off_s
from argosy_core.scheduler.turns.asking import choose, count_wanted, find_placeable, find_unjudged
from argosy_core.scheduler.turns.fair_caps import caps_due_s, charge_starts
from argosy_core.scheduler.turns.growing import note_growth
from argosy_core.scheduler.turns.lease_rates import next_leases_s, take_leases
from argosy_core.scheduler.turns.limits import claims_within
from argosy_core.scheduler.turns.prioritise import LEAST_JOBS, choose_jobs, elect_heads, queues_of

__all__ = ["Round", "begin_round"]

_NOBODY: Final = np.zeros(0, dtype=np.int32)
_NOTHING: Final[frozenset[int]] = frozenset()


def begin_round(state: PoolState, now_s: float, rng: np.random.Generator) -> Round:
    """Choose the jobs to ask for and return the round with its requests to samplers. Nothing moves.

    Args:
        state: The pool.
        now_s: Now.
        rng: Draws the clusters.

    Raises:
        InvariantViolation: The last round was not finished.

    Complexity: O(jobs asked for + classes x clusters) in NumPy, Python work per queue whose turn may come and per
    cluster asked. Next to nothing if nothing changed since a round that found nothing to ask.
    """
    if state.round is not None:
        raise InvariantViolation("a round was begun before the last one was finished")
    return Round(state, rng, now_s=now_s, due_heads=prepare(state, now_s))


class Round:
    """One round in progress; made by `begin_round`, ended by `finish`."""

    def __init__(self, state: PoolState, rng: np.random.Generator, *, now_s: float, due_heads: Int32s) -> None:
        """Choose for which jobs to ask whom.

        Args:
            state: The pool.
            rng: Draws the clusters.
            now_s: Now.
            due_heads: Heads for which it is to be asked where they could start.
        """
        self._state = state
        self._now_s = now_s
        self._is_idle = state.idle_at == state.change_count
        self._seen_change = state.change_count
        self._rows: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._jobs = Filled(slots=_NOBODY, rows=self._rows, usage=self._rows, classes=_NOBODY)
        unjudged = for_promise = _NOBODY, np.zeros((0, len(state.clusters)), dtype=np.bool_)
        self._due_heads = due_heads
        self._held_claims = _NOBODY
        self._flow = state.queues.flow  # which is replaced when it moves, never changed
        if not self._is_idle:
            self._rows, self._jobs = choose_jobs(state)
            unjudged = find_unjudged(state)
            for_promise = plan_asking(state, due_heads, now_s)
        self._handles = state.live.handle[self._jobs.slots]
        classes, wanted = count_wanted(state, self._jobs.slots)
        heads = state.live.class_index[state.pending_slots()]
        self._asking = choose(
            state,
            classes,
            wanted,
            heads=heads,
            unjudged=unjudged,
            for_promise=for_promise,
            rng=rng,
        )
        self._clearing: Clearing | None = None
        for slot in due_heads[state.classes.are_gangs(state.live.class_index[due_heads])].tolist():  # one at most
            self._clearing = find_clearing(state, slot, now_s)
            givers = frozenset() if self._clearing is None else self._clearing.givers
            self._asking.kept = kept_nodes(state, {int(state.live.handle[slot]), *givers})
            self._asking.going = {} if self._clearing is None else self._clearing.members(state)
        self._pool = CandidatePool(
            self._asking.class_ids,
            state.classes.requests[self._asking.classes],
            state.decision_profile,
            ports=state.classes.host_ports(self._asking.classes),
            definition=state.classes.definition,
            cluster_names=state.clusters.names,
            devices=state.classes.axis.devices,
        )
        self.requests: tuple[SampleRequest, ...] = self._asking.requests(state)
        """What to ask the samplers; each answers with `take_sample`."""
        if not self.requests:
            state.idle_at = state.change_count
        self._waiting = {request.cluster for request in self.requests}
        self._delegated = {request.cluster for request in self.requests if request.is_delegated}
        self.number = state.round_number
        """Number of the round."""
        self._stages: CommitStages | None = None
        self._told_count = state.clusters.told_count.copy()
        self._answers = Answers(state, self._asking, number=self.number, now_s=now_s)
        self._leased: list[npt.NDArray[np.int64]] = []
        self._releases: list[ClusterRuns] = []
        self._statistics = RoundStatistics(round_number=self.number, class_count=int(self._asking.classes.size))
        self._additions = Additions(state, now_s)
        self._is_adding = bool(self._additions)
        state.round = self

    def note_woken(self, cluster: int, classes: Int32s) -> None:
        """Take note that a sampler's news came in the middle of this round: it outlasts the answer to its request."""
        self._answers.note_woken(cluster, classes)

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
        if cluster in self._delegated and reply.node.size and reply.node[-1] >= 0:
            names, row = state.clusters.nodes[index], int(reply.node[-1])
            names.by_sampler = grow(names.by_sampler, row + 1, -1)
            names.by_sampler[row] = names.intern([ANY_NODE])[0]
        self._pool.add(index, asking.class_ids[rows], reply)
        columns = len(asking.axis)
        state.clusters.free[index, :columns] = np.minimum(reply.total_free, state.clusters.total[index, :columns])
        self._answers.take(index, rows, reply)

    # --- decision and commit --------------------------------------------------------------------------------------

    def decide(self, rng: np.random.Generator) -> tuple[CommitRequest, ...]:
        """Choose commit candidates and return the first stage of commits, one request per cluster; may be empty.

        Args:
            rng: Orders candidates of equal score.
        """
        first = self._additions.requests(self.number)
        if not self.requests:
            return first
        state, live, jobs = self._state, self._state.live, self._jobs
        there = self._is_there(jobs.slots, self._handles) & ((live.flags[jobs.slots] & BACKING_OFF) == 0)
        there &= ~state.queues.cordoned[live.queue[jobs.slots]]
        there &= jobs.classes == live.class_index[jobs.slots]
        jobs = jobs.take(true_places(there))
        if state.promises.kinds:
            self._pool.merge(rng)
            note_left(state, self._pool, self._now_s)
            may_begin = claims_within(state, jobs.slots)
            self._held_claims = jobs.slots[~may_begin]
            jobs = jobs.take(true_places(may_begin))
        class_ids = state.classes.class_id.tolist()
        last_choices = find_last_choices(state, self._pool, rng)
        job_sets = state.job_sets.job_set_id[live.job_set[jobs.slots]].tolist() if last_choices else []
        kept = self._find_kept(rng)
        passing = self._find_passing(jobs, kept, rng)
        # What may pass a promise counts with every node that it may come to.
        decider = Decider(self._pool, state.settings.commit_candidate_count, rng, takes_best=passing is not None)

        def place(job: int, class_index: int, barred: frozenset[int] = _NOTHING) -> bool:
            class_id = class_ids[class_index]
            last = last_choices.get((job_sets[job], class_id), _NOTHING) if last_choices else _NOTHING
            is_placed = decider.place(class_id, last, barred)
            if barred and not is_placed:
                self._answers.hold_back(class_index)
            return is_placed

        def place_beside(job: int, kind: int) -> bool:
            assert passing is not None
            is_placed = place(job, passing.class_of[kind], passing.barred(kind))
            if is_placed:
                passing.take(kind, decider.chosen_last())
            return is_placed

        turns = queues_of(state, self._rows)
        # Gangs before them would take the room that is counted, be kept from the nodes, and so keep out the owner, too.
        owners = true_places(are_among(live.handle[jobs.slots], np.array([*state.promises.gathered], dtype=np.int64)))
        if passing is None:
            placed = walk(turns, jobs, place, owners, is_over=lambda: self._pool.is_full)
        else:
            placed = walk(turns, passing.jobs, place_beside, owners)
        has_none = np.ones(jobs.slots.size, dtype=np.bool_)
        has_none[placed] = False
        self._answers.exhaust(jobs.classes[has_none].tolist())
        promised = {state.promises.gathered[handle].cluster for handle in kept}
        self._answers.note_waits(self._pool.faults, promised | (passing.clusters if passing is not None else set()))
        self._stages = CommitStages(state, jobs.slots[placed], decider.decision())
        self._told_count = state.clusters.told_count.copy()
        self._statistics.decided_count = self._stages.decided_count
        self._stages.stage = int(self._is_adding)
        return first or self._stages.next_requests(self.number)

    def _find_passing(self, jobs: Filled, kept: dict[int, frozenset[int]], rng: np.random.Generator) -> Passing | None:
        """Return what guards promised nodes among the candidates; None if there are none."""
        if not self._state.promises.standing and not kept:
            return None
        self._pool.merge(rng)
        passing = Passing(self._state, self._pool, jobs, self._now_s, kept=kept)
        return passing if passing.entries or kept else None

    def _find_kept(self, rng: np.random.Generator) -> dict[int, frozenset[int]]:
        """Return the entries of the candidates that are kept for gangs, by handle."""
        if not self._state.promises.gathered:
            return {}
        self._pool.merge(rng)
        return gathered_entries(self._state, self._pool)

    def _is_there(self, slots: Int32s, handles: Int64s) -> npt.NDArray[np.bool_]:
        """Return which jobs still wait."""
        there: npt.NDArray[np.bool_] = self._state.live.handle[slots] == handles
        return there & self._state.stage_is_queued(slots)

    def take_commits(self, cluster: str, reply: CommitReply | None) -> None:
        """Take a sampler's answer to the present stage.

        Args:
            cluster: Its cluster; one that was not asked in this stage is ignored.
            reply: The answer; None if it is not known what became of the commits: they are released, and the runs are
                decided again in a later round.
        """
        index = self._state.clusters.find(cluster)
        if index is not None and self._is_adding:
            self._additions.take(index, reply)
            return
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
        rows, slots, first = placed.rows, stages.slots[placed.rows], placed.first
        nodes = state.clusters.nodes[index].translate(placed.sampler_node)
        there = self._is_there(slots, stages.handle[rows])
        is_known, sizes = nodes >= 0, None
        if nodes.size > rows.size:
            is_known, sizes = np.logical_and.reduceat(is_known, first), run_sizes(first, nodes.size)
        there &= is_known
        self._release(index, np.concatenate([rows[~there], placed.lost]))
        kept = there if sizes is None else np.repeat(there, sizes)
        member_slots = (slots if sizes is None else np.repeat(slots, sizes))[kept]
        rows, slots, node = rows[there], slots[there], nodes[first[there]]
        state.count_queued(slots, -1)
        live.flags[slots] = (live.flags[slots] & np.uint8(0xFF ^ PENDING)) | np.uint8(IN_FLIGHT)
        live.cluster[slots] = index
        live.node[slots] = node
        live.attempt[slots] = stages.attempt[rows]
        live.failed_attempts[slots] = 0
        if state.attempted:
            for handle in live.handle[slots].tolist():
                state.attempted.pop(handle, None)
        state.count_held(slots, 1)
        if member_slots.size > slots.size or state.classes.elastic:
            add_members(state, member_slots, placed.number[kept], nodes[kept])
        raise_flows(state)
        if state.clusters.told_count[index] == self._told_count[index]:
            state.clusters.free[index] -= state.job_vectors(slots).sum(axis=0)
        # Else totals that came meanwhile may hold these placements already. Taken off twice, they would hide room until
        # the sampler speaks again, and a quiet one does not; if not taken off at all, its next word is under way.
        self._leased.append(rows)

    def _release(self, index: int, rows: npt.NDArray[np.int64]) -> None:
        """Have a cluster's sampler release runs."""
        if rows.size:
            stages = self._stages
            assert stages is not None
            name = self._state.clusters.names[index]
            self._releases.append(ClusterRuns(cluster=name, members=stages.members(rows).distinct()))

    def next_commits(self) -> tuple[CommitRequest, ...]:
        """Begin the next stage and return its requests; empty once every run is placed or out of candidates.

        A cluster that has not answered the stage before counts as one whose answer is not known.
        """
        was_adding, self._is_adding = self._is_adding, False
        if was_adding:
            self._additions.close()
        if self._stages is None:
            return ()
        self._close_stage()
        self._told_count = self._state.clusters.told_count.copy()
        return self._stages.next_requests(self.number)

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
        added, releases = self._additions.finish()
        advance_flows(state, now_s)
        self._elect()
        self._promise(now_s)
        failed_handle, reasons = self._count_failures(now_s)
        stages = self._stages
        rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self._leased]))
        slots = stages.slots[rows] if stages is not None else np.zeros(0, dtype=np.int32)
        if stages is not None:
            rows, slots = self._still_held(rows, slots)
        charge_starts(state, slots, self._flow)
        take_leases(state, slots, now_s)
        state.caps.due_s = min(caps_due_s(state, now_s), next_leases_s(state))
        plan = LeasePlan(
            round_number=self.number,
            create_time_us=round(now_s * 1e6),
            **lease_columns(state, slots),
            stops=decide_stops(state),
            failed_handle=failed_handle,
            failed_reasons=reasons,
            round_state=round_state(state),
            releases=(*self._releases, *releases),
            added=added,
        )
        self._end(plan)
        return plan

    def _elect(self) -> None:
        """Choose the waiting heads anew, unless nothing happened since they were chosen."""
        state = self._state
        if self.requests or not self._is_idle or state.change_count != self._seen_change:
            if self.requests:
                find_placeable(state)
                is_vain = not has_true(state.placeable) or self._would_only_claim()
                if is_vain and not (state.explained or find_unjudged(state)[0].size):
                    state.idle_at = state.change_count  # another round would find that there is nothing to ask
            elect_heads(state)
            if state.promises.is_choice_old:
                # Who was kept from a promised node was tried in this round: who is left without room can be told now.
                state.promises.is_choice_old = False
                state.change_count += 1

    def _would_only_claim(self) -> bool:
        """Return whether another round would ask again for those alone that their caps held back in this one.

        They have their turn when there is news: what a run of their queue leaves is told as room, or as its end.
        """
        state, slots = self._state, self._jobs.slots
        asked_all = slots.size < min(LEAST_JOBS, state.settings.max_round_leases)
        if not (self._held_claims.size and asked_all) or self._statistics.decided_count:
            return False
        others = self._jobs.classes[~np.isin(slots, self._held_claims)]
        return not has_true(state.placeable[others])

    def _promise(self, now_s: float) -> None:
        """Promise starts to the heads that it was asked for, and look when to ask next."""
        state = self._state
        if self._due_heads.size:
            leased = self._stages.slots[np.concatenate(self._leased)] if self._leased and self._stages else _NOBODY
            is_gang = state.classes.are_gangs(state.live.class_index[self._due_heads])
            singles, told = self._due_heads[~is_gang], self._answers.could_hold()
            give_promises(state, singles, told, leased=leased, now_s=now_s)
            gather(state, self._due_heads[is_gang], told, now_s, clearing=self._clearing)
            elect_heads(state)
        note_heads(state, now_s)
        review_promises(state, now_s)
        review_gathered(state, now_s)
        self._statistics.has_new_promises = state.promises.is_changed
        state.promises.is_changed = False

    def _still_held(self, rows: npt.NDArray[np.int64], slots: Int32s) -> tuple[npt.NDArray[np.int64], Int32s]:
        """Return the placed runs whose job is still there, and release the others."""
        live, stages = self._state.live, self._stages
        assert stages is not None
        held = (live.handle[slots] == stages.handle[rows]) & ((live.flags[slots] & IN_FLIGHT) != 0)
        clusters = stages.placed_cluster(rows)
        for index in () if held.all() else np.unique(clusters[~held]).tolist():
            self._release(index, rows[~held & (clusters == index)])
        return rows[held], slots[held]

    def _still_there(self, rows: npt.NDArray[np.int64]) -> Int32s:
        """Return the slots of those runs whose job still waits."""
        stages = self._stages
        assert stages is not None
        slots = stages.slots[rows]
        there: Int32s = slots[self._is_there(slots, stages.handle[rows])]
        return there

    def _count_failures(self, now_s: float) -> tuple[Int64s, tuple[str, ...]]:
        """Count failed attempts; return the jobs that have failed for good, and why."""
        state, stages = self._state, self._stages
        none = np.zeros(0, dtype=np.int64)
        refused, conflicted = (stages.refused(), stages.conflicted()) if stages is not None else (none, none)
        if not (refused.size or conflicted.size):
            return none, ()
        live, limit = state.live, state.settings.max_failed_attempts
        slots = self._still_there(refused)
        state.back_off_until(slots, now_s + back_off_s(state, np.ones(slots.size, dtype=np.int64)))
        slots = self._still_there(conflicted)
        live.failed_attempts[slots] += 1
        state.attempted.update(dict.fromkeys(live.handle[slots].tolist()))
        counts = live.failed_attempts[slots].astype(np.int64)
        self._statistics.failed_attempt_count = int(slots.size)
        again = counts < limit
        state.back_off_until(slots[again], now_s + back_off_s(state, counts[again]))
        over = slots[~again]
        if over.size:
            # In flight without a placement: not decided again, and gone once the plan is ingested.
            state.count_queued(over, -1)
            live.flags[over] = (live.flags[over] & np.uint8(0xFF ^ PENDING)) | np.uint8(IN_FLIGHT)
            state.count_held(over, 1)
            raise_flows(state)
        reason = f"placement failed {limit} times: every commit candidate was taken by others"
        return live.handle[over], (reason,) * int(over.size)

    def _end(self, plan: LeasePlan) -> None:
        """Write the statistics and let the next round begin."""
        state, statistics = self._state, self._statistics
        state.round = None
        if state.classes.elastic and state.extras.due_s == math.inf:
            note_growth(state, self._now_s)
        statistics.leased_count = int(plan.handle.size)
        statistics.pending_count = int(state.pending_slots().size)
        statistics.queued_count = int(state.queues.queued_count.sum()) - statistics.pending_count
        state.totals["conflicts"] += statistics.conflict_count
        state.totals["retries"] += statistics.failed_attempt_count
        state.statistics = statistics

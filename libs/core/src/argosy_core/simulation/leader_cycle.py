"""A leader's cycle: take what arrived, run a round, publish, ingest, store, again.

::

    note_news -> begin -> (sample) -> (decide, commit ...) -> finish -> publish -> ingest -> writer -> go_on

Every arrow in brackets takes messages there and back, so anything may happen meanwhile. A cycle begins when there is
news, when jobs are left that a further round may place, or when a back-off ends; while there is nothing to try, time
passes for free.

Source: design section 5, "Take changes", "Round", "Ingest".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from argosy_core.errors import StateConflict
from argosy_core.scheduler import (
    ClusterRuns,
    ClusterView,
    CommitReply,
    EndedJobs,
    LeaseEffects,
    LeasePlan,
    Refusals,
    Round,
    SampleReply,
    WishColumns,
    apply_ingested,
    begin_round,
    define_job_sets,
    draft_ingest,
    forget_cluster,
    join_states,
    missing,
    next_due_s,
    note_ended,
    refuse_leases,
    set_cluster,
    take_jobs,
    take_states,
    take_wishes,
)
from argosy_core.scheduler import define_classes as define_scheduling_classes
from argosy_core.scheduler.messages import Int64s
from argosy_core.simulation.durable import Transaction
from argosy_core.simulation.leader_desk import Reported
from argosy_core.simulation.network import Stream

if TYPE_CHECKING:
    from argosy_core.simulation.leader_actor import LeaderActor

__all__ = ["NOTHING_REFUSED", "LeaderCycle"]

NOTHING_REFUSED: Final = np.zeros(0, dtype=np.int64)


class LeaderCycle:
    """The cycle of one leader.

    Args:
        leader: The leader.
    """

    def __init__(self, leader: LeaderActor) -> None:
        """Start idle."""
        self._leader = leader
        self._context = leader.context
        self.log_position = 0
        """Position up to which the log is ingested."""
        self.unstored: set[int] = set()
        """Jobs whose lease is taken in here and not stored yet."""
        self._busy = False
        self._due = False
        self._has_news = False
        self._waits_for_room = False
        self._held: set[int] = set()
        self._round: Round | None = None
        self._awaited: set[str] = set()
        self._stage = 0
        """0 while sampling, then the stage of commits."""
        self.refusals = Refusals()
        """Leases that the store refused."""
        self._draft = Transaction()
        self._next_draft = Transaction()
        self._reported: list[Reported] = []
        self._stops: list[ClusterRuns] = []
        self._next_try_us = 0

    # --- when to begin ------------------------------------------------------------------------------------------------

    def note_news(self) -> None:
        """Take note that something arrived that a round should see."""
        if self._busy or not self._leader.serving:
            self._has_news = True
        elif not self._due:
            self._due = True
            self._context.agenda.after(self._context.settings.round_window_s, self._leader, self._begin)

    def _retry_at(self, time_us: int) -> None:
        """Begin at a moment unless news comes before."""
        agenda = self._context.agenda
        if agenda.now_us < self._next_try_us <= time_us:
            return
        self._next_try_us = max(time_us, agenda.now_us + 1)
        agenda.at(self._next_try_us, self._leader, self._retry, self._next_try_us)

    def _retry(self, due_us: int) -> None:
        if due_us == self._next_try_us:
            self._next_try_us = 0
            self.note_news()

    def go_on(self) -> None:
        """Take note that the writer has room again."""
        if self._waits_for_room and self._leader.writer.has_room:
            self._waits_for_room = False
            self._end_cycle()

    def _end_cycle(self) -> None:
        """Be ready for the next cycle, and see when it is."""
        self._busy = False
        if self._has_news:
            self._has_news = False
            self.note_news()
        agenda = self._context.agenda
        due_s = next_due_s(self._leader.state, agenda.now_s)
        if due_s <= agenda.now_s:
            self._retry_at(agenda.now_us + round(self._context.settings.round_period_s * 1e6))
        elif due_s < math.inf:
            self._retry_at(round(due_s * 1e6) + 1)

    # --- taking what arrived ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take what arrived and begin a round, if a round could do anything."""
        self._due = False
        self._busy = True
        self._has_news = False
        self._draft, self._next_draft = self._next_draft, Transaction()
        self.number(self._draft)
        self.take_changes(self._draft)
        self._take_reports()
        leader = self._leader
        if next_due_s(leader.state, self._context.agenda.now_s) > self._context.agenda.now_s:
            self._store(None)
            return
        self._round = begin_round(leader.state, self._context.agenda.now_s, leader.rng)
        self._context.counters["rounds"] += 1
        self._sample(self._round)

    def take_changes(self, draft: Transaction) -> None:
        """Take every change that can be read, in order of ids."""
        store = self._context.store
        for change_id in sorted(store.changes):
            if change_id in self._held:
                continue
            self._held.add(change_id)
            draft.change_ids.append(change_id)
            change = store.changes[change_id]
            if isinstance(change, str):
                self.forget(change, draft)
            elif isinstance(change, WishColumns):
                self._take_wishes(change, draft)
            else:
                self._take_jobs(change, draft)

    def _take_jobs(self, rows: Int64s, draft: Transaction) -> None:
        """Take accepted jobs, after reading what they refer to."""
        state, context = self._leader.state, self._context
        handles = context.book.handles(rows).tolist()
        columns = context.book.columns(
            rows,
            np.array([context.store.jobs[handle].submit_time_us for handle in handles], dtype=np.int64),
            context.book.plan.priority[rows],
        )
        lacking = missing(state, columns)
        if lacking.class_ids:
            define_scheduling_classes(state, {key: context.book.definitions[key] for key in lacking.class_ids})
        self._define_job_sets(lacking.job_set_ids)
        draft.events.append(take_jobs(state, columns, context.agenda.now_s).events)

    def _define_job_sets(self, job_set_ids: tuple[int, ...]) -> None:
        numbers = {key: self._context.store.event_numbers.get(key, 0) for key in job_set_ids}
        views = self._context.book.job_set_views(numbers)
        define_job_sets(self._leader.state, views, self._context.agenda.now_s)

    def _take_wishes(self, wishes: WishColumns, draft: Transaction) -> None:
        """Take wishes; jobs that ended without this leader having held them get their event all the same."""
        state, now_s = self._leader.state, self._context.agenda.now_s
        effects = take_wishes(state, wishes, now_s)
        draft.events.append(effects.events)
        draft.job_ends.append(effects.job_updates)
        draft.priorities.append(effects.job_priorities)
        for runs in effects.releases:
            self._leader.desk.release(runs)
        strange = effects.unknown_ended
        if strange.size:
            book = self._context.book
            rows = np.array([book.index(handle) for handle in strange.tolist()], dtype=np.int64)
            job_set = book.plan.job_set[rows].astype(np.int64) + 1
            self._define_job_sets(tuple(sorted(set(job_set.tolist()))))
            ended = EndedJobs(handle=strange, id_high=strange * 7, job_set=job_set)
            draft.events.append(note_ended(state, ended, reason=wishes.reason, now_s=now_s))

    def forget(self, cluster: str, draft: Transaction) -> None:
        """Take the runs of a cluster for lost, unless it has come back since somebody declared it gone."""
        state, leader = self._leader.state, self._leader
        if cluster not in self._context.store.forgotten:
            return
        link = leader.desk.samplers.get(cluster)
        incarnation = 0 if link is None else link.incarnation
        set_cluster(
            state, ClusterView(name=cluster, connected=link is not None and link.ready, incarnation=incarnation)
        )
        effects = forget_cluster(state, cluster, self._context.agenda.now_s)
        draft.objects.append(effects.object_updates)
        draft.run_ends.append(effects.run_updates)
        draft.job_ends.append(effects.job_updates)
        draft.events.append(effects.events)
        leader.desk.release(effects.releases)
        self._context.counters["requeued"] += effects.requeued_count

    def _take_reports(self) -> None:
        """Take what executors reported, that of each cluster at once."""
        leader, draft = self._leader, self._draft
        self._reported = leader.desk.take_inbox()
        by_cluster: dict[str, list[Reported]] = {}
        for reported in self._reported:
            by_cluster.setdefault(reported.link.cluster, []).append(reported)
        for cluster, parts in by_cluster.items():
            columns = join_states([part.columns for part in parts])
            effects = take_states(leader.state, cluster, columns, self._context.agenda.now_s)
            draft.objects.append(effects.object_updates)
            draft.run_ends.append(effects.run_updates)
            draft.job_ends.append(effects.job_updates)
            draft.events.append(effects.events)
            leader.desk.release(effects.releases)
            self._stops.append(effects.stops)
            self._context.counters["requeued"] += effects.requeued_count
            self._context.counters["stale"] += effects.stale_count

    # --- the round ----------------------------------------------------------------------------------------------------

    def _sample(self, round_: Round) -> None:
        """Ask the samplers of the round, all at once."""
        leader, network = self._leader, self._context.network
        self._stage = 0
        self._awaited = set()
        for question in round_.questions:
            link = leader.desk.samplers.get(question.cluster)
            if link is None or not link.ready:
                round_.take_sample(question.cluster, None)
                continue
            self._awaited.add(question.cluster)
            classes = leader.desk.unseen_classes(link, question.class_ids.tolist())
            sampler = link.sampler
            network.send(link.stream, sampler, sampler.answer_sample, link.stream, leader.epoch, question, classes)
        self._await_answers()

    def _await_answers(self) -> None:
        """Go on when nobody is awaited, at the latest when the time is up."""
        if not self._awaited:
            self._go_to_next_stage()
            return
        if self._context.network.is_calm:
            return  # every answer will come
        self._context.agenda.after(
            self._context.settings.answer_timeout_s, self._leader, self._give_up_waiting, self._number, self._stage
        )

    @property
    def _number(self) -> int:
        return self._round.number if self._round is not None else 0

    def _give_up_waiting(self, number: int, stage: int) -> None:
        if self._awaited and number == self._number and stage == self._stage:
            self._context.counters["unanswered"] += len(self._awaited)
            for cluster in sorted(self._awaited):
                self.lose_sampler(cluster)

    def lose_sampler(self, cluster: str) -> None:
        """Take note that no answer will come from a cluster."""
        if self._round is None or cluster not in self._awaited:
            return
        self._awaited.discard(cluster)
        if self._stage:
            self._round.take_commits(cluster, None)
        else:
            self._round.take_sample(cluster, None)
        if not self._awaited:
            self._go_to_next_stage()

    def _cluster_of(self, stream: Stream) -> str | None:
        """Return the awaited cluster whose session a stream is."""
        for cluster, link in self._leader.desk.samplers.items():
            if link.stream is stream:
                return cluster if cluster in self._awaited else None
        return None

    def take_sample(self, stream: Stream, number: int, reply: SampleReply) -> None:
        """Take a sampler's answer; one that nobody awaits is dropped."""
        cluster = self._cluster_of(stream)
        if cluster is None or self._round is None or number != self._number or self._stage:
            return
        self._awaited.discard(cluster)
        self._round.take_sample(cluster, reply)
        if not self._awaited:
            self._go_to_next_stage()

    def take_commit(self, stream: Stream, number: int, stage: int, reply: CommitReply) -> None:
        """Take the outcome of commits; one that nobody awaits is dropped."""
        cluster = self._cluster_of(stream)
        if cluster is None or self._round is None or number != self._number or stage != self._stage:
            return
        self._awaited.discard(cluster)
        self._round.take_commits(cluster, reply)
        if not self._awaited:
            self._go_to_next_stage()

    def _go_to_next_stage(self) -> None:
        """Ask the samplers to place what is left, or finish."""
        round_, leader, network = self._round, self._leader, self._context.network
        assert round_ is not None
        questions = round_.decide(leader.rng) if self._stage == 0 else round_.next_commits()
        if not questions:
            self._finish(round_)
            return
        self._stage += 1
        self._awaited = set()
        for question in questions:
            link = leader.desk.samplers.get(question.cluster)
            if link is None or not link.ready:
                round_.take_commits(question.cluster, None)
                continue
            self._awaited.add(question.cluster)
            sampler = link.sampler
            network.send(
                link.stream,
                sampler,
                sampler.answer_commit,
                link.stream,
                leader.epoch,
                question,
                repeatable=True,
            )
        self._await_answers()

    # --- publish, ingest, store ---------------------------------------------------------------------------------------

    def _finish(self, round_: Round) -> None:
        """End the round and publish what it decided."""
        context, leader = self._context, self._leader
        plan = round_.finish(context.agenda.now_s)
        self._round = None
        context.counters["leases"] += int(plan.handle.size)
        for runs in plan.releases:
            leader.desk.release(runs)
        if not plan.has_news:
            self._store(None)
            return
        context.agenda.after(context.network.draw_s(context.settings.transaction_s), context.store, self._append, plan)

    def _append(self, plan: LeasePlan) -> None:
        """Let the log take a plan, unless its leader died before it was sent."""
        context, leader = self._context, self._leader
        if not leader.alive and context.network.happens(0.5):
            return
        delay_s = context.network.draw_s(context.settings.transaction_s)
        try:
            position = context.store.append(leader.epoch, plan)
        except StateConflict:
            context.agenda.after(delay_s, leader, leader.give_up)
            return
        context.agenda.after(delay_s, leader, self._published, plan, position)

    def _published(self, plan: LeasePlan, position: int) -> None:
        """Ingest what was published."""
        self._store(self.ingest(plan, self._draft, position))

    def ingest(self, plan: LeasePlan, draft: Transaction, position: int) -> LeaseEffects:
        """Put the rows of a plan into a transaction, and take them in."""
        state = self._leader.state
        draft.new_runs, draft.new_objects = draft_ingest(state, plan)
        effects = apply_ingested(state, plan, NOTHING_REFUSED, self._context.agenda.now_s)
        draft.job_ends.append(effects.job_updates)
        draft.events.append(effects.events)
        draft.log = (self.log_position, position)
        draft.round_state = plan.round_state
        self.log_position = position
        return effects

    def _store(self, effects: LeaseEffects | None) -> None:
        """Put the cycle's transaction in line; what follows it waits for the commit."""
        leader, draft, reported = self._leader, self._draft, self._reported
        stops, self._reported = self._stops, []
        self._stops = []
        if effects is not None:
            for runs in effects.releases:
                leader.desk.release(runs)

        leased = [handle for rows in effects.rows for handle in rows.handle.tolist()] if effects is not None else []
        self.unstored.update(leased)

        def follow(refused: Int64s) -> None:
            self.unstored.difference_update(leased)
            self._held.difference_update(draft.change_ids)
            for states in reported:
                leader.desk.acknowledge(states)
            if refused.size:
                self.take_back(refused)
            self._send_leases(effects, refused)
            for stop in stops:
                leader.desk.send_stops(stop)

        leader.writer.put(None if draft.is_empty() else draft, follow)
        if leader.writer.has_room:
            self._end_cycle()
        else:
            self._waits_for_room = True

    def _send_leases(self, effects: LeaseEffects | None, refused: Int64s) -> None:
        """Send executors the rows of leases that are stored, and the plan's stops."""
        if effects is None:
            return
        desk = self._leader.desk
        for rows in effects.rows:
            desk.send_rows(rows.without(refused) if refused.size else rows)
        for stop in effects.stops:
            desk.send_stops(stop)

    def number(self, draft: Transaction) -> None:
        """Give a transaction its place among those of this leader; events go into it from now on."""
        draft.refusals, draft.number = self.refusals, self.refusals.begin_draft()

    def take_back(self, refused: Int64s) -> None:
        """Take back leases that the database refused; what follows goes with the next cycle."""
        effects = refuse_leases(self._leader.state, refused, self._context.agenda.now_s)
        self.refusals.note_taken_back(refused)
        self._next_draft.events.append(effects.events)
        self._next_draft.job_ends.append(effects.job_updates)
        for runs in effects.releases:
            self._leader.desk.release(runs)
        self.note_news()

"""A leader: one epoch of a pool, from the taken epoch to its end.

It drives the machine of `argosy_core.leader` in virtual time: what the world says becomes events, and instructions
become messages, transactions and appends that take their time.

Source: design section 5.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final

from argosy_core.arrays import Int64s
from argosy_core.errors import InvariantViolation, StateConflict
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.leader import LeaderMachine, Phase
from argosy_core.leader.events import (
    AmountsHeld,
    Bound,
    CapacityTold,
    ChangesRead,
    CommitAnswered,
    EndsRead,
    Event,
    Loaded,
    MarkerPublished,
    Moment,
    NodesChosen,
    PluginAnswered,
    Published,
    ReadRecord,
    RecordsRead,
    Role,
    SampleAnswered,
    SamplerReady,
    Session,
    SessionLost,
    StatesReported,
    Stored,
    Tick,
)
from argosy_core.leader.instructions import (
    CallPlugin,
    Close,
    Instruction,
    Listen,
    Load,
    NoteExcess,
    Publish,
    PublishMarker,
    ReadChanges,
    ReadRecords,
    SendCordons,
    SendWeights,
    Serve,
    Store,
    Warn,
)
from argosy_core.leader.rounds import ROUND_GIVEN_UP
from argosy_core.placement import CommitReply, SampleReply
from argosy_core.reconcile import ReportBatch
from argosy_core.scheduler import CapacityColumns, LeasePlan, PoolState
from argosy_simulation.agenda import Process
from argosy_simulation.changes import held_jobs, read_changes
from argosy_simulation.context import Context
from argosy_simulation.executor_actor import ExecutorActor, ExecutorHello
from argosy_simulation.leader_words import LeaderWords
from argosy_simulation.network import Stream
from argosy_simulation.peers import Peer, Peers, state_columns
from argosy_simulation.sampler_actor import SamplerActor

__all__ = ["LeaderActor"]

_AWAITING: Final = (Phase.SAMPLING, Phase.COMMITTING)


class LeaderActor(Process):
    """One leadership.

    Args:
        context: The world.
        epoch: Its epoch, already the store's.
    """

    FORESEEN: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of the machine that worlds make on purpose; any other ends the world, and is a fault found."""

    def __init__(self, context: Context, epoch: int) -> None:
        """Begin to take over."""
        super().__init__(f"leader{epoch}")
        self.context = context
        self.epoch = epoch
        self.machine = LeaderMachine(
            "default",
            epoch,
            settings=context.settings.leader,
            rng=context.generator(1, epoch),
            decision_profile=context.settings.leader.round.make_profile(context.settings.make_plugins()),
        )
        self.serving = False
        """Whether sessions are taken."""
        self._peers = Peers(context.network)
        self._publishing: Publish | None = None
        self._stores: deque[Store] = deque()
        self._is_storing = False
        self._has_unread_changes = self._looks_for_ends = False
        self._timer_us = 0
        words = LeaderWords(epoch, self._peers, context.network, context.settings.fence_s)
        self._carry_out: dict[type, Callable[[Any], None]] = {
            **words.by_instruction(),
            PublishMarker: lambda _: self._later(self._append_marker),
            Load: lambda _: self._later(self._load),
            ReadChanges: lambda _: self._later(self._read_all_changes),
            ReadRecords: lambda instruction: self._later(self._read_records, instruction.after),
            Serve: self._serve,
            Publish: self._publish,
            Store: self._put_store,
            SendCordons: lambda _: None,
            SendWeights: lambda _: None,
            Listen: self._listen,
            Close: self._close,
            CallPlugin: lambda call: self._later(self._call_plugin, call),
            NoteExcess: lambda _: None,
            Warn: self._warn,
        }
        self._do(self.machine.start(self._now()))

    @property
    def state(self) -> PoolState:
        """The pool's memory."""
        return self.machine.state

    @property
    def is_idle(self) -> bool:
        """Whether it leads, and everything that it has decided is stored."""
        return self.serving and self.machine.is_at_rest

    def give_up(self) -> None:
        """End: the epoch is over."""
        if self.alive:
            self.alive = False
            self.context.counters.update(self.machine.totals)
            self.context.counters["placements held back when a leader ended"] += self.machine.on_hold_count
            self.context.network.end_all(self)
            self.context.directory.leader_died(self, self.epoch)

    # --- the machine --------------------------------------------------------------------------------------------------

    def _now(self) -> Moment:
        agenda = self.context.agenda
        return Moment(agenda.now_s, agenda.now_us)

    def feed(self, event: Event) -> None:
        """Tell the machine of something, and carry out what it says."""
        try:
            instructions = self.machine.handle(event, self._now())
        except self.FORESEEN:
            # As a server does: what it was about is stored as suspect, and the term ends.
            self._end_with_suspects()
            return
        self._do(instructions)
        if self._has_unread_changes and self.serving and self.machine.budget().changes:
            self._has_unread_changes = False
            self.feed(self._changes())
        self._look_for_ends()
        self._set_timer()

    def _look_for_ends(self) -> None:
        """Read in a while what has become of jobs that only the database knows, if others wait for some."""
        if self.serving and not self._looks_for_ends and self.machine.unsettled():
            self._looks_for_ends = True
            self.context.agenda.after(1.0, self, self._read_ends)

    def _read_ends(self) -> None:
        self._looks_for_ends = False
        self.feed(EndsRead(states=self.context.store.states(self.machine.unsettled())))

    def _warn(self, warn: Warn) -> None:
        """Tell of a round that failed, which is a fault found.

        Raises:
            InvariantViolation: One did, and not because the world makes errors on purpose.
        """
        if warn.text == ROUND_GIVEN_UP and not self.FORESEEN:
            raise InvariantViolation(warn.subject)

    def _end_with_suspects(self) -> None:
        self.context.counters["terms ended by an input"] += 1
        with contextlib.suppress(StateConflict):
            self.context.store.note_suspects(self.epoch, self.machine.blamed)
        self.give_up()

    def _do(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            self._carry_out[type(instruction)](instruction)

    def _later(self, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Do something after a transaction's time."""
        delay_s = self.context.network.draw_s(self.context.settings.transaction_s)
        self.context.agenda.after(delay_s, self, action, *arguments)

    def _set_timer(self) -> None:
        """See to it that time passes for the machine when something of it is due."""
        due_s = self.machine.due_s()
        if due_s is None or (self.machine.phase in _AWAITING and self.context.network.is_calm):
            return  # in a calm world every answer will come
        due_us = max(int(due_s * 1e6) + 1, self.context.agenda.now_us + 1)
        if not self._timer_us or due_us < self._timer_us:
            self._timer_us = due_us
            self.context.agenda.at(due_us, self, self._tick, due_us)

    def _tick(self, due_us: int) -> None:
        if due_us != self._timer_us:
            return
        self._timer_us = 0
        due_s = self.machine.due_s()
        if due_s is not None and due_s * 1e6 > due_us:
            self._set_timer()  # what was due has been done meanwhile
        else:
            self.feed(Tick())

    def _call_plugin(self, call: CallPlugin) -> None:
        self.feed(PluginAnswered(number=call.number, verdicts=call.framework.pre_bind(call.batch)))

    # --- the database and the log -------------------------------------------------------------------------------------

    def _append_marker(self) -> None:
        try:
            position = self.context.store.append(self.epoch, None)
        except StateConflict:
            self.give_up()
            return
        self._later(self.feed, MarkerPublished(position=position))

    def _load(self) -> None:
        """Read everything open."""
        context = self.context
        columns = context.store.load()
        class_ids = sorted(set(columns.jobs.class_id.tolist()))
        self.feed(
            Loaded(
                columns=columns,
                classes={class_id: context.job_index.definitions[class_id] for class_id in class_ids},
                queues=tuple(context.job_index.queues()),
                clusters=tuple(
                    context.store.cluster_settings(cluster)
                    for cluster in sorted({key[0] for key in context.store.incarnations})
                ),
                log_position=context.store.log_position,
                suspects=frozenset(context.store.suspects),
                held=held_jobs(context.store, context.job_index),
            )
        )

    def _changes(self) -> ChangesRead:
        return read_changes(self.context.store, self.context.job_index, self.machine)

    def _read_all_changes(self) -> None:
        self.feed(self._changes())

    def look_for_changes(self) -> None:
        """Read the changes that can be seen, now or as soon as the machine takes more."""
        self._has_unread_changes = not (self.serving and self.machine.budget().changes)
        if not self._has_unread_changes:
            self.feed(self._changes())

    def _read_records(self, after: int) -> None:
        records = self.context.store.log[after:]
        self.feed(
            RecordsRead(
                records=tuple(
                    ReadRecord(position=record.position, epoch=record.epoch, plan=record.plan) for record in records
                )
            )
        )

    def _serve(self, _: Serve) -> None:
        self.serving = True
        self._has_unread_changes = True  # what was committed since nothing more was found

    def _publish(self, publish: Publish) -> None:
        self._publishing = publish
        self._begin_append(0)

    def _begin_append(self, index: int) -> None:
        delay_s = self.context.network.draw_s(self.context.settings.transaction_s)
        self.context.agenda.after(delay_s, self.context.store, self._append, index)

    def _append(self, index: int) -> None:
        """Let the log take a record, unless its leader died before it was sent."""
        context, publish = self.context, self._publishing
        assert publish is not None
        if not self.alive and context.network.happens(0.5):
            return
        delay_s = context.network.draw_s(context.settings.transaction_s)
        try:
            position = context.store.append(self.epoch, publish.records[index])
        except StateConflict:
            context.agenda.after(delay_s, self, self.give_up)
            return
        context.agenda.after(delay_s, self, self._appended, publish.records[index], index, position)

    def _appended(self, record: LeasePlan, index: int, position: int) -> None:
        """Append the next record, if there is one; a leader that dies in between has published a part of its plan."""
        assert self._publishing is not None
        if record is not self._publishing.records[-1]:
            self.context.counters["plans in several records"] += not index
            self._begin_append(index + 1)
        else:
            self.feed(Published(position=position))

    def _put_store(self, store: Store) -> None:
        self._stores.append(store)
        self._store_next()

    def _store_next(self) -> None:
        if self._stores and not self._is_storing:
            self._is_storing = True
            delay_s = self.context.network.draw_s(self.context.settings.transaction_s)
            self.context.agenda.after(delay_s, self.context.store, self._commit, self._stores.popleft())

    def _commit(self, store: Store) -> None:
        """Let the database take a transaction, if the leader has not died before it was sent in full."""
        context = self.context
        if not self.alive and context.network.happens(0.5):
            return
        try:
            refused = context.store.apply(self.epoch, store.transaction)
        except StateConflict:
            context.agenda.after(context.network.draw_s(context.settings.message_s), self, self.give_up)
            return
        context.agenda.after(
            context.network.draw_s(context.settings.message_s), self, self._stored, store.number, refused
        )

    def _stored(self, number: int, refused: Int64s) -> None:
        self._is_storing = False
        self._store_next()
        self.feed(Stored(number=number, refused=refused))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def has_sessions(self, cluster: str) -> bool:
        """Return whether anybody of a cluster has a session."""
        return self._peers.has_any(cluster)

    def take_sampler_hello(self, stream: Stream, sampler: SamplerActor) -> None:
        """Take a sampler's first message."""
        self._later(self._bind_sampler, stream, sampler)

    def _bind_sampler(self, stream: Stream, sampler: SamplerActor) -> None:
        peer = self._bind(stream, sampler, Role.SAMPLER)
        if peer is not None:
            settings = self.context.store.cluster_settings(peer.session.cluster)
            self.feed(Bound(session=peer.session, settings=settings))

    def take_executor_hello(self, stream: Stream, hello: ExecutorHello) -> None:
        """Take an executor's first message."""
        self._later(self._bind_executor, stream, hello)

    def _bind_executor(self, stream: Stream, hello: ExecutorHello) -> None:
        cluster = hello.executor.cluster.name
        is_first = not self.context.store.incarnations.get((cluster, "executor"))
        peer = self._bind(stream, hello.executor, Role.EXECUTOR)
        if peer is not None:
            peer.said_at_s = hello.said_at_s
            settings = self.context.store.cluster_settings(cluster)
            self.feed(Bound(session=peer.session, settings=settings, known=hello.known, is_first=is_first))

    def _bind(self, stream: Stream, actor: SamplerActor | ExecutorActor, role: Role) -> Peer | None:
        """Bind a cluster's process; return it if its session may begin."""
        context, cluster = self.context, actor.cluster.name
        try:
            context.store.bind(self.epoch, cluster, role=role, incarnation=actor.incarnation)
        except StateConflict:
            context.network.close(stream, self)
            if context.store.epoch != self.epoch:
                self.give_up()
            return None
        return self._peers.begin(stream, actor, cluster, role) if stream.open else None

    def stream_closed(self, stream: Stream) -> None:
        """Tell of the session of a stream that ended."""
        peer = self._peers.at(stream)
        if peer is not None:
            self._peers.end(peer.session)
            self.feed(SessionLost(session=peer.session))

    def _close(self, close: Close) -> None:
        peer = self._peers.end(close.session)
        if peer is not None:
            self.context.network.close(peer.stream, self)

    def _hear(self, stream: Stream, tell: Callable[[Session], Event]) -> None:
        """Tell the machine of what a peer says, unless its session has ended."""
        peer = self._peers.at(stream)
        if peer is not None:
            self.feed(tell(peer.session))

    # --- samplers -----------------------------------------------------------------------------------------------------

    def take_capacity(self, stream: Stream, capacity: CapacityColumns) -> None:
        """Take what a sampler tells of its nodes."""
        self._hear(stream, lambda session: CapacityTold(session=session, columns=capacity))

    def take_held(self, stream: Stream, held: HeldAmounts) -> None:
        """Take what a sampler tells that members of runs hold."""
        self._hear(stream, lambda session: AmountsHeld(session=session, held=held))

    def take_nodes(self, stream: Stream, placed: PlacedNodes) -> None:
        """Take where a sampler placed what is leased to its cluster."""
        self._hear(stream, lambda session: NodesChosen(session=session, placed=placed))

    def take_ready(self, stream: Stream) -> None:
        """Take a sampler's word that it may be asked."""
        self._hear(stream, lambda session: SamplerReady(session=session))

    def take_sample(self, stream: Stream, number: int, reply: SampleReply) -> None:
        """Take a sampler's candidates."""
        self._hear(stream, lambda session: SampleAnswered(session=session, round_number=number, reply=reply))

    def take_commit(self, stream: Stream, number: int, stage: int, reply: CommitReply) -> None:
        """Take the outcome of commits."""
        self._hear(
            stream, lambda session: CommitAnswered(session=session, round_number=number, stage=stage, reply=reply)
        )

    # --- executors ----------------------------------------------------------------------------------------------------

    def _listen(self, listen: Listen) -> None:
        """Read an executor's states from now on, those that came meanwhile first."""
        peer = self._peers.get(listen.session)
        if peer is not None:
            peer.listening = True
            for batch in peer.unread:
                self.context.agenda.after(0.0, self, self.take_states, peer.stream, batch)
            peer.unread.clear()

    def take_states(self, stream: Stream, batch: ReportBatch) -> None:
        """Hand a batch of reported states to the machine, once it listens to that executor."""
        peer = self._peers.at(stream)
        if peer is None:
            return
        if peer.listening:
            self.feed(StatesReported(session=peer.session, batch=batch.number, columns=state_columns(batch)))
        else:
            peer.unread.append(batch)

"""A leader: one epoch of a pool, from the taken epoch to its end.

It publishes its marker, loads what is stored, ingests what the log still holds before the marker, takes sessions, and
runs cycles until it dies or finds that it leads no more.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

import numpy as np

from argosy_core.errors import StateConflict
from argosy_core.scheduler import (
    ClusterView,
    PoolState,
    adopt_plan,
    define_classes,
    define_job_sets,
    recover,
    set_cluster,
    set_queues,
)
from argosy_core.scheduler.messages import Int64s
from argosy_core.simulation.agenda import Process
from argosy_core.simulation.context import Context
from argosy_core.simulation.durable import LogRecord, Transaction
from argosy_core.simulation.leader_cycle import LeaderCycle
from argosy_core.simulation.leader_desk import LeaderDesk
from argosy_core.simulation.network import Stream
from argosy_core.simulation.writer import Writer

__all__ = ["LeaderActor"]


class LeaderActor(Process):
    """One leadership.

    Args:
        context: The world.
        epoch: Its epoch, already the store's.
    """

    def __init__(self, context: Context, epoch: int) -> None:
        """Begin to take over."""
        super().__init__(f"leader{epoch}")
        self.context = context
        self.epoch = epoch
        self.state = PoolState(context.settings.round)
        self.rng: np.random.Generator = context.generator(1, epoch)
        self._refused: list[Int64s] = []
        self.serving = False
        """Whether sessions are taken."""
        self.desk = LeaderDesk(self)
        self.writer = Writer(self)
        self.cycle = LeaderCycle(self)
        self._later(self._publish_marker)

    @property
    def is_idle(self) -> bool:
        """Whether it leads, and everything that it has decided is stored."""
        return self.serving and self.writer.is_idle

    def _later(self, action: object, *arguments: object) -> None:
        delay_s = self.context.network.draw_s(self.context.settings.transaction_s)
        self.context.agenda.after(delay_s, self, action, *arguments)  # type: ignore[arg-type]

    def _publish_marker(self) -> None:
        try:
            position = self.context.store.append(self.epoch, None)
        except StateConflict:
            self.give_up()
            return
        self._later(self._take_over, position)

    def _take_over(self, marker_position: int) -> None:
        """Load, take the changes that can be read, ingest what stands before the marker, and begin to serve."""
        context, state = self.context, self.state
        store = context.store
        self.cycle.log_position = store.log_position
        draft = self._load()
        # A record may lease a job whose submit no leader has stored events of.
        self.cycle.take_changes(draft)
        kept, highest_epoch = [], 0
        for record in store.log[store.log_position : marker_position]:
            if record.epoch >= highest_epoch:
                highest_epoch = record.epoch
                kept.append(record)
        for record in kept:
            self._ingest(record, draft)
            draft = Transaction()
        context.counters["jobs recovered"] += len(state.live)
        self.writer.put(None, lambda _: self._serve())

    def _serve(self) -> None:
        """Take back what the database refused of the records, and take sessions from now on."""
        self.serving = True
        if self._refused:
            self.cycle.take_back(np.concatenate(self._refused))
        self.cycle.note_news()

    def _load(self) -> Transaction:
        """Read everything open into memory; return what follows from that."""
        context, state = self.context, self.state
        loaded = context.store.load()
        define_classes(
            state, {key: context.book.definitions[key] for key in sorted(set(loaded.jobs.class_id.tolist()))}
        )
        set_queues(state, context.book.queues())
        define_job_sets(state, loaded.job_sets)
        for cluster in sorted({cluster for cluster, _ in context.store.incarnations}):
            set_cluster(state, ClusterView(name=cluster))
        effects = recover(state, loaded, context.agenda.now_s)
        draft = Transaction()
        draft.job_ends.append(effects.job_updates)
        draft.events.append(effects.events)
        return draft

    def _ingest(self, record: LogRecord, draft: Transaction) -> None:
        """Apply one record of an earlier leader."""
        if record.plan is not None:
            self.cycle.ingest(adopt_plan(self.state, record.plan), draft, record.position)
        else:
            draft.log = (self.cycle.log_position, record.position)
            self.cycle.log_position = record.position
        self.cycle.number(draft)
        self.writer.put(draft, self._refused.append)

    def stream_closed(self, stream: Stream) -> None:
        """Forget the session of a stream that ended."""
        self.desk.stream_closed(stream)

    def give_up(self) -> None:
        """End: the epoch is over."""
        if self.alive:
            self.alive = False
            self.context.network.end_all(self)
            self.context.directory.leader_died(self)

"""A leader's desk: sessions of samplers and executors come, speak and go.

Source: design section 5, "Sync", "Sampler session", "Fencing executors".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from argosy_core.errors import StateConflict
from argosy_core.reconcile import ReportBatch
from argosy_core.scheduler import (
    CapacityColumns,
    ClusterRuns,
    ClusterView,
    ExecutorRows,
    Runs,
    StateColumns,
    placements_of,
    rows_missing,
    set_cluster,
    update_capacity,
)
from argosy_core.simulation.executor_actor import ExecutorActor, ExecutorHello
from argosy_core.simulation.network import Stream
from argosy_core.simulation.sampler_actor import Classes, SamplerActor

if TYPE_CHECKING:
    from argosy_core.simulation.leader_actor import LeaderActor

__all__ = ["ExecutorLink", "LeaderDesk", "Reported", "SamplerLink"]


@dataclass(slots=True)
class SamplerLink:
    """A sampler's session."""

    stream: Stream
    sampler: SamplerActor
    ready: bool = False
    sent_classes: set[int] = field(default_factory=set)

    @property
    def cluster(self) -> str:
        """Name of its cluster."""
        return self.sampler.cluster.name

    @property
    def incarnation(self) -> int:
        """Incarnation of the sampler."""
        return self.sampler.incarnation


@dataclass(slots=True)
class ExecutorLink:
    """An executor's session."""

    stream: Stream
    executor: ExecutorActor
    started: bool = False
    """The comparison was sent; before it nothing is read."""
    unread: list[ReportBatch] = field(default_factory=list)

    @property
    def cluster(self) -> str:
        """Name of its cluster."""
        return self.executor.cluster.name

    @property
    def incarnation(self) -> int:
        """Incarnation of the executor."""
        return self.executor.incarnation


@dataclass(frozen=True, slots=True)
class Reported:
    """A batch of states that waits for a cycle."""

    link: ExecutorLink
    number: int
    columns: StateColumns


_Link = TypeVar("_Link", SamplerLink, ExecutorLink)


class LeaderDesk:
    """Sessions of one leader.

    Args:
        leader: The leader.
    """

    def __init__(self, leader: LeaderActor) -> None:
        """Start without sessions."""
        self._leader = leader
        self._context = leader.context
        self.samplers: dict[str, SamplerLink] = {}
        self.executors: dict[str, ExecutorLink] = {}
        self.inbox: list[Reported] = []

    def _admit(self, stream: Stream, link: SamplerLink | ExecutorLink, *, role: str) -> bool:
        """Bind a cluster's process; return whether its session may begin."""
        leader, context = self._leader, self._context
        try:
            context.store.bind(leader.epoch, link.cluster, role=role, incarnation=link.incarnation)
        except StateConflict:
            context.network.close(stream, leader)
            if context.store.epoch != leader.epoch:
                leader.give_up()
            return False
        return stream.open

    def _enter(self, links: dict[str, _Link], link: _Link) -> bool:
        """Make a session its cluster's live one; return False if a newer process holds one."""
        live = links.get(link.cluster)
        if live is not None and live.incarnation > link.incarnation:
            self._context.network.close(link.stream, self._leader)
            return False
        if live is not None:
            self._context.network.close(live.stream, self._leader)
        links[link.cluster] = link
        return True

    def _later(self, action: object, *arguments: object) -> None:
        """Do something after a transaction's time."""
        context = self._context
        delay_s = context.network.draw_s(context.settings.transaction_s)
        context.agenda.after(delay_s, self._leader, action, *arguments)  # type: ignore[arg-type]

    def stream_closed(self, stream: Stream) -> None:
        """Forget the session of a stream that ended."""
        for name, sampler in list(self.samplers.items()):
            if sampler.stream is stream:
                del self.samplers[name]
                self._show(sampler, connected=False)
                self._leader.cycle.lose_sampler(name)
        for name, executor in list(self.executors.items()):
            if executor.stream is stream:
                del self.executors[name]

    # --- samplers -----------------------------------------------------------------------------------------------------

    def greet_sampler(self, stream: Stream, sampler: SamplerActor) -> None:
        """Take a sampler's hello."""
        self._later(self._admit_sampler, stream, sampler)

    def _admit_sampler(self, stream: Stream, sampler: SamplerActor) -> None:
        link = SamplerLink(stream, sampler)
        cluster = link.cluster
        replaced = cluster in self.samplers
        if not self._admit(stream, link, role="sampler") or not self._enter(self.samplers, link):
            return
        self._show(link, connected=False)
        if replaced:
            self._leader.cycle.lose_sampler(cluster)
        leader = self._leader
        placements = placements_of(leader.state, cluster)
        classes = self.unseen_classes(link, placements.class_ids.tolist())
        send = self._context.network.send
        send(stream, sampler, sampler.take_welcome, stream, leader.epoch)
        send(stream, sampler, sampler.take_placements, stream, leader.epoch, placements, classes)

    def unseen_classes(self, link: SamplerLink, class_ids: list[int]) -> Classes:
        """Return the definitions of classes that a sampler does not have, and note that it has them now."""
        unseen = sorted(set(class_ids) - link.sent_classes)
        link.sent_classes.update(unseen)
        return tuple((class_id, self._context.book.definitions[class_id]) for class_id in unseen)

    def _show(self, link: SamplerLink, *, connected: bool) -> None:
        """Tell the scheduler how a cluster stands."""
        set_cluster(
            self._leader.state,
            ClusterView(name=link.cluster, connected=connected, incarnation=link.incarnation),
        )

    def _sampler_of(self, stream: Stream) -> SamplerLink | None:
        """Return the live session that a stream is."""
        return next((link for link in self.samplers.values() if link.stream is stream), None)

    def take_capacity(self, stream: Stream, capacity: CapacityColumns) -> None:
        """Take in what a cluster's nodes are."""
        link = self._sampler_of(stream)
        if link is not None:
            state = self._leader.state
            before = state.change_count
            update_capacity(state, link.cluster, capacity)
            # What is known already, because this leader took it or gave it back, is no news.
            if state.change_count != before:
                self._leader.cycle.note_news()

    def sampler_ready(self, stream: Stream) -> None:
        """From now on a cluster may be asked."""
        link = self._sampler_of(stream)
        if link is not None:
            link.ready = True
            self._show(link, connected=True)
            self._leader.cycle.note_news()

    def release(self, runs: ClusterRuns) -> None:
        """Tell a cluster's sampler of placements that ended; one without a session gets the full list when it comes."""
        link = self.samplers.get(runs.cluster)
        if link is not None and runs.handle.size:
            self._context.network.send(
                link.stream,
                link.sampler,
                link.sampler.take_release,
                link.stream,
                self._leader.epoch,
                runs,
                repeatable=True,
            )

    # --- executors ----------------------------------------------------------------------------------------------------

    def greet_executor(self, stream: Stream, hello: ExecutorHello) -> None:
        """Take an executor's hello."""
        self._later(self._admit_executor, stream, hello)

    def _admit_executor(self, stream: Stream, hello: ExecutorHello) -> None:
        executor = hello.executor
        link = ExecutorLink(stream, executor)
        context = self._context
        is_first = not context.store.incarnations.get((link.cluster, "executor"))
        if not self._admit(stream, link, role="executor") or not self._enter(self.executors, link):
            return
        welcome = partial(executor.take_welcome, is_first=is_first)
        context.network.send(stream, executor, welcome, stream, context.settings.fence_s, hello.said_at_s)
        # No row may be sent that a crash could take back.
        self._leader.writer.put(None, lambda _: self._send_missing(link, hello.known))

    def _send_missing(self, link: ExecutorLink, known: Runs) -> None:
        """Send what an executor lacks and what it shall stop; from now on its states are read."""
        if link.cluster not in self._leader.state.clusters.names:
            set_cluster(self._leader.state, ClusterView(name=link.cluster))
        missing = rows_missing(self._leader.state, link.cluster, known)
        # Leases taken in since the hello are not stored yet; their rows follow the commit, as to everybody.
        unstored = np.array(sorted(self._leader.cycle.unstored), dtype=np.int64)
        # What a predecessor has deleted already must not be made again for want of the word that it goes.
        self.send_stops(missing.stops, link)
        self.send_rows(missing.rows.without(unstored), link)
        link.started = True
        for batch in link.unread:
            self._put(link, batch)
        link.unread.clear()

    def send_rows(self, rows: ExecutorRows, link: ExecutorLink | None = None) -> None:
        """Send rows to a cluster's executor; one without a session asks for what it lacks when it comes."""
        link = link or self.executors.get(rows.cluster)
        if link is not None and rows.handle.size:
            executor = link.executor
            self._context.network.send(link.stream, executor, executor.take_rows, link.stream, rows, repeatable=True)

    def send_stops(self, stops: ClusterRuns, link: ExecutorLink | None = None) -> None:
        """Send runs to stop, behind the rows sent before."""
        link = link or self.executors.get(stops.cluster)
        if link is not None and stops.handle.size:
            executor = link.executor
            self._context.network.send(link.stream, executor, executor.take_stops, link.stream, stops, repeatable=True)

    def acknowledge(self, reported: Reported) -> None:
        """Tell an executor that its states are stored."""
        stream, executor = reported.link.stream, reported.link.executor
        self._context.network.send(stream, executor, executor.take_stored, stream, reported.number, repeatable=True)

    def take_states(self, stream: Stream, batch: ReportBatch) -> None:
        """Take states."""
        for link in self.executors.values():
            if link.stream is stream:
                if link.started:
                    self._put(link, batch)
                else:
                    link.unread.append(batch)

    def _put(self, link: ExecutorLink, batch: ReportBatch) -> None:
        self.inbox.append(Reported(link, batch.number, _state_columns(batch)))
        self._leader.cycle.note_news()

    def take_inbox(self) -> list[Reported]:
        """Take everything out of the inbox."""
        taken, self.inbox = self.inbox, []
        return taken


def _state_columns(batch: ReportBatch) -> StateColumns:
    """Return reports as the scheduler takes them."""
    return StateColumns(
        handle=batch.handle_column,
        attempt=batch.attempt_column,
        object_index=batch.object_column,
        state=batch.state_column,
        time_us=batch.time_us_column,
        exit_code=batch.exit_code_column,
        failure=batch.failure_column,
        message=batch.message_column,
        uid=np.ascontiguousarray(batch.uid_column).tobytes(),
        texts=batch.texts,
    )

"""The session handler: reads the leader's messages, and answers them from the session of the core; knows no streams.

Source: design section 5, "Sampler session"; section 7, invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from argosy.sampler.v1 import sampler_pb2
from argosy_core.framework import Framework
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.placement import CommitOutcome, NodeSampler, PlaceReply, SamplerSession, WaitReason
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS
from argosy_runtime.plugins import FaultReporter
from argosy_sampler.codec import (
    CapacityWriter,
    class_definitions,
    commit_response,
    held_amounts_message,
    moves_message,
    placed_runs_message,
    pod_sizes_message,
    read_commit,
    read_dropped_classes,
    read_placements,
    read_release,
    read_rules,
    read_sample,
    read_weights,
    sample_response,
)

__all__ = ["SessionHandler"]

_HELD_ANEW_S: Final = 60.0


class SessionHandler:
    """Answers the leader of one pool for one cluster.

    Args:
        names: Names of the cluster and the pool, for metrics.
        ledger: The cluster's ledger.
        pool: Number of the pool in the ledger.
        framework: Plugins of the sampling phase and of the commit.
        rng: Draws samples.
        monotonic: Clock in seconds for deadlines.
        log: Where epochs and lists are told.
        checks: Plugins that check placements for conflicts.
    """

    def __init__(  # noqa: PLR0913 - what a sampler is made of
        self,
        names: tuple[str, str],
        ledger: NodeLedger,
        *,
        framework: Framework,
        rng: np.random.Generator,
        monotonic: Callable[[], float],
        log: Logger,
        pool: int = 0,
        checks: Framework | None = None,
    ) -> None:
        """Start without a session and with epoch 0."""
        self.ledger = ledger
        self.capacity = CapacityWriter(ledger)
        """What to tell the leader of nodes."""
        self._session = SamplerSession(ledger, NodeSampler(ledger, framework, checks=checks), rng, pool=pool)
        self._names = names
        self._faults = [
            FaultReporter(one, names[0], log=log, monotonic=monotonic) for one in (framework, checks) if one is not None
        ]
        self._monotonic = monotonic
        self._pool = pool
        self._held_anew_s = 0.0
        self._sizes_told, self._sized_count = b"", 0
        self._log = log
        self.on_placed: Callable[[], None] = lambda: None
        """Called when there is something to tell with `tell_placed`."""

    def begin(self) -> sampler_pb2.Capacity | None:
        """Begin a new stream; return all nodes."""
        self._session.begin()
        self.capacity.start_over()
        self._held_anew_s = 0.0
        self._sizes_told, self._sized_count = b"", 0
        return self.capacity.next_message()

    def stop(self) -> None:
        """Answer nothing before another stream has brought a full list."""
        self._session.ready = False

    @property
    def ready(self) -> bool:
        """Return whether a full list was taken in on the present stream."""
        return self._session.ready

    @property
    def has_waiting(self) -> bool:
        """Return whether some class waits for capacity to rise."""
        return self._session.sampler.waiting_count > 0

    def tell_capacity(self, *, with_nodes: bool) -> sampler_pb2.Capacity | None:
        """Return what changed of the nodes, with the classes that fit by now; None if nothing did."""
        return self.capacity.next_message(with_nodes=with_nodes, fitting=self._session.sampler.take_fitting())

    def tell_held(self) -> list[sampler_pb2.HeldAmounts]:
        """Return what pods hold by now that are resized or have nodes of their own, if that changed.

        Now and then it is what all of them hold.
        """
        now_s = self._monotonic()
        if not self.ready or not (len(self.ledger.permits.pods) or self.ledger.classes.gangs):
            return []
        anew = now_s >= self._held_anew_s  # the leader heeds no word on runs that it has not yet stored
        if anew:
            self.ledger.pressure.forget_told(self._pool)
            self._held_anew_s = now_s + _HELD_ANEW_S
        held = self._session.take_permitted(anew=anew), self._session.take_whole_nodes(anew=anew)
        return [held_amounts_message(one) for one in held if one is not None]

    def place(self, members: Members) -> PlaceReply:
        """Choose nodes for members of runs that are leased to the cluster as a whole, as its executor asks.

        Raises:
            NotAllowedNow: The full list of placements has not come.
            InvalidRequest: A member stands twice.
        """
        try:
            reply = self._session.place(members)
        finally:
            self._report_faults()
        METRICS.delegated_placements.labels(*self._names).inc(sum(map(bool, reply.nodes)))
        METRICS.returned_placements.labels(*self._names).inc(sum(map(bool, reply.reasons)))
        self.on_placed()
        return reply

    def tell_placed(self) -> sampler_pb2.PlacedRuns | None:
        """Return where members are placed of which the leader is to be told; None if there are none."""
        if not self.ready:
            return None
        members, nodes = self._session.take_placed()
        return placed_runs_message(members, nodes) if nodes else None

    def tell_moves(self) -> sampler_pb2.Moves | None:
        """Return what pods are to be moved of which the leader was not told; None if there are none."""
        if not self.ready or not len(self.ledger.permits.pods):
            return None
        members = self.ledger.pressure.take_moves(self._pool)
        return moves_message(members) if len(members) else None

    @property
    def has_new_sizes(self) -> bool:
        """Whether scaled pods came since sizes were told: what they began with is of interest."""
        return self.ready and self.ledger.permits.pods.added_count != self._sized_count

    def tell_sizes(self) -> sampler_pb2.PodSizes | None:
        """Return all scaled pods as they are, for people; None if that was told."""
        if not self.ready:
            return None
        self._sized_count = self.ledger.permits.pods.added_count
        sizes = self.ledger.pod_sizes(self._pool)
        message = pod_sizes_message(sizes)
        word = message.SerializeToString(deterministic=True)
        if word == self._sizes_told or not (len(sizes) or self._sizes_told):
            return None
        self._sizes_told = word
        return message

    def welcome(self, epoch: int, incarnation: int) -> None:
        """Take the epoch of the stream's leader, and the number that this process has there.

        Raises:
            StateConflict: A higher epoch was seen: this leader is not the leader any more.
        """
        if epoch > self._session.epoch:
            self._log.info("leader", epoch=epoch, incarnation=incarnation)
        self._session.check_epoch(epoch)
        self._session.sampler.incarnation = incarnation

    def answer(self, message: sampler_pb2.SessionResponse) -> list[sampler_pb2.SessionRequest]:
        """Return what to say to a message of the leader, in order.

        Raises:
            StateConflict: The message comes from a lower epoch.
            NotAllowedNow: The leader asks before it has sent its full list of placements.
            InvalidRequest: The message cannot be read.
        """
        try:
            return self._answer(message)
        finally:
            self._report_faults()

    def _report_faults(self) -> None:
        for reporter in self._faults:
            reporter.report()

    def _answer(self, message: sampler_pb2.SessionResponse) -> list[sampler_pb2.SessionRequest]:
        kind = message.WhichOneof("message")
        if kind == "commit":
            return [sampler_pb2.SessionRequest(commit=self._commit(message.commit))]
        if kind == "sample":
            return [sampler_pb2.SessionRequest(sample=self._sample(message.sample))]
        if kind == "release":
            self._release(message.release)
        elif kind == "placements":
            return self._take_placements(message.placements)
        elif kind == "cordons":
            self._session.ledger.set_cordons(message.cordons.nodes)
        elif kind == "queue_weights":
            weights, rules = read_weights(message.queue_weights), read_rules(message.queue_weights.rules)
            self.ledger.permits.queues.tell(weights, pool=self._pool)
            self.ledger.take_rules(rules, self._pool)
        return []

    def _take_placements(self, message: sampler_pb2.PlacementList) -> list[sampler_pb2.SessionRequest]:
        self._session.define(class_definitions(message.classes))
        outcome = self._session.take_placements(read_placements(message), is_last=message.last)
        if outcome is None:
            return []
        self._log.info(
            "placements taken in",
            placement_count=self._session.ledger.placement_count,
            added_count=outcome.added_count,
            moved_count=outcome.moved_count,
            dropped_count=outcome.dropped_count,
        )
        ready = sampler_pb2.Ready(placement_count=self._session.ledger.placement_count)
        answers = [sampler_pb2.SessionRequest(ready=ready)]
        capacity = self.capacity.next_message()
        if capacity is not None:
            answers.insert(0, sampler_pb2.SessionRequest(capacity=capacity))
        self.on_placed()  # a new leader may not know what was chosen
        return answers

    def _sample(self, request: sampler_pb2.SampleRequest) -> sampler_pb2.SampleResponse:
        self._session.check_request(request.epoch)
        if request.HasField("release"):
            self._release(request.release)
        if request.dropped_class_column:
            self._session.forget(read_dropped_classes(request))
        self._session.define(class_definitions(request.classes))
        asked = read_sample(request)
        deadline = self._monotonic() + asked.deadline_ms / 1000
        reply = self._session.sample(request.epoch, asked, should_stop=lambda: self._monotonic() >= deadline)
        METRICS.filter_faults.labels(self._names[0]).inc(int(np.count_nonzero(reply.reason == WaitReason.FAULT)))
        METRICS.sampled_classes.labels(self._names[0]).inc(len(asked.class_ids))
        return sample_response(reply, asked)

    def _commit(self, request: sampler_pb2.CommitRequest) -> sampler_pb2.CommitResponse:
        asked = read_commit(request)
        reply = self._session.commit(request.epoch, asked)
        placed = int(np.count_nonzero(reply.outcome == CommitOutcome.PLACED))
        conflicts = int(np.count_nonzero(reply.outcome == CommitOutcome.CONFLICT))
        METRICS.committed_placements.labels(*self._names).inc(placed)
        METRICS.conflicting_placements.labels(*self._names).inc(conflicts)
        METRICS.refused_placements.labels(*self._names).inc(len(reply.outcome) - placed)
        return commit_response(reply, asked)

    def _release(self, message: sampler_pb2.Release) -> None:
        self._session.release(message.epoch, read_release(message))

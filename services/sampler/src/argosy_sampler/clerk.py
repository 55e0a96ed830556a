"""The clerk: answers the leader's messages from the ledger; knows nothing of streams.

The clerk refuses whatever comes from an epoch lower than one it has seen, and neither samples nor commits before it has
taken in a full list of placements on the present stream.

Source: design section 5, "Sampler session"; section 7, invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import NotAllowedNow, StateConflict
from argosy_core.framework import Framework, PlacementBatch, Point
from argosy_core.ledger import NodeLedger, run_keys
from argosy_core.placement import CommitOutcome, NodeSampler, WaitReason, commit, release
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS
from argosy_runtime.plugins import FaultReporter
from argosy_sampler.codec import (
    CapacityWriter,
    PlacementPart,
    class_definitions,
    commit_answer,
    read_commit,
    read_placements,
    read_runs,
    read_sample,
    sample_answer,
)

__all__ = ["Clerk"]


class Clerk:
    """Answers for one cluster.

    Args:
        cluster: Name of the cluster, for metrics.
        ledger: The cluster's ledger.
        incarnation: Of this sampler; stands in every answer.
        framework: Plugins of the sampling phase and of the commit.
        rng: Draws samples.
        monotonic: Clock in seconds for deadlines.
        log: Where epochs and lists are told.
    """

    def __init__(
        self,
        cluster: str,
        ledger: NodeLedger,
        *,
        incarnation: int,
        framework: Framework,
        rng: np.random.Generator,
        monotonic: Callable[[], float],
        log: Logger,
    ) -> None:
        """Start without a session and with epoch 0."""
        self.incarnation = incarnation
        self.ledger = ledger
        self.capacity = CapacityWriter(ledger)
        """What to tell the leader of nodes."""
        self.ready = False
        """A full list was taken in on the present stream."""
        self._cluster = cluster
        self._framework = framework
        self._faults = FaultReporter(framework, cluster, log=log, monotonic=monotonic)
        self._sampler = NodeSampler(ledger, framework)
        self._rng = rng
        self._monotonic = monotonic
        self._log = log
        self._epoch = 0
        self._parts: list[PlacementPart] = []

    def begin(self) -> sampler_pb2.Capacity | None:
        """Begin a new stream; return all nodes."""
        self.ready = False
        self._parts.clear()
        self._sampler.start_over()
        self.capacity.start_over()
        return self.capacity.next_message()

    @property
    def has_waiting(self) -> bool:
        """Return whether some class waits for capacity to rise."""
        return self._sampler.waiting_count > 0

    def tell_capacity(self, *, with_nodes: bool) -> sampler_pb2.Capacity | None:
        """Return what changed of the nodes, with the classes that fit by now; None if nothing did."""
        return self.capacity.next_message(with_nodes=with_nodes, fitting=self._sampler.take_fitting())

    def welcome(self, epoch: int) -> None:
        """Take the epoch of the stream's leader.

        Raises:
            StateConflict: A higher epoch was seen: this leader is not the leader any more.
        """
        self._check_epoch(epoch)
        if epoch > self._epoch:
            self._log.info("leader", epoch=epoch)
        self._epoch = epoch

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
            self._faults.report()

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
            self.ledger.set_cordons(message.cordons.nodes)
        return []

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self._epoch:
            raise StateConflict(f"epoch {epoch} is over; epoch {self._epoch} leads the pool")

    def _check_asked(self, epoch: int) -> None:
        self._check_epoch(epoch)
        if not self.ready:
            raise NotAllowedNow("the full list of placements must come before questions")

    def _take_placements(self, message: sampler_pb2.PlacementList) -> list[sampler_pb2.SessionRequest]:
        for class_id, definition in class_definitions(message.classes):
            self.ledger.define_class(class_id, definition)
        self._parts.append(read_placements(message))
        if not message.last:
            return []
        parts, self._parts = self._parts, []
        keys = np.concatenate([run_keys(part.handles, part.attempts) for part in parts])
        class_ids = np.concatenate([part.class_ids for part in parts])
        nodes = np.concatenate([self.ledger.rows_of_names(part.names)[part.nodes] for part in parts])
        outcome = self.ledger.take_list(keys, class_ids, nodes)
        if self._framework.has(Point.EVENT):
            self._framework.notify(
                PlacementBatch(
                    table=self.ledger.nodes,
                    classes=self.ledger.classes,
                    run_keys=keys,
                    class_slots=self.ledger.classes.slots(class_ids),
                    nodes=nodes,
                )
            )
        self.ready = True
        self._log.info(
            "placements taken in",
            placement_count=self.ledger.placement_count,
            added_count=outcome.added_count,
            moved_count=outcome.moved_count,
            dropped_count=outcome.dropped_count,
        )
        ready = sampler_pb2.Ready(placement_count=self.ledger.placement_count)
        answers = [sampler_pb2.SessionRequest(ready=ready)]
        capacity = self.capacity.next_message()
        if capacity is not None:
            answers.insert(0, sampler_pb2.SessionRequest(capacity=capacity))
        return answers

    def _sample(self, request: sampler_pb2.SampleRequest) -> sampler_pb2.SampleAnswer:
        self._check_asked(request.epoch)
        for class_id, definition in class_definitions(request.classes):
            self.ledger.define_class(class_id, definition)
        deadline = self._monotonic() + request.deadline_ms / 1000
        question = read_sample(request)
        reply = self._sampler.sample(question, self._rng, should_stop=lambda: self._monotonic() >= deadline)
        METRICS.filter_faults.labels(self._cluster).inc(int(np.count_nonzero(reply.reason == WaitReason.FAULT)))
        METRICS.sampled_classes.labels(self._cluster).inc(len(question.class_ids))
        return sample_answer(reply, round_number=request.round, incarnation=self.incarnation)

    def _commit(self, request: sampler_pb2.CommitRequest) -> sampler_pb2.CommitAnswer:
        self._check_asked(request.epoch)
        question = read_commit(request)
        nodes, outcomes = commit(
            self.ledger,
            question.handles,
            question.attempts,
            class_ids=question.class_ids,
            offsets=question.offsets,
            candidates=question.candidates,
            framework=self._framework,
        )
        placed = int(np.count_nonzero(outcomes == CommitOutcome.PLACED))
        METRICS.committed_placements.labels(self._cluster).inc(placed)
        METRICS.refused_placements.labels(self._cluster).inc(len(outcomes) - placed)
        return commit_answer(nodes, outcomes, request, incarnation=self.incarnation)

    def _release(self, message: sampler_pb2.Release) -> None:
        self._check_epoch(message.epoch)
        release(self.ledger, run_keys(*read_runs(message)), self._framework)

"""The samplers' streams: hello, full list of placements, requests and responses.

Every response carries the sampler's incarnation and the round; it is read with the request that it answers, and one
that nobody awaits is dropped.

Source: design section 5, "Sampler session"; seed 000.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import numpy as np

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_core.leader.events import (
    AmountsHeld,
    CapacityTold,
    CommitAnswered,
    Heard,
    MovesNamed,
    NodesChosen,
    Role,
    SampleAnswered,
    SamplerReady,
)
from argosy_runtime.columns import member_columns
from argosy_runtime.shapes import read_message
from argosy_server.leader.sessions import cluster_codec
from argosy_server.leader.sessions.message_shapes import POD_SIZES, READY
from argosy_server.leader.sessions.outbox import Outbox
from argosy_server.leader.sessions.streams import ClusterStreams
from argosy_server.leader.show.notes import ClusterNotes, NodeNotes

if TYPE_CHECKING:
    import grpc

    from argosy_core.leader.events import Event
    from argosy_core.leader.events import Session as SessionKey
    from argosy_core.leader.instructions import (
        SendCommit,
        SendCordons,
        SendPlacements,
        SendReleases,
        SendSample,
        SendWeights,
    )
    from argosy_core.placement import CommitRequest, SampleRequest
    from argosy_server.leader.sessions.streams import Term

__all__ = ["SamplerService", "SamplerSession"]


class SamplerSession(Outbox[sampler_pb2.SessionResponse]):
    """One sampler's stream: messages down, and the requests that are not answered.

    Args:
        key: What the machine knows the session by.
        joins_releases: The sampler reads releases that come with a request.
    """

    def __init__(self, key: SessionKey, *, joins_releases: bool = False) -> None:
        """Start not ready, with nothing asked."""
        super().__init__(key)
        self._joins_releases = joins_releases
        self.ready = False
        self.notes = ClusterNotes(key.cluster)
        """What the sampler tells of its nodes."""
        self._epoch = 0
        self._sample: SampleRequest | None = None
        self._commit: CommitRequest | None = None

    def welcome(self, epoch: int, heartbeat_s: float, notes: ClusterNotes) -> None:
        """Greet the sampler.

        Args:
            epoch: Epoch of the term; stands in every message.
            heartbeat_s: How often to be heard.
            notes: Where what it tells of its nodes is noted for people, anew.
        """
        self._epoch = epoch
        self.notes = notes
        notes.nodes = NodeNotes()
        message = sampler_pb2.Welcome(epoch=epoch, heartbeat_s=heartbeat_s, incarnation=self.key.incarnation)
        self.send(sampler_pb2.SessionResponse(welcome=message))

    def send_cordons(self, instruction: SendCordons) -> None:
        """Tell which nodes an administrator cordoned: all of them."""
        self.send(sampler_pb2.SessionResponse(cordons=sampler_pb2.Cordons(nodes=instruction.nodes)))

    def send_weights(self, instruction: SendWeights) -> None:
        """Tell what queues weigh, all of them, and how permits are given."""
        message = cluster_codec.queue_weights(instruction.weights, instruction.rules)
        self.send(sampler_pb2.SessionResponse(queue_weights=message))

    def send_placements(self, instruction: SendPlacements) -> None:
        """Send the full list of placements, in parts."""
        for part in cluster_codec.placement_parts(instruction.placements, instruction.classes):
            self.send(sampler_pb2.SessionResponse(placements=part))

    def send_sample(self, instruction: SendSample) -> None:
        """Ask for candidates."""
        self._sample, self._commit = instruction.request, None
        request = cluster_codec.sample_request(
            instruction.request,
            epoch=self._epoch,
            classes=instruction.classes,
            dropped=instruction.dropped_classes,
        )
        if self._joins_releases and self._waiting and self._waiting[-1].HasField("release"):
            # What ended is told just before a request: one message instead of two, in every round.
            request.release.CopyFrom(self._waiting.pop().release)
        self.send(sampler_pb2.SessionResponse(sample=request))

    def send_commit(self, instruction: SendCommit) -> None:
        """Ask to place runs."""
        self._commit = instruction.request
        request = cluster_codec.commit_request(instruction.request, epoch=self._epoch)
        self.send(sampler_pb2.SessionResponse(commit=request))

    def send_releases(self, instruction: SendReleases) -> None:
        """Tell of placements that ended."""
        release = sampler_pb2.Release(epoch=self._epoch, **member_columns(instruction.runs.members))
        self.send(sampler_pb2.SessionResponse(release=release))

    def read_sample(self, answer: sampler_pb2.SampleResponse) -> SampleAnswered | None:
        """Return candidates as the machine takes them; None if nobody awaits them.

        Raises:
            InvalidRequest: The columns do not fit the request or each other.
        """
        request = self._sample
        if request is None or (answer.incarnation, answer.round) != (self.key.incarnation, request.round_number):
            return None
        self._sample = None
        reply = cluster_codec.sample_reply(answer, request)
        return SampleAnswered(session=self.key, round_number=answer.round, reply=reply)

    def read_commit(self, answer: sampler_pb2.CommitResponse) -> CommitAnswered | None:
        """Return the outcome of commits as the machine takes it; None if nobody awaits it.

        Raises:
            InvalidRequest: The columns do not fit the request.
        """
        request = self._commit
        wanted = None if request is None else (self.key.incarnation, request.round_number, request.stage)
        if request is None or (answer.incarnation, answer.round, answer.stage) != wanted:
            return None
        self._commit = None
        reply = cluster_codec.commit_reply(answer, request)
        return CommitAnswered(session=self.key, round_number=answer.round, stage=answer.stage, reply=reply)

    def read_capacity(self, message: sampler_pb2.Capacity) -> CapacityTold:
        """Return what the sampler says of its nodes as the machine takes it, and note it for people.

        Raises:
            InvalidRequest: The columns do not fit each other.
        """
        columns = cluster_codec.capacity_columns(message, self.key.incarnation)
        self.notes.nodes.take(columns, message.groups, np.frombuffer(message.group_column, dtype="<i4"))
        self.notes.capacity = columns
        return CapacityTold(session=self.key, columns=columns)


class SamplerService(ClusterStreams[SamplerSession], sampler_pb2_grpc.SamplerServiceServicer):
    """Serves `argosy.sampler.v1.SamplerService` while this process leads."""

    ROLE = Role.SAMPLER

    async def Session(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self,
        request_iterator: AsyncIterator[sampler_pb2.SessionRequest],
        context: grpc.aio.ServicerContext[sampler_pb2.SessionRequest, sampler_pb2.SessionResponse],
    ) -> None:
        """Hold one sampler's stream until it ends or is replaced."""
        await self.hold(request_iterator, context)

    def _redirection(self, address: str) -> sampler_pb2.SessionResponse:
        return sampler_pb2.SessionResponse(redirect=sampler_pb2.Redirect(address=address))

    def _known(self, hello: sampler_pb2.Hello) -> None:  # noqa: ARG002 - a sampler gets no rows
        return None

    def _open(self, key: SessionKey, hello: sampler_pb2.Hello) -> SamplerSession:
        return SamplerSession(key, joins_releases=hello.joins_releases)

    async def _take(self, session: SamplerSession, term: Term, request: sampler_pb2.SessionRequest) -> None:
        """Act on one message.

        Raises:
            InvalidRequest: The message has no place here, or a field is not as it may be.
        """
        kind = request.WhichOneof("message")
        event: Event | None = None
        if kind == "sample":
            event = session.read_sample(request.sample)
        elif kind == "commit":
            event = session.read_commit(request.commit)
        elif kind == "capacity":
            event = session.read_capacity(request.capacity)
        elif kind in {"held_amounts", "placed_runs", "moves"}:
            event = _news_of_runs(session, request)
        elif kind == "pod_sizes":
            session.notes.sizes.take(read_message(request.pod_sizes, POD_SIZES, where="pod_sizes"), time.time())
            event = Heard(session=session.key)
        elif kind == "ready":
            read_message(request.ready, READY, where="ready")
            session.ready = True
            event = SamplerReady(session=session.key)
        elif kind == "heartbeat":
            event = Heard(session=session.key)
            session.send(sampler_pb2.SessionResponse(confirmed=sampler_pb2.Confirmed()))
        else:
            raise InvalidRequest(f"a sampler's stream has no place for {kind or 'an empty message'}")
        if event is not None:
            term.feed(event)


def _news_of_runs(session: SamplerSession, request: sampler_pb2.SessionRequest) -> Event:
    """Return what a sampler tells of runs as the machine takes it.

    Raises:
        InvalidRequest: A field is not as it may be.
    """
    kind = request.WhichOneof("message")
    if kind == "held_amounts":
        return AmountsHeld(session=session.key, held=cluster_codec.held_amounts(request.held_amounts))
    if kind == "placed_runs":
        return NodesChosen(session=session.key, placed=cluster_codec.placed_runs(request.placed_runs))
    return MovesNamed(session=session.key, members=cluster_codec.moves(request.moves))

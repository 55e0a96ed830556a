"""The samplers' streams: hello, full list of placements, questions and answers.

Every answer carries the sampler's incarnation and the round; one of another incarnation or round is dropped. A session
that ends fails its open questions at once, so that a round goes on without that cluster.

Source: design section 5, "Sampler session"; seed 000.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_runtime.columns import pack_column
from argosy_server.leader.sessions import Outbox
from argosy_server.leader.streams import ClusterStreams

if TYPE_CHECKING:
    import grpc

    from argosy_core.scheduler.messages import ClusterRuns
    from argosy_server.leader.settings import LeaderSettings

__all__ = ["SamplerDesk", "SamplerService", "SamplerSession"]


class SamplerDesk(Protocol):
    """What the leader does with samplers; called on the event loop."""

    @property
    def epoch(self) -> int:
        """Epoch of the leader, 0 while this process does not lead."""

    async def admit_sampler(self, hello: sampler_pb2.Hello) -> None:
        """Bind the name to the uid and incarnation; raises if that cannot be."""

    def placement_lists(self, cluster: str) -> list[sampler_pb2.PlacementList]:
        """Answer the cluster's full list of placements, in-flight ones included, the last part marked."""

    def take_capacity(self, cluster: str, incarnation: int, capacity: sampler_pb2.Capacity) -> None:
        """Take in what a cluster's nodes are."""

    def sampler_ready(self, cluster: str, incarnation: int) -> None:
        """From now on the cluster may be asked."""

    def sampler_gone(self, cluster: str, incarnation: int) -> None:
        """The cluster may not be asked any more."""

    def cordoned_nodes(self, cluster: str) -> tuple[str, ...]:
        """Answer the names of the nodes an administrator cordoned."""

    def leader_address(self) -> str:
        """Answer where the leader is, empty if unknown."""


class SamplerSession(Outbox[sampler_pb2.SessionResponse]):
    """One sampler's stream: messages down, and the answers that are awaited."""

    def __init__(self, cluster: str, incarnation: int) -> None:
        """Start not ready, with nothing awaited."""
        super().__init__(cluster, incarnation)
        self.ready = False
        self.sent_classes: set[int] = set()
        self._releases: list[ClusterRuns] = []
        self._oldest_release_s = 0.0
        self._samples: dict[int, asyncio.Future[sampler_pb2.SampleAnswer]] = {}
        self._commits: dict[tuple[int, int], asyncio.Future[sampler_pb2.CommitAnswer]] = {}

    def ask_sample(self, request: sampler_pb2.SampleRequest) -> asyncio.Future[sampler_pb2.SampleAnswer]:
        """Send a question; the future ends with the answer or BackendUnavailable."""
        future: asyncio.Future[sampler_pb2.SampleAnswer] = asyncio.get_running_loop().create_future()
        self._samples[request.round] = future
        self._send_or_fail(sampler_pb2.SessionResponse(sample=request), future)
        return future

    def ask_commit(self, request: sampler_pb2.CommitRequest) -> asyncio.Future[sampler_pb2.CommitAnswer]:
        """Send runs to place; the future ends with the answer or BackendUnavailable."""
        future: asyncio.Future[sampler_pb2.CommitAnswer] = asyncio.get_running_loop().create_future()
        self._commits[request.round, request.stage] = future
        self._send_or_fail(sampler_pb2.SessionResponse(commit=request), future)
        return future

    def _send_or_fail(self, message: sampler_pb2.SessionResponse, future: asyncio.Future[Any]) -> None:
        """Send a question, or fail its future at once when the session has ended."""
        self.send(message)
        if self.closed.is_set() and not future.done():
            future.set_exception(BackendUnavailable(f"session of cluster {self.cluster!r} ended"))
            future.exception()

    def send_cordons(self, nodes: Sequence[str]) -> None:
        """Tell which nodes an administrator cordoned: all of them."""
        self.send(sampler_pb2.SessionResponse(cordons=sampler_pb2.Cordons(nodes=nodes)))

    def hold_release(self, runs: ClusterRuns) -> None:
        """Keep placements that ended until there is something else to say, which saves the sampler a message."""
        if not self._releases:
            self._oldest_release_s = time.monotonic()
        self._releases.append(runs)

    def send_releases(self, epoch: int, *, held_for_s: float = 0.0) -> None:
        """Send the placements that ended, if the oldest has been held for so long."""
        if self._releases and time.monotonic() - self._oldest_release_s >= held_for_s:
            release = sampler_pb2.Release(
                epoch=epoch,
                handle_column=pack_column(np.concatenate([runs.handle for runs in self._releases]), "int64"),
                attempt_column=pack_column(np.concatenate([runs.attempt for runs in self._releases]), "int32"),
            )
            self._releases.clear()
            self.send(sampler_pb2.SessionResponse(release=release))

    def take_sample(self, answer: sampler_pb2.SampleAnswer) -> None:
        """Complete the question of the answer's round; an answer nobody awaits is dropped."""
        future = self._samples.pop(answer.round, None)
        if answer.incarnation == self.incarnation and future is not None and not future.done():
            future.set_result(answer)

    def take_commit(self, answer: sampler_pb2.CommitAnswer) -> None:
        """Complete the commit of the answer's round and stage; an answer nobody awaits is dropped."""
        future = self._commits.pop((answer.round, answer.stage), None)
        if answer.incarnation == self.incarnation and future is not None and not future.done():
            future.set_result(answer)

    def forget_questions(self, round_number: int) -> None:
        """Stop awaiting what a finished round asked."""
        self._samples.pop(round_number, None)
        for key in [key for key in self._commits if key[0] == round_number]:
            del self._commits[key]

    def close(self, reason: str) -> None:
        """End the session; what waits is dropped, and what is awaited fails at once."""
        super().close(reason)
        self._fail_questions()

    def _fail_questions(self) -> None:
        """Fail everything awaited: the session has ended."""
        futures: list[asyncio.Future[Any]] = [*self._samples.values(), *self._commits.values()]
        for future in futures:
            if not future.done():
                future.set_exception(BackendUnavailable(f"session of cluster {self.cluster!r} ended"))
                future.exception()  # awaited or not: a round may have stopped waiting
        self._samples.clear()
        self._commits.clear()


class SamplerService(ClusterStreams[SamplerSession], sampler_pb2_grpc.SamplerServiceServicer):
    """Serves `argosy.sampler.v1.SamplerService` while this process leads."""

    PEER = "sampler"

    def __init__(self, desk: SamplerDesk, settings: LeaderSettings) -> None:
        """Serve on behalf of a desk."""
        super().__init__(settings)
        self._desk = desk

    async def Session(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self,
        request_iterator: AsyncIterator[sampler_pb2.SessionRequest],
        context: grpc.aio.ServicerContext[sampler_pb2.SessionRequest, sampler_pb2.SessionResponse],
    ) -> None:
        """Hold one sampler's stream until it ends or is replaced."""
        await self.hold(request_iterator, context)

    def _redirect(self) -> sampler_pb2.SessionResponse | None:
        """Return where the leader is."""
        if self._desk.epoch:
            return None
        return sampler_pb2.SessionResponse(redirect=sampler_pb2.Redirect(address=self._desk.leader_address()))

    async def _admit(self, hello: sampler_pb2.Hello) -> SamplerSession:
        """Let a sampler in."""
        await self._desk.admit_sampler(hello)
        return SamplerSession(hello.cluster, hello.incarnation)

    def _welcome(self, session: SamplerSession) -> None:
        """Send welcome, cordons and the full list of placements."""
        welcome = sampler_pb2.Welcome(epoch=self._desk.epoch, heartbeat_s=self._settings.heartbeat_s)
        session.send(sampler_pb2.SessionResponse(welcome=welcome))
        session.send_cordons(self._desk.cordoned_nodes(session.cluster))
        for part in self._desk.placement_lists(session.cluster):
            session.sent_classes.update(definition.class_id for definition in part.classes)
            session.send(sampler_pb2.SessionResponse(placements=part))

    def _leave(self, session: SamplerSession) -> None:
        """Tell the desk."""
        self._desk.sampler_gone(session.cluster, session.incarnation)

    async def _take(self, session: SamplerSession, kind: str | None, request: sampler_pb2.SessionRequest) -> None:
        """Act on one message.

        Raises:
            InvalidRequest: The message has no place here.
        """
        if kind == "sample":
            session.take_sample(request.sample)
        elif kind == "commit":
            session.take_commit(request.commit)
        elif kind == "capacity":
            self._desk.take_capacity(session.cluster, session.incarnation, request.capacity)
        elif kind == "ready":
            session.ready = True
            self._desk.sampler_ready(session.cluster, session.incarnation)
        elif kind == "heartbeat":
            session.send(sampler_pb2.SessionResponse(confirmed=sampler_pb2.Confirmed()))
        else:
            raise InvalidRequest(f"a sampler's stream has no place for {kind or 'an empty message'}")

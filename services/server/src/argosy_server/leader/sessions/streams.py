"""The common shape of the streams that clusters dial: a hello first, then a conversation until either side ends it.

::

    not the leader -> redirect, end
    hello -> bound in the database -> the machine welcomes or refuses -> messages both ways -> gone

Source: design section 5, "Sync" and "Sampler session"; section 7, invariant 9.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import structlog

from argosy_core.access import ANYBODY
from argosy_core.errors import InvalidRequest, NotPermitted, StateConflict
from argosy_core.job.reading.findings import is_dns_name
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Bound, Role, Session, SessionLost
from argosy_runtime.access.guard import CALLER
from argosy_runtime.validation import check_request
from argosy_server.leader.sessions.outbox import Outbox, SessionTable, converse
from argosy_server.leader.takeover.loading import cluster_settings

if TYPE_CHECKING:
    import grpc

    from argosy_core.leader.events import Event
    from argosy_server.leader.settings import LeaderSettings
    from argosy_store.binding import Binding

__all__ = ["SILENT_HEARTBEATS", "ClusterStreams", "Term", "TermGate"]

SessionT = TypeVar("SessionT", bound=Outbox[Any])
SILENT_HEARTBEATS = 3
"""A session is ended after so many heartbeats without a message."""
_log = structlog.get_logger(__name__)
_serials = itertools.count(1)


class Term(Protocol):
    """The part of a leader term that streams need."""

    @property
    def inbox_has_room(self) -> asyncio.Event:
        """Set while states of executors are taken."""

    def feed(self, event: Event) -> None:
        """Tell the term of something; after its end nothing comes of it."""

    async def bind(self, role: Role, hello: Any) -> Binding:  # noqa: ANN401 - a hello of either proto
        """Bind the process that says hello to its cluster, in the database."""

    async def note_fault(self, cluster: str, role: Role, host: str, reason: str) -> None:
        """Tell operators that a session was ended for what was said there."""

    async def without_foreign(self, runs: Members) -> Members:
        """Return runs without those that the leader of another pool knows."""


class TermGate(Protocol):
    """Where streams find the present term, or the process that leads."""

    def require(self) -> Term:
        """Return the present term.

        Raises:
            BackendUnavailable: This process does not lead.
        """

    def redirect(self, pool: str) -> str | None:
        """Return where a pool's leader is, empty if that is not known; None while this process leads the pool.

        Raises:
            BackendUnavailable: This process is about to lead, and cannot yet.
        """


class ClusterStreams(Generic[SessionT]):
    """Holds the streams of one kind of peer. Requests are messages with the oneof `message`, one of which is `hello`.

    Args:
        gate: Leads to the present term.
        settings: For the heartbeat.
    """

    ROLE: ClassVar[Role]
    """Who dials."""

    def __init__(self, gate: TermGate, settings: LeaderSettings) -> None:
        """Start without streams."""
        self._gate = gate
        self._settings = settings
        self.sessions: SessionTable[SessionT] = SessionTable()

    async def hold(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Hold one stream until it ends or is replaced.

        Raises:
            InvalidRequest: The peer said something that has no place there.
            NotPermitted: The peer has proved to be of another cluster.
            StateConflict: Another process holds the session, nothing was heard for three heartbeats, or it was closed.
            BackendUnavailable: The peer cannot be let in now, and should dial again.
        """
        # Taken first: a peer whose hello cannot be written any more is not told why.
        hello = await self._read_hello(requests)
        principal = CALLER.get().principal
        if principal is not ANYBODY and principal.cluster != hello.cluster:
            text = f"who calls speaks for cluster {principal.cluster!r}, and for no other; its hello names another"
            _log.warning("hello refused", peer=str(self.ROLE), cluster=hello.cluster, reason=text)
            raise NotPermitted(text)
        address = self._gate.redirect(hello.pool)
        if address is not None:
            await context.write(self._redirection(address))
            return
        known = self._known(hello)
        term = self._gate.require()
        known = known and await term.without_foreign(known)
        bound = await term.bind(self.ROLE, hello)
        session = self._open(Session(hello.cluster, self.ROLE, bound.incarnation, next(_serials)), hello)
        self.sessions.enter(session)
        peer = str(self.ROLE)
        _log.info("connected", peer=peer, cluster=session.cluster, host=hello.host, incarnation=bound.incarnation)
        kept_s: float | None = None
        fault = ""
        try:
            settings = cluster_settings(bound.cluster)
            term.feed(Bound(session=session.key, settings=settings, known=known, is_first=bound.is_first))
            await converse(session, self._serve(session, term, requests), context.write)
            kept_s = 0.0
        except InvalidRequest as error:
            fault = error.message
            raise
        except asyncio.CancelledError:
            # The peer died, or the way to it did: it may be quicker than whoever wants its place, but not for long.
            kept_s = self._settings.heartbeat_s
            raise
        finally:
            session.close("the stream ended")
            self.sessions.leave(session)
            term.feed(SessionLost(session=session.key, kept_s=kept_s))
            _log.info("disconnected", peer=peer, cluster=session.cluster, reason=session.close_reason)
            fault = session.close_reason if session.is_fault else fault
            if fault:
                await term.note_fault(session.cluster, self.ROLE, hello.host, fault)

    # --- what the kinds differ in -------------------------------------------------------------------------------------

    @abstractmethod
    def _redirection(self, address: str) -> Any:  # noqa: ANN401 - a message of the peer's own proto
        """Return the answer to peers of a process that does not lead."""

    @abstractmethod
    def _known(self, hello: Any) -> Members | None:  # noqa: ANN401
        """Return the runs of which the peer needs no row; None for one that gets none."""

    @abstractmethod
    def _open(self, key: Session, hello: Any) -> SessionT:  # noqa: ANN401
        """Return a session for a stream that began with a hello."""

    async def _catch_up(self, session: SessionT) -> None:
        """Wait until the peer has what it lacks, before it is listened to."""

    @abstractmethod
    async def _take(self, session: SessionT, term: Term, request: Any) -> None:  # noqa: ANN401
        """Act on one message after the hello."""

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _serve(self, session: SessionT, term: Term, requests: AsyncIterator[Any]) -> None:
        """Let the peer catch up, then take messages until the stream ends."""
        await self._catch_up(session)
        iterator = aiter(requests)
        while True:
            try:
                async with asyncio.timeout(SILENT_HEARTBEATS * self._settings.heartbeat_s):
                    request = await anext(iterator)
            except StopAsyncIteration:
                return
            except TimeoutError as cause:
                raise StateConflict("nothing was heard for three heartbeats; dial again") from cause
            if session.closed.is_set():
                raise StateConflict(session.close_reason)  # what it says is for a term or a place that is gone
            if request.WhichOneof("message") == "hello":
                raise InvalidRequest(f"a hello stands only at the beginning of a {self.ROLE}'s stream")
            await self._take(session, term, request)

    async def _read_hello(self, requests: AsyncIterator[Any]) -> Any:  # noqa: ANN401
        """Return the hello, which must be the stream's first message.

        Raises:
            InvalidRequest: The first message is none or no hello, or names its cluster as none can be called.
        """
        try:
            async with asyncio.timeout(SILENT_HEARTBEATS * self._settings.heartbeat_s):
                first = await anext(aiter(requests))
        except (StopAsyncIteration, TimeoutError) as cause:
            raise InvalidRequest(f"the first message of a {self.ROLE}'s stream must be a hello; none came") from cause
        check_request(first)
        if first.WhichOneof("message") != "hello":
            raise InvalidRequest(f"the first message of a {self.ROLE}'s stream must be a hello")
        hello = first.hello
        if not is_dns_name(hello.cluster) or not hello.cluster_uid.isprintable():
            raise InvalidRequest("a hello's cluster must be a lower-case DNS name, and its uid printable")
        return hello

"""Who is at the other end of a leader's streams, by session, and what it says.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Role, Session
from argosy_core.reconcile import ReportBatch
from argosy_core.scheduler import StateColumns
from argosy_simulation.network import Network, Stream

__all__ = ["Peer", "Peers", "state_columns"]


@dataclass(slots=True)
class Peer:
    """Who is at the other end of a stream."""

    session: Session
    """Its session."""
    stream: Stream
    """Where it is heard."""
    actor: Any
    """The sampler or the executor itself."""
    listening: bool = False
    """Its states are read."""
    said_at_s: float = 0.0
    """When an executor said hello."""
    unread: list[ReportBatch] = field(default_factory=list)
    """States that came before they were read."""


class Peers:
    """The peers of one leader that have sessions.

    Args:
        network: Carries messages.
    """

    def __init__(self, network: Network) -> None:
        """Start without peers."""
        self._network = network
        self._peers: dict[Session, Peer] = {}
        self._by_stream: dict[Stream, Peer] = {}
        self._serial = 0

    def begin(self, stream: Stream, actor: Any, cluster: str, role: Role) -> Peer:  # noqa: ANN401 - sampler or executor
        """Begin a session with whoever is at the other end of a stream."""
        self._serial += 1
        session = Session(cluster, role, actor.incarnation, self._serial)
        peer = self._peers[session] = self._by_stream[stream] = Peer(session, stream, actor)
        return peer

    def end(self, session: Session) -> Peer | None:
        """End a session; return its peer if it had not ended."""
        peer = self._peers.pop(session, None)
        if peer is not None:
            del self._by_stream[peer.stream]
        return peer

    def get(self, session: Session) -> Peer | None:
        """Return the peer of a session, None if it has ended."""
        return self._peers.get(session)

    def at(self, stream: Stream) -> Peer | None:
        """Return the peer at the other end of a stream, None if its session has ended."""
        return self._by_stream.get(stream)

    def has_any(self, cluster: str) -> bool:
        """Return whether anybody of a cluster has a session."""
        return any(session.cluster == cluster for session in self._peers)

    def send(self, session: Session, action: str, *arguments: Any, repeatable: bool = True) -> None:  # noqa: ANN401
        """Send a message to the peer of a session, if it is still there."""
        peer = self._peers.get(session)
        if peer is not None:
            target = getattr(peer.actor, action)
            self._network.send(peer.stream, peer.actor, target, peer.stream, *arguments, repeatable=repeatable)


def state_columns(batch: ReportBatch) -> StateColumns:
    """Return reports as the scheduler takes them."""
    members = Members(batch.handle_column, batch.ordinal_column)
    return StateColumns(
        handle=members.handle,
        attempt=members.attempt,
        member=members.numbers(),
        object_index=batch.object_column,
        state=batch.state_column,
        time_us=batch.time_us_column,
        exit_code=batch.exit_code_column,
        failure=batch.failure_column,
        message=batch.message_column,
        uid=np.ascontiguousarray(batch.uid_column).tobytes(),
        texts=batch.texts,
    )

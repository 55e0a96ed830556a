"""What a leader says to samplers and executors: instructions of its machine as messages on their streams.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from argosy_core.leader.events import Role
from argosy_core.leader.instructions import (
    Acknowledge,
    SendCommit,
    SendPlacements,
    SendReleases,
    SendRows,
    SendSample,
    SendStops,
    Welcome,
)
from argosy_simulation.network import Network
from argosy_simulation.peers import Peers

__all__ = ["LeaderWords"]


class LeaderWords:
    """Says what the machine of one leadership wants said.

    Args:
        epoch: Its epoch.
        peers: Who has a session.
        network: Carries messages.
        fence_s: For how long an executor that is not heard may act.
    """

    def __init__(self, epoch: int, peers: Peers, network: Network, fence_s: float) -> None:
        """Remember."""
        self._epoch = epoch
        self._peers = peers
        self._network = network
        self._fence_s = fence_s

    def by_instruction(self) -> dict[type, Callable[[Any], None]]:
        """Return what says each kind of instruction."""
        return {
            Welcome: self._welcome,
            SendPlacements: self._send_placements,
            SendSample: self._send_sample,
            SendCommit: self._send_commit,
            SendReleases: self._send_releases,
            SendRows: self._send_rows,
            SendStops: self._send_stops,
            Acknowledge: self._acknowledge,
        }

    def _welcome(self, welcome: Welcome) -> None:
        peer = self._peers.get(welcome.session)
        assert peer is not None
        if welcome.session.role is Role.SAMPLER:
            self._peers.send(welcome.session, "take_welcome", self._epoch, repeatable=False)
            return
        greet = partial(peer.actor.take_welcome, is_first=welcome.is_first)
        self._network.send(peer.stream, peer.actor, greet, peer.stream, self._fence_s, peer.said_at_s)

    def _send_placements(self, sent: SendPlacements) -> None:
        self._peers.send(sent.session, "take_placements", self._epoch, sent.placements, sent.classes, repeatable=False)

    def _send_sample(self, sent: SendSample) -> None:
        if sent.dropped_classes:
            self._peers.send(sent.session, "forget_classes", self._epoch, sent.dropped_classes, repeatable=False)
        self._peers.send(sent.session, "answer_sample", self._epoch, sent.request, sent.classes, repeatable=False)

    def _send_commit(self, sent: SendCommit) -> None:
        self._peers.send(sent.session, "answer_commit", self._epoch, sent.request)

    def _send_releases(self, sent: SendReleases) -> None:
        self._peers.send(sent.session, "take_release", self._epoch, sent.runs)

    def _send_rows(self, sent: SendRows) -> None:
        self._peers.send(sent.session, "take_rows", sent.rows)

    def _send_stops(self, sent: SendStops) -> None:
        self._peers.send(sent.session, "take_stops", sent.runs)

    def _acknowledge(self, sent: Acknowledge) -> None:
        self._peers.send(sent.session, "take_stored", sent.batch)

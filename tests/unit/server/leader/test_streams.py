"""Streams of clusters to a process that cannot let anybody in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import BackendUnavailable
from argosy_core.leader.events import AmountsHeld, Event, Role, Session
from argosy_server.leader.sessions.samplers import SamplerService, SamplerSession
from argosy_server.leader.settings import LeaderSettings


class TakingOver:
    """Leads to no term: this process is to lead and does not yet."""

    def redirect(self, pool: str) -> str | None:
        """Refuse to point to itself."""
        raise BackendUnavailable("not yet")


async def test_a_hello_is_taken_before_a_stream_is_refused() -> None:
    """A peer whose hello meets the stream's end sees an error of its own library in place of the reason."""
    taken: list[str] = []

    async def requests() -> AsyncIterator[sampler_pb2.SessionRequest]:
        hello = sampler_pb2.Hello(cluster="c1", cluster_uid="uid", process_id=bytes(16), pool="default")
        taken.append(hello.cluster)
        yield sampler_pb2.SessionRequest(hello=hello)

    gate: Any = TakingOver()
    context: Any = None
    with pytest.raises(BackendUnavailable, match="not yet"):
        await SamplerService(gate, LeaderSettings()).hold(requests(), context)
    assert taken == ["c1"]


async def test_what_members_hold_reaches_the_term() -> None:
    """As columns of the core: amounts in base units, -1 for what the class says."""

    class Taking:
        """A term that notes what it is told."""

        def __init__(self) -> None:
            self.told: list[Event] = []

        def feed(self, event: Event) -> None:
            """Note an event."""
            self.told.append(event)

    held = sampler_pb2.HeldAmounts(
        handle_column=np.array([7], np.int64).tobytes(), attempt_column=np.array([1], np.int32).tobytes(),
        resources=["cpu", "memory"], amount_column=np.array([500, -1], np.int64).tobytes(),
    )  # fmt: skip
    term: Any = Taking()
    gate: Any = TakingOver()
    session = SamplerSession(Session("c", Role.SAMPLER, 1, 1))
    service = SamplerService(gate, LeaderSettings())
    await service._take(session, term, sampler_pb2.SessionRequest(held_amounts=held))
    (event,) = term.told
    assert isinstance(event, AmountsHeld)
    assert event.held.members.pairs() == [(7, 1)]
    assert (event.held.names, event.held.amounts.tolist()) == (("cpu", "memory"), [[500, -1]])

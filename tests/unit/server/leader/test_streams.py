"""Streams of clusters to a process that cannot let anybody in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import BackendUnavailable
from argosy_server.leader.sessions.samplers import SamplerService
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

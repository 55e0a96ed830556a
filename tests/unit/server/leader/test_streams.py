"""Streams of clusters to a process that cannot let anybody in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import BackendUnavailable
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import AmountsHeld, Event, Role, Session
from argosy_core.leader.instructions import SendCordons, SendReleases, SendSample
from argosy_core.placement import SampleRequest
from argosy_core.scheduler import ClusterRuns
from argosy_server.leader.sessions.samplers import SamplerService, SamplerSession
from argosy_server.leader.settings import LeaderSettings

SAMPLE = SampleRequest(
    class_ids=np.array([1], np.int32),
    wanted=np.ones(1, np.int32),
    complete=np.zeros(1, np.int8),
    resources=("cpu",),
    nodes_to_sample_ratio=0.5,
)


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


@pytest.mark.parametrize("kinds", [["sample"], ["release", "sample"]])
async def test_releases_come_with_the_request_to_samplers_that_read_them_there(kinds: list[str]) -> None:
    """What ended is told first either way, and once; one behind which something else is in line stays by itself."""
    key, joins_releases = Session("c", Role.SAMPLER, 1, 1), len(kinds) == 1
    session = SamplerSession(key, joins_releases=joins_releases)
    runs = ClusterRuns(cluster="c", members=Members.of([7], [1]))
    sample = SendSample(session=key, request=SAMPLE, classes=())
    session.send_releases(SendReleases(session=key, runs=runs))
    session.send_sample(sample)
    assert [message.WhichOneof("message") for message in session._waiting] == kinds
    told = session._waiting[0]
    release = told.sample.release if joins_releases else told.release
    assert np.frombuffer(release.handle_column, "<i8").tolist() == [7]
    session._waiting.clear()
    session.send_sample(sample)
    assert not session._waiting[0].sample.HasField("release")
    session.send_releases(SendReleases(session=key, runs=runs))
    session.send_cordons(SendCordons(session=key, nodes=()))
    session.send_sample(sample)
    assert [message.WhichOneof("message") for message in session._waiting] == ["sample", "release", "cordons", "sample"]

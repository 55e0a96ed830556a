"""The sampler against a leader that speaks and does not listen, as one half of whose tasks has died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.unit.sampler.conftest import FakeLeader, Session, definitions, int32, running_sampler, serving

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_kube.simulated.host import ClusterHost

CLASS_COUNT = 2000
"""Classes of one question, so that a few answers are all that the connection takes unread."""


class DeafLeader(FakeLeader):
    """A leader that reads no more of a sampler once it is ready."""

    async def _read(self, session: Session, requests: AsyncIterator[Any]) -> None:
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "heartbeat":
                await session.send(confirmed=sampler_pb2.Confirmed())
            if kind == "ready":
                await session.answers.put(request)
                break
        await session.ended.wait()


async def _ask(session: Session) -> None:
    """Ask for ever, without a pause in which the leader could be taken for silent."""
    request = sampler_pb2.SampleRequest(
        round=7,
        epoch=1,
        classes=definitions(1),
        class_column=int32([1] * CLASS_COUNT),
        wanted_column=int32([1] * CLASS_COUNT),
        complete_column=bytes(CLASS_COUNT),
        resources=["cpu", "memory"],
        nodes_to_sample_ratio=1.0,
        deadline_ms=1000,
        strategy="random",
    )
    while True:
        await session.send(sample=request)


async def test_leader_that_asks_and_takes_no_answer_is_left_and_dialled_again(host: ClusterHost) -> None:
    """It is never silent; yet nothing comes of a session whose answers nobody reads."""
    async with serving(DeafLeader(), sampler_pb2_grpc.add_SamplerServiceServicer_to_server) as leader:
        leader.heartbeat_s = 0.5
        async with running_sampler(host, leader.address):
            session = await leader.ready_session()
            asking = asyncio.create_task(_ask(session))
            again = await leader.next_session()
            assert again is not session
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)  # the stream may have ended below it

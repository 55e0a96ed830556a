"""What pods that are resized hold, on the session with the leader."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
from tests.unit.sampler.conftest import FakeLeader, int32, int64

from argosy.sampler.v1 import sampler_pb2
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents, PodSizeState
from argosy_core.nodes import NodeSpec
from argosy_runtime.channel import Backoff, Caller
from argosy_runtime.logs import get_logger
from argosy_sampler.config import SamplerConfig
from argosy_sampler.handler import SessionHandler
from argosy_sampler.session import SessionClient

GIB = 1 << 30


def make_client(leader: FakeLeader) -> tuple[NodeLedger, SessionHandler, SessionClient]:
    """Return a sampler's session with the leader, of a cluster of one node."""
    ledger = NodeLedger(permits=PermitSettings(unit=(1000, GIB)))
    ledger.put_nodes([NodeSpec(name="n", total={"cpu": 8000, "memory": 8 * GIB})])
    config = SamplerConfig(
        cluster="lab", cluster_address="unix:/unused", server_addresses=(leader.address,), capacity_interval_ms=5.0,
        node_interval_ms=5.0, retry_most_s=0.05,
    )  # fmt: skip
    rng, log = np.random.default_rng(1), get_logger()
    handler = SessionHandler(
        ("lab", "default"), ledger, framework=config.make_framework(), rng=rng, monotonic=time.monotonic, log=log
    )
    client = SessionClient(
        config, "uid", pool="default", caller=Caller(), handler=handler, backoff=Backoff(rng=rng, most_s=0.05), log=log
    )
    return ledger, handler, client


def observe_pod(ledger: NodeLedger, handle: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Show the ledger a pod that is scaled, as it was asked for; return its uid."""
    uids = np.full((1, 16), handle, np.uint8)
    scaling = Scaling(least=(1000, GIB), most=(4000, 4 * GIB))
    ledger.permits.has_listed = True
    ledger.observe(
        PodEvents(
            members=Members.of([handle], [1]), uids=uids, nodes=ledger.rows_of_names(["n"]),
            ended=np.zeros(1, np.bool_), requests=np.array([[1000, GIB, 1]]), scalings={0: scaling},
        )
    )  # fmt: skip
    return uids


async def test_permits_are_told_as_what_members_hold(leader: FakeLeader) -> None:
    """As soon as they are given, and anew to a leader that takes over."""
    ledger, _, client = make_client(leader)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.run())
        session = await leader.ready_session({(7, 1): "n"})
        uids = observe_pod(ledger, 7)
        rows, one = ledger.permits.pods.rows(uids.view(np.int64)), np.ones(1, np.int64)
        ledger.permits.join(rows, np.array([[1000], [GIB]]), one > 0, numbers=one, session=1, process=1)
        ledger.permits.request(rows, np.array([[3000], [GIB]]), one == 0, numbers=one + 1, session=one)
        ledger.permits.settle(rows)
        for _ in range(2):
            held = await session.next_answer("held_amounts")
            assert (held.handle_column, held.attempt_column) == (int64([7]), int32([1]))
            assert (list(held.resources), held.amount_column) == (["cpu", "memory"], int64([3000, -1]))
            session.ended.set()
            session = await leader.ready_session({(7, 1): "n"})
        await session.next_answer("held_amounts")
        weight = np.array([3.0, 1.0]).tobytes()
        rules = sampler_pb2.PermitRules(
            unit="cpu=2,memory=5", node_units={"n": "cpu=500m,memory=1"}, lease_s=2.0, margin_s=9.0, rises_per_s=1.0
        )
        said = sampler_pb2.QueueWeights(queues=["", "other"], weight_column=weight, rules=rules)
        await session.send(queue_weights=said)
        sizes = await session.next_answer("pod_sizes")
        assert (sizes.handle_column, sizes.state_column) == (int64([7]), bytes([PodSizeState.AS_ASKED]))
        assert (sizes.requested_column, sizes.actual_column) == (int64([3000, GIB]), int64([1000, GIB]))
        ledger.permits.move(rows, is_moving=True)
        moves = await session.next_answer("moves")
        assert (moves.handle_column, moves.attempt_column) == (int64([7]), int32([1]))
        await session.send(cordons=sampler_pb2.Cordons(nodes=["n"]))
        await session.wait_free(n=5000)
        assert ledger.permits.queues.weights == {0: 3.0, 1: 1.0}
        settings = ledger.permits.settings
        assert (settings.unit, dict(settings.node_units)) == ((2000, 5), {"n": (500, 1)})
        assert (settings.lease_s, settings.margin_s, settings.rises_per_s) == (2.0, 9.0, 1.0)
        running.cancel()


async def test_sizes_of_new_pods_are_told_before_they_are_resized(leader: FakeLeader) -> None:
    """Else nobody would see what they began with; what is told is no news."""
    ledger, handler, client = make_client(leader)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.run())
        session = await leader.ready_session({(7, 1): "n", (8, 1): "n"})
        for handles in ([7], [7, 8]):
            assert not handler.has_new_sizes
            observe_pod(ledger, handles[-1])
            assert handler.has_new_sizes
            async with asyncio.timeout(20):
                while (answer := await session.answers.get()).WhichOneof("message") != "pod_sizes":
                    pass  # what the pods hold is told, too
            assert answer.pod_sizes.handle_column == int64(handles)
        running.cancel()

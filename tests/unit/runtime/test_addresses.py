"""Tests of addresses as texts, and of what listens at every address of a machine."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy_runtime.addresses import with_brackets
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.metrics import MetricsServer


@pytest.mark.parametrize(
    ("address", "dialled"),
    [
        ("fd00::7:50051", "[fd00::7]:50051"),
        ("2001:db8:0:1:2:3:4:5:50051", "[2001:db8:0:1:2:3:4:5]:50051"),
        ("[fd00::7]:50051", "[fd00::7]:50051"),
        ("10.0.0.7:50051", "10.0.0.7:50051"),
        ("leader.argosy.svc:50051", "leader.argosy.svc:50051"),
        ("unix:/run/argosy.sock", "unix:/run/argosy.sock"),
        ("", ""),
    ],
)
def test_address_of_a_pod_is_dialled_in_brackets_where_it_is_one_of_ipv6(address: str, dialled: str) -> None:
    """A manifest puts a port behind it and cannot know."""
    assert with_brackets(address) == dialled


def read(url: str) -> bytes:
    """Return what is there."""
    with urllib.request.urlopen(url, timeout=50) as response:
        return bytes(response.read())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_what_listens_at_every_address_is_reached_by_both_families(listen: str, host: str) -> None:
    """Manifests say 0.0.0.0; on a cluster with IPv6 alone pods have no other address, and on others those of IPv4."""
    metrics = MetricsServer(listen)
    server = GrpcServer(GrpcSettings(listen=listen, insecure=True))
    await server.start()
    try:
        assert b"process_resident_memory_bytes" in await asyncio.to_thread(
            read, f"http://{host}:{metrics.port}/metrics"
        )
        async with grpc.aio.insecure_channel(f"{host}:{server.port}") as channel:
            request = health_pb2.HealthCheckRequest(service="liveness")
            answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=50)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        metrics.close()
        await server.stop(0)

"""Connections whose other end is stopped: its kernel takes what is sent, and nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from argosy_client import repeated_calls
from argosy_runtime.channel import channel_options
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
SETTINGS_TAKEN = b"\0\0\0\4\1\0\0\0\0"


async def test_connection_of_a_peer_that_has_stopped_ends_when_its_probe_is_not_answered() -> None:
    """As soon as is set, not after the minute that gRPC waits for the answer of a probe by itself."""
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0", keepalive_s=1.0, keepalive_timeout_s=1.0))
    await server.start()
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE + SETTINGS + SETTINGS_TAKEN)
    async with asyncio.timeout(40):
        while await reader.read(1024):
            pass
    writer.close()
    await server.stop(0.0)


@pytest.mark.parametrize(
    "options",
    [GrpcSettings(listen="127.0.0.1:0").options(), channel_options(), repeated_calls._CHANNEL_OPTIONS],
    ids=["servers", "services", "clients"],
)
def test_probes_of_every_channel_are_waited_for_as_long_as_they_say(options: Sequence[tuple[str, int | str]]) -> None:
    """GRPC has two settings for it and heeds the longer one."""
    said = dict(options)
    assert said["grpc.http2.ping_timeout_ms"] == said["grpc.keepalive_timeout_ms"]

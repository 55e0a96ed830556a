"""Client channels between services, and how long to wait before trying again.

Source: design section 5, "Leader lost"; CONTRIBUTING.md, "Async".
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import numpy as np

from argosy.channel_credentials import ChannelCredentials, UnusableCredentialsError, open_aio_channel
from argosy_core.errors import BackendUnavailable

__all__ = [
    "Backoff",
    "Caller",
    "ChannelCredentials",
    "call_metadata",
    "channel_options",
    "end_stream",
    "open_channel",
]

_MAX_RECEIVE_BYTES: Final = 64 << 20
_GOODBYE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who dials: this process, as it tells leaders. Drawn by chance, so no clock can make two starts alike."""

    process_id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)
    """16 random bytes."""
    host: str = field(default_factory=socket.gethostname)
    """Where it runs, for people."""


async def end_stream(call: Any) -> None:  # noqa: ANN401 - grpc has no type for it
    """End a stream as one who goes: the other side knows that nobody comes back, and need not wait for it."""
    with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, TimeoutError):
        async with asyncio.timeout(_GOODBYE_S):
            await call.done_writing()
            await call.code()


def channel_options(*, max_receive_bytes: int = _MAX_RECEIVE_BYTES) -> list[tuple[str, int | str]]:
    """Return the channel arguments that services use towards each other.

    Reconnects come within a second, because a leader that came back must be found at once; connections are probed, so
    that a silent partition is noticed.

    Args:
        max_receive_bytes: Largest message taken; internal streams are as large as a round.
    """
    return [
        ("grpc.max_receive_message_length", max_receive_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 << 10),
        ("grpc.absolute_max_metadata_size", 128 << 10),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 15_000),
        ("grpc.http2.ping_timeout_ms", 15_000),  # else a minute, whatever the line above says
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # Addresses are told to us by the leader or by configuration; a proxy for the outside world is not on the way.
        ("grpc.enable_http_proxy", 0),
        # Channels of one process to one address would share a connection, and so die and back off together.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def open_channel(address: str, credentials: ChannelCredentials) -> grpc.aio.Channel:
    """Return a channel to `host:port`; connecting happens with the first call. Close it when done.

    Raises:
        BackendUnavailable: A file of the credentials cannot be read now.
    """
    try:
        return open_aio_channel(address, credentials, channel_options())
    except UnusableCredentialsError as cause:
        raise BackendUnavailable(str(cause)) from cause


def call_metadata(address: str, credentials: ChannelCredentials) -> tuple[tuple[str, str], ...]:
    """Return what each call of a channel carries besides: the caller's token, if it has one.

    Raises:
        BackendUnavailable: Its file cannot be read now, or it would travel in the clear.
    """
    try:
        return credentials.metadata(address)
    except UnusableCredentialsError as cause:
        raise BackendUnavailable(str(cause)) from cause


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waits that double up to a bound, each shortened by chance so that many callers do not come at once."""

    rng: np.random.Generator
    """Source of chance."""
    first_s: float = 0.05
    """Longest first wait, seconds."""
    most_s: float = 2.0
    """Longest wait, seconds."""
    failure_count: int = 0
    """Failures since the last success."""

    def next_wait_s(self) -> float:
        """Return how long to wait after one more failure: between half of and the whole bound, seconds."""
        bound = min(self.first_s * 2.0 ** min(self.failure_count, 30), self.most_s)
        self.failure_count += 1
        return float(bound * (0.5 + 0.5 * self.rng.random()))

    def reset(self) -> None:
        """Start over, after a success."""
        self.failure_count = 0

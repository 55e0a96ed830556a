"""Asking the cluster's sampler where to run what was leased to the cluster as a whole.

Source: seed 003 "Executor implementation"; design section 5, "Delegated clusters"; decision 0022.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import grpc

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.placement.messages import PlaceReply
from argosy_executor.config import ExecutorConfig
from argosy_runtime.channel import ChannelCredentials, call_metadata, open_channel
from argosy_runtime.columns import check_indices, member_columns, unpack_column
from argosy_runtime.errors import from_rpc_error

__all__ = ["Placer", "SamplerCalls", "open_sampler", "place_nowhere"]

Placer: TypeAlias = Callable[[str, Members], Awaitable[PlaceReply]]
"""Given a pool and members of its runs, returns where the sampler places them; an error is no answer."""
_NOBODY: Final = "the cluster's executor has no sampler to ask: set `sampler_address`, or run both as one cluster agent"


async def place_nowhere(_pool: str, members: Members) -> PlaceReply:
    """Return every member, as an executor does that knows no sampler."""
    return PlaceReply(nodes=("",) * len(members), reasons=(_NOBODY,) * len(members))


def open_sampler(config: ExecutorConfig) -> SamplerCalls | None:
    """Return calls to the sampler of another process that a configuration names, None if it names none."""
    if not config.sampler_address:
        return None
    own = config.sampler_credentials
    shown = config.credentials if own == ChannelCredentials() else own
    return SamplerCalls(config.sampler_address, shown, timeout_s=config.call_timeout_s)


class SamplerCalls:
    """Calls to a sampler of another process.

    Args:
        address: host:port of its port.
        credentials: How it is known, and what proves who calls.
        timeout_s: How long an answer may take.
    """

    def __init__(self, address: str, credentials: ChannelCredentials, *, timeout_s: float) -> None:
        """Connect with the first call."""
        self._address = address
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._channel: grpc.aio.Channel | None = None

    async def place(self, pool: str, members: Members) -> PlaceReply:
        """Have nodes chosen for members of a pool's runs.

        Raises:
            ArgosyError: There is no answer, or it makes no sense.
        """
        if self._channel is None:
            self._channel = open_channel(self._address, self._credentials)
        stub = sampler_pb2_grpc.PlacementServiceStub(self._channel)
        request = sampler_pb2.PlaceRunsRequest(pool=pool, **member_columns(members))
        metadata = call_metadata(self._address, self._credentials)
        try:
            response = await stub.PlaceRuns(request, timeout=self._timeout_s, metadata=metadata)
        except grpc.RpcError as cause:
            raise from_rpc_error(cause) from cause
        return _reply_of(response, len(members))

    async def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()


def _reply_of(response: sampler_pb2.PlaceRunsResponse, count: int) -> PlaceReply:
    """Return a response as columns.

    Raises:
        InvalidRequest: They do not fit each other, or the request.
    """
    nodes = unpack_column(response.node_column, "int32", name="place_runs.node_column")
    reasons = unpack_column(response.reason_column, "int32", name="place_runs.reason_column")
    if not len(nodes) == len(reasons) == count:
        raise InvalidRequest(f"the sampler answered for {len(nodes)} members of runs, and was asked for {count}")
    check_indices(nodes, len(response.nodes), name="place_runs.node_column", optional=True)
    check_indices(reasons, len(response.reasons), name="place_runs.reason_column", optional=True)
    names, texts = (*response.nodes, ""), (*response.reasons, "")
    return PlaceReply(
        nodes=tuple(names[node] for node in nodes.tolist()), reasons=tuple(texts[text] for text in reasons.tolist())
    )

"""DebugService: what people look at who search for faults, asked of the leader or forwarded.

Source: design section 3; `proto/argosy/debug/v1/debug.proto`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import grpc

from argosy.debug.v1 import debug_pb2, debug_pb2_grpc
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.leadership.routing import LeaderRouter

__all__ = ["DebugService"]

_DUMP_TIMEOUT_S: Final = 60.0


class DebugService(debug_pb2_grpc.DebugServiceServicer):
    """Answers from the leader's memory.

    Args:
        router: Finds the leader.
        default_pool: Pool meant by an empty name.
    """

    def __init__(self, router: LeaderRouter, *, default_pool: str) -> None:
        """Keep what it needs."""
        self._router = router
        self._default_pool = default_pool

    async def DumpState(  # noqa: N802 - the protocol's name
        self, request: debug_pb2.DumpStateRequest, context: Context
    ) -> AsyncIterator[debug_pb2.DumpStateResponse]:
        """Answer the leader's state in chunks of JSON."""
        check_request(request)
        pool = request.pool or self._default_pool
        view = self._router.view(pool)
        if view is not None:
            for chunk in view.dump():
                yield debug_pb2.DumpStateResponse(chunk=chunk)
                await asyncio.sleep(0)  # a round must not wait for a dump
            return
        channel = await self._router.channel(pool, context)
        try:
            async for response in debug_pb2_grpc.DebugServiceStub(channel).DumpState(
                request, timeout=_DUMP_TIMEOUT_S, metadata=self._router.metadata(pool)
            ):
                yield response
        except grpc.aio.AioRpcError as error:
            self._router.lost(pool, error)
            raise

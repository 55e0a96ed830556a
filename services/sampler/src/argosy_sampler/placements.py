"""The placement service: the cluster's executor asks where to run what was leased to the cluster as a whole.

Source: seed 003 "Executor implementation"; design section 5, "Delegated clusters"; decision 0022.
"""

from __future__ import annotations

import grpc

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import NotAllowedNow, NotFound
from argosy_core.job.tables.members import Members
from argosy_core.placement import PlaceReply
from argosy_sampler.codec import place_response, read_place_request
from argosy_sampler.handler import SessionHandler

__all__ = ["PlacementServicer"]

Context = grpc.aio.ServicerContext[sampler_pb2.PlaceRunsRequest, sampler_pb2.PlaceRunsResponse]


class PlacementServicer(sampler_pb2_grpc.PlacementServiceServicer):
    """Serves `argosy.sampler.v1.PlacementService`; within a cluster agent its executor calls `place`."""

    def __init__(self) -> None:
        """Start before the sampler has listed its cluster."""
        self._handlers: dict[str, SessionHandler] = {}

    def open(self, pool: str, handler: SessionHandler) -> None:
        """Place for a pool from now on."""
        self._handlers[pool] = handler

    async def place(self, pool: str, members: Members) -> PlaceReply:
        """Choose nodes for members of runs that a pool's leader leased to the cluster.

        Raises:
            NotAllowedNow: The sampler has not listed its cluster, or its session with the leader is not ready.
            NotFound: It does not serve the pool.
            InvalidRequest: A member stands twice.
        """
        if not self._handlers:
            raise NotAllowedNow("the sampler has not yet listed its cluster; ask again")
        handler = self._handlers.get(pool)
        if handler is None:
            raise NotFound(f"the sampler does not serve pool {pool!r}; configure sampler and executor alike")
        return handler.place(members)

    async def PlaceRuns(  # noqa: N802 - name is given by the proto
        self,
        request: sampler_pb2.PlaceRunsRequest,
        context: Context,  # noqa: ARG002 - as the interface wants it
    ) -> sampler_pb2.PlaceRunsResponse:
        """Choose nodes for runs."""
        return place_response(await self.place(request.pool, read_place_request(request)))

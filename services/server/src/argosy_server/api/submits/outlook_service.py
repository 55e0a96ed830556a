"""OutlookService: what other replicas ask the leader for the warnings of submits.

Source: design section 5, "Submit"; `proto/argosy/lease/v1/outlook.proto`.
"""

from __future__ import annotations

from argosy.lease.v1 import outlook_pb2, outlook_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_server.api.submits.outlook import KnownNodes

__all__ = ["OutlookService"]


class OutlookService(outlook_pb2_grpc.OutlookServiceServicer):
    """Answers from what samplers have told the leader.

    Args:
        router: Finds the leader.
        nodes: Says what no node has.
        default_pool: Pool meant by an empty name.
    """

    def __init__(self, router: LeaderRouter, nodes: KnownNodes, *, default_pool: str) -> None:
        """Keep what it needs."""
        self._router = router
        self._nodes = nodes
        self._default_pool = default_pool

    async def FindMissing(  # noqa: N802 - the protocol's name
        self, request: outlook_pb2.FindMissingRequest, context: Context
    ) -> outlook_pb2.FindMissingResponse:
        """Say of scheduling classes what no node that is known has of what they ask for."""
        check_request(request)
        pool = request.pool or self._default_pool
        view = self._router.view(pool)
        if view is None:
            return await self._router.forward(
                pool,
                lambda channel: outlook_pb2_grpc.OutlookServiceStub(channel).FindMissing,
                request,
                context=context,
            )
        try:
            found = await self._nodes.find_missing(view, list(request.definitions))
        except ValueError as error:
            raise InvalidRequest(f"definitions: {error}") from error
        classes = [outlook_pb2.MissingOfClass(texts=texts) for texts in found]
        return outlook_pb2.FindMissingResponse(classes=classes)

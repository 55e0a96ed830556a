"""The part of the fake API server that knows who calls, and what is granted."""

# ruff: noqa: N802, ANN401 - methods are the protocol's, and generated servicers are not typed

from __future__ import annotations

from typing import Any

from argosy.api.v1 import access_pb2, access_pb2_grpc

__all__ = ["FakeAccess"]


class FakeAccess(access_pb2_grpc.AccessServiceServicer):
    """Keeps grants, and one change that root made; the caller is alice, an auditor.

    Args:
        api: `argosy_testkit.fake_api.FakeApi`, which this is a part of.
    """

    def __init__(self, api: Any) -> None:
        """Keep the state of the whole server."""
        self.api = api

    async def WhoAmI(self, request: Any, context: Any) -> Any:
        """Answer alice."""
        await self.api.enter("WhoAmI", request, context)
        return access_pb2.WhoAmIResponse(
            name="alice", groups=["research"], roles=["auditor"], grants=list(self.api.grants.values())
        )

    async def AddGrants(self, request: Any, context: Any) -> Any:
        """Keep grants."""
        await self.api.enter("AddGrants", request, context)
        self.api.grants.update({(one.subject, one.queue, one.verb): one for one in request.grants})
        return access_pb2.AddGrantsResponse()

    async def RemoveGrants(self, request: Any, context: Any) -> Any:
        """Forget grants."""
        await self.api.enter("RemoveGrants", request, context)
        for one in request.grants:
            self.api.grants.pop((one.subject, one.queue, one.verb), None)
        return access_pb2.RemoveGrantsResponse()

    async def ListGrants(self, request: Any, context: Any) -> Any:
        """Answer grants, two a page."""
        await self.api.enter("ListGrants", request, context)
        keys = sorted(self.api.grants)
        first = keys.index(tuple(request.page_token.split("|"))) if request.page_token else 0
        after = keys[first + 2 :]
        return access_pb2.ListGrantsResponse(
            grants=[self.api.grants[key] for key in keys[first : first + 2]],
            next_page_token="|".join(after[0]) if after else "",
        )

    async def ListAuditRecords(self, request: Any, context: Any) -> Any:
        """Answer one change."""
        await self.api.enter("ListAuditRecords", request, context)
        record = access_pb2.AuditRecord(
            number=7,
            method="/argosy.api.v1.QueueService/CordonQueue",
            principal="root",
            acted_by="facade",
            host="ipv4:10.0.0.7",
            kind="Queue",
            name="red",
            detail="repair",
        )
        record.create_time.FromSeconds(1_700_000_000)
        return access_pb2.ListAuditRecordsResponse(records=[record])

    async def InviteCluster(self, request: Any, context: Any) -> Any:
        """Answer a token."""
        await self.api.enter("InviteCluster", request, context)
        answer = access_pb2.InviteClusterResponse(token="argosy_invitation_x")  # noqa: S106 - no secret
        answer.expire_time.FromSeconds(1_700_000_000)
        return answer

    async def RevokeCluster(self, request: Any, context: Any) -> Any:
        """Answer that it is done."""
        await self.api.enter("RevokeCluster", request, context)
        return access_pb2.RevokeClusterResponse()

    async def JoinCluster(self, request: Any, context: Any) -> Any:
        """Answer a certificate that is none."""
        await self.api.enter("JoinCluster", request, context)
        return access_pb2.JoinClusterResponse(certificate="none")

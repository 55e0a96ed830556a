"""Calls about who calls, and what is granted to whom.

Source: `proto/argosy/api/v1/access.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from argosy_client.deferred import DeferredModule
from argosy_client.repeated_calls import RepeatedCalls

if TYPE_CHECKING:
    from argosy.api.v1 import access_pb2, access_pb2_grpc, queue_pb2, queue_pb2_grpc
    from argosy_client import access
    from argosy_client.access import AuditRecord, HeldPolicy, Identity, Invitation
    from argosy_core import access as core_access
    from argosy_core.access import Grant
else:
    access_pb2 = DeferredModule("argosy.api.v1.access_pb2")
    access_pb2_grpc = DeferredModule("argosy.api.v1.access_pb2_grpc")
    queue_pb2 = DeferredModule("argosy.api.v1.queue_pb2")
    queue_pb2_grpc = DeferredModule("argosy.api.v1.queue_pb2_grpc")
    access = DeferredModule("argosy_client.access")
    core_access = DeferredModule("argosy_core.access")

__all__ = ["AccessCalls"]


class AccessCalls(RepeatedCalls):
    """The calls about access and what is allowed; see `argosy_client.client.ArgosyClient`."""

    @cached_property
    def _access(self) -> access_pb2_grpc.AccessServiceAsyncStub:
        return access_pb2_grpc.AccessServiceStub(self._channel)

    @cached_property
    def _policies(self) -> queue_pb2_grpc.QueueServiceAsyncStub:
        return queue_pb2_grpc.QueueServiceStub(self._channel)

    async def who_am_i(self) -> Identity:
        """Return who the server takes the caller for, and what the caller may do."""
        answer = await self.call(self._access.WhoAmI, access_pb2.WhoAmIRequest())
        return access.Identity(
            name=answer.name,
            groups=tuple(answer.groups),
            cluster=answer.cluster,
            acted_by=answer.acted_by,
            roles=tuple(answer.roles),
            grants=tuple(_grant_of(message) for message in answer.grants),
        )

    async def add_grants(self, grants: Sequence[Grant]) -> None:
        """Grant, all or nothing; what is granted already is success.

        Raises:
            NotFound: A queue does not exist.
            NotPermitted: The caller is no administrator.
        """
        await self.call(
            self._access.AddGrants,
            access_pb2.AddGrantsRequest(grants=map(_message, grants)),
        )

    async def remove_grants(self, grants: Sequence[Grant]) -> None:
        """Take away, all in one step; what is not granted is success.

        Raises:
            NotPermitted: The caller is no administrator.
        """
        await self.call(
            self._access.RemoveGrants,
            access_pb2.RemoveGrantsRequest(grants=map(_message, grants)),
        )

    async def list_grants(self, *, subject: str = "", queue: str = "", page_size: int = 1000) -> AsyncIterator[Grant]:
        """Give grants in order, page by page; of one subject or queue only, if named."""
        request = access_pb2.ListGrantsRequest(subject=subject, queue=queue, page_size=page_size)
        while True:
            answer = await self.call(self._access.ListGrants, request)
            for message in answer.grants:
                yield _grant_of(message)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    async def list_audit_records(
        self, *, principal: str = "", name: str = "", created_from: datetime | None = None, page_size: int = 1000
    ) -> AsyncIterator[AuditRecord]:
        """Give who changed what, the newest first, page by page.

        Args:
            principal: Only changes by this principal.
            name: Only changes of what is called so.
            created_from: Only those of then or later; an aware time.
            page_size: Most records of a page.
        """
        request = access_pb2.ListAuditRecordsRequest(
            principal=principal, name=name, create_time_from=created_from, page_size=page_size
        )
        while True:
            answer = await self.call(self._access.ListAuditRecords, request)
            for record in answer.records:
                yield access.AuditRecord(
                    number=record.number,
                    create_time=record.create_time.ToDatetime(tzinfo=UTC),
                    method=record.method,
                    principal=record.principal,
                    acted_by=record.acted_by,
                    host=record.host,
                    kind=record.kind,
                    name=record.name,
                    detail=record.detail,
                )
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    async def invite_cluster(
        self, name: str, *, lifetime_s: float = 3600.0, max_capacity: Mapping[str, int] | None = None
    ) -> Invitation:
        """Invite the processes of a cluster: each may fetch its certificate once.

        Args:
            name: Name of the cluster, which need not be known yet.
            lifetime_s: How long the invitation is good for.
            max_capacity: What the cluster has at most, base units by resource; None leaves that as it is.

        Raises:
            NotPermitted: The caller is no administrator.
            NotAllowedNow: The server has no authority to sign with.
        """
        request = access_pb2.InviteClusterRequest(
            name=name, lifetime=timedelta(seconds=lifetime_s), max_capacity=max_capacity
        )
        answer = await self.call(self._access.InviteCluster, request)
        return access.Invitation(token=answer.token, expire_time=answer.expire_time.ToDatetime(tzinfo=UTC))

    async def get_queue_policy(self, name: str) -> HeldPolicy:
        """Return what a queue lets its jobs' pods do.

        Raises:
            NotFound: There is no such queue that the caller may see.
        """
        answer = await self.call(self._policies.GetQueuePolicy, queue_pb2.GetQueuePolicyRequest(name=name))
        return access.HeldPolicy(document=answer.policy, inherited_from=answer.inherited_from)

    async def set_queue_policy(self, name: str, policy: str) -> None:
        """Say what a queue lets its jobs' pods do, JSON; empty for the policy of the queue above it.

        Raises:
            InvalidRequest: It is no policy; every fault is listed.
            NotFound: There is no such queue.
            NotPermitted: The caller is no administrator.
        """
        await self.call(self._policies.SetQueuePolicy, queue_pb2.SetQueuePolicyRequest(name=name, policy=policy))

    async def revoke_cluster(self, name: str) -> None:
        """End what speaks for a cluster, until it is invited again; open sessions end within seconds.

        Raises:
            NotPermitted: The caller is no administrator.
        """
        await self.call(self._access.RevokeCluster, access_pb2.RevokeClusterRequest(name=name))


def _message(grant: Grant) -> access_pb2.Grant:
    return access_pb2.Grant(subject=grant.subject, queue=grant.queue, verb=grant.verb)


def _grant_of(message: access_pb2.Grant) -> Grant:
    return core_access.Grant(subject=message.subject, queue=message.queue, verb=message.verb)

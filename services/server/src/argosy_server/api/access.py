"""AccessService: who calls, and what is granted to whom.

Source: `proto/argosy/api/v1/access.proto`; design section 5, "Who is who".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy_core.access import Grant, Role, Verb
from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_runtime.access.guard import CALLER
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.codecs.cursors import read_name_token, write_name_token
from argosy_server.api.codecs.job_codec import timestamp
from argosy_server.api.grants import GrantedPermissions
from argosy_server.api.joining import Joining
from argosy_server.api.store_threads import StoreThreads
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.audit import AuditRow

__all__ = ["AccessService", "audit_message"]

_PAGE_SIZE: Final = 100
_MAX_DIGITS: Final = 19  # of an int64
_VERBS: Final = frozenset(Verb)
_ROLES: Final = frozenset(Role)


class AccessService(access_pb2_grpc.AccessServiceServicer):
    """Serves grants from the database.

    Args:
        store: Where grants are.
        threads: Where blocking calls run.
        permissions: Told of changes made here.
        joining: Lets clusters in.
    """

    def __init__(
        self, store: ApiStore, threads: StoreThreads, permissions: GrantedPermissions, joining: Joining
    ) -> None:
        """Keep what it needs."""
        self._joining = joining
        self._store = store
        self._threads = threads
        self._permissions = permissions

    async def WhoAmI(  # noqa: N802 - the protocol's name
        self, request: access_pb2.WhoAmIRequest, context: Context
    ) -> access_pb2.WhoAmIResponse:
        """Answer who the caller is, and what the caller may do."""
        del context
        check_request(request)
        caller = CALLER.get()
        principal, permissions = caller.principal, caller.permissions
        return access_pb2.WhoAmIResponse(
            name=principal.name,
            groups=principal.groups,
            cluster=principal.cluster,
            acted_by=principal.acted_by,
            roles=sorted(permissions.roles),
            grants=[
                access_pb2.Grant(subject=f"user:{principal.name}", queue=queue, verb=verb)
                for queue, verbs in sorted(permissions.queues.items())
                for verb in sorted(verbs)
            ],
        )

    async def AddGrants(  # noqa: N802 - the protocol's name
        self, request: access_pb2.AddGrantsRequest, context: Context
    ) -> access_pb2.AddGrantsResponse:
        """Add grants, all or none."""
        del context
        check_request(request)
        await self._threads.run(self._store.add_grants, _read(request.grants))
        self._permissions.forget()
        return access_pb2.AddGrantsResponse()

    async def RemoveGrants(  # noqa: N802 - the protocol's name
        self, request: access_pb2.RemoveGrantsRequest, context: Context
    ) -> access_pb2.RemoveGrantsResponse:
        """Take grants away, all in one step."""
        del context
        check_request(request)
        await self._threads.run(self._store.remove_grants, _read(request.grants))
        self._permissions.forget()
        return access_pb2.RemoveGrantsResponse()

    async def ListGrants(  # noqa: N802 - the protocol's name
        self, request: access_pb2.ListGrantsRequest, context: Context
    ) -> access_pb2.ListGrantsResponse:
        """Answer grants in order."""
        del context
        check_request(request)
        size = request.page_size or _PAGE_SIZE
        after = _read_token(request.page_token)
        rows = await self._threads.run(
            self._store.list_grants, after, size + 1, subject=request.subject, queue=request.queue
        )
        return access_pb2.ListGrantsResponse(
            grants=[access_pb2.Grant(subject=row.subject, queue=row.queue, verb=row.verb) for row in rows[:size]],
            next_page_token=_write_token(rows[size - 1]) if len(rows) > size else "",
        )

    async def ListAuditRecords(  # noqa: N802 - the protocol's name
        self, request: access_pb2.ListAuditRecordsRequest, context: Context
    ) -> access_pb2.ListAuditRecordsResponse:
        """Answer who changed what, the newest first."""
        del context
        check_request(request)
        size = request.page_size or _PAGE_SIZE
        rows = await self._threads.run(
            self._store.list_audit,
            _read_number(request.page_token),
            size + 1,
            principal=request.principal,
            name=request.name,
            from_time_us=_read_time_us(request),
        )
        return access_pb2.ListAuditRecordsResponse(
            records=[audit_message(row) for row in rows[:size]],
            next_page_token=write_name_token(str(rows[size - 1].id)) if len(rows) > size else "",
        )

    async def InviteCluster(  # noqa: N802 - the protocol's name
        self, request: access_pb2.InviteClusterRequest, context: Context
    ) -> access_pb2.InviteClusterResponse:
        """Answer a token for the processes of a cluster."""
        del context
        check_request(request)
        answer = await self._joining.invite(request)
        self._permissions.forget()
        return answer

    async def JoinCluster(  # noqa: N802 - the protocol's name
        self, request: access_pb2.JoinClusterRequest, context: Context
    ) -> access_pb2.JoinClusterResponse:
        """Answer a certificate to a process of a cluster."""
        del context
        check_request(request)
        answer = await self._joining.join(request)
        self._permissions.forget()
        return answer

    async def RevokeCluster(  # noqa: N802 - the protocol's name
        self, request: access_pb2.RevokeClusterRequest, context: Context
    ) -> access_pb2.RevokeClusterResponse:
        """End what speaks for a cluster."""
        del context
        check_request(request)
        answer = await self._joining.revoke(request)
        self._permissions.forget()
        return answer


def audit_message(row: AuditRow) -> access_pb2.AuditRecord:
    """Return a record of the audit as callers, and readers of its topic, get it."""
    return access_pb2.AuditRecord(
        number=row.id,
        create_time=timestamp(row.create_time_us),
        method=row.actor.method,
        principal=row.actor.principal,
        acted_by=row.actor.acted_by,
        host=row.actor.host,
        kind=row.kind,
        name=row.name,
        detail=row.detail,
    )


def _read_number(token: str) -> int:
    """Return the number that a page ended with; 0 for none.

    Raises:
        InvalidRequest: The token is none of ours.
    """
    text = read_name_token(token)
    if text and not (text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS):
        violation = FieldViolation(field="page_token", description="must be that of the answer before")
        raise InvalidRequest("one field is wrong in the request", violations=(violation,))
    return int(text or 0)


def _read_time_us(request: access_pb2.ListAuditRecordsRequest) -> int:
    """Return from when on, microseconds since the Unix epoch; 0 if it is not said.

    Raises:
        InvalidRequest: It is no time.
    """
    if not request.HasField("create_time_from"):
        return 0
    try:
        return -(-int(request.create_time_from.ToNanoseconds()) // 1000)
    except ValueError as cause:
        violation = FieldViolation(field="create_time_from", description="must be a time of the years 1 to 9999")
        raise InvalidRequest("one field is wrong in the request", violations=(violation,)) from cause


def _read(messages: Sequence[access_pb2.Grant]) -> list[Grant]:
    """Return grants of the wire.

    Raises:
        InvalidRequest: A role stands beside a queue, or a verb without one.
    """
    violations = [
        FieldViolation(
            field=f"grants[{index}].verb",
            description=f"{message.verb} is {'a role, for no queue' if message.queue else 'a verb, for a queue'}",
        )
        for index, message in enumerate(messages)
        if message.verb not in (_VERBS if message.queue else _ROLES)
    ]
    if violations:
        raise InvalidRequest("some grants say nothing", violations=tuple(violations))
    return [Grant(subject=message.subject, queue=message.queue, verb=message.verb) for message in messages]


def _write_token(row: Grant) -> str:
    return write_name_token(json.dumps([row.subject, row.queue, row.verb], ensure_ascii=False))


def _read_token(token: str) -> Grant | None:
    """Return the grant that a page ended with.

    Raises:
        InvalidRequest: The token is none of ours.
    """
    text = read_name_token(token)
    if not text:
        return None
    try:
        subject, queue, verb = (str(part) for part in json.loads(text))
    except (ValueError, TypeError) as cause:
        violation = FieldViolation(field="page_token", description="must be that of the answer before")
        raise InvalidRequest("one field is wrong in the request", violations=(violation,)) from cause
    return Grant(subject=subject, queue=queue, verb=verb)

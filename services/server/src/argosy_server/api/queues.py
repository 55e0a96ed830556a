"""QueueService: make, read, change, cordon and delete queues.

Source: design section 3; `proto/argosy/api/v1/queue.proto`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from argosy.api.v1 import queue_pb2, queue_pb2_grpc
from argosy_core.access import Role, Verb
from argosy_core.errors import FieldViolation, InvalidRequest, NotAllowedNow, NotPermitted, Resource
from argosy_core.job.reading.findings import printable
from argosy_core.job.reading.queue_policy import read_queue_policy
from argosy_runtime.access.guard import CALLER
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.codecs.changes_codec import encode_queue_changes
from argosy_server.api.codecs.cursors import read_name_token, write_name_token
from argosy_server.api.codecs.job_codec import timestamp
from argosy_server.api.codecs.names import is_queue_name, is_reserved_namespace
from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.store_threads import StoreThreads
from argosy_store.replicas.api import ApiStore
from argosy_store.rows import QueueRow, read_amounts

__all__ = ["QueueService"]

_PAGE_SIZE: Final = 100
_DEFAULT_WEIGHT: Final = 1.0
_MAX_POOLS_SHOWN: Final = 20
_FIELDS_OF_TENANTS: Final = frozenset({"max_queued_count"})


class QueueService(queue_pb2_grpc.QueueServiceServicer):
    """Serves queues from the database.

    Args:
        store: Where queues are.
        threads: Where blocking calls run.
        cache: Told of changes made here.
        default_pool: Pool of queues that name none.
    """

    def __init__(
        self,
        store: ApiStore,
        threads: StoreThreads,
        cache: QueueCache,
        *,
        default_pool: str,
    ) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._cache = cache
        self._default_pool = default_pool

    async def CreateQueue(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.CreateQueueRequest, context: Context
    ) -> queue_pb2.CreateQueueResponse:
        """Make a queue; an equal one by the same name is success."""
        del context
        check_request(request)
        queue = request.queue
        await self._check_pool(queue.pool)
        _check_namespaces(queue.name, queue.namespaces, self._cache.namespaces.reserved)
        row = await self._threads.run(
            self._store.create_queue,
            queue.name,
            weight=queue.weight if queue.HasField("weight") else _DEFAULT_WEIGHT,
            pool=queue.pool or self._default_pool,
            create_time_us=await self._threads.run(self._store.now_us),
            encode=encode_queue_changes,
            namespaces=_distinct(queue.namespaces),
            max_queued_count=queue.max_queued_count,
            parent=queue.parent,
            max_running_count=queue.max_running_count,
            max_running_amounts=_amount_texts(queue.max_running_amounts),
            submit_rate_per_s=queue.submit_rate_per_s,
            lease_rate_per_s=queue.lease_rate_per_s,
            preempts_unexpired=queue.preempts_unexpired,
            preempts_endless=queue.preempts_endless,
        )
        self._cache.forget(row.name)
        return queue_pb2.CreateQueueResponse(queue=_message(row))

    async def GetQueue(self, request: queue_pb2.GetQueueRequest, context: Context) -> queue_pb2.GetQueueResponse:  # noqa: N802 - the protocol's name
        """Answer one queue."""
        del context
        check_request(request)
        CALLER.get().permissions.require_sight(request.name)
        return queue_pb2.GetQueueResponse(queue=_message(await self._threads.run(self._store.get_queue, request.name)))

    async def ListQueues(self, request: queue_pb2.ListQueuesRequest, context: Context) -> queue_pb2.ListQueuesResponse:  # noqa: N802 - the protocol's name
        """Answer the queues that the caller may see, by name."""
        del context
        check_request(request)
        after = read_name_token(request.page_token)
        size = request.page_size or _PAGE_SIZE
        names = CALLER.get().permissions.seen_queues
        rows = await self._threads.run(self._store.list_queues, after, size + 1, names=names)
        return queue_pb2.ListQueuesResponse(
            queues=[_message(row) for row in rows[:size]],
            next_page_token=write_name_token(rows[size - 1].name) if len(rows) > size else "",
        )

    async def UpdateQueue(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.UpdateQueueRequest, context: Context
    ) -> queue_pb2.UpdateQueueResponse:
        """Change the fields of a queue that the mask names."""
        del context
        check_request(request)
        queue = request.queue
        # Of the name none is given out, see `allowed_namespaces`.
        _check_namespaces("", queue.namespaces, self._cache.namespaces.reserved)
        values: dict[str, float | str | list[str] | int] = {
            "weight": queue.weight if queue.HasField("weight") else _DEFAULT_WEIGHT,
            "pool": queue.pool or self._default_pool,
            "namespaces": list(_distinct(queue.namespaces)),
            "max_queued_count": queue.max_queued_count,
            "parent": queue.parent,
            "max_running_count": queue.max_running_count,
            "max_running_amounts": list(_amount_texts(queue.max_running_amounts)),
            "submit_rate_per_s": queue.submit_rate_per_s,
            "lease_rate_per_s": queue.lease_rate_per_s,
            "preempts_unexpired": queue.preempts_unexpired,
            "preempts_endless": queue.preempts_endless,
        }
        paths = _read_mask(request.update_mask.paths, values.keys())
        _require_edit(queue.name, paths)
        if "pool" in paths:
            await self._check_pool(queue.pool)
        row = await self._threads.run(
            self._store.update_queue,
            queue.name,
            etag=queue.etag,
            changes={path: values[path] for path in paths},
            encode=encode_queue_changes,
        )
        self._cache.forget(row.name)
        return queue_pb2.UpdateQueueResponse(queue=_message(row))

    async def DeleteQueue(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.DeleteQueueRequest, context: Context
    ) -> queue_pb2.DeleteQueueResponse:
        """Delete a queue without open jobs."""
        del context
        check_request(request)
        await self._threads.run(self._store.delete_queue, request.name, encode=encode_queue_changes)
        self._cache.forget(request.name)
        return queue_pb2.DeleteQueueResponse()

    async def GetQueuePolicy(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.GetQueuePolicyRequest, context: Context
    ) -> queue_pb2.GetQueuePolicyResponse:
        """Answer what a queue lets its jobs' pods do."""
        del context
        check_request(request)
        CALLER.get().permissions.require_sight(request.name)
        await self._threads.run(self._store.get_queue, request.name)
        documents = await self._threads.run(self._store.queue_policies, [request.name])
        policy, owner = documents.get(request.name, ("", request.name))
        return queue_pb2.GetQueuePolicyResponse(policy=policy, inherited_from="" if owner == request.name else owner)

    async def SetQueuePolicy(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.SetQueuePolicyRequest, context: Context
    ) -> queue_pb2.SetQueuePolicyResponse:
        """Say what a queue lets its jobs' pods do."""
        del context
        check_request(request)
        if request.policy:
            read_queue_policy(request.policy)
        await self._threads.run(self._store.set_queue_policy, request.name, request.policy)
        self._cache.forget(request.name)
        return queue_pb2.SetQueuePolicyResponse()

    async def CordonQueue(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.CordonQueueRequest, context: Context
    ) -> queue_pb2.CordonQueueResponse:
        """Stop a queue's jobs from becoming pending."""
        del context
        check_request(request)
        return queue_pb2.CordonQueueResponse(
            queue=await self._cordon(request.name, cordoned=True, reason=request.reason)
        )

    async def UncordonQueue(  # noqa: N802 - the protocol's name
        self, request: queue_pb2.UncordonQueueRequest, context: Context
    ) -> queue_pb2.UncordonQueueResponse:
        """Let a queue's jobs become pending again."""
        del context
        check_request(request)
        return queue_pb2.UncordonQueueResponse(queue=await self._cordon(request.name, cordoned=False, reason=""))

    async def _check_pool(self, pool: str) -> None:
        """Refuse a pool that nobody has ever led: jobs would wait there for ever.

        Raises:
            InvalidRequest: The name is none.
            NotAllowedNow: There is no such pool.
        """
        if pool in {"", self._default_pool}:
            return
        if not is_queue_name(pool):
            violation = FieldViolation(field="queue.pool", description="must be a lower-case DNS label, or empty")
            raise InvalidRequest("one field is wrong in the request", violations=(violation,))
        pools = await self._threads.run(self._store.list_pools)
        if pool not in pools:
            known = sorted({*pools, self._default_pool})[:_MAX_POOLS_SHOWN]
            there = f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}"
            raise NotAllowedNow(
                f"no server has ever led the pool {pool!r}, so its jobs would wait for ever; {there}",
                resource=Resource(kind="Pool", name=pool),
            )

    async def _cordon(self, name: str, *, cordoned: bool, reason: str) -> queue_pb2.Queue:
        caller = CALLER.get()
        if Role.OPERATOR not in caller.permissions.roles:
            caller.require(Verb.EDIT, name)
        row = await self._threads.run(
            self._store.set_queue_cordon,
            name,
            cordoned=cordoned,
            reason=printable(reason),
            encode=encode_queue_changes,
        )
        return _message(row)


def _require_edit(name: str, paths: Sequence[str]) -> None:
    """Return if the caller may change fields of a queue.

    Who may edit a queue may not give it a greater share, machines of another pool, or namespaces where the secrets of
    others are.

    Raises:
        NotFound: The caller may not know of the queue.
        NotPermitted: The caller may not change it, or not these fields.
    """
    caller = CALLER.get()
    caller.require(Verb.EDIT, name)
    ours = [path for path in paths if path not in _FIELDS_OF_TENANTS]
    if ours and Role.ADMIN not in caller.permissions.roles:
        raise NotPermitted(f"changing {', '.join(ours)} of a queue needs the role admin")


def _check_namespaces(queue_name: str, namespaces: Sequence[str], ours: Collection[str]) -> None:
    """Refuse the namespaces of the clusters themselves and ours; a queue that names none has the one of its name.

    Raises:
        InvalidRequest: One is.
    """
    named = {f"queue.namespaces[{index}]": name for index, name in enumerate(namespaces)} or {"queue.name": queue_name}
    for field, name in named.items():
        if is_reserved_namespace(name, ours):
            what = "is a namespace of the clusters themselves, or ours; no queue may use it"
            more = "; a queue of this name has to name others" if field == "queue.name" else ""
            raise InvalidRequest(
                "one field is wrong in the request",
                violations=(FieldViolation(field=field, description=what + more),),
            )


def _read_mask(paths: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the fields that a mask names; `*` names all.

    Raises:
        InvalidRequest: It names none, or one that cannot be changed.
    """
    if list(paths) == ["*"]:
        return tuple(known)
    odd = [path for path in paths if path not in known]
    if odd or not paths:
        what = f"has {odd[0][:80]!r}, which cannot be changed" if odd else "names nothing to change"
        violation = FieldViolation(
            field="update_mask", description=f"{what}; there are {', '.join(known)}, or * for all"
        )
        raise InvalidRequest("one field is wrong in the request", violations=(violation,))
    return tuple(dict.fromkeys(paths))


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return names sorted, each once, so that equal queues compare equal."""
    return tuple(sorted(set(names)))


def _amount_texts(amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Return amounts as they are stored."""
    return tuple(sorted(f"{name}={amount}" for name, amount in amounts.items()))


def _message(row: QueueRow) -> queue_pb2.Queue:
    return queue_pb2.Queue(
        name=row.name,
        weight=row.weight,
        pool=row.pool,
        cordon=queue_pb2.Cordon(reason=row.cordon_reason) if row.cordoned else None,
        etag=row.etag,
        create_time=timestamp(row.create_time_us),
        namespaces=row.namespaces,
        max_queued_count=row.max_queued_count,
        parent=row.parent,
        max_running_count=row.max_running_count,
        max_running_amounts=read_amounts(row.max_running_amounts),
        submit_rate_per_s=row.submit_rate_per_s,
        lease_rate_per_s=row.lease_rate_per_s,
        preempts_unexpired=row.preempts_unexpired,
        preempts_endless=row.preempts_endless,
    )

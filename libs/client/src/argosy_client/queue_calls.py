"""Calls about queues.

Source: `proto/argosy/api/v1/queue.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from argosy_client.deferred import DeferredModule
from argosy_client.repeated_calls import RepeatedCalls
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from google.protobuf import field_mask_pb2

    from argosy.api.v1 import queue_pb2, queue_pb2_grpc
    from argosy_client import queue_codec
    from argosy_client.queue_values import Queue
else:
    field_mask_pb2 = DeferredModule("google.protobuf.field_mask_pb2")
    queue_pb2 = DeferredModule("argosy.api.v1.queue_pb2")
    queue_pb2_grpc = DeferredModule("argosy.api.v1.queue_pb2_grpc")
    queue_codec = DeferredModule("argosy_client.queue_codec")

__all__ = ["QueueCalls"]


class QueueCalls(RepeatedCalls):
    """The calls about queues; see `argosy_client.client.ArgosyClient`."""

    @cached_property
    def _queues(self) -> queue_pb2_grpc.QueueServiceAsyncStub:
        return queue_pb2_grpc.QueueServiceStub(self._channel)

    async def create_queue(self, queue: Queue) -> Queue:
        """Make a queue; an equal one is success.

        Raises:
            AlreadyExists: There is another one by its name.
        """
        request = queue_pb2.CreateQueueRequest(queue=queue_codec.queue_message(queue))
        return queue_codec.queue_of((await self.call(self._queues.CreateQueue, request)).queue)

    async def get_queue(self, name: str) -> Queue:
        """Return a queue by its name, with the etag that a change of it needs.

        Raises:
            NotFound: There is none.
        """
        return queue_codec.queue_of(
            (await self.call(self._queues.GetQueue, queue_pb2.GetQueueRequest(name=name))).queue
        )

    async def list_queues(self, *, page_size: int = 1000) -> AsyncIterator[Queue]:
        """Give all queues in order of their names, page by page."""
        token = ""
        while True:
            request = queue_pb2.ListQueuesRequest(page_size=page_size, page_token=token)
            response = await self.call(self._queues.ListQueues, request)
            for queue in response.queues:
                yield queue_codec.queue_of(queue)
            token = response.next_page_token
            if not token:
                return

    async def update_queue(self, queue: Queue, fields: Sequence[str] = ("*",)) -> Queue:
        """Change a queue; not repeated, since its etag has moved if the first call arrived.

        Args:
            queue: The queue as it was read, with its etag, and with new values.
            fields: Which of weight, pool, namespaces, max_queued_count and parent are changed; `*` for all.

        Raises:
            StateConflict: Somebody changed the queue since it was read.
        """
        request = queue_pb2.UpdateQueueRequest(
            queue=queue_codec.queue_message(queue), update_mask=field_mask_pb2.FieldMask(paths=fields)
        )
        return queue_codec.queue_of((await self.call(self._queues.UpdateQueue, request, repeat=False)).queue)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue without open jobs; that it is gone when a repeated call arrives is success.

        Raises:
            NotAllowedNow: It has open jobs.
            NotFound: There is none.
        """
        retries_before = self.retry_count
        try:
            await self.call(self._queues.DeleteQueue, queue_pb2.DeleteQueueRequest(name=name))
        except NotFound:
            if self.retry_count == retries_before:
                raise

    async def cordon_queue(self, name: str, reason: str = "") -> Queue:
        """Stop a queue's jobs from becoming pending."""
        request = queue_pb2.CordonQueueRequest(name=name, reason=reason)
        return queue_codec.queue_of((await self.call(self._queues.CordonQueue, request)).queue)

    async def uncordon_queue(self, name: str) -> Queue:
        """Let a queue's jobs become pending again."""
        request = queue_pb2.UncordonQueueRequest(name=name)
        return queue_codec.queue_of((await self.call(self._queues.UncordonQueue, request)).queue)

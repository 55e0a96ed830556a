"""Watching a job set across broken connections.

Source: design section 3, "EventService ... resumable by opaque cursor"; invariant 6.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import grpc

from argosy.api.v1 import event_pb2
from argosy_client.codec import event_batch_of
from argosy_client.rpc_errors import is_repeatable, to_error
from argosy_client.values import OPEN_STATES, EventBatch
from argosy_core.errors import ArgosyError, BackendUnavailable, NotAuthenticated

__all__ = ["EventStream", "watch_job_set"]


class EventStream(Protocol):
    """A server stream under way."""

    def __aiter__(self) -> AsyncIterator[event_pb2.WatchJobSetResponse]:
        """Give its messages."""
        ...

    def cancel(self) -> bool:
        """End it."""
        ...


def _passing(caught: grpc.RpcError | BackendUnavailable, can_identify_anew: Callable[[], bool]) -> ArgosyError:
    """Return what ended a stream that may be opened again; raise anything else."""
    if isinstance(caught, BackendUnavailable):
        return caught
    error = to_error(caught)
    if is_repeatable(caught) or (isinstance(error, NotAuthenticated) and can_identify_anew()):
        return error
    raise error from None


async def watch_job_set(
    open_stream: Callable[[str], Awaitable[EventStream]],
    *,
    cursor: str,
    until_finished: bool,
    pause: Callable[[int, float, ArgosyError | None], Awaitable[bool]],
    can_identify_anew: Callable[[], bool],
) -> AsyncIterator[EventBatch]:
    """Give batches of events; every event once, whatever happens to the connection.

    A stream that ends without an error is the end only if the caller asked for one and all jobs of the last batch are
    terminal, or if the server had nothing to say twice in a row: a replica that drains may end its streams too.

    Args:
        open_stream: Opens a stream at a cursor.
        cursor: Where to begin.
        until_finished: The streams end once all jobs are terminal.
        pause: Given the failed attempts in a row, the seconds since the last success and the last error if there is
            one, waits and returns whether to try again.
        can_identify_anew: Returns whether a stream that ended with its token would be opened with another one.
    """
    last_number = 0
    failed_count = 0
    silent_end_count = 0
    success_s = time.monotonic()
    while True:
        error: ArgosyError | None = None
        heard = finished = False
        stream: EventStream | None = None
        try:
            stream = await open_stream(cursor)
            async for response in stream:
                heard, failed_count, silent_end_count, success_s = True, 0, 0, time.monotonic()
                batch = event_batch_of(response, after_number=last_number)
                if batch.events:
                    last_number = batch.events[-1].number
                cursor = batch.cursor or cursor
                finished = not any(batch.state_counts.get(state, 0) for state in OPEN_STATES)
                yield batch
        except (grpc.RpcError, BackendUnavailable) as caught:
            error = _passing(caught, can_identify_anew)
        finally:
            if stream is not None:
                stream.cancel()  # also when the reader stops in between; nothing happens to a stream that has ended
        if error is None and until_finished:
            silent_end_count += not heard
            if finished or silent_end_count > 1:
                return
        failed_count += 1
        if not await pause(failed_count, time.monotonic() - success_s, error):
            if error is None:
                return
            raise error

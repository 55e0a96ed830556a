"""EventService: a job set's events from a cursor on.

Source: design section 3; section 7, invariant 6; `proto/argosy/api/v1/event.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy.api.v1 import event_pb2, event_pb2_grpc
from argosy_core.access import Verb
from argosy_core.errors import FieldViolation, InvalidRequest, NotFound, OutOfRange, Resource
from argosy_core.job.states import JobState
from argosy_runtime.access.guard import CALLER
from argosy_runtime.metrics import METRICS
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.change_requests import read_ids
from argosy_server.api.codecs.cursors import WatchCursor
from argosy_server.api.codecs.event_codec import StoredBatch, watch_responses
from argosy_server.api.codecs.names import NAME_RULE, is_name
from argosy_server.api.codecs.selectors import parse_label_selector
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.watch import WatchHub
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.job_filters import JobFilter

__all__ = ["EventService"]

_IDLE_POLLS: Final = 10  # between two looks at whether a set is finished, which counts all its jobs


class EventService(event_pb2_grpc.EventServiceServicer):
    """Streams events.

    Args:
        store: Where job sets are.
        threads: Where blocking calls run.
        hub: Reads events for all watchers.
        max_batch_count: Most events in one message.
    """

    def __init__(self, store: ApiStore, threads: StoreThreads, hub: WatchHub, *, max_batch_count: int) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._hub = hub
        self._max_batch_count = max_batch_count

    async def WatchJobSet(  # noqa: N802 - the protocol's name
        self, request: event_pb2.WatchJobSetRequest, context: Context
    ) -> AsyncIterator[event_pb2.WatchJobSetResponse]:
        """Stream events; ends by itself only with `until_finished`."""
        del context
        check_request(request)
        selection = _read_selection(request)
        CALLER.get().require(Verb.WATCH, request.queue)
        job_set_id, oldest = await self._find(request.queue, request.job_set, wait=request.allow_missing)
        cursor = _kept(WatchCursor.parse(request.cursor, job_set_id=job_set_id), oldest)
        quiet_polls = _IDLE_POLLS if request.until_finished else 0
        METRICS.watched_job_sets.inc()
        try:
            rows = await self._hub.read_now(job_set_id, cursor.number)
            while True:
                for first_number, _, payload in rows:
                    if first_number > cursor.number + 1:
                        raise _too_old(cursor.number)
                    batch = StoredBatch.read(first_number, payload)
                    chosen = await self._choose(batch, selection)
                    for response, after in watch_responses(
                        cursor, batch, max_count=self._max_batch_count, chosen=chosen
                    ):
                        yield response
                        cursor = after
                if rows:
                    rows = await self._hub.read_now(job_set_id, cursor.number)
                    continue
                if request.until_finished and await self._is_finished(cursor, selection):
                    # What ended the last job may have been stored after the look for events.
                    rows = await self._hub.read_now(job_set_id, cursor.number)
                    if not rows:
                        return
                    continue
                rows = await self._hub.read_next(job_set_id, cursor.number, quiet_polls=quiet_polls)
        finally:
            METRICS.watched_job_sets.dec()

    async def _choose(self, batch: StoredBatch, selection: JobFilter | None) -> npt.NDArray[np.bool_] | None:
        """Return which events of a batch are about selected jobs; None for all."""
        if selection is None:
            return None
        if not selection.labels:
            return np.isin(batch.handles, selection.handles)
        handles = np.unique(batch.handles).tolist()
        return np.isin(batch.handles, await self._threads.run(self._store.select_handles, handles, selection))

    async def _find(self, queue: str, job_set: str, *, wait: bool) -> tuple[int, int]:
        """Return a job set's id and the number of its oldest event that is kept."""
        if not is_name(job_set):
            raise InvalidRequest(
                "one field is wrong in the request",
                violations=(FieldViolation(field="job_set", description=NAME_RULE),),
            )
        while True:
            found = await self._threads.run(self._look_up, queue, job_set)
            if found is not None:
                return found
            if not wait:
                raise NotFound(
                    f"queue {queue!r} has no job set {job_set!r}; a job set exists from its first job on, "
                    "so check both names, submit first, or set allow_missing",
                    resource=Resource(kind="JobSet", name=job_set),
                )
            await self._hub.next_poll()

    def _look_up(self, queue: str, job_set: str) -> tuple[int, int] | None:
        job_set_id = self._store.find_job_set(self._store.get_queue(queue).queue_id, job_set)
        return None if job_set_id is None else (job_set_id, self._store.oldest_event_number(job_set_id))

    async def _is_finished(self, cursor: WatchCursor, selection: JobFilter | None) -> bool:
        """Return whether all selected jobs have ended and all their events up to now were sent.

        A job that was cancelled before the leader heard of it has ended without any event yet, so the number of jobs
        that events told of is compared with the number there are.
        """
        if selection is None and sum(cursor.counts[JobState.QUEUED : JobState.SUCCEEDED]) > 0:
            return False
        everything = await self._threads.run(self._store.count_states, cursor.job_set_id)
        if not everything and not cursor.number:
            return False  # a job set is there a moment before its first jobs
        counts = everything
        if selection is not None:
            counts = await self._threads.run(self._store.count_states, cursor.job_set_id, selection)
        if any(counts.get(state) for state in (JobState.QUEUED, JobState.LEASED, JobState.RUNNING)):
            return False
        return not cursor.is_complete or sum(cursor.counts) >= sum(everything.values())


def _read_selection(request: event_pb2.WatchJobSetRequest) -> JobFilter | None:
    """Return which jobs' events are sent; None for all.

    Raises:
        InvalidRequest: An id or the label selector is wrong.
    """
    labels = parse_label_selector(request.label_selector, field="label_selector")
    if not labels and not request.job_ids:
        return None
    return JobFilter(handles=tuple(read_ids(request.job_ids, field="job_ids").values()), labels=labels)


def _kept(cursor: WatchCursor, oldest: int) -> WatchCursor:
    """Return where to begin.

    A watch from the beginning begins with the oldest event that is kept; one from a cursor must not miss any.

    Raises:
        OutOfRange: Events after the cursor are no longer kept.
    """
    if oldest <= cursor.number + 1:
        return cursor
    if cursor.number:
        raise _too_old(cursor.number)
    return WatchCursor(job_set_id=cursor.job_set_id, number=oldest - 1, is_complete=False)


def _too_old(number: int) -> OutOfRange:
    return OutOfRange(
        f"events after number {number} are no longer all kept; watch without a cursor to begin with the oldest kept, "
        "or list the job set's jobs"
    )

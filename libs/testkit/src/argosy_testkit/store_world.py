"""A database with a queue, a job set, a class and a leader: what most tests of the store start from."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from argosy_store import (
    ApiStore,
    Effects,
    JobFilter,
    JobRecord,
    Leadership,
    LeaderStore,
    SubmitRequest,
    SubmitResult,
)
from argosy_testkit.postgres import today
from argosy_testkit.submissions import make_leases, make_objects, make_request

__all__ = ["StoreWorld", "encode_change_requests", "encode_parts"]


def encode_parts(parts: Sequence[tuple[SubmitRequest, npt.NDArray[np.bool_]]]) -> bytes:
    """Return the inserted handles as text, for tests to look at."""
    return b"submitted " + b",".join(
        b"%d" % handle for request, keep in parts for handle in request.handles[keep].tolist()
    )


def encode_change_requests(handles: npt.NDArray[np.int64], ended: npt.NDArray[np.int8]) -> bytes:
    """Return the change requests as text, for tests to look at."""
    pairs = zip(handles.tolist(), ended.tolist(), strict=True)
    return b"asked " + b",".join(b"%d:%d" % pair for pair in pairs)


class StoreWorld:
    """Stores on one database, and the ids that requests need.

    Args:
        url: A migrated database of the test's own.
    """

    def __init__(self, url: str) -> None:
        """Make queue, job set and class, and take the lead."""
        self.url = url
        self.day = today()
        self.api = ApiStore(url)
        self.leader = LeaderStore(url, "default")
        self.queue = self.api.create_queue(
            "team", weight=1.0, pool="default", create_time_us=1, encode=lambda _: b"queue"
        )
        self.job_set_id = self.api.job_set_ids([(self.queue.queue_id, "nightly")])[0]
        self.class_id = self.api.class_ids([b'{"requests":{"cpu":1000}}'])[0]
        leadership = self.leader.try_lead("leader-1", "localhost:1", 600)
        assert leadership is not None
        self.leadership: Leadership = leadership

    @property
    def epoch(self) -> int:
        """The epoch of the world's leader."""
        return self.leadership.epoch

    def request(self, count: int, **options: Any) -> SubmitRequest:  # noqa: ANN401 - the builder's own options
        """Return a request for jobs of the world's queue, with numbers of their own."""
        options = {
            "day": self.day,
            "queue_id": self.queue.queue_id,
            "job_set_id": self.job_set_id,
            "class_id": self.class_id,
            **options,
        }
        return make_request(first=self.api.reserve_numbers(count), count=count, **options)

    def submit(self, *requests: SubmitRequest) -> list[SubmitResult]:
        """Submit requests in one transaction."""
        return self.api.submit(requests, encode_parts)

    def submit_jobs(self, count: int, **options: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401 - as above
        """Submit jobs and return their handles."""
        result = self.submit(self.request(count, **options))[0]
        assert result.accepted
        return result.handles

    def list_jobs(self, job_filter: JobFilter, after_handle: int = 0, limit: int = 100) -> list[JobRecord]:
        """Return jobs that a filter means, up to a number of them, however many pages it takes."""
        found: list[JobRecord] = []
        while True:
            page = self.api.list_jobs(job_filter, after_handle, limit - len(found))
            found += page.jobs
            after_handle = page.next_handle
            if len(found) == limit or not after_handle:
                return found

    def lease(self, handles: npt.NDArray[np.int64], *, attempt: int = 1) -> npt.NDArray[np.int64]:
        """Store leases with one pod each; return the refused handles."""
        effects = Effects(
            new_runs=make_leases(handles, attempt=attempt), new_objects=make_objects(handles, attempt=attempt)
        )
        return self.leader.apply(self.epoch, effects).refused_handles

    def close(self) -> None:
        """Close the stores."""
        self.api.close()
        self.leader.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

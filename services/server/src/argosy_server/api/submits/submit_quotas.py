"""How much users may submit, and how many bytes users and queues may have stored, at each API replica by itself.

Nobody who leads is needed for it, and no round trip: what was taken is kept in memory. What a request takes stays taken
though the request fails afterwards, or repeats another one.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from argosy_core.errors import QuotaExceeded, Resource
from argosy_core.queueing import RATE_BURST_S
from argosy_runtime.access.quotas import QuotaSettings, RateBuckets
from argosy_runtime.peers import refusal
from argosy_server.api.submits.admission import AdmittedJobs

__all__ = ["SubmitQuotas"]

_STORED_BURST_S: Final = 3600.0


class SubmitQuotas:
    """Holds submits to the quotas of their users and queues.

    Args:
        settings: Quotas of users.
        queue_bytes_per_s: Bytes of specs that a queue may have stored in a second; 0 for any.
        clock_s: Monotonic clock.
    """

    def __init__(
        self, settings: QuotaSettings, queue_bytes_per_s: float, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with nothing taken."""
        self.max_open_job_count = settings.max_open_job_count
        """Most jobs of a user that may be open, which the submit's own transaction holds to; 0 for any."""
        self._jobs = RateBuckets(settings.jobs_per_s, burst_s=RATE_BURST_S)
        self._bytes = RateBuckets(settings.stored_bytes_per_s, burst_s=_STORED_BURST_S)
        self._queue_bytes = RateBuckets(queue_bytes_per_s, burst_s=_STORED_BURST_S)
        self._clock_s = clock_s

    def take(self, jobs: AdmittedJobs, queues: Mapping[int, str]) -> None:
        """Take what a request needs; one may be larger than what is left, and what follows it waits the longer.

        A spec that is stored already counts as well: whether it is, only the transaction knows. Several queues of a
        request count it each.

        Args:
            jobs: The request.
            queues: Names of its queues by id.

        Raises:
            QuotaExceeded: Its user or a queue has taken too much; says when to come again.
        """
        now_s, user = self._clock_s(), jobs.submitter
        byte_count = sum(len(spec.row.body) for spec in jobs.specs)
        if user:
            wait_s = self._jobs.take(user, jobs.count, now_s)
            if wait_s:
                raise refusal(
                    f"{user} submits more jobs in a second than a user may; wait and submit again",
                    reason="USER_JOB_RATE",
                    limit="access.quotas.jobs_per_s",
                    retry_delay_s=wait_s,
                )
            wait_s = self._bytes.take(user, byte_count, now_s)
            if wait_s:
                raise refusal(
                    f"{user} has as many bytes of specs stored as a user may have now; submit smaller ones, or later",
                    reason="USER_STORED_BYTES",
                    limit="access.quotas.stored_bytes_per_s",
                    retry_delay_s=wait_s,
                )
        for name in queues.values():
            wait_s = self._queue_bytes.take(name, byte_count, now_s)
            if wait_s:
                raise QuotaExceeded(
                    f"queue {name!r} has as many bytes of specs stored as a queue may have now"
                    " (api.queue_stored_bytes_per_s); submit smaller ones, or later",
                    reason="QUEUE_STORED_BYTES",
                    resource=Resource(kind="Queue", name=name),
                    retry_delay_s=wait_s,
                )

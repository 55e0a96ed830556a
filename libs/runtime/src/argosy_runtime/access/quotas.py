"""How much one user may ask of a server: calls, and bytes each way, in a second, and streams at once.

Peers have limits of their own (`argosy_runtime.peers`), which hold whoever calls. These hold for a user, from however
many hosts and connections the calls come, and for each server process by itself. Clusters and servers have none.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import Message

from argosy_core.access import Principal
from argosy_runtime.peers import refusal

__all__ = ["QuotaSettings", "RateBuckets", "UserQuotas"]

_BURST_S: Final = 2.0
_MAX_KNOWN: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """How much one user may ask of one server process."""

    calls_per_s: float = field(default=1000.0, metadata={"may_be_zero": True})
    """Calls and streams that a user may begin in a second for ever; two seconds' worth at once. 0 for no limit."""
    bytes_per_s: float = field(default=67_108_864.0, metadata={"may_be_zero": True})
    """Bytes of requests that a user may send in a second for ever, likewise. 0 for no limit."""
    max_stream_count: int = field(default=500, metadata={"may_be_zero": True})
    """Streams that a user may hold at once, as watches and logs that are followed. 0 for no limit."""
    answer_bytes_per_s: float = field(default=67_108_864.0, metadata={"may_be_zero": True})
    """Bytes of answers that a user may get in a second for ever, as lists; two seconds' worth at once. Then calls are
    refused, and streams wait. 0 for no limit."""
    jobs_per_s: float = field(default=20_000.0, metadata={"may_be_zero": True})
    """Jobs that a user may submit in a second for ever, to all queues together; ten seconds' worth at once. 0 for no
    limit."""
    max_open_job_count: int = field(default=1_000_000, metadata={"may_be_zero": True})
    """Jobs of a user that may be open at once, waiting or running, in all queues and over all replicas together; by
    default as many as one queue may have waiting. 0 for no limit."""
    stored_bytes_per_s: float = field(default=4_194_304.0, metadata={"may_be_zero": True})
    """Bytes of specs that a user may have stored in a second for ever; an hour's worth at once. So what is stored of a
    user's is bounded, since it leaves with its jobs after `retention_days`. 0 for no limit."""


class RateBuckets:
    """Amounts in a second, of whom there is a bucket each; kept as the time at which all that was taken is paid for.

    Args:
        rate_per_s: What may be taken in a second for ever. 0 for any amount.
        burst_s: How many seconds' worth may be taken at once.
    """

    def __init__(self, rate_per_s: float, *, burst_s: float = _BURST_S) -> None:
        """Start with full buckets."""
        self._rate_per_s = rate_per_s
        self._burst_s = burst_s
        self._paid_s: dict[str, float] = {}

    def take(self, name: str, amount: float, now_s: float) -> float:
        """Take an amount and return 0, or take nothing and return in how many seconds it could be taken.

        What is left may be less than the amount, so that one that is larger than a whole bucket passes, too; what
        follows it waits the longer. O(1); of more names than 4,096 those that took last are known.
        """
        if not self._rate_per_s:
            return 0.0
        paid_s = max(self._paid_s.pop(name, now_s), now_s)
        wait_s = paid_s - now_s - self._burst_s
        if wait_s < 0:
            paid_s += amount / self._rate_per_s
        if len(self._paid_s) >= _MAX_KNOWN:
            del self._paid_s[next(iter(self._paid_s))]
        self._paid_s[name] = paid_s
        return max(wait_s, 1e-3) if wait_s >= 0 else 0.0

    def charge(self, name: str, amount: float, now_s: float) -> None:
        """Take an amount that is known only afterwards, however much is left; what follows it waits the longer."""
        if self._rate_per_s:
            self.take(name, 0.0, now_s)
            self._paid_s[name] += amount / self._rate_per_s


class UserQuotas:
    """Holds users to their quotas.

    Args:
        settings: How much there is.
        clock_s: Monotonic clock.
    """

    def __init__(self, settings: QuotaSettings, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing taken."""
        self._calls = RateBuckets(settings.calls_per_s)
        self._bytes = RateBuckets(settings.bytes_per_s)
        self._answers = RateBuckets(settings.answer_bytes_per_s)
        self._max_stream_count = settings.max_stream_count
        self._streams: Counter[str] = Counter()
        self._clock_s = clock_s

    def take_call(self, principal: Principal) -> None:
        """Note a call.

        Raises:
            QuotaExceeded: The user has begun too many, or got too many bytes; says when the next may.
        """
        if not principal.subjects:
            return
        wait_s = self._calls.take(principal.name, 1.0, self._clock_s())
        if wait_s:
            text = f"{principal.name} makes more calls in a second than a user may; wait and try again"
            raise refusal(text, reason="USER_CALL_RATE", limit="access.quotas.calls_per_s", retry_delay_s=wait_s)
        wait_s = self.answer_wait_s(principal)
        if wait_s:
            text = f"{principal.name} gets more bytes in a second than a user may; wait, or ask for fewer"
            limit = "access.quotas.answer_bytes_per_s"
            raise refusal(text, reason="USER_ANSWER_RATE", limit=limit, retry_delay_s=wait_s)

    def answer_wait_s(self, principal: Principal) -> float:
        """Return in how many seconds a user may get another answer; 0 for now."""
        return self._answers.take(principal.name, 0.0, self._clock_s()) if principal.subjects else 0.0

    def charge_answer(self, principal: Principal, answer: object) -> None:
        """Note a message that a user gets."""
        if principal.subjects and isinstance(answer, Message):
            self._answers.charge(principal.name, answer.ByteSize(), self._clock_s())

    def take_bytes(self, principal: Principal, count: int) -> None:
        """Note the bytes of a request, before it is decoded.

        Raises:
            QuotaExceeded: The user has sent too many; says when the next may come.
        """
        if not principal.subjects:
            return
        wait_s = self._bytes.take(principal.name, float(count), self._clock_s())
        if wait_s:
            text = f"{principal.name} sends more bytes in a second than a user may; wait and try again"
            raise refusal(text, reason="USER_BYTE_RATE", limit="access.quotas.bytes_per_s", retry_delay_s=wait_s)

    @contextmanager
    def stream(self, principal: Principal) -> Iterator[None]:
        """Hold a stream.

        Raises:
            QuotaExceeded: The user holds as many as one may.
        """
        name = principal.name if principal.subjects else ""
        if name and 0 < self._max_stream_count <= self._streams[name]:
            text = f"{name} holds {self._max_stream_count} streams, which is all that a user may; end some"
            raise refusal(text, reason="USER_STREAMS", limit="access.quotas.max_stream_count")
        if name:
            self._streams[name] += 1
        try:
            yield
        finally:
            if name:
                self._streams[name] -= 1
                if not self._streams[name]:
                    del self._streams[name]

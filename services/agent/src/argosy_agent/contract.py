"""Asking pods what they need, over HTTP: one small request to the pod's own address, one small answer, nothing else.

No redirect is followed, no proxy is used and no name is resolved. Time, bytes and how many are asked at once are
bounded, so a pod that hangs or floods holds nobody else up. Whatever is not an answer is silence.

Source: docs/autoscale.md "A word of the pod's own".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import ContractAnswered, ContractQuestion
from argosy_core.resources import MAX_AMOUNT

__all__ = ["PATH", "PodContracts"]

PATH: Final = "/argosy/size"
"""Where a pod is asked."""
_MOST_AT_ONCE: Final = 256
_MOST_BYTES: Final = 4096
"""Longest answer, with its headers."""


class PodContracts:
    """Asks pods.

    Args:
        host_of: Returns the address of a pod by its uid, empty if it has none of its own.
        timeout_s: How long a question may take, waiting for its turn included, seconds.
    """

    def __init__(self, host_of: Callable[[str], str], timeout_s: float) -> None:
        """Have asked nobody."""
        self._host_of = host_of
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def ask(self, question: ContractQuestion) -> ContractAnswered:
        """Ask a pod; never raises for what it answers."""
        needs = None
        host = self._host_of(question.uid)
        try:
            if host:
                async with asyncio.timeout(self._timeout_s), self._turns:
                    needs = _read(await _exchange(host, question))
        except (OSError, TimeoutError, ValueError):
            needs = None
        return ContractAnswered(uid=question.uid, number=question.number, needs=needs)


async def _exchange(host: str, question: ContractQuestion) -> bytes:
    """Return what the pod sends until it closes, or too much of it."""
    body = json.dumps({"size": question.size._asdict(), "proposed": question.proposed._asdict()}).encode()
    named = f"[{host}]" if ":" in host else host
    head = (
        f"POST {PATH} HTTP/1.0\r\nHost: {named}:{question.port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, question.port, limit=_MOST_BYTES)
    try:
        writer.write(head.encode() + body)
        answer = b""
        while len(answer) <= _MOST_BYTES and (part := await reader.read(_MOST_BYTES)):
            answer += part
        return answer
    finally:
        writer.transport.abort()


def _read(answer: bytes) -> Amounts:
    """Return what a pod says that it needs.

    Raises:
        ValueError: It is no answer.
    """
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(answer) > _MOST_BYTES or not status[0].startswith(b"HTTP/1.") or status[1:2] != [b"200"]:
        raise ValueError("not an answer")
    try:
        needs = _object(_object(json.loads(body)).get("needs", {}))
    except RecursionError as cause:
        raise ValueError("too deep") from cause
    return Amounts(*(_amount(needs.get(name, 0)) for name in Amounts._fields))


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - what a pod sends is a value, not a type, of ours
    return value


def _amount(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_AMOUNT:
        raise ValueError("not an amount")
    return value

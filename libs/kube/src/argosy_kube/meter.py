"""Whom an adapter tells what it asks of an API server; who runs it makes metrics of that."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["NO_METER", "ApiMeter"]


class ApiMeter(Protocol):
    """Takes what an API server was asked for; called often, so it must be quick and must not raise."""

    def call_answered(self, method: str, code: int) -> None:
        """Take that a call ended.

        Args:
            method: HTTP method, `STREAM` for the start of a watch or log.
            code: HTTP status; 429 where the API server asks for fewer calls, 0 where there was no answer.
        """

    def watch_heard(self, kind: str) -> None:
        """Take that a watch brought something, if only a bookmark, which comes about once a minute.

        Args:
            kind: As the port calls it, or `Node`.
        """


class _NoMeter:
    """Takes nothing down."""

    def call_answered(self, method: str, code: int) -> None:
        """See ApiMeter."""

    def watch_heard(self, kind: str) -> None:
        """See ApiMeter."""


NO_METER: Final[ApiMeter] = _NoMeter()
"""For whoever makes no metrics."""

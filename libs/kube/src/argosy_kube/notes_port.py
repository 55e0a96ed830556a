"""The port of a sampler that notes on pods what they may have; `kubernetes/scaling/notes.py` implements it.

Source: docs/autoscale.md "Durable permits".
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["PodNotes"]


class PodNotes(Protocol):
    """Notes on the pods of one cluster."""

    async def write(self, place: tuple[str, str], uid: str, *, before: str, after: str) -> str:
        """Replace the note of a pod if it is as expected, and return the one that the pod then has; empty for none.

        Args:
            place: Namespace and name of the pod.
            uid: Its uid; there is nothing to note on another pod of the name.
            before: The note that it is to have now, empty for none.
            after: The note that it is to get.

        Raises:
            BackendUnavailable: It is not known what the note is now, or the pod is gone.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the notes stay."""
        ...

"""What was found out about tokens, for a while.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Values that are known until a time, by a text; of more than so many those that were put in last."""

    def __init__(self, max_count: int) -> None:
        """Start empty."""
        self._max_count = max_count
        self._known: dict[str, tuple[Value, float]] = {}

    def get(self, name: str, now_s: float) -> Value | None:
        """Return a value; None if it is not known, or no more. O(1)."""
        found = self._known.get(name)
        return found[0] if found is not None and now_s < found[1] else None

    def put(self, name: str, value: Value, until_s: float) -> None:
        """Keep a value until a time. O(1)."""
        self._known.pop(name, None)
        if len(self._known) >= self._max_count:
            del self._known[next(iter(self._known))]
        self._known[name] = value, until_s

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

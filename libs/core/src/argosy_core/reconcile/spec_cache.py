"""A cache of spec bodies that two ends keep equal without talking about it.

The leader sends each spec body to an executor once for as long as both remember it. Neither asks the other: both run
the same cache over the same sequence of hashes, so each knows what the other holds. Both begin empty with each stream.

Source: design section 5, "Sync" ("each spec sent once"); `ObjectRows.spec_hashes` in argosy.executor.v1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from argosy_core.errors import StateConflict

__all__ = ["SPEC_CACHE_BYTES", "SpecCache"]

SPEC_CACHE_BYTES: Final = 16 << 20
"""Sum of body lengths that a cache holds between messages. Part of the protocol: both ends must use the same."""


class SpecCache:
    """Least recently used spec bodies by hash, in an order that depends on nothing but the messages.

    Use `send` at one end and `receive` at the other, once per message and with the same hashes in the same order.
    Within a message nothing is forgotten; after it the least recently used go until the bodies fit.

    Args:
        capacity_bytes: Sum of body lengths that is held between messages.
    """

    def __init__(self, capacity_bytes: int = SPEC_CACHE_BYTES) -> None:
        """Start empty."""
        self._capacity_bytes = capacity_bytes
        self._sizes: OrderedDict[bytes, int] = OrderedDict()
        self._bodies: dict[bytes, bytes] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        """Return the number of bodies held."""
        return len(self._sizes)

    @property
    def size_bytes(self) -> int:
        """Sum of the lengths of the bodies held."""
        return self._size_bytes

    def missing(self, hashes: Sequence[bytes]) -> list[bytes]:
        """Return the distinct hashes whose bodies `send` would need for this message, in order; changes nothing."""
        return [spec_hash for spec_hash in dict.fromkeys(hashes) if spec_hash not in self._sizes]

    def send(self, hashes: Sequence[bytes], body_of: Callable[[bytes], bytes]) -> list[bytes]:
        """Return what goes into `spec_bodies` for a message: the body, or nothing where the other end holds it.

        Args:
            hashes: `spec_hashes` of the message, in order of first use.
            body_of: Gives the body of a hash; asked for missing ones only.

        Raises:
            Whatever `body_of` raises, before anything has changed.
        """
        wanted = {spec_hash: body_of(spec_hash) for spec_hash in self.missing(hashes)}
        answers: list[bytes] = []
        for spec_hash in hashes:
            if spec_hash in self._sizes:
                self._sizes.move_to_end(spec_hash)
                answers.append(b"")
            else:
                body = wanted[spec_hash]
                self._add(spec_hash, len(body))
                answers.append(body)
        self._shrink()
        return answers

    def receive(self, hashes: Sequence[bytes], bodies: Sequence[bytes]) -> list[bytes]:
        """Return the body of each hash of a message.

        Args:
            hashes: `spec_hashes` of the message.
            bodies: `spec_bodies` of the message, empty where this end holds the body.

        Raises:
            StateConflict: The ends differ (a hash neither held nor sent): the stream must start anew.
        """
        if len(hashes) != len(bodies):
            raise StateConflict(f"the message names {len(hashes)} specs and brings {len(bodies)} bodies")
        answers: list[bytes] = []
        for spec_hash, body in zip(hashes, bodies, strict=True):
            if spec_hash in self._sizes:
                self._sizes.move_to_end(spec_hash)
            elif body:
                self._add(spec_hash, len(body))
                self._bodies[spec_hash] = body
            else:
                raise StateConflict(f"spec {spec_hash.hex()} was neither sent nor is it held")
            answers.append(self._bodies[spec_hash])
        self._shrink()
        return answers

    def _add(self, spec_hash: bytes, size_bytes: int) -> None:
        """Hold one more body as the most recently used."""
        self._sizes[spec_hash] = size_bytes
        self._size_bytes += size_bytes

    def _shrink(self) -> None:
        """Forget the least recently used until the rest fits."""
        while self._size_bytes > self._capacity_bytes:
            spec_hash, size_bytes = self._sizes.popitem(last=False)
            self._size_bytes -= size_bytes
            self._bodies.pop(spec_hash, None)

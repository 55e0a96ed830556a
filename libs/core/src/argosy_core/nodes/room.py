"""What is left at places, and whether a pod fits: the one check of the leader's decision and the sampler's commit.

Source: seed 001 "Basics"; seed 000 "Decision Phase" and "Commit Phase".
"""

from __future__ import annotations

from collections.abc import Sequence

from argosy_core.job.reading.classes import HostPort
from argosy_core.nodes.claims import PortClaims

__all__ = ["Asked", "Room"]


Asked = Sequence[tuple[int, int]]
"""(resource, amount above 0) pairs, base units."""


class Room:
    """Free amounts and claims of places.

    Args:
        free: By place and resource, at `place * width + resource`: base units free; changed in place.
        width: Number of resources.
        claims: Host ports that are taken; none if not given.
    """

    __slots__ = ("claims", "free", "width")

    def __init__(self, free: list[int], width: int, claims: PortClaims | None = None) -> None:
        """Keep what is left; one flat list, since a list per place would keep the garbage collector busy."""
        self.free = free
        self.width = width
        self.claims = claims or PortClaims()

    def copy(self) -> Room:
        """Return what is left now, which later changes leave alone."""
        return Room(self.free.copy(), self.width, self.claims.copy())

    def fits(self, place: int, asked: Asked, ports: Sequence[HostPort] = ()) -> bool:
        """Return whether what is left at a place holds a pod. A resource that is not asked for may be short.

        Args:
            place: The place.
            asked: What the pod asks for.
            ports: Host ports that it takes.
        """
        base, free = place * self.width, self.free
        for column, amount in asked:
            if free[base + column] < amount:
                return False
        return not ports or self.claims.is_free(place, ports)

    def take(self, place: int, asked: Asked, ports: Sequence[HostPort] = ()) -> None:
        """Take a pod off what is left; arguments as in `fits`."""
        base, free = place * self.width, self.free
        for column, amount in asked:
            free[base + column] -= amount
        if ports:
            self.claims.take(place, ports)

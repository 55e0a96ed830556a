"""What is left at places, and whether a pod fits: the one check of the leader's decision and the sampler's commit.

Source: seed 001 "Basics"; seed 000 "Decision Phase" and "Commit Phase".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argosy_core.job.classes import HostPort
from argosy_core.nodes.claims import PortClaims

__all__ = ["Demand", "Room"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod takes of its node."""

    asked: tuple[tuple[int, int], ...]
    """(resource, amount above 0) pairs, base units."""
    ports: tuple[HostPort, ...] = ()
    """Host ports."""

    @staticmethod
    def of(amounts: Sequence[int], ports: tuple[HostPort, ...] = ()) -> Demand:
        """Return the demand of a pod that asks for amounts in the order of the resources."""
        return Demand(tuple((column, amount) for column, amount in enumerate(amounts) if amount > 0), ports)


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

    def fits(self, place: int, demand: Demand) -> bool:
        """Return whether what is left at a place holds a pod. A resource that is not asked for may be short."""
        base, free = place * self.width, self.free
        for column, amount in demand.asked:
            if free[base + column] < amount:
                return False
        return not demand.ports or self.claims.is_free(place, demand.ports)

    def take(self, place: int, demand: Demand) -> None:
        """Take a pod off what is left."""
        base, free = place * self.width, self.free
        for column, amount in demand.asked:
            free[base + column] -= amount
        if demand.ports:
            self.claims.take(place, demand.ports)

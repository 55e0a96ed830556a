"""Host ports that are taken at places: sparse claims beside what is free of each resource.

A place is a row of a node table, or a candidate of a round. As in Kubernetes, two ports clash if protocol and number
are the same and so is the address, where the empty address, 0.0.0.0, is the same as every other.

Source: design section 6, "Data layout"; the meanings are those of Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from argosy_core.job.reading.classes import HostPort

__all__ = ["PortClaims"]


class PortClaims:
    """How many pods hold which host port at which place."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        """Start with nothing held."""
        self._held: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def copy(self) -> PortClaims:
        """Return the claims as they are now."""
        copied = PortClaims()
        copied._held = {
            port: {place: dict(held) for place, held in places.items()} for port, places in self._held.items()
        }
        return copied

    def take(self, place: int, ports: Iterable[HostPort]) -> None:
        """Note that one more pod holds ports of a place, whether they clash with others or not."""
        for port in ports:
            held = self._held.setdefault((port.protocol, port.port), {}).setdefault(place, {})
            held[port.host_ip] = held.get(port.host_ip, 0) + 1

    def give(self, place: int, ports: Iterable[HostPort]) -> None:
        """Note that a pod no longer holds ports of a place; they were taken for it before."""
        for port in ports:
            places = self._held[port.protocol, port.port]
            held = places[place]
            held[port.host_ip] -= 1
            if not held[port.host_ip]:
                del held[port.host_ip]
            if not held:
                del places[place]
            if not places:
                del self._held[port.protocol, port.port]

    def is_free(self, place: int, ports: Iterable[HostPort]) -> bool:
        """Return whether none of the ports clashes with one that is held at a place."""
        for port in ports:
            held = self._held.get((port.protocol, port.port), {}).get(place)
            if held and (not port.host_ip or port.host_ip in held or "" in held):
                return False
        return True

    def taken_at(self, ports: Iterable[HostPort]) -> list[int]:
        """Return the places at which one of the ports clashes, in no order. Complexity: O(places that hold them)."""
        return list(
            {
                place
                for port in ports
                for place, held in self._held.get((port.protocol, port.port), {}).items()
                if not port.host_ip or port.host_ip in held or "" in held
            }
        )

    def at(self, places: Sequence[int]) -> PortClaims:
        """Return a copy of what is held at some distinct places, which are numbered as they stand."""
        number = {place: position for position, place in enumerate(places)}
        copy = PortClaims()
        for key, by_place in self._held.items():
            found = by_place.keys() & number.keys()
            if found:
                copy._held[key] = {number[place]: dict(by_place[place]) for place in found}
        return copy

    def counts(self) -> Counter[tuple[HostPort, int]]:
        """Return how many pods hold each port at each place."""
        return Counter(
            {
                (HostPort(protocol, number, host_ip), place): count
                for (protocol, number), by_place in self._held.items()
                for place, held in by_place.items()
                for host_ip, count in held.items()
            }
        )

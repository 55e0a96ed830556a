"""The contract of a sampler that places on a delegated cluster, as tests that each implementation's module inherits.

A subclass gives a `lab` fixture: a sampler of a cluster with the nodes of `cluster_contract.LAB_NODES`, empty, and a
leader that it listens to.

Source: seed 003 "Executor implementation"; `argosy_core.placement.delegated`; decision 0022.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

import pytest

from argosy_core.errors import InvalidRequest, NotAllowedNow
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.nodes import ANY_NODE
from argosy_core.placement.messages import PlaceReply
from argosy_testkit.cluster_contract import LAB_NODES

__all__ = ["CLASSES", "PlacementContract", "PlacementLab", "Run"]

Run = tuple[int, int]
"""Handle and attempt."""
CLASSES: Final = {
    1: SchedulingClass(requests=(("cpu", 1000), ("memory", 1 << 30))),
    2: SchedulingClass(requests=(("cpu", 64_000),)),
    3: SchedulingClass(requests=(("cpu", 3000), ("memory", 1 << 30))),
}
"""One core; more than any node has; most of a node."""
ONE_CORE, HUGE, LARGE = CLASSES
NAMES: Final = frozenset(node.name for node in LAB_NODES)


class PlacementLab(Protocol):
    """A sampler as its leader and its executor see it."""

    async def tell_placements(self, placements: Mapping[Run, tuple[int, str]]) -> None:
        """Tell the sampler all placements of its cluster, by run: class, and node or `ANY_NODE`."""
        ...

    async def place(self, members: Members) -> PlaceReply:
        """Ask for nodes, as the cluster's executor does."""
        ...

    async def told_nodes(self, count: int) -> dict[Run, str]:
        """Return the nodes that the leader was told, once it was told so many."""
        ...


def _members(*runs: Run) -> Members:
    return Members.of([handle for handle, _ in runs], [attempt for _, attempt in runs])


def _leased(*handles: int, of: int = ONE_CORE) -> dict[Run, tuple[int, str]]:
    """Return first attempts that are leased to the cluster as a whole."""
    return {(handle, 1): (of, ANY_NODE) for handle in handles}


class PlacementContract:
    """What every sampler of a delegated cluster does."""

    async def test_members_get_nodes_and_the_same_ones_when_asked_again(self, lab: PlacementLab) -> None:
        """An answer may be lost; the leader is told where each is."""
        await lab.tell_placements(_leased(1, 2))
        first = await lab.place(_members((1, 1), (2, 1)))
        assert set(first.nodes) <= NAMES
        assert first.reasons == ("", "")
        again = await lab.place(_members((2, 1), (1, 1)))
        assert again.nodes == first.nodes[::-1]
        assert await lab.told_nodes(2) == {(1, 1): first.nodes[0], (2, 1): first.nodes[1]}

    async def test_nodes_in_use_are_filled_before_empty_ones(self, lab: PlacementLab) -> None:
        """Fewest nodes, and the largest first: what is left is in one piece."""
        await lab.tell_placements(_leased(1, 2) | _leased(3, of=LARGE) | {(9, 1): (ONE_CORE, "node-b")})
        reply = await lab.place(_members((1, 1), (2, 1), (3, 1)))
        assert reply.nodes[2] == "node-b"
        assert reply.nodes[0] == reply.nodes[1] != "node-b"

    async def test_what_fits_nowhere_is_returned_with_what_is_missing(self, lab: PlacementLab) -> None:
        """Its job goes to another cluster, and people read why."""
        await lab.tell_placements(_leased(1) | _leased(2, of=HUGE))
        reply = await lab.place(_members((2, 1), (1, 1)))
        assert (reply.nodes[0], bool(reply.nodes[1])) == ("", True)
        assert "cpu" in reply.reasons[0]
        assert reply.reasons[1] == ""

    async def test_no_node_gets_more_than_it_holds(self, lab: PlacementLab) -> None:
        """A lease names no node, so the sums may have held what no single node does."""
        handles = range(1, 14)
        await lab.tell_placements(_leased(*handles))
        reply = await lab.place(_members(*((handle, 1) for handle in handles)))
        counts = Counter(reply.nodes)
        assert counts.pop("") == 1
        assert counts == dict.fromkeys(NAMES, 4)
        assert sum(map(bool, reply.reasons)) == 1

    async def test_nothing_is_said_of_what_is_not_leased_there(self, lab: PlacementLab) -> None:
        """Neither a node nor a return: the executor asks again, and its leader knows."""
        await lab.tell_placements(_leased(1))
        reply = await lab.place(_members((7, 1), (1, 2)))
        assert (reply.nodes, reply.reasons) == (("", ""), ("", ""))

    async def test_what_a_leader_placed_keeps_its_node(self, lab: PlacementLab) -> None:
        """Leased before the cluster was delegated, or placed under a former leader."""
        await lab.tell_placements({(1, 1): (ONE_CORE, "node-c")})
        assert (await lab.place(_members((1, 1)))).nodes == ("node-c",)

    async def test_request_before_the_placements_are_known_is_refused(self, lab: PlacementLab) -> None:
        """What is leased is not known yet, and so not what is free."""
        with pytest.raises(NotAllowedNow):
            await lab.place(_members((1, 1)))

    async def test_member_that_stands_twice_is_refused(self, lab: PlacementLab) -> None:
        """An executor asks for each once."""
        await lab.tell_placements(_leased(1))
        with pytest.raises(InvalidRequest):
            await lab.place(_members((1, 1), (1, 1)))

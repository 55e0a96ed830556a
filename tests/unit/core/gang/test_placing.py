"""Gangs on small trees: worked by hand, and against a search through everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.gang import GangPlaces, SubGroup, Topology, place_gang

RACKS = ["a1", "a1", "a2", "a2", "b1", "b1", "b1", "b2"]
PODS = ["a", "a", "a", "a", "b", "b", "b", "b"]


def tree() -> Topology:
    """Two pods of two racks each, of 2, 2, 3 and 1 nodes."""
    return Topology.of(8, [RACKS, PODS])


def group(minimum: int, cores: int = 4, *, maximum: int = 0, max_hops: int = -1) -> SubGroup:
    """Return a sub-group that may be anywhere."""
    return SubGroup(
        request=np.array([cores], dtype=np.int64),
        minimum=minimum,
        maximum=maximum or minimum,
        eligible=np.ones(8, dtype=np.bool_),
        max_hops=max_hops,
    )


def cores(*amounts: int) -> np.ndarray:
    """Return the free cores of each node."""
    return np.array([amounts], dtype=np.int64)


def placed(places: GangPlaces | None) -> list[tuple[list[int], int]]:
    """Return the nodes and hops of each sub-group."""
    assert places is not None
    return [(nodes.tolist(), hops) for nodes, hops in zip(places.nodes, places.hops, strict=True)]


@pytest.mark.parametrize(
    ("free", "minimum", "nodes", "hops"),
    [
        ((4, 4, 4, 4, 4, 4, 4, 8), 1, [0], 0),
        ((4, 4, 4, 4, 4, 4, 4, 8), 2, [7, 7], 0),
        ((4, 4, 4, 4, 4, 4, 4, 4), 2, [0, 1], 2),
        ((4, 4, 4, 4, 4, 4, 4, 4), 3, [4, 5, 6], 2),
        ((4, 4, 4, 4, 4, 4, 4, 4), 4, [0, 1, 2, 3], 4),
        ((4, 4, 4, 4, 4, 4, 4, 4), 5, [0, 1, 2, 3, 7], 6),
        ((4, 0, 4, 4, 4, 4, 4, 4), 2, [2, 3], 2),
    ],
)
def test_gang_is_placed_with_the_fewest_hops_and_then_in_the_tightest_subtree(
    free: tuple[int, ...], minimum: int, nodes: list[int], hops: int
) -> None:
    """A node that holds all comes before a rack, a rack before a pod; of equals the one with least room to spare."""
    assert placed(place_gang(tree(), cores(*free), [group(minimum)])) == [(nodes, hops)]


def test_gang_is_placed_whole_or_not_at_all() -> None:
    """Nine pods for eight nodes; and two sub-groups of five that each would fit."""
    everywhere = cores(*[4] * 8)
    assert place_gang(tree(), everywhere, [group(9)]) is None
    assert place_gang(tree(), everywhere, [group(5), group(5)]) is None
    assert placed(place_gang(tree(), everywhere, [])) == []


@pytest.mark.parametrize(("max_hops", "fits"), [(0, False), (2, False), (3, False), (4, True), (6, True), (-1, True)])
def test_limit_of_hops_is_kept(max_hops: int, *, fits: bool) -> None:
    """Four pods of a node each need a pod of the network: four hops."""
    assert (place_gang(tree(), cores(*[4] * 8), [group(4, max_hops=max_hops)]) is not None) is fits


def test_whole_nodes_are_those_on_which_nothing_runs_and_the_gang_shares_them_with_itself() -> None:
    """Nodes 0 and 4 are empty; a coordinator of one core stands beside a worker, elsewhere is more room but company."""
    empty = np.array([True, False, False, False, True, False, False, False])
    places = place_gang(tree(), cores(8, 8, 8, 8, 8, 8, 8, 8), [group(2, 6), group(1, 1)], empty=empty)
    assert placed(places) == [([0, 4], 6), ([0], 0)]
    assert place_gang(tree(), cores(*[8] * 8), [group(3, 6)], empty=empty) is None


def test_sub_groups_are_packed_in_another_order_where_the_first_hinders() -> None:
    """Racks of 2, 2, 3 and 1: groups of 3, 2, 2 and 1 fit with two hops each, and only in one way."""
    everywhere = cores(*[4] * 8)
    for sizes in set(itertools.permutations((3, 2, 2, 1))):
        places = place_gang(tree(), everywhere, [group(size) for size in sizes])
        assert places is not None
        assert max(places.hops) == 2
        assert sorted(np.concatenate(places.nodes).tolist()) == list(range(8))


def test_node_without_a_label_is_near_nobody() -> None:
    """Two of three nodes have no rack: they are as far from each other as from the third."""
    lonely = Topology.of(3, [["", "", "a"]])
    assert lonely.hops_between(np.array([0, 1], dtype=np.int32)) == 4
    assert Topology.of(3).hops_between(np.array([0, 1], dtype=np.int32)) == 2


def test_equal_names_below_different_parents_are_different_racks() -> None:
    """Rack 1 of pod a is not rack 1 of pod b."""
    both = Topology.of(2, [["1", "1"], ["a", "b"]])
    assert both.hops_between(np.array([0, 1], dtype=np.int32)) == 6


def test_node_that_owes_is_no_room() -> None:
    """A negative amount of a resource that the gang does not ask for keeps it away, too."""
    free = np.array([[8], [-1]], dtype=np.int64)
    asked = SubGroup(request=np.array([1, 0]), minimum=1, maximum=1, eligible=np.ones(1, dtype=np.bool_))
    assert place_gang(Topology.of(1), free, [asked]) is None


@pytest.mark.parametrize(("minimum", "maximum", "request_"), [(0, 1, [1]), (3, 2, [1]), (1, 1, [0]), (1, 1, [-1])])
def test_sub_group_that_contradicts_itself_is_refused(minimum: int, maximum: int, request_: list[int]) -> None:
    """Minimum above maximum, no pod at all, or a pod that asks for nothing."""
    with pytest.raises(InvalidRequest):
        SubGroup(request=np.array(request_), minimum=minimum, maximum=maximum, eligible=np.ones(1, dtype=np.bool_))


def test_columns_of_another_length_are_refused() -> None:
    """What is said of eight nodes is no answer for seven."""
    with pytest.raises(InvalidRequest):
        place_gang(tree(), cores(*[4] * 7), [group(1)])
    with pytest.raises(InvalidRequest):
        Topology.of(3, [["a", "b"]])

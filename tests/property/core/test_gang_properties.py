"""Gangs in random trees: all or nothing, no node holds more than it has, as near as a search through everything."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.gang import GangPlaces, SubGroup, Topology, place_gang


@st.composite
def worlds(draw: st.DrawFn, *, group_count: int = 1) -> tuple[Topology, np.ndarray, list[SubGroup]]:
    """Draw up to seven nodes in racks and pods, some without labels, and sub-groups of up to four pods."""
    count = draw(st.integers(1, 7))
    label = st.sampled_from(["", "x", "y", "z"])
    topology = Topology.of(count, [draw(st.lists(label, min_size=count, max_size=count)) for _ in range(2)])
    free = np.array([draw(st.lists(st.integers(-1, 4), min_size=count, max_size=count)) for _ in range(2)])
    groups = []
    for _ in range(group_count):
        minimum = draw(st.integers(1, 4))
        groups.append(
            SubGroup(
                request=np.array([draw(st.integers(1, 3)), draw(st.integers(0, 2))]),
                minimum=minimum,
                maximum=minimum + draw(st.integers(0, 3)),
                eligible=np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count))),
                max_hops=draw(st.sampled_from([-1, 0, 2, 4, 6])),
            )
        )
    return topology, free.astype(np.int64), groups


def every_choice(topology: Topology, group: SubGroup) -> list[np.ndarray]:
    """Return every set of nodes for a sub-group's minimum that keeps its limit."""
    rows = np.flatnonzero(group.eligible).astype(np.int32)
    chosen = (np.array(nodes, dtype=np.int32) for nodes in itertools.combinations_with_replacement(rows, group.minimum))
    return [nodes for nodes in chosen if not 0 <= group.max_hops < topology.hops_between(nodes)]


def fits(free: np.ndarray, groups: list[SubGroup], nodes: tuple[np.ndarray, ...]) -> bool:
    """Return whether no used node gives more than it has."""
    left = free.copy()
    for group, rows in zip(groups, nodes, strict=True):
        np.subtract.at(left, (slice(None), rows), group.request[:, None])
    used = np.unique(np.concatenate(nodes))
    return bool((left[:, used] >= 0).all() and (free[:, used] >= 0).all())


def check(topology: Topology, free: np.ndarray, groups: list[SubGroup], places: GangPlaces) -> None:
    """Assert what holds for every placement."""
    assert fits(free, groups, places.nodes)
    for group, nodes, hops in zip(groups, places.nodes, places.hops, strict=True):
        assert group.minimum <= nodes.size <= group.maximum
        assert group.eligible[nodes].all()
        assert hops == topology.hops_between(nodes)
        assert group.max_hops < 0 or hops <= group.max_hops


@given(worlds())
def test_one_sub_group_is_as_near_as_can_be(world: Any) -> None:
    """The largest hop count equals the least of all placements, and there is a placement whenever there is one."""
    topology, free, groups = world
    places = place_gang(topology, free, groups)
    possible = [nodes for nodes in every_choice(topology, groups[0]) if fits(free, groups, (nodes,))]
    assert (places is None) is (not possible)
    if places is not None:
        check(topology, free, groups, places)
        assert places.hops[0] == min(topology.hops_between(nodes) for nodes in possible)


@given(worlds(group_count=2))
def test_several_sub_groups_get_their_minimum(world: Any) -> None:
    """Invariant 7, and no node holds more than it has."""
    topology, free, groups = world
    places = place_gang(topology, free, groups)
    if places is None:
        return
    assert all(nodes.size == group.minimum for nodes, group in zip(places.nodes, groups, strict=True))
    check(topology, free, groups, places)

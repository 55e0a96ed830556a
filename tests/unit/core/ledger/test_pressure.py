"""Pressure: which pods are named to be moved, how much is accounted for, and what placements are kept from."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents, PodSizeState
from argosy_core.nodes import NodeSpec

ROOM = {"cpu": 1000, "memory": 100, "pods": 100}
SETTINGS = PermitSettings(unit=(100, 10), watermark_ratio=0.7, move_timeout_s=60.0, move_rest_s=600.0)


class World:
    """Nodes a and b of 1000 millicores and 100 bytes; pods that are called by their job's handle, all on a."""

    def __init__(self, settings: PermitSettings = SETTINGS) -> None:
        """No pod is there."""
        self.ledger = NodeLedger(permits=settings)
        self.ledger.put_nodes([NodeSpec(name=name, total=ROOM) for name in ("a", "b")])
        self.ledger.define_class(1, SchedulingClass(requests=(("cpu", 200), ("memory", 20))))
        self.permits = self.ledger.permits
        self.permits.has_listed = True
        self.held: dict[int, tuple[int, int]] = {}

    def run(
        self, handle: int, size: tuple[int, int] = (200, 20), *, is_movable: bool = True, at_s: float = 0.0
    ) -> None:
        """A pod runs that an agent holds at its size."""
        self.permits.advance(at_s)
        self.held[handle] = size
        self.ledger.take_list(
            Members.of([*self.held], [1] * len(self.held)), np.ones(len(self.held), np.int32),
            np.zeros(len(self.held), np.int32),
        )  # fmt: skip
        scaling = Scaling(least=(100, 10), most=(900, 90), is_movable=is_movable)
        uids = np.full((1, 16), handle, np.uint8)
        self.ledger.observe(
            PodEvents(
                members=Members.of([handle], [1]), uids=uids, nodes=np.zeros(1, np.int32), ended=np.zeros(1, np.bool_),
                requests=np.array([[*size, 1]]), scalings={0: scaling},
            )
        )  # fmt: skip
        one = np.ones(1, np.int64)
        self.permits.join(
            self.row(handle), np.array([size]).T, one > 0, numbers=one * handle, session=1, process=1
        )  # fmt: skip

    def row(self, handle: int) -> np.ndarray:
        """Row of a pod."""
        return self.permits.pods.rows(np.full((1, 16), handle, np.uint8).view(np.int64))

    def ask(self, handle: int, wanted: tuple[int, int], number: int = 1000) -> None:
        """Ask for a pod."""
        one = np.ones(1, np.int64)
        self.permits.request(self.row(handle), np.array([wanted]).T, one == 0, numbers=one * number, session=one)
        self.permits.settle(self.row(handle))
        self.ledger.check_invariants()

    def name(self, now_s: float = 0.0) -> list[int]:
        """Let time pass; return whose pods are named now."""
        self.permits.advance(now_s)
        rows = self.ledger.pressure.name_moves()
        self.ledger.check_invariants()
        named: list[int] = self.permits.pods.uid[rows, 0].astype(np.uint8).tolist()
        return named


def test_nobody_is_named_unless_a_watermark_says_so() -> None:
    """To move a pod is to end its run: the default is not to."""
    world = World(PermitSettings(unit=(100, 10)))
    world.run(1, (500, 50))
    world.run(2, (500, 50))
    world.ask(1, (900, 90))
    assert world.name() == []


def test_what_lost_least_work_is_named_up_to_the_pressure() -> None:
    """900 of 1000 are taken, 700 are the watermark: one pod of 200 is enough, the younger one."""
    world = World()
    world.run(1, (300, 30))
    world.run(2, (200, 20), at_s=50.0)
    world.run(3, (200, 20), at_s=90.0)
    world.run(4, (200, 20), is_movable=False, at_s=99.0)
    assert world.name(100.0) == [3]
    books = world.permits.room.node_accounts()
    assert (books.accounted[:, 0].tolist(), books.watermark[:, 0].tolist()) == ([200, 20], [700, 70])
    assert world.name(101.0) == []


def test_what_was_denied_is_pressure_and_goes_with_the_pod() -> None:
    """A pod is denied 200 below the watermark's end: another one has to go, though nothing is above the watermark."""
    world = World(dataclasses.replace(SETTINGS, watermark_ratio=0.99))
    world.run(1, (500, 50), is_movable=False)
    world.run(2, (400, 40))
    world.ask(1, (900, 50))
    assert world.permits.room.node_accounts().pressure[:, 0].tolist() == [300, 0]
    assert world.name() == [2]


def test_a_pod_that_fits_nowhere_else_is_not_named() -> None:
    """Ended, it would wait, and nothing were won but its room."""
    world = World()
    world.ledger.put_nodes([NodeSpec(name="b", total={**ROOM, "cpu": 100})])
    world.run(1, (900, 90))
    assert world.name() == []


def test_a_move_that_fails_is_not_accounted_for_and_its_job_rests() -> None:
    """After a minute the pod is still there: another one is named, and the first not again before it has rested."""
    world = World()
    world.run(1, (450, 45))
    world.run(2, (450, 45))
    assert world.name(1.0) == [1]
    assert world.name(60.0) == []
    assert world.name(61.5) == [2]
    assert world.name(122.0) == []
    assert world.name(601.5) == [1]


def test_leaders_are_told_of_moves_once_and_again_on_a_new_stream() -> None:
    """The members of their pools alone."""
    world = World()
    world.run(7, (900, 90))
    world.name()
    assert world.ledger.pressure.take_moves(1).handle.tolist() == []
    assert world.ledger.pressure.take_moves(0).handle.tolist() == [7]
    assert world.ledger.pressure.take_moves(0).handle.tolist() == []
    world.ledger.pressure.forget_told(0)
    assert world.ledger.pressure.take_moves(0).handle.tolist() == [7]


def test_placements_stop_at_the_watermark_where_pods_are_scaled_and_permits_do_not() -> None:
    """What is above it is for those who are there already; a node without scaled pods is whole."""
    world = World()
    world.run(1, (200, 20), is_movable=False)
    world.permits.advance(1.0)
    assert world.ledger.nodes.free[:2].T.tolist() == [[500, 50], [1000, 100]]
    world.ask(1, (900, 90))
    assert world.permits.pods.permit[:, world.row(1)[0]].tolist() == [900, 90]
    assert world.permits.room.node_accounts().reserved[:, 0].tolist() == [900, 90]


@pytest.mark.parametrize("node_watermarks", [{}, {"a": 1.0}])
def test_a_watermark_of_one_node_counts_there(node_watermarks: dict[str, float]) -> None:
    """An override names a node."""
    world = World(dataclasses.replace(SETTINGS, node_watermarks=node_watermarks))
    world.run(1, (900, 90))
    assert world.name() == ([] if node_watermarks else [1])


def test_configuration_that_changes_moves_no_booking() -> None:
    """More for the system than is left leaves less than nothing; a request is checked against the unit last told."""
    world = World(PermitSettings(unit=(100, 10)))
    world.run(1, (800, 80))
    world.ledger.configure(PermitSettings(unit=(150, 15), node_system={"a": (400, 10)}, watermark_ratio=0.5))
    world.ledger.check_invariants()
    books = world.permits.room.node_accounts()
    assert (books.reserved[:, 0].tolist(), books.system[:, 0].tolist()) == ([800, 80], [400, 10])
    assert books.total[:, 0].tolist() == [1000, 100]
    world.ask(1, (700, 70))
    assert world.permits.pods.permit[:, world.row(1)[0]].tolist() == [700, 70]
    world.ask(1, (600, 60), number=1001)
    assert world.permits.pods.unit[:, world.row(1)[0]].tolist() == [150, 15]
    world.ledger.configure(PermitSettings(unit=(100, 10)))
    assert world.ledger.nodes.free[:2, 0].tolist() == [200, 20]
    assert world.permits.room.node_accounts().system.any() == np.False_


def test_settings_of_pools_come_before_the_configuration_and_go_again() -> None:
    """Of what two pools say, the first one's counts; what neither says is as configured."""
    world = World(PermitSettings(unit=(100, 10), watermark_ratio=0.9, node_units={"z": (7, 7)}))
    world.run(1, (800, 80))
    rules = PermitRules(watermark=0.5, node_system={"a": "cpu=400m,memory=10"}, node_units={"a": "cpu=1,memory=5"})
    world.ledger.take_rules(PermitRules(watermark=0.7, unit="cpu=2,memory=9"), 1)
    world.ledger.take_rules(rules, 0)
    settings = world.permits.settings
    assert (settings.watermark_ratio, settings.unit) == (0.5, (2000, 9))
    assert settings.node_units == {"z": (7, 7), "a": (1000, 5)}
    world.ledger.check_invariants()
    books = world.permits.room.node_accounts()
    assert (books.system[:, 0].tolist(), books.reserved[:, 0].tolist()) == ([400, 10], [800, 80])
    assert books.watermark[:, 0].tolist() == [300, 45]
    world.ledger.take_rules(PermitRules(), 0)
    world.ledger.take_rules(PermitRules(), 1)
    assert world.permits.settings == PermitSettings(unit=(100, 10), watermark_ratio=0.9, node_units={"z": (7, 7)})
    assert world.permits.room.node_accounts().system[:, 0].tolist() == [0, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"watermark": 1.5}, {"watermark": float("nan")}, {"unit": "cpu=1"},
        {"lease_s": 0.5}, {"lease_s": float("nan")}, {"margin_s": -1.0}, {"rises_per_s": float("inf")},
        {"unit": "cpu=0,memory=1"}, {"node_units": {"a": "x"}}, {"node_system": {"a": "cpu=1"}},
    ],
)  # fmt: skip
def test_rules_that_mean_nothing_are_refused_by_their_key(wrong: dict[str, Any]) -> None:
    """Whoever sets them learns which is wrong."""
    with pytest.raises(InvalidRequest, match=f"leader.round.permits.{next(iter(wrong))[:4]}"):
        PermitRules(**wrong)
    with pytest.raises(InvalidRequest, match="those of nodes must be parts of 1"):
        PermitRules(node_watermarks={"a": 0.0})


@pytest.mark.parametrize(
    "wrong",
    [
        {"watermark_ratio": 0.0}, {"watermark_ratio": 1.5}, {"node_watermarks": {"a": float("nan")}},
        {"node_system": {"a": (1,)}}, {"node_system": {"a": (-1, 0)}}, {"move_rest_s": 0.0},
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    """Before anything is done by them."""
    with pytest.raises(InvalidRequest):
        PermitSettings(**wrong)


def test_each_pod_is_told_with_what_keeps_it_at_its_size() -> None:
    """As asked, without room, on a cordoned node, named to be moved, without an agent."""
    world = World(PermitSettings(unit=(100, 10)))
    for handle in (1, 2, 3, 4):
        world.run(handle, (200, 20))
    world.ask(1, (300, 30))
    world.ask(2, (500, 20))
    assert world.ledger.pod_sizes().state.tolist()[:2] == [PodSizeState.AS_ASKED, PodSizeState.WAITS_FOR_ROOM]
    assert world.ledger.pod_sizes().requested.T.tolist()[:2] == [[300, 30], [500, 20]]
    world.permits.move(world.row(3), is_moving=True)
    world.permits.cut_off(1, 0.0)
    assert world.ledger.pod_sizes().state.tolist()[0] == PodSizeState.UNCERTAIN
    world.permits.advance(100.0)
    assert world.ledger.pod_sizes().state.tolist()[0] == PodSizeState.NO_AGENT
    one = np.ones(1, np.int64)
    for handle in (1, 2, 4):
        world.permits.join(world.row(handle), np.array([[200], [20]]), one > 0, numbers=one, session=2, process=2)
    sizes = world.ledger.pod_sizes()
    assert sizes.members.handle.tolist() == [1, 2, 3, 4]
    assert [sizes.state[place] for place in (0, 2)] == [PodSizeState.AS_ASKED, PodSizeState.IS_MOVED]
    world.ledger.set_cordons(["a"])
    world.permits.notices.take_drained()
    assert world.ledger.pod_sizes().state.tolist()[0] == PodSizeState.NODE_DRAINS
    assert len(world.ledger.pod_sizes(pool=1)) == 0

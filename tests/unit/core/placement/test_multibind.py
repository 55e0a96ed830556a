"""MultiBind: best first, in order, reserve before check."""

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework, PlacementBatch, Point, Registration
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitOutcome, commit, release
from argosy_core.plugins import commit_framework

PLACED, CONFLICT, REFUSED = CommitOutcome.PLACED, CommitOutcome.CONFLICT, CommitOutcome.REFUSED
UNAVAILABLE, UNKNOWN = CommitOutcome.NODE_UNAVAILABLE, CommitOutcome.UNKNOWN_CLASS
ONE, TWO, PORT = 1, 2, 3


def make_ledger(cpu: tuple[int, ...] = (4, 4, 4)) -> NodeLedger:
    """Nodes with the given cores; classes of 1 core, 2 cores, and 1 core with a host port."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{i}", total={"cpu": cores, "pods": 9}) for i, cores in enumerate(cpu)])
    ledger.define_class(ONE, SchedulingClass(requests=(("cpu", 1),)))
    ledger.define_class(TWO, SchedulingClass(requests=(("cpu", 2),)))
    ledger.define_class(PORT, SchedulingClass(requests=(("cpu", 1),), host_ports=(HostPort("TCP", 80),)))
    return ledger


def bind(
    ledger: NodeLedger,
    *runs: tuple[int, int, list[int]],
    framework: Framework | None = None,
    checks: Framework | None = None,
) -> list[tuple[int, int]]:
    """Commit runs given as (handle, class id, candidates); answer (node, outcome) of each."""
    candidates = [node for _, _, nodes in runs for node in nodes]
    offsets = np.cumsum([0, *(len(nodes) for _, _, nodes in runs)])
    nodes, outcomes = commit(
        ledger,
        Members.of([handle for handle, _, _ in runs], np.ones(len(runs))),
        class_ids=np.array([class_id for _, class_id, _ in runs], np.int32),
        offsets=offsets.astype(np.int32),
        candidates=np.array(candidates, np.int32),
        framework=framework,
        checks=checks,
    )
    ledger.check_invariants()
    return list(zip(nodes.tolist(), outcomes.tolist(), strict=True))


def test_members_of_one_run_are_placed_on_two_nodes_and_released_apart() -> None:
    """Repeating the commit gives each member the node that it has, and no other member's."""
    ledger = make_ledger((1, 1))
    both = Members.of([7, 7], [2, 2], np.array([0, 1]))
    ask = {
        "class_ids": np.array([ONE, ONE], np.int32),
        "offsets": np.array([0, 2, 4], np.int32),
        "candidates": np.array([0, 1, 0, 1], np.int32),
    }
    nodes, outcomes = commit(ledger, both, **ask)
    assert (nodes.tolist(), outcomes.tolist()) == ([0, 1], [PLACED, PLACED])
    assert commit(ledger, both, **ask)[0].tolist() == [0, 1]
    assert ledger.release(both[1:]) == 1
    assert (ledger.nodes.free[0].tolist(), ledger.nodes_of(both).tolist()) == ([0, 1], [0, -1])
    ledger.check_invariants()


def test_best_candidate_is_tried_first() -> None:
    """Candidates come best first and the first that bears the run is taken."""
    ledger = make_ledger()
    assert bind(ledger, (1, ONE, [2, 0]), (2, ONE, [1, 0])) == [(2, PLACED), (1, PLACED)]
    assert ledger.nodes.free[0].tolist() == [4, 3, 3]


def test_conflict_moves_on_to_the_next_candidate() -> None:
    """A node that cannot bear the run keeps nothing of it."""
    ledger = make_ledger((1, 0, 4))
    assert bind(ledger, (1, TWO, [0, 1, 2])) == [(2, PLACED)]
    assert ledger.nodes.free[0].tolist() == [1, 0, 2]


def test_run_without_a_bearing_candidate_conflicts_and_leaves_nothing() -> None:
    """All candidates in conflict: rolled back everywhere."""
    ledger = make_ledger((1, 1, 4))
    assert bind(ledger, (1, TWO, [0, 1]), (2, ONE, [])) == [(-1, CONFLICT), (-1, CONFLICT)]
    assert ledger.nodes.free[0].tolist() == [1, 1, 4]


def test_order_of_the_decision_decides_who_gets_the_last_place() -> None:
    """Runs are placed in the given order, also when the first has to move to where a later one wants to be."""
    ledger = make_ledger((1, 1, 1))
    runs = [(1, ONE, [0]), (2, ONE, [0, 1]), (3, ONE, [1, 2]), (4, ONE, [2]), (5, ONE, [0, 1, 2])]
    assert bind(ledger, *runs) == [(0, PLACED), (1, PLACED), (2, PLACED), (-1, CONFLICT), (-1, CONFLICT)]


def test_smaller_run_behind_a_larger_one_that_failed_still_fits() -> None:
    """A run that does not fit takes nothing away from the next."""
    assert bind(make_ledger((3,)), (1, TWO, [0]), (2, TWO, [0]), (3, ONE, [0])) == [
        (0, PLACED), (-1, CONFLICT), (0, PLACED),
    ]  # fmt: skip


def test_commit_repeated_is_answered_with_the_same_nodes() -> None:
    """A run that has a placement keeps it, whatever candidates come."""
    ledger = make_ledger((2, 2))
    assert bind(ledger, (1, ONE, [0]), (2, ONE, [0])) == [(0, PLACED), (0, PLACED)]
    assert bind(ledger, (2, ONE, [1]), (1, ONE, []), (3, ONE, [0, 1])) == [(0, PLACED), (0, PLACED), (1, PLACED)]
    assert ledger.placement_count == 3


def test_run_named_twice_in_one_commit_is_placed_once() -> None:
    """The second mention answers what the first got, or tries its own candidates if the first got nothing."""
    ledger = make_ledger((1, 0, 1))
    runs = [(1, ONE, [0]), (1, ONE, [2]), (2, ONE, [1]), (2, ONE, [2])]
    assert bind(ledger, *runs) == [(0, PLACED), (0, PLACED), (-1, CONFLICT), (2, PLACED)]
    assert ledger.placement_count == 2


def test_nodes_that_are_gone_or_cordoned_are_passed_over() -> None:
    """Only if all candidates are unavailable is that the outcome."""
    ledger = make_ledger((4, 4, 4, 0))
    ledger.remove_nodes(["n0"])
    ledger.set_cordons(["n1"])
    runs = [(1, ONE, [0, 1]), (2, ONE, [0, 1, 2]), (3, ONE, [99, -1]), (4, ONE, [0, 3])]
    assert bind(ledger, *runs) == [(-1, UNAVAILABLE), (2, PLACED), (-1, UNAVAILABLE), (-1, CONFLICT)]


def test_ledger_without_nodes_answers() -> None:
    """A commit may come before the first node, also of a run with a host port; so may a candidate that nobody has."""
    ledger = make_ledger(())
    assert bind(ledger, (1, ONE, []), (2, PORT, [])) == [(-1, CONFLICT), (-1, CONFLICT)]
    assert bind(ledger, (1, ONE, [0]), (2, PORT, [7])) == [(-1, UNAVAILABLE), (-1, UNAVAILABLE)]


def test_ports_of_different_addresses_share_a_node() -> None:
    """And none of them does with a port of all addresses."""
    ledger = make_ledger((9, 9))
    for class_id, host_ip in ((4, "10.0.0.1"), (5, "10.0.0.2")):
        port = HostPort("TCP", 80, host_ip)
        ledger.define_class(class_id, SchedulingClass(requests=(("cpu", 1),), host_ports=(port,)))
    runs = [(1, 4, [0, 1]), (2, 5, [0, 1]), (3, PORT, [0, 1]), (4, 4, [0, 1])]
    assert bind(ledger, *runs) == [(0, PLACED), (0, PLACED), (1, PLACED), (-1, CONFLICT)]


def test_post_score_refuses_single_candidates() -> None:
    """The next candidate is taken; a run all of whose candidates are refused is told apart from a conflict."""

    def not_on_node_0(batch: PlacementBatch) -> np.ndarray:
        return np.asarray((batch.nodes != 0) | (batch.members.handle == 3))

    framework = Framework([Registration(point=Point.POST_SCORE, name="p", function=not_on_node_0)])
    ledger = make_ledger((4, 1, 4))
    runs = [(1, ONE, [0, 1]), (2, ONE, [0]), (3, ONE, [0]), (4, TWO, [1]), (5, ONE, [])]
    assert bind(ledger, *runs, framework=framework) == [
        (1, PLACED), (-1, REFUSED), (0, PLACED), (-1, CONFLICT), (-1, CONFLICT),
    ]  # fmt: skip


class Licences:
    """Reserve and unreserve: so many runs at most."""

    def __init__(self, most: int) -> None:
        """Start with none given out."""
        self.most = most
        self.held: list[int] = []

    def reserve(self, batch: PlacementBatch) -> np.ndarray:
        """Give licences out in order."""
        free = self.most - len(self.held)
        self.held.extend(batch.members.handle[:free].tolist())
        return np.arange(len(batch)) < free

    def unreserve(self, batch: PlacementBatch) -> None:
        """Take them back where they were given."""
        self.held = [one for one in self.held if one not in batch.members.handle]

    def framework(self) -> Framework:
        """At both points."""
        points = ((Point.RESERVE, self.reserve), (Point.UNRESERVE, self.unreserve))
        return Framework([Registration(point=point, name="licences", function=function) for point, function in points])


def test_reserve_may_refuse_what_was_placed() -> None:
    """The refused run holds nothing of the node afterwards; its repeat in the same commit is answered alike."""
    ledger, licences = make_ledger((2, 4)), Licences(2)
    framework = licences.framework()
    generation = ledger.nodes.last_rise
    runs = [(1, ONE, [0]), (2, ONE, [0]), (3, ONE, [1]), (3, ONE, [1])]
    assert bind(ledger, *runs, framework=framework) == [(0, PLACED), (0, PLACED), (-1, REFUSED), (-1, REFUSED)]
    assert ledger.nodes.free[0].tolist() == [0, 4]
    assert ledger.nodes.last_rise == generation
    assert licences.held == [1, 2]
    assert bind(ledger, (1, ONE, [1]), framework=framework) == [(0, PLACED)]
    assert licences.held == [1, 2]


def test_release_unreserves_placements_whose_pod_was_never_seen() -> None:
    """A run that had a pod ends by fact, which plugins hear of as an event."""
    ledger, licences = make_ledger((4,)), Licences(9)
    framework = licences.framework()
    bind(ledger, (1, ONE, [0]), (2, ONE, [0]), framework=framework)
    seen = PodEvents(
        members=Members.of([2], [1]), uids=np.full((1, 16), 7, np.uint8), nodes=np.zeros(1, np.int32),
        ended=np.zeros(1, np.bool_), requests=np.ones((1, len(ledger.axis)), np.int64),
    )  # fmt: skip
    ledger.observe(seen)
    assert release(ledger, Members.of([1, 2, 9], [1, 1, 1]), framework) == 1
    assert licences.held == [2]


def test_unknown_class_is_told_apart() -> None:
    """The leader then sends the definition and asks again."""
    assert bind(make_ledger(), (1, 77, [0]), (2, ONE, [0])) == [(-1, UNKNOWN), (0, PLACED)]


def test_shortage_of_what_is_not_asked_for_is_no_conflict() -> None:
    """A node below zero in memory bears a run that asks for none."""
    ledger = make_ledger((4,))
    ledger.put_nodes([NodeSpec(name="n0", total={"cpu": 4, "pods": 9}, system={"memory": 5})])
    assert ledger.nodes.free[1, 0] == -5
    assert bind(ledger, (1, ONE, [0])) == [(0, PLACED)]


def test_host_port_is_given_to_one_run_per_node() -> None:
    """Within one commit and across commits."""
    ledger = make_ledger()
    runs = [(1, PORT, [0, 1]), (2, PORT, [0, 1]), (3, ONE, [0]), (4, PORT, [1, 0])]
    assert bind(ledger, *runs) == [(0, PLACED), (1, PLACED), (0, PLACED), (-1, CONFLICT)]
    assert bind(ledger, (5, PORT, [0, 2])) == [(2, PLACED)]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [([0, 1], "differ in length"), ([0, 2, 1], "do not rise"), ([1, 1, 2], "do not rise"), ([0, 1, 3], "do not rise")],
    ids=["short", "falling", "not-from-zero", "beyond-the-end"],
)
def test_columns_that_do_not_fit_are_refused_before_anything_is_placed(offsets: list[int], text: str) -> None:
    """A malformed commit changes nothing."""
    ledger = make_ledger()
    with pytest.raises(InvalidRequest, match=text):
        commit(
            ledger,
            Members.of([1, 2], [1, 1]),
            class_ids=np.array([ONE, ONE], np.int32),
            offsets=np.array(offsets, np.int32),
            candidates=np.array([0, 1], np.int32),
        )
    assert ledger.placement_count == 0


class HalfFree:
    """A check that leaves half of each node free, and fails for the class of two cores where it is asked to."""

    fails = False

    def check_conflicts(self, batch: PlacementBatch) -> np.ndarray:
        """Return which placements leave enough."""
        if self.fails and (batch.class_slots == batch.classes.slots(np.array([TWO]))[0]).any():
            raise ConnectionError("nobody answers")
        table = batch.table
        return 2 * table.free[0, batch.nodes] >= table.allocatable[0, batch.nodes]


def test_run_that_a_check_finds_in_conflict_goes_on_to_its_next_candidate() -> None:
    """Those that conflict together are taken one by one, behind those that do not: as many stay as the check bears."""
    ledger, checks = make_ledger(), commit_framework({"half-free": HalfFree()})
    placed = bind(ledger, *((run, ONE, [0, 1]) for run in range(1, 6)), checks=checks)
    assert placed == [(0, PLACED), (0, PLACED), (1, PLACED), (-1, CONFLICT), (1, PLACED)]
    assert ledger.nodes.free[0].tolist() == [2, 2, 4]
    assert bind(ledger, (6, TWO, [2]), (6, TWO, [2]), checks=checks) == [(2, PLACED), (2, PLACED)]


def test_check_that_fails_is_a_conflict_of_the_runs_that_it_fails_for() -> None:
    """The others are placed."""
    check = HalfFree()
    check.fails = True
    ledger, checks = make_ledger(), commit_framework({"half-free": check})
    assert bind(ledger, (1, ONE, [0]), (2, TWO, [1]), checks=checks) == [(0, PLACED), (-1, CONFLICT)]
    (fault,) = checks.take_faults()
    assert (fault.point, fault.plugin) == (Point.CHECK_CONFLICTS, "half-free")


def test_commit_profile_takes_only_plugins_that_check() -> None:
    """Another plugin named there would be called by nobody."""
    with pytest.raises(InvalidRequest, match="'other' has nothing that the commit profile calls: check_conflicts"):
        commit_framework({"other": object()})


def test_run_that_stands_twice_in_a_commit_is_answered_alike_though_its_second_class_is_unknown() -> None:
    """It is one run, and it has its node by then; one that was placed nowhere stays of an unknown class."""
    ledger = make_ledger((1, 1))
    answers = bind(ledger, (7, ONE, [1]), (7, 99, [0]), (8, 99, [0]))
    assert answers == [(1, PLACED), (1, PLACED), (-1, UNKNOWN)]
    assert ledger.placement_count == 1

"""The extension points of seed 002, in their order and by their rules."""

from collections.abc import Callable

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import (
    DECISION,
    ClassTable,
    Cycle,
    Fault,
    Framework,
    NotNow,
    PlacementBatch,
    PluginFaults,
    Point,
    Registration,
    per_node_filter,
)
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.nodes import NodeSpec, NodeTable

Function = Callable[..., object]


def make_cycle(node_count: int = 3, pod_count: int = 1, *, rows_per_pod: bool = False) -> Cycle:
    """A cycle of pods of different classes and some nodes."""
    table = NodeTable()
    table.put([NodeSpec(name=f"n{i}", total={"cpu": 1000 * (i + 1)}) for i in range(node_count)])
    classes = ClassTable(table.axis)
    for pod in range(pod_count):
        classes.define(pod, SchedulingClass(requests=(("cpu", 100 + pod),)))
    nodes = np.tile(table.live(), (pod_count if rows_per_pod else 1, 1))
    return Cycle(table, classes.batch(np.arange(pod_count)), nodes)


def make_batch(count: int = 4) -> PlacementBatch:
    """Runs 1, 2, ... on node 0."""
    cycle = make_cycle()
    slots = np.zeros(count, np.int32)
    return PlacementBatch(
        table=cycle.table,
        classes=cycle.pods.table,
        members=Members.of(np.arange(1, count + 1), np.ones(count)),
        class_slots=slots,
        nodes=slots,
    )


def at(point: Point, function: Function, name: str = "p", weight: float = 1.0) -> Registration:
    """A plugin with one function."""
    return Registration(point=point, name=name, function=function, weight=weight)


def answers(*values: object) -> Function:
    """A function that always answers the same."""
    return lambda _: np.array([values])


def breaks_on(*slots: int, error: Exception) -> Function:
    """A function that fails whenever one of some classes is among those judged, and else lets all pass."""

    def function(cycle: Cycle) -> None:
        if np.isin(cycle.pods.slots, slots).any():
            raise error

    return function


# --- filters ----------------------------------------------------------------------------------------------------------


def test_pre_filter_may_take_single_pods_out() -> None:
    """In a cycle of many pods a pre-filter function names those that may go on."""
    cycle = make_cycle(pod_count=2)
    framework = Framework([at(Point.PRE_FILTER, lambda _: np.array([False, True]))])
    framework.pre_filter(cycle)
    assert framework.filter(cycle).any(axis=1).tolist() == [False, True]
    assert cycle.faults == {}


def test_first_failing_filter_decides() -> None:
    """A node turned away by one filter is not asked of the next."""
    seen = []

    def second(cycle: Cycle) -> np.ndarray:
        seen.append(cycle.alive.tolist())
        return np.array([[False, False, True]])

    framework = Framework(
        [
            at(Point.FILTER, answers(False, True, True), "a"),
            at(Point.FILTER, lambda _: None, "none"),
            at(Point.FILTER, second, "b"),
        ]
    )
    assert framework.filter(make_cycle()).tolist() == [[False, False, True]]
    assert seen == [[[False, True, True]]]


@pytest.mark.parametrize("rows_per_pod", [True, False])
@pytest.mark.parametrize("point", [Point.PRE_FILTER, Point.FILTER, Point.POST_FILTER])
def test_error_turns_away_only_the_classes_that_it_befalls(*, point: Point, rows_per_pod: bool) -> None:
    """The others are judged as if it had not been; the fault tells plugin and error, and is counted per class."""
    cycle = make_cycle(pod_count=7, rows_per_pod=rows_per_pod)
    framework = Framework([at(point, breaks_on(2, 5, error=KeyError("zone")), "broken")])
    for stage in (framework.pre_filter, framework.filter, framework.post_filter):
        stage(cycle)
    assert cycle.alive.any(axis=1).tolist() == [True, True, False, True, True, False, True]
    fault = Fault(plugin="broken", reason="KeyError: 'zone'")
    assert cycle.faults == {2: fault, 5: fault}
    assert framework.take_faults() == [PluginFaults(point=point, plugin="broken", count=2, reason="KeyError: 'zone'")]
    assert framework.take_faults() == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (np.ones((5, 9), np.bool_), "ValueError: answered an array shaped (5, 9), not (1, 3)"),
        (np.ones(3, np.bool_), "ValueError: answered an array shaped (3,), not (1, 3)"),
        (np.ones((1, 3)), "TypeError: answered float64, not truth values"),
        ("yes", "TypeError: answered <U3, not truth values"),
    ],
    ids=["too-large", "flat", "numbers", "text"],
)
def test_filter_that_answers_no_mask_of_the_nodes_fails(answer: object, text: str) -> None:
    """A wrong answer is that plugin's fault, not an exception of the cycle."""
    cycle = make_cycle()
    framework = Framework([at(Point.FILTER, lambda _: answer)])
    assert not framework.filter(cycle).any()
    assert cycle.faults[0].reason == text


def test_request_to_wait_is_told_with_its_time_and_is_no_error() -> None:
    """By an exception about one class, or by naming many at once; the others go on."""

    def function(cycle: Cycle) -> None:
        cycle.postpone(np.array([0, 3]), "closed until eight", retry_after_s=600)

    cycle = make_cycle(pod_count=4)
    framework = Framework(
        [at(Point.FILTER, function, "hours"), at(Point.FILTER, breaks_on(1, error=NotNow("full", retry_after_s=2)))]
    )
    assert framework.filter(cycle).any(axis=1).tolist() == [False, False, True, False]
    closed = Fault(plugin="hours", reason="closed until eight", is_objection=True, retry_after_s=600)
    assert cycle.faults == {
        0: closed,
        3: closed,
        1: Fault(plugin="p", reason="full", is_objection=True, retry_after_s=2),
    }
    assert framework.take_faults() == []


def test_per_node_function_may_fail_for_one_class() -> None:
    """The adapter for plain functions passes errors on, so that they fall on their class."""

    def function(pod: object, node: object) -> bool:
        del node
        if "101" in str(pod):
            raise NotNow("later")
        return True

    cycle = make_cycle(pod_count=3)
    alive = Framework([at(Point.FILTER, per_node_filter(function))]).filter(cycle)
    assert alive.all(axis=1).tolist() == [True, False, True]


@pytest.mark.parametrize("feasible", [True, False], ids=["some-node", "no-node"])
def test_post_filter_is_called_whether_or_not_a_node_is_left(*, feasible: bool) -> None:
    """Post-filter sees the feasible nodes, empty or not."""
    seen = []
    framework = Framework(
        [
            at(Point.FILTER, answers(feasible, False, False)),
            at(Point.POST_FILTER, lambda cycle: seen.append(cycle.alive.sum())),
        ]
    )
    cycle = make_cycle()
    framework.filter(cycle)
    framework.post_filter(cycle)
    assert seen == [int(feasible)]


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_weighted_and_summed() -> None:
    """Score times weight, summed."""
    framework = Framework(
        [at(Point.SCORE, answers(10, 0, 5), "a"), at(Point.SCORE, answers(0.0, 3.0, 3.0), "b", weight=4)]
    )
    assert framework.score(make_cycle()).tolist() == [[10, 12, 17]]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _: np.zeros((7, 7)), "ValueError: answered an array shaped (7, 7), not (1, 3)"),
        (lambda _: None, "TypeError: answered object, not numbers"),
        (answers(np.nan, np.inf, -np.inf), "ValueError: answered a score that is not a finite number"),
    ],
    ids=["raises", "shape", "none", "not-finite"],
)
def test_score_that_fails_counts_zero_and_is_counted(broken: Function, text: str) -> None:
    """A score never blocks: the other plugins' parts stay as they are."""
    framework = Framework([at(Point.SCORE, broken, "broken", weight=3), at(Point.SCORE, answers(1, 2, 3))])
    assert framework.score(make_cycle()).tolist() == [[1, 2, 3]]
    assert framework.take_faults() == [PluginFaults(point=Point.SCORE, plugin="broken", count=1, reason=text)]


def test_score_without_a_number_for_one_node_loses_that_part_only() -> None:
    """The node keeps what other plugins give it, and the plugin's scores of other nodes count."""
    framework = Framework([at(Point.SCORE, answers(np.nan, 7, 8), "odd"), at(Point.SCORE, answers(10, 20, 30))])
    assert framework.score(make_cycle()).tolist() == [[10, 27, 38]]


def test_score_of_a_node_that_was_turned_away_may_be_anything() -> None:
    """It is ignored, and no fault."""
    framework = Framework([at(Point.FILTER, answers(False, True, True)), at(Point.SCORE, answers(np.nan, 7, 8))])
    cycle = make_cycle()
    framework.filter(cycle)
    assert framework.score(cycle)[0, 1:].tolist() == [7, 8]
    assert framework.take_faults() == []


def test_score_error_costs_only_the_classes_that_it_befalls() -> None:
    """The scores of the others stand."""

    def function(cycle: Cycle) -> np.ndarray:
        if 1 in cycle.pods.slots:
            raise KeyError
        return np.full((1, 3), 5.0)

    framework = Framework([at(Point.SCORE, function)])
    assert framework.score(make_cycle(pod_count=3)).tolist() == [[5.0] * 3, [0.0] * 3, [5.0] * 3]


# --- commit -----------------------------------------------------------------------------------------------------------


def test_post_score_refuses_lines_and_stops_asking_about_them() -> None:
    """A later function is asked about what is left."""
    asked = []

    def odd(batch: PlacementBatch) -> np.ndarray:
        return np.asarray(batch.members.handle % 2 == 1)

    def see(batch: PlacementBatch) -> None:
        asked.append(batch.members.handle.tolist())

    framework = Framework([at(Point.POST_SCORE, odd, "odd"), at(Point.POST_SCORE, see, "see")])
    assert framework.post_score(make_batch()).tolist() == [True, False, True, False]
    assert asked == [[1, 3]]


class Keeper:
    """Reserve and unreserve of one plugin, which remembers what stands."""

    def __init__(self, log: list[tuple[str, list[int]]], name: str, *, failing: int = 0) -> None:
        """Fail on the batch that has a run."""
        self.log, self.name, self.failing = log, name, failing
        self.standing: set[int] = set()

    def reserve(self, batch: PlacementBatch) -> None:
        """Note the runs before failing, as a plugin may."""
        self.standing.update(batch.members.handle.tolist())
        if self.failing in batch.members.handle:
            raise ValueError("no")

    def unreserve(self, batch: PlacementBatch) -> None:
        """Forget the runs."""
        self.log.append((self.name, batch.members.handle.tolist()))
        self.standing.difference_update(batch.members.handle.tolist())

    def registrations(self) -> list[Registration]:
        """At both points."""
        return [at(Point.RESERVE, self.reserve, self.name), at(Point.UNRESERVE, self.unreserve, self.name)]


def test_reserve_error_undoes_that_run_alone_in_reverse_order() -> None:
    """Every plugin knows afterwards of the runs that stand, and of no other."""
    log: list[tuple[str, list[int]]] = []
    keepers = [Keeper(log, "a"), Keeper(log, "b", failing=3), Keeper(log, "c")]
    framework = Framework([line for keeper in keepers for line in keeper.registrations()])
    assert framework.reserve(make_batch()).tolist() == [True, True, False, True]
    assert [keeper.standing for keeper in keepers] == [{1, 2, 4}] * 3
    assert log[-3:] == [("c", [3]), ("b", [3]), ("a", [3])]
    assert [fault.count for fault in framework.take_faults()] == [1]


def test_unreserve_error_does_not_keep_others_from_cleaning_up() -> None:
    """All are called, and the error is counted."""
    log: list[tuple[str, list[int]]] = []

    def broken(_: object) -> None:
        raise OSError

    framework = Framework([*Keeper(log, "a").registrations(), at(Point.UNRESERVE, broken, "broken")])
    framework.unreserve(make_batch(1))
    assert log == [("a", [1])]
    assert [fault.plugin for fault in framework.take_faults()] == ["broken"]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_events_reach_every_handler() -> None:
    """A handler's error does not keep the event from the others."""
    heard: list[object] = []
    framework = Framework([at(Point.EVENT, lambda _: 1 / 0, "broken"), at(Point.EVENT, heard.append, "keeper")])
    framework.notify(5)
    assert heard == [5]
    assert [fault.plugin for fault in framework.take_faults()] == ["broken"]


def test_notes_live_for_one_cycle() -> None:
    """What one plugin leaves another finds, in the same cycle only."""
    first, second = make_cycle(), make_cycle()
    framework = Framework(
        [
            at(Point.PRE_FILTER, lambda c: c.state.update(zone="b")),
            at(Point.FILTER, lambda c: np.array([[c.state["zone"] == "b"]])),
        ]
    )
    framework.pre_filter(first)
    assert framework.filter(first).all()
    assert "zone" not in second.state


def test_one_name_cannot_be_registered_twice_at_a_point() -> None:
    """Counts and weights are by name, so a name is unique per point."""
    with pytest.raises(InvalidRequest, match="registered twice at filter"):
        Framework([at(Point.FILTER, answers(True)), at(Point.FILTER, answers(True))])


def test_point_that_a_profile_does_not_call_is_refused() -> None:
    """What would never be called is told at once."""
    with pytest.raises(InvalidRequest, match="the decision profile does not call reserve"):
        Framework([at(Point.RESERVE, answers(True))], DECISION)


def test_narrowed_cycle_has_the_same_nodes_left() -> None:
    """Leaving out what the filters turned away changes no answer."""
    cycle = make_cycle()
    cycle.alive = np.array([[True, False, True]])
    narrow = cycle.narrowed(2)
    assert narrow.nodes.tolist() == [[0, 2]]
    assert narrow.free(0).tolist() == [[1000, 3000]]
    assert narrow.state is cycle.state

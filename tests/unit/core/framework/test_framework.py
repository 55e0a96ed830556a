"""The extension points of seed 002, in their order and by their rules."""

from collections.abc import Callable

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import (
    Assignment,
    ClassTable,
    Cycle,
    CycleStatus,
    Framework,
    PermitAnswer,
    PermitVerdict,
    PluginError,
    Point,
    Registration,
    WaitingPods,
    bind,
    expire,
    schedule,
)
from argosy_core.job.classes import SchedulingClass
from argosy_core.nodes import NodeSpec, NodeTable

ALL = np.ones((1, 3), np.bool_)


def make_cycle(node_count: int = 3) -> Cycle:
    """A cycle of one pod and some nodes."""
    table = NodeTable()
    table.put([NodeSpec(name=f"n{i}", total={"cpu": 1000 * (i + 1)}) for i in range(node_count)])
    classes = ClassTable(table.axis)
    classes.define(1, SchedulingClass(requests=(("cpu", 100),)))
    return Cycle(table, classes.batch(np.array([0])), table.live()[None, :])


class Log:
    """Writes down what was called."""

    def __init__(self) -> None:
        """Start empty."""
        self.calls: list[str] = []

    def at(self, point: Point, name: str, answer: object = None, *, error: str = "") -> Registration:
        """A plugin that notes its call and answers or fails."""

        def function(*_: object) -> object:
            self.calls.append(f"{point}:{name}")
            if error:
                raise PluginError(error)
            return answer

        return Registration(point=point, name=name, function=function)


def run(*registrations: Registration, waiting: WaitingPods | None = None, now_s: float = 0.0) -> tuple[str, int, str]:
    """Schedule one pod; answer status, node and who objected."""
    outcome = schedule(
        Framework(registrations),
        make_cycle(),
        7,
        waiting=waiting if waiting is not None else WaitingPods(),
        now_s=now_s,
        rng=np.random.default_rng(0),
    )
    return outcome.status, outcome.node, outcome.fault.plugin if outcome.fault else ""


def scores(*values: float) -> Callable[[Cycle], np.ndarray]:
    """A score plugin with fixed values."""
    return lambda _: np.array([values])


BEST_IS_2 = Registration(point=Point.SCORE, name="s", function=scores(1, 2, 3))
BINDER = Registration(point=Point.BIND, name="binder", function=lambda *_: True)


def test_stages_are_called_in_the_order_of_the_seed_and_plugins_in_order_of_registration() -> None:
    """Pre-filter, filter, post-filter, score, post-score, reserve, permit, pre-bind, bind, post-bind."""
    log = Log()
    permit = PermitVerdict(answer=PermitAnswer.PERMIT)
    stages = [
        (Point.POST_BIND, None), (Point.BIND, True), (Point.PRE_BIND, True), (Point.PERMIT, permit),
        (Point.RESERVE, None), (Point.POST_SCORE, None), (Point.SCORE, ALL * 1.0), (Point.POST_FILTER, None),
        (Point.FILTER, ALL), (Point.PRE_FILTER, None),
    ]  # fmt: skip
    registrations = [log.at(point, name, answer) for point, answer in stages for name in ("b", "a")]
    assert run(*registrations)[0] == CycleStatus.BOUND
    order = [point for point, _ in reversed(stages)]
    expected = [f"{point}:{name}" for point in order for name in ("b", "a")]
    expected.remove("bind:a")
    assert log.calls == expected


def test_queue_sort_asks_the_next_function_only_on_equal() -> None:
    """The first function that tells two pods apart decides; pods that none tells apart keep their places."""
    asked = []

    def by_priority(left: object, right: object) -> int:
        assert isinstance(left, tuple)
        assert isinstance(right, tuple)
        return int(right[0]) - int(left[0])

    def by_name(left: object, right: object) -> int:
        asked.append((left, right))
        assert isinstance(left, tuple)
        assert isinstance(right, tuple)
        return (left[1] > right[1]) - (left[1] < right[1])

    framework = Framework(
        Registration(point=Point.QUEUE_SORT, name=name, function=function)
        for name, function in (("priority", by_priority), ("name", by_name))
    )
    assert framework.sort([(1, "b", 1), (2, "z", 2), (1, "a", 3), (1, "b", 4)]) == [
        (2, "z", 2), (1, "a", 3), (1, "b", 1), (1, "b", 4),
    ]  # fmt: skip
    assert all(left[0] == right[0] for left, right in asked)
    assert framework.compare((1, "b"), (1, "b")) == 0


def test_pre_filter_error_aborts_the_cycle() -> None:
    """Any error before filtering ends the cycle; later functions are not called."""
    log = Log()
    status = run(
        log.at(Point.PRE_FILTER, "a", error="no quota"), log.at(Point.PRE_FILTER, "b"), log.at(Point.FILTER, "f")
    )
    assert status == (CycleStatus.ABORTED, -1, "a")
    assert log.calls == ["pre-filter:a"]


def test_pre_filter_may_take_single_pods_out() -> None:
    """In a cycle of many pods a pre-filter function names those that may go on."""
    cycle = make_cycle()
    framework = Framework([Registration(point=Point.PRE_FILTER, name="p", function=lambda _: np.array([False]))])
    assert framework.pre_filter(cycle) is None
    assert not framework.filter(cycle).any()


def test_first_failing_filter_counts() -> None:
    """A node turned away by one filter is not asked of, or counted for, the next."""
    seen = []

    def second(cycle: Cycle) -> np.ndarray:
        seen.append(cycle.alive.tolist())
        return np.array([[False, False, True]])

    framework = Framework(
        [
            Registration(point=Point.FILTER, name="a", function=lambda _: np.array([[False, True, True]])),
            Registration(point=Point.FILTER, name="none", function=lambda _: None),
            Registration(point=Point.FILTER, name="b", function=second),
        ]
    )
    alive, counts = framework.filter_and_count(make_cycle())
    assert alive.tolist() == [[False, False, True]]
    assert counts.tolist() == [[1, 0, 1]]
    assert seen == [[[False, True, True]]]


def test_failing_filter_turns_every_node_away() -> None:
    """If a filter cannot say which nodes run the pod, none does; the fault is noted."""
    cycle = make_cycle()
    framework = Framework([Registration(point=Point.FILTER, name="broken", function=lambda _: 1 / 0)])
    assert not framework.filter(cycle).any()
    assert [fault.plugin for fault in cycle.faults] == ["broken"]


@pytest.mark.parametrize("feasible", [True, False], ids=["some-node", "no-node"])
def test_post_filter_is_called_whether_or_not_a_node_is_left(*, feasible: bool) -> None:
    """Post-filter sees the feasible nodes, empty or not."""
    seen = []
    status, _, _ = run(
        Registration(point=Point.FILTER, name="f", function=lambda _: ALL & feasible),
        Registration(point=Point.POST_FILTER, name="p", function=lambda _, mask: seen.append(mask.sum())),
        BINDER,
    )
    assert seen == [3 if feasible else 0]
    assert status == (CycleStatus.BOUND if feasible else CycleStatus.UNSCHEDULABLE)


def test_post_filter_error_aborts_and_stops_the_remaining_ones() -> None:
    """After an error no further post-filter function is called."""
    log = Log()
    status = run(log.at(Point.POST_FILTER, "a", error="no"), log.at(Point.POST_FILTER, "b"), log.at(Point.SCORE, "s"))
    assert status == (CycleStatus.ABORTED, -1, "a")
    assert log.calls == ["post-filter:a"]


def test_scores_are_weighted_and_summed() -> None:
    """Score times weight, summed; the highest wins."""
    framework = Framework(
        [
            Registration(point=Point.SCORE, name="a", function=scores(10, 0, 5)),
            Registration(point=Point.SCORE, name="b", function=scores(0, 3, 3), weight=4),
        ]
    )
    assert framework.score(make_cycle()).tolist() == [[10, 12, 17]]


@pytest.mark.parametrize(
    "broken",
    [lambda _: 1 / 0, lambda _: np.array([[np.nan, np.nan, np.nan]]), lambda _: np.zeros((7, 7))[9]],
    ids=["raises", "not-a-number", "index-error"],
)
def test_score_error_counts_zero_and_never_blocks(broken: Callable[[Cycle], object]) -> None:
    """A score function that fails does not change the choice among the others."""
    status = run(Registration(point=Point.SCORE, name="broken", function=broken), BEST_IS_2, BINDER)
    assert status == (CycleStatus.BOUND, 2, "")


def test_node_refused_after_scoring_is_followed_by_the_next_best() -> None:
    """Post-score may reject the node; the next best is tried, and with none left the cycle is aborted."""

    def refuse(nodes: set[int]) -> Registration:
        def function(_: Cycle, assignment: Assignment) -> None:
            if assignment.node in nodes:
                raise PluginError("not this one")

        return Registration(point=Point.POST_SCORE, name="refuse", function=function)

    assert run(BEST_IS_2, refuse({2}), BINDER) == (CycleStatus.BOUND, 1, "")
    assert run(BEST_IS_2, refuse({0, 1, 2}), BINDER) == (CycleStatus.ABORTED, -1, "refuse")


DENY = PermitVerdict(answer=PermitAnswer.DENY, reason="no")
WAIT = PermitVerdict(answer=PermitAnswer.WAIT, timeout_s=10.0)
YES = PermitVerdict(answer=PermitAnswer.PERMIT)


@pytest.mark.parametrize(
    ("failing", "called_before"),
    [
        ((Point.RESERVE, None, "full"), []),
        ((Point.PERMIT, DENY, ""), ["permit"]),
        ((Point.PERMIT, None, "boom"), ["permit"]),
        ((Point.PRE_BIND, False, ""), ["pre-bind"]),
        ((Point.PRE_BIND, None, "boom"), ["pre-bind"]),
        ((Point.BIND, None, "boom"), ["bind"]),
        ((Point.BIND, False, ""), ["bind"]),
    ],
    ids=["reserve-error", "deny", "permit-error", "pre-bind-false", "pre-bind-error", "bind-error", "nobody-binds"],
)
def test_every_failure_after_reservation_rejects_in_reverse_order(
    failing: tuple[Point, object, str], called_before: list[str]
) -> None:
    """What reserve plugins noted is undone in reverse order of registration, whichever stage failed."""
    log = Log()
    point, answer, error = failing
    status, node, _ = run(
        BEST_IS_2,
        log.at(Point.REJECT, "first"), log.at(Point.REJECT, "broken", error="x"), log.at(Point.REJECT, "last"),
        log.at(point, "failing", answer, error=error),
        log.at(Point.POST_BIND, "never"),
    )  # fmt: skip
    assert (status, node) == (CycleStatus.REJECTED, 2)
    assert log.calls[-3:] == ["reject:last", "reject:broken", "reject:first"]
    assert len(log.calls) == 4
    assert [call.split(":")[0] for call in log.calls[:1]] == (called_before or ["reserve"])


def test_deny_wins_over_wait() -> None:
    """A pod that one plugin denies does not wait for another."""
    waiting = WaitingPods()
    log = Log()
    status = run(log.at(Point.PERMIT, "w", WAIT), log.at(Point.PERMIT, "d", DENY), waiting=waiting)
    assert status[0] == CycleStatus.REJECTED
    assert len(waiting) == 0


def test_waiting_pod_is_bound_once_every_waiting_plugin_approved() -> None:
    """A pod told to wait keeps its reservation until it is approved; then it is bound."""
    waiting, log = WaitingPods(), Log()
    registrations = [
        log.at(Point.PERMIT, "a", WAIT), log.at(Point.PERMIT, "yes", YES), log.at(Point.PERMIT, "b", WAIT), BEST_IS_2,
        log.at(Point.BIND, "binder", True), log.at(Point.REJECT, "r"),
    ]  # fmt: skip
    assert run(*registrations, waiting=waiting)[:2] == (CycleStatus.WAITING, 2)
    assert [pod.assignment.run_key for pod in waiting] == [7]
    assert waiting.approve(7, "a") is None
    assert waiting.approve(8) is None
    approved = waiting.approve(7, "b")
    assert approved is not None
    assert len(waiting) == 0
    framework = Framework(registrations)
    assert bind(framework, approved.cycle, approved.assignment).status == CycleStatus.BOUND
    assert log.calls[-1] == "bind:binder"


def test_waiting_pod_is_rejected_when_the_first_timeout_passes() -> None:
    """The plugin with least patience decides; not before its time."""
    waiting, log = WaitingPods(), Log()
    hasty = PermitVerdict(answer=PermitAnswer.WAIT, timeout_s=3.0)
    registrations = [log.at(Point.PERMIT, "a", WAIT), log.at(Point.PERMIT, "b", hasty), log.at(Point.REJECT, "r")]
    run(*registrations, waiting=waiting, now_s=100.0)
    framework = Framework(registrations)
    assert expire(framework, waiting, 102.9) == []
    outcomes = expire(framework, waiting, 103.0)
    assert [(outcome.status, outcome.fault and outcome.fault.plugin) for outcome in outcomes] == [("rejected", "b")]
    assert log.calls[-1] == "reject:r"
    assert waiting.withdraw(7) is None


def test_one_approval_may_stand_for_all() -> None:
    """Any plugin may approve a reserved pod as a whole."""
    waiting = WaitingPods()
    run(Log().at(Point.PERMIT, "a", WAIT), Log().at(Point.PERMIT, "b", WAIT), waiting=waiting)
    assert waiting.approve(7) is not None


def test_wait_without_a_timeout_is_refused() -> None:
    """A plugin that says wait must say how long, or a pod could hold its node for ever."""
    forever = PermitVerdict(answer=PermitAnswer.WAIT)
    assert run(Log().at(Point.PERMIT, "a", forever))[0] == CycleStatus.REJECTED


def test_bind_stops_at_the_first_true() -> None:
    """Once a bind plugin says true the remaining ones are skipped."""
    log = Log()
    status = run(*(log.at(Point.BIND, name, answer) for name, answer in (("a", False), ("b", True), ("c", True))))
    assert status[0] == CycleStatus.BOUND
    assert log.calls == ["bind:a", "bind:b"]


def test_informer_events_reach_every_handler() -> None:
    """A handler's error does not keep the event from the others."""
    heard = []
    framework = Framework(
        [
            Registration(point=Point.EVENT, name="broken", function=lambda *_: 1 / 0),
            Registration(point=Point.EVENT, name="keeper", function=lambda *event: heard.append(event)),
        ]
    )
    assert [fault.plugin for fault in framework.notify("PodAdd", 5)] == ["broken"]
    assert heard == [("PodAdd", 5)]


def test_notes_live_for_one_cycle() -> None:
    """What one plugin leaves another finds, in the same cycle only."""
    first, second = make_cycle(), make_cycle()
    framework = Framework(
        [
            Registration(point=Point.PRE_FILTER, name="w", function=lambda c: c.state.setdefault("zone", "b") and None),
            Registration(point=Point.FILTER, name="r", function=lambda c: ALL & (c.state["zone"] == "b")),
        ]
    )
    framework.pre_filter(first)
    assert framework.filter(first).all()
    assert "zone" not in second.state


def test_one_name_cannot_be_registered_twice_at_a_point() -> None:
    """Counts and weights are by name, so a name is unique per point."""
    with pytest.raises(InvalidRequest, match="registered twice at filter"):
        Framework([Log().at(Point.FILTER, "a"), Log().at(Point.FILTER, "a")])


def test_narrowed_cycle_has_the_same_nodes_left() -> None:
    """Leaving out what the filters turned away changes no answer."""
    cycle = make_cycle()
    cycle.alive = np.array([[True, False, True]])
    narrow = cycle.narrowed(2)
    assert narrow.nodes.tolist() == [[0, 2]]
    assert narrow.free(0).tolist() == [[1000, 3000]]
    assert narrow.state is cycle.state

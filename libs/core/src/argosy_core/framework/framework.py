"""The scheduling framework: calls what is registered at each extension point, by the rules of seed 002.

What the seed leaves open is decided so:

- a pod that no queue-sort function tells apart keeps its place (sorting is stable);
- after a post-filter error the remaining post-filter functions are not called;
- a node refused after scoring is followed by the next best node, until none is left;
- "deny" wins over "wait": the first deny ends the permit stage; a pod goes on once every function that said "wait"
  approved, and is rejected when the first of their time-outs passes;
- reject functions are called, in reverse order of registration, after every failure behind a reservation begun: by
  reserve, permit (deny or time-out), pre-bind or bind. They must bear being called for a reservation that was not made.

An error is any exception; its text becomes the reason. Score functions cannot fail a pod: an error counts as 0. A
filter that fails turns every node away, since nobody knows which could run the pod.

Source: seed 002 "Extension points"; design section 6, "extension points".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from typing import ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.framework.cycle import Assignment, Cycle, Fault
from argosy_core.framework.points import (
    BindFunction,
    EventFunction,
    FilterFunction,
    PermitAnswer,
    PermitFunction,
    Point,
    PostFilterFunction,
    PreFilterFunction,
    Registration,
    ScoreFunction,
    SortFunction,
    StageFunction,
)

__all__ = ["Framework", "PluginError"]

Bools = npt.NDArray[np.bool_]
Call = ParamSpec("Call")
Answer = TypeVar("Answer")
Item = TypeVar("Item")


class PluginError(Exception):
    """A plugin objects; its text is the reason that users read.

    Args:
        reason: The text.
        retry_after_s: When it wants to be asked again, seconds; 0 if that does not matter.
    """

    def __init__(self, reason: str, *, retry_after_s: float = 0.0) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Framework:
    """Functions at extension points, called in the order of registration.

    Args:
        registrations: What to call, in order.
    """

    def __init__(self, registrations: Iterable[Registration] = ()) -> None:
        """Register what is given."""
        self._at: dict[Point, list[Registration]] = {point: [] for point in Point}
        for registration in registrations:
            self.register(registration)

    def register(self, registration: Registration) -> None:
        """Add a function behind those that its point has.

        Raises:
            InvalidRequest: The point has a plugin of that name.
        """
        there = self._at[registration.point]
        if any(other.name == registration.name for other in there):
            raise InvalidRequest(f"plugin {registration.name!r} is registered twice at {registration.point}")
        there.append(registration)

    def registered(self, point: Point) -> Sequence[Registration]:
        """Return what is registered at a point, in order."""
        return tuple(self._at[point])

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters, in order."""
        return tuple(registration.name for registration in self._at[Point.FILTER])

    @property
    def filters_read_nodes_only(self) -> bool:
        """Whether the answer of every filter holds until the node's row changes."""
        judging = (*self._at[Point.PRE_FILTER], *self._at[Point.FILTER])
        return all(registration.reads_nodes_only for registration in judging)

    # --- queue sort ---------------------------------------------------------------------------------------------------

    def compare(self, left: object, right: object) -> int:
        """Return the answer of the first queue-sort function that tells two pods apart, or 0."""
        for registration in self._at[Point.QUEUE_SORT]:
            order = cast("SortFunction", registration.function)(left, right)
            if order:
                return order
        return 0

    def sort(self, pods: Iterable[Item]) -> list[Item]:
        """Return pods in queue order."""
        return sorted(pods, key=cmp_to_key(self.compare))

    # --- choosing -----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Fault | None:
        """Call the pre-filter functions; the first error ends the cycle for all its pods."""
        for registration in self._at[Point.PRE_FILTER]:
            allowed, fault = _call(registration.name, cast("PreFilterFunction", registration.function), cycle)
            if fault:
                return fault
            if allowed is not None:
                cycle.alive = cycle.alive & allowed[:, None]
        return None

    def filter(self, cycle: Cycle) -> Bools:
        """Return (k, n): the nodes that pass all filters. Sets `cycle.alive` to it."""
        for registration in self._at[Point.FILTER]:
            passed = _passed(registration, cycle)
            if passed is not None:
                cycle.alive = cycle.alive & passed
        return cycle.alive

    def filter_and_count(self, cycle: Cycle) -> tuple[Bools, npt.NDArray[np.int32]]:
        """Filter, and count for each pod the nodes that each filter turned away; the first failing filter counts.

        Returns:
            (k, n) nodes that pass all; (k, filters) counts.
        """
        filters = self._at[Point.FILTER]
        left = np.empty((len(filters) + 1, len(cycle.pods)), np.int32)
        left[0] = np.count_nonzero(cycle.alive, axis=1)
        for position, registration in enumerate(filters):
            passed = _passed(registration, cycle)
            if passed is not None:
                cycle.alive = cycle.alive & passed
            left[position + 1] = left[position] if passed is None else np.count_nonzero(cycle.alive, axis=1)
        return cycle.alive, np.ascontiguousarray((left[:-1] - left[1:]).T)

    def filter_each(self, cycle: Cycle) -> list[Bools]:
        """Return, per filter, the (k, n) nodes it would let pass if it were the only one."""
        begin = cycle.alive
        masks = []
        for registration in self._at[Point.FILTER]:
            cycle.alive = begin
            passed = _passed(registration, cycle)
            masks.append(begin if passed is None else begin & passed)
        cycle.alive = begin
        return masks

    def post_filter(self, cycle: Cycle) -> Fault | None:
        """Call the post-filter functions with the feasible nodes, empty or not; the first error ends the cycle."""
        for registration in self._at[Point.POST_FILTER]:
            _, fault = _call(registration.name, cast("PostFilterFunction", registration.function), cycle, cycle.alive)
            if fault:
                return fault
        return None

    def score(self, cycle: Cycle) -> npt.NDArray[np.float64]:
        """Return (k, n) sums of score times weight; a function that fails counts 0 and is noted in `cycle.faults`."""
        total = np.zeros(cycle.shape)
        for registration in self._at[Point.SCORE]:
            scores, fault = _call(registration.name, cast("ScoreFunction", registration.function), cycle)
            if fault or scores is None:
                cycle.faults.extend([fault] if fault else [])
            elif registration.weight == 1.0:
                total += scores
            else:
                total += scores * registration.weight
        # One sum tells whether all is finite; not-a-number counts 0 as any other error does.
        return total if np.isfinite(total.sum()) else np.nan_to_num(total, copy=False)

    # --- one pod on one node ------------------------------------------------------------------------------------------

    def post_score(self, cycle: Cycle, assignment: Assignment) -> Fault | None:
        """Ask the post-score functions about the chosen node; the first objection rejects the node."""
        return self._stages(Point.POST_SCORE, cycle, assignment)

    def reserve(self, cycle: Cycle, assignment: Assignment) -> Fault | None:
        """Call the reserve functions; the first error ends the stage and calls the reject functions."""
        fault = self._stages(Point.RESERVE, cycle, assignment)
        if fault:
            self.reject(cycle, assignment)
        return fault

    def reject(self, cycle: Cycle, assignment: Assignment) -> list[Fault]:
        """Call all reject functions in reverse order; an error does not keep the others from cleaning up."""
        faults = []
        for registration in reversed(self._at[Point.REJECT]):
            _, fault = _call(registration.name, cast("StageFunction", registration.function), cycle, assignment)
            faults.extend([fault] if fault else [])
        return faults

    def permit(self, cycle: Cycle, assignment: Assignment) -> tuple[Fault | None, dict[str, float]]:
        """Ask the permit functions.

        Returns:
            The denial, if any; and by function that said "wait" its time-out in seconds.
        """
        waits: dict[str, float] = {}
        for registration in self._at[Point.PERMIT]:
            verdict, fault = _call(registration.name, cast("PermitFunction", registration.function), cycle, assignment)
            if fault or verdict is None:
                return fault, {}
            if verdict.answer is PermitAnswer.DENY:
                return Fault(plugin=registration.name, reason=verdict.reason or "denied"), {}
            if verdict.answer is PermitAnswer.WAIT:
                if verdict.timeout_s <= 0:
                    return Fault(plugin=registration.name, reason="said wait without a timeout"), {}
                waits[registration.name] = verdict.timeout_s
        return None, waits

    def pre_bind(self, cycle: Cycle, assignment: Assignment) -> Fault | None:
        """Ask the pre-bind functions; binding may start if all say true."""
        for registration in self._at[Point.PRE_BIND]:
            ready, fault = _call(registration.name, cast("BindFunction", registration.function), cycle, assignment)
            if fault or not ready:
                return fault or Fault(plugin=registration.name, reason="not ready to bind")
        return None

    def bind(self, cycle: Cycle, assignment: Assignment) -> Fault | None:
        """Call the bind functions until one says true; an error, or none of them, fails the pod."""
        for registration in self._at[Point.BIND]:
            bound, fault = _call(registration.name, cast("BindFunction", registration.function), cycle, assignment)
            if fault or bound:
                return fault
        return Fault(plugin="", reason="no bind plugin took the pod")

    def post_bind(self, cycle: Cycle, assignment: Assignment) -> list[Fault]:
        """Call the post-bind functions; errors are answered, and change nothing."""
        faults = []
        for registration in self._at[Point.POST_BIND]:
            _, fault = _call(registration.name, cast("StageFunction", registration.function), cycle, assignment)
            faults.extend([fault] if fault else [])
        return faults

    def notify(self, event: str, subject: object) -> list[Fault]:
        """Call the event functions with an informer event; errors are answered, and stop nothing."""
        faults = []
        for registration in self._at[Point.EVENT]:
            _, fault = _call(registration.name, cast("EventFunction", registration.function), event, subject)
            faults.extend([fault] if fault else [])
        return faults

    def _stages(self, point: Point, cycle: Cycle, assignment: Assignment) -> Fault | None:
        """Call the functions of a point until one fails."""
        for registration in self._at[point]:
            _, fault = _call(registration.name, cast("StageFunction", registration.function), cycle, assignment)
            if fault:
                return fault
        return None


def _passed(registration: Registration, cycle: Cycle) -> Bools | None:
    """Return what a filter lets pass; nothing if it fails."""
    passed, fault = _call(registration.name, cast("FilterFunction", registration.function), cycle)
    if fault:
        cycle.faults.append(fault)
        return np.zeros((1, 1), np.bool_)
    return passed


def _call(
    plugin: str, function: Callable[Call, Answer], *args: Call.args, **kwargs: Call.kwargs
) -> tuple[Answer | None, Fault | None]:
    """Return the answer of a plugin's function, or the fault that its exception is."""
    try:
        return function(*args, **kwargs), None
    except PluginError as objection:
        after_s = objection.retry_after_s
        return None, Fault(plugin=plugin, reason=str(objection), is_objection=True, retry_after_s=after_s)
    except Exception as error:  # noqa: BLE001 - a plugin's error is an answer, whatever its class (seed 002)
        return None, Fault(plugin=plugin, reason=f"{type(error).__name__}: {error}")

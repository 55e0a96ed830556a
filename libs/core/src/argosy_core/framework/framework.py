"""The scheduling framework: calls what is registered at each extension point, by the rules of seed 002.

All functions take batches, and are called in the order of registration. What the seed leaves open is decided so:

- An error is any exception, and any answer of another shape or type than its point wants. A function that fails for a
  batch is asked again about each half, down to single classes or placements: so it must bear to be asked twice, and its
  fault falls on those alone that it fails on.
- A class that pre-filter, filter or post-filter fails on is turned away, since nobody knows which nodes could run it;
  `faults` of the cycle says why, and when the plugin wants to be asked again.
- A score that fails, or is not a finite number, counts 0 where it does; the other plugins' parts stay.
- A queue-sort function that fails for a job gives it the key 0.
- A node refused by post-score is followed by the run's next candidate.
- Permit functions are asked about all that is held back, again and again until all of them permit; to deny counts more
  than to wait. One that fails denies. So does pre-bind, which is asked in order, and not about what was denied before.
- An object that a bind function fails on is not made now, by nobody, and tried again later.
- Unreserve is called in reverse order of registration for every placement given up after reserve began, for all plugins
  that have it. They must bear being called for a reservation that was not made.

Source: seed 002 "Extension points"; design section 5, "Plugins".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.framework.binding import BindBatch
from argosy_core.framework.cycle import PlacementBatch
from argosy_core.framework.faults import Fault, NotNow, PluginFaults
from argosy_core.framework.jobs import JobBatch
from argosy_core.framework.permits import PermitBatch, Verdicts
from argosy_core.framework.points import SAMPLING, Point, ProfileKind, Registration

__all__ = ["Framework", "Judged"]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Judged(Protocol):
    """What filters and scores are given: a `Cycle` at the sampler, a `CandidateCycle` at the leader."""

    alive: Bools
    """What no earlier function turned away, of the shape of all answers."""
    plugin: str
    """Who is being asked."""

    def __len__(self) -> int:
        """Return how many classes are judged together."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an answer."""
        ...

    def turn_away(self, pods: Bools, fault: Fault) -> None:
        """Leave nothing to some of the classes."""
        ...

    def halves(self) -> tuple[Self, Self]:
        """Return the first and the second half of the classes."""
        ...


class Framework:
    """Functions at extension points, called in the order of registration.

    Args:
        registrations: What to call, in order.
        kind: Which points there are.
    """

    def __init__(self, registrations: Iterable[Registration] = (), kind: ProfileKind = SAMPLING) -> None:
        """Register what is given."""
        self.kind = kind
        self._at: dict[Point, list[Registration]] = {point: [] for point in kind.methods}
        self._used: set[Point] = set()
        self._faults: dict[tuple[Point, str], tuple[int, str]] = {}
        self._woken: set[str] = set()
        for registration in registrations:
            self.register(registration)

    def register(self, registration: Registration) -> None:
        """Add a function behind those that its point has.

        Raises:
            InvalidRequest: The point has a plugin of that name, or the profile does not call the point.
        """
        there = self._at.get(registration.point)
        if there is None:
            raise InvalidRequest(
                f"plugin {registration.name!r}: the {self.kind.name} profile does not call {registration.point}"
            )
        if any(other.name == registration.name for other in there):
            raise InvalidRequest(f"plugin {registration.name!r} is registered twice at {registration.point}")
        there.append(registration)
        self._used.add(registration.point)

    def registered(self, point: Point) -> Sequence[Registration]:
        """Return what is registered at a point, in order."""
        return tuple(self._at[point])

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters, in order."""
        return tuple(registration.name for registration in self._at[Point.FILTER])

    @property
    def filter_texts(self) -> tuple[str, ...]:
        """What to say of the nodes that each filter turned away, with `{nodes}` for their number."""
        filters = self._at[Point.FILTER]
        return tuple(one.explanation or f"filter {one.name} not passed by {{nodes}}" for one in filters)

    @property
    def filters_read_nodes_only(self) -> bool:
        """Whether the answer of everything that turns nodes away holds until the node's row changes."""
        judging = (*self._at[Point.PRE_FILTER], *self._at[Point.FILTER], *self._at[Point.POST_FILTER])
        return all(registration.reads_nodes_only for registration in judging)

    def take_faults(self) -> list[PluginFaults]:
        """Return the errors since the last call, one line per plugin and point."""
        faults, self._faults = self._faults, {}
        return [
            PluginFaults(point=point, plugin=plugin, count=count, reason=reason)
            for (point, plugin), (count, reason) in faults.items()
        ]

    def add_faults(self, faults: Iterable[PluginFaults]) -> None:
        """Count errors that were met elsewhere."""
        for fault in faults:
            key = (Point(fault.point), fault.plugin)
            self._faults[key] = (self._faults.get(key, (0, ""))[0] + fault.count, fault.reason)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Judged) -> None:
        """Take classes out of the cycle that may not go on."""
        for registration in self._at[Point.PRE_FILTER]:
            self._narrow(registration, cycle)

    def filter(self, cycle: Judged) -> Bools:
        """Return what passes all filters, shaped as the cycle. Sets `cycle.alive` to it."""
        for registration in self._at[Point.FILTER]:
            self._narrow(registration, cycle)
        return cycle.alive

    def filter_each(self, cycle: Judged) -> list[Bools]:
        """Return, per filter, the (k, n) nodes it would let pass if it were the only one."""
        begin = cycle.alive
        masks = []
        for registration in self._at[Point.FILTER]:
            cycle.alive = begin
            self._narrow(registration, cycle)
            masks.append(cycle.alive)
        cycle.alive = begin
        return masks

    def post_filter(self, cycle: Judged) -> None:
        """Show the feasible nodes, empty or not, and take classes out that may not go on."""
        for registration in self._at[Point.POST_FILTER]:
            self._narrow(registration, cycle)

    def score(self, cycle: Judged) -> Floats:
        """Return sums of score times weight, shaped as the cycle."""
        total = np.zeros(cycle.shape)
        for registration in self._at[Point.SCORE]:
            scores = self._scores(registration, cycle)
            total += scores if registration.weight == 1.0 else scores * registration.weight
        return total

    def queue_keys(self, batch: JobBatch) -> npt.NDArray[np.int64]:
        """Return (n, k) keys of jobs, one column per queue-sort function; 0 where one fails: it decides nothing."""
        columns = [self._keys(registration, batch) for registration in self._at[Point.QUEUE_SORT]]
        return np.stack(columns, axis=1)

    # --- committing ---------------------------------------------------------------------------------------------------

    def has(self, *points: Point) -> bool:
        """Return whether anything is registered at one of the points; asked so often that it must cost nothing."""
        return not self._used.isdisjoint(points)

    def post_score(self, batch: PlacementBatch) -> Bools:
        """Return (n,): which lines every post-score function accepts. An error refuses its line."""
        accepted = np.ones(len(batch), np.bool_)
        for registration in self._at[Point.POST_SCORE]:
            asked = true_places(accepted)
            accepted[asked] = self._accepted(registration, batch.take(asked))
        return accepted

    def check_conflicts(self, batch: PlacementBatch) -> Bools:
        """Return (n,): which placements, that are reserved, every function bears. An error is a conflict."""
        borne = np.ones(len(batch), np.bool_)
        for registration in self._at[Point.CHECK_CONFLICTS]:
            asked = true_places(borne)
            borne[asked] = self._accepted(registration, batch.take(asked))
        return borne

    def reserve(self, batch: PlacementBatch) -> Bools:
        """Tell the reserve functions of placements; return (n,) which stand. Unreserve is called for the others."""
        standing = np.ones(len(batch), np.bool_)
        for registration in self._at[Point.RESERVE]:
            asked = true_places(standing)
            standing[asked] = self._accepted(registration, batch.take(asked))
        if not standing.all():
            self.unreserve(batch.take(~standing))
        return standing

    def permit(self, batch: PermitBatch) -> Verdicts:
        """Return what permit functions say of placements that are committed and not published."""
        return self._judge(Point.PERMIT, batch)

    def pre_bind(self, batch: PermitBatch) -> Verdicts:
        """Return which placements may be bound, as `denied`; functions may take their time."""
        verdicts = self._judge(Point.PRE_BIND, batch)
        verdicts.denied |= verdicts.waits
        return verdicts

    def bind(self, batch: BindBatch) -> tuple[Bools, dict[int, str]]:
        """Return (n,) which objects plugins have made, and by line what was said by one that failed on it."""
        made, failed = np.zeros(len(batch), np.bool_), dict[int, str]()
        for registration in self._at[Point.BIND]:
            left = ~made
            left[list(failed)] = False
            asked = true_places(left)
            made[asked] = self._made(registration, batch.take(asked), asked, failed)
        return made, failed

    def _made(
        self, registration: Registration, batch: BindBatch, lines: npt.NDArray[np.intp], failed: dict[int, str]
    ) -> Bools:
        """Return (n,): which objects a function has made; write down those that it fails on, by their lines."""
        made = np.zeros(len(batch), np.bool_)
        if not len(batch):
            return made
        try:
            answer = registration.function(batch)
            return made if answer is None else made | _mask(answer, (len(batch),))
        except Exception as error:  # noqa: BLE001 - as above
            middle = len(batch) // 2
            if middle:
                parts = (slice(0, middle), slice(middle, None))
                return np.concatenate([self._made(registration, batch.take(one), lines[one], failed) for one in parts])
            self._count(registration, error)
            failed[int(lines[0])] = f"{registration.name}: {error}"
            return made

    def post_bind(self, batch: PermitBatch) -> None:
        """Tell of runs that exist on their cluster."""
        for registration in self._at[Point.POST_BIND]:
            self._tell(registration, batch)

    def _judge(self, point: Point, batch: PermitBatch) -> Verdicts:
        batch = batch.fresh()
        for registration in self._at[point]:
            asked = batch.take(true_places(~batch.verdicts.denied))
            asked = replace(asked, verdicts=Verdicts(len(batch)))
            asked.verdicts.plugin = registration.name
            accepted = self._accepted(registration, asked)
            asked.deny(~accepted & ~asked.verdicts.denied[asked.lines], "denied")
            batch.verdicts.merge(asked.verdicts)
        return batch.verdicts

    def only(self, point: Point) -> Framework:
        """Return a framework with the functions of one point, that counts errors of its own: for another thread."""
        return Framework(self._at[point], self.kind)

    def unreserve(self, batch: PlacementBatch | PermitBatch) -> None:
        """Call all unreserve functions in reverse order; an error does not keep the others from cleaning up."""
        for registration in reversed(self._at[Point.UNRESERVE]):
            self._tell(registration, batch)

    def notify(self, event: object) -> None:
        """Call the event functions; an error does not keep the event from the others.

        One that answers true wants the classes to be asked for again that its plugin has turned away.
        """
        for registration in self._at[Point.EVENT]:
            if self._tell(registration, event):
                self._woken.add(registration.name)

    def take_woken(self) -> set[str]:
        """Return the plugins that wanted so since the last call."""
        woken, self._woken = self._woken, set()
        return woken

    # --- parts --------------------------------------------------------------------------------------------------------

    def _narrow(self, registration: Registration, cycle: Judged) -> None:
        """Take off `cycle.alive` what a function does not let pass."""
        cycle.plugin = registration.name
        try:
            answer = registration.function(cycle)
            if answer is not None:
                per_class = registration.point is not Point.FILTER
                mask = _mask(answer, (len(cycle),) if per_class else cycle.shape)
                cycle.alive = cycle.alive & (mask[:, None] if per_class else mask)
        except Exception as error:  # noqa: BLE001 - a plugin's error is an answer, whatever its class (seed 002)
            if len(cycle) > 1:
                parts = cycle.halves()
                for part in parts:
                    self._narrow(registration, part)
                cycle.alive = np.concatenate([part.alive for part in parts])
            else:
                self._count(registration, error)
                cycle.turn_away(np.ones(len(cycle), np.bool_), Fault.of(registration.name, error))

    def _scores(self, registration: Registration, cycle: Judged) -> Floats:
        """Return the scores of one function, 0 where it fails."""
        cycle.plugin = registration.name
        try:
            scores = _checked(registration.function(cycle), cycle.shape, "biuf")
        except Exception as error:  # noqa: BLE001 - as above
            if len(cycle) > 1:
                halves = [np.broadcast_to(self._scores(registration, part), part.shape) for part in cycle.halves()]
                return np.concatenate(halves)
            self._count(registration, error)
            return np.zeros(cycle.shape)
        # One sum tells whether all is finite.
        if not np.isfinite(scores.sum()):
            wrong = ~np.isfinite(np.broadcast_to(scores, cycle.shape))
            if has_true(wrong & cycle.alive):
                self._count(registration, ValueError("answered a score that is not a finite number"))
            scores = np.where(wrong, 0.0, scores)
        return np.asarray(scores, np.float64)

    def _keys(self, registration: Registration, batch: JobBatch) -> npt.NDArray[np.int64]:
        """Return the keys of one function, 0 where it fails."""
        try:
            keys = _checked(registration.function(batch), (len(batch),), "iu")
            return np.broadcast_to(keys, len(batch)).astype(np.int64)
        except Exception as error:  # noqa: BLE001 - as above
            middle = len(batch) // 2
            if middle:
                halves = (batch.take(slice(0, middle)), batch.take(slice(middle, None)))
                return np.concatenate([self._keys(registration, half) for half in halves])
            self._count(registration, error)
            return np.zeros(len(batch), np.int64)

    def _accepted(self, registration: Registration, batch: PlacementBatch | PermitBatch) -> Bools:
        """Return (n,): which lines a function accepts."""
        if not len(batch):
            return np.zeros(0, np.bool_)
        try:
            answer = registration.function(batch)
            return np.ones(len(batch), np.bool_) if answer is None else _mask(answer, (len(batch),))
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(batch, PermitBatch):
                batch.forget()
            if registration.point is Point.RESERVE:
                for own in self._at[Point.UNRESERVE]:
                    if own.name == registration.name:
                        self._tell(own, batch)
            middle = len(batch) // 2
            if middle:
                halves = (batch.take(slice(0, middle)), batch.take(slice(middle, None)))
                return np.concatenate([self._accepted(registration, half) for half in halves])
            self._count(registration, error)
            if isinstance(batch, PermitBatch):
                batch.note_fault(Fault.of(registration.name, error))
            return np.zeros(1, np.bool_)

    def _tell(self, registration: Registration, what: object) -> bool:
        """Call a function that is told something; return whether it answers true."""
        try:
            return registration.function(what) is True
        except Exception as error:  # noqa: BLE001 - as above
            self._count(registration, error)
            return False

    def _count(self, registration: Registration, error: Exception) -> None:
        """Note an error; a change request to wait is none."""
        if not isinstance(error, NotNow):
            key = (registration.point, registration.name)
            count, _ = self._faults.get(key, (0, ""))
            self._faults[key] = (count + 1, f"{type(error).__name__}: {error}")


def _mask(answer: object, shape: tuple[int, ...]) -> Bools:
    """Return an answer as truth values that broadcast to a shape; raises as `_checked`."""
    return cast("Bools", _checked(answer, shape, "b"))


def _checked(answer: object, shape: tuple[int, ...], kinds: str) -> npt.NDArray[np.generic]:
    """Return an answer as an array that broadcasts to a shape.

    Raises:
        TypeError: It is not of the kind wanted.
        ValueError: It has another shape.
    """
    array = np.asarray(answer)
    if array.dtype.kind not in kinds:
        raise TypeError(f"answered {array.dtype}, not {'truth values' if kinds == 'b' else 'numbers'}")
    fits = array.ndim == len(shape) and all(have in {1, want} for have, want in zip(array.shape, shape, strict=True))
    if not fits:
        raise ValueError(f"answered an array shaped {array.shape}, not {shape}")
    return array

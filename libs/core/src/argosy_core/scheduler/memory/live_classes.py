"""The scheduling classes that live jobs use, each with a small dense index.

Owns what one job of a class takes and how many live jobs are of it. Columns are public arrays; the functions of
`argosy_core.scheduler` alone change them. May import what jobs are made of, weights of resources and resource columns;
knows no queue, cluster or pool.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int64s, true_places
from argosy_core.errors import InvalidRequest, NotFound
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.class_columns import ClassColumns
from argosy_core.job.tables.ids import grow
from argosy_core.queueing.usage import weigh_rows
from argosy_core.queueing.weights import ResourceWeights
from argosy_core.resources.axis import DEFAULT_AXIS, ResourceAxis

__all__ = [
    "MAX_RESOURCES",
    "LiveClasses",
]

MAX_RESOURCES: Final = 256
"""Different resources that a pool counts: each is a column of every class, node and request."""
_MAX_REQUESTED: Final = 192
"""How many of them classes may bring, so that there is room for what nodes have."""
_LEAST_IDLE_CLASSES: Final = 2000
"""Classes without live jobs that are kept in any case, as the next of their jobs is likely to come soon."""
_NOTHING: Final = SchedulingClass(requests=())


class LiveClasses(ClassColumns):
    """Scheduling classes that jobs use: what one job takes, and how many there are; others are dropped in time."""

    def __init__(self, weights: ResourceWeights) -> None:
        """Start empty.

        Args:
            weights: What resources count.
        """
        super().__init__(DEFAULT_AXIS)
        self._weights = weights
        self.usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of one job, micro-cores."""
        self.job_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Live jobs of the class."""
        self.waiting_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs of the class."""
        self.definitions: dict[int, bytes] = {}
        """Index -> definition."""
        self.refused: dict[int, str] = {}
        """Index -> why a class cannot be used; its jobs fail with that reason."""
        self.drop_count = 0
        """How often classes were dropped; those that were are found by their ids, which are not held any more."""
        self._ports: dict[int, tuple[HostPort, ...]] = {}

    def define(self, class_id: int, definition: bytes) -> int:
        """Add a class and return its index; a known one is left alone, and one that cannot be used is refused."""
        known = self.ids.find(class_id)
        if known is not None:
            return known
        try:
            parsed = SchedulingClass.parse(definition)
            self.extend_axis([name for name, _ in parsed.requests], _MAX_REQUESTED)
        except (ValueError, InvalidRequest) as error:
            return self.refuse(class_id, f"its scheduling class cannot be used: {error}")
        return self._add(class_id, parsed, definition)

    def refuse(self, class_id: int, reason: str) -> int:
        """Add a class that cannot be used, as one that asks for nothing, and return its index."""
        index = self._add(class_id, _NOTHING, _NOTHING.definition())
        self.refused[index] = reason
        return index

    def _add(self, class_id: int, parsed: SchedulingClass, definition: bytes) -> int:
        index = self._enter(class_id, parsed)
        end = self.ids.end
        self.usage = grow(self.usage, end)
        self.job_count = grow(self.job_count, end)
        self.waiting_count = grow(self.waiting_count, end)
        self.usage[index] = self.weigh(self.requests[index : index + 1])[0]
        self.job_count[index] = self.waiting_count[index] = 0
        self.definitions[index] = definition
        if parsed.host_ports:
            self._ports[index] = parsed.host_ports
        ids = self._pod_ids(parsed)
        pods = zip(ids, parsed.gang, strict=True)
        self._note_gang(index, parsed, [self._add(pod_id, group.pod, b"") for pod_id, group in pods])
        return index

    def node_needs(self, classes: npt.NDArray[np.integer]) -> Int64s:
        """Return (n, resource) what some node must have for a job of each class: of a gang, for its largest pods."""
        needs: Int64s = self.requests[classes]
        for place in true_places(self.are_gangs(classes)).tolist():
            needs[place] = self.requests[self.gangs[int(classes[place])].pods].max(axis=0)
        return needs

    def weigh(self, rows: Int64s) -> Int64s:
        """Return the usage of what each of n jobs requests as (n, resource) in axis order, micro-cores."""
        return weigh_rows(rows, self.axis.names, self._weights.values)

    def weigh_again(self) -> None:
        """Take over changed weights; whoever holds sums of usage adds them up again."""
        self.usage = self.weigh(self.requests)

    def host_ports(self, classes: npt.NDArray[np.integer]) -> dict[int, tuple[HostPort, ...]]:
        """Return the host ports that a pod takes, by class id, of those of some classes that take any."""
        if not self._ports:
            return {}
        return {int(self.class_id[index]): self._ports[index] for index in classes.tolist() if index in self._ports}

    def definition(self, class_id: int) -> SchedulingClass:
        """Return the class of an id.

        Raises:
            NotFound: The class is not defined.
        """
        index = self.ids.find(class_id)
        if index is None:
            raise NotFound(f"class {class_id} is not defined")
        return SchedulingClass.parse(self.definitions[index])

    def extend_axis(self, names: Iterable[str], most: int = MAX_RESOURCES) -> bool:
        """Give new resources a column; return whether there were any.

        Raises:
            InvalidRequest: There would be too many.
        """
        wanted = self.axis.extend(names).names
        if len(self.axis) < len(wanted) > most:
            raise InvalidRequest(f"a pool counts at most {most} different resources; {wanted[-1]!r} is one more")
        return super().extend_axis(wanted)

    def used_columns(self) -> npt.NDArray[np.bool_]:
        """Return which resources every node has or some class asks for."""
        used: npt.NDArray[np.bool_] = (self.requests[[index for _, index in self.ids.items()]] != 0).any(axis=0)
        used[: len(DEFAULT_AXIS)] = True
        return used

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take away the other resources."""
        self.axis = ResourceAxis(tuple(self.axis.names[column] for column in true_places(used).tolist()))
        self.requests = self.requests[:, used]

    def drop_idle(self, most: int | None = None) -> list[int]:
        """Forget classes without live jobs once there are too many; return the indices forgotten.

        Args:
            most: How many there may be; None for as many as have live jobs, and 2,000 at least.
        """
        live = self.job_count[: self.ids.end]
        live_count = int(np.count_nonzero(live))
        if len(self.ids) - live_count <= (max(_LEAST_IDLE_CLASSES, live_count) if most is None else most):
            return []
        idle = [(class_id, index) for class_id, index in self.ids.items() if class_id >= 0 and not live[index]]
        self.drop_count += bool(idle)
        idle += [(int(self.class_id[pod]), pod) for _, index in idle for pod in self._drop_gang(index)]
        for class_id, index in idle:
            self.ids.drop(class_id)
            del self.definitions[index]
            self._ports.pop(index, None)
            self.refused.pop(index, None)
        return [index for _, index in idle]

"""The auditor: sees what truly happens in all clusters at once, and says when something must never have happened.

Source: design section 7, invariants 1 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState
from argosy_core.job.tables.members import Members, attempt_of, member_of, place_of
from argosy_core.ledger import NodeLedger
from argosy_core.placement import CommitRequest
from argosy_core.reconcile import Creates
from argosy_core.resources import PODS

if TYPE_CHECKING:
    from argosy_simulation.durable import DurableStore

__all__ = ["Audit"]


class Audit:
    """Keeps which pod runs where.

    Args:
        store: What was stored, to tell whether a pod had been reported before it was made.
    """

    def __init__(self, store: DurableStore) -> None:
        """Start without pods."""
        self._store = store
        self._running: dict[int, dict[tuple[int, int], tuple[str, int]]] = {}
        """Handle -> (member, position in the bag) -> (cluster, attempt)."""
        self.pod_count = 0
        """Pods made."""

    def sending(self, creates: Creates, *, is_superseded: bool) -> frozenset[tuple[int, int, int]]:
        """Return which objects were reported before a call to create them was sent, as the sender must know.

        A predecessor that acts within its fence need not know what its successor reported.
        """
        if is_superseded:
            return frozenset()
        columns = (creates.handle_column, creates.ordinal_column, creates.object_column)
        keys = zip(*(column.tolist() for column in columns), strict=True)
        return frozenset(key for key in keys if self._state(key) not in (None, ObjectState.LEASED))

    def _state(self, key: tuple[int, int, int]) -> int | None:
        """Return the stored state of an object; None if its run is not stored."""
        handle, ordinal, position = key
        job = self._store.jobs.get(handle)
        run = job.runs.get(ordinal) if job is not None else None
        return None if run is None else int(run.objects[position])

    def pod_created(self, cluster: str, key: tuple[int, int, int], *, was_known: bool) -> None:
        """Take note of a new pod.

        Args:
            cluster: Where.
            key: (handle, ordinal, position in the bag).
            was_known: It had been reported when the call was sent.

        Raises:
            InvariantViolation: Nobody ever leased the run, its end was stored, or whoever sent the call must have
                known that a pod of it was there before.
        """
        self.pod_count += 1
        handle, ordinal, position = key
        job = self._store.jobs.get(handle)
        run = job.runs.get(ordinal) if job is not None else None
        if run is None or run.cluster != cluster:
            raise InvariantViolation(f"{cluster} makes a pod of run {handle}/{ordinal}, which is not stored for it")
        if was_known or IS_RUN_TERMINAL[run.objects[position]]:
            state = ObjectState(run.objects[position]).name
            raise InvariantViolation(f"{cluster} makes a pod of run {handle}/{ordinal} again after it was {state}")

    def pod_started(self, cluster: str, handle: int, ordinal: int, position: int) -> None:
        """Take note of a pod that runs.

        Raises:
            InvariantViolation: Another pod of the same member of the job runs, or one of another run of it.
        """
        running = self._running.setdefault(handle, {})
        attempt, place = attempt_of(ordinal), (place_of(member_of(ordinal)), position)
        for known, other in running.items():
            if known == place or other != (cluster, attempt):
                raise InvariantViolation(
                    f"job {handle} runs twice: attempt {other[1]} in {other[0]} and attempt {attempt} in {cluster}"
                )
        running[place] = (cluster, attempt)

    def pod_stopped(self, cluster: str, handle: int, ordinal: int, position: int) -> None:
        """Take note of a pod that does not run any more, if it did."""
        running = self._running.get(handle, {})
        place = place_of(member_of(ordinal)), position
        if running.get(place) == (cluster, attempt_of(ordinal)):
            del running[place]
            if not running:
                del self._running[handle]

    def committed(self, sampler: str, ledger: NodeLedger, request: CommitRequest, nodes: npt.NDArray[np.int32]) -> None:
        """Take note of commits that were kept.

        Args:
            sampler: Who kept them.
            ledger: Its ledger.
            request: What was asked of it.
            nodes: Node of each member that got one now, -1 for the others.

        Raises:
            InvariantViolation: One leaves less than nothing free of what its pod asks for, or a gang was placed in
                part.
        """
        classes, placed = ledger.classes, np.flatnonzero(nodes >= 0)
        slots = classes.slots(request.class_ids)
        pods = classes.member_indices(slots, request.members.member)[placed]
        requests = classes.requests[pods].T
        # A pod that wants its node for itself takes all that it has of `pods`, and so do the others of its gang there.
        short = (requests > 0) & (ledger.nodes.free[:, nodes[placed]] < 0)
        short[ledger.axis.index(PODS), classes.are_gangs(slots[placed])] = False
        if short.any():
            raise InvariantViolation(f"{sampler} kept a commit for which there is no room")
        gangs = placed[classes.are_gangs(slots[placed])]
        for handle in np.unique(request.members.handle[gangs]).tolist():
            mine = gangs[request.members.handle[gangs] == handle]
            least = classes.gangs[int(slots[mine[0]])].least_count
            if (request.members.member[mine] >= least).all():
                continue  # they join the others of their run
            if mine.size != classes.gangs[int(slots[mine[0]])].least_count:
                raise InvariantViolation(
                    f"{sampler} placed {mine.size} members of gang {handle}, not all that it needs"
                )

    def placed(self, sampler: str, ledger: NodeLedger, members: Members, nodes: npt.NDArray[np.int32]) -> None:
        """Take note of nodes that a sampler chose for what is leased to its cluster.

        Args:
            sampler: Who chose them.
            ledger: Its ledger.
            members: What was to be placed.
            nodes: Node of each member that got one now, -1 for the others.

        Raises:
            InvariantViolation: One has no room for it.
        """
        chosen = np.flatnonzero(nodes >= 0)
        requests = ledger.classes.requests[ledger.classes_of(members[chosen])].T
        if ((requests > 0) & (ledger.nodes.free[:, nodes[chosen]] < 0)).any():
            raise InvariantViolation(f"{sampler} placed a run on a node that has no room for it")

    def node_overcommitted(self, cluster: str, node: str, resource: str) -> None:
        """Take note of a pod for which its node has no room.

        Raises:
            InvariantViolation: Always: whoever placed it must have known.
        """
        raise InvariantViolation(f"node {node} of {cluster} was given more {resource} than it has")

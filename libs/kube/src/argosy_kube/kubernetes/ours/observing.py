"""From documents to rows: what a pod or another object of the cluster means for the port's reader.

Source: design section 5, "Sync" and "Node lost".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from argosy_core.job.reading.stop_note import STOP_AFTER_ANNOTATION, parse_stop_after
from argosy_kube.failure_table import NOT_READY
from argosy_kube.kubernetes.api.documents import KeyDocument, Metadata, PodDocument
from argosy_kube.kubernetes.api.resources import PODS, Resource
from argosy_kube.kubernetes.ours.binding import PodBinder
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.kubernetes.ours.places import Place, PlaceIndex
from argosy_kube.kubernetes.ours.pod_warnings import PodWarnings
from argosy_kube.kubernetes.ours.relabelling import Relabeller, tells_deletion
from argosy_kube.kubernetes.reading.columns import EventRows, SharedTables, read_run, uid_bytes
from argosy_kube.kubernetes.reading.details import detail_of
from argosy_kube.kubernetes.reading.nodes import NodeHealth, NodeStates
from argosy_kube.kubernetes.reading.pods import (
    ended_us,
    exit_and_reason,
    host_ports,
    is_awaited,
    is_gone,
    phase_of,
    read_time_us,
    scaling_of,
)
from argosy_kube.port import Change, Detail, ObjectEvents, PodPhase

__all__ = ["CHANGES", "Observer", "apply_health", "state_of"]

CHANGES: Final = {"ADDED": Change.ADDED, "MODIFIED": Change.MODIFIED, "DELETED": Change.DELETED}
"""Types of watch events."""


class Observer:
    """Adds documents to rows, for one adapter.

    Args:
        installation: Whose objects are ours.
        tables: Begins rows.
        places: Where our objects are noted.
        release: Called with the place and uid of a pod that nothing but our finalizer keeps.
        relabeller: Gives pods of ours their labels back.
        warnings: Keeps what others wrote about pods that wait.
        binder: Binds pods that stay without a node.
    """

    def __init__(
        self,
        installation: str,
        tables: SharedTables,
        places: PlaceIndex,
        *,
        release: Callable[[Place, str], None],
        relabeller: Relabeller,
        warnings: PodWarnings,
        binder: PodBinder,
    ) -> None:
        """Know no object."""
        self._installation = installation
        self.tables = tables
        """Begins rows."""
        self.places = places
        """Where our objects are noted."""
        self._release = release
        self.relabeller = relabeller
        """Gives pods of ours their labels back, and looks for those that seem to be gone."""
        self.warnings = warnings
        """What others wrote about pods that wait without saying why."""
        self._binder = binder
        self._told_gone: set[str] = set()

    def forget(self) -> None:
        """Forget which pods were told as deleted before they were; call it before a list."""
        self._told_gone.clear()

    def add(
        self,
        rows: EventRows,
        change: Change,
        document: KeyDocument | PodDocument,
        *,
        resource: Resource,
        time_us: int = 0,
    ) -> None:
        """Add an object if it is ours; a pod that only our finalizer keeps is let go, and gone to the reader.

        Args:
            rows: Where to.
            change: What happened.
            document: The object; whole if it is a pod.
            resource: Its kind.
            time_us: When, microseconds since the Unix epoch; 0 if only the object can tell.
        """
        if isinstance(document, PodDocument):
            self._add_pod(rows, change, document, time_us=time_us)
        else:
            self._add_object(rows, change, document, resource=resource, time_us=time_us)

    def _add_pod(self, rows: EventRows, change: Change, pod: PodDocument, *, time_us: int) -> None:
        run = self._run_of(change, pod.metadata)
        told = self._told(change, pod, run) if run is not None else None
        if run is None or told is None:
            return
        self._binder.note(pod, is_there=told != Change.DELETED)
        phase, exit_code, reason = state_of(pod)
        detail = detail_of(pod, phase, reason)
        warned = self.warnings.note(pod, phase, reason, is_there=told != Change.DELETED)
        if warned is not None:
            reason, detail = warned.reason, warned.detail
        self._add(
            rows,
            told,
            pod,
            run=run,
            state=(pod.spec.node_name, phase, exit_code, reason),
            time_us=time_us,
            detail=detail,
        )
        if time_s := _stop_after_s(pod.metadata):
            rows.note_stop_after(time_s)

    def add_any_pod(self, rows: EventRows, change: Change, pod: PodDocument, *, time_us: int) -> None:
        """Add a pod, whoever owns it, for a reader who counts what pods ask for; nothing is noted of it."""
        run = self.places.run_of(uid_bytes(pod.metadata.uid)) or read_run(pod.metadata, self._installation)
        # Room that a preemption made for a pod is that pod's, though it is not bound yet.
        node = pod.spec.node_name or pod.status.nominated_node_name
        self._add(rows, change, pod, run=run, state=(node, *state_of(pod)), time_us=time_us)
        if run is None and (ports := host_ports(pod.spec)):
            rows.note_ports(ports)
        if scaling := scaling_of(pod):
            rows.note_scaling(scaling)

    def _add(
        self,
        rows: EventRows,
        change: Change,
        pod: PodDocument,
        *,
        run: tuple[int, int, int] | None,
        state: tuple[str | None, PodPhase, int, str],
        time_us: int,
        detail: Detail | None = None,
    ) -> None:
        node, phase, exit_code, reason = state
        tables = rows.tables
        rows.add(
            change,
            pod.metadata,
            kind=0,
            run=run,
            time_us=time_us or ended_us(pod, phase),
            state=(
                tables.nodes.intern(node) if node else -1,
                phase,
                exit_code,
                tables.texts.intern(reason) if reason else -1,
                tables.pod_requests.row(pod),
            ),
            detail=detail,
        )

    def _run_of(self, change: Change, metadata: Metadata) -> tuple[int, int, int] | None:
        """Return the run of an object: what it was when it was first seen, whatever its labels say now."""
        run = read_run(metadata, self._installation)
        uid = uid_bytes(metadata.uid)
        known = self.places.run_of(uid)
        if known is None or known == run:
            return run
        if change != Change.DELETED:
            self.relabeller.restore(uid, known)
        return known

    def is_doubtful(self, change: Change, document: KeyDocument | PodDocument) -> bool:
        """Return whether an object of ours is told as gone that was not seen to be deleted."""
        if change != Change.DELETED:
            return False
        uid = uid_bytes(document.metadata.uid)
        if self.places.find(uid) is None:
            return False
        if isinstance(document, PodDocument):
            return not tells_deletion(document)
        return document.metadata.deletion_timestamp is None and not self.places.is_ending(uid)

    def _told(self, change: Change, pod: PodDocument, run: tuple[int, int, int]) -> Change | None:
        """Return what to tell of a pod of ours, None for nothing; note where it is."""
        metadata = pod.metadata
        if change == Change.DELETED:
            self.places.remove(uid_bytes(metadata.uid))
            if metadata.uid in self._told_gone:
                self._told_gone.discard(metadata.uid)
                return None
            return change
        if metadata.uid in self._told_gone:
            return None
        if is_gone(pod) and STORED_FINALIZER in (metadata.finalizers or ()):
            self.places.remove(uid_bytes(metadata.uid))
            self._told_gone.add(metadata.uid)
            self._release(Place(PODS, metadata.namespace, metadata.name), metadata.uid)
            return Change.DELETED
        self.places.add(uid_bytes(metadata.uid), PODS, metadata, run)
        return change

    def _add_object(
        self, rows: EventRows, change: Change, document: KeyDocument, *, resource: Resource, time_us: int
    ) -> None:
        metadata = document.metadata
        run = self._run_of(change, metadata)
        if run is None:
            return
        uid = uid_bytes(metadata.uid)
        if change == Change.DELETED:
            self.places.remove(uid)
        else:
            self.places.add(uid, resource, metadata, run)
        rows.add(
            change,
            metadata,
            kind=rows.tables.kinds.intern(resource.full_name),
            run=run,
            time_us=time_us or _created_us(metadata),
        )


def state_of(pod: PodDocument) -> tuple[PodPhase, int, str]:
    """Return phase, exit code and reason, as the pod itself says; one whose peers wait for it starts by being ready."""
    phase = phase_of(pod.status)
    if phase == PodPhase.RUNNING and is_awaited(pod):
        phase = PodPhase.PENDING
        return phase, 0, exit_and_reason(pod, phase)[1] or NOT_READY
    return phase, *exit_and_reason(pod, phase)


def _created_us(metadata: Metadata) -> int:
    return read_time_us(metadata.creation_timestamp) or time.time_ns() // 1000


def apply_health(events: ObjectEvents, states: NodeStates, lost_reason: int) -> None:
    """Say in place what the health of nodes means for the phase of pods.

    Running pods of nodes that are not heard of are unknown; those of lost nodes have failed.

    Args:
        events: What the pods say of themselves.
        states: What is known of the nodes.
        lost_reason: Index of NODE_LOST in the texts.
    """
    if not states or not len(events) or not events.nodes:
        return
    health = np.array([states[name] for name in events.nodes], dtype=np.int8)
    if not health.any():
        return
    on_node = np.where(events.node_column >= 0, health[events.node_column], np.int8(0))
    phase = events.phase_column
    is_there = events.change_column != Change.DELETED
    has_ended = (phase == PodPhase.SUCCEEDED) | (phase == PodPhase.FAILED)
    lost = is_there & ~has_ended & (on_node == NodeHealth.LOST)
    unheard = is_there & (phase == PodPhase.RUNNING) & (on_node == NodeHealth.UNHEARD)
    phase[unheard] = PodPhase.UNKNOWN
    phase[lost] = PodPhase.FAILED
    events.exit_code_column[lost] = 0
    events.reason_column[lost] = lost_reason
    if events.details:
        for place in np.flatnonzero(lost).tolist():
            events.details.pop(place, None)


def _stop_after_s(metadata: Metadata) -> float:
    """Return how long a pod may stay without a leader, seconds; 0 if it does not say."""
    notes = metadata.annotations
    if not notes:
        return 0.0
    return parse_stop_after(notes.get(STOP_AFTER_ANNOTATION) if isinstance(notes, dict) else notes.stop_after)

"""The cluster port: all that samplers and executors ask of a Kubernetes cluster, batched and in columns.

Two adapters implement it: the simulated cluster and (over the API server) Kubernetes. One contract suite,
`argosy_testkit.cluster_contract`, states what both must do.

Words. An *object* is anything in a bag: a pod, service, config map and so on. An object is *ours* if it carries the
labels of the installation the adapter was opened with; it is then identified by (handle, ordinal, object index),
where the ordinal is attempt and member of its run (`argosy_core.job.tables.members`). Any other pod is *unmanaged*: its
requests count against its node, nothing else about it matters.

Columns of one batch have the same length n. Texts that repeat stand once in a table, and a column of int32 indices
points into it, -1 for none. A table may hold more than its batch uses, and an adapter gives the very same tuple again
while it has not grown, so a consumer may keep what it worked out for a table for as long as `table is known_table`.

Source: design sections 2 ("kube"), 5 ("Sync", "Sampler lost") and 8 ("packed arrays").
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from argosy_core.errors import OutOfRange
from argosy_core.job.reading.classes import HostPort
from argosy_core.job.reading.scaling import Scaling
from argosy_core.nodes import Taint
from argosy_core.reconcile import Creates, Deletes

__all__ = [
    "EXIT_CODE_ANNOTATION",
    "MAX_DETAIL_LENGTH",
    "POD_KIND",
    "RUN_TIME_ANNOTATION",
    "START_DELAY_ANNOTATION",
    "USE_ANNOTATION",
    "Change",
    "Cluster",
    "CreateCode",
    "CreateResult",
    "DeleteCode",
    "DeleteResult",
    "Detail",
    "NodeDescription",
    "NodeEvents",
    "ObjectEvents",
    "PodPhase",
    "Selector",
    "Taint",
    "WatchGone",
]

Int8Array = npt.NDArray[np.int8]
Int16Array = npt.NDArray[np.int16]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UidArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]

POD_KIND: Final = "Pod"
"""Kind of pods; always element 0 of a table of kinds."""
RUN_TIME_ANNOTATION: Final = "argosy.dev/simulated-run-time"
"""How long a simulated pod runs: `30s`, or `20s-40s` to draw; 1 s if absent. Ignored by real clusters."""
EXIT_CODE_ANNOTATION: Final = "argosy.dev/simulated-exit-code"
"""Exit code of a simulated pod; 0 if absent."""
MAX_DETAIL_LENGTH: Final = 160
"""Characters of the message of a detail."""
START_DELAY_ANNOTATION: Final = "argosy.dev/simulated-start-delay"
"""How long a simulated pod stays pending, same form as the run time; 0 s if absent."""
USE_ANNOTATION: Final = "argosy.dev/simulated-use"
"""What a simulated pod would use, as `cpu=500m,memory=1Gi; cpu=2,memory=1Gi`: each for an equal part of its run. It
uses no more than it has; if absent, its metrics tell nothing."""


class WatchGone(OutOfRange):
    """The version to resume from is older than what the cluster keeps (410 Gone): list again, then watch."""


class Selector(IntEnum):
    """Which objects a list or watch is about."""

    OURS = 1
    """Objects of every kind that carry the labels of our installation (for executors)."""
    ALL_PODS = 2
    """Every pod of the cluster, unmanaged ones included (for samplers)."""
    SHARED = 3
    """Both: every pod, and our objects of other kinds; known to simulated clusters only, for `simulated/shared.py`."""


class Change(IntEnum):
    """What happened to an object or node."""

    ADDED = 1
    """It appeared; also every element of a list."""
    MODIFIED = 2
    """It changed."""
    DELETED = 3
    """It is gone; the other columns hold its last state."""


class PodPhase(IntEnum):
    """Phase of a pod; objects of other kinds are always RUNNING: they are there."""

    PENDING = 1
    """Bound to a node or not, no container has run."""
    RUNNING = 2
    """A container runs."""
    SUCCEEDED = 3
    """Ended, every container with exit code 0."""
    FAILED = 4
    """Ended otherwise; see exit code and reason."""
    UNKNOWN = 5
    """The node cannot be reached, so the cluster cannot tell."""


class CreateCode(IntEnum):
    """What became of one object to create."""

    CREATED = 1
    """It exists now; its uid is in the answer."""
    EXISTS = 2
    """An object of its name exists; the answer says whose it is."""
    REJECTED = 3
    """The cluster will never take it as it is (validation, admission, no such namespace); see the message."""
    QUOTA = 4
    """A quota of the namespace stands against it, or we have not the right; it may be taken later."""
    UNAVAILABLE = 5
    """Not known whether it exists (time-out, throttled, connection lost): ask again; EXISTS then tells."""


class DeleteCode(IntEnum):
    """What became of one object to delete."""

    DELETED = 1
    """The deletion was accepted; a DELETED event follows once the object is gone."""
    GONE = 2
    """There is no such object with that uid."""
    UNAVAILABLE = 3
    """Not known: ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """One node as the cluster describes it."""

    name: str
    """Node name, unique in its cluster."""
    allocatable: Mapping[str, int]
    """Amounts in base units by resource name; what the system keeps is already taken off."""
    labels: Mapping[str, str]
    """All labels."""
    taints: tuple[Taint, ...] = ()
    """All taints."""
    ready: bool = True
    """The Ready condition is true."""
    unschedulable: bool = False
    """Cordoned in Kubernetes (`spec.unschedulable`)."""
    operating_system: str = "linux"
    """As in the label kubernetes.io/os."""
    architecture: str = "amd64"
    """As in the label kubernetes.io/arch."""
    uid: str = ""
    """Uid of the node object; another uid under the same name is another node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvents:
    """Changes of nodes, in the order they happened. Nodes change seldom, so they come as values, not columns."""

    change_column: Int8Array
    """(n,) values of Change."""
    nodes: tuple[NodeDescription, ...]
    """The n nodes after their change (their last state if deleted)."""
    version: int
    """Version to resume from after this batch."""

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.nodes)


@dataclass(frozen=True, slots=True)
class Detail:
    """What is known of a reason beyond its word; texts that seldom repeat, so they stand in no table."""

    container: str = ""
    """Container that failed or waits, empty if it is not about one."""
    message: str = ""
    """What the cluster, or the container itself, says of it; one line, at most MAX_DETAIL_LENGTH characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvents:
    """Changes of objects, in the order they happened per object; n elements, possibly 0 (a bookmark).

    States in between may be left out: a pod that was created and started within one flush comes as one ADDED
    element in phase RUNNING.
    """

    change_column: Int8Array
    """(n,) values of Change."""
    kind_column: Int16Array
    """(n,) index into `kinds`."""
    uid_column: UidArray
    """(n, 16) uid of the object."""
    ours_column: BoolArray
    """(n,) the object carries the labels of our installation."""
    handle_column: Int64Array
    """(n,) job handle; 0 where not ours."""
    ordinal_column: Int64Array
    """(n,) attempt and member of the run; 0 where not ours."""
    object_column: Int16Array
    """(n,) position of the object in its bag; 0 where not ours."""
    node_column: Int32Array
    """(n,) index into `nodes`, -1 where the object has no node."""
    phase_column: Int8Array
    """(n,) values of PodPhase."""
    exit_code_column: Int32Array
    """(n,) exit code of the first failed container, 0 otherwise."""
    reason_column: Int32Array
    """(n,) index into `texts` of the reason for the phase, as Kubernetes writes it (OOMKilled, Evicted, OutOfcpu,
    ErrImagePull, ImagePullBackOff), or -1."""
    request_column: Int32Array
    """(n,) row of `requests` that the pod asks for, -1 for objects that are no pods."""
    time_us_column: Int64Array
    """(n,) when it happened, microseconds since the Unix epoch."""
    version_column: Int64Array
    """(n,) version of the object."""
    namespace_column: Int32Array
    """(n,) index into `texts` of the namespace of an object of ours; of others it may be -1."""
    kinds: tuple[str, ...]
    """Kinds used; element 0 is always `Pod`."""
    nodes: tuple[str, ...]
    """Node names used."""
    texts: tuple[str, ...]
    """Reasons, namespaces and names used."""
    resources: tuple[str, ...]
    """Resource names, the columns of `requests`."""
    requests: Int64Array
    """(k, len(resources)) distinct requests in base units: requests, else limits, else 0; `pods` counts 1 each."""
    version: int
    """Version to resume from after this batch."""
    details: dict[int, Detail] = field(default_factory=dict)
    """By place: details of pods that have failed or that wait for something; not every adapter has them."""
    host_ports: dict[int, tuple[HostPort, ...]] = field(default_factory=dict)
    """By place: ports of their node that unmanaged pods have; only in events of all pods."""
    scalings: dict[int, Scaling] = field(default_factory=dict)
    """By place: within what pods are resized; only in events of all pods."""
    stop_after_s: dict[int, float] = field(default_factory=dict)
    """By place: how long objects of ours may stay without a leader that say so, seconds."""
    scaling_notes: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By row of `requests`: annotations that say how its pods are resized; simulated clusters only."""
    unlistable_kinds: tuple[str, ...] = ()
    """Kinds that the cluster does not let us list now, `*.group` for all of a group: that no object of theirs is
    here says nothing. As of this batch, whatever it brings."""

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.change_column)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateResult:
    """What became of each object of Creates, in its order."""

    code_column: Int8Array
    """(n,) values of CreateCode."""
    uid_column: UidArray
    """(n, 16) uid of the object that exists now (CREATED, EXISTS), zeros otherwise."""
    existing_ours_column: BoolArray
    """(n,) for EXISTS: the object carries our labels; False means that somebody else's has the name."""
    existing_handle_column: Int64Array
    """(n,) for EXISTS of ours: the job handle in its labels, else 0."""
    existing_ordinal_column: Int64Array
    """(n,) for EXISTS of ours: attempt and member in its labels, else 0."""
    message_column: Int32Array
    """(n,) index into `messages`, or -1."""
    messages: tuple[str, ...]
    """What the cluster said, each text once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """What became of each object of Deletes, in its order."""

    code_column: Int8Array
    """(n,) values of DeleteCode."""


class Cluster(Protocol):
    """A cluster, seen by one installation.

    Every call may raise BackendUnavailable: the cluster was not reached, or it is not known whether the call was
    applied; the same call may be repeated, because creates answer EXISTS and deletes GONE. Calls may run concurrently.

    Versions grow with every change of the cluster and mean the same for lists and watches of every selector. A watch
    gives everything after the version it resumes from, in batches, for as long as it lasts: it may *end at any time
    without an error* (the connection broke, the cluster dropped a slow reader); resume from the last `version` seen.
    It raises WatchGone when that version is no longer kept: list again and compare. Closing the iterator (`aclose`)
    ends the watch.
    """

    async def cluster_uid(self) -> str:
        """Return the uid that identifies this cluster for as long as it lives; asked of it each time."""
        ...

    async def list_nodes(self) -> NodeEvents:
        """Return every node as ADDED, and the version to watch from."""
        ...

    def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """Give the changes of nodes after a version.

        Raises:
            WatchGone: The version is too old.
        """
        ...

    async def runtime_overheads(self) -> dict[str, dict[str, int]] | None:
        """Return what a pod of each RuntimeClass takes beside its containers, base units by resource.

        RuntimeClasses without an overhead are left out. None if the cluster does not let us see, or has none such.
        """
        ...

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """Return every selected object as ADDED, then what of them has changed meanwhile; its version is to watch from.

        The answer is younger than the request; for `Selector.OURS` it is never older than what a watch has told.
        Each call that this takes is bounded, the whole is not: it grows with the cluster.
        """
        ...

    def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """Give the changes of the selected objects after a version; may give empty batches as bookmarks.

        Raises:
            WatchGone: The version is too old.
        """
        ...

    async def create_objects(self, batch: Creates) -> CreateResult:
        """Create objects; each for itself, in order, so one that is refused does not stop the others."""
        ...

    async def delete_objects(self, batch: Deletes) -> DeleteResult:
        """Delete objects by uid, without waiting for their end."""
        ...

    async def find_objects(self, batch: Creates) -> ObjectEvents:
        """Look for objects by the names that `create_objects` would give them, whatever labels they carry now.

        What is there and ours comes as ADDED, or as DELETED with its last state if only its end was still to be told;
        it is known by its uid from then on, and gets its labels back. Somebody else's object with the name is left
        alone and left out, and so is what is not there. The version of the answer means nothing.
        """
        ...

    async def container_names(self, handle: int, ordinal: int, object_index: int) -> tuple[str, ...]:
        """Return the names of a pod's containers whose logs can be read, the first one first, init containers last.

        Raises:
            NotFound: There is no such pod of ours; an adapter may leave it to `read_log` to say so.
            BackendUnavailable: The cluster cannot be reached.
        """
        ...

    def read_log(  # noqa: PLR0913 - what can be said of a log
        self,
        handle: int,
        ordinal: int,
        object_index: int,
        *,
        container: str = "",
        follow: bool,
        tail_line_count: int | None,
        timestamps: bool = False,
        since_s: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """Give what a container of one of our pods wrote, in pieces that may end within a line or a character.

        A container that has not begun has written nothing: without `follow` there is then no piece, with it the pieces
        come once it begins. Closing the iterator (`aclose`) ends the reading.

        Args:
            handle: Job handle.
            ordinal: Attempt and member of the run.
            object_index: Position of the pod in its bag.
            container: Name of the container; empty for the pod's first.
            follow: Go on until the container has ended, instead of ending with what there is.
            tail_line_count: Begin this many lines before the end of what there is, from 0; None for the beginning.
            timestamps: Begin each line with the time (RFC 3339) at which the cluster took it, and a space.
            since_s: Only lines that the cluster took at this time or later, seconds since the Unix epoch; 0 for all.

        Raises:
            NotFound: There is no such pod of ours, or it has no such container.
            BackendUnavailable: The cluster, or the pod's node, cannot be reached, or broke the reading off.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the cluster and its objects stay."""
        ...

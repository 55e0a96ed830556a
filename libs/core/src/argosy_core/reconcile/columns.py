"""What goes into the reconcile step and what comes out of it, in columns.

All columns of one value have the same length n. Texts and bodies that repeat stand once in a table; a column of indices
points into it.

Source: design section 5, "Sync"; section 8, "packed arrays".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from argosy_core.job.tables.members import Members

__all__ = [
    "Actions",
    "CreateResponses",
    "Creates",
    "DeleteResponses",
    "Deletes",
    "Instant",
    "Observations",
    "ReportBatch",
    "RunRows",
]

BoolArray = npt.NDArray[np.bool_]
Int8Array = npt.NDArray[np.int8]
Int16Array = npt.NDArray[np.int16]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UidArray = npt.NDArray[np.uint8]


def _no_slots() -> Int64Array:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Instant:
    """The present moment on both clocks."""

    monotonic_s: float
    """Seconds on the process's own clock that never goes back; for waiting and fencing."""
    wall_us: int
    """Microseconds since the Unix epoch; for records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """Runs that the leader wants; one element per member."""

    handle_column: Int64Array
    """(n,) job handles."""
    ordinal_column: Int64Array
    """(n,) attempt, from 1, and member of each, see `Members`."""
    id_high_column: Int64Array
    """(n,) upper 64 bits of the job ids."""
    spec_column: Int32Array
    """(n,) index into `bodies`."""
    node_column: Int32Array
    """(n,) index into `nodes`."""
    metadata_column: Int32Array
    """(n,) index into `metadata`, or -1."""
    owner_column: Int32Array
    """(n,) index into `owners`."""
    seen_column: BoolArray
    """(n,) a pod of the run was reported before: nothing of it is created again."""
    bodies: tuple[bytes, ...]
    """Bags as JSON arrays of manifests, pods last."""
    nodes: tuple[str, ...]
    """Node names."""
    metadata: tuple[bytes, ...]
    """Labels and annotations as JSON."""
    owners: tuple[tuple[str, str], ...]
    """(queue, job set)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What was seen of our objects, in the order it happened per object; one element per change."""

    gone_column: BoolArray
    """(n,) the object is gone; the other columns hold its last state."""
    handle_column: Int64Array
    """(n,) job handles."""
    ordinal_column: Int64Array
    """(n,) attempts and members, see `Members`."""
    object_column: Int16Array
    """(n,) positions in the bag."""
    kind_column: Int16Array
    """(n,) index into `kinds`."""
    state_column: Int8Array
    """(n,) values of ObjectState: created, running, succeeded, failed or unknown."""
    uid_column: UidArray
    """(n, 16) Kubernetes uids."""
    time_us_column: Int64Array
    """(n,) when it happened, microseconds since the Unix epoch."""
    exit_code_column: Int32Array
    """(n,) exit code of the first failed container, 0 otherwise."""
    failure_column: Int8Array
    """(n,) values of FailureKind; for a created pod what it has failed of if it goes on so, 0 if nothing is amiss."""
    message_column: Int32Array
    """(n,) index into `texts`, or -1."""
    namespace_column: Int32Array
    """(n,) index into `texts` of the namespace in which it was seen, -1 for none."""
    kinds: tuple[str, ...]
    """Kinds used."""
    texts: tuple[str, ...]
    """Messages and namespaces."""
    unlistable_kinds: tuple[str, ...] = ()
    """Kinds that cannot be listed now, `*.group` for all of a group: that none of them was seen says nothing."""
    stop_after_s: Mapping[int, float] = field(default_factory=dict)
    """By place: how long what is there may stay without a leader, of objects that say so; seconds."""

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.handle_column)

    def part(self, rows: npt.NDArray[np.int64]) -> Observations:
        """Return some of the changes."""
        if rows.size == len(self):
            return self
        columns = {name: getattr(self, name)[rows] for name in self.__slots__ if name.endswith("_column")}
        notes: dict[int, float] = {}
        if self.stop_after_s:
            notes = {to: self.stop_after_s[at] for to, at in enumerate(rows.tolist()) if at in self.stop_after_s}
        return replace(self, stop_after_s=notes, **columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creates:
    """Objects to create, one element per object; objects of one bag stand in the order of their positions.

    A Kubernetes adapter makes manifest, name and labels with `argosy_core.reconcile.rendering`; the simulated cluster
    reads each bag once and makes no text per object.
    """

    body_column: Int32Array
    """(n,) index into `bodies`."""
    object_column: Int16Array
    """(n,) position in the bag."""
    handle_column: Int64Array
    """(n,) job handles."""
    ordinal_column: Int64Array
    """(n,) attempts and members, see `Members`."""
    id_high_column: Int64Array
    """(n,) upper 64 bits of the job ids."""
    node_column: Int32Array
    """(n,) index into `nodes`; pods are made with this node, other kinds ignore it (-1)."""
    metadata_column: Int32Array
    """(n,) index into `metadata`, or -1."""
    owner_column: Int32Array
    """(n,) index into `owners`."""
    bodies: tuple[bytes, ...]
    """Distinct bags as JSON arrays of manifests, in the order of the positions."""
    nodes: tuple[str, ...]
    """Distinct node names."""
    metadata: tuple[bytes, ...]
    """Distinct labels and annotations as JSON {"labels": {}, "annotations": {}}; they are added to each object."""
    owners: tuple[tuple[str, str], ...]
    """Distinct (queue, job set)."""
    slot_column: Int64Array = field(default_factory=_no_slots)
    """(n,) where the reconciler keeps them, for whoever hands it the answer; empty if nobody does."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.handle_column)

    def take(self, lines: Int64Array) -> Creates:
        """Return some of the objects, with the same tables."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Creates(**{name: one[lines] if name.endswith("_column") else one for name, one in values.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateResponses:
    """What became of each object of `Creates`, in its order. Exactly one mask holds per element, or none: not known."""

    exists_column: BoolArray
    """(n,) it exists and is the run's own: created now, or found with the run's labels."""
    refused_column: BoolArray
    """(n,) it will never exist: rejected, or its name belongs to somebody else."""
    later_column: BoolArray
    """(n,) it does not exist and may be taken later (a quota stands against it, or a right that is missing)."""
    uid_column: UidArray
    """(n, 16) uid where it exists."""
    message_column: Int32Array
    """(n,) index into `messages`, or -1."""
    messages: tuple[str, ...]
    """What the cluster said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """Objects to delete, each only if it still has the uid."""

    uid_column: UidArray
    """(n, 16) uids."""
    kind_column: Int16Array
    """(n,) index into `kinds`."""
    handle_column: Int64Array
    """(n,) job handles."""
    ordinal_column: Int64Array
    """(n,) attempts and members, see `Members`."""
    object_column: Int16Array
    """(n,) positions in the bag."""
    kinds: tuple[str, ...]
    """Kinds; element 0 is `Pod`."""
    slot_column: Int64Array = field(default_factory=_no_slots)
    """(n,) where the reconciler keeps them, for whoever hands it the answer; empty if nobody does."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.handle_column)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResponses:
    """What became of each object of `Deletes`, in its order. Neither mask means: not known, ask again."""

    accepted_column: BoolArray
    """(n,) the deletion was accepted; the object's end will be observed."""
    gone_column: BoolArray
    """(n,) there is no such object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What to do to the cluster now."""

    creates: Creates | None
    """Objects to create, or None."""
    deletes: Deletes | None
    """Objects to delete, or None."""
    lookups: Creates | None = None
    """Objects to look for by the names that they would be created with, whatever labels they carry, or None."""
    places: Members | None = None
    """Members of runs for which the cluster's sampler is to be asked for nodes, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """States to report to the leader, one element per change, in order; columns as in argosy.executor.v1.StateBatch."""

    number: int
    """Number of the batch in this session, from 1."""
    handle_column: Int64Array
    """(n,) job handles."""
    ordinal_column: Int64Array
    """(n,) attempts and members, see `Members`."""
    object_column: Int16Array
    """(n,) positions in the bag."""
    state_column: Int8Array
    """(n,) values of ObjectState."""
    time_us_column: Int64Array
    """(n,) when, microseconds since the Unix epoch."""
    exit_code_column: Int32Array
    """(n,) exit code of the first failed container, 0 otherwise."""
    failure_column: Int8Array
    """(n,) values of FailureKind."""
    message_column: Int32Array
    """(n,) index into `texts`, or -1."""
    uid_column: UidArray
    """(n, 16) uids, zeros where unknown."""
    texts: tuple[str, ...]
    """Messages, each once, at most 256 characters."""

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.handle_column)

"""Rows of runs, objects and jobs that a leader writes, as columns: one array element per row.

Times are microseconds since the Unix epoch. Indices point into the tables of texts beside them; -1 means none.

Source: design section 1, "One writer per fact"; section 5, "Ingest".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argosy_core.arrays import Int16s, Int32s, Int64s, Uids
from argosy_core.job.tables.members import Members

__all__ = ["HeldAmounts", "JobUpdates", "NewObjects", "NewRuns", "ObjectUpdates", "PlacedNodes", "RunUpdates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRuns:
    """Leases: rows of `runs` to insert. Those whose job is not open or shall be cancelled are refused one by one."""

    handle: Int64s
    """Job handles."""
    attempt: Int16s
    """Attempts."""
    cluster_index: Int32s
    """Index into `clusters`."""
    clusters: tuple[str, ...]
    """Cluster names."""
    node_index: Int32s
    """Index into `nodes`."""
    nodes: tuple[str, ...]
    """Node names."""
    lease_time_us: Int64s
    """When the lease was decided."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""
    charge_core_s: Int64s | None = None
    """What the run of each takes of its queue's excess flow budget, core-seconds; None where nothing is charged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAmounts:
    """What n members of runs hold now, where that is not what their class says; amounts in base units."""

    members: Members
    """Who, each once."""
    names: tuple[str, ...]
    """Resources, one per column."""
    amounts: Int64s
    """(n, resource): what is held, -1 for what the class says."""

    def replaced_by(self, later: HeldAmounts) -> HeldAmounts:
        """Return both; of a member that stands in both, what was said later."""
        names = tuple(dict.fromkeys((*self.names, *later.names)))
        first = ~self.members.is_in(later.members)
        counts = int(first.sum()), len(later.members)
        amounts = np.full((sum(counts), len(names)), -1, dtype=np.int64)
        amounts[: counts[0], [names.index(name) for name in self.names]] = self.amounts[first]
        amounts[counts[0] :, [names.index(name) for name in later.names]] = later.amounts
        members = Members.concatenate([self.members[first], later.members])
        return HeldAmounts(members=members, names=names, amounts=amounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNodes:
    """Where n members of runs are placed that were leased to their cluster as a whole."""

    members: Members
    """Who, each once."""
    nodes: tuple[str, ...]
    """n names of nodes."""

    def __add__(self, later: PlacedNodes) -> PlacedNodes:
        """Return both."""
        return PlacedNodes(
            members=Members.concatenate([self.members, later.members]), nodes=(*self.nodes, *later.nodes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObjects:
    """Rows of `objects` to insert; those of refused runs are left out."""

    handle: Int64s
    """Job handles."""
    attempt: Int16s
    """Attempts."""
    object_index: Int16s
    """Positions in the bag."""
    kind_index: Int32s
    """Index into `kinds`."""
    kinds: tuple[str, ...]
    """Kubernetes kinds."""
    name: list[bytes]
    """Object names, ASCII."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectUpdates:
    """States of objects that changed. They move forward by rank only; terminal ones absorb."""

    handle: Int64s
    """Job handles."""
    attempt: Int16s
    """Attempts."""
    object_index: Int16s
    """Positions in the bag."""
    state: Int16s
    """New states."""
    uid: Uids
    """Kubernetes uids; zeros leave what is stored."""
    message_index: Int32s
    """Index into `messages`, -1 to leave what is stored."""
    messages: tuple[str, ...]
    """Messages."""
    start_time_us: Int64s
    """When the run's first pod ran, for the leader that comes next; 0 not yet. What is stored stays."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdates:
    """Runs that ended. A run ends once; later ends change nothing."""

    handle: Int64s
    """Job handles."""
    attempt: Int16s
    """Attempts."""
    state: Int16s
    """Terminal run states."""
    start_time_us: Int64s
    """When the first pod ran; 0 unknown or never."""
    end_time_us: Int64s
    """When the run ended."""
    exit_code: Int32s
    """Exit codes."""
    failure: Int16s
    """Values of FailureKind."""
    reason_index: Int32s
    """Index into `reasons`, or -1."""
    reasons: tuple[str, ...]
    """Reasons."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdates:
    """Jobs that ended. Only open jobs end."""

    handle: Int64s
    """Job handles."""
    state: Int16s
    """Terminal job states."""
    end_time_us: Int64s
    """When they ended."""
    reason_index: Int32s
    """Index into `reasons`, or -1."""
    reasons: tuple[str, ...]
    """Reasons."""

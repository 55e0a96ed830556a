"""What a leader writes at once: rows, changes of rows, events, and how far the log is applied.

One cycle may hold several reports about one object and events of one job set from several causes; they stand here in
the order in which they arose, and the shell that writes them merges them.

Source: design section 5, "Ingest"; section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import (
    HeldAmounts,
    JobUpdates,
    NewObjects,
    NewRuns,
    ObjectUpdates,
    PlacedNodes,
    RunUpdates,
)
from argosy_core.scheduler import EventDraft, Refusals, RoundStateColumns, StateEffects

__all__ = ["SetAside", "Transaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A payload that cannot be applied: it goes to quarantine, where people can look at it."""

    payload: bytes
    """What was received."""
    error: str
    """Why it cannot be applied."""
    position: int = 0
    """Where it stood in the log; 0 for a change."""


@dataclass(slots=True)
class Transaction:
    """Everything of one transaction, in the order in which it arose; not touched any more once it is in a `Store`."""

    refusals: Refusals = field(default_factory=Refusals)
    """The term's, from which the events learn what the database refused."""
    number: int = 0
    """Place among the term's transactions, from `refusals`."""
    change_ids: list[int] = field(default_factory=list)
    """Changes that are taken."""
    reporters: list[str] = field(default_factory=list)
    """Clusters whose executors' reports are in it."""
    events: list[EventDraft] = field(default_factory=list)
    """Numbered events."""
    objects: list[ObjectUpdates] = field(default_factory=list)
    """States of objects."""
    ended_objects: list[tuple[str, ObjectUpdates]] = field(default_factory=list)
    """(cluster, states that it reported of objects of runs that ended before), for those that are its own."""
    run_ends: list[RunUpdates] = field(default_factory=list)
    """Ends of runs."""
    job_ends: list[JobUpdates] = field(default_factory=list)
    """Ends of jobs."""
    held: HeldAmounts | None = None
    """What live runs hold by now, where that is not what was stored."""
    placed: PlacedNodes | None = None
    """Where runs are that were leased to their cluster as a whole."""
    new_runs: NewRuns | None = None
    """Leases."""
    new_objects: NewObjects | None = None
    """Their objects."""
    added_runs: NewRuns | None = None
    """Members that runs under way get, which nothing refuses."""
    added_objects: NewObjects | None = None
    """Their objects."""
    log: tuple[int, int] | None = None
    """(expected, new) position up to which the log is applied."""
    round_state: RoundStateColumns | None = None
    """State of the last round applied; None leaves it as it is stored."""
    set_aside: list[SetAside] = field(default_factory=list)
    """What goes to quarantine."""
    queued_counts: dict[int, int] = field(default_factory=dict)
    """Jobs that wait, by queue id, for the limit at submit."""
    contacts: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By (cluster, role): when its process was heard last, and until when it keeps its session, microseconds since the
    Unix epoch by the database's clock."""

    def add_events(self, events: EventDraft) -> None:
        """Add numbered events."""
        if len(events):
            self.events.append(events)

    def add_job_ends(self, updates: JobUpdates) -> None:
        """Have the next transaction store that jobs ended."""
        if updates.handle.size:
            self.job_ends.append(updates)

    def add_states(self, effects: StateEffects) -> None:
        """Add what a report of states brought."""
        if effects.object_updates.handle.size:
            self.objects.append(effects.object_updates)
        self.ended_objects.extend(effects.ended_updates)
        if effects.run_updates.handle.size:
            self.run_ends.append(effects.run_updates)
        self.add_job_ends(effects.job_updates)
        self.add_events(effects.events)

    def add_leases(self, runs: NewRuns, objects: NewObjects) -> None:
        """Set the rows of a plan's leases."""
        if runs.handle.size:
            self.new_runs, self.new_objects = runs, objects

    def add_members(self, runs: NewRuns, objects: NewObjects) -> None:
        """Set the rows of members that a plan adds to runs."""
        if runs.handle.size:
            self.added_runs, self.added_objects = runs, objects

    @property
    def added(self) -> Members:
        """Return the members that runs get."""
        runs = self.added_runs
        return Members.of([], []) if runs is None else Members.of(runs.handle, runs.attempt, runs.member)

    def is_empty(self) -> bool:
        """Return whether there is nothing to write; counts of waiting jobs alone are nothing."""
        return not (
            self.change_ids
            or self.events
            or self.objects
            or self.ended_objects
            or self.run_ends
            or self.job_ends
            or self.held is not None
            or self.placed is not None
            or self.new_runs is not None
            or self.added_runs is not None
            or self.log is not None
            or self.round_state is not None
            or self.set_aside
            or self.contacts
        )

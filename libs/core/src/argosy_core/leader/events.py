"""What a leader is told: frozen values, batches of columns, decoded by the shell.

Source: design section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from argosy_core.arrays import Int64s
from argosy_core.framework import Verdicts
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.leader.transaction import SetAside
from argosy_core.placement import CommitReply, DecisionProfile, SampleReply
from argosy_core.scheduler import (
    CapacityColumns,
    ChangeRequestColumns,
    EndedJobs,
    JobColumns,
    JobSetView,
    LeasePlan,
    LoadedColumns,
    QueueView,
    RoundSettings,
    StateColumns,
)

__all__ = [
    "AmountsHeld",
    "Bound",
    "CapacityTold",
    "Change",
    "ChangesRead",
    "ClusterSettings",
    "CommitAnswered",
    "EndsRead",
    "Event",
    "Explained",
    "Heard",
    "Loaded",
    "MarkerPublished",
    "Moment",
    "MovesNamed",
    "NodesChosen",
    "Origin",
    "OriginKind",
    "PluginAnswered",
    "Published",
    "ReadRecord",
    "RecordsRead",
    "References",
    "Role",
    "RowsLost",
    "RunsSeen",
    "SampleAnswered",
    "SamplerReady",
    "Session",
    "SessionLost",
    "StatesReported",
    "Stored",
    "Tick",
]


class Moment(NamedTuple):
    """Now, by both clocks that a leader goes by."""

    mono_s: float
    """Monotonic seconds, for timers."""
    db_us: int
    """Microseconds since the Unix epoch, for rows and flow."""

    @property
    def db_s(self) -> float:
        """Seconds since the Unix epoch."""
        return self.db_us / 1e6


class Role(StrEnum):
    """Who speaks for a cluster."""

    SAMPLER = "sampler"
    EXECUTOR = "executor"


class Session(NamedTuple):
    """A stream of a cluster's sampler or executor."""

    cluster: str
    """Name of the cluster."""
    role: Role
    """Whose stream it is."""
    incarnation: int
    """Incarnation of the peer."""
    serial: int
    """Tells two streams of one incarnation apart."""


class OriginKind(StrEnum):
    """What kind of input something is."""

    JOB = "job"
    """A job as it is stored; the key is its handle."""
    CHANGE = "change"
    """A row of `changes`, by id."""
    RECORD = "record"
    """A record of the log, by position."""
    CLASS = "class"
    """A scheduling class, by id."""
    SAMPLER = "sampler"
    """What a cluster's sampler says; the key is the cluster's name."""
    EXECUTOR = "executor"
    """What a cluster's executor says; the key is the cluster's name."""


class Origin(NamedTuple):
    """Where an input comes from."""

    kind: OriginKind
    """Kind."""
    key: str
    """Which."""


# --- the database and the log -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What an administrator decided about a cluster."""

    name: str
    """Name."""
    cordoned: bool = False
    """Nothing new is placed there."""
    cordoned_nodes: tuple[str, ...] = ()
    """Nodes on which nothing new is placed: all of them."""
    max_capacity: tuple[tuple[str, int], ...] = ()
    """What it has at most, base units by resource; nothing for what nobody set."""
    forgotten: bool = False
    """It was declared gone: its runs are lost."""
    delegated: bool = False
    """Leases to it name the cluster only; its sampler places when its executor asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSettings:
    """Settings of a pool's rounds, as an administrator set them while it was led."""

    version: int
    """Number of what was set; later ones are higher."""
    round: RoundSettings
    """All settings of rounds."""
    decision_profile: DecisionProfile | None = None
    """Plugins made for them; the present ones stay if None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerPublished:
    """The term's first record stands in the log."""

    position: int
    """Where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Everything open was read."""

    columns: LoadedColumns
    """Jobs, runs, objects, job sets and the state of the last round."""
    classes: Mapping[int, bytes]
    """Definitions of the classes of open jobs by id."""
    queues: tuple[QueueView, ...]
    """Queues."""
    clusters: tuple[ClusterSettings, ...]
    """Clusters."""
    log_position: int
    """Position up to which the log is applied."""
    suspects: frozenset[Origin] = frozenset()
    """What ended a term before: it is set aside."""
    settings: ChangedSettings | None = None
    """What was set of the pool's rounds; None if nothing was."""
    held: tuple[int, ...] = ()
    """Handles of the jobs that suspect changes accepted."""
    unreadable: tuple[int, ...] = ()
    """Handles of jobs that stay aside, since their rows cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What changes refer to, as it was read after them."""

    classes: Mapping[int, bytes] = field(default_factory=dict)
    """Definitions of classes by id."""
    queues: tuple[QueueView, ...] = ()
    """Queues, deleted ones too."""
    deleted_queue_ids: tuple[int, ...] = ()
    """Queues that are deleted, or of another pool by now."""
    job_sets: tuple[JobSetView, ...] = ()
    """Job sets."""
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)
    """Clusters that the changes name."""
    ended: EndedJobs | None = None
    """Jobs that a cancel request ended and that were not held here when the change was read."""
    settings: ChangedSettings | None = None
    """What was set of the pool's rounds, if that changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row of `changes`."""

    change_id: int
    """Id."""
    jobs: JobColumns | None = None
    """Accepted jobs."""
    requests: ChangeRequestColumns | None = None
    """Cancel and priority requests."""
    clusters: tuple[str, ...] = ()
    """Clusters whose settings changed."""
    bad: SetAside | None = None
    """What stood there, if it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRead:
    """Changes were read, in order of ids; those that are held already may be among them."""

    changes: tuple[Change, ...]
    """The changes."""
    references: References = field(default_factory=References)
    """What they refer to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsRead:
    """It was read what became of jobs that others wait for and that are not live here (`LeaderMachine.unsettled`)."""

    states: Mapping[int, int]
    """Handle -> JobState, 0 while it is open; `FORGOTTEN` for one that is not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """One record of the log."""

    position: int
    """Where it stands."""
    epoch: int
    """Epoch under which the log took it."""
    plan: LeasePlan | None
    """What was decided; None for a marker."""
    bad: SetAside | None = None
    """What stood there, if it cannot be read or is not what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead:
    """Records of the log were read."""

    records: tuple[ReadRecord, ...]
    """In order; none means that there are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """All records of a plan stand in the log."""

    position: int
    """Position of the last one."""
    positions: tuple[int, ...] = ()
    """Positions of all, if there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A transaction is committed; they are told in order."""

    number: int
    """Number of its `Store`."""
    refused: Int64s
    """Jobs whose leases the database refused."""


# --- clusters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A sampler or executor dialled, and the database knows it by its incarnation."""

    session: Session
    """Its session."""
    settings: ClusterSettings
    """Its cluster's."""
    known: Members | None = None
    """Runs of which an executor needs no row; None for a sampler."""
    is_first: bool = False
    """No other executor of the cluster was ever bound before, in any pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost:
    """A session ended."""

    session: Session
    """Which."""
    kept_s: float | None = None
    """How long its place is kept for its process from now on, 0 if that said goodbye; None for as long as if it had
    just been heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A sampler or executor is there and has nothing to say."""

    session: Session
    """Its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsSeen:
    """An executor saw objects of runs that no leader has claimed; those of other pools are left out."""

    session: Session
    """Its session."""
    runs: Members
    """The runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTold:
    """A sampler told what its nodes are."""

    session: Session
    """Its session."""
    columns: CapacityColumns
    """What it told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChosen:
    """A sampler tells where it has placed what is leased to its cluster as a whole."""

    session: Session
    """Its session."""
    placed: PlacedNodes
    """Members and nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountsHeld:
    """A sampler told what pods hold by now that are not as their class says: resized in place, or on whole nodes."""

    session: Session
    """Its session."""
    held: HeldAmounts
    """What changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesNamed:
    """A sampler named runs that are to be moved, because their nodes are too full."""

    session: Session
    """Its session."""
    members: Members
    """Members of the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerReady:
    """A sampler has taken in its list of placements: it may be asked."""

    session: Session
    """Its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAnswered:
    """A sampler answered a sample request."""

    session: Session
    """Its session."""
    round_number: int
    """Round of the request."""
    reply: SampleReply
    """The answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAnswered:
    """A sampler answered a commit request."""

    session: Session
    """Its session."""
    round_number: int
    """Round of the request."""
    stage: int
    """Stage of the request."""
    reply: CommitReply
    """The answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesReported:
    """An executor reported states."""

    session: Session
    """Its session."""
    batch: int
    """Number to acknowledge once they are stored."""
    columns: StateColumns
    """The states."""
    sent_us: int = 0
    """When they were sent by the clock of the executor, microseconds since the Unix epoch; 0 if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsLost:
    """Rows for an executor cannot be made, and never will be."""

    session: Session
    """Its session."""
    runs: Members
    """Whose."""
    reason: str
    """Why."""


# --- plugins ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAnswered:
    """Pre-bind plugins have answered a call."""

    number: int
    """Number of its `CallPlugin`."""
    verdicts: Verdicts
    """What they said of its placements."""


# --- people and time --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Somebody asked why a job waits: the next round asks for counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed."""


Event: TypeAlias = (
    MarkerPublished
    | Loaded
    | ChangesRead
    | EndsRead
    | RecordsRead
    | Published
    | Stored
    | Bound
    | SessionLost
    | Heard
    | RunsSeen
    | CapacityTold
    | AmountsHeld
    | NodesChosen
    | MovesNamed
    | SamplerReady
    | SampleAnswered
    | CommitAnswered
    | StatesReported
    | RowsLost
    | PluginAnswered
    | Explained
    | Tick
)

"""What a leader has done by its shell: immutable values, encoded and carried out on the shell's own threads.

Source: design section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from argosy_core.framework import Framework, PermitBatch
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.leader.events import Session
from argosy_core.leader.transaction import Transaction
from argosy_core.placement import CommitRequest, Placements, SampleRequest
from argosy_core.scheduler import ClusterRuns, ExecutorRows, LeasePlan

__all__ = [
    "Acknowledge",
    "CallPlugin",
    "ClassDefinitions",
    "Close",
    "Instruction",
    "Listen",
    "Load",
    "Publish",
    "PublishMarker",
    "ReadChanges",
    "ReadRecords",
    "SendCommit",
    "SendCordons",
    "SendPlacements",
    "SendReleases",
    "SendRows",
    "SendSample",
    "SendStops",
    "SendWeights",
    "Serve",
    "Store",
    "Warn",
    "Welcome",
]

ClassDefinitions: TypeAlias = tuple[tuple[int, bytes], ...]
"""(class id, definition) of classes that a session has not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishMarker:
    """Append the term's first record to the log; answer `MarkerPublished`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Read everything open; answer `Loaded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges:
    """Read the changes that can be seen now; answer `ChangesRead`, empty if there are none that are new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """Read records of the log; answer `RecordsRead`."""

    after: int
    """Position behind which they stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """The memory is complete: let clusters and people in, and read changes as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Append records to the log, one after another; answer `Published` once all stand there."""

    first_sequence: int
    """Sequence of the first; they are numbered without gap."""
    records: tuple[LeasePlan, ...]
    """Pieces of the plan, each of which a next leader could apply alone."""
    plan: LeasePlan
    """The whole plan."""
    begin_time_us: int
    """When its round began, microseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Commit a transaction, first in, first out, under the term's epoch; answer `Stored`."""

    number: int
    """Its number."""
    transaction: Transaction
    """What to write."""
    time_us: int
    """When it was drafted, microseconds since the Unix epoch."""
    round_number: int = 0
    """Round whose plan it ingests; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Greet a peer: nothing may be said to it before."""

    session: Session
    """Its session."""
    is_first: bool
    """No executor of the cluster was ever bound before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCordons:
    """Tell a sampler which nodes are cordoned: all of them."""

    session: Session
    """Its session."""
    nodes: tuple[str, ...]
    """Names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWeights:
    """Tell a sampler what the queues of the pool weigh, all of them, and how permits are given."""

    session: Session
    """Its session."""
    weights: Mapping[str, float]
    """Above 0, by name."""
    rules: PermitRules
    """How permits are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlacements:
    """Send a sampler its cluster's full list of placements."""

    session: Session
    """Its session."""
    placements: Placements
    """The list, in-flight ones included."""
    classes: ClassDefinitions
    """Definitions of the classes used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSample:
    """Ask a sampler for candidates; answer `SampleAnswered`."""

    session: Session
    """Its session."""
    request: SampleRequest
    """What is asked."""
    classes: ClassDefinitions
    """Definitions of the classes that the session has not seen."""
    dropped_classes: tuple[int, ...] = ()
    """Ids of classes that the session has seen and that are told again before they are named; they come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCommit:
    """Ask a sampler to place runs; answer `CommitAnswered`."""

    session: Session
    """Its session."""
    request: CommitRequest
    """What is to be placed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReleases:
    """Tell a sampler of placements that ended."""

    session: Session
    """Its session."""
    runs: ClusterRuns
    """The runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRows:
    """Send an executor rows of runs."""

    session: Session
    """Its session."""
    rows: ExecutorRows
    """The rows."""
    round_number: int = 0
    """Round that leased them; 0 for the answer to a hello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStops:
    """Send an executor runs to stop, behind the rows sent before."""

    session: Session
    """Its session."""
    runs: ClusterRuns
    """The runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """An executor has got what it lacked: from now on its states may be read."""

    session: Session
    """Its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Tell an executor that its states are stored."""

    session: Session
    """Its session."""
    batch: int
    """Up to which batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """End a session."""

    session: Session
    """Which."""
    reason: str
    """Why."""
    is_fault: bool = False
    """Because of what was said there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlugin:
    """Have pre-bind plugins called, off the machine's thread: `framework.pre_bind(batch)`; answer `PluginAnswered`."""

    number: int
    """Its number."""
    framework: Framework
    """The plugins; nobody else uses it before the answer."""
    batch: PermitBatch
    """What they are asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteExcess:
    """Note in the audit that a sampler tells of more than counts."""

    session: Session
    """Its session, which goes on."""
    text: str
    """Of what it told how much, and how much of that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """Tell an operator of something."""

    text: str
    """What."""
    subject: str
    """Of whom or what."""


Instruction: TypeAlias = (
    PublishMarker
    | Load
    | ReadChanges
    | ReadRecords
    | Serve
    | Publish
    | Store
    | Welcome
    | SendCordons
    | SendWeights
    | SendPlacements
    | SendSample
    | SendCommit
    | SendReleases
    | SendRows
    | SendStops
    | Listen
    | Acknowledge
    | Close
    | CallPlugin
    | NoteExcess
    | Warn
)

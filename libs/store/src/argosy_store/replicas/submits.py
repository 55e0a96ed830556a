"""What an API replica hands in to be accepted, and what becomes of it.

Source: design section 5, "Submit".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from argosy_core.errors import ArgosyError
from argosy_core.job.reading.options import JobOptions
from argosy_store.replicas.queue_limits import QueueLimit

__all__ = ["EncodeChanges", "SpecRow", "SubmitRequest", "SubmitResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRow:
    """A spec as stored."""

    hash: bytes
    """16 bytes over the body as received."""
    body: bytes
    """JSON array of the manifests."""
    layout: bytes
    """What the API made of the body; opaque here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """Jobs that are accepted all or none; arrays have one element per job.

    Handles ascend. Jobs of one request belong to one pool.
    """

    pool: str
    """Pool whose leader gets the news."""
    handles: npt.NDArray[np.int64]
    """Handles, ascending, as reserved by `ApiStore.reserve_numbers`."""
    id_highs: npt.NDArray[np.int64]
    """Upper halves of the ids."""
    queue_ids: npt.NDArray[np.int32]
    """Queues."""
    job_set_ids: npt.NDArray[np.int64]
    """Job sets."""
    class_ids: npt.NDArray[np.int32]
    """Scheduling classes."""
    priorities: npt.NDArray[np.int32]
    """Priorities."""
    submit_time_us: npt.NDArray[np.int64]
    """Acceptance, microseconds since the Unix epoch."""
    spec_index: npt.NDArray[np.int32]
    """Index into specs."""
    specs: tuple[SpecRow, ...]
    """Distinct specs."""
    metadata_index: npt.NDArray[np.int32]
    """Index into metadata, -1 for none."""
    metadata: tuple[bytes, ...] = ()
    """Distinct labels and annotations, JSON objects."""
    client_ids: tuple[str | None, ...] = ()
    """Client ids, None for none; an empty tuple means that no job has one."""
    payload_hashes: bytes = b""
    """16 bytes per job over what a repeat must equal; needed where there are client ids."""
    submitter: str = ""
    """Name of whoever submits them; empty if that is not known."""
    submitter_limit: int = 0
    """Most jobs of that submitter that may be open, these among them; 0 for any."""
    traceparent: str = ""
    """W3C trace context for the leader, if the submitter traces these jobs; not stored with them."""
    generation: int | None = None
    """`ApiStore.generation` before the ids were asked for; None if they are surely of the present database."""
    limits: Mapping[int, QueueLimit] = field(default_factory=dict)
    """By queue id: how many jobs may wait; queues without are not bounded."""
    run_after: tuple[bytes, ...] = ()
    """What each runs after (`argosy_core.job.reading.after`), empty where nothing; or empty if that is so of all."""
    options: JobOptions | None = None
    """How long they run by what the submitter says; None if nothing is said of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """What became of one request: accepted with ids, or refused with nothing stored."""

    id_highs: npt.NDArray[np.int64]
    """Upper halves of the ids to answer with; of the existing jobs for repeats."""
    handles: npt.NDArray[np.int64]
    """Handles to answer with."""
    conflicts: tuple[tuple[int, str], ...] = ()
    """(index, client id) of jobs whose client id stands for another payload; then nothing of the request was stored."""
    existing: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Indices of jobs that were not made now, because their client ids stood for them before."""
    error: ArgosyError | None = None
    """Why the request was refused otherwise, as a queue that was deleted meanwhile; then nothing of it was stored."""

    @property
    def accepted(self) -> bool:
        """Whether the request's jobs are stored."""
        return not self.conflicts and self.error is None


EncodeChanges = Callable[[Sequence[tuple[SubmitRequest, npt.NDArray[np.bool_]]]], bytes]
"""Makes the payload of one `changes` row out of requests and masks of the jobs that were really inserted."""

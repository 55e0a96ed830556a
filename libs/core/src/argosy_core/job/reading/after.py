"""After which other jobs a job runs: pairs of jobs as columns, and as bytes in its row.

A job may name jobs that exist, of any queue and pool; so nothing can wait for itself, in however many steps. It begins
once all of them have *succeeded*, or have *ended* in whatever way, as it says.

Source: design section 3.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import parse_id

__all__ = ["FORGOTTEN", "AfterJobs", "AfterUntil", "decode_after", "encode_after", "join_after"]

FORGOTTEN: Final = -1
"""Stands for the state of a job that is not stored, or no longer."""
_ID_BYTES: Final = 16


class AfterUntil(IntEnum):
    """What a job waits for; codes as in argosy.api.v1.AfterUntil."""

    SUCCEEDED = 1
    """The others have succeeded; if one ends otherwise, the job fails."""
    ENDED = 2
    """The others have ended, in whatever way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterJobs:
    """Pairs of jobs, the one that waits and the one that it waits for; those of a job follow each other."""

    handle: Int64s
    """Handles of the jobs that wait."""
    other_high: Int64s
    """Upper 64 bits of the ids of the jobs that they wait for."""
    other: Int64s
    """Handles of these."""
    until: Int8s
    """Values of AfterUntil, one for all pairs of a job."""
    state: Int8s
    """JobState of the others as the database has it, 0 while they are open, `FORGOTTEN` if there are none."""

    @classmethod
    def of_payloads(cls, handles: Iterable[int], payloads: Iterable[bytes]) -> AfterJobs | None:
        """Return the pairs of jobs, with nothing known of the others; None if there are none.

        Args:
            handles: The jobs that wait.
            payloads: What `encode_after` made for each; empty for one that waits for none.
        """
        rows = [
            (handle, high, other, until)
            for handle, payload in zip(handles, payloads, strict=True)
            if payload
            for until, ids in [decode_after(payload)]
            for high, other in map(parse_id, ids)
        ]
        if not rows:
            return None
        columns = np.array(rows, dtype=np.int64).T.copy()
        return cls(
            handle=columns[0],
            other_high=columns[1],
            other=columns[2],
            until=columns[3].astype(np.int8),
            state=np.zeros(len(rows), dtype=np.int8),
        )

    def __getitem__(self, rows: npt.NDArray[np.bool_]) -> AfterJobs:
        """Return some of the pairs."""
        return AfterJobs(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def of(self, handles: Int64s) -> AfterJobs | None:
        """Return the pairs of some jobs; None if they have none."""
        chosen: Bools = np.isin(self.handle, handles)
        return self[chosen] if chosen.any() else None

    def with_states(self, states: dict[int, int]) -> AfterJobs:
        """Return the pairs with the states of the others, which are forgotten where there is none."""
        found = [states.get(other, FORGOTTEN) for other in self.other.tolist()]
        return replace(self, state=np.array(found, dtype=np.int8))


def join_after(parts: Sequence[AfterJobs | None]) -> AfterJobs | None:
    """Return the pairs of several groups of jobs; None if there are none."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    return AfterJobs(
        **{one.name: np.concatenate([getattr(part, one.name) for part in there]) for one in fields(AfterJobs)}
    )


def encode_after(until: int, job_ids: Iterable[str]) -> bytes:
    """Return what a job waits for as it stands in its row: a byte, and 16 for each id."""
    return bytes([until]) + b"".join(uuid.UUID(job_id).bytes for job_id in job_ids)


def decode_after(payload: bytes) -> tuple[AfterUntil, tuple[str, ...]]:
    """Return what a job waits for, and the ids of the jobs.

    Raises:
        InvalidRequest: It is not what `encode_after` makes.
    """
    if len(payload) % _ID_BYTES != 1 or payload[0] not in AfterUntil.__members__.values():
        raise InvalidRequest("what a job is to run after cannot be read")
    ids = (payload[start : start + _ID_BYTES] for start in range(1, len(payload), _ID_BYTES))
    return AfterUntil(payload[0]), tuple(str(uuid.UUID(bytes=value)) for value in ids)

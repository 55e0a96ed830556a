"""Jobs as plugins of the leader see them: to be sorted, to be permitted, to be bound.

Source: seed 002 "Scheduling queue sort", "Permit", "Pre-Bind".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s

__all__ = ["JobBatch", "Objects", "objects"]

Objects = npt.NDArray[np.object_]


def objects(values: Iterable[object]) -> Objects:
    """Return values as a column."""
    listed = list(values)
    column = np.empty(len(listed), dtype=np.object_)
    column[:] = listed
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBatch:
    """n jobs of a pool."""

    handle: Int64s
    """(n,) job handles."""
    priority: Int32s
    """(n,) priorities."""
    submit_time_us: Int64s
    """(n,) acceptance, microseconds since the Unix epoch."""
    definition: Objects
    """(n,) scheduling classes (`SchedulingClass`)."""
    queue: Objects
    """(n,) names of queues."""
    job_set: Objects
    """(n,) names of job sets."""
    metadata: Objects
    """(n,) labels and annotations as JSON; see `labels` and `annotations`."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.handle)

    def take(self, lines: npt.NDArray[np.integer] | Bools | slice) -> Self:
        """Return some of the jobs as a batch of their own."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        columns = {name: value[lines] if isinstance(value, np.ndarray) else value for name, value in values.items()}
        return type(self)(**columns)

    def labels(self, line: int) -> Mapping[str, str]:
        """Return the labels of a job."""
        return self._texts(line, "labels")

    def annotations(self, line: int) -> Mapping[str, str]:
        """Return the annotations of a job."""
        return self._texts(line, "annotations")

    def _texts(self, line: int, name: str) -> Mapping[str, str]:
        text = self.metadata[line]
        found: Mapping[str, str] = json.loads(text)[name] if text else {}
        return found

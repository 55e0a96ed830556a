"""Objects that are to be made, as bind plugins of an executor see them.

Source: seed 002 "Bind".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int16s, Int32s, Int64s
from argosy_core.framework.jobs import Objects

__all__ = ["BindBatch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindBatch:
    """n objects of runs; one that was bound and has not been seen since is asked about again."""

    handle: Int64s
    """(n,) job handles."""
    attempt: Int32s
    """(n,) attempts of the runs."""
    member: Int16s
    """(n,) numbers of the members in their runs."""
    position: Int16s
    """(n,) positions of the objects in their bags."""
    node: Objects
    """(n,) names of nodes."""
    queue: Objects
    """(n,) names of queues."""
    job_set: Objects
    """(n,) names of job sets."""
    line: Int64s
    """(n,) what `render` takes."""
    render: Callable[[int], dict[str, Any]]
    """Returns the manifest of an object by its line; see `manifest`."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.handle)

    def take(self, lines: npt.NDArray[np.integer] | Bools | slice) -> BindBatch:
        """Return some of the objects as a batch of their own."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        taken: dict[str, Any] = {name: one[lines] for name, one in values.items() if isinstance(one, np.ndarray)}
        return replace(self, **taken)

    def manifest(self, line: int) -> dict[str, Any]:
        """Return the manifest of an object as the executor would make it: with its name, labels, node and mark.

        An object that is made with all of these is taken for the run's own once the cluster shows it.
        """
        return self.render(int(self.line[line]))

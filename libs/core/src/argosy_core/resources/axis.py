"""The axis: which resource stands in which column.

A process keeps one axis for all its resource arrays, so that a pod's request and a node's capacity are vectors that can
be compared column by column. Amounts are int64 in base units: millicores for cpu, bytes for memory and storage, whole
units for anything else.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["CPU", "DEFAULT_AXIS", "MEMORY", "PODS", "ResourceAxis"]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
_NO_DEVICES: Final = frozenset({CPU, MEMORY, PODS, "ephemeral-storage", "storage"})


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """An ordered set of resource names; the column order of resource arrays."""

    names: tuple[str, ...]
    """Resource names, each once."""

    def __post_init__(self) -> None:
        """Refuse repeated names.

        Raises:
            ValueError: A name stands twice.
        """
        if len(set(self.names)) != len(self.names):
            msg = f"resource names repeat: {self.names}"
            raise ValueError(msg)

    @property
    def devices(self) -> tuple[int, ...]:
        """Columns of devices: what neither Kubernetes nor the kernel shares out by itself, as `nvidia.com/gpu`."""
        return _device_columns(self.names)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.names)

    def index(self, name: str) -> int:
        """Return the column of a resource.

        Raises:
            ValueError: The resource is not on the axis.
        """
        return self.names.index(name)

    def extend(self, names: Iterable[str]) -> ResourceAxis:
        """Return an axis that also has the given names, in order of first appearance, behind those it has."""
        missing = [name for name in dict.fromkeys(names) if name not in self.names]
        return ResourceAxis((*self.names, *missing)) if missing else self

    def vector(self, amounts: Mapping[str, int]) -> npt.NDArray[np.int64]:
        """Return amounts as an int64 vector in column order; resources not named are 0.

        Raises:
            KeyError: An amount other than 0 names a resource that is not on the axis.
        """
        vector = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            if name in self.names:
                vector[self.names.index(name)] = amount
            elif amount:
                raise KeyError(name)
        return vector

    def amounts(self, vector: npt.NDArray[np.int64]) -> dict[str, int]:
        """Return a vector in column order as amounts by name, zeros left out."""
        return {name: int(amount) for name, amount in zip(self.names, vector.tolist(), strict=True) if amount}


DEFAULT_AXIS = ResourceAxis((CPU, MEMORY, PODS))
"""Columns that every node has; others join when a node or a class uses them."""


@lru_cache(maxsize=64)
def _device_columns(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return where names of devices stand."""
    return tuple(
        column for column, name in enumerate(names) if name not in _NO_DEVICES and not name.startswith("hugepages-")
    )

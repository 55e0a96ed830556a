"""Short names for NumPy arrays by type of element."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Float32s", "Float64s", "Int8s", "Int16s", "Int32s", "Int64s", "Uids"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Int8s: TypeAlias = npt.NDArray[np.int8]
Int16s: TypeAlias = npt.NDArray[np.int16]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Uids: TypeAlias = npt.NDArray[np.void]
"""Uids of Kubernetes, 16 bytes each."""

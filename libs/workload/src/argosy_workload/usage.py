"""What machines use over a day, from a file: the uses that simulated pods have.

A file has one machine a line (plain or gzip), its use at each step in percent, separated by commas, as PlanetLab's
machines are recorded. All machines have equally many steps.

Source: docs/autoscale.md "In a simulation".
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest

__all__ = ["read_usage"]

_MOST_VALUES = 50_000_000


def read_usage(path: Path) -> npt.NDArray[np.float64]:
    """Return what each machine uses at each step, as (machine, step), parts from 0 to 1.

    Raises:
        InvalidRequest: The file cannot be read, a value is not a number from 0 to 100, or lines differ in length; the
            text names the line.
    """
    rows: list[npt.NDArray[np.float64]] = []
    count = 0
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                rows.append(_read_line(line, f"{path}, line {number}"))
                if len(rows[-1]) != len(rows[0]):
                    raise InvalidRequest(
                        f"{path}, line {number}: {len(rows[-1])} steps, but the first has {len(rows[0])}"
                    )
                count += len(rows[-1])
                if count > _MOST_VALUES:
                    raise InvalidRequest(f"{path}: more than {_MOST_VALUES:,} values; take fewer machines")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error
    if not rows:
        raise InvalidRequest(f"{path} has no machine: a line is what one uses at each step, in percent, with commas")
    return np.stack(rows) / 100.0


def _read_line(line: str, where: str) -> npt.NDArray[np.float64]:
    try:
        row = np.array([float(value) for value in line.split(",")])
    except ValueError as error:
        raise InvalidRequest(f"{where}: {error}; a line is what a machine uses at each step, in percent") from error
    if not ((row >= 0) & (row <= 100)).all():
        raise InvalidRequest(f"{where}: a use must be from 0 to 100 percent")
    return row

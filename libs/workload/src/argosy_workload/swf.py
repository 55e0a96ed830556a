"""Standard Workload Format: logs and models of parallel machines.

One job a line, 18 fields apart by blanks, -1 for unknown, comments behind `;`. The header comments `MaxProcs` and
`MaxNodes` state the size of the machine; there need not be any. Simulators write more columns behind the 18, put
lists or whole lines into braces, or begin comments with `#`: what stands behind the 18 is not read, braces count as
blanks and `#` as `;`.

A job becomes one pod with as many cores as it asked for processors. A parallel job ran over many nodes of the machine
it was logged on; a pod does not, so the machine is modelled as one node with all processors. Source of the format:
the Parallel Workloads Archive, version 2.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MAX_AMOUNT, MEMORY
from argosy_workload.model import MAX_TIME_S, JobColumns, NodeSet, Shape, Workload, build_workload, uniform_nodes
from argosy_workload.tracefile import MAX_ROW_COUNT, is_number, read_text, refuse

__all__ = ["FIELD_COUNT", "is_swf", "read_swf", "read_swf_nodes"]

FloatArray = npt.NDArray[np.float64]

FIELD_COUNT: Final = 18
"""Fields of a line."""
DEFAULT_MEMORY_BYTES_PER_CORE: Final = 2**30
"""Memory of a job that states none: 1 GiB a core."""
MAX_PROCESSOR_COUNT: Final = 10_000_000
"""Most processors of one job."""
_HEADER = re.compile(r"^;\s*(MaxProcs|MaxNodes)\s*:\s*(\d{1,9})\s*$", re.MULTILINE)
_BRACES: Final = str.maketrans("{}#", "  ;")
_UNKNOWN: Final = -1.0


class Field(IntEnum):
    """Positions of the fields that are read."""

    JOB = 0
    SUBMIT = 1
    RUN = 3
    PROCESSORS_USED = 4
    MEMORY_USED_KB = 6
    PROCESSORS_ASKED = 7
    TIME_ASKED = 8
    MEMORY_ASKED_KB = 9
    USER = 11
    QUEUE = 14


_NAMES: Final = (
    "job number", "submit time", "wait time", "run time", "processors used", "mean CPU time", "memory used",
    "processors asked", "time asked", "memory asked", "status", "user", "group", "application", "queue", "partition",
    "preceding job", "think time",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Log:
    """A parsed file."""

    values: FloatArray
    """(n, 18) fields."""
    lines: list[int]
    """Line of each job, from 1."""
    processor_count: int
    """Processors of the machine as the header says, 0 if it does not."""


def is_swf(text: str) -> bool:
    """Return whether a text looks like this format: its first line is a `;` comment or begins with 18 numbers."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    fields = _fields(first)
    return first.startswith(";") or (len(fields) == FIELD_COUNT and all(map(is_number, fields)))


def _fields(line: str) -> list[str]:
    """Return the fields of a line that count: the first 18, without braces and comment."""
    return line.translate(_BRACES).partition(";")[0].split(maxsplit=FIELD_COUNT)[:FIELD_COUNT]


def read_swf(path: Path, *, queue_by: str = "auto", text: str | None = None) -> Workload:
    """Return the jobs of a log in the Standard Workload Format.

    Args:
        path: Plain or gzip file.
        queue_by: `queue` (field 15), `user` (field 12), or `auto`: the queue field if it tells jobs apart, else the
            user field if that does, else one queue.
        text: The file's text, if it was read already.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    log = _parse(path, read_text(path) if text is None else text)
    values = log.values
    processors = np.where(
        values[:, Field.PROCESSORS_ASKED] > 0, values[:, Field.PROCESSORS_ASKED], values[:, Field.PROCESSORS_USED]
    )
    usable = (processors > 0) & (values[:, Field.RUN] >= 0)
    notes = ["One job is one pod; a job's processors are cores of one node."]
    if left_out := int((~usable).sum()):
        notes.append(f"{left_out} of {len(values)} jobs state no run time or no processors and are left out.")
    if not usable.any():
        refuse(path, "no job states both a run time and processors")
    values, processors = values[usable], processors[usable]
    memory_bytes, assumed = _memory_bytes(values, processors)
    if assumed:
        notes.append(f"{assumed} jobs state no memory: {DEFAULT_MEMORY_BYTES_PER_CORE >> 20} MiB a core assumed.")
    names, column = _queue_names(values, queue_by)
    notes.append(f"Queue = {column}.")
    estimate_s = values[:, Field.TIME_ASKED]
    cores = (processors * 1000).astype(np.int64)
    shapes = {
        key: Shape.of({CPU: key[0], MEMORY: key[1]})
        for key in set(zip(cores.tolist(), memory_bytes.tolist(), strict=True))
    }
    columns = JobColumns(
        submit_s=values[:, Field.SUBMIT],
        run_s=values[:, Field.RUN],
        queue=names,
        shape=[shapes[key] for key in zip(cores.tolist(), memory_bytes.tolist(), strict=True)],
        client_ids=[f"job-{number}" for number in values[:, Field.JOB].astype(np.int64).tolist()],
        estimate_s=np.where(estimate_s > 0, estimate_s, np.nan),
        user=_users(values),
    )
    return build_workload(columns, source=f"{path.name} (Standard Workload Format)", notes=notes)


def read_swf_nodes(path: Path, workload: Workload, *, text: str | None = None) -> NodeSet:
    """Return the machine of a log as one node: all processors of the header, or as many as its largest job asks.

    Its memory is what the most demanding job asks per core (at least 1 GiB), for all cores.

    Raises:
        InvalidRequest: The file is not there, or damaged.
    """
    log = _parse(path, read_text(path) if text is None else text)
    largest = max(shape.amount(CPU) for shape in workload.shapes) // 1000
    cores = max(log.processor_count, largest)
    per_core = max(shape.amount(MEMORY) * 1000 // shape.amount(CPU) for shape in workload.shapes)
    return uniform_nodes(f"1x{cores}cpu,{max(per_core, DEFAULT_MEMORY_BYTES_PER_CORE) * cores}")


def _parse(path: Path, text: str) -> _Log:
    """Return all fields of all jobs, each checked for its range."""
    fields: list[str] = []
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        parts = _fields(line)
        if not parts:
            continue
        if len(parts) < FIELD_COUNT:
            what = f"{len(parts)} fields; the Standard Workload Format has {FIELD_COUNT}"
            refuse(path, what, line=number, column=len(parts) + 1)
        fields += parts
        lines.append(number)
        if len(lines) > MAX_ROW_COUNT:
            refuse(path, f"more than {MAX_ROW_COUNT} jobs; split the file", line=number)
    if not lines:
        refuse(path, "there are no jobs in it", line=1)
    try:
        values = np.fromiter(map(float, fields), dtype=np.float64, count=len(fields)).reshape(-1, FIELD_COUNT)
    except ValueError:
        _refuse_text(path, fields, lines)
    _check(path, values, lines)
    _, first = np.unique(values[:, Field.JOB], return_index=True)
    if len(first) < len(lines):
        row = int(np.setdiff1d(np.arange(len(lines)), first)[0])
        what = f"job {values[row, Field.JOB]:.0f} stands twice; numbers must be unique"
        refuse(path, what, line=lines[row], column=1, field=_NAMES[0])
    sizes = [int(size) for _, size in _HEADER.findall(text)]
    return _Log(values, lines, max(sizes, default=0))


def _refuse_text(path: Path, fields: list[str], lines: list[int]) -> NoReturn:
    """Raise InvalidRequest about the first field that is no number."""
    index = next(index for index, text in enumerate(fields) if not is_number(text))
    row, column = divmod(index, FIELD_COUNT)
    refuse(path, f"{fields[index][:40]!r} is not a number", line=lines[row], column=column + 1, field=_NAMES[column])


def _check(path: Path, values: FloatArray, lines: list[int]) -> None:
    """Refuse fields that are not finite, below -1, or too large."""
    high = np.full(FIELD_COUNT, MAX_TIME_S)
    high[[Field.PROCESSORS_USED, Field.PROCESSORS_ASKED]] = MAX_PROCESSOR_COUNT
    low = np.full(FIELD_COUNT, _UNKNOWN)
    low[Field.SUBMIT] = 0
    bad = ~((values >= low) & (values <= high))
    if bad.any():
        row, column = (int(index[0]) for index in np.nonzero(bad))
        what = f"{values[row, column]:g} is out of range; {low[column]:g} to {high[column]:g} expected"
        refuse(path, what, line=lines[row], column=column + 1, field=_NAMES[column])


def _memory_bytes(values: FloatArray, processors: FloatArray) -> tuple[npt.NDArray[np.int64], int]:
    """Return (memory of each job in bytes, number of jobs that state none)."""
    asked, used = values[:, Field.MEMORY_ASKED_KB], values[:, Field.MEMORY_USED_KB]
    per_processor_kb = np.where(asked > 0, asked, used)
    known = per_processor_kb > 0
    total = np.where(known, per_processor_kb * 1024, DEFAULT_MEMORY_BYTES_PER_CORE) * processors
    return np.minimum(total, float(MAX_AMOUNT >> 1)).astype(np.int64), int((~known).sum())


def _users(values: FloatArray) -> npt.NDArray[np.int32]:
    """Return the user of each job, -1 where that is not known; nothing if it is not known of any."""
    numbers, user = np.unique(values[:, Field.USER], return_inverse=True)
    found = np.where(numbers >= 0, np.arange(numbers.size), -1).astype(np.int32)[user.reshape(-1)]
    return found if (found >= 0).any() else found[:0]


def _queue_names(values: FloatArray, queue_by: str) -> tuple[list[str], str]:
    """Return (queue name per job, what it was made of)."""
    if queue_by not in {"auto", "queue", "user"}:
        raise InvalidRequest(f"a queue cannot be made of {queue_by[:40]!r}; auto, queue or user expected")
    if queue_by == "auto":
        told_apart = [name for name in ("queue", "user") if len(np.unique(values[:, Field[name.upper()]])) > 1]
        queue_by = told_apart[0] if told_apart else "none"
    if queue_by == "none":
        return ["default"] * len(values), "one queue, because neither field 15 (queue) nor 12 (user) tells jobs apart"
    field = Field[queue_by.upper()]
    names = [
        f"{queue_by}-{number}" if number >= 0 else f"{queue_by}-unknown"
        for number in values[:, field].astype(int).tolist()
    ]
    return names, f"field {field + 1} ({queue_by})"

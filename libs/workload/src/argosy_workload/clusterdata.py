"""Traces as comma-separated tables: the Alibaba 2023 GPU lists, the Philly job list, SURF tasks; Alea machine files.

What a table does not say is filled with defaults that the workload's notes state, so that every report shows them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY
from argosy_workload.model import (
    GPU,
    GPU_MODEL_LABEL,
    MAX_TIME_S,
    JobColumns,
    NodeModel,
    NodeSet,
    Shape,
    Workload,
    build_workload,
    queue_name,
)
from argosy_workload.tracefile import Table, read_table, read_text, refuse

__all__ = [
    "GPU_NOTE",
    "OPENB_NODE_COLUMNS",
    "OPENB_POD_COLUMNS",
    "PHILLY_COLUMNS",
    "SURF_COLUMNS",
    "read_machines",
    "read_openb_nodes",
    "read_openb_pods",
    "read_philly",
    "read_surf",
]

FloatArray = npt.NDArray[np.float64]

OPENB_POD_COLUMNS: Final = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time",
)  # fmt: skip
"""Columns that a pod list of the Alibaba 2023 GPU trace must have."""
OPENB_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""Columns that a node list of the Alibaba 2023 GPU trace must have."""
PHILLY_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "cluster")
"""Columns that a Philly job list must have."""
SURF_COLUMNS: Final = ("id", "submission_time", "duration", "cpu_count", "mem_capacity")
"""Columns that a list of SURF tasks must have."""
GPU_NOTE: Final = (
    "GPU is a plain quantity (1000 to a device), so fractions share a node's devices freely: which device a pod gets, "
    "and what that leaves unusable, is not modelled."
)
"""What reports of GPU workloads say."""
PHILLY_CORES_PER_GPU: Final = 4
"""Cores per GPU of a Philly job: the list states none."""
PHILLY_MEMORY_BYTES_PER_GPU: Final = 16 * 2**30
"""Memory per GPU of a Philly job: the list states none."""

_LINUX: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_MAX_CORES: Final = 1e6
_MAX_MIB: Final = 1e9
_MAX_DEVICES: Final = 10_000


def read_openb_pods(path: Path, *, text: str | None = None) -> Workload:
    """Return the pods of an Alibaba 2023 GPU pod list; queue = qos, run time = deletion - scheduled.

    A pod that was never scheduled runs from its creation to its deletion. Allowed GPU models become a node affinity.

    Args:
        path: Plain or gzip file.
        text: The file's text, if it was read already.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    table = read_table(path, required=OPENB_POD_COLUMNS, optional=("gpu_spec", "scheduled_time"), text=text)
    _refuse_repeats(table, "name")
    created_s = table.numbers("creation_time")
    deleted_s = table.numbers("deletion_time")
    unscheduled = np.full(len(table), np.nan)
    scheduled_s = table.numbers("scheduled_time", blank=np.nan) if "scheduled_time" in table.columns else unscheduled
    start_s = np.where(np.isnan(scheduled_s), created_s, scheduled_s)
    if len(rows := np.flatnonzero(deleted_s < start_s)):
        table.refuse(int(rows[0]), "deletion_time", "lies before the pod was scheduled or created")
    notes = [GPU_NOTE, "Queue = qos.", "Run time = deletion - scheduled time."]
    if never := int(np.isnan(scheduled_s).sum()):
        notes.append(f"{never} pods were never scheduled in the trace: run time = deletion - creation time.")
    columns = JobColumns(
        submit_s=created_s,
        run_s=deleted_s - start_s,
        queue=_queues(table, "qos"),
        shape=_openb_shapes(table),
        client_ids=table.columns["name"],
    )
    return build_workload(columns, source=f"{path.name} (Alibaba 2023 GPU pods)", notes=notes)


def _openb_shapes(table: Table) -> list[Shape]:
    """Return each pod's shape."""
    cpu = table.numbers("cpu_milli", high=_MAX_CORES * 1000, whole=True).astype(np.int64).tolist()
    memory = (table.numbers("memory_mib", high=_MAX_MIB, whole=True) * 2**20).astype(np.int64).tolist()
    devices = table.numbers("num_gpu", high=_MAX_DEVICES, whole=True)
    share = table.numbers("gpu_milli", high=1000, whole=True)
    # The share of a device has a meaning for one device only; several devices are always whole ones.
    gpu = np.where(devices > 1, devices * 1000, devices * share).astype(np.int64).tolist()
    models = table.columns.get("gpu_spec", [""] * len(table))
    made: dict[tuple[int, int, int, str], Shape] = {}
    shapes = []
    for key in zip(cpu, memory, gpu, models, strict=True):
        shape = made.get(key)
        if shape is None:
            allowed = [model.strip() for model in key[3].split("|") if model.strip()]
            shape = made[key] = Shape.of({CPU: key[0], MEMORY: key[1], GPU: key[2]}, gpu_models=allowed)
        shapes.append(shape)
    return shapes


def _queues(table: Table, name: str) -> list[str]:
    """Return a column as queue names.

    Raises:
        InvalidRequest: A field cannot be made a queue name.
    """
    made: dict[str, str] = {}
    names = []
    for row, text in enumerate(table.columns[name]):
        if text not in made:
            try:
                made[text] = queue_name(text)
            except InvalidRequest as cause:
                table.refuse(row, name, cause.message)
        names.append(made[text])
    return names


def read_openb_nodes(path: Path, *, cluster_count: int = 3, text: str | None = None) -> NodeSet:
    """Return the nodes of an Alibaba 2023 GPU node list; a node's cluster = crc32(sn) mod `cluster_count`.

    Raises:
        InvalidRequest: The file is not there, damaged, or a node name stands twice.
    """
    table = read_table(path, required=OPENB_NODE_COLUMNS, text=text)
    cpu = table.numbers("cpu_milli", high=_MAX_CORES * 1000, whole=True, low=1).astype(np.int64).tolist()
    memory = (table.numbers("memory_mib", high=_MAX_MIB, whole=True, low=1) * 2**20).astype(np.int64).tolist()
    devices = table.numbers("gpu", high=_MAX_DEVICES, whole=True).astype(np.int64).tolist()
    names = table.columns["sn"]
    _refuse_repeats(table, "sn")
    kinds = list(zip(table.columns["model"], cpu, memory, devices, strict=True))
    index = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    return NodeSet(
        source=f"{path.name} (Alibaba 2023 GPU nodes)",
        models=tuple(_openb_model(*kind) for kind in index),
        clusters=tuple(f"cluster-{number}" for number in range(cluster_count)),
        names=tuple(names),
        model=np.array([index[kind] for kind in kinds], dtype=np.int32),
        cluster=np.array([zlib.crc32(name.encode()) % cluster_count for name in names], dtype=np.int32),
        notes=(f"A node's cluster = crc32(its name) mod {cluster_count}.",),
    )


def _openb_model(gpu_model: str, cpu_milli: int, memory_bytes: int, device_count: int) -> NodeModel:
    """Return a node model; its name tells the GPUs apart from the rest of the machine."""
    gpu_model = gpu_model.strip()
    label = {GPU_MODEL_LABEL: gpu_model} if gpu_model else {}
    name = f"{device_count}x{gpu_model or 'cpu'}-{cpu_milli // 1000}c-{memory_bytes >> 30}g"
    amounts = {CPU: cpu_milli, MEMORY: memory_bytes, GPU: device_count * 1000}
    return NodeModel.of(name, amounts, labels={**_LINUX, **label})


def _refuse_repeats(table: Table, name: str) -> None:
    """Refuse a column in which a text is empty or stands twice."""
    seen: set[str] = set()
    for row, text in enumerate(table.columns[name]):
        if not text or text in seen:
            table.refuse(
                row, name, f"{text[:60]!r} stands twice; names must be unique" if text else "the name is empty"
            )
        seen.add(text)


def read_philly(path: Path, *, text: str | None = None) -> Workload:
    """Return the jobs of a Philly list: `num_gpus` GPUs each, queue = virtual cluster.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    table = read_table(path, required=PHILLY_COLUMNS, text=text)
    gpus = table.numbers("num_gpus", low=1, high=_MAX_DEVICES, whole=True).astype(np.int64).tolist()
    shapes = {
        count: Shape.of(
            {CPU: count * PHILLY_CORES_PER_GPU * 1000, MEMORY: count * PHILLY_MEMORY_BYTES_PER_GPU, GPU: count * 1000}
        )
        for count in set(gpus)
    }
    columns = JobColumns(
        submit_s=_timestamps(table, "timestamp"),
        run_s=table.numbers("duration"),
        queue=_queues(table, "cluster"),
        shape=[shapes[count] for count in gpus],
        client_ids=[f"job-{number}" for number in range(len(table))],
    )
    memory_gib = PHILLY_MEMORY_BYTES_PER_GPU >> 30
    notes = (
        GPU_NOTE,
        "Queue = virtual cluster.",
        f"The list states no cores and memory: {PHILLY_CORES_PER_GPU} cores and {memory_gib} GiB per GPU assumed.",
        "One job is one pod; jobs of more GPUs than a node has need a node as large as they are.",
    )
    return build_workload(columns, source=f"{path.name} (Philly jobs)", notes=notes)


def _timestamps(table: Table, name: str) -> FloatArray:
    """Return a column of `YYYY-MM-DD hh:mm:ss` as seconds since 1970, the trace's local clock taken as UTC."""
    values = np.empty(len(table))
    for row, text in enumerate(table.columns[name]):
        try:
            moment = datetime.fromisoformat(text.strip())
            values[row] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            table.refuse(row, name, f"{text[:40]!r} is not a time; YYYY-MM-DD hh:mm:ss expected")
    return values


def read_surf(path: Path, *, text: str | None = None) -> Workload:
    """Return the tasks of a SURF list; times in milliseconds, memory in MB.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    table = read_table(path, required=SURF_COLUMNS, text=text)
    _refuse_repeats(table, "id")
    cores = table.numbers("cpu_count", low=1, high=_MAX_CORES, whole=True).astype(np.int64).tolist()
    memory = (table.numbers("mem_capacity", high=_MAX_MIB) * 10**6).astype(np.int64).tolist()
    keys = list(zip(cores, memory, strict=True))
    shapes = {key: Shape.of({CPU: key[0] * 1000, MEMORY: key[1]}) for key in set(keys)}
    columns = JobColumns(
        submit_s=table.numbers("submission_time", high=MAX_TIME_S * 1000) / 1000,
        run_s=table.numbers("duration", high=MAX_TIME_S * 1000) / 1000,
        queue=["surf"] * len(table),
        shape=[shapes[key] for key in keys],
        client_ids=[f"task-{task}" for task in table.columns["id"]],
    )
    return build_workload(columns, source=f"{path.name} (SURF tasks)", notes=("The tasks name no queue: all in one.",))


def read_machines(path: Path, *, text: str | None = None) -> NodeSet:
    """Return the nodes of an Alea machine file: id, name, nodes, CPUs a node, speed, RAM a node (KB); tabs or blanks.

    Raises:
        InvalidRequest: The file is not there, or damaged; the message names line and column.
    """
    content = read_text(path) if text is None else text
    models: list[NodeModel] = []
    counts: list[int] = []
    clusters: list[str] = []
    for number, line in enumerate(content.splitlines(), start=1):
        parts = line.split()
        if not parts:
            continue
        node_count, cores, memory_kb = _machine_numbers(path, number, parts)
        amounts = {CPU: cores * 1000, MEMORY: memory_kb * 1024}
        models.append(NodeModel.of(f"{parts[1]}-{cores}c", amounts, labels=_LINUX))
        counts.append(node_count)
        clusters.append(queue_name(parts[1]))
    if not models:
        refuse(path, "there are no machines in it", line=1)
    row = np.repeat(np.arange(len(models)), counts)
    distinct = list(dict.fromkeys(clusters))
    return NodeSet(
        source=f"{path.name} (Alea machines)",
        models=tuple(models),
        clusters=tuple(distinct),
        names=tuple(f"{clusters[model]}-{index:05d}" for index, model in enumerate(row.tolist())),
        model=row.astype(np.int32),
        cluster=np.array([distinct.index(name) for name in clusters], dtype=np.int32)[row],
    )


def _machine_numbers(path: Path, line: int, parts: Sequence[str]) -> tuple[int, int, int]:
    """Return (nodes, cores a node, KB a node) of one line."""
    if len(parts) < 6:
        refuse(
            path, f"{len(parts)} fields; id, name, nodes, CPUs, speed, RAM expected", line=line, column=len(parts) + 1
        )
    numbers = []
    for column, high in ((2, 10**6), (3, 10**6), (5, 10**12)):
        if not parts[column].isascii() or not parts[column].isdigit() or not 1 <= int(parts[column][:20]) <= high:
            refuse(path, f"{parts[column][:40]!r} is not a whole number from 1 to {high}", line=line, column=column + 1)
        numbers.append(int(parts[column]))
    return numbers[0], numbers[1], numbers[2]

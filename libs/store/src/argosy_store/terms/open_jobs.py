"""The open jobs of a pool as a new leader reads them: what stands in their rows, their specs and their metadata.

What `begin_` asks for comes as it lies, beside other queries; the rest orders and matches it.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import DAY_SHIFT, SUBMITTER_BITS
from argosy_core.job.reading.after import AfterJobs
from argosy_core.job.reading.options import OPTION_NAMES, UNSET, JobOptions
from argosy_core.scheduler import SpecReference
from argosy_store.postgres.binary import INT2, INT4, INT8, UUID
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.terms.load_scope import Columns, Scope

__all__ = [
    "begin_after",
    "begin_jobs",
    "begin_metadata",
    "begin_options",
    "begin_preempted",
    "begin_submitters",
    "load_after",
    "load_metadata",
    "load_specs",
    "order_jobs",
    "read_states",
    "spread",
    "spread_options",
]

_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, as in Knuth's multiplicative hashing."""
_DAY_SPREAD: Final = np.uint64(0xC2B2AE3D27D4EB4F)
"""Another odd number of 64 bits."""


def begin_jobs(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask for the open jobs themselves."""
    return reads.columns(
        "SELECT j.handle, j.job_id, j.queue_id, j.job_set_id, j.class_id, j.priority, j.submit_time_us,"
        f" j.cancel_requested, j.spec_hash FROM jobs j WHERE {scope.jobs}",
        [INT8, UUID, INT4, INT8, INT4, INT4, INT8, INT2, UUID],
    )


def order_jobs(
    columns: Columns,
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int16], npt.NDArray[np.void]]:
    """Return columns of open jobs as `JobColumns` names them, which have cancel requests, and their spec hashes."""
    order = np.argsort(columns[0], kind="stable")
    columns = [column[order] for column in columns]
    ids = columns[1].view(">i8").reshape(-1, 2)[:, 0].astype(np.int64) if len(columns[1]) else columns[0]
    names = ("handle", "id_high", "queue", "job_set", "class_id", "priority", "submit_time_us")
    return dict(zip(names, (columns[0], ids, *columns[2:7]), strict=True)), columns[7], columns[8]


def load_specs(
    connection: StoreConnection, handles: npt.NDArray[np.int64], hashes: npt.NDArray[np.void]
) -> tuple[tuple[SpecReference, ...], npt.NDArray[np.int32]]:
    """Return the distinct specs of open jobs and each job's index into them."""
    if not len(handles):
        return (), np.empty(0, dtype=np.int32)
    first, index = _distinct_specs(handles >> DAY_SHIFT, hashes)
    days = (handles[first] >> DAY_SHIFT).tolist()
    wanted = [bytes(value) for value in hashes[first].tolist()]
    cursor = connection.execute(
        "SELECT s.day, s.hash, s.layout FROM unnest(%s::integer[], %s::uuid[]) AS n (day, hash)"
        " JOIN job_specs s ON s.day = n.day AND s.hash = n.hash",
        [days, [value.hex() for value in wanted]],
    )
    layouts = {(row[0], row[1].bytes): bytes(row[2]) for row in cursor}
    specs = tuple(
        SpecReference(day=day, hash=value, layout=layouts.get((day, value), b""))
        for day, value in zip(days, wanted, strict=True)
    )
    return specs, index


def _distinct_specs(
    days: npt.NDArray[np.int64], hashes: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Return where each distinct (day, hash) stands first, and of each element its place among them.

    Numbers of 64 bits made of them are sorted in a sixth of the time that their bytes take. Should two have one
    number, the bytes are sorted.
    """
    halves = hashes.view("u8").reshape(-1, 2)
    mixed = halves[:, 0] ^ halves[:, 1] * _SPREAD ^ days.astype(np.uint64) * _DAY_SPREAD
    _, first, index = np.unique(mixed, return_index=True, return_inverse=True)
    same = days[first][index] == days
    same &= (halves[first][index] == halves).all(axis=1)
    if not same.all():
        keys = np.column_stack([days.astype(np.uint64), halves]).view("V24").reshape(-1)
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(-1).astype(np.int32)


def begin_metadata(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask which open jobs have which labels and annotations."""
    return reads.columns(
        f"SELECT j.handle, j.metadata_hash FROM jobs j WHERE {scope.jobs} AND j.metadata_hash IS NOT NULL",
        [INT8, UUID],
    )


def load_metadata(
    connection: StoreConnection, columns: Columns, handles: npt.NDArray[np.int64]
) -> tuple[tuple[bytes, ...], npt.NDArray[np.int32]]:
    """Return the distinct metadata of open jobs and each job's index into them."""
    owners, hashes = columns
    index = np.full(len(handles), -1, dtype=np.int32)
    if not len(owners):
        return (), index
    wanted, place = np.unique(hashes, return_inverse=True)
    index[np.searchsorted(handles, owners)] = place
    found = {
        row[0].bytes: row[1].encode()
        for row in connection.execute(
            "SELECT hash, jsonb_build_object('labels', labels, 'annotations', annotations)::text FROM job_metadata"
            " WHERE hash = ANY (%s::uuid[])",
            [[value.hex() for value in wanted.tolist()]],
        )
    }
    return tuple(found.get(value, b"{}") for value in wanted.tolist()), index


def begin_options(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask what the submitters of open jobs say of them."""
    names = OPTION_NAMES
    return reads.columns(
        f"SELECT j.handle, {', '.join(f'coalesce(j.{name}, {UNSET})' for name in names)} FROM jobs j"
        f" WHERE {scope.jobs} AND ({' OR '.join(f'j.{name} IS NOT NULL' for name in names)})",
        [INT8, *[INT4] * len(names)],
    )


def spread_options(columns: Columns, handles: npt.NDArray[np.int64]) -> JobOptions | None:
    """Return what the submitters of open jobs say of them, None if nothing is said of any."""
    owners, *given = columns
    if not len(owners):
        return None
    options = JobOptions.unset(len(handles))
    rows = np.searchsorted(handles, owners)
    for column, values in zip(options.columns().values(), given, strict=True):
        column[rows] = values
    return options


def begin_preempted(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask which runs of open jobs somebody asked to preempt."""
    return reads.columns(
        f"SELECT j.handle, j.preempt_attempt FROM jobs j WHERE {scope.jobs} AND j.preempt_attempt IS NOT NULL",
        [INT8, INT4],
    )


def begin_submitters(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Read who submitted jobs as the numbers that `submitter_number` makes of names."""
    first_bits = "('x' || encode(substr(sha256(convert_to(j.submitter, 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint"
    return reads.columns(
        f"SELECT j.handle, ({first_bits} >> {32 - SUBMITTER_BITS})::integer"
        f" FROM jobs j WHERE {scope.jobs} AND j.submitter <> ''",
        [INT8, INT4],
    )


def spread(columns: Columns, handles: npt.NDArray[np.int64], *, missing: int) -> npt.NDArray[np.int32] | None:
    """Return what is known of some jobs as a column of all, `missing` of the others; None if nothing is of any."""
    owners, values = columns
    if not len(owners):
        return None
    spread = np.full(len(handles), missing, dtype=np.int32)
    spread[np.searchsorted(handles, owners)] = values
    return spread


def begin_after(reads: SharedReads, scope: Scope) -> Future[list[tuple[Any, ...]]]:
    """Ask which jobs open jobs wait for."""
    return reads.rows(
        f"SELECT j.handle, j.run_after FROM jobs j WHERE {scope.jobs} AND j.run_after IS NOT NULL ORDER BY j.handle"
    )


def load_after(connection: StoreConnection, rows: list[tuple[Any, ...]]) -> tuple[AfterJobs | None, set[int]]:
    """Return which jobs open jobs wait for, with what these have come to, and the jobs of which that cannot be read."""
    payloads, unreadable = {row[0]: bytes(row[1]) for row in rows}, set[int]()
    for handle, payload in payloads.items():
        try:
            AfterJobs.of_payloads((handle,), (payload,))
        except (InvalidRequest, ValueError):
            unreadable.add(handle)
    pairs = AfterJobs.of_payloads(payloads, (b"" if key in unreadable else it for key, it in payloads.items()))
    return None if pairs is None else pairs.with_states(read_states(connection, pairs.other)), unreadable


def read_states(connection: StoreConnection, handles: npt.NDArray[np.int64]) -> dict[int, int]:
    """Return what jobs have come to, by handle: JobState, 0 while they are open; others have no row."""
    cursor = connection.execute(
        "SELECT handle, state FROM jobs WHERE handle = ANY (%s::bigint[])", [np.unique(handles).tolist()]
    )
    return dict(cursor.fetchall())

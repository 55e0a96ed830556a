"""Building the port's columns from documents, row by row.

Tables are those of one adapter: they grow until they are crowded, and are the same tuple until they grow. Then rows
that are begun get new ones, so that nodes and requests that are long gone cost nothing: rows mean something with their
own tables only.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, TypeVar

import numpy as np

from argosy_core.job.reading.classes import HostPort
from argosy_core.job.reading.naming import is_named_by
from argosy_core.job.reading.scaling import Scaling
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, parse_run_label
from argosy_kube.failure_table import NODE_LOST
from argosy_kube.kubernetes.api.documents import Metadata
from argosy_kube.kubernetes.reading.pods import RequestReader
from argosy_kube.port import POD_KIND, Change, Detail, ObjectEvents, PodPhase
from argosy_kube.tables import RequestTable, TextTable

__all__ = ["LOST_REASON", "EventRows", "EventTables", "SharedTables", "read_run", "uid_bytes"]

T = TypeVar("T")

LOST_REASON: Final = 0
"""Index of `NODE_LOST` in every table of texts."""
_UID_BYTES: Final = 16
_CROWDED: Final = 10_000
"""Nodes, texts or requests in one table; those of a larger cluster are learnt again once in as many changes."""
_MOST_OBJECTS: Final = 1 << 15
_NO_RUN: Final = (0, 0, 0)
_WIDTH: Final = 16
"""Numbers of a row, the two halves of its uid included."""


def uid_bytes(text: str) -> bytes:
    """Return a uid as the port's 16 bytes; uids that are no UUID (mirror pods) get those of their hash."""
    try:
        value = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        value = b""
    return value if len(value) == _UID_BYTES else blake2b(text.encode(), digest_size=_UID_BYTES).digest()


def read_run(metadata: Metadata, installation: str) -> tuple[int, int, int] | None:
    """Return (handle, ordinal, object index) of an object of ours, or None if it is none.

    Labels can be written by whoever may make an object; the name must be one of that run's, too.
    """
    labels = metadata.labels
    if not labels or labels.get(INSTALLATION_LABEL) != installation:
        return None
    run, position = parse_run_label(labels.get(RUN_LABEL, "")), labels.get(OBJECT_LABEL, "")
    if run is None or not (position.isascii() and position.isdecimal()) or int(position) >= _MOST_OBJECTS:
        return None
    return (run[0], run[1], int(position)) if is_named_by(metadata.name, *run) else None


class EventTables:
    """The tables that rows point into."""

    def __init__(self) -> None:
        """Start with pods as the first kind."""
        self.kinds = TextTable((POD_KIND,))
        self.nodes = TextTable()
        self.texts = TextTable((NODE_LOST,))
        self.requests = RequestTable()
        self.pod_requests = RequestReader(self.requests.intern)


class EventRows:
    """Rows under construction.

    Args:
        tables: What they point into.
    """

    def __init__(self, tables: EventTables) -> None:
        """Start empty."""
        self.tables = tables
        """What they point into."""
        self._chunks: list[np.ndarray] = []
        self._uids: list[bytes] = []
        self._rows: list[tuple[int, ...]] = []
        self._details: dict[int, Detail] = {}
        """Of the rows that are not folded, by place among them."""
        self._chunk_details: list[dict[int, Detail]] = []
        self._ports: dict[int, tuple[HostPort, ...]] = {}
        """Of all rows, by place."""
        self._scalings: dict[int, Scaling] = {}
        """Of all rows, by place."""
        self._stops: dict[int, float] = {}
        """Of all rows, by place."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows) + sum(len(chunk) for chunk in self._chunks)

    def add(
        self,
        change: Change,
        metadata: Metadata,
        *,
        kind: int,
        run: tuple[int, int, int] | None,
        time_us: int,
        state: tuple[int, PodPhase, int, int, int] = (-1, PodPhase.RUNNING, 0, -1, -1),
        detail: Detail | None = None,
    ) -> None:
        """Add a row.

        Args:
            change: What happened.
            metadata: Of the object.
            kind: Index of its kind.
            run: (handle, ordinal, object index) if it is ours.
            time_us: When, microseconds since the Unix epoch.
            state: (node index, phase, exit code, reason index, request row); that of objects that are no pods if left
                out.
            detail: Of the reason.
        """
        if detail is not None:
            self._details[len(self._rows)] = detail
        ours = run is not None
        version = metadata.resource_version
        self._uids.append(uid_bytes(metadata.uid))
        self._rows.append(
            (
                change,
                kind,
                ours,
                *(run or _NO_RUN),
                *state,
                time_us,
                int(version) if version.isdecimal() else 0,
                self.tables.texts.intern(metadata.namespace) if ours else -1,
            )
        )

    def note_ports(self, ports: tuple[HostPort, ...]) -> None:
        """Note the ports of its node that the pod of the last row has."""
        self._ports[len(self) - 1] = ports

    def note_scaling(self, scaling: Scaling) -> None:
        """Note within what the pod of the last row is resized."""
        self._scalings[len(self) - 1] = scaling

    def note_stop_after(self, stop_after_s: float) -> None:
        """Note how long the pod of the last row may stay without a leader."""
        self._stops[len(self) - 1] = stop_after_s

    def fold(self) -> None:
        """Turn the rows so far into an array, which takes a tenth of the memory; call it after each page of a list."""
        if self._rows:
            chunk = np.empty((len(self._rows), _WIDTH), dtype=np.int64)
            chunk[:, :-2] = self._rows
            chunk[:, -2:] = np.frombuffer(b"".join(self._uids), dtype=np.int64).reshape(-1, 2)
            self._chunks.append(chunk)
            self._chunk_details.append(self._details)
            self._rows, self._uids, self._details = [], [], {}

    def filling(self, add: Callable[[T], None]) -> Callable[[], Callable[[list[T]], None]]:
        """Return what begins a list, whose pages are added to the rows: a list that begins again is cut off first.

        Args:
            add: Adds the row of a document.
        """
        self.fold()
        mark = len(self._chunks)

        def take(page: list[T]) -> None:
            for document in page:
                add(document)
            self.fold()

        def begin() -> Callable[[list[T]], None]:
            self._rows, self._uids, self._details = [], [], {}
            del self._chunks[mark:], self._chunk_details[mark:]
            self._ports = {place: ports for place, ports in self._ports.items() if place < len(self)}
            self._scalings = {place: scaling for place, scaling in self._scalings.items() if place < len(self)}
            self._stops = {place: time_s for place, time_s in self._stops.items() if place < len(self)}
            return take

        return begin

    def extend(self, other: EventRows) -> None:
        """Add the rows of another, which has the same tables."""
        self.fold()
        other.fold()
        begin = len(self)
        self._ports.update({begin + place: ports for place, ports in other._ports.items()})
        self._scalings.update({begin + place: scaling for place, scaling in other._scalings.items()})
        self._stops.update({begin + place: time_s for place, time_s in other._stops.items()})
        self._chunks += other._chunks
        self._chunk_details += other._chunk_details

    def node_indices(self) -> list[int]:
        """Return which nodes the rows are about, each once."""
        self.fold()
        found = {int(node) for chunk in self._chunks for node in np.unique(chunk[:, 6])}
        return sorted(found - {-1})

    def build(self, version: int) -> ObjectEvents:
        """Return the rows as the port gives them."""
        self.fold()
        rows = np.concatenate(self._chunks) if self._chunks else np.zeros((0, _WIDTH), dtype=np.int64)
        tables = self.tables
        details: dict[int, Detail] = {}
        first = 0
        for chunk, found in zip(self._chunks, self._chunk_details, strict=True):
            details.update({first + place: detail for place, detail in found.items()})
            first += len(chunk)
        return ObjectEvents(
            change_column=rows[:, 0].astype(np.int8),
            kind_column=rows[:, 1].astype(np.int16),
            ours_column=rows[:, 2].astype(np.bool_),
            handle_column=rows[:, 3].copy(),
            ordinal_column=rows[:, 4].copy(),
            object_column=rows[:, 5].astype(np.int16),
            node_column=rows[:, 6].astype(np.int32),
            phase_column=rows[:, 7].astype(np.int8),
            exit_code_column=rows[:, 8].astype(np.int32),
            reason_column=rows[:, 9].astype(np.int32),
            request_column=rows[:, 10].astype(np.int32),
            time_us_column=rows[:, 11].copy(),
            version_column=rows[:, 12].copy(),
            namespace_column=rows[:, 13].astype(np.int32),
            uid_column=np.ascontiguousarray(rows[:, -2:]).view(np.uint8),
            kinds=tables.kinds.texts,
            nodes=tables.nodes.texts,
            texts=tables.texts.texts,
            resources=tables.requests.axis.names,
            requests=tables.requests.matrix,
            version=version,
            details=details,
            host_ports=dict(self._ports),
            scalings=dict(self._scalings),
            stop_after_s=dict(self._stops),
        )


class SharedTables:
    """The tables that rows which are begun now point into."""

    def __init__(self) -> None:
        """Begin with empty ones."""
        self._tables = EventTables()

    def begin(self) -> EventRows:
        """Return rows, with new tables if those of the last ones have grown large."""
        tables = self._tables
        if max(len(tables.nodes), len(tables.texts), len(tables.requests)) > _CROWDED:
            self._tables = EventTables()
        return EventRows(self._tables)

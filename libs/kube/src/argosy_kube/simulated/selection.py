"""From what the engine keeps to what the port gives: selecting events and putting tables beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from argosy_core.job.reading.scaling import Scaling, read_scaling
from argosy_core.job.reading.stop_note import STOP_AFTER_ANNOTATION, parse_stop_after
from argosy_kube.port import Int16Array, Int64Array, ObjectEvents, Selector
from argosy_kube.simulated.objects import EventBlock, EventColumns

__all__ = ["Tables", "build_events", "select_block", "select_columns", "select_objects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables that event columns point into."""

    kinds: tuple[str, ...]
    """Kinds, element 0 is Pod."""
    nodes: tuple[str, ...]
    """Node names."""
    texts: tuple[str, ...]
    """Reasons, namespaces, names."""
    resources: tuple[str, ...]
    """Columns of `requests`."""
    requests: Int64Array
    """Distinct requests."""
    notes: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By row of `requests`: annotations that say how the pods of the row are scaled."""


def select_columns(columns: EventColumns, selector: Selector, installation: int) -> EventColumns:
    """Return the events that a selector asks for."""
    if selector == Selector.OURS:
        mask = columns.installation == installation
    else:
        mask = columns.kind == 0
        if selector == Selector.SHARED:
            mask = mask | (columns.installation == installation)
    return columns if mask.all() else columns.part(mask)


def select_objects(
    columns: EventColumns, runs: tuple[Int64Array, Int64Array, Int16Array], installation: int
) -> EventColumns:
    """Return the events about some objects of an installation.

    Args:
        columns: Events.
        runs: Handles, ordinals and positions of the objects.
        installation: Whose they are.
    """
    near = columns.part((columns.installation == installation) & np.isin(columns.wide[:, 2], runs[0]))
    wanted = set(zip(*(column.tolist() for column in runs), strict=True))
    keys = zip(near.wide[:, 2].tolist(), near.wide[:, 5].tolist(), near.small[:, 2].tolist(), strict=True)
    return near.part(np.fromiter((key in wanted for key in keys), dtype=np.bool_, count=len(near)))


def select_block(block: EventBlock, selector: Selector, installation: int, version: int) -> EventColumns:
    """Return the events of a block that a selector asks for, and that are newer than a version."""
    columns = block.columns
    if block.first_version <= version:
        columns = columns.part(columns.version > version)
    if block.only_installation == installation:
        return columns
    return select_columns(columns, selector, installation)


def build_events(columns: EventColumns, tables: Tables, *, installation: int, version: int) -> ObjectEvents:
    """Return events as the port gives them; `installation` is the one that is ours."""
    wide, narrow, small, tiny = columns.wide, columns.narrow, columns.small, columns.tiny
    ours = small[:, 0] == installation
    handle, ordinal, position = wide[:, 2], wide[:, 5], small[:, 2]
    if not ours.all():
        handle = np.where(ours, handle, np.int64(0))
        ordinal = np.where(ours, ordinal, np.int64(0))
        position = np.where(ours, position, np.int16(0))
    return ObjectEvents(
        change_column=tiny[:, 0],
        kind_column=small[:, 1],
        uid_column=columns.uid,
        ours_column=ours,
        handle_column=handle,
        ordinal_column=ordinal,
        object_column=position,
        node_column=narrow[:, 0],
        phase_column=tiny[:, 1],
        exit_code_column=narrow[:, 1],
        reason_column=narrow[:, 2],
        request_column=narrow[:, 3],
        time_us_column=wide[:, 3],
        version_column=wide[:, 4],
        namespace_column=narrow[:, 4],
        kinds=tables.kinds,
        nodes=tables.nodes,
        texts=tables.texts,
        resources=tables.resources,
        requests=tables.requests,
        version=version,
        scalings=_scalings(columns, tables) if tables.notes else {},
        scaling_notes=tables.notes,
        stop_after_s=_stops(columns, tables) if tables.notes else {},
    )


def _stops(columns: EventColumns, tables: Tables) -> dict[int, float]:
    """Return by place how long pods may stay without a leader."""
    texts = {row: dict(notes).get(STOP_AFTER_ANNOTATION) for row, notes in tables.notes.items()}
    times_s = {row: time_s for row, text in texts.items() if (time_s := parse_stop_after(text))}
    rows = columns.narrow[:, 3]
    places = np.flatnonzero(np.isin(rows, np.fromiter(times_s, np.int32))).tolist()
    return {place: times_s[int(rows[place])] for place in places}


def _scalings(columns: EventColumns, tables: Tables) -> dict[int, Scaling]:
    """Return by place within what pods are resized."""
    scalings: dict[int, Scaling] = {}
    rows = columns.narrow[:, 3]
    for place in np.flatnonzero(np.isin(rows, np.fromiter(tables.notes, np.int32))).tolist():
        scaling = read_scaling(dict(tables.notes[int(rows[place])]))
        if scaling is not None:
            scalings[place] = scaling
    return scalings

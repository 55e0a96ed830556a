"""Taking the leader's rows into the table.

Source: design section 5, "Sync": "rows it does not have come down with each spec sent once".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.job.kinds import kind_name
from argosy_core.reconcile.columns import RunRows
from argosy_core.reconcile.run_table import POD_KIND, Phase, RunTable, run_keys

__all__ = ["TakenRows", "add_rows", "kinds_of_body"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRows:
    """What came of rows."""

    slots: Int64Array
    """Objects to look at."""
    missing: Int64Array
    """Objects of runs whose pods were seen before their row came, and which are not there: they were lost."""


def kinds_of_body(body: bytes) -> tuple[str, ...]:
    """Return the kinds of a bag's objects in order, custom resources with their group.

    Raises:
        InvalidRequest: The body is no JSON array of objects; submit never stores one.
    """
    # Every manifest has a key "kind", so one that stands once is one manifest, and that is a pod; a backslash could
    # hide another. This spares reading JSON for nearly all bodies.
    if body.count(b'"kind"') == 1 and b"\\" not in body:
        return (POD_KIND,)
    try:
        return tuple(
            kind_name(str(manifest["kind"]), str(manifest.get("apiVersion") or "")) for manifest in json.loads(body)
        )
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise InvalidRequest("a spec's body is not a JSON array of manifests") from cause


def _objects(values: tuple[Any, ...]) -> npt.NDArray[np.object_]:
    """Return values as an object array with None behind them, so that index -1 gives None."""
    array = np.full(len(values) + 1, None, dtype=np.object_)
    for place, value in enumerate(values):
        array[place] = value
    return array


def add_rows(table: RunTable, rows: RunRows) -> TakenRows:
    """Put rows into the table; rows that are there already change nothing.

    Args:
        table: Where the objects are.
        rows: What the leader sent.

    Raises:
        InvalidRequest: A body cannot be read; nothing was taken.
    """
    key_column = run_keys(rows.handle_column, rows.attempt_column)
    keys = key_column.tolist()
    kinds = [kinds_of_body(body) for body in rows.bodies]
    is_single = np.array([len(found) == 1 for found in kinds], dtype=np.bool_)
    tables = _objects(rows.bodies), _objects(rows.nodes), _objects(rows.metadata), _objects(rows.owners)
    fresh = np.fromiter((key not in table.index and key not in table.bags for key in keys), np.bool_, len(keys))
    simple = np.flatnonzero(fresh & is_single[rows.spec_column]) if keys else np.zeros(0, dtype=np.int64)
    simple_keys = key_column[simple]
    if len(set(simple_keys.tolist())) != simple.size:
        simple = np.sort(np.unique(key_column, return_index=True)[1])
        simple = simple[(fresh & is_single[rows.spec_column])[simple]]
        simple_keys = key_column[simple]
    slots = table.allocate(simple.size)
    seen = rows.seen_column[simple]
    table.key[slots] = simple_keys
    _fill(table, slots, rows, simple, tables=tables)
    table.index.update(zip(simple_keys.tolist(), slots.tolist(), strict=True))
    looked_at = [slots[~seen]]
    missing: list[int] = slots[seen].tolist()
    if simple.size != len(keys):
        done = set(simple.tolist())
        for place in range(len(keys)):
            if place not in done:
                found = kinds[rows.spec_column[place]]
                was_seen = bool(rows.seen_column[place])
                bag_slots = _add_bag(table, keys[place], found, missing, was_seen=was_seen)
                if bag_slots:
                    added = np.array(bag_slots, dtype=np.int64)
                    _fill(table, added, rows, np.full(added.size, place), tables=tables)
                    looked_at.append(added)
    return TakenRows(slots=np.concatenate(looked_at), missing=np.array(missing, dtype=np.int64))


def _fill(
    table: RunTable,
    slots: Int64Array,
    rows: RunRows,
    places: Int64Array,
    *,
    tables: tuple[npt.NDArray[np.object_], ...],
) -> None:
    """Write what objects are created from."""
    bodies, nodes, metadata, owners = tables
    table.is_wanted[slots] = True
    table.was_seen[slots] |= rows.seen_column[places]
    table.id_high[slots] = rows.id_high_column[places]
    table.body[slots] = bodies[rows.spec_column[places]]
    table.node[slots] = nodes[rows.node_column[places]]
    table.metadata[slots] = metadata[rows.metadata_column[places]]
    table.owner[slots] = owners[rows.owner_column[places]]


def _add_bag(table: RunTable, key: int, kinds: tuple[str, ...], missing: list[int], *, was_seen: bool) -> list[int]:
    """Make a run known with all its objects; return all its slots, or none if its row is here already.

    Objects that are not there although a pod of the run was seen, now or before, go to `missing`.
    """
    known = table.slots_of_run(key)
    if known and table.is_wanted[known].any():
        return []
    was_seen = was_seen or any(table.phase[slot] != Phase.ABSENT for slot in table.pods(known))
    is_stopped = bool(table.stop[known].any())
    if len(kinds) > 1:
        table.open_bag(key, len(kinds))
    for position, kind in enumerate(kinds):
        bag = table.bags.get(key)
        slot = bag[position] if bag is not None else table.index.get(key, -1)
        if slot < 0:
            slot = int(table.allocate(1)[0])
            table.key[slot] = key
            table.object[slot] = position
            table.put_in_bag(key, position, slot)
            table.stop[slot] = is_stopped
            if was_seen:
                missing.append(slot)
        table.kind[slot] = table.kind_index(kind)
    return table.slots_of_run(key)

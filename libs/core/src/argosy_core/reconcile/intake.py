"""Taking into the table what is new in it: the leader's rows and stops, and objects that are seen first.

Source: design section 5, "Sync": "rows it does not have come down with each spec sent once".
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.kinds import kind_name
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Observations, RunRows
from argosy_core.reconcile.homes import homes_of_body, is_one_pod
from argosy_core.reconcile.kind_table import POD_KIND
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable, Stop

__all__ = ["TakenRows", "add_rows", "find_or_add", "kinds_of_body", "mark_stopped"]

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
    if is_one_pod(body):
        return (POD_KIND,)
    try:
        return tuple(
            kind_name(str(manifest["kind"]), str(manifest.get("apiVersion") or "")) for manifest in json.loads(body)
        )
    except (ValueError, TypeError, KeyError, AttributeError) as cause:
        raise InvalidRequest("a spec's body is not a JSON array of manifests") from cause


def add_rows(table: ObjectTable, rows: RunRows) -> TakenRows:
    """Put rows into the table; rows that are there already change nothing.

    Args:
        table: Where the objects are.
        rows: What the leader sent.

    Raises:
        InvalidRequest: A body cannot be read; nothing was taken.
    """
    members = Members(rows.handle_column, rows.ordinal_column)
    kinds = [kinds_of_body(body) for body in rows.bodies]
    homes = [homes_of_body(body) for body in rows.bodies]
    # What stands twice in a message is taken as one that is known when it comes the second time.
    is_first = np.ones(len(members), dtype=np.bool_)
    if not members.are_distinct():
        is_first[:] = False
        is_first[members.waves()[0]] = True
    is_known = table.index.lookup(*members.columns) >= 0
    if table.bags:
        is_known |= np.array([key in table.bags for key in members.pairs()], dtype=np.bool_)
    is_fresh = is_first & ~is_known
    slots, places = _add_fresh(table, members, rows.spec_column, fresh=true_places(is_fresh), kinds=kinds)
    missing = slots[rows.seen_column[places]].tolist()
    later = true_places(~is_fresh)
    if later.size:
        added, added_places = [slots], [places]
        for place, key in zip(later.tolist(), members[later].pairs(), strict=True):
            was_seen = bool(rows.seen_column[place])
            known = _complete(table, key, kinds[rows.spec_column[place]], missing, was_seen=was_seen)
            added.append(np.array(known, dtype=np.int64))
            added_places.append(np.full(len(known), place))
        slots, places = np.concatenate(added), np.concatenate(added_places)
    _settle(table, slots, rows.spec_column[places], homes)
    _fill(table, slots, rows, places)
    if not missing:
        return TakenRows(slots=slots, missing=slots[:0])
    is_missing = np.isin(slots, missing)
    return TakenRows(slots=slots[~is_missing], missing=slots[is_missing])


def _add_fresh(
    table: ObjectTable,
    members: Members,
    specs: npt.NDArray[np.int32],
    *,
    fresh: Int64Array,
    kinds: list[tuple[str, ...]],
) -> tuple[Int64Array, Int64Array]:
    """Make runs known of which nothing is; return (slots of their objects, place of each one's row).

    Args:
        table: Where to put them.
        members: Member of every row.
        specs: Index into `kinds` of every row.
        fresh: Places of the runs' rows.
        kinds: Kinds of the objects of each spec.
    """
    if all(len(found) == 1 for found in kinds):  # as nearly always
        numbers = table.kind_numbers([found[0] for found in kinds])
        slots = table.add(members[fresh], kinds=numbers[specs[fresh]])
        table.has_row[slots] = True
        table.index.insert(*members[fresh].columns, slots=slots.astype(np.int32))
        return slots, fresh
    sizes = np.array([len(found) for found in kinds], dtype=np.int64)[specs[fresh]]
    firsts = np.cumsum(sizes) - sizes
    places = np.repeat(fresh, sizes)
    positions = np.arange(places.size) - np.repeat(firsts, sizes)
    numbers = table.kind_numbers([kind for found in kinds for kind in found])
    offsets = np.cumsum([0, *(len(found) for found in kinds)])
    slots = table.add(members[places], positions=positions, kinds=numbers[offsets[specs[places]] + positions])
    table.has_row[slots] = True
    table.is_bag[slots] = np.repeat(sizes > 1, sizes)
    table.index.insert(*members[fresh].columns, slots=slots[firsts].astype(np.int32))
    bags = true_places(sizes > 1)
    for row, key in zip(bags.tolist(), members[fresh[bags]].pairs(), strict=True):
        table.bags[key] = slots[firsts[row] : firsts[row] + sizes[row]].tolist()
    return slots, places


def _settle(table: ObjectTable, slots: Int64Array, specs: npt.NDArray[np.int32], homes: list[list[int]]) -> None:
    """Note in which namespace each object is made.

    Args:
        table: Where the objects are.
        slots: Which.
        specs: Index into `homes` of each object's bag.
        homes: Numbers of the namespaces of each bag's objects.
    """
    if all(len(bag) == 1 for bag in homes) and not has_true(table.object[slots]):  # as nearly always
        table.home[slots] = np.array([bag[0] for bag in homes], dtype=np.int64)[specs]
        return
    offsets = np.cumsum([0, *(len(bag) for bag in homes)])
    places = offsets[specs] + table.object[slots]
    is_named = places < offsets[1:][specs]
    flat = np.array([home for bag in homes for home in bag], dtype=np.int64)
    table.home[slots[is_named]] = flat[places[is_named]]


def _fill(table: ObjectTable, slots: Int64Array, rows: RunRows, places: Int64Array) -> None:
    """Keep what objects are created from that are not there."""
    is_absent = table.phase[slots] == Phase.ABSENT
    slots, places = slots[is_absent], places[is_absent]
    nodes, metadata, owners = (*rows.nodes, None), (*rows.metadata, None), (*rows.owners, None)
    recipes = zip(
        rows.id_high_column[places].tolist(),
        [rows.bodies[spec] for spec in rows.spec_column[places].tolist()],
        [nodes[node] for node in rows.node_column[places].tolist()],
        [metadata[index] for index in rows.metadata_column[places].tolist()],
        [owners[owner] for owner in rows.owner_column[places].tolist()],
        strict=True,
    )
    table.recipe[slots] = np.fromiter(recipes, dtype=np.object_, count=slots.size)
    for slot in slots[rows.seen_column[places]].tolist():
        table.trouble(slot).was_reported = True


def _complete(
    table: ObjectTable, key: tuple[int, int], kinds: tuple[str, ...], missing: list[int], *, was_seen: bool
) -> list[int]:
    """Make all objects known of a run of which some are; return their slots, or none if its row is here already.

    Objects that are not there although a pod of the run was seen, now or before, go to `missing`.
    """
    known = table.slots_of(key)
    if has_true(table.has_row[known]):
        return []
    was_seen = was_seen or any(table.kind[slot] == 0 and table.phase[slot] != Phase.ABSENT for slot in known)
    stop = min(int(table.stop[known].max(initial=0)), Stop.WANTED)
    if len(kinds) > 1:
        table.open_bag(key, len(kinds))
    numbers = table.kind_numbers(list(kinds))
    for position, number in enumerate(numbers.tolist()):
        bag = table.bags.get(key)
        slot = bag[position] if bag is not None else table.head_of(key)
        if slot < 0:
            slot = int(table.add(Members.of_key(key), positions=position)[0])
            table.put_in_bag(key, position, slot)
            table.stop[slot] = stop
            if was_seen:
                missing.append(slot)
        table.kind[slot] = number
    slots = table.slots_of(key)
    table.has_row[slots] = True
    return slots


def mark_stopped(table: ObjectTable, members: Members) -> Int64Array:
    """Mark the objects of members of runs as not wanted, unknown ones included; return their slots."""
    members = members.distinct()
    slots = table.index.lookup(*members.columns)
    is_single = (slots >= 0) & ~table.is_bag[slots]
    bags = [table.bags.get(key) for key in members[~is_single].pairs()]
    unknown = members[~is_single][np.array([bag is None for bag in bags], dtype=np.bool_)]
    added = table.add(unknown)
    table.index.insert(*unknown.columns, slots=added.astype(np.int32))
    in_bags = np.array([slot for bag in bags if bag for slot in bag if slot >= 0], dtype=np.int64)
    touched = np.concatenate([slots[is_single].astype(np.int64), in_bags, added])
    table.stop[touched] = np.maximum(table.stop[touched], int(Stop.WANTED))
    return touched


def find_or_add(table: ObjectTable, member: Members, observed: Observations, place: int) -> int:
    """Return the slot of an object that was not known when its batch came; -1 if it is gone already."""
    position = int(observed.object_column[place])
    (key,) = member.pairs()
    found = int(table.find(member, observed.object_column[place : place + 1])[0])
    if found >= 0 or observed.gone_column[place]:
        return found
    kinds = table.kind_numbers([observed.kinds[observed.kind_column[place]]])
    slot = int(table.add(member, positions=position, kinds=kinds)[0])
    siblings = np.array(table.slots_of(key), dtype=np.int64)
    if siblings.size or position:
        table.put_in_bag(key, position, slot)
        end = int(table.end_states(siblings, 0).max(initial=0))
        if end:
            table.trouble(slot).end_state = end
        table.stop[slot] = min(int(table.stop[siblings].max(initial=0)), int(Stop.WANTED))
    else:
        table.index.insert(*member.columns, slots=np.array([slot], dtype=np.int32))
    return slot

"""Whether nodes could ever hold a pod, how many do now, and what is missing if none could.

Asked of what samplers have told of their nodes, so that an answer waits for nobody. Filters of a site's own, and host
ports that are taken, are not known there.

Source: seed 004 "Filters" (Explain); design section 9, "counts and the nearest miss".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.framework import ClassTable, Cycle, Framework
from argosy_core.job.reading.classes import MatchExpression, SchedulingClass
from argosy_core.nodes import HOSTNAME_LABEL, NodeFlag, NodeGroup, NodeTable
from argosy_core.plugins.explanations import count_and_compare
from argosy_core.plugins.registry import DEFAULT_PROFILE, FILTERS, Profile, build_framework
from argosy_core.plugins.selection import NAME_FIELD, holds
from argosy_core.resources import format_amount

__all__ = ["ClusterFit", "find_missing", "judge"]

Bools = npt.NDArray[np.bool_]

_READY: Final = np.uint8(NodeFlag.READY)
_LASTING: Final = tuple(name for name in FILTERS if name != "node-ready")
"""Filters of what a node is, whatever state it is in."""
_UNSIZED: Final = tuple(name for name in _LASTING if name not in {"resources", "host-ports"})
_MOST_VALUES: Final = 5
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFit:
    """How the nodes of one cluster suit a scheduling class."""

    node_count: int
    """Nodes."""
    fitting_count: int
    """Nodes that could take a pod of it now."""
    able_count: int
    """Nodes that could hold one if nothing else ran there and they were in use, whatever their state."""
    usable_count: int
    """Those of them that are ready and not cordoned."""
    cordoned: tuple[str, ...] = ()
    """Names of the first three of them that are cordoned."""
    largest: str = ""
    """Which of them holds most pods of it; empty for none."""
    largest_amounts: Mapping[str, int]
    """What that node has, base units by resource that the class asks for."""
    filters: tuple[str, ...]
    """Names of the filters."""
    filter_texts: tuple[str, ...]
    """What to say of the nodes that each turned away."""
    rejections: tuple[int, ...]
    """Nodes that each turned away first."""
    nearest_miss: str
    """The node that came closest to taking one now, and what it lacks."""


def judge(table: NodeTable, definition: SchedulingClass) -> ClusterFit:
    """Return how nodes suit a class, a gang's by those of its pods that fewest could hold.

    Complexity: O(filters x nodes) in NumPy for each sub-group.
    """
    if definition.gang:
        return min((judge(table, group.pod) for group in definition.gang), key=lambda fit: fit.able_count)
    framework, classes = build_framework(DEFAULT_PROFILE), _classes(table, definition)
    one = np.zeros(1, np.int32)
    counts, nearest = count_and_compare(framework, table, classes, one)
    live = table.live()
    able = live[_passing(table, classes, _LASTING)]
    usable = able[table.flags[able] == _READY]
    cordoned = able[table.flags[able] & NodeFlag.CORDONED != 0]
    best, amounts = "", dict[str, int]()
    if able.size:
        asked = np.flatnonzero(classes.requests[0])
        fits = table.allocatable[np.ix_(asked, able)] // classes.requests[0, asked, None]
        row = int(able[fits.min(axis=0).argmax()])
        best = table.names[row]
        amounts = {name: int(table.allocatable[table.axis.index(name), row]) for name, _ in definition.requests}
    turned_away = counts[0].tolist()
    return ClusterFit(
        node_count=live.size,
        fitting_count=live.size - sum(turned_away),
        able_count=able.size,
        usable_count=usable.size,
        cordoned=tuple(table.names[row] for row in cordoned[:_NAMED].tolist()),
        largest=best,
        largest_amounts=amounts,
        filters=framework.filter_names,
        filter_texts=framework.filter_texts,
        rejections=tuple(turned_away),
        nearest_miss=nearest[0].text() if nearest[0] is not None else "",
    )


def find_missing(tables: Mapping[str, NodeTable], definition: SchedulingClass) -> tuple[str, ...]:
    """Return what a class asks for that no node of any cluster has, for people; empty if some node could hold it.

    Args:
        tables: Nodes by cluster.
        definition: The class.

    Complexity: O(filters x nodes) in NumPy, Python work per distinct group of nodes.
    """
    if definition.gang:
        return next(filter(None, (find_missing(tables, group.pod) for group in definition.gang)), ())
    if any(_passing(table, _classes(table, definition), _LASTING).any() for table in tables.values()):
        return ()
    groups = [table.groups[at] for table in tables.values() for at in np.unique(table.group[table.live()]).tolist()]
    if not groups:
        return ("no cluster has told of any node",)
    names = {name for table in tables.values() for name in (table.names[row] for row in table.live().tolist())}
    texts = [
        *_missing_labels(definition, groups, names),
        *_missing_platform(definition, groups),
        *_missing_amounts(tables, definition),
    ]
    if texts:
        return tuple(texts)
    untolerating = replace(definition, tolerations=())
    kept = {"node-selector", "platform", "resources"}
    suiting = [
        table.groups[at]
        for table in tables.values()
        for at in np.unique(table.group[table.live()[_passing(table, _classes(table, untolerating), kept)]]).tolist()
    ]
    if suiting:
        taints = sorted({f"{taint.key}={taint.value}:{taint.effect}" for group in suiting for taint in group.taints})
        return (f"it does not tolerate the taints of every node that suits it: {_some(taints)}",)
    return (_missing_together(tables, definition),)


def _classes(table: NodeTable, definition: SchedulingClass) -> ClassTable:
    """Return a class as number 0 of a table of classes with the resources of the nodes."""
    classes = ClassTable(table.axis)
    classes.define(0, definition)
    table.extend_axis(classes.axis.names)
    return classes


def _passing(table: NodeTable, classes: ClassTable, names: tuple[str, ...] | set[str]) -> Bools:
    """Return which live nodes pass some filters for class 0 if nothing runs there."""
    framework: Framework = build_framework(Profile(filters=tuple(names)))
    live = table.live()
    cycle = Cycle(table.emptied(), classes.batch(np.zeros(1, np.int32)), live[None, :].astype(np.intp))
    passed: Bools = np.broadcast_to(framework.filter(cycle), (1, live.size))[0]
    return passed


def _missing_labels(definition: SchedulingClass, groups: list[NodeGroup], names: set[str]) -> list[str]:
    """Return which labels and names that a class selects no node has, with the values that there are."""
    texts = []
    if definition.node_name and definition.node_name not in names:
        texts.append(f"there is no node {definition.node_name}")
    wanted = [MatchExpression(key, "In", (value,)) for key, value in definition.node_selector]
    terms = [*definition.affinity] if len(definition.affinity) == 1 else []
    for expression in [*wanted, *(one for term in terms for one in term)]:
        if expression.key in {HOSTNAME_LABEL, NAME_FIELD}:
            values: set[str] = names
        else:
            values = {dict(group.labels).get(expression.key, "") for group in groups}
        if any(holds(expression, value or None) for value in values):
            continue
        present = sorted(values - {""})
        there = f"nodes have {expression.key}={_some(present)}" if present else f"no node has a label {expression.key}"
        texts.append(f"no node has {_expression_text(expression)}; {there}")
    return texts


def _missing_platform(definition: SchedulingClass, groups: list[NodeGroup]) -> list[str]:
    """Return which platform is missing."""
    there = sorted({"/".join(group.platform) for group in groups})
    if not definition.platforms or any(
        os in {"", group.platform[0]} and architecture in {"", group.platform[1]}
        for os, architecture in definition.platforms
        for group in groups
    ):
        return []
    wanted = sorted("/".join(part or "any" for part in platform) for platform in definition.platforms)
    return [f"no node runs {_some(wanted)}; nodes run {_some(there)}"]


def _missing_amounts(tables: Mapping[str, NodeTable], definition: SchedulingClass) -> list[str]:
    """Return of which resources no node has as much, with the largest node."""
    texts = []
    for name, amount in definition.requests:
        most, where = -1, ""
        for cluster, table in tables.items():
            live = table.live()
            column = table.allocatable[table.axis.index(name)][live]
            if live.size and int(column.max()) > most:
                most, where = int(column.max()), f"{cluster}/{table.names[int(live[column.argmax()])]}"
        if amount > most:
            has = f"the largest node, {where}, has {format_amount(name, most)}" if most > 0 else "no node has any"
            texts.append(f"it asks for {format_amount(name, amount)} {name}, and {has}")
    return texts


def _missing_together(tables: Mapping[str, NodeTable], definition: SchedulingClass) -> str:
    """Return what is missing where each thing is somewhere, but never all on one node."""
    best = dict.fromkeys((name for name, _ in definition.requests), 0)
    found = 0
    for table in tables.values():
        rows = table.live()[_passing(table, _classes(table, definition), _UNSIZED)]
        found += rows.size
        for name in best:
            best[name] = max(best[name], int(table.allocatable[table.axis.index(name)][rows].max(initial=0)))
    if not found:
        return "nodes have each label, platform or toleration that it asks for, but no node has all of them"
    short = [f"{format_amount(name, best[name])} {name}" for name, amount in definition.requests if amount > best[name]]
    has = f"has more than {', '.join(short)}" if short else "has all that it asks for at once"
    return f"none of the {found:,} nodes that its selectors and tolerations allow {has}"


def _expression_text(expression: MatchExpression) -> str:
    """Return an expression as one reads it."""
    if expression.operator == "In":
        return f"{expression.key}={_some(expression.values)}"
    return f"{expression.key} {expression.operator} {_some(expression.values)}".rstrip()


def _some(values: tuple[str, ...] | list[str]) -> str:
    """Return the first of several values."""
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(values[:_MOST_VALUES]) + more

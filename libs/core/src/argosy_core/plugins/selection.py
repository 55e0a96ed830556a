"""Filter `node-selector`: labels, required node affinity, node name.

Operators are those of Kubernetes: NotIn and DoesNotExist also hold where the label is missing; Gt and Lt compare
integers and fail where either side is none. A field `metadata.name` compares the node's name.

Source: seed 004 "Filters" (user-specified constraints); design section 9, "Kubernetes conventions".
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.framework import ClassTable, Cycle, Selector
from argosy_core.job.reading.classes import MatchExpression
from argosy_core.nodes import HOSTNAME_LABEL, PER_NODE_LABELS, NodeGroup, NodeTable
from argosy_core.plugins.groups import GroupResults

__all__ = ["NodeSelectorFilter", "holds", "selects_group"]

Bools = npt.NDArray[np.bool_]

NAME_FIELD: Final = "metadata.name"
_PER_NODE_KEYS: Final = PER_NODE_LABELS | {NAME_FIELD}
_INTEGER: Final = re.compile(r"[+-]?\d{1,19}")


def holds(expression: MatchExpression, value: str | None) -> bool:
    """Return whether an expression holds for a label's value, None meaning that there is no such label."""
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            bound = expression.values[0] if len(expression.values) == 1 else ""
            if value is None or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
                return False
            return int(value) > int(bound) if expression.operator == "Gt" else int(value) < int(bound)


def selects_group(selector: Selector, group: NodeGroup) -> bool:
    """Return whether a selector that names no single node accepts a group."""
    labels = dict(group.labels)
    if any(labels.get(key) != value for key, value in selector.node_selector):
        return False
    return not selector.affinity or any(
        all(holds(expression, labels.get(expression.key)) for expression in term) and bool(term)
        for term in selector.affinity
    )


def _names_nodes(selector: Selector) -> bool:
    """Return whether a selector looks at something that each node has for itself."""
    return (
        bool(selector.node_name)
        or any(key in _PER_NODE_KEYS for key, _ in selector.node_selector)
        or any(expression.key in _PER_NODE_KEYS for term in selector.affinity for expression in term)
    )


class NodeSelectorFilter:
    """Filter `node-selector`. Selectors on labels are evaluated per group, those that name nodes once per node."""

    def __init__(self) -> None:
        """Start with nothing evaluated."""
        self._classes: ClassTable | None = None
        self._answers = GroupResults(self._selects)
        self._naming: list[bool] = []
        self._per_node: dict[int, tuple[int, Bools]] = {}

    def __call__(self, cycle: Cycle) -> Bools | None:
        """Return (k, n): which nodes the pods' selectors accept; None if no pod has one."""
        pods = cycle.pods
        if not pods.selector.any():
            return None
        self._prepare(pods.table)
        passed = self._answers.look_up(cycle.table.groups, len(pods.table.selectors), pods.selector, cycle.group())
        naming = [number for number in np.unique(pods.selector).tolist() if self._naming[number]]
        if naming:
            passed = np.array(np.broadcast_to(passed, cycle.shape))
            nodes = np.broadcast_to(cycle.nodes, cycle.shape)
            for number in naming:
                rows = pods.selector == number
                passed[rows] = self._node_mask(number, cycle.table)[nodes[rows]]
        return passed

    def _prepare(self, classes: ClassTable) -> None:
        """Learn which selectors name nodes; forget everything if another class table is asked about."""
        if self._classes is not classes:
            self._classes = classes
            self._answers = GroupResults(self._selects)
            self._naming.clear()
            self._per_node.clear()
        for number in range(len(self._naming), len(classes.selectors)):
            self._naming.append(_names_nodes(classes.selectors[number]))

    def _selects(self, number: int, group: NodeGroup) -> bool:
        """Return whether the selector of a number accepts a group; those that name nodes are not asked here."""
        assert self._classes is not None
        return not self._naming[number] and selects_group(self._classes.selectors[number], group)

    def _node_mask(self, number: int, table: NodeTable) -> Bools:
        """Return (node,): which rows a selector that names nodes accepts."""
        assert self._classes is not None
        known = self._per_node.get(number)
        if known is None or known[0] != table.membership:
            mask = _evaluate_per_node(self._classes.selectors[number], table)
            known = self._per_node[number] = (table.membership, mask)
        return known[1]


def _evaluate_per_node(selector: Selector, table: NodeTable) -> Bools:
    """Return (node,): which rows a selector accepts, looking at each node's own name and labels."""
    mask = np.ones(len(table), np.bool_)
    if selector.node_name:
        mask &= _in_names(table, (selector.node_name,))
    for key, value in selector.node_selector:
        mask &= _expression_mask(MatchExpression(key, "In", (value,)), table)
    if selector.affinity:
        any_term = np.zeros(len(table), np.bool_)
        for term in selector.affinity:
            all_hold = np.full(len(table), bool(term))
            for expression in term:
                all_hold &= _expression_mask(expression, table)
            any_term |= all_hold
        mask &= any_term
    return mask


def _expression_mask(expression: MatchExpression, table: NodeTable) -> Bools:
    """Return (node,): for which rows an expression holds."""
    if expression.key == NAME_FIELD and expression.operator in {"In", "NotIn"}:
        named = _in_names(table, expression.values)
        return named if expression.operator == "In" else ~named
    if expression.key in _PER_NODE_KEYS:
        values = table.names if expression.key == NAME_FIELD else [name or None for name in table.hostnames]
        return np.fromiter((holds(expression, value) for value in values), np.bool_, len(table))
    by_group = [
        holds(expression, dict(table.groups[index].labels).get(expression.key)) for index in range(len(table.groups))
    ]
    return np.asarray(np.array(by_group, np.bool_)[table.group])


def _in_names(table: NodeTable, names: tuple[str, ...]) -> Bools:
    """Return (node,): the rows of the given names."""
    mask = np.zeros(len(table), np.bool_)
    rows = table.index_of(names)
    mask[rows[rows >= 0]] = True
    return mask


assert frozenset({HOSTNAME_LABEL}) == PER_NODE_LABELS, "NodeTable keeps no other label per node"

"""Nodes: the node table as structure of arrays, and groups of nodes that selectors see alike."""

from argosy_core.nodes.claims import PortClaims
from argosy_core.nodes.groups import HOSTNAME_LABEL, PER_NODE_LABELS, GroupTable, NodeGroup, Taint
from argosy_core.nodes.room import Asked, Room
from argosy_core.nodes.table import DEFAULT_POD_COUNT, NodeColumns, NodeFlag, NodeSpec, NodeTable, NodeTotals

__all__ = [
    "DEFAULT_POD_COUNT",
    "HOSTNAME_LABEL",
    "PER_NODE_LABELS",
    "Asked",
    "GroupTable",
    "NodeColumns",
    "NodeFlag",
    "NodeGroup",
    "NodeSpec",
    "NodeTable",
    "NodeTotals",
    "PortClaims",
    "Room",
    "Taint",
]

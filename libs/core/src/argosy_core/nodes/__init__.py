"""Nodes: the node table as structure of arrays, and groups of nodes that selectors see alike."""

from argosy_core.nodes.claims import PortClaims
from argosy_core.nodes.groups import HOSTNAME_LABEL, PER_NODE_LABELS, GroupTable, NodeGroup, Taint
from argosy_core.nodes.records import ANY_NODE, NodeColumns, NodeFlag, NodeSpec
from argosy_core.nodes.room import Room
from argosy_core.nodes.table import NodeTable

__all__ = [
    "ANY_NODE",
    "HOSTNAME_LABEL",
    "PER_NODE_LABELS",
    "GroupTable",
    "NodeColumns",
    "NodeFlag",
    "NodeGroup",
    "NodeSpec",
    "NodeTable",
    "PortClaims",
    "Room",
    "Taint",
]

"""The scheduling framework: extension points, who is called at them, and what they are given."""

from argosy_core.framework.adapters import NodeView, PodView, per_node_filter, per_node_score, view_node
from argosy_core.framework.binding import BindBatch
from argosy_core.framework.candidates import CandidateCycle, Entries
from argosy_core.framework.cycle import Cycle, NodesChanged, PlacementBatch
from argosy_core.framework.faults import Fault, NotNow, PluginFaults
from argosy_core.framework.framework import Framework
from argosy_core.framework.jobs import JobBatch, objects
from argosy_core.framework.permits import PermitBatch, Verdicts
from argosy_core.framework.pods import ClassTable, PartTable, PodBatch, Selector
from argosy_core.framework.points import BINDING, COMMIT, DECISION, SAMPLING, Point, ProfileKind, Registration

__all__ = [
    "BINDING",
    "COMMIT",
    "DECISION",
    "SAMPLING",
    "BindBatch",
    "CandidateCycle",
    "ClassTable",
    "Cycle",
    "Entries",
    "Fault",
    "Framework",
    "JobBatch",
    "NodeView",
    "NodesChanged",
    "NotNow",
    "PartTable",
    "PermitBatch",
    "PlacementBatch",
    "PluginFaults",
    "PodBatch",
    "PodView",
    "Point",
    "ProfileKind",
    "Registration",
    "Selector",
    "Verdicts",
    "objects",
    "per_node_filter",
    "per_node_score",
    "view_node",
]

"""The scheduling framework: extension points, the cycle that calls them, and the pods that wait for a permit."""

from argosy_core.framework.adapters import NodeView, PodView, per_node_filter, per_node_score, view_node
from argosy_core.framework.cycle import Assignment, Cycle, Fault
from argosy_core.framework.framework import Framework, PluginError
from argosy_core.framework.permits import WaitingPod, WaitingPods
from argosy_core.framework.pods import ClassTable, PartTable, PodBatch, Selector
from argosy_core.framework.points import PermitAnswer, PermitVerdict, Point, Registration
from argosy_core.framework.scheduling import CycleOutcome, CycleStatus, bind, cancel, expire, schedule

__all__ = [
    "Assignment",
    "ClassTable",
    "Cycle",
    "CycleOutcome",
    "CycleStatus",
    "Fault",
    "Framework",
    "NodeView",
    "PartTable",
    "PermitAnswer",
    "PermitVerdict",
    "PluginError",
    "PodBatch",
    "PodView",
    "Point",
    "Registration",
    "Selector",
    "WaitingPod",
    "WaitingPods",
    "bind",
    "cancel",
    "expire",
    "per_node_filter",
    "per_node_score",
    "schedule",
    "view_node",
]

"""Autoscaling: how many compute units a running pod needs next, and the agent that brings it there step by step.

It owns the predictor and the agent's machine. It imports the core's resources and, for annotations, its ledger, and is
used by the agent service and its benchmarks. Begin with `pod` (the life of one pod's size), then `agent` (all pods of
one); docs/autoscale.md draws them.

Source: 001 "Deep dive into resource management"; docs/autoscale.md.
"""

from argosy_core.autoscale.agent import Agent, next_actions
from argosy_core.autoscale.amounts import Amounts
from argosy_core.autoscale.pod import AgentSettings, PodScaling
from argosy_core.autoscale.predictor import DemandHistory, Horizon, PredictorSettings, demand_units

__all__ = [
    "Agent",
    "AgentSettings",
    "Amounts",
    "DemandHistory",
    "Horizon",
    "PodScaling",
    "PredictorSettings",
    "demand_units",
    "next_actions",
]

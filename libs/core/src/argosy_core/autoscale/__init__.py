"""Autoscaling: how many compute units a running pod needs next.

Source: 001 "Deep dive into resource management"; docs/autoscale.md.
"""

from argosy_core.autoscale.predictor import DemandHistory, Horizon, PredictorSettings, demand_units

__all__ = ["DemandHistory", "Horizon", "PredictorSettings", "demand_units"]

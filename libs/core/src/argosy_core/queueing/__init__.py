"""Queues: flow, order within a queue, progressive filling, and the exact max-min yardstick.

Source: 003 "Resource usage and fairness", "Global prioritisation".
"""

from argosy_core.queueing.filling import Filled, FillingLimits, FillingQueues, fill, next_turn, walk
from argosy_core.queueing.flow import advance_flow, flow_keys, time_to_level_s
from argosy_core.queueing.limits import RATE_BURST_S, Excess, QueueLimits, keep_within
from argosy_core.queueing.order import Backlog, Entries, heads_of_all
from argosy_core.queueing.tree import QueueTree
from argosy_core.queueing.usage import MICRO, most_usage, percent_text, to_cores, weigh_vector
from argosy_core.queueing.water_filling import fill_water, fill_water_of
from argosy_core.queueing.weights import ResourceWeights, StoredWeight

__all__ = [
    "MICRO",
    "RATE_BURST_S",
    "Backlog",
    "Entries",
    "Excess",
    "Filled",
    "FillingLimits",
    "FillingQueues",
    "QueueLimits",
    "QueueTree",
    "ResourceWeights",
    "StoredWeight",
    "advance_flow",
    "fill",
    "fill_water",
    "fill_water_of",
    "flow_keys",
    "heads_of_all",
    "keep_within",
    "most_usage",
    "next_turn",
    "percent_text",
    "time_to_level_s",
    "to_cores",
    "walk",
    "weigh_vector",
]

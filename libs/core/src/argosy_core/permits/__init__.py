"""The permit service: what agents that resize pods are answered, out of the node ledger.

Source: seed 001; docs/autoscale.md "Permits".
"""

from argosy_core.permits.messages import (
    AgentHello,
    AgentMessage,
    Directive,
    Directives,
    Goodbye,
    Heartbeat,
    Inventory,
    PermitRequest,
    Permits,
    Refusals,
    Reply,
    Welcome,
)
from argosy_core.permits.sessions import Outcome, PermitService

__all__ = [
    "AgentHello",
    "AgentMessage",
    "Directive",
    "Directives",
    "Goodbye",
    "Heartbeat",
    "Inventory",
    "Outcome",
    "PermitRequest",
    "PermitService",
    "Permits",
    "Refusals",
    "Reply",
    "Welcome",
]

"""How patient an agent is.

Source: docs/autoscale.md "The agent".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AgentSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How patient an agent is; all in seconds but the last."""

    request_timeout_s: float = 10.0
    """When a request without an answer is repeated."""
    refused_retry_s: float = 15.0
    """When a refused request is tried again, unless the refusal says."""
    resize_timeout_s: float = 2.0
    """Longest time from a resize to its end at the API server: what was not done by then is not done. The sampler's
    margin behind the end of a lease must be longer."""
    resize_retry_s: float = 5.0
    """When a resize that did not come to pass is tried again."""
    confirm_timeout_s: float = 60.0
    """When a node that has not taken a size up may be asked for another."""
    deferred_timeout_s: float = 30.0
    """How long a node may say that it has no room now, before the size is taken back and its booking released."""
    hold_s: float = 60.0
    """For how long a pod does not grow after its node refused to, or another actor resized it."""
    metrics_timeout_s: float = 60.0
    """Longest time that one sample of metrics speaks for."""
    out_of_memory_hold_s: float = 86_400.0
    """For how long a pod that ran out of memory keeps at least what it then got."""
    contract_interval_s: float = 5.0
    """How often a pod with a contract is asked what it needs, beside when it is to shrink."""
    contract_timeout_s: float = 1.0
    """How long it may take to answer."""
    contract_answer_s: float = 15.0
    """For how long an answer counts."""
    contract_hold_s: float = 600.0
    """For how long at a stretch a pod's word may keep it above what its use says; then it counts for nothing for as
    long."""
    max_units: int = 64
    """Largest size of any pod, compute units; larger bounds of a policy count as this."""

    def __post_init__(self) -> None:
        """Refuse times that are none.

        Raises:
            ValueError: A value is not above 0.
        """
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")

"""Settings of the leader machine.

Source: design section 5, "Round", "Ingest", "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.scheduler import RoundSettings

__all__ = ["MachineSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """When a leader's rounds begin, how long it waits, and how much may wait for it. Units are in the names."""

    round: RoundSettings = field(default_factory=RoundSettings)
    """How rounds order, sample, decide and retry."""
    window_idle_s: float = 0.005
    """A round begins once nothing arrived for this long (design: 5 ms)."""
    window_max_s: float = 0.05
    """A round begins at the latest this long after the first arrival (design: 50 ms)."""
    retry_s: float = 0.05
    """A round that tried something is followed by another after this long, without news."""
    busy_s: float = 0.2
    """Least time between the beginnings of two rounds at `busy_jobs_per_s` and above; 0 for no throttle."""
    busy_jobs_per_s: float = 7500.0
    """Jobs per second at which rounds are rarest."""
    read_wait_s: float = 0.0
    """How long a round that is due waits for changes to be read; 0 if the shell tells them as they come."""
    response_timeout_s: float = 2.0
    """How long a sampler may take to answer before the round goes on without it."""
    release_wait_s: float = 0.25
    """How long placements that ended wait for another message to the same sampler; 0 to send them at once."""
    permit_timeout_max_s: float = 900.0
    """Longest time for which permit plugins may hold a placement back (kube-scheduler: 15 minutes)."""
    pre_bind_timeout_s: float = 30.0
    """How long a call of pre-bind plugins may take before its placements are given up."""
    contact_period_s: float = 5.0
    """How often it is stored when samplers and executors were last heard."""
    fence_s: float = 15.0
    """For how long a process keeps its session, and a cluster its leases, without its being heard."""
    executor_lost_margin_s: float = 120.0
    """How much later than its executor a leader ends a run whose job does not wait for executors that are not heard."""
    count_period_s: float = 1.0
    """How often the numbers of waiting jobs are stored, for the limit at submit."""
    changes_per_round: int = 2000
    """Changes that may wait for a round."""
    inbox_limit: int = 64
    """State batches that may wait for a round."""
    store_limit: int = 2
    """Transactions that may wait behind the one under way: the leader pauses rather than run ahead of the database."""
    max_record_bytes: int = 4_000_000
    """Largest record of the event log; a round that decided more publishes several."""

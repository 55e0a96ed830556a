"""Settings of the round: what an operator may tune, with the defaults of the seeds.

Source: 003 "Resource usage and fairness"; 000 for Cp, Np and m; design section 5, "Round".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.placement.candidates import DecisionProfile
from argosy_core.placement.strategies import STRATEGIES
from argosy_core.plugins import PACKING_SCORES, SCORES, decision_framework

__all__ = ["JobOrder", "PromiseOrder", "RoundSettings"]

_MOST_ATTEMPTS: Final = 250
"""Attempts and runs are counted in a byte."""
_MOST_CHOICE: Final = 1024
"""Jobs among which the one that is promised a start is chosen: each is looked at after each round."""
_MOST_SLACK: Final = 1e6
"""A firm promise for a moment later than that says nothing."""
_COUNTS: Final = (
    "promise_choice",
    "commit_candidate_count",
    "max_round_leases",
    "max_failed_attempts",
    "max_runs",
    "queue_metadata_bytes",
)


class JobOrder(StrEnum):
    """In which order jobs of a queue that are equally urgent stand."""

    SUBMIT = "submit"
    """First come, first served."""
    SMALLEST_AREA = "smallest-area"
    """The smallest product of usage and expected run time first, behind those that have waited for long."""


class PromiseOrder(StrEnum):
    """In which order jobs of a queue that have no room stand for a promised start."""

    QUEUE = "queue"
    """As they stand in their queue."""
    SMALLEST_AREA = "smallest-area"
    """The smallest product of usage and expected run time first, behind those that have waited for long."""
    RESPONSE_RATIO = "response-ratio"
    """The longest wait by expected run time first, behind those that have waited for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings:
    """How a pool's rounds order, sample, decide and retry."""

    half_time_s: float = 300.0
    """Time in which the part of a queue's flow above its usage halves, seconds."""
    resource_weights: Mapping[str, float] = field(default_factory=dict, metadata={"empty_word": "auto"})
    """Cores of weighted usage per base unit of each resource (millicore, byte, whole unit); what is not named weighs
    nothing. `auto` finds them: each resource weighs what makes the pool's whole of it as dear as its cores."""
    weight_half_time_s: float = 600.0
    """Time in which found weights come half way nearer to those of a changed capacity, seconds."""
    waiting_heads: int = field(default=1, metadata={"may_be_zero": True})
    """Jobs that stay pending at once: the next in fairness order that have no room. They are tried in every round that
    asks a cluster which may hold them; heads that can share no node do not count for each other."""
    job_order: str = JobOrder.SUBMIT
    """In which order jobs of a queue that are equally urgent stand: `submit`, or `smallest-area`: smallest usage times
    expected run time first, which lets most jobs wait for less and large ones for longer."""
    size_lead_s: float = field(default=0.0, metadata={"may_be_zero": True})
    """With `job_order` `submit`: how much earlier a job counts as submitted for each doubling of its usage, seconds.
    Above 0, large jobs find the room that comes free before small ones take it piece by piece."""
    age_bound_s: float = 86_400.0
    """With an order by area or response ratio: whoever has waited longer stands in front of all others, oldest first,
    seconds."""
    promise_order: str = PromiseOrder.QUEUE
    """In which order jobs of a queue that have no room stand for a promised start: `queue`, as in their queue,
    `smallest-area`, or `response-ratio`, longest wait by expected run time first. Jobs that find room begin in the
    order of `job_order` either way."""
    promise_choice: int = 1
    """Of so many jobs that stand first in that order the largest is promised a start, at most 1,024: it pays for what
    stands idle while a node empties, and small ones find room by themselves. 1 is strict order; with 32 or more, nodes
    are used better, and large jobs of many that wait begin before those that came before them."""
    promise_one_run: bool = False
    """Whether a job is promised a start, too, for which the end of a single run makes room. Without it small jobs that
    come later may take that room; with it they may not, and more nodes stand promised at once."""
    promise_slack_ratio: float = field(default=0.0, metadata={"may_be_zero": True})
    """How much later than the earliest moment a firm promise is for, as a multiple of the time until then. Above 0,
    that moment bounds how long others may go first: until it is reached, whoever of the promised job's queue has its
    turn holds the node, from round to round. For time limits that are far too long; 30, as an example."""
    queue_metadata_bytes: int = 1 << 30
    """Labels and annotations of a queue's open jobs that a leader keeps, bytes; equal ones count once. A job that comes
    with more fails with that reason, so that no queue takes the memory of every leader."""
    max_round_leases: int = 10_000
    """Jobs that one round samples and commits at most."""
    clusters_to_sample_ratio: float = 0.33
    """Cp: share of the clusters that are asked per class and round, rounded up."""
    nodes_to_sample_ratio: float = 0.04
    """Np: share of a cluster's nodes that must be eligible before its sampler stops looking; it looks on while more
    pods of the class wait than the nodes found hold."""
    commit_candidate_count: int = 3
    """m: commit candidates per run."""
    sample_deadline_ms: int = 200
    """How long a sampler may look, milliseconds."""
    strategy: str = "random"
    """Sampling strategy: `random` or `round-robin`."""
    spread: bool = True
    """Whether a node's score shrinks with what it is given in a round, so that runs spread over nodes. False fills the
    best node first; for samplers whose scores pack (`most-allocated`, `lost-opportunity`)."""
    node_score: str = ""
    """Built-in score by which samplers rank nodes for this pool instead of by their own `scores`: `least-allocated`,
    `most-allocated`, `lost-opportunity`, `fewest-nodes` or `alignment`; empty leaves it to them. With the last four
    runs fill the best node first, whatever `spread` says."""
    cluster_spread_weight: float = 0.0
    """Weight of the score that prefers clusters with more free; 0 leaves nodes to be compared by their own scores."""
    max_failed_attempts: int = 10
    """Rounds in which all commit candidates of a job conflicted, after which the job fails."""
    max_runs: int = 10
    """Runs of a job that may end for reasons that are not its own before the job fails; at most 250."""
    back_off_initial_s: float = 1.0
    """Back-off after the first failed attempt, seconds; doubles with each."""
    back_off_max_s: float = 10.0
    """Longest back-off, seconds."""
    promised_nodes_ratio: float = field(default=0.05, metadata={"may_be_zero": True})
    """Share of the nodes on which waiting heads are promised starts at once, rounded up, at most 32 nodes; 0 promises
    nothing. Queues below their shares are promised what they are short of, at most 32 nodes in a pool."""
    promise_after_s: float = 5.0
    """After how long at the earliest a waiting head for which no room was found is promised a start, seconds: small
    jobs find room by themselves, and emptying a node costs what stands idle meanwhile."""
    run_allowance_s: float = 60.0
    """How much longer than its time limit a run may hold its room, seconds: until its first pod runs, and until its
    pods are gone. A firm promise counts on it."""
    assumed_run_time_s: float = 3600.0
    """How long a run is expected to take as long as nothing is known of any, seconds."""
    minimum_run_s: float = 0.0
    """Least time that a run is safe from preemption for fair shares, whatever its lifetime, seconds."""
    non_preemptible_excess_ratio: float = field(default=0.2, metadata={"may_be_zero": True})
    """How far the flow of a queue's jobs without a lifetime may be above its fair share of the pool, of that share; the
    share is by the weights of all queues that there are. A queue may always hold one such job. A large number, as 1e9,
    is no cap."""
    excess_budget_min: float = field(default=60.0, metadata={"may_be_zero": True})
    """Excess flow budget of each queue, in minutes of its fair share of the pool. A job with a lifetime that starts
    beyond the share takes up its usage times the lesser of lifetime and time limit until it leaves."""
    wait_expiry_s: float = 10.0
    """After how long a cluster that had no node for a class is asked again without news from its sampler, seconds."""
    permits: PermitRules = field(default_factory=PermitRules)
    """How samplers of the pool give permits to pods that are resized."""

    def __post_init__(self) -> None:
        """Refuse settings with which no round can work.

        Raises:
            InvalidRequest: A value is out of its range.
        """
        for name in ("clusters_to_sample_ratio", "nodes_to_sample_ratio"):
            self._require(name, 0.0 < getattr(self, name) <= 1.0, "above 0 and at most 1")
        for name in _COUNTS:
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("max_failed_attempts", "max_runs"):
            self._require(name, getattr(self, name) <= _MOST_ATTEMPTS, f"at most {_MOST_ATTEMPTS}")
        self._require("promised_nodes_ratio", 0.0 <= self.promised_nodes_ratio <= 1.0, "between 0 and 1")
        for name in (
            "half_time_s",
            "weight_half_time_s",
            "back_off_initial_s",
            "sample_deadline_ms",
            "wait_expiry_s",
            "assumed_run_time_s",
            "age_bound_s",
        ):
            self._require(name, getattr(self, name) > 0, "above 0")
        for name in (
            "waiting_heads",
            "size_lead_s",
            "minimum_run_s",
            "cluster_spread_weight",
            "promise_after_s",
            "run_allowance_s",
            "non_preemptible_excess_ratio",
            "excess_budget_min",
        ):
            self._require(name, getattr(self, name) >= 0, "0 or more")
        first = f"at least leader.round.back_off_initial_s, which is {self.back_off_initial_s}"
        self._require("back_off_max_s", self.back_off_max_s >= self.back_off_initial_s, first)
        self._require("job_order", self.job_order in list(JobOrder), f"one of {', '.join(JobOrder)}")
        orders = f"one of {', '.join(PromiseOrder)}"
        self._require("promise_order", self.promise_order in list(PromiseOrder), orders)
        self._require("promise_choice", self.promise_choice <= _MOST_CHOICE, f"at most {_MOST_CHOICE}")
        slack = 0.0 <= self.promise_slack_ratio <= _MOST_SLACK
        self._require("promise_slack_ratio", slack, f"between 0 and {_MOST_SLACK:,.0f}")
        scores = ["", *SCORES]
        self._require("node_score", self.node_score in scores, f"empty or one of {', '.join(SCORES)}")
        self._require("strategy", self.strategy in STRATEGIES, f"one of {', '.join(STRATEGIES)}")
        negative = [f"{name}={weight}" for name, weight in self.resource_weights.items() if weight < 0]
        if negative:
            raise InvalidRequest(f"leader.round.resource_weights has {', '.join(negative)}, but each must be 0 or more")

    def _require(self, name: str, fits: bool, wanted: str) -> None:  # noqa: FBT001 - what is required
        """Refuse the value of a setting that does not fit, by the name under which operators set it."""
        if not fits:
            raise InvalidRequest(f"leader.round.{name} is {getattr(self, name)}, but must be {wanted}")

    def make_profile(
        self, plugins: Mapping[str, object] | None = None, weights: Mapping[str, float] | None = None
    ) -> DecisionProfile:
        """Return the decision profile that the settings name.

        Args:
            plugins: Plugin objects by name, in the order in which they are called.
            weights: Weights of their scores.

        Raises:
            InvalidRequest: As `decision_framework`.
        """
        spread = {"spread-over-clusters": self.cluster_spread_weight} if self.cluster_spread_weight else {}
        framework = decision_framework(plugins, scores={**spread, **(weights or {})})
        return DecisionProfile(framework=framework, spread=self.spread and self.node_score not in PACKING_SCORES)

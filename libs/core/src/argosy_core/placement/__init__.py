"""Placement: sampling and MultiBind on the sampler, decision on the leader."""

from argosy_core.placement.candidates import CandidatePool, DecisionProfile
from argosy_core.placement.capacity_throttle import CapacityScope, CapacityThrottle, ThrottleSettings
from argosy_core.placement.decision import Decider, Decision, decide
from argosy_core.placement.messages import (
    CommitReply,
    CommitRequest,
    Placements,
    PlaceReply,
    SampleReply,
    SampleRequest,
)
from argosy_core.placement.multibind import CommitOutcome, commit, release
from argosy_core.placement.reasons import WaitReason
from argosy_core.placement.sampling import NodeSampler, sample
from argosy_core.placement.session import SamplerSession
from argosy_core.placement.waiting import ANY_KIND, KIND_BITS

__all__ = [
    "ANY_KIND",
    "KIND_BITS",
    "CandidatePool",
    "CapacityScope",
    "CapacityThrottle",
    "CommitOutcome",
    "CommitReply",
    "CommitRequest",
    "Decider",
    "Decision",
    "DecisionProfile",
    "NodeSampler",
    "PlaceReply",
    "Placements",
    "SampleReply",
    "SampleRequest",
    "SamplerSession",
    "ThrottleSettings",
    "WaitReason",
    "commit",
    "decide",
    "release",
    "sample",
]

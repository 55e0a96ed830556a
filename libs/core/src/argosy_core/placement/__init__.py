"""Placement: sampling and MultiBind on the sampler, decision on the leader."""

from argosy_core.placement.capacity_pace import CapacityPace, PaceSettings, Word
from argosy_core.placement.decision import CandidatePool, Decision, DecisionProfile, decide
from argosy_core.placement.multibind import CommitOutcome, commit, release
from argosy_core.placement.sampling import NodeSampler, SampleQuestion, SampleReply, sample

__all__ = [
    "CandidatePool",
    "CapacityPace",
    "CommitOutcome",
    "Decision",
    "DecisionProfile",
    "NodeSampler",
    "PaceSettings",
    "SampleQuestion",
    "SampleReply",
    "Word",
    "commit",
    "decide",
    "release",
    "sample",
]

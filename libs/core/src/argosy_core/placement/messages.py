"""What a leader and a sampler tell each other in a round: columns, one array element per record.

The leader's core makes requests and takes replies, the sampler's answers them; the shells turn both into messages.

Source: design section 5, "Round"; `proto/argosy/sampler/v1/sampler.proto`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from argosy_core.arrays import Bools, Float32s, Int8s, Int32s, Int64s
from argosy_core.job.tables.members import Members

__all__ = ["CommitReply", "CommitRequest", "PlaceReply", "Placements", "SampleReply", "SampleRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """What one sampler is asked in the sampling phase: c classes at once."""

    cluster: str = ""
    """Cluster asked, for whoever sends it there."""
    round_number: int = 0
    """Round."""
    class_ids: Int32s
    """c class ids, each once."""
    wanted: Int32s
    """c counts of waiting pods."""
    complete: Int8s | Bools
    """c flags: not 0 if every node must be taken into account and, if none fits, counts be told as of now."""
    resources: tuple[str, ...]
    """Order of the answer's resource columns."""
    nodes_to_sample_ratio: float
    """Np: share of the nodes that must be eligible before looking ends, 0 to 1; they must also hold what waits."""
    deadline_ms: int = 0
    """How long to look at most, milliseconds, for whoever keeps the time."""
    strategy: str = "random"
    """Sampling strategy: `random` or `round-robin`."""
    spare_count: int = 4
    """Candidates beyond one per waiting pod; at least the m of the commit phase, so each pod has m to choose from."""
    extra_count: int = 0
    """Nodes to find and to answer beyond what Np and the waiting pods call for: as many may be a last choice."""
    for_promise: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """c flags: of which classes the nodes are wanted that could hold a pod if nothing else ran there, or empty."""
    kept: Int32s = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Node indices that are kept for others: none of them is told of a gang in `for_promise`."""
    going: Members = field(default_factory=lambda: Members.of([], []))
    """Members of runs that may be stopped for the gang in `for_promise`, in the order in which they should be."""
    node_score: str = ""
    """Built-in score by which nodes are ranked instead of by the sampler's own; empty for those."""
    is_delegated: bool = False
    """Whether the cluster places by itself: classes are answered with one candidate, `ANY_NODE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReply:
    """A sampler's answer (sampler.v1.SampleResponse); c classes, n nodes, r resources, f filters, k candidates."""

    incarnation: int
    """Incarnation of the sampler."""
    node: Int32s
    """n node indices; -1 is the whole cluster, the one candidate of gangs that fit. That of `ANY_NODE` is the one
    candidate of all others where the cluster is delegated."""
    free: Int64s
    """(n, r) free now."""
    offset: Int32s
    """c + 1 positions in `candidate`."""
    candidate: Int32s
    """k positions in `node`, best first per class."""
    score: Float32s
    """k scores, higher is better."""
    examined: Int32s
    """c counts of nodes looked at; nodes known not to fit since an earlier look count as looked at."""
    eligible: Int32s
    """c counts of nodes that could hold a pod."""
    filters: tuple[str, ...]
    """Names of the f filters."""
    filter_texts: tuple[str, ...]
    """f texts: what to say of the nodes turned away, with `{nodes}` for their number."""
    rejection: Int32s
    """(c, f) nodes that the filter turned away first; not 0 only for classes that fit on no node. As of now for classes
    asked to be complete, otherwise perhaps of some rounds ago."""
    total_free: Int64s
    """r sums of positive free over usable nodes."""
    complete: Int8s
    """c flags: 1 if every node was taken into account."""
    nearest_misses: tuple[str, ...]
    """c texts: for classes that fit on no node the one that came closest and what it lacks, otherwise empty."""
    reason: Int8s
    """c values of WaitReason: why the candidates do not hold all that waits; NONE if they do, or not all was seen."""
    texts: tuple[str, ...]
    """c texts of plugins and failed filters, empty for other reasons; none at all if there is nothing to say."""
    retry_after_s: Float32s
    """c times after which a plugin wants to be asked again, seconds, 0 if it does not say; empty if none does."""
    node_kinds: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """c sets of kinds of nodes, a bit each, that a class without a candidate fits if nothing else runs there; -1 where
    that is not known, empty if none is. Classes without a common bit have no node in common."""
    could_hold_offset: Int32s = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """c + 1 positions in `could_hold`; empty if the request asks for none."""
    could_hold: Int32s = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Positions in `node` of the nodes that could hold a pod if nothing else ran there, those that lack least first;
    of a gang the node of each pod of its minimum, in the order of their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Members that one sampler shall place (MultiBind), in the order of the decision; n members, k candidates."""

    cluster: str = ""
    """Cluster asked, for whoever sends it there."""
    round_number: int = 0
    """Round."""
    stage: int = 0
    """Stage within the round, from 1."""
    members: Members
    """n members of runs, those of a gang one after the other."""
    class_ids: Int32s
    """n class ids."""
    offset: Int32s
    """n + 1 positions in `candidate`."""
    candidate: Int32s
    """k sampler node indices, best first per member; at a gang's first member the nodes that none of it may have."""
    of_gang: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """n flags: which members are a gang's, or empty if none is; the sampler knows it by their classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """Outcome of each commit (sampler.v1.CommitResponse); n members in the order of the request."""

    incarnation: int
    """Incarnation of the sampler."""
    node: Int32s
    """n sampler node indices that were committed, or -1."""
    outcome: Int8s
    """n values of CommitOutcome: 1 placed, 2 conflict, 3 node unavailable, 4 unknown class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceReply:
    """Where a sampler placed members that its executor asked for, in the order of the request; n members."""

    nodes: tuple[str, ...]
    """n names of nodes; empty for those that are not placed."""
    reasons: tuple[str, ...]
    """n texts: why a member is returned, for people; empty for those that are placed, or not known (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Placements of one cluster, in flight included; all, or a part of the list (sampler.v1.PlacementList)."""

    members: Members
    """Members of runs."""
    class_ids: Int32s
    """Class ids."""
    node: Int32s
    """Index into `nodes`."""
    nodes: tuple[str, ...]
    """Names of the nodes used, each once."""

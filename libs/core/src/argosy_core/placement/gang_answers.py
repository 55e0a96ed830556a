"""What a sampler says of gangs: whether one fits now and with how many hops, or what it lacks.

A gang is answered as one candidate that stands for the whole cluster (`WHOLE_CLUSTER`) with what is free there.

Source: 003 "Distributed jobs"; decision 0018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.placement.messages import SampleReply
from argosy_core.placement.reasons import WaitReason
from argosy_core.placement.waiting import ANY_KIND

__all__ = ["WHOLE_CLUSTER", "GangAnswer", "merge_answers"]

WHOLE_CLUSTER: Final = -1
"""Node of the one candidate of a gang."""
_MOST_HOPS_SCORE: Final = 100.0
"""Score of a gang all on one node; 0 with the most hops that the cluster knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAnswer:
    """What is said of one gang."""

    hops: int = -1
    """Hops of the gang that fits now; negative if none does."""
    reason: WaitReason = WaitReason.NONE
    """Why none does."""
    kinds: int = ANY_KIND
    """Kinds of nodes that its pods fit when nothing else runs there, a bit each."""
    miss: str = ""
    """What it lacks, for people."""
    text: str = ""
    """What a plugin said."""
    retry_after_s: float = 0.0
    """When the plugin wants to be asked again."""
    eligible_count: int = 0
    """Nodes that some pod of it may be on."""


def merge_answers(reply: SampleReply, said: dict[int, GangAnswer], live_count: int, most_hops: int) -> SampleReply:
    """Return an answer with what was said of gangs, by their positions among the classes."""
    fits = np.zeros(reply.examined.size, np.bool_)
    fits[[position for position, answer in said.items() if answer.hops >= 0]] = True
    scores = [
        _MOST_HOPS_SCORE * (1.0 - answer.hops / most_hops) for _, answer in sorted(said.items()) if answer.hops >= 0
    ]
    # The whole cluster stands before the nodes; a gang's one candidate where its part of the candidates begins.
    places = reply.offset[:-1][fits]
    examined, eligible, complete = reply.examined.copy(), reply.eligible.copy(), reply.complete.copy()
    reason = reply.reason.copy()
    kinds = reply.node_kinds.copy() if reply.node_kinds.size else np.full(examined.size, ANY_KIND, np.int64)
    texts = list(reply.texts) or [""] * examined.size
    misses = list(reply.nearest_misses) or [""] * examined.size
    retry_after_s = reply.retry_after_s.copy() if reply.retry_after_s.size else np.zeros(examined.size, np.float32)
    for position, answer in said.items():
        examined[position], eligible[position], complete[position] = live_count, answer.eligible_count, 1
        reason[position], kinds[position] = answer.reason, answer.kinds
        texts[position], misses[position] = answer.text, answer.miss
        retry_after_s[position] = answer.retry_after_s
    return replace(
        reply,
        node=np.append(np.int32(WHOLE_CLUSTER), reply.node).astype(np.int32),
        free=np.vstack([reply.total_free[None, :], reply.free]),
        offset=(reply.offset + np.append(0, np.cumsum(fits))).astype(np.int32),
        candidate=np.insert(reply.candidate + 1, places, 0).astype(np.int32),
        score=np.insert(reply.score, places, np.array(scores, np.float32)).astype(np.float32),
        examined=examined,
        eligible=eligible,
        complete=complete,
        reason=reason,
        nearest_misses=tuple(misses),
        texts=tuple(texts) if any(texts) else (),
        retry_after_s=retry_after_s if retry_after_s.any() else np.zeros(0, np.float32),
        node_kinds=kinds if (kinds != ANY_KIND).any() else np.zeros(0, np.int64),
        could_hold=reply.could_hold + np.int32(1),
    )

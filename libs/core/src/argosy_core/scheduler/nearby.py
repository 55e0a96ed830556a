"""A sampler in the scheduler's own process: worlds and benchmarks ask it without a wire.

Source: design section 5, "Round" 2.
"""

from __future__ import annotations

import numpy as np

from argosy_core.placement import NodeSampler
from argosy_core.placement import SampleRequest as SamplerRequest
from argosy_core.scheduler.messages import SampleReply, SampleRequest

__all__ = ["ask_nearby"]


def ask_nearby(
    sampler: NodeSampler, request: SampleRequest, rng: np.random.Generator, *, incarnation: int
) -> SampleReply:
    """Return what a sampler answers to a request of the sampling phase.

    Args:
        sampler: Whom to ask; it knows the classes, and its ledger the resources.
        request: What the scheduler asks. It is answered however long that takes.
        rng: The sampler's.
        incarnation: Of the sampler's ledger.
    """
    reply = sampler.sample(
        SamplerRequest(
            class_ids=request.class_ids,
            wanted=request.wanted,
            complete=request.complete,
            resources=request.resources,
            nodes_to_sample_ratio=request.nodes_to_sample_ratio,
            strategy=request.strategy,
        ),
        rng,
    )
    return SampleReply(
        incarnation=incarnation,
        node=reply.node,
        free=reply.free,
        offset=reply.offset,
        candidate=reply.candidate,
        score=reply.score,
        examined=reply.examined,
        eligible=reply.eligible,
        filters=reply.filters,
        rejection=reply.rejection,
        total_free=reply.total_free,
        complete=reply.complete,
        nearest_misses=reply.nearest_misses,
        reason=reply.reason,
        texts=reply.texts,
        retry_after_s=reply.retry_after_s,
    )

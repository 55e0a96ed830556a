"""Why a job waits: one word for it everywhere, from the sampler's answer to what people read.

Source: seed 003 "Scheduler architecture" (the reason a job is not scheduled); seed 004 (explanations).
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["WaitReason"]


class WaitReason(IntEnum):
    """Why a class, at one cluster or over all, gets no node now; the numbers of `argosy.api.v1.WaitReason`."""

    NONE = 0
    """Nothing known: it waits for its turn, and may be asked for."""
    MISMATCH = 1
    """No node passes the filters even if nothing ran on it: selector, taints, platform, or no node is large enough."""
    NO_ROOM = 2
    """Nodes match, but what is free on them does not hold what waits."""
    CONFLICT = 3
    """Others took every candidate of the job; it is tried again when its back-off is over."""
    PLUGIN = 4
    """A plugin objects; it says why and may say when to ask again."""
    FAULT = 5
    """A filter failed; it is asked again after a back-off."""
    HELD = 7
    """Somebody holds it, until it is released."""
    DEPENDENCY = 8
    """Other jobs have to end before it."""
    PROMISED = 9
    """What is free is promised to jobs that come first, and this one could delay them."""
    LIMIT = 10
    """A limit of its queue or job set holds it back."""
    CORDONED = 11
    """Somebody cordoned its queue, the clusters that could hold it, or their nodes."""
    AWAY = 12
    """The clusters that could hold it are not heard: their samplers or executors are away."""
    NO_LEADER = 13
    """Nobody leads its pool now."""
    BACK_OFF = 14
    """Its last run failed; it is tried again when its back-off is over."""
    RATE = 15
    """Its queue has begun as many jobs lately as its lease rate lets it."""
    RETURNED = 16
    """Clusters that place by themselves gave it back, since none of their nodes holds it."""

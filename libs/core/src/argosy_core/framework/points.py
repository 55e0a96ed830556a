"""Extension points and what is registered at them.

Source: seed 002 "Plugin registration" and "Extension points".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy_core.framework.cycle import Assignment, Cycle

__all__ = [
    "BindFunction",
    "EventFunction",
    "FilterFunction",
    "PermitAnswer",
    "PermitFunction",
    "PermitVerdict",
    "Point",
    "PostFilterFunction",
    "PreFilterFunction",
    "Registration",
    "ScoreFunction",
    "SortFunction",
    "StageFunction",
]


class Point(StrEnum):
    """Extension points in the order of a cycle; values are what `register` is given."""

    QUEUE_SORT = "queue-sort"
    PRE_FILTER = "pre-filter"
    FILTER = "filter"
    POST_FILTER = "post-filter"
    SCORE = "score"
    POST_SCORE = "post-score"
    RESERVE = "reserve"
    PERMIT = "permit"
    REJECT = "reject"
    PRE_BIND = "pre-bind"
    BIND = "bind"
    POST_BIND = "post-bind"
    EVENT = "event"


class PermitAnswer(StrEnum):
    """What a permit plugin may say."""

    PERMIT = "permit"
    DENY = "deny"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitVerdict:
    """Answer of a permit plugin."""

    answer: PermitAnswer
    """permit, deny or wait."""
    timeout_s: float = 0.0
    """For wait: after how many seconds without approval the pod is rejected; must be positive."""
    reason: str = ""
    """For deny and wait: why."""


SortFunction: TypeAlias = Callable[[object, object], int]
"""Negative, zero or positive as the first comes before, equals, or comes after the second."""
PreFilterFunction: TypeAlias = Callable[[Cycle], npt.NDArray[np.bool_] | None]
"""(k,) which pods may go on, or None for all; raises to abort the cycle."""
FilterFunction: TypeAlias = Callable[[Cycle], npt.NDArray[np.bool_] | None]
"""(k, n) or (1, n) which nodes can run the pod, or None for all."""
PostFilterFunction: TypeAlias = Callable[[Cycle, npt.NDArray[np.bool_]], None]
"""Given the (k, n) feasible nodes, none included; raises to abort the cycle."""
ScoreFunction: TypeAlias = Callable[[Cycle], npt.NDArray[np.float64]]
"""(k, n) or (1, n) scores, 0 to 100, higher is better; where no node passed the filters the value is ignored."""
StageFunction: TypeAlias = Callable[[Cycle, Assignment], None]
"""Post-score, reserve, reject and post-bind; raises to object (the last two cannot)."""
PermitFunction: TypeAlias = Callable[[Cycle, Assignment], PermitVerdict]
"""Permit stage."""
BindFunction: TypeAlias = Callable[[Cycle, Assignment], bool]
"""Pre-bind: whether binding may start. Bind: whether this plugin bound the pod."""
EventFunction: TypeAlias = Callable[[str, object], None]
"""Name of an informer event (as `PodAdd`) and what it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A function at an extension point."""

    point: Point
    """Where it is called."""
    name: str
    """Name of the plugin, unique per point; in counts, explanations and configuration."""
    function: Callable[..., object]
    """The function, with the signature of its point."""
    weight: float = 1.0
    """Score plugins: what the score is multiplied by."""
    explanation: str = ""
    """Filter plugins: what to say of the nodes turned away, with `{nodes}` for "1 node" or "7 nodes"."""
    reads_nodes_only: bool = True
    """Filter plugins: the answer depends on the pod's class and the node's row only, so that it holds until the row
    changes."""

"""Profiles: which plugins run, in which order, with which weights; and the plugins that a profile can name.

Source: seed 002 "Plugin registration"; design section 6, "profiles with weights and order".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework, Point, Registration
from argosy_core.framework.points import FilterFunction, ScoreFunction
from argosy_core.plugins.filters import PlatformFilter, TaintFilter, host_ports, node_ready, resources
from argosy_core.plugins.scores import least_allocated, lost_opportunity, most_allocated
from argosy_core.plugins.selection import NodeSelectorFilter

__all__ = ["DEFAULT_PROFILE", "FILTERS", "SCORES", "Profile", "build_framework"]

FILTERS: Final[Mapping[str, tuple[Callable[[], FilterFunction], str]]] = {
    "node-ready": (lambda: node_ready, "{nodes} not available for new pods"),
    "resources": (lambda: resources, "insufficient resources on {nodes}"),
    "node-selector": (NodeSelectorFilter, "node selector or affinity not satisfied on {nodes}"),
    "taints": (TaintFilter, "taints not tolerated on {nodes}"),
    "platform": (PlatformFilter, "unsupported platform on {nodes}"),
    "host-ports": (lambda: host_ports, "host port already in use on {nodes}"),
}
"""Filters by name, in their default order: how to make one, and what it says of the nodes it turns away."""

SCORES: Final[Mapping[str, ScoreFunction]] = {
    "least-allocated": least_allocated,
    "most-allocated": most_allocated,
    "lost-opportunity": lost_opportunity,
}
"""Scores by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A choice of plugins."""

    name: str = "default"
    """Name of the profile."""
    filters: tuple[str, ...] = tuple(FILTERS)
    """Names of filters, in the order in which they are asked."""
    scores: Mapping[str, float] = field(default_factory=lambda: {"least-allocated": 1.0})
    """Weight of each score, by name, in the order in which they are asked."""


DEFAULT_PROFILE: Final = Profile()
"""All filters, and pods spread over the nodes."""


def build_framework(profile: Profile = DEFAULT_PROFILE) -> Framework:
    """Return a framework with the plugins of a profile; more can be registered.

    Raises:
        InvalidRequest: The profile names a plugin that does not exist, or a weight that is not positive.
    """
    framework = Framework()
    for name in profile.filters:
        if name not in FILTERS:
            raise InvalidRequest(
                f"profile {profile.name!r}: there is no filter {name!r}; there are {', '.join(FILTERS)}"
            )
        make, explanation = FILTERS[name]
        framework.register(Registration(point=Point.FILTER, name=name, function=make(), explanation=explanation))
    for name, weight in profile.scores.items():
        if name not in SCORES:
            raise InvalidRequest(f"profile {profile.name!r}: there is no score {name!r}; there are {', '.join(SCORES)}")
        if not weight > 0:
            raise InvalidRequest(f"profile {profile.name!r}: the weight of {name!r} is {weight}, but must be positive")
        framework.register(Registration(point=Point.SCORE, name=name, function=SCORES[name], weight=weight))
    return framework

"""The plugin registry: built-in filters and scores, plugins given from outside, and profiles that choose among them.

A plugin from outside is an object with a method for each extension point that it wants, named as `SAMPLING` and
`DECISION` say (`argosy_core.framework.points`); a profile calls those of its own points. Two attributes are read if it
has them: `explanation`, what to say of the nodes that its filter turns away, with `{nodes}` for their number; and
`reads_nodes_only`, true if what its filter answers holds until the node's row changes, so that the answer may be kept.

Source: seed 002 "Plugin registration"; design section 6, "profiles with weights and order".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.framework import (
    BINDING,
    COMMIT,
    DECISION,
    CandidateCycle,
    Cycle,
    Framework,
    Point,
    ProfileKind,
    Registration,
)
from argosy_core.plugins.filters import PlatformFilter, TaintFilter, host_ports, node_ready, resources
from argosy_core.plugins.scores import (
    alignment,
    fewest_nodes,
    keep_devices,
    least_allocated,
    lost_opportunity,
    most_allocated,
    spread_over_clusters,
)
from argosy_core.plugins.selection import NodeSelectorFilter

__all__ = [
    "DECISION_SCORES",
    "DEFAULT_PROFILE",
    "FILTERS",
    "PACKING_SCORES",
    "SCORES",
    "Profile",
    "binding_framework",
    "build_framework",
    "commit_framework",
    "decision_framework",
    "registrations",
]

FILTERS: Final[Mapping[str, tuple[Callable[[], Callable[[Cycle], npt.NDArray[np.bool_] | None]], str]]] = {
    "node-ready": (lambda: node_ready, "{nodes} not available for new pods"),
    "resources": (lambda: resources, "insufficient resources on {nodes}"),
    "node-selector": (NodeSelectorFilter, "node selector or affinity not satisfied on {nodes}"),
    "taints": (TaintFilter, "taints not tolerated on {nodes}"),
    "platform": (PlatformFilter, "unsupported platform on {nodes}"),
    "host-ports": (lambda: host_ports, "host port already in use on {nodes}"),
}
"""Filters by name, in their default order: how to make one, and what it says of the nodes it turns away."""

SCORES: Final[Mapping[str, Callable[[Cycle], npt.NDArray[np.float64]]]] = {
    "least-allocated": least_allocated,
    "most-allocated": most_allocated,
    "lost-opportunity": lost_opportunity,
    "fewest-nodes": fewest_nodes,
    "keep-devices": keep_devices,
    "alignment": alignment,
}
"""Scores by name."""

PACKING_SCORES: Final = frozenset({"alignment", "most-allocated", "lost-opportunity", "fewest-nodes"})
"""Scores by which the best node is filled before the next: with those that are higher the fuller a node is, nodes fill
one after the other, and `alignment` is about one node at a time."""

DECISION_SCORES: Final[Mapping[str, Callable[[CandidateCycle], npt.NDArray[np.float64]]]] = {
    "spread-over-clusters": spread_over_clusters,
}
"""Scores of the decision profile by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A choice of plugins for the sampling phase."""

    name: str = "default"
    """Name of the profile."""
    filters: tuple[str, ...] = tuple(FILTERS)
    """Names of built-in filters, in the order in which they are asked."""
    scores: Mapping[str, float] = field(default_factory=lambda: {"least-allocated": 1.0, "keep-devices": 1.5})
    """Weight of each score, by name of a built-in one or of a plugin; a plugin that is not named has weight 1."""


DEFAULT_PROFILE: Final = Profile()
"""All filters; pods spread over the nodes, but those with devices fill them one after the other."""


def build_framework(profile: Profile = DEFAULT_PROFILE, plugins: Mapping[str, object] | None = None) -> Framework:
    """Return the framework of a sampling profile: built-in plugins, then those from outside at every point they have.

    Args:
        profile: Which built-in plugins, and weights.
        plugins: Plugin objects by name, in the order in which they are called.

    Raises:
        InvalidRequest: The profile names a plugin that does not exist or a weight that is not positive; or a plugin has
            nothing that the profile calls, or the name of another.
    """
    plugins = plugins or {}
    framework = Framework()
    for name in profile.filters:
        if name not in FILTERS:
            raise InvalidRequest(
                f"profile {profile.name!r}: there is no filter {name!r}; there are {', '.join(FILTERS)}"
            )
        make, explanation = FILTERS[name]
        framework.register(Registration(point=Point.FILTER, name=name, function=make(), explanation=explanation))
    _register(framework, plugins, SCORES, profile.scores, where=f"profile {profile.name!r}")
    return framework


def decision_framework(
    plugins: Mapping[str, object] | None = None, *, scores: Mapping[str, float] | None = None
) -> Framework:
    """Return the framework of the decision profile, as `build_framework` does that of the sampling profile.

    Args:
        plugins: Plugin objects by name, in the order in which they are called.
        scores: Weight of each score, by name of a built-in one or of a plugin; a plugin that is not named has weight 1.

    Raises:
        InvalidRequest: As `build_framework`.
    """
    framework = Framework(kind=DECISION)
    _register(framework, plugins or {}, DECISION_SCORES, scores or {}, where="decision profile")
    return framework


def commit_framework(plugins: Mapping[str, object] | None = None) -> Framework:
    """Return the framework of the commit profile.

    Args:
        plugins: Plugin objects by name, in the order in which they are called.

    Raises:
        InvalidRequest: As `build_framework`.
    """
    return _framework_of(COMMIT, plugins)


def binding_framework(plugins: Mapping[str, object] | None = None) -> Framework:
    """Return the framework of an executor.

    Args:
        plugins: Plugin objects by name, in the order in which they are called.

    Raises:
        InvalidRequest: As `build_framework`.
    """
    return _framework_of(BINDING, plugins)


def _framework_of(kind: ProfileKind, plugins: Mapping[str, object] | None) -> Framework:
    """Return a framework of a kind that has no built-in plugins."""
    framework = Framework(kind=kind)
    for name, plugin in (plugins or {}).items():
        for registration in registrations(name, plugin, kind):
            framework.register(registration)
    return framework


def _register(
    framework: Framework,
    plugins: Mapping[str, object],
    scores: Mapping[str, Callable[..., npt.NDArray[np.float64]]],
    weights: Mapping[str, float],
    *,
    where: str,
) -> None:
    """Register the built-in scores that have a weight, then all that plugins have."""
    scoring = {name for name, plugin in plugins.items() if hasattr(plugin, framework.kind.methods[Point.SCORE])}
    for name, weight in weights.items():
        if name not in scores and name not in scoring:
            there = ", ".join([*scores, *sorted(scoring)])
            raise InvalidRequest(f"{where}: there is no score {name!r}; there are {there}")
        if not weight > 0:
            raise InvalidRequest(f"{where}: the weight of {name!r} is {weight}, but must be positive")
        if name in scores:
            framework.register(Registration(point=Point.SCORE, name=name, function=scores[name], weight=weight))
    for name, plugin in plugins.items():
        for registration in registrations(name, plugin, framework.kind, weight=weights.get(name, 1.0)):
            framework.register(registration)


def registrations(name: str, plugin: object, kind: ProfileKind, *, weight: float = 1.0) -> Iterator[Registration]:
    """Yield what a plugin object registers in a profile, point by point.

    Raises:
        InvalidRequest: It has none of the methods that the profile calls, or one of them cannot be called.
    """
    found = False
    for point, method in kind.methods.items():
        function = getattr(plugin, method, None)
        if function is None:
            continue
        if not callable(function):
            raise InvalidRequest(f"plugin {name!r}: {method} is no method but {function!r}")
        found = True
        yield Registration(
            point=point,
            name=name,
            function=function,
            weight=weight,
            explanation=str(getattr(plugin, "explanation", "")),
            reads_nodes_only=bool(getattr(plugin, "reads_nodes_only", False)),
        )
    if not found:
        methods = ", ".join(kind.methods.values())
        raise InvalidRequest(f"plugin {name!r} has nothing that the {kind.name} profile calls: {methods}")

"""Built-in plugins: filters, scores, the profiles that choose among them, and explanations."""

from argosy_core.plugins.explanations import count_and_compare, turned_away_text
from argosy_core.plugins.fitting import ClusterFit, find_missing, judge
from argosy_core.plugins.registry import (
    DEFAULT_PROFILE,
    FILTERS,
    PACKING_SCORES,
    SCORES,
    Profile,
    binding_framework,
    build_framework,
    commit_framework,
    decision_framework,
)

__all__ = [
    "DEFAULT_PROFILE",
    "FILTERS",
    "PACKING_SCORES",
    "SCORES",
    "ClusterFit",
    "Profile",
    "binding_framework",
    "build_framework",
    "commit_framework",
    "count_and_compare",
    "decision_framework",
    "find_missing",
    "judge",
    "turned_away_text",
]

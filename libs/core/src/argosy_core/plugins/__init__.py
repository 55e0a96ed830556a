"""Built-in plugins: filters, scores, the profiles that choose among them, and explanations."""

from argosy_core.plugins.explanations import NearestMiss, count_and_compare, turned_away_text
from argosy_core.plugins.registry import (
    DEFAULT_PROFILE,
    FILTERS,
    SCORES,
    Profile,
    binding_framework,
    build_framework,
    decision_framework,
)

__all__ = [
    "DEFAULT_PROFILE",
    "FILTERS",
    "SCORES",
    "NearestMiss",
    "Profile",
    "binding_framework",
    "build_framework",
    "count_and_compare",
    "decision_framework",
    "turned_away_text",
]

"""Plugins from outside: found by the entry points of installed distributions, made anew for each service.

A distribution offers a plugin by an entry point of the group `argosy.plugins`: its name is the plugin's, and what it
points to is called with the plugin's settings and returns the plugin object (see `argosy_core.plugins.registry`).

Source: seed 002 "Plugin registration"; `docs/plugins.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework, PluginFaults
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS

__all__ = ["FaultReporter", "load_plugins"]

_GROUP: Final = "argosy.plugins"
_SAID_AGAIN_S: Final = 60.0
"""One error of a plugin is logged at most so often; all are counted."""


def load_plugins(names: Sequence[str], settings: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return plugin objects by name, in the order of the names.

    Args:
        names: Entry points of the group `argosy.plugins`.
        settings: What they are called with: values by `plugin.keyword`.

    Raises:
        InvalidRequest: A name stands twice, nobody or more than one distribution offers it, it cannot be imported, it
            refuses its settings, or a setting is of a plugin that is not named.
    """
    settings = settings or {}
    if not names and not settings:
        return {}
    offered: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=_GROUP):
        offered.setdefault(point.name, []).append(point)
    keywords: dict[str, dict[str, str]] = {name: {} for name in names}
    if len(keywords) < len(names):
        raise InvalidRequest(f"a plugin is named twice: {', '.join(names)}")
    for key, value in settings.items():
        name, dot, keyword = key.partition(".")
        if name not in keywords or not dot or not keyword:
            raise InvalidRequest(f"plugin setting {key!r} is not plugin.keyword with a plugin that is named")
        keywords[name][keyword] = value
    return {name: _make(name, offered, own) for name, own in keywords.items()}


def _make(name: str, offered: Mapping[str, Sequence[EntryPoint]], keywords: Mapping[str, str]) -> object:
    """Return a plugin object."""
    points = offered.get(name, ())
    if not points:
        there = ", ".join(sorted(offered)) or "none"
        raise InvalidRequest(f"there is no plugin {name!r}; installed are: {there}")
    if len({point.value for point in points}) > 1:
        values = ", ".join(point.value for point in points)
        raise InvalidRequest(f"several distributions offer a plugin {name!r}: {values}")
    try:
        return points[0].load()(**keywords)
    except Exception as cause:
        raise InvalidRequest(
            f"plugin {name!r} ({points[0].value}) cannot be made: {type(cause).__name__}: {cause}"
        ) from cause


class FaultReporter:
    """Counts and logs the errors of a framework's plugins.

    Args:
        framework: Whose.
        owner: Cluster or pool, for metrics.
        log: Where errors are told.
        monotonic: Clock, seconds.
    """

    def __init__(self, framework: Framework, owner: str, *, log: Logger, monotonic: Callable[[], float]) -> None:
        """Start without having told anything."""
        self._framework = framework
        self._owner = owner
        self._log = log
        self._monotonic = monotonic
        self._told_s: dict[tuple[str, str], float] = {}

    def report(self) -> None:
        """Take the framework's errors since the last call."""
        for fault in self._framework.take_faults():
            METRICS.plugin_faults.labels(self._owner, fault.point, fault.plugin).inc(fault.count)
            self._tell(fault)

    def _tell(self, fault: PluginFaults) -> None:
        now_s, key = self._monotonic(), (fault.point, fault.plugin)
        if now_s >= self._told_s.get(key, now_s):
            self._told_s[key] = now_s + _SAID_AGAIN_S
            self._log.warning(
                "plugin failed", point=fault.point, plugin=fault.plugin, count=fault.count, reason=fault.reason
            )

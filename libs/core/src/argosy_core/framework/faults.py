"""What plugins do wrong, or ask to wait for: per class, and counted.

Source: design section 5, "Round" 5: faults are per class, and a plugin can say when to ask again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fault", "NotNow", "PluginFaults"]


class NotNow(Exception):
    """Raised by a plugin: the pods that it is asked about must wait.

    Args:
        reason: What users read.
        retry_after_s: In how many seconds to ask again; 0 leaves it to the scheduler.
    """

    def __init__(self, reason: str, *, retry_after_s: float = 0.0) -> None:
        """Keep the reason and the time."""
        super().__init__(reason)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a plugin turned a class away without judging nodes."""

    plugin: str
    """Name of the plugin."""
    reason: str
    """What it said, or the error."""
    is_objection: bool = False
    """The plugin asks to wait, with a reason of its own; otherwise it failed."""
    retry_after_s: float = 0.0
    """In how many seconds it wants to be asked again; 0 leaves it to the scheduler."""

    @staticmethod
    def of(plugin: str, error: Exception) -> Fault:
        """Return the fault that an exception of a plugin is."""
        if isinstance(error, NotNow):
            return Fault(plugin=plugin, reason=str(error), is_objection=True, retry_after_s=error.retry_after_s)
        return Fault(plugin=plugin, reason=f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFaults:
    """Errors of one plugin at one point since they were last taken."""

    point: str
    """Extension point."""
    plugin: str
    """Name of the plugin."""
    count: int
    """How many classes, placements or calls it failed on."""
    reason: str
    """The last error."""

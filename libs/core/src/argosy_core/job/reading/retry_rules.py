"""What a submitter says about runs that fail: how many may, by kind of failure, and how long their jobs back off.

What is not said is as the installation's settings are: failures that are not the job's own (`RETRIED`, and runs that
were lost) are tried again until `max_runs` runs have failed, all others end the job. Rules belong to a spec and travel
with its layout, as its last element, so jobs without any cost nothing.

Source: design section 3, "retry policy", "node_lost", "executor_lost".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from argosy_core.job.failure_kind import FailureKind

__all__ = ["MAX_FAILED_RUNS", "RETRIED", "ReplacedMembers", "RetryRules", "rules_of", "with_rules"]

MAX_FAILED_RUNS: Final = 250
"""Most failed runs of a job: they are counted in a byte."""
RETRIED: Final = (FailureKind.EVICTED, FailureKind.INFRASTRUCTURE)
"""Failures that are not the job's own. A run that was lost counts as one of infrastructure."""
_DOUBLING: Final = 2.0


class ReplacedMembers(IntEnum):
    """Which members of a distributed job are replaced while the others run."""

    NONE = 0
    """None: a member that fails or is lost ends the run."""
    LOST = 1
    """Those whose node or pod is gone."""
    ALL = 2
    """Those and the ones that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """The rules of one spec; 0 stands for what the installation says."""

    max_failed_runs: int = 0
    """Runs that may fail before the job does, where a failure is tried again."""
    by_kind: tuple[tuple[FailureKind, int], ...] = ()
    """(kind, failed runs, of whatever kind, with which a failure of this kind ends the job), sorted by kind; 1 means
    that such a failure is not tried again."""
    first_back_off_s: float = 0.0
    """Back-off after the first failed run, seconds."""
    back_off_factor: float = 0.0
    """By how much the next is longer each time, at least 1."""
    max_back_off_s: float = 0.0
    """Longest back-off, seconds."""
    replace_after_s: float = 0.0
    """After how long on a node that is not heard of a run counts as lost, seconds; 0 for never."""
    stop_after_s: float = 0.0
    """After how long without a leader its executor stops a run, seconds, and a while later the leader counts a run as
    lost whose executor was not heard of; 0 for never."""
    replaced_members: ReplacedMembers = ReplacedMembers.NONE
    """Which members are replaced while the others run."""

    def of_failures(self) -> RetryRules:
        """Return what they say of runs that fail, without what they say of nodes, executors and members."""
        return replace(self, replace_after_s=0.0, stop_after_s=0.0, replaced_members=ReplacedMembers.NONE)

    def limit(self, kind: int, max_runs: int) -> int:
        """Return how many failed runs end a job whose last one failed in this way.

        Args:
            kind: FailureKind; that of a run that was lost is INFRASTRUCTURE.
            max_runs: The installation's limit for failures that are not the job's own.
        """
        named = next((count for named, count in self.by_kind if named == kind), 0)
        return named or ((self.max_failed_runs or max_runs) if kind in RETRIED else 1)

    def back_off_s(self, failures: int, *, initial_s: float, max_s: float) -> float:
        """Return how long a job backs off after so many failed runs, seconds.

        Args:
            failures: At least 1.
            initial_s: The installation's first back-off.
            max_s: The installation's longest, where neither the first nor the longest is said.
        """
        first_s = self.first_back_off_s or initial_s
        most_s = self.max_back_off_s or max(first_s, max_s)
        return float(min(first_s * (self.back_off_factor or _DOUBLING) ** min(failures - 1, 40), most_s))

    def definition(self) -> dict[str, Any]:
        """Return the rules as JSON; what is not said is left out."""
        document: dict[str, Any] = {
            name: value for name in self.__slots__ if name != "by_kind" and (value := getattr(self, name))
        }
        if self.by_kind:
            document["by_kind"] = [[int(kind), count] for kind, count in self.by_kind]
        return document

    @staticmethod
    def parse(document: Mapping[str, Any]) -> RetryRules:
        """Return rules from `definition`.

        Raises:
            ValueError: The document is none.
        """
        by_kind = tuple((FailureKind(kind), int(count)) for kind, count in document.get("by_kind", ()))
        replaced = ReplacedMembers(document.get("replaced_members", 0))
        try:
            return RetryRules(**{**document, "by_kind": by_kind, "replaced_members": replaced})
        except TypeError as cause:
            raise ValueError("not rules for retries") from cause


def rules_of(layout: bytes) -> RetryRules | None:
    """Return the rules that stand in a layout, None if none do."""
    document = json.loads(layout)[-1] if layout.endswith(b"}]") else None
    return RetryRules.parse(document) if document is not None else None


def with_rules(layout: bytes, rules: RetryRules | None) -> bytes:
    """Return a layout with the rules of its spec."""
    if rules is None:
        return layout
    return json.dumps([*json.loads(layout), rules.definition()], separators=(",", ":")).encode()

"""Kinds of failures of runs; apart from `states`, so that clients know them without loading arrays.

Source: design section 5, "Sync"; docs/failures.md.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FailureKind"]


class FailureKind(IntEnum):
    """Why an object failed; codes as in argosy.executor.v1.FailureKind."""

    NONE = 0
    """No failure."""
    EXIT_CODE = 1
    """A container ended with a non-zero exit code."""
    OUT_OF_MEMORY = 2
    """A container was killed for using too much memory."""
    EVICTED = 3
    """The pod was evicted."""
    IMAGE = 4
    """The image could not be had."""
    INFRASTRUCTURE = 5
    """The node or cluster failed; not the job's fault."""
    REJECTED = 6
    """The API server refused the object; repeating cannot help."""
    TIME_LIMIT = 7
    """The run took longer than the job's time limit and was stopped for it; said by leaders alone."""
    RETURNED = 8
    """The cluster was to place the run itself, and no node of it holds it; no pod ever existed."""

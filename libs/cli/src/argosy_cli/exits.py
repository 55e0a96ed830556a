"""Exit codes, and which error leads to which. They are stable: scripts rely on them.

Source: design section 9, "stable exit codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotFound

__all__ = ["Declined", "ExitCode", "exit_code_of", "exit_code_of_jobs"]


class ExitCode(IntEnum):
    """What a command ends with."""

    OK = 0
    """Success."""
    SERVER = 1
    """The server refused or failed."""
    USAGE = 2
    """The command line or an input file is wrong."""
    NOT_FOUND = 3
    """What was named does not exist."""
    UNAVAILABLE = 4
    """The server cannot be reached, or time ran out."""
    JOBS_FAILED = 5
    """Jobs that were watched or replayed have ended, and some failed or were cancelled."""
    INTERRUPTED = 130
    """Stopped by the user."""


class Declined(Exception):
    """Somebody was asked, and does not want it."""


def exit_code_of(error: ArgosyError) -> ExitCode:
    """Return what a command ends with after an error."""
    if isinstance(error, InvalidRequest):
        return ExitCode.USAGE
    if isinstance(error, NotFound):
        return ExitCode.NOT_FOUND
    if isinstance(error, BackendUnavailable):
        return ExitCode.UNAVAILABLE
    return ExitCode.SERVER


def exit_code_of_jobs(counts: Mapping[str, int]) -> ExitCode:
    """Return what a command ends with once its jobs have ended.

    Args:
        counts: Jobs by name of their state.
    """
    return ExitCode.JOBS_FAILED if counts.get("failed", 0) or counts.get("cancelled", 0) else ExitCode.OK

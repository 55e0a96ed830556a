"""Exit codes, and which error leads to which. They are stable: scripts rely on them.

Source: design section 9, "stable exit codes".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

import click

from argosy_core.errors import BackendUnavailable, InvalidRequest, NotFound

__all__ = ["OWN_FAILURE", "Declined", "ExitCode", "exit_code_of", "exit_code_of_jobs", "own_failures"]

OWN_FAILURE: Final = 125
"""Exit code of a command that passes on those of others where not theirs failed but we did, as docker's."""
_CODE: Final = "argosy_exit_code"


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


@contextmanager
def own_failures() -> Iterator[None]:
    """Have whatever error leaves this block end the command with `OWN_FAILURE`; Ctrl-C, and being declined, do not."""
    try:
        yield
    except (Declined, click.Abort, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        setattr(error, _CODE, OWN_FAILURE)
        raise


def exit_code_of(error: Exception, otherwise: ExitCode = ExitCode.SERVER) -> int:
    """Return what a command ends with after an error; `otherwise` if it is none that has a code of its own."""
    if hasattr(error, _CODE):
        return int(getattr(error, _CODE))
    if isinstance(error, InvalidRequest):
        return ExitCode.USAGE
    if isinstance(error, NotFound):
        return ExitCode.NOT_FOUND
    if isinstance(error, BackendUnavailable):
        return ExitCode.UNAVAILABLE
    return otherwise


def exit_code_of_jobs(counts: Mapping[str, int]) -> ExitCode:
    """Return what a command ends with once its jobs have ended.

    Args:
        counts: Jobs by name of their state.
    """
    return ExitCode.JOBS_FAILED if counts.get("failed", 0) or counts.get("cancelled", 0) else ExitCode.OK

"""The clock that leases and fences of this machine's processes go by."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["elapsed_s"]

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Return seconds since some moment of the past; time counts while the machine sleeps.

    What is held until a time must be let go though the machine slept meanwhile, or was a paused virtual one: others
    have waited for it. `time.monotonic` stands still then.
    """
    return time.clock_gettime(_CLOCK)

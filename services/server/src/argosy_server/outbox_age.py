"""How long job events have waited to be relayed, told by the leader's process: a relay that is dead tells nothing.

Source: design section 4, job_set_events; `docs/events.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from argosy_core.errors import ArgosyError
from argosy_runtime.metrics import METRICS
from argosy_store.terms.outbox import EventOutbox

__all__ = ["show_outbox_age"]

_INTERVAL_S: Final = 10.0


async def show_outbox_age(
    outbox: EventOutbox,
    pool: str,
    *,
    interval_s: float = _INTERVAL_S,
) -> None:
    """Set `argosy_outbox_oldest_seconds` for ever.

    Args:
        outbox: The pool's outbox.
        pool: Pool.
        interval_s: Time between two looks.
    """
    gauge = METRICS.outbox_oldest_seconds.labels(pool)
    while True:
        with contextlib.suppress(ArgosyError):  # the leader itself tells of a database that is away
            age_s: float | None = await asyncio.to_thread(outbox.oldest_age_s)
            gauge.set(age_s or 0.0)
        await asyncio.sleep(interval_s)

"""What the database needs as days go by: partitions for the days to come, and none for those that have aged.

Every server process makes partitions; those with the leader role drop the aged ones, too, which is a right of the
leader's database role alone. They wait for each other, and repeating it does nothing. What day it is says the database.

Source: design section 4, "Finished jobs and events leave by partition".
"""

from __future__ import annotations

import asyncio
from typing import Final

from argosy_core.errors import ArgosyError
from argosy_runtime.logs import get_logger
from argosy_store import Retained, ensure_partitions, retain
from argosy_store.open_jobs import count_open_jobs, sum_open_jobs
from argosy_store.replicas.audit import forget_audit
from argosy_store.schema.retention import NOTHING_RETAINED
from argosy_store.terms.outbox import forget_outbox

__all__ = ["maintain", "maintain_once"]

_INTERVAL_S: Final = 3600.0
_RETRY_S: Final = 60.0


def maintain_once(url: str, retention_days: int | None, audit_days: int) -> tuple[tuple[int, ...], Retained]:
    """Make the partitions that are missing and drop those that have aged. Blocks.

    Args:
        url: Database.
        retention_days: Full days that ended jobs and events are kept; None leaves them, and the audit, to others.
        audit_days: Full days that the audit is kept.

    Returns:
        The days that were made, and what was dropped.

    Raises:
        BackendUnavailable: The database cannot be reached.
    """
    made = ensure_partitions(url, days_ahead=4)
    if retention_days is None:
        return made, NOTHING_RETAINED
    forget_outbox(url, retention_days)
    forget_audit(url, audit_days)
    retained = retain(url, retention_days)
    # Counting passes over all jobs, so it is done once a day: when there is something to do for days.
    (count_open_jobs if made or retained.closed_days or retained.dropped_days else sum_open_jobs)(url)
    return made, retained


async def maintain(url: str, retention_days: int | None, audit_days: int) -> None:
    """Maintain the database for ever, once an hour; sooner after a failure."""
    log = get_logger()
    while True:
        pause_s = _INTERVAL_S
        try:
            made, retained = await asyncio.to_thread(maintain_once, url, retention_days, audit_days)
            if made or retained.dropped_days:
                log.info("partitions maintained", made_days=made, dropped_days=retained.dropped_days)
        except ArgosyError as error:
            # Whatever it is, it is no reason to stop serving.
            pause_s = _RETRY_S
            log.warning("partitions could not be maintained", reason=error.message)
        await asyncio.sleep(pause_s)

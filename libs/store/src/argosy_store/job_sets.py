"""Job sets: the table `job_sets`, which API replicas add to and leaders number the events of.

Source: design section 4, the table of tables; section 5, "Submit" and "Ingest".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from argosy_store.postgres.binary import INT4, INT8, array, fields, text_array
from argosy_store.postgres.connection import StoreConnection

__all__ = ["add_job_sets", "advance_job_sets", "use_job_set"]

_ADD: Final = (
    "INSERT INTO job_sets (queue_id, name) SELECT * FROM unnest($1::integer[], $2::text[]) ON CONFLICT DO NOTHING"
)
_USE: Final = (
    "UPDATE job_sets SET last_used_day = argosy_now_us() / 86400000000"
    " WHERE job_set_id = %s AND last_used_day < argosy_now_us() / 86400000000 RETURNING job_set_id"
)
_ADVANCE: Final = (
    "UPDATE job_sets t SET last_event_number = n.last_number FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])"
    " AS n (job_set_id, first_number, last_number)"
    " WHERE t.job_set_id = n.job_set_id AND t.last_event_number = n.first_number - 1"
)


def add_job_sets(connection: StoreConnection, queue_ids: Sequence[int], names: Sequence[str]) -> None:
    """Store those job sets that are new, each given by its queue and name."""
    connection.bulk(_ADD, array(INT4, queue_ids), text_array(fields([name.encode() for name in names])))


def use_job_set(connection: StoreConnection, job_set_id: int) -> bool:
    """Note that a job set is used today, which keeps retention from it; return whether that was there to be noted."""
    return connection.execute(_USE, [job_set_id]).rowcount > 0


def advance_job_sets(connection: StoreConnection, spans: Mapping[int, tuple[int, int]]) -> int:
    """Number new events of job sets; return how many of them were where the first of the new numbers follows.

    Args:
        connection: Where.
        spans: By id of the job set: first and last of the new numbers.
    """
    result = connection.bulk(
        _ADVANCE,
        array(INT8, list(spans)),
        array(INT8, [first for first, _ in spans.values()]),
        array(INT8, [last for _, last in spans.values()]),
    )
    return int(result.command_tuples or 0)

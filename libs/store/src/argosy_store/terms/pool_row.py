"""The row of a pool, in the table `pools`: who leads it, and how far it has come.

Source: design section 4, the table of tables; section 5, "Leader lost".
"""

from __future__ import annotations

from typing import Final

from argosy_store.postgres.binary import BYTEA, INT8, TEXT, scalar
from argosy_store.postgres.connection import StoreConnection

__all__ = ["LEAD", "RENEW", "RESIGN", "SKIPPED_EPOCHS", "note_progress"]

LEAD: Final = """
INSERT INTO pools AS p (pool, leader_id, address, epoch, expire_time, timeline)
VALUES (%(pool)s, %(leader)s, %(address)s, 1, clock_timestamp() + make_interval(secs => %(lease)s), argosy_timeline())
ON CONFLICT (pool) DO UPDATE SET leader_id = excluded.leader_id, address = excluded.address,
    epoch = p.epoch + CASE WHEN p.timeline IN ('', excluded.timeline) THEN 1 ELSE %(skipped)s END,
    expire_time = excluded.expire_time, timeline = excluded.timeline
WHERE p.leader_id IN ('', excluded.leader_id) OR p.expire_time <= clock_timestamp()
RETURNING epoch, log_position, round_state, timeline
"""
SKIPPED_EPOCHS: Final = 1000
"""A promoted standby may lack the last epochs that its primary gave."""
_LOG_STATE: Final = """
log_failure_time = CASE WHEN %(publishes)s THEN NULL WHEN %(failing_s)s::float8 IS NULL THEN log_failure_time
    ELSE coalesce(log_failure_time, clock_timestamp() - make_interval(secs => %(failing_s)s)) END,
log_failure = CASE WHEN %(publishes)s THEN '' WHEN %(failing_s)s::float8 IS NULL THEN log_failure
    ELSE coalesce(nullif(%(reason)s, ''), nullif(log_failure, ''), 'it does not answer') END
"""
RENEW: Final = f"""
UPDATE pools SET expire_time = clock_timestamp() + make_interval(secs => %(lease)s), {_LOG_STATE}
WHERE pool = %(pool)s AND epoch = %(epoch)s AND leader_id = %(leader)s AND leader_id <> ''
RETURNING argosy_now_us()
"""
RESIGN: Final = f"""
UPDATE pools SET leader_id = '', expire_time = clock_timestamp(), {_LOG_STATE}
WHERE pool = %(pool)s AND epoch = %(epoch)s
"""
_MOVE: Final = "UPDATE pools SET log_position = $2::bigint WHERE pool = $1::text"
_MOVE_STATE: Final = "UPDATE pools SET log_position = $2::bigint, round_state = $3::bytea WHERE pool = $1::text"
_STATE: Final = "UPDATE pools SET round_state = $2::bytea WHERE pool = $1::text"


def note_progress(connection: StoreConnection, pool: str, *, position: int | None, round_state: bytes | None) -> None:
    """Store how far the log has been applied, and the state of the last round; None leaves what is there."""
    if position is not None and round_state is not None:
        connection.bulk(_MOVE_STATE, scalar(TEXT, pool), scalar(INT8, position), scalar(BYTEA, round_state))
    elif position is not None:
        connection.bulk(_MOVE, scalar(TEXT, pool), scalar(INT8, position))
    elif round_state is not None:
        connection.bulk(_STATE, scalar(TEXT, pool), scalar(BYTEA, round_state))

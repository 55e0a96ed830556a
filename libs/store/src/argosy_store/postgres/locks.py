"""Locks that transactions of all processes share, and the end of sessions that hold them while their process sleeps.

A session that is idle within a transaction loses it by `idle_in_transaction_session_timeout`. One that waits for the
rest of a COPY is not idle, and Postgres puts off `statement_timeout` until the data have come, since the protocol would
be out of step. It puts it off, too, while its answer is not read. The locks of such sessions would stay for as long as
the process is stopped, so whoever waits in vain ends them.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from typing import Final

from argosy_store.postgres.connection import StoreConnection

__all__ = ["PARTITION_LOCK", "STALLED_S", "UNREAD_S", "change_request_lock", "end_stalled_sessions"]

PARTITION_LOCK: Final = 7_310_001
"""Advisory lock: shared in every bulk transaction, exclusive for whoever changes partitions or deletes queues."""
STALLED_S: Final = 10.0
"""After how long a statement whose data do not come is given up, if others wait for a lock."""
UNREAD_S: Final = 300.0
"""After how long a statement whose answer is not read is given up, likewise: loads of a pool may read for minutes."""
# A row of `pools` is locked by leaders' transactions alone; readers hold the table in another mode. The partition lock
# is held by whoever loads a pool, too, who is never active and waiting to be sent something for long. Who reads holds
# tables, which are in the way of their days' end; only our own readers are ended, not a dump by the same role.
_END: Final = f"""
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
  AND a.state = 'active' AND a.wait_event_type = 'Client'
  AND (
    a.state_change < clock_timestamp() - make_interval(secs => %(after_s)s) AND EXISTS (
      SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.granted AND (
        l.locktype = 'relation' AND l.relation = 'pools'::regclass AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
        OR l.locktype = 'advisory' AND l.objid = {PARTITION_LOCK} AND l.objsubid = 1 AND a.wait_event = 'ClientRead'
      )
    )
    OR a.state_change < clock_timestamp() - make_interval(secs => %(unread_s)s)
    AND a.wait_event = 'ClientWrite' AND a.application_name LIKE 'argosy%%'
  )
"""


def change_request_lock(pool: str, *, shared: bool) -> str:
    """Return the statement that keeps change requests and leases of a pool apart.

    A cancel request ends a job that has no run; a lease gives a run to an open job. Each must see what the other did.
    Change requests take the lock in shared mode, leases exclusively, both for one transaction.
    """
    quoted = pool.replace("'", "''")
    return f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}(7310, hashtext('{quoted}'))"


def end_stalled_sessions(connection: StoreConnection, *, after_s: float = STALLED_S, unread_s: float = UNREAD_S) -> int:
    """End sessions that hold locks which others need and wait for their own process; return how many.

    Only sessions of the connection's own role are, which takes no further right. What is busy, or waits for a lock or
    a disk, is left alone. What an ended one was doing is rolled back, and its process learns of it as of any lost
    connection.

    Args:
        connection: Where; no transaction may be open, since that would go on to see what it saw before.
        after_s: How long ago the statement must have begun; longer than it takes to send its data.
        unread_s: How long ago one must have begun whose answer is not read; longer than it takes to read it.

    Raises:
        psycopg.Error: As the driver raises it.
    """
    return len(connection.execute(_END, {"after_s": after_s, "unread_s": unread_s}).fetchall())

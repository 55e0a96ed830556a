"""Who leads a pool: a lease in its row, and an epoch that grows with each new leader.

Source: design section 5, "Leader lost"; section 7, invariant 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg

from argosy_core.errors import StateConflict
from argosy_store.postgres.connection import READ_SETTINGS, Line
from argosy_store.postgres.locks import end_stalled_sessions
from argosy_store.postgres.partitions import database_time_us
from argosy_store.terms.pool_row import LEAD, RENEW, RESIGN, SKIPPED_EPOCHS

__all__ = ["UNTRIED", "Election", "Leadership", "LogState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """What a new leader starts from."""

    epoch: int
    """Its epoch, higher than any before."""
    log_position: int
    """Position up to which the log has been applied."""
    round_state: bytes
    """State of the last round applied, opaque here."""
    time_us: int
    """The database's time, microseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """What a leader knows of the event log that it publishes to; nothing, while it has not tried."""

    publishes: bool = False
    """What it published last was taken."""
    failing_s: float | None = None
    """For how long it has been trying in vain, seconds; None if it is not."""
    reason: str = ""
    """Why that is, empty if it just gets no answer; what was said before stands then."""


UNTRIED: Final = LogState()
"""What is known of a log before anything was published."""
LEADER_STALLED_S: Final = 5.0
"""After how long a statement whose data do not come is given up, if another process wants to lead."""
_LOCK_WAIT: Final = "2s"


class Election:
    """A process's part in the election of a pool's leader. Thread-safe: calls wait for each other.

    Args:
        url: Database, migrated.
        pool: Pool.
        stalled_s: See `LEADER_STALLED_S`.
    """

    def __init__(self, url: str, pool: str, *, stalled_s: float = LEADER_STALLED_S) -> None:
        """Remember; the connection is opened when it is needed and again after it broke."""
        # One of its own: the lease must not wait behind a load of the pool, which may take longer than it lasts.
        # A candidate that is stopped before its commit has locked the pool's row, as a leader may have.
        settings = {**READ_SETTINGS, "idle_in_transaction_session_timeout": "5000"}
        self._line = Line(url, {**settings, "application_name": "argosy-election"})
        self._pool = pool
        self._stalled_s = stalled_s
        self._leader_id = ""
        self.timeline = ""
        """Timeline of the database when the lead was taken last, empty before."""

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def try_lead(self, leader_id: str, address: str, lease_s: float) -> Leadership | None:
        """Take the pool if it is free, expired or ours already; the epoch grows by one.

        If the pool's row is locked by a process that stopped in the middle of a statement, its session is ended, and
        the next attempt finds the row free.

        Args:
            leader_id: Who asks; unique per process.
            address: host:port where the leader is reached.
            lease_s: How long the lead lasts unless renewed, by the database's clock.

        Returns:
            What to start from, or None while another leads or holds the pool's row.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        values: dict[str, Any] = {"pool": self._pool, "leader": leader_id, "address": address, "lease": lease_s}
        values["skipped"] = SKIPPED_EPOCHS
        with self._line.use() as connection:
            try:
                with connection.transaction_block(f"BEGIN; SET LOCAL lock_timeout = '{_LOCK_WAIT}'"):
                    row = connection.execute(LEAD, values).fetchone()
            except psycopg.errors.LockNotAvailable:
                end_stalled_sessions(connection, after_s=self._stalled_s)
                return None
            if row is None:
                return None
            # Asked after the commit, which may wait for a standby: what it returned would be as old as that wait.
            time_us = database_time_us(connection)
        self._leader_id, self.timeline = leader_id, row[3]
        return Leadership(epoch=row[0], log_position=row[1], round_state=bytes(row[2]), time_us=time_us)

    def renew(self, epoch: int, lease_s: float, log: LogState = UNTRIED) -> int:
        """Lead on; also when the lease ran out, as long as nobody else took the pool: the epoch is the fence.

        Who leads is looked at, too: a database that lost what it had last could give an epoch twice.

        A renewal may come late because the pool's row is locked by a large transaction of this very leader. Giving the
        epoch up for that would cost a full load of the pool just when it is busiest.

        Args:
            epoch: The caller's epoch.
            lease_s: How long the lead lasts from now on unless renewed again.
            log: Whether the leader can publish, for whoever asks the database how the pool is. A failure is told from
                its beginning on, also if leaders follow each other meanwhile.

        Returns:
            The database's time, microseconds since the Unix epoch.

        Raises:
            StateConflict: Another leader took the pool, or this one resigned.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._line.use() as connection:
            values = {"leader": self._leader_id, "lease": lease_s, **self._log_values(epoch, log)}
            row = connection.execute(RENEW, values).fetchone()
        if row is None:
            raise StateConflict(f"epoch {epoch} does not lead pool {self._pool} any more")
        return int(row[0])

    def resign(self, epoch: int, log: LogState = UNTRIED) -> None:
        """Leave the pool to whoever comes, with what is known of the log; nothing if the lead was lost before.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._line.use() as connection:
            connection.execute(RESIGN, self._log_values(epoch, log))

    def _log_values(self, epoch: int, log: LogState) -> dict[str, Any]:
        """Return the parameters of what tells the state of the log."""
        reason = log.reason.replace("\0", "")
        return {
            "pool": self._pool,
            "epoch": epoch,
            "publishes": log.publishes,
            "failing_s": log.failing_s,
            "reason": reason,
        }

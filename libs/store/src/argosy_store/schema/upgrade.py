"""An upgrade with one stop: nothing of the installation runs, the tables move, and what goes on is looked at.

Pods run on meanwhile: no service has to be there for them, and the next leader takes them over as any leader does.

Source: design section 4, "Migrations with alembic as a step of their own"; `docs/operations.md`, "Upgrade".
"""

from __future__ import annotations

import time
from typing import Final

from argosy_core.errors import NotAllowedNow
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connect, translated
from argosy_store.schema.inspection import Finding
from argosy_store.schema.migrate import check_server, migrate
from argosy_store.schema.versions import read_version

__all__ = ["require_stopped", "upgrade"]

_LED: Final = "SELECT pool, address FROM pools WHERE leader_id <> '' AND expire_time > clock_timestamp() ORDER BY pool"
_SESSIONS: Final = (
    "SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'argosy%' AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 1"
)
_MAINTENANCE: Final = MAINTENANCE_SETTINGS["application_name"]
_LEAVING_S: Final = 10.0
_LOOK_INTERVAL_S: Final = 0.05
_OPEN: Final = (
    "SELECT count(*), count(*) FILTER (WHERE s.hash IS NULL), count(*) FILTER (WHERE c.class_id IS NULL),"
    " count(*) FILTER (WHERE t.job_set_id IS NULL), (SELECT count(*) FROM changes)"
    " FROM jobs j LEFT JOIN job_specs s ON s.day = (j.handle >> 40)::integer AND s.hash = j.spec_hash"
    " LEFT JOIN scheduling_classes c USING (class_id) LEFT JOIN job_sets t USING (job_set_id) WHERE j.state = 0"
)
_LIVE: Final = (
    "SELECT r.cluster, count(*), coalesce(bool_or(k.forgotten), true), count(*) FILTER (WHERE j.state <> 0),"
    " count(*) FILTER (WHERE NOT EXISTS (SELECT FROM objects o WHERE o.handle = r.handle AND o.attempt = r.attempt"
    " AND o.member = r.member AND o.kind = 'Pod')) FROM runs r JOIN jobs j USING (handle)"
    " LEFT JOIN clusters k ON k.name = r.cluster"
    " WHERE r.end_time_us IS NULL GROUP BY r.cluster ORDER BY r.cluster"
)


@translated
def require_stopped(url: str) -> None:
    """Raise unless nobody leads and no service is connected.

    Sessions of maintenance get `_LEAVING_S` to end: a server lists one for a moment after it was closed, and the
    command that asks has closed some of its own. So they are not named where services are.

    Raises:
        NotAllowedNow: A pool is led, or a service is connected.
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        row = connection.execute("SELECT to_regclass('pools')").fetchone()
        led = connection.execute(_LED).fetchall() if row is not None and row[0] is not None else []
        if led:
            pools = ", ".join(f"pool {pool} by {address}" for pool, address in led)
            raise NotAllowedNow(f"somebody leads ({pools}): stop the servers, which drain first, then run it again")
        given_up_s = time.monotonic() + _LEAVING_S
        while sessions := connection.execute(_SESSIONS).fetchall():
            services = [session for session in sessions if session[0] != _MAINTENANCE]
            if services or time.monotonic() >= given_up_s:
                break
            connection.rollback()  # a transaction sees the sessions of its first look
            time.sleep(_LOOK_INTERVAL_S)
    if sessions:
        names = ", ".join(f"{name} ({count})" for name, count in services or sessions)
        raise NotAllowedNow(f"services are connected to the database: {names}; stop them, then run it again")


def upgrade(url: str, *, owner: str = "") -> list[Finding]:
    """Bring the tables to this version while nothing uses them, and look at what goes on afterwards.

    Repeating it is safe; a migration that fails leaves the version before.

    Args:
        url: Database.
        owner: Role that shall own what is made; empty for the URL's user.

    Returns:
        What was found, jobs and live runs among it.

    Raises:
        NotAllowedNow: Somebody leads or is connected, or the server is too old; nothing was changed.
        BackendUnavailable: Postgres cannot be reached.
    """
    check_server(url)
    before = read_version(url).present
    require_stopped(url)
    migrate(url, owner=owner)
    after = read_version(url).present
    text = f"version {after}, as before" if before == after else f"from version {before or 'none'} to {after}"
    return [_finding("stopped", "nobody leads, and no service is connected"), _finding("tables", text), *_look(url)]


def _finding(subject: str, text: str, advice: str = "") -> Finding:
    """Return a finding, which is a problem if there is something to do."""
    return Finding(subject=subject, status="problem" if advice else "ok", text=text, advice=advice)


@translated
def _look(url: str) -> list[Finding]:
    """Return how many jobs are open and runs live, and what of them a leader could not take over."""
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        return [_jobs(connection), *_runs(connection)]


def _jobs(connection: StoreConnection) -> Finding:
    """Look at the open jobs, and at what they refer to."""
    row = connection.execute(_OPEN).fetchone()
    assert row is not None
    count, specless, classless, setless, unread = row
    text = f"{count} open, {unread} changes that no leader has read"
    if specless or classless or setless:
        text += f"; without spec {specless}, without scheduling class {classless}, without job set {setless}"
        return _finding("jobs", text, "cancel these jobs, which cannot run, or restore what is missing")
    return _finding("jobs", text)


def _runs(connection: StoreConnection) -> list[Finding]:
    """Look at the live runs of each cluster."""
    findings = []
    for cluster, count, is_forgotten, ended, podless in connection.execute(_LIVE):
        subject, text = f"cluster {cluster}", f"{count} runs go on"
        if is_forgotten:
            advice = f"start the executor of {cluster}, or forget the cluster, so that its runs are given up"
            findings.append(_finding(subject, f"{text}, but nobody knows the cluster", advice))
        elif ended or podless:
            advice = "look at these runs: their pods may be left over"
            findings.append(_finding(subject, f"{text}; of ended jobs {ended}, without a pod {podless}", advice))
        else:
            findings.append(_finding(subject, text))
    return findings or [_finding("runs", "none goes on")]

"""What an operator should know about the database: everything that has to be so, looked at once.

Source: design section 4; `docs/operations.md`, "What `argosy admin check` looks at".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import psycopg

from argosy_core.errors import ArgosyError, NotAllowedNow
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connection_options, translated
from argosy_store.schema.migrate import require_version
from argosy_store.schema.roles import DEFAULT_PREFIX, ROLES, missing_rights, role_name
from argosy_store.schema.versions import read_version

__all__ = ["Finding", "inspect_database"]

_DAY_US: Final = 86_400_000_000
_DAYS_AHEAD: Final = 1
"""Days after today that must have partitions; servers make three, hourly."""
_LAG: Final = 1000
"""Records of the log that may wait to be applied; a leader has a handful under way."""
_LATE_S: Final = 300
"""How long job events may wait to be relayed; some tenths of a second are usual."""
_OLD_TRANSACTIONS: Final = 1_500_000_000
"""Age at which old transaction ids are in earnest; Postgres stops at two thousand millions."""
_SHOWN: Final = 5
"""Most single faults that one line names."""
_SEE_LOG: Final = "see that the event log takes records (on Pulsar: `argosy admin check-log`), and what leaders log"
"""What to do where nothing is published."""
_ELSEWHERE: Final = "its log is not in this database; the leader's metric argosy_log_lag_records says how much waits"
"""What can be said of a log on brokers."""
_LOSING: Final = {
    "fsync": "a crash of the machine may destroy the database",
    "full_page_writes": "a crash in the middle of writing a page may destroy it",
    "synchronous_commit": "a crash loses jobs that were acknowledged",
}
"""Settings that must not be off, and what happens if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    """What was looked at."""
    status: Literal["ok", "problem"]
    """Whether it is as it should be."""
    text: str
    """What was found."""
    advice: str = ""
    """What to do, empty if all is well."""

    @property
    def is_problem(self) -> bool:
        """Whether something has to be done."""
        return self.status == "problem"


def inspect_database(url: str, now_us: int, *, prefix: str = DEFAULT_PREFIX) -> list[Finding]:
    """Look at everything; what cannot be looked at because of what was found before is left out.

    Args:
        url: Database; a user who may read everything, as the reader.
        now_us: Microseconds since the Unix epoch.
        prefix: Prefix of the roles' names.

    Raises:
        InvalidRequest: The URL or the prefix cannot be read.
    """
    role_name(prefix, "reader")
    connection_options(url, {})
    try:
        version = _server_version(url)
    except ArgosyError as error:
        advice = "see that the server runs, and that host, port, user, password and certificates are right"
        return [_problem("database", error.message, advice)]
    findings = [_ok("database", f"reachable, Postgres {version // 10000}.{version % 10000}")]
    try:
        require_version(version)
    except NotAllowedNow as error:
        return [_problem("version", error.message, "upgrade Postgres")]
    schema = read_version(url)
    findings += _settings(url)
    if not schema.works:
        return [*findings, _problem("migrations", str(schema), schema.advice)]
    findings.append(_ok("migrations", f"version {schema.present}"))
    findings.append(_roles(url, prefix))
    return [*findings, *_contents(url, now_us)]


def _ok(subject: str, text: str) -> Finding:
    return Finding(subject=subject, status="ok", text=text)


def _problem(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject=subject, status="problem", text=text, advice=advice)


@translated
def _server_version(url: str) -> int:
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS)) as connection:
        return connection.info.server_version


@translated
def _settings(url: str) -> list[Finding]:
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [[*_LOSING]]
        ).fetchall()
    off = sorted(name for name, value in rows if value == "off")
    if not off:
        return [_ok("settings", "none that loses data")]
    return [_problem("settings", f"{name} is off: {_LOSING[name]}", f"set {name} = on") for name in off]


def _roles(url: str, prefix: str) -> Finding:
    missing = missing_rights(url, prefix)
    if len([text for text in missing if text.startswith("there is no role")]) == len(ROLES):
        return _ok("roles", f"none by the prefix {prefix}: services use the rights of whoever owns the tables")
    if not missing:
        return _ok("roles", f"all by the prefix {prefix} have their rights")
    rest = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return _problem("roles", "; ".join(missing[:_SHOWN]) + rest, "run `argosy admin migrate --grant`")


@translated
def _contents(url: str, now_us: int) -> list[Finding]:
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS), autocommit=True) as connection:
        return [
            _partitions(connection, now_us // _DAY_US),
            _quarantine(connection),
            _suspects(connection),
            *_pools(connection),
            _events(connection, now_us),
            _age(connection),
        ]


def _rows(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement.encode()).fetchall()


def _partitions(connection: psycopg.Connection[tuple[Any, ...]], today: int) -> Finding:
    ((days,),) = _rows(connection, "SELECT days FROM partition_state")
    missing = [day for day in range(today, today + _DAYS_AHEAD + 1) if day not in days]
    if missing:
        text = f"there are none for day {', '.join(map(str, missing))} (days since 1970)"
        return _problem("partitions", text, "see that a server runs and what it logs, or run `argosy admin migrate`")
    return _ok("partitions", f"{len(days)} days, up to {max(days) - today} days ahead")


def _quarantine(connection: psycopg.Connection[tuple[Any, ...]]) -> Finding:
    rows = _rows(connection, "SELECT pool, count(*), max(error) FROM quarantine GROUP BY pool ORDER BY pool")
    if not rows:
        return _ok("quarantine", "empty")
    text = "; ".join(f"pool {pool} has {count}, as: {error}" for pool, count, error in rows)
    return _problem("quarantine", text, "see `argosy admin quarantine list`; retry or drop what is understood")


def _suspects(connection: psycopg.Connection[tuple[Any, ...]]) -> Finding:
    rows = _rows(connection, "SELECT pool, kind, count(*), max(error) FROM suspects GROUP BY 1, 2 ORDER BY 1, 2")
    if not rows:
        return _ok("suspects", "none")
    text = "; ".join(f"pool {pool} set aside {count} of kind {kind}, as: {error}" for pool, kind, count, error in rows)
    return _problem("suspects", text, "see `argosy admin quarantine list`; retry what is understood")


def _pools(connection: psycopg.Connection[tuple[Any, ...]]) -> list[Finding]:
    statement = (
        "SELECT p.pool, p.leader_id <> '' AND p.expire_time > clock_timestamp(), p.epoch, p.log_position,"
        " e.position, p.log_failure,"
        " to_char(p.log_failure_time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"'),"
        " extract(epoch FROM clock_timestamp() - p.log_failure_time)::bigint"
        " FROM pools p LEFT JOIN log_ends e USING (pool) ORDER BY 1"
    )
    findings = []
    for pool, led, epoch, applied, end, failure, since, failing_s in _rows(connection, statement):
        subject = f"pool {pool}"
        in_vain = f"published nothing since {since} ({failing_s} s), so nothing new is leased: {failure}"
        if not led and since:
            text = f"nobody leads it; its last leader had {in_vain}"
            findings.append(_problem(subject, text, f"start a server with the leader role; {_SEE_LOG}"))
        elif not led:
            findings.append(_problem(subject, "nobody leads it", "start a server with the leader role"))
        elif since:
            findings.append(_problem(subject, f"led, epoch {epoch}, but its leader has {in_vain}", _SEE_LOG))
        elif end is None or end < applied:  # then it is on brokers; a log that was left keeps its end here
            findings.append(_ok(subject, f"led, epoch {epoch}; {_ELSEWHERE}"))
        elif end - applied > _LAG:
            text = f"the log is applied up to {applied}, and ends at {end}"
            findings.append(_problem(subject, text, "see what its leader logs, and whether the database is slow"))
        else:
            findings.append(_ok(subject, f"led, epoch {epoch}, {end - applied} records of the log to apply"))
    return findings


def _events(connection: psycopg.Connection[tuple[Any, ...]], now_us: int) -> Finding:
    statement = (
        "SELECT p.pool, o.create_time_us FROM pools p CROSS JOIN LATERAL (SELECT create_time_us FROM event_outbox"
        " WHERE pool = p.pool ORDER BY id LIMIT 1) o ORDER BY 1"
    )
    waiting = [(pool, (now_us - oldest_us) // 1_000_000) for pool, oldest_us in _rows(connection, statement)]
    late = [f"those of pool {pool} have waited {age_s:,} s for a relay" for pool, age_s in waiting if age_s > _LATE_S]
    if late:
        return _problem("events", "; ".join(late), "see that a server with the relay role runs, and what it logs")
    return _ok("events", "none has waited long to be relayed to other systems")


def _age(connection: psycopg.Connection[tuple[Any, ...]]) -> Finding:
    ((age,),) = _rows(connection, "SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()")
    if age > _OLD_TRANSACTIONS:
        advice = "see that autovacuum runs and that no transaction, prepared or idle, has been open for days"
        return _problem("transaction ids", f"the oldest is {age:,} transactions old", advice)
    return _ok("transaction ids", f"the oldest is {age:,} transactions old")

"""Database roles with least rights: who may do what to which table.

Roles are named by a common prefix: the migrator owns everything; API and leader may do exactly what their store does,
a server that is both may do both; the reader looks. No service needs the right to change tables: partitions are made
and dropped by functions of the migrator's (migration 0002), and a new partition gets the rights of its table.

Source: design section 1, "One writer per fact".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from argosy_core.errors import InvalidRequest, NotAllowedNow
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connection_options, translated

__all__ = [
    "DEFAULT_PREFIX",
    "ROLES",
    "grant_rights",
    "make_roles",
    "missing_rights",
    "role_name",
    "roles_script",
]

DEFAULT_PREFIX: Final = "argosy"
"""Prefix of the roles' names where nothing else is said."""
ROLES: Final[Mapping[str, str]] = {
    "migrator": "owns the tables; runs `argosy admin migrate`",
    "api": "servers with the API role alone",
    "leader": "servers with the leader role alone",
    "relay": "servers that relay job events and do nothing else",
    "server": "servers with all roles; may do what api, leader and relay may",
    "reader": "people and dashboards that look",
}
"""The roles, and who uses each."""

_EVERYTHING: Final = "*"
_API: Final[Mapping[str, Sequence[str]]] = {
    "alembic_version": ("SELECT",),
    "audit_outbox": ("INSERT",),
    "audit_records": ("SELECT", "INSERT"),
    "changes": ("SELECT", "INSERT"),
    "cluster_bounds": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "cluster_certificates": ("SELECT", "INSERT", "DELETE"),
    "cluster_identities": ("SELECT", "INSERT", "UPDATE"),
    "cluster_invitations": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "cluster_pools": ("SELECT",),
    "clusters": (
        "SELECT",
        "INSERT",
        "UPDATE (cordoned, cordon_reason, cordoned_nodes, node_cordon_reasons, forgotten)",
        "UPDATE (delegated, delegated_by_operator)",
    ),
    "deduplication": ("SELECT", "INSERT", "DELETE"),
    "grants": ("SELECT", "INSERT", "DELETE"),
    "job_set_events": ("SELECT",),
    "job_metadata": ("SELECT", "INSERT", "UPDATE (last_used_day)"),
    "job_sets": ("SELECT", "INSERT", "UPDATE (last_used_day)"),
    "job_specs": ("SELECT", "INSERT"),
    "jobs": (
        "SELECT",
        "INSERT",
        "UPDATE (state, cancel_requested, priority, end_time_us, reason, held, preempt_attempt)",
    ),
    "object_rows": ("SELECT",),
    "objects": ("SELECT",),
    "open_job_counts": ("SELECT", "INSERT", "DELETE"),
    "partition_state": ("SELECT", "UPDATE (deleted_queue_ids)"),
    "pool_settings": ("SELECT", "INSERT", "DELETE"),
    "pools": ("SELECT",),
    "queue_counts": ("SELECT",),
    "queue_policies": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "queue_rates": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "queues": ("SELECT", "INSERT", "UPDATE"),
    "runs": ("SELECT",),
    "scheduling_classes": ("SELECT", "INSERT", "UPDATE (last_used_day)"),
    "schema_support": ("SELECT",),
    "shared_state": ("SELECT", "UPDATE"),
}
_LEADER: Final[Mapping[str, Sequence[str]]] = {
    _EVERYTHING: ("SELECT",),
    # Calls about clusters are served by leaders, too, and each is news.
    "audit_outbox": ("INSERT",),
    "audit_records": ("INSERT", "DELETE"),
    "changes": ("INSERT", "DELETE"),
    "cluster_pools": ("INSERT", "UPDATE", "DELETE"),
    "clusters": ("INSERT", "UPDATE"),
    "deduplication": ("DELETE",),
    "ended_sessions": ("INSERT", "DELETE"),
    "event_outbox": ("INSERT", "DELETE"),
    "job_metadata": ("DELETE",),
    "job_set_events": ("INSERT",),
    "job_set_events_carried": ("DELETE",),
    "job_sets": ("UPDATE (last_event_number)", "DELETE"),
    "job_specs_carried": ("DELETE",),
    "jobs": ("UPDATE (state, priority, end_time_us, reason)",),
    "jobs_carried": ("DELETE",),
    "log_ends": ("INSERT", "UPDATE"),
    "log_records": ("INSERT", "DELETE"),
    "objects": ("INSERT", "UPDATE"),
    "pool_settings": ("INSERT", "DELETE"),
    "objects_carried": ("DELETE",),
    "open_job_counts": ("INSERT", "DELETE"),
    "pools": ("INSERT", "UPDATE"),
    "quarantine": ("INSERT",),
    "queue_counts": ("INSERT", "UPDATE"),
    "runs": ("INSERT", "UPDATE"),
    "runs_carried": ("DELETE",),
    "scheduling_classes": ("DELETE",),
    "suspects": ("INSERT",),
}
_RELAY: Final[Mapping[str, Sequence[str]]] = {
    "alembic_version": ("SELECT",),
    "audit_outbox": ("SELECT", "DELETE"),
    "audit_records": ("SELECT",),
    "event_outbox": ("SELECT", "DELETE"),
    "job_set_events": ("SELECT",),
    "job_sets": ("SELECT",),
    "pools": ("SELECT",),
    "queues": ("SELECT",),
    "schema_support": ("SELECT",),
}
_RIGHTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "api": _API,
    "leader": _LEADER,
    "relay": _RELAY,
    "reader": {_EVERYTHING: ("SELECT",)},
}
_FUNCTIONS: Final[Mapping[str, Sequence[str]]] = {
    "api": ("argosy_now_us()", "argosy_timeline()", "argosy_make_partitions(integer)"),
    "leader": (
        "argosy_now_us()",
        "argosy_timeline()",
        "argosy_make_partitions(integer)",
        "argosy_open_from(integer)",
        "argosy_close_day(integer)",
        "argosy_drop_partitions(integer, bigint)",
    ),
}
_OURS: Final = (
    "SELECT c.relname, c.relkind::text, pg_get_userbyid(c.relowner) FROM pg_class c"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v')"
    " AND (c.relname = ANY (%s) OR c.relispartition) ORDER BY c.relname"
)
_PARENTS: Final = (
    "SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits i JOIN pg_class c"
    " ON c.oid = i.inhrelid WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace ORDER BY 1"
)

_Connection = psycopg.Connection[tuple[Any, ...]]


def role_name(prefix: str, role: str) -> str:
    """Return the name of a role in the database.

    Raises:
        InvalidRequest: The prefix is no plain name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", prefix):
        raise InvalidRequest(f"the prefix of roles should be a-z, 0-9 and _, at most 41 characters, and not {prefix!r}")
    return f"{prefix}_{role}"


def roles_script(prefix: str = DEFAULT_PREFIX, *, database: str = "argosy", schema: str = "public") -> str:
    """Return the SQL that makes the roles, for an administrator to run once before the first migration.

    The roles can log in, and have no password yet: set them, or have clients use certificates. What each
    may do to tables is granted by the migrator, with `argosy admin migrate --grant`.
    """
    lines = []
    for role, purpose in ROLES.items():
        name = role_name(prefix, role)
        lines += [
            f"-- {purpose}",
            f"DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;",
            f'GRANT CONNECT ON DATABASE "{database}" TO {name};',
            f'GRANT USAGE{", CREATE" if role == "migrator" else ""} ON SCHEMA "{schema}" TO {name};',
        ]
    parts = ", ".join(role_name(prefix, role) for role in ("api", "leader", "relay"))
    lines.append(f"GRANT {parts} TO {role_name(prefix, 'server')};")
    return "\n".join(lines) + "\n"


@translated
def make_roles(url: str, prefix: str = DEFAULT_PREFIX, passwords: Mapping[str, str] | None = None) -> None:
    """Make the roles that are missing, and let the migrator own what there is. Repeating it does nothing.

    Args:
        url: Database; its user is an administrator, or the migrator if the roles are there already.
        prefix: Prefix of the roles' names.
        passwords: Passwords by role; those of others stay as they are. They leave this process hashed.

    Raises:
        InvalidRequest: The prefix is no plain name, or a password is for no role of ours.
        NotAllowedNow: The user may not make roles.
        BackendUnavailable: Postgres cannot be reached.
    """
    unknown = sorted(set(passwords or {}) - set(ROLES))
    if unknown:
        raise InvalidRequest(f"there is no role {unknown[0]}; there are {', '.join(ROLES)}")
    names = {role: role_name(prefix, role) for role in ROLES}
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS)) as connection:
        present = {
            row[0] for row in connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE %s", [prefix + "%"])
        }
        me, database, schema = connection.execute(
            "SELECT current_user, current_database(), current_schema()"
        ).fetchone() or ("", "", "")
        if set(names.values()) - present:
            try:
                connection.execute(roles_script(prefix, database=database, schema=schema or "public").encode())
            except psycopg.errors.InsufficientPrivilege:
                raise NotAllowedNow(
                    f"{me} may not make roles; have an administrator run what `argosy admin roles` prints"
                ) from None
        for role, password in (passwords or {}).items():
            hashed = connection.pgconn.encrypt_password(password.encode(), names[role].encode(), b"scram-sha-256")
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(statement.format(sql.Identifier(names[role]), sql.Literal(hashed.decode())))
        if me != names["migrator"]:
            _hand_over(connection, names["migrator"])


def _hand_over(connection: _Connection, migrator: str) -> None:
    """Let the migrator own the tables and functions that are there, and let us act as the migrator."""
    connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(migrator)))
    from argosy_store.schema.tables import metadata

    names = [*metadata.tables, "object_rows", "alembic_version"]
    for name, kind, owner in connection.execute(_OURS, [names]).fetchall():
        if owner != migrator:
            statement = sql.SQL("ALTER {} {} OWNER TO {}")
            noun = sql.SQL("VIEW" if kind == "v" else "TABLE")
            connection.execute(statement.format(noun, sql.Identifier(name), sql.Identifier(migrator)))
    functions = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
        " AND proname LIKE 'argosy\\_%%' AND pg_get_userbyid(proowner) <> %s",
        [migrator],
    ).fetchall()
    for (function,) in functions:
        statement = sql.SQL("ALTER FUNCTION {} OWNER TO {}")
        connection.execute(statement.format(sql.SQL(function), sql.Identifier(migrator)))


@translated
def grant_rights(url: str, prefix: str = DEFAULT_PREFIX) -> None:
    """Grant each role what it needs and take what it does not; in one transaction, repeating it changes nothing.

    Args:
        url: Database, migrated; its user owns the tables.
        prefix: Prefix of the roles' names.

    Raises:
        NotAllowedNow: The roles are not there.
        BackendUnavailable: Postgres cannot be reached.
    """
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS)) as connection:
        try:
            _grant(connection, prefix)
        except psycopg.errors.UndefinedObject as error:
            reason = str(error).splitlines()[0]
            raise NotAllowedNow(f"{reason}; have an administrator run what `argosy admin roles` prints") from None


def _grant(connection: _Connection, prefix: str) -> None:
    parents: dict[str, list[str]] = {}
    for child, parent in connection.execute(_PARENTS).fetchall():
        parents.setdefault(parent, []).append(child)
    for role, rights in _RIGHTS.items():
        name = sql.Identifier(role_name(prefix, role))
        schema = sql.Identifier(_schema(connection))
        connection.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(schema, name))
        for table, privileges in rights.items():
            if table == _EVERYTHING:
                connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schema, name))
                continue
            targets = [sql.Identifier(target) for target in (table, *parents.get(table, ()))]
            for privilege in privileges:
                statement = sql.SQL("GRANT {} ON {} TO {}")
                connection.execute(statement.format(sql.SQL(privilege), sql.SQL(", ").join(targets), name))
        for function in _FUNCTIONS.get(role, ()):
            connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.SQL(function), name))


def _schema(connection: _Connection) -> str:
    row = connection.execute("SELECT current_schema()").fetchone()
    return str(row[0]) if row is not None and row[0] is not None else "public"


@translated
def missing_rights(url: str, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Return what is missing of roles and rights, one sentence each; empty if nothing is.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    found = []
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS), autocommit=True) as connection:
        names = [role_name(prefix, role) for role in ROLES]
        present = {
            row[0] for row in connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [names])
        }
        found += [f"there is no role {name}" for name in names if name not in present]
        partitions = connection.execute(_PARENTS).fetchall()
        for role, rights in _RIGHTS.items():
            name = role_name(prefix, role)
            if name not in present:
                continue
            for table, privileges in rights.items():
                if table == _EVERYTHING:
                    continue
                targets = [table, *(child for child, parent in partitions if parent == table)]
                found += [
                    f"{name} lacks {privilege} on {target}"
                    for target in targets
                    for privilege in privileges
                    if not _has(connection, name, target, privilege)
                ]
    return found


def _has(connection: _Connection, role: str, table: str, privilege: str) -> bool:
    """Return whether a role has a privilege on a table, or on each of the columns named with it."""
    kind, _, columns = privilege.partition(" (")
    if not columns:
        row = connection.execute("SELECT has_table_privilege(%s, %s, %s)", [role, table, kind]).fetchone()
        return row is not None and bool(row[0])
    statement = "SELECT bool_and(has_column_privilege(%s, %s, c, %s)) FROM unnest(%s::text[]) AS c"
    row = connection.execute(statement, [role, table, kind, columns.rstrip(")").split(", ")]).fetchone()
    return row is not None and bool(row[0])

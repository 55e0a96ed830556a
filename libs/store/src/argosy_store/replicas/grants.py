"""Grants: what users and groups may do, as rows.

A grant names its queue, and goes with it: a queue that is made anew by the same name begins without any.

Source: design section 5, "Who is who".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from argosy_core.access import Grant
from argosy_core.errors import NotFound, Resource
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import note_changes

__all__ = ["GrantCalls"]

_UNNEST: Final = "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
_ADD: Final = f"INSERT INTO grants (subject, queue, verb) {_UNNEST} ON CONFLICT DO NOTHING"
_REMOVE: Final = f"DELETE FROM grants WHERE (subject, queue, verb) IN ({_UNNEST})"
_GRANTS_OF: Final = (
    "WITH RECURSIVE g AS (SELECT subject, queue, verb FROM grants WHERE subject = ANY (%s)"
    " UNION SELECT g.subject, q.name, g.verb FROM g JOIN queues q ON q.parent = g.queue AND NOT q.deleted"
    " WHERE g.queue <> '') SELECT subject, queue, verb FROM g"
)
_LOCK_QUEUES: Final = "SELECT name FROM queues WHERE name = ANY (%s) AND NOT deleted ORDER BY queue_id FOR SHARE"
_LIST: Final = (
    "SELECT subject, queue, verb FROM grants WHERE (subject, queue, verb) > (%s, %s, %s)"
    " AND (%s = '' OR subject = %s) AND (%s = '' OR queue = %s) ORDER BY subject, queue, verb LIMIT %s"
)


class GrantCalls:
    """What an API replica does with grants."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def grants_of(self, subjects: Sequence[str]) -> list[Grant]:
        """Return what was granted to some subjects, on queues themselves or on those that they stand below.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.submits() as connection:  # every call may wait for it, so slow requests must not
            rows = connection.execute(_GRANTS_OF, [list(subjects)])
            return [Grant(subject=row[0], queue=row[1], verb=row[2]) for row in rows]

    def list_grants(
        self, after: Grant | None = None, limit: int = 100, *, subject: str = "", queue: str = ""
    ) -> list[Grant]:
        """Return grants in order of subject, queue and verb, those after one; of one subject or queue only, if named.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        key = ("", "", "") if after is None else (after.subject, after.queue, after.verb)
        with self._connections.read() as connection:
            rows = connection.execute(_LIST, [*key, subject, subject, queue, queue, limit])
            return [Grant(subject=row[0], queue=row[1], verb=row[2]) for row in rows]

    def add_grants(self, grants: Sequence[Grant]) -> None:
        """Add grants, all or none; those that are there are fine.

        Raises:
            NotFound: A queue does not exist.
            BackendUnavailable: Postgres cannot be reached.
        """
        names = {grant.queue for grant in grants if grant.queue}
        with self._connections.read() as connection, connection.transaction_block():
            if names:  # locked, so that none is deleted while it gets grants
                found = {row[0] for row in connection.execute(_LOCK_QUEUES, [sorted(names)])}
                for name in sorted(names - found):
                    raise NotFound(f"there is no queue {name}", resource=Resource(kind="Queue", name=name))
            connection.execute(_ADD, _columns(grants))
            note_changes(connection, _described(grants))

    def remove_grants(self, grants: Sequence[Grant]) -> None:
        """Take grants away, all in one step; those that are not there are fine.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            connection.execute(_REMOVE, _columns(grants))
            note_changes(connection, _described(grants))


def _described(grants: Sequence[Grant]) -> list[tuple[str, str, str]]:
    return [("Grant", one.subject, f"{one.verb} on {one.queue}" if one.queue else one.verb) for one in grants]


def _columns(grants: Sequence[Grant]) -> list[list[str]]:
    return [
        [grant.subject for grant in grants],
        [grant.queue for grant in grants],
        [grant.verb for grant in grants],
    ]

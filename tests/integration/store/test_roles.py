"""Roles with least rights: each does its own work, and what is not granted is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from argosy_core.errors import InvalidRequest, InvariantViolation, NotAllowedNow
from argosy_store import (
    EmbeddedPostgres,
    LeaderStore,
    create_database,
    drop_database,
    ensure_partitions,
    migrate,
    retain,
)
from argosy_store.replicas.audit import AuditOutbox
from argosy_store.schema import roles
from argosy_store.schema.migrate import check
from argosy_store.schema.roles import (
    ROLES,
    grant_rights,
    make_roles,
    missing_rights,
    role_name,
    roles_script,
)
from argosy_store.schema.tables import metadata
from argosy_store.terms.outbox import EventOutbox
from argosy_testkit.postgres import today
from argosy_testkit.store_way import go_whole_way

_PREFIX = "tenant"
_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Granted:
    """A database with roles."""

    url: str

    def of(self, role: str) -> str:
        """Return the URL by which a role comes."""
        return make_conninfo(self.url, user=role_name(_PREFIX, role))


@pytest.fixture(scope="module")
def granted(postgres_server: EmbeddedPostgres) -> Iterator[Granted]:
    """Give a database whose tables were made by an administrator, migrated and granted as the migrator."""
    url = create_database(postgres_server.url, "granted")
    migrate(url)
    make_roles(url, _PREFIX)
    database = Granted(url)
    migrate(database.of("migrator"))
    grant_rights(database.of("migrator"), _PREFIX)
    yield database
    drop_database(postgres_server.url, "granted")
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        for role in ("server", *ROLES):
            connection.execute(f"DROP ROLE IF EXISTS {role_name(_PREFIX, role)}")


@pytest.mark.parametrize(("api_role", "leader_role"), [("api", "leader"), ("server", "server")], ids=["apart", "both"])
def test_whole_way_of_a_job_needs_no_more_than_its_roles(granted: Granted, api_role: str, leader_role: str) -> None:
    """Submit, lease, report and finish, change requests, queues, clusters, the log, partitions and retention."""
    go_whole_way(granted.of(api_role), granted.of(leader_role), pool=api_role)


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        pytest.param("api", "DELETE FROM jobs", id="api-deletes-jobs"),
        pytest.param("api", "UPDATE jobs SET queue_id = 1", id="api-moves-jobs"),
        pytest.param("api", "UPDATE runs SET state = 4", id="api-writes-runs"),
        pytest.param("api", "INSERT INTO objects SELECT * FROM objects", id="api-writes-objects"),
        pytest.param("api", "UPDATE pools SET epoch = 9", id="api-takes-a-pool"),
        pytest.param("api", "SELECT * FROM log_records", id="api-reads-the-log"),
        pytest.param("api", "SELECT argosy_drop_partitions(1, 0)", id="api-drops-partitions"),
        pytest.param("leader", "INSERT INTO jobs SELECT * FROM jobs", id="leader-makes-jobs"),
        pytest.param("leader", "UPDATE queues SET weight = 9", id="leader-changes-queues"),
        pytest.param("leader", "UPDATE jobs SET cancel_requested = 1", id="leader-change-requests"),
        pytest.param("leader", "DROP TABLE jobs", id="leader-drops-a-table"),
        pytest.param("leader", "CREATE TABLE mine (a int)", id="leader-makes-a-table"),
        pytest.param("leader", "ALTER TABLE runs DETACH PARTITION runs_carried", id="leader-detaches"),
        pytest.param("reader", "UPDATE queues SET weight = 9", id="reader-writes"),
        pytest.param("reader", "SELECT argosy_make_partitions(1)", id="reader-makes-partitions"),
    ],
)
def test_what_is_not_granted_is_refused(granted: Granted, role: str, statement: str) -> None:
    """One writer per fact is the database's rule too."""
    with (
        psycopg.connect(granted.of(role)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_store_says_which_right_is_missing_and_what_to_do(granted: Granted) -> None:
    """A server with the wrong role learns it from the first message."""
    store = LeaderStore(granted.of("api"), "default")
    with pytest.raises(InvariantViolation, match=r"permission denied for table pools; `argosy admin migrate --grant`"):
        store.try_lead("l", "h:1", 60)
    store.close()
    with pytest.raises(InvariantViolation, match="permission denied"):
        retain(granted.of("api"), 7)


def test_reader_sees_everything_also_in_new_partitions(granted: Granted) -> None:
    """Partitions that are made later have the rights of their tables."""
    day = today() + 300
    ensure_partitions(granted.of("api"), day, days_ahead=0)
    with psycopg.connect(granted.of("reader")) as connection:
        assert connection.execute(f"SELECT count(*) FROM runs_d{day}").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM object_rows").fetchone() is not None
    assert missing_rights(granted.url, _PREFIX) == []
    retain(granted.of("leader"), 7)
    ensure_partitions(granted.of("leader"), days_ahead=4)


def test_rights_that_were_taken_are_named_and_given_again(granted: Granted) -> None:
    """`check` lists what lacks; granting again mends it, and takes what is too much."""
    with psycopg.connect(granted.of("migrator")) as connection:
        connection.execute(f"REVOKE INSERT ON jobs FROM {_PREFIX}_api")
        connection.execute(f"GRANT DELETE ON jobs TO {_PREFIX}_api")
    assert missing_rights(granted.url, _PREFIX) == [f"{_PREFIX}_api lacks INSERT on jobs"]
    grant_rights(granted.of("migrator"), _PREFIX)
    assert missing_rights(granted.url, _PREFIX) == []
    with psycopg.connect(granted.url) as connection:
        row = connection.execute("SELECT has_table_privilege(%s, 'jobs', 'DELETE')", [f"{_PREFIX}_api"]).fetchone()
    assert row == (False,)


def test_roles_can_be_made_by_the_printed_script_alone(granted: Granted) -> None:
    """An administrator may prefer to run SQL; running it twice is fine."""
    with psycopg.connect(granted.url) as connection:
        for _ in range(2):
            connection.execute(roles_script("printed", database="granted").encode())
        rows = connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'printed%'").fetchall()
        assert {row[0] for row in rows} == {role_name("printed", role) for role in ROLES}
        connection.rollback()


def test_only_an_administrator_makes_roles(granted: Granted) -> None:
    """The migrator, who has no need of it otherwise, is told what to do; names are plain."""
    with pytest.raises(NotAllowedNow, match="have an administrator run what `argosy admin roles` prints"):
        make_roles(granted.of("migrator"), "other")
    with pytest.raises(NotAllowedNow, match="argosy admin roles"):
        grant_rights(granted.of("migrator"), "other")
    with pytest.raises(InvalidRequest, match="prefix"):
        make_roles(granted.url, "x; DROP TABLE jobs")


def test_passwords_are_set_hashed(granted: Granted) -> None:
    """The server never sees a password, neither in statements nor in its tables."""
    make_roles(granted.url, _PREFIX, {"reader": "geheim"})
    with psycopg.connect(granted.url) as connection:
        row = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = %s", [f"{_PREFIX}_reader"]
        ).fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")
    with pytest.raises(InvalidRequest, match="no role boss"):
        make_roles(granted.url, _PREFIX, {"boss": "x"})


def test_relay_reads_and_forgets_the_outbox_and_no_more(granted: Granted) -> None:
    """Whoever passes events on needs events, names and the outbox."""
    check(granted.of("relay"))
    outbox = EventOutbox(granted.of("relay"), "default")
    assert outbox.read(10).events == ()
    outbox.delete([1])
    outbox.close()
    audit = AuditOutbox(granted.of("relay"))
    assert audit.read(10) == []
    audit.delete([1])
    audit.close()
    for refused in ("SELECT * FROM jobs", "DELETE FROM audit_records"):
        with psycopg.connect(granted.of("relay")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(refused)


def test_every_table_has_a_writer_among_the_roles() -> None:
    """A table that is added must be given to somebody, or nobody can use it under the roles; one is the migrator's."""
    writable = {
        table
        for rights in roles._RIGHTS.values()
        for table, privileges in rights.items()
        if any(not privilege.startswith("SELECT") for privilege in privileges)
    }
    assert set(metadata.tables) - {"schema_support"} <= writable


def test_functions_with_the_migrators_rights_cannot_be_fooled(granted: Granted) -> None:
    """A caller's temporary table does not stand in for one of ours, though temporary ones come first elsewhere."""
    day = today() + 1
    with psycopg.connect(granted.of("leader")) as connection:
        connection.execute("CREATE TEMPORARY TABLE partition_state AS SELECT ARRAY[]::integer[] AS days")
        assert connection.execute("SELECT argosy_make_partitions(%s)", [day]).fetchone() == (False,)
        row = connection.execute("SELECT prosecdef, proconfig FROM pg_proc WHERE proname = 'argosy_drop_partitions'")
        assert row.fetchone() == (True, ["search_path=public, pg_temp"])

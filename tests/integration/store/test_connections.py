"""How processes reach Postgres: encryption, several hosts, limits of time, and passwords that nobody gets to see."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_store import ApiStore, EmbeddedPostgres, LeaderStore, migrate
from argosy_store.log import PostgresLog
from argosy_store.postgres.connection import (
    BULK_SETTINGS,
    MAINTENANCE_SETTINGS,
    QUERY_SETTINGS,
    READ_SETTINGS,
    StoreConnection,
    connect,
    with_password_file,
)
from argosy_store.postgres.locks import PARTITION_LOCK
from argosy_store.postgres.partitions import exclusively, prologue
from argosy_store.postgres.pool import Connections
from argosy_testkit.postgres import TEST_SETTINGS
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.tls_endpoint import Certificates, TlsEndpoint

_SECRET = "s3cret"


def _reach(url: str) -> None:
    """Ask the database something through a store."""
    store = LeaderStore(url, "default")
    try:
        assert store.leader_addresses() == {}
    finally:
        store.close()


# --- encryption -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificates, Certificates]:
    """Give an authority and a stranger's."""
    directory = tmp_path_factory.mktemp("certificates")
    return Certificates(directory, "ours"), Certificates(directory, "theirs")


def _socket(url: str) -> Path:
    given = conninfo_to_dict(url)
    return Path(str(given["host"])) / f".s.PGSQL.{given['port']}"


def _over_tls(url: str, port: int, **parameters: object) -> str:
    given = {name: value for name, value in conninfo_to_dict(url).items() if name not in {"host", "port"}}
    return make_conninfo(**{**given, "host": "localhost", "port": port, "sslmode": "verify-full", **parameters})


def test_server_is_verified_by_authority_and_name(
    database_url: str, certificates: tuple[Certificates, Certificates]
) -> None:
    """sslmode=verify-full: no other authority, no other name, and nothing unencrypted."""
    ours, theirs = certificates
    with TlsEndpoint(_socket(database_url), ours.issue("localhost")) as end:
        right = _over_tls(database_url, end.port, sslrootcert=ours.authority)
        _reach(right)
        with connect(right, QUERY_SETTINGS) as connection:
            assert connection.pgconn.ssl_in_use
        for wrong, message in (
            (_over_tls(database_url, end.port, sslrootcert=theirs.authority), "certificate verify failed"),
            (make_conninfo(right, host="127.0.0.1"), "does not match host name"),
            (make_conninfo(right, sslmode="disable"), "server closed the connection"),
        ):
            with pytest.raises(BackendUnavailable, match=message):
                _reach(wrong)


def test_clients_show_certificates_where_they_are_asked_for(
    database_url: str, certificates: tuple[Certificates, Certificates]
) -> None:
    """Parameters sslcert and sslkey pass; a stranger's certificate, or none, does not do."""
    ours, theirs = certificates
    host = ours.issue("localhost")
    with TlsEndpoint(_socket(database_url), host, client_authority=ours.authority) as end:
        url = _over_tls(database_url, end.port, sslrootcert=ours.authority)
        certificate, key = ours.issue("argosy")
        _reach(make_conninfo(url, sslcert=certificate, sslkey=key))
        certificate, key = theirs.issue("argosy")
        for refused in (url, make_conninfo(url, sslcert=certificate, sslkey=key)):
            with pytest.raises(BackendUnavailable):
                _reach(refused)


# --- several hosts ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(postgres_directory: Path) -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    """Give two servers with the tables."""
    settings = {**TEST_SETTINGS, "synchronous_commit": "on"}  # they get killed
    servers = tuple(EmbeddedPostgres(postgres_directory / name, settings=settings) for name in ("one", "two"))
    for server in servers:
        migrate(server.start())
    yield servers[0], servers[1]
    for server in servers:
        server.stop()


def _both(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> str:
    """Return a URL that names both, and wants the one that takes writes."""
    given = [conninfo_to_dict(server.url) for server in pair]
    hosts = {name: ",".join(str(one[name]) for one in given) for name in ("host", "port")}
    return make_conninfo(pair[0].url, **hosts, target_session_attrs="read-write")


def _name_queue(store: ApiStore, name: str) -> None:
    store.create_queue(name, weight=1.0, pool="default", create_time_us=1, encode=lambda _: b"")


def _queues(server: EmbeddedPostgres) -> list[str]:
    with psycopg.connect(server.url) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM queues ORDER BY 1").fetchall()]


def test_stores_follow_a_fail_over(pair: tuple[EmbeddedPostgres, EmbeddedPostgres]) -> None:
    """A URL of several hosts: the first that takes writes is used, also after it died, or was made read-only."""
    one, two = pair
    store, leader = ApiStore(_both(pair)), LeaderStore(_both(pair), "default")
    try:
        _name_queue(store, "first")
        first = leader.try_lead("l", "h:1", 60)
        assert first is not None
        one.kill()
        for attempt in (lambda: _name_queue(store, "second"), lambda: leader.try_lead("l", "h:1", 60)):
            try:
                attempt()
            except BackendUnavailable:
                attempt()  # what was under way when it died is lost; the next call is not
        assert _queues(two) == ["second"]
        one.start()
        assert _queues(one) == ["first"]
        with psycopg.connect(two.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
        _await_read_only(two)
        with pytest.raises(BackendUnavailable, match="takes no writes"):
            _name_queue(store, "third")
        _name_queue(store, "third")
        assert _queues(one) == ["first", "third"]
    finally:
        store.close()
        leader.close()


def _await_read_only(server: EmbeddedPostgres) -> None:
    """Return once every session of a server has read its new settings: they do before their next statement."""
    while True:
        with psycopg.connect(server.url) as connection:
            row = connection.execute("SHOW default_transaction_read_only").fetchone()
            if row == ("on",):
                return


def test_pool_says_why_it_has_no_connection(postgres_directory: Path) -> None:
    """That it waited for so many seconds is no help to anybody."""
    connections = Connections(f"host={postgres_directory}/nowhere dbname=argosy", wait_s=0.2)
    with pytest.raises(BackendUnavailable, match=r"nowhere.*No such file or directory"), connections.read():
        pass
    connections.close()


# --- limits and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [("-c statement_timeout=50", "statement timeout"), ("-c lock_timeout=50", "lock timeout")],
    ids=["statement", "lock"],
)
def test_settings_of_the_url_beat_ours(world: StoreWorld, options: str, message: str) -> None:
    """A statement that waits too long ends as UNAVAILABLE, and the connection lives."""
    store = ApiStore(make_conninfo(world.url, options=options))
    try:
        with psycopg.connect(world.url) as other:
            other.execute("SELECT FROM queues FOR UPDATE")
            with pytest.raises(BackendUnavailable, match=message):
                store.set_queue_cordon("team", cordoned=True, reason="", encode=lambda _: b"")
        store.set_queue_cordon("team", cordoned=True, reason="", encode=lambda _: b"")
    finally:
        store.close()


def test_sessions_are_named_by_what_they_are_for(world: StoreWorld) -> None:
    """Whoever looks at pg_stat_activity sees whose sessions these are; a name in the URL stands."""
    world.submit_jobs(1)
    world.leader.read_changes(1)
    log = PostgresLog(world.url, "default")
    log.read(0, 1)
    named = ApiStore(make_conninfo(world.url, application_name="replica-7"))
    named.list_queues()
    statement = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()"
    with psycopg.connect(world.url, application_name="test") as connection:
        names = {row[0] for row in connection.execute(statement)}
    named.close()
    log.close()
    assert names == {"argosy-api", "argosy-election", "argosy-leader", "argosy-log", "replica-7", "test"}


# --- passwords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"postgre://argosy:{_SECRET}@localhost/argosy",
        f"argosy:{_SECRET}@localhost",
        f"postgresql://argosy:x@{_SECRET}@localhost/argosy",
        f"postgresql://argosy:{_SECRET}@localhost:port/argosy",
        f"postgresql://argosy:{_SECRET}@localhost:1/argosy?colour={_SECRET}",
        f"postgresql://argosy:{_SECRET}@127.0.0.1:1/argosy",
        f"postgresql://argosy:{_SECRET}@nowhere.invalid/argosy?connect_timeout=2",
        f"host=127.0.0.1 port=1 password='{_SECRET}",
    ],
    ids=["scheme", "no-scheme", "unquoted-at", "port", "parameter", "refused", "no-host", "unclosed-quote"],
)
def test_no_message_repeats_a_password(url: str) -> None:
    """Neither a URL that cannot be read nor a server that cannot be reached lets a password out, nor do tracebacks."""
    with pytest.raises(ArgosyError) as caught:
        _reach(url)
    assert isinstance(caught.value, InvalidRequest | BackendUnavailable)
    assert _SECRET not in "".join(traceback.format_exception(caught.value))


def test_password_comes_from_a_file(tmp_path: Path) -> None:
    """Mounted secrets end with a line feed, which is no part of them."""
    path = tmp_path / "password"
    path.write_text(f"{_SECRET} with 'signs'\n")
    url = with_password_file("postgresql://argosy@localhost/argosy", str(path))
    assert conninfo_to_dict(url)["password"] == f"{_SECRET} with 'signs'"
    assert with_password_file(url, "") == url
    path.write_text("\n")
    for wrong in (path, tmp_path / "missing"):
        with pytest.raises(InvalidRequest, match=str(wrong)):
            with_password_file(url, str(wrong))


# --- limits of time ---------------------------------------------------------------------------------------------------

SHOWN = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
LIMITS = {
    "submits and change requests": ("50s", "20s", "10s"),
    "requests": ("30s", "10s", "1min"),
    "leader": ("50s", "0", "5s"),
    "leader, taking over": ("0", "0", "1min"),
    "maintenance, migrations": ("0", "0", "1min"),
}
"""What `docs/operations.md` says of each session, as Postgres writes it."""


@contextmanager
def _session(url: str, kind: str) -> Iterator[StoreConnection]:
    """Open a session as the store does that uses it."""
    with ExitStack() as stack:
        if kind == "maintenance, migrations":
            yield stack.enter_context(connect(url, MAINTENANCE_SETTINGS))
        elif kind.startswith("leader"):
            leader = stack.enter_context(closing(LeaderStore(url, "default")))
            line = leader._writer if kind == "leader" else leader._reader
            yield stack.enter_context(line.use())
        else:
            connections = stack.enter_context(closing(Connections(url, max_size=1)))
            yield stack.enter_context(
                connections.bulk() if kind == "submits and change requests" else connections.read()
            )


@pytest.mark.parametrize("kind", LIMITS)
def test_each_session_has_the_limits_of_time_that_the_guide_says(database_url: str, kind: str) -> None:
    """Asked of the server itself; without them one stuck session would hold up all others for ever."""
    with _session(database_url, kind) as connection:
        shown = tuple(connection.execute(f"SHOW {name}".encode()).fetchone() for name in SHOWN)
    assert tuple(row[0] for row in shown if row) == LIMITS[kind]


def test_limits_of_time_in_the_url_come_first(database_url: str) -> None:
    """An operator may choose others."""
    url = make_conninfo(database_url, options="-c statement_timeout=5000")
    for kind in LIMITS:
        with _session(url, kind) as connection:
            assert connection.execute("SHOW statement_timeout").fetchone() == ("5s",), kind


# --- locks of stopped processes ---------------------------------------------------------------------------------------


@contextmanager
def _stopped_within_a_copy(url: str) -> Iterator[None]:
    """Give a time in which a process has locked a row and sleeps between two parts of a COPY."""
    with connect(url, {**BULK_SETTINGS, "statement_timeout": "100"}) as connection:
        connection.run(prologue("SELECT FROM partition_state FOR UPDATE"))
        connection.pgconn.send_query(b"COPY jobs_carried FROM STDIN (FORMAT binary)")
        connection._finish()
        yield
        with pytest.raises(psycopg.OperationalError, match=r"terminating|closed"):  # noqa: PT012 - whichever is told first
            connection.pgconn.put_copy_end()
            connection._finish()


def test_submit_that_waits_for_a_process_stopped_within_a_copy_fails_once(database_url: str) -> None:
    """Postgres ends such a session by no timeout, so who waited for its locks does; the next one passes."""
    url = make_conninfo(database_url, options="-c lock_timeout=100")
    with _stopped_within_a_copy(database_url), closing(Connections(url, stalled_s=0.0)) as connections:
        with pytest.raises(BackendUnavailable), connections.submits() as connection, connection.transaction_block():
            connection.run("SELECT FROM partition_state FOR UPDATE")
        with connections.submits() as connection, connection.transaction_block():
            connection.run("SELECT FROM partition_state FOR UPDATE")


def test_partitions_change_though_a_process_is_stopped_within_a_copy(database_url: str) -> None:
    """Else no day would get partitions any more, and none would be dropped."""
    with _stopped_within_a_copy(database_url), connect(database_url, MAINTENANCE_SETTINGS) as connection:
        assert exclusively(connection, lambda: "changed", stalled_s=0.0) == "changed"


@pytest.mark.parametrize("is_loading", [True, False], ids=["the pool", "some of its tables"])
def test_partitions_change_though_a_process_is_stopped_within_what_it_reads(
    database_url: str, *, is_loading: bool
) -> None:
    """Postgres puts off every timeout while an answer is not read, and whoever reads a table keeps it from others."""
    with connect(database_url, {**READ_SETTINGS, "application_name": "argosy-leader"}) as reader:
        reader.run("BEGIN")
        if is_loading:
            reader.run(f"SELECT pg_advisory_xact_lock_shared({PARTITION_LOCK})")
        reader.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000) LEFT JOIN jobs ON false")
        reader._flush()
        with connect(database_url, MAINTENANCE_SETTINGS) as connection:
            waiting = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
            while connection.execute(waiting, [reader.pgconn.backend_pid]).fetchone() != ("ClientWrite",):
                pass
            change = partial(connection.execute, "LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
            assert exclusively(connection, change, unread_s=0.0)
        reader.close()


def test_sessions_that_wait_for_a_lock_or_send_just_now_are_not_ended(database_url: str) -> None:
    """Who waited for a lock in vain ends nobody who waits or works, too."""
    url = make_conninfo(database_url, options="-c lock_timeout=100")
    with (
        connect(database_url, BULK_SETTINGS) as busy,
        connect(database_url, BULK_SETTINGS) as waiting,
        closing(Connections(url)) as connections,
    ):
        busy.run(prologue("SELECT FROM partition_state FOR UPDATE"))
        busy.pgconn.send_query(b"COPY jobs_carried FROM STDIN (FORMAT binary)")
        waiting.pgconn.send_query(prologue("SELECT FROM partition_state FOR UPDATE").encode())
        with pytest.raises(BackendUnavailable), connections.submits() as connection:
            connection.run("SELECT FROM partition_state FOR UPDATE")
        busy._finish()
        busy.pgconn.put_copy_end(b"enough")
        with pytest.raises(psycopg.errors.QueryCanceled):
            busy._finish()
        busy.run("ROLLBACK")
        waiting._finish()
        waiting.run("ROLLBACK")

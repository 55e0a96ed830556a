"""Connections to Postgres: raw protocol for bulk statements, deadlines, and errors in our own words.

Bulk statements do not go through a cursor: parameters are binary arrays made by NumPy, COPY buffers are built whole,
and the interpreter lock is free while Postgres works. Measured against psycopg's adapters this saves about half of the
client's time. A statement is prepared once per connection; its plan is generic, and since bulk connections know index
lookups only, no state of the statistics can give a bad one.

Drivers' exceptions end here: `translated` turns them into `argosy_core.errors`.

Source: design section 8; 003 "Architecture".
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, TypeVarTuple

import psycopg
import psycopg.errors
import sqlalchemy
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGresult
from sqlalchemy.dialects.postgresql import psycopg as dialects

from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    DeadlineExceeded,
    InvalidRequest,
    InvariantViolation,
)

__all__ = [
    "BULK_SETTINGS",
    "LEADER_SETTINGS",
    "MAINTENANCE_SETTINGS",
    "OLDEST_VERSION",
    "QUERY_SETTINGS",
    "READ_SETTINGS",
    "Line",
    "Parameter",
    "StoreConnection",
    "check_alive",
    "compiled",
    "connect",
    "connection_options",
    "leaving_standby",
    "read_password",
    "sqlalchemy_engine",
    "translated",
    "translating",
    "with_password_file",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Shape = TypeVarTuple("_Shape")

BULK_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "jit": "off",
    "idle_in_transaction_session_timeout": "10000",
    "statement_timeout": "50000",
    "lock_timeout": "20000",
    "application_name": "argosy-api",
}
"""Settings under which a join with an array can only be a nested loop over a primary key, whatever statistics say.

A process that stops in the middle of a transaction holds others up by its locks, so it loses its session soon. A
statement ends before our own deadline does, so that the connection survives.
"""
LEADER_SETTINGS: Final = {
    **BULK_SETTINGS,
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "0",
    "application_name": "argosy-leader",
}
"""Settings of a leader: the next one has to wait for what a stopped one holds. A lock is waited for: giving up would
cost the leadership."""
READ_SETTINGS: Final = {"jit": "off", "idle_in_transaction_session_timeout": "60000", "application_name": "argosy"}
"""Settings of connections that answer requests, whole loads of a pool among them."""
QUERY_SETTINGS: Final = {
    **READ_SETTINGS,
    "statement_timeout": "30000",
    "lock_timeout": "10000",
    "application_name": "argosy-api",
}
"""Settings of connections that answer the requests of clients, none of which may take long."""
MAINTENANCE_SETTINGS: Final = {**READ_SETTINGS, "application_name": "argosy-maintenance"}
"""Settings of migrations, partitions and retention, which take the time they take."""
OLDEST_VERSION: Final = 150_000
"""Oldest server that works, as `server_version_num` says it: Postgres 15."""
CONNECT_TIMEOUT_S: Final = 10
"""How long one attempt to connect may take."""
STATEMENT_DEADLINE_S: Final = 60.0
"""How long a bulk statement may take before the connection is given up."""

_DIALECT: Final = dialects.dialect()  # type: ignore[no-untyped-call]
_BINARY: Final = 1
_MAX_TEXTS: Final = 256
"""Most shapes of reads whose text is kept: a few kilobytes each."""


class Parameter(NamedTuple):
    """A statement's parameter in Postgres' binary form."""

    oid: int
    """Type."""
    value: bytes | None
    """Binary value; None is NULL."""


class StoreConnection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection in autocommit mode with raw bulk operations beside the ordinary ones.

    Used by one thread at a time. `transaction_block` opens and ends transactions; inside it raw and ordinary statements
    may be mixed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - psycopg's own signature
        """Begin with nothing prepared."""
        super().__init__(*args, **options)
        self.prepared: set[bytes] = set()
        self.shared_state: tuple[bytes, ...] = ()
        self.days: frozenset[int] = frozenset()
        self.closed_days: frozenset[int] = frozenset()
        self.deleted_queue_ids: frozenset[int] = frozenset()
        self.first_open_day = 0
        self.timeline = ""

    def run(self, script: str) -> PGresult:
        """Execute one or more statements without parameters; return the last result, values as text.

        Raises:
            psycopg.Error: As the driver raises it.
        """
        self.pgconn.send_query(script.encode())
        return self._finish()

    def bulk(self, statement: str, *parameters: Parameter) -> PGresult:
        """Execute one statement with binary parameters, prepared at its first use; results come back binary.

        Raises:
            psycopg.Error: As the driver raises it.
        """
        name = b"b%x" % (hash(statement) & 0xFFFFFFFFFFFFFFFF)
        if name not in self.prepared:
            self.pgconn.send_prepare(name, statement.encode(), [parameter.oid for parameter in parameters])
            self._finish()
            self.prepared.add(name)
        self.pgconn.send_query_prepared(
            name,
            [parameter.value for parameter in parameters],
            param_formats=[_BINARY] * len(parameters),
            result_format=_BINARY,
        )
        return self._finish()

    def copy_in(self, statement: str, buffer: bytes) -> None:
        """Send one prebuilt buffer through COPY ... FROM STDIN.

        Args:
            statement: The COPY statement, format binary.
            buffer: Header, rows and trailer, as `argosy_store.postgres.binary.copy_buffer` makes them.

        Raises:
            psycopg.Error: As the driver raises it.
        """
        self.pgconn.send_query(statement.encode())
        self._finish()
        self.pgconn.nonblocking = 1
        try:
            self.pgconn.put_copy_data(buffer)
            self.pgconn.put_copy_end()
            self._finish()
        finally:
            if not self.closed:
                self.pgconn.nonblocking = 0

    def select(
        self,
        build: Callable[[tuple[str, ...], *_Shape], sqlalchemy.ClauseElement],
        values: Mapping[str, Any],
        *shape: *_Shape,
        **others: Any,  # noqa: ANN401 - a value of any column
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a SQLAlchemy Core statement and return the cursor; its text is made once for all of its shape.

        Args:
            build: Makes the statement out of the names of the values, each a parameter by that name, and the shape.
            values: Of the parameters, by name.
            shape: What else the text depends on.
            others: Values of the parameters that the statement always has.
        """
        text, constants = compiled(build, tuple(values), *shape)
        return self.execute(text, {**constants, **values, **others})

    @contextmanager
    def transaction_block(self, prologue: str = "BEGIN", *, epilogue: str = "") -> Iterator[PGresult]:
        """Open a transaction, commit it at the end, roll it back on any exception.

        Args:
            prologue: Statements that begin with BEGIN, sent in one message.
            epilogue: A statement for after the transaction, however it ends, sent in one message with its end; where it
                could not be, the session is given up.

        Yields:
            The last result of the prologue.
        """
        try:
            yield self.run(prologue)
            self.run(f"COMMIT; {epilogue}" if epilogue else "COMMIT")
        except BaseException:
            if not self.closed and self.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                try:
                    self.run(f"ROLLBACK; {epilogue}" if epilogue else "ROLLBACK")
                except psycopg.Error:
                    self.close()
            elif epilogue:
                self.close()
            raise

    def _finish(self) -> PGresult:
        """Wait for the results of what was sent and return the last one; the lock is free while waiting."""
        pgconn = self.pgconn
        try:
            self._flush()
            last: PGresult | None = None
            failed: PGresult | None = None
            while True:
                while pgconn.is_busy():
                    self._wait(select.POLLIN)
                    pgconn.consume_input()
                result = pgconn.get_result()
                if result is None:
                    break
                if result.status == pq.ExecStatus.FATAL_ERROR:
                    failed = failed or result
                last = result
                if result.status == pq.ExecStatus.COPY_IN:
                    break
        except BaseException:
            # What the server will still send belongs to nobody: such a connection cannot be used again.
            self.close()
            raise
        if failed is not None:
            raise psycopg.errors.error_from_result(failed)
        if last is None:
            self.close()
            raise psycopg.OperationalError("the connection to Postgres ended without an answer")
        return last

    def _flush(self) -> None:
        """Send what libpq holds back, reading meanwhile so that neither side waits for the other."""
        while self.pgconn.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & select.POLLIN:
                self.pgconn.consume_input()

    def _wait(self, events: int) -> int:
        """Wait until the socket is ready; return what it is ready for."""
        poller = select.poll()
        poller.register(self.pgconn.socket, events)
        ready = poller.poll(STATEMENT_DEADLINE_S * 1000)
        if not ready:
            raise psycopg.OperationalError(f"Postgres did not answer within {STATEMENT_DEADLINE_S:.0f} s")
        return ready[0][1]


@lru_cache(maxsize=_MAX_TEXTS)
def compiled(build: Callable[..., sqlalchemy.ClauseElement], *shape: Hashable) -> tuple[str, dict[str, Any]]:
    """Return the text of a statement of some shape, and the constants in it by the names of their parameters."""
    statement = build(*shape).compile(dialect=_DIALECT)
    return statement.string, {name: value for name, value in statement.params.items() if value is not None}


def check_alive(connection: psycopg.Connection[Any]) -> None:
    """Raise if an idle connection was closed by the other side; costs one system call and no round trip.

    Raises:
        psycopg.OperationalError: The connection is of no use.
    """
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    if poller.poll(0):
        # Nobody asked anything, so whatever has come is a farewell or the end itself.
        connection.close()
        raise psycopg.OperationalError("the connection was closed by Postgres")


def connection_options(url: str, settings: dict[str, str]) -> str:
    """Return the connection string of a URL with session settings, a connect timeout and keep-alives added.

    Whatever the URL says itself stands: every parameter of libpq passes, and settings in its `options` beat ours.

    Raises:
        InvalidRequest: The URL cannot be read; the message does not repeat it, since it may hold a password.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        given = None
    # What stands behind an unquoted @ of a password would be taken for a host, and shown in errors.
    hosts = str((given or {}).get("host") or "").split(",")
    if given is None or any("@" in host[1:] for host in hosts):
        raise InvalidRequest(
            "the database URL cannot be read; it should look like postgresql://user:password@host:5432/database, with"
            " special characters percent-encoded, as %40 for @"
        ) from None
    session = dict(settings)
    name = session.pop("application_name", "argosy")
    options = " ".join(f"-c {setting}={value}" for setting, value in session.items())
    merged: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": name,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30000,
        **given,
        "options": f"{options} {given.get('options') or ''}".strip(),
    }
    return make_conninfo("", **merged)


def sqlalchemy_engine(url: str, settings: dict[str, str] | None = None) -> sqlalchemy.Engine:
    """Return a SQLAlchemy engine for a libpq URL or connection string, without a pool of its own."""
    text = connection_options(url, settings or MAINTENANCE_SETTINGS)
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(text), poolclass=sqlalchemy.pool.NullPool
    )


def read_password(path: str) -> str:
    """Return the password that a file holds, as mounted secrets do; a line feed at its end does not count.

    Raises:
        InvalidRequest: The file cannot be read, or is empty.
    """
    try:
        password = Path(path).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidRequest(f"the database's password cannot be read from {path}: {reason}") from None
    if not password:
        raise InvalidRequest(f"the database's password should stand in {path}, which is empty")
    return password


def with_password_file(url: str, path: str) -> str:
    """Return a URL with the password that a file holds; an empty path leaves it as it is.

    Raises:
        InvalidRequest: The file cannot be read, or is empty; or the URL cannot be read.
    """
    if not path:
        return url
    connection_options(url, {})
    return make_conninfo(url, password=read_password(path))


def connect(url: str, settings: dict[str, str]) -> StoreConnection:
    """Open a connection of our own kind.

    Raises:
        psycopg.OperationalError: Postgres cannot be reached.
    """
    return StoreConnection.connect(connection_options(url, settings), autocommit=True)


def _words(origin: BaseException | None) -> str:
    """Return on one line what the driver says; of a URL that names several hosts, why each of them would not do."""
    lines = str(origin).strip().splitlines()
    hosts = [line.partition("connection failed: ")[2] for line in lines if line.startswith("- host: ")]
    if hosts and all(hosts):
        return "none of the hosts would do: " + "; ".join(hosts)
    return lines[0] if lines else type(origin).__name__


def _translate(cause: psycopg.Error | sqlalchemy.exc.SQLAlchemyError) -> ArgosyError:
    """Return the error of ours for one of the driver."""
    origin: BaseException | None = cause
    if isinstance(cause, sqlalchemy.exc.DBAPIError):
        origin = cause.orig
    text = _words(origin)
    if isinstance(origin, psycopg.errors.UniqueViolation):
        return AlreadyExists(f"a row by this key exists: {text}")
    if isinstance(origin, psycopg.errors.QueryCanceled):
        return DeadlineExceeded(f"Postgres took too long: {text}; ask for less, as by a job set or a time")
    # libpq reports a connection that broke while it waited for a result without a code, hence as the bare class.
    lost = type(origin) is psycopg.DatabaseError or isinstance(origin, psycopg.errors.IdleInTransactionSessionTimeout)
    if lost or isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError):
        return BackendUnavailable(f"Postgres cannot serve now: {text}; try again")
    if isinstance(origin, psycopg.errors.ReadOnlySqlTransaction):
        return BackendUnavailable("Postgres takes no writes: it is a standby, or was made read-only; try again")
    if isinstance(origin, psycopg.errors.InsufficientPrivilege):
        return InvariantViolation(
            f"the database role may not do this: {text}; `argosy admin migrate --grant` grants what each role needs, so"
            " run it, or see that this process uses the role that is meant for it"
        )
    if isinstance(origin, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return InvariantViolation(f"the database lacks a table: {text}; run the migrations")
    if isinstance(origin, psycopg.DataError):
        return InvalidRequest(f"Postgres cannot store a value of the request: {text}")
    return InvariantViolation(f"Postgres refused a statement: {text}")


@contextmanager
def translating() -> Iterator[None]:
    """Let no exception of a driver out; raise the matching error of ours instead.

    Raises:
        BackendUnavailable: Postgres cannot be reached or cannot serve now. A commit may or may not have happened.
        InvalidRequest: A value cannot be stored, as text with a zero byte.
        InvariantViolation: Any other refusal.
    """
    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as cause:
        raise _translate(cause) from cause


def translated(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a function in `translating`."""

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _T:
        with translating():
            return function(*args, **options)

    return call


@contextmanager
def leaving_standby(connection: StoreConnection) -> Iterator[None]:
    """Close a connection whose server turned out to be read-only: the next one looks for the primary again."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction:
        connection.close()
        raise


class Line:
    """One connection behind a lock, opened again after it broke."""

    def __init__(self, url: str, settings: dict[str, str]) -> None:
        """Open nothing yet."""
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._connection: StoreConnection | None = None

    @contextmanager
    def use(self) -> Iterator[StoreConnection]:
        """Lend the connection to one thread.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._lock, translating():
            if self._connection is not None:
                try:
                    check_alive(self._connection)
                except psycopg.OperationalError:
                    self._connection = None
            if self._connection is None:
                self._connection = connect(self._url, self._settings)
            with leaving_standby(self._connection):
                yield self._connection

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

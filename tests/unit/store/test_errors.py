"""No exception of a driver leaves the store."""

import psycopg
import psycopg_pool
import pytest
import sqlalchemy.exc

from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    InvalidRequest,
    InvariantViolation,
    StateConflict,
)
from argosy_store.postgres.connection import translated, translating


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (psycopg.OperationalError("gone"), BackendUnavailable),
        (psycopg.InterfaceError("closed"), BackendUnavailable),
        (psycopg.errors.DeadlockDetected("x"), BackendUnavailable),
        (psycopg.errors.AdminShutdown("x"), BackendUnavailable),
        (psycopg.errors.DiskFull("x"), BackendUnavailable),
        (psycopg.errors.LockNotAvailable("x"), BackendUnavailable),
        (psycopg_pool.PoolTimeout("x"), BackendUnavailable),
        (psycopg_pool.PoolClosed("x"), BackendUnavailable),
        (psycopg.errors.UniqueViolation("x"), AlreadyExists),
        (psycopg.DataError("zero byte"), InvalidRequest),
        (psycopg.errors.UndefinedTable("x"), InvariantViolation),
        (psycopg.ProgrammingError("x"), InvariantViolation),
        (sqlalchemy.exc.OperationalError("s", {}, psycopg.OperationalError("x")), BackendUnavailable),
        (sqlalchemy.exc.InvalidRequestError("x"), InvariantViolation),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_translating_turns_driver_errors_into_ours(cause: Exception, expected: type[ArgosyError]) -> None:
    """Each kind of failure has its own error, and keeps its cause."""
    with pytest.raises(expected) as caught, translating():
        raise cause
    assert caught.value.__cause__ is cause


def test_connecting_in_vain_tells_why_each_of_several_hosts_would_not_do() -> None:
    """With a primary that is gone and a standby the reason is neither host's alone; no password is shown."""
    url = "postgresql://argosy:geheim@127.0.0.1:1,127.0.0.2:2/argosy?target_session_attrs=read-write"
    with pytest.raises(BackendUnavailable) as caught, translating():
        psycopg.connect(url)
    assert caught.value.message.count("Connection refused") == 2
    assert all(port in caught.value.message for port in ("none of the hosts", "port 1 failed", "port 2 failed"))
    assert "geheim" not in caught.value.message


def test_translating_leaves_our_own_errors_alone() -> None:
    """What is ours already passes as it is."""
    error = StateConflict("stale")

    @translated
    def fail() -> None:
        raise error

    with pytest.raises(StateConflict) as caught:
        fail()
    assert caught.value is error

"""The newest and the oldest supported release of Postgres: tables, roles, and the whole way of a job."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from argosy_store import create_database, drop_database, migrate
from argosy_store.schema.inspection import inspect_database
from argosy_store.schema.migrate import as_role
from argosy_store.schema.roles import ROLES, grant_rights, make_roles, role_name
from argosy_testkit.store_way import go_whole_way


@pytest.fixture
def installation(any_postgres_url: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Give (URL, prefix, passwords) of a database with roles, made as `argosy admin migrate --grant` does."""
    prefix = f"r{secrets.token_hex(4)}"
    url = create_database(any_postgres_url, prefix)
    passwords = {role: secrets.token_hex(8) for role in ROLES}
    make_roles(url, prefix, passwords)
    migrate(url, owner=role_name(prefix, "migrator"))
    grant_rights(as_role(url, role_name(prefix, "migrator")), prefix)
    yield url, prefix, passwords
    drop_database(any_postgres_url, prefix)
    with psycopg.connect(any_postgres_url, autocommit=True) as connection:
        for role in ("server", *ROLES):
            connection.execute(f"DROP ROLE IF EXISTS {role_name(prefix, role)}".encode())


@pytest.mark.parametrize(("api_role", "leader_role"), [("api", "leader"), ("server", "server")], ids=["apart", "both"])
def test_whole_way_of_a_job_under_its_roles(
    installation: tuple[str, str, dict[str, str]], api_role: str, leader_role: str
) -> None:
    """Nothing relies on the release that is embedded, nor on more rights than the roles have."""
    url, prefix, passwords = installation
    urls = [
        make_conninfo(url, user=role_name(prefix, role), password=passwords[role]) for role in (api_role, leader_role)
    ]
    go_whole_way(urls[0], urls[1], pool="default")
    reader = make_conninfo(url, user=role_name(prefix, "reader"), password=passwords["reader"])
    findings = {finding.subject: finding for finding in inspect_database(reader, time.time_ns() // 1000, prefix=prefix)}
    assert not findings["settings"].is_problem
    assert not findings["roles"].is_problem
    assert not findings["migrations"].is_problem
    assert findings["pool default"].text == "nobody leads it"  # it resigned

"""Server processes with the database rights of their roles and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from argosy.api.v1 import event_pb2, job_pb2
from argosy_server.maintenance import maintain_once
from argosy_store import migrate
from argosy_store.schema.migrate import as_role
from argosy_store.schema.roles import ROLES, grant_rights, make_roles, role_name

_PREFIX = "process"


@pytest.fixture
def granted_url(empty_database_url: str) -> Iterator[str]:
    """Give a database as `argosy admin migrate --grant` makes it."""
    make_roles(empty_database_url, _PREFIX)
    owner = role_name(_PREFIX, "migrator")
    migrate(empty_database_url, owner=owner)
    grant_rights(as_role(empty_database_url, owner), _PREFIX)
    yield empty_database_url
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for role in ("server", *(role for role in ROLES if role != "server")):
            connection.execute(f"DROP OWNED BY {role_name(_PREFIX, role)} CASCADE".encode())
            connection.execute(f"DROP ROLE {role_name(_PREFIX, role)}".encode())


@pytest.mark.parametrize("roles", [("api", "leader"), ("server", "server")], ids=["apart", "both"])
async def test_servers_need_no_more_than_the_rights_of_their_roles(
    granted_url: str, serve: Any, roles: tuple[str, str]
) -> None:
    """An API replica takes a job that a leader hears of, stores the event of, and that can be cancelled."""
    api_url, leader_url = (make_conninfo(granted_url, user=role_name(_PREFIX, role)) for role in roles)
    async with serve(leader_url, role="leader"), serve(api_url, role="api") as api:
        await api.make_queue("red")
        (job_id,) = await api.submit({"client_id": "a"})
        assert await api.submit({"client_id": "a"}) == [job_id]
        watch = api.events.WatchJobSet(event_pb2.WatchJobSetRequest(queue="red", job_set="one"))
        async for response in watch:
            assert response.events[0].job_id == job_id  # the leader has stored it
            break
        watch.cancel()
        cancelled = await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[job_id])))
        assert cancelled.job_count == 1
    maintain_once(leader_url, 7, 90)
    maintain_once(api_url, None, 90)

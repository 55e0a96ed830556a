"""The audit: who changed what and who was refused, and that no token is told anywhere."""

from __future__ import annotations

import grpc
import psycopg
import pytest
from prometheus_client import generate_latest

from argosy.api.v1 import access_pb2, job_pb2, queue_pb2
from argosy.channel_credentials import hash_token
from argosy_core.access import Principal

from .tenants import OTHERS, OWN, Mesh, bearer


async def test_every_change_is_in_the_audit_with_who_made_it(mesh: Mesh) -> None:
    """Queues, jobs and grants: who, as whom, by which method; previews and refused calls changed nothing."""
    acting = (*bearer("impersonator"), ("argosy-acting-as", "may-cancel"))
    target = job_pb2.JobIds(ids=[mesh.places[OWN].job_id])
    preview = job_pb2.CancelJobsRequest(jobs=target, validate_only=True)
    await mesh.api.jobs.CancelJobs(preview, metadata=acting)
    await mesh.api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=target, reason="wrong input"), metadata=acting)
    await mesh.api.queues.CordonQueue(
        queue_pb2.CordonQueueRequest(name=OWN, reason="repair"), metadata=bearer("operator")
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await mesh.api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name=OTHERS), metadata=bearer("root"))
    request = access_pb2.ListAuditRecordsRequest(page_size=1)
    records = []
    while not records or request.page_token:
        page = await mesh.api.access.ListAuditRecords(request, metadata=bearer("auditor"))
        records += page.records
        request.page_token = page.next_page_token
    said = [
        (one.principal, one.acted_by, one.method.rpartition("/")[2], one.kind, one.name, one.detail) for one in records
    ]
    assert said[:2] == [
        ("operator", "", "CordonQueue", "Queue", OWN, "repair"),
        ("may-cancel", "impersonator", "CancelJobs", "Job", mesh.places[OWN].job_id, "cancel wrong input"),
    ]
    assert ("root", "", "AddGrants", "Grant", "user:auditor", "auditor") in said
    assert said[-2:] == [("root", "", "CreateQueue", "Queue", name, "") for name in (OTHERS, OWN)]
    assert {one.host for one in records} == {"ipv4:127.0.0.1"}
    mine = access_pb2.ListAuditRecordsRequest(principal="operator")
    assert len((await mesh.api.access.ListAuditRecords(mine, metadata=bearer("auditor"))).records) == 1


async def test_change_that_fails_is_not_in_the_audit(mesh: Mesh) -> None:
    """What is noted is in the transaction of the change: neither is there without the other."""
    with psycopg.connect(mesh.api.url, autocommit=True) as connection:
        before = connection.execute("SELECT count(*) FROM audit_records").fetchone()
        connection.execute("ALTER TABLE audit_records ADD CONSTRAINT none CHECK (kind <> 'Queue') NOT VALID")
        try:
            with pytest.raises(grpc.aio.AioRpcError):
                await mesh.api.queues.CordonQueue(queue_pb2.CordonQueueRequest(name=OWN), metadata=bearer("operator"))
        finally:
            connection.execute("ALTER TABLE audit_records DROP CONSTRAINT none")
        assert connection.execute("SELECT count(*) FROM audit_records").fetchone() == before
        assert connection.execute("SELECT cordoned FROM queues WHERE name = 'red'").fetchone() == (False,)


async def test_token_reaches_no_log_no_error_no_row_and_no_metric(
    mesh: Mesh, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known and unknown tokens are nowhere but with their holders."""
    secret = "argosy_a-token-that-nobody-knows"
    said = []
    for metadata in (
        bearer(secret),
        (("authorization", secret),),
        (*bearer("root"), ("argosy-acting-as", secret + " x")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), metadata=metadata)
        said.append(f"{caught.value.details()} {caught.value.trailing_metadata()}")
    captured = capsys.readouterr()
    said += [captured.out, captured.err, generate_latest().decode()]
    with psycopg.connect(mesh.api.url) as connection:
        tables = [row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        said += [str(connection.execute(f'SELECT * FROM "{table}"').fetchall()) for table in tables]
    assert [text[:200] for text in said if secret in text or hash_token("root") in text] == []


async def test_refused_calls_are_in_the_audit_counted_and_bounded(mesh: Mesh) -> None:
    """Who tried what, from where and how often: one row for each kind, and for whoever is not known none by name."""
    request = queue_pb2.DeleteQueueRequest(name=OTHERS)
    for metadata in (bearer("stranger"), bearer("stranger"), bearer("nobody's")):
        with pytest.raises(grpc.aio.AioRpcError):
            await mesh.api.queues.DeleteQueue(request, metadata=metadata)
    await mesh.api.app.refused_calls.store_counts()
    asked = access_pb2.ListAuditRecordsRequest(page_size=2)
    records = (await mesh.api.access.ListAuditRecords(asked, metadata=bearer("auditor"))).records
    assert {(one.principal, one.kind, one.name.rpartition("/")[2], one.detail) for one in records} == {
        ("stranger", "Call", "DeleteQueue", "PERMISSION_DENIED, 2 times"),
        ("", "Call", "DeleteQueue", "UNAUTHENTICATED, 1 times"),
    }
    for number in range(200):
        mesh.api.app.refused_calls.note(f"/x/{number}", Principal(name="stranger"), "PERMISSION_DENIED")
    with psycopg.connect(mesh.api.url, autocommit=True) as connection:
        before = connection.execute("SELECT count(*) FROM audit_records").fetchone()
        await mesh.api.app.refused_calls.store_counts()
        after = connection.execute("SELECT count(*) FROM audit_records").fetchone()
    assert before is not None
    assert after is not None
    assert after[0] - before[0] == 101

"""Quotas of users: one that takes too much is told so, and others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import job_pb2, queue_pb2
from argosy.channel_credentials import hash_token
from argosy_core.errors import QuotaExceeded
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.access.quotas import QuotaSettings
from argosy_runtime.errors import from_rpc_error

from .tenants import OWN, Place, bearer, submit


async def test_tenant_that_floods_is_held_to_its_quota_and_another_submits_on(
    serve: Any, database_url: str, tmp_path: Path
) -> None:
    """While nobody leads: mallory fills its bytes and is told when to come again; alice's submits go on."""
    entries = [{"name": name, "sha256": hash_token(name)} for name in ("mallory", "alice")]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(
        tokens_file=str(tmp_path / "tokens.yaml"),
        admins=("user:mallory", "user:alice"),
        quotas=QuotaSettings(stored_bytes_per_s=1.0),
    )
    async with serve(database_url, role="api", access=access) as api:
        queue = queue_pb2.Queue(name=OWN, namespaces=["default"])
        await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer("alice"))
        request = submit(Place(OWN, ""))
        request.validate_only = False

        async def flood() -> None:
            for _ in range(100):
                await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await flood()
        error = from_rpc_error(refused.value)
        assert isinstance(error, QuotaExceeded)
        assert error.reason == "USER_STORED_BYTES"
        assert (error.retry_delay_s or 0.0) > 0.0
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("alice"))).job_ids


async def test_user_with_as_many_open_jobs_as_allowed_is_refused_and_another_submits_on(
    serve: Any, database_url: str, tmp_path: Path
) -> None:
    """Two open jobs are all that a user may have: the third is refused by name until one has ended."""
    entries = [{"name": name, "sha256": hash_token(name)} for name in ("mallory", "alice")]
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(
        tokens_file=str(tmp_path / "tokens.yaml"),
        admins=("user:mallory", "user:alice"),
        quotas=QuotaSettings(max_open_job_count=2),
    )
    async with serve(database_url, role="api", access=access) as api:
        queue = queue_pb2.Queue(name=OWN, namespaces=["default"])
        await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), metadata=bearer("alice"))
        request = submit(Place(OWN, ""))
        request.validate_only = False
        jobs = [(await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))).job_ids[0] for _ in range(2)]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))
        error = from_rpc_error(refused.value)
        assert isinstance(error, QuotaExceeded)
        assert (error.reason, error.retry_delay_s) == ("USER_OPEN_JOBS", None)
        assert "mallory has 2 jobs that have not ended and may have 2; 1 more" in error.message
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("alice"))).job_ids
        await api.jobs.CancelJobs(
            job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=jobs[:1])), metadata=bearer("mallory")
        )
        assert (await api.jobs.SubmitJobs(request, metadata=bearer("mallory"))).job_ids

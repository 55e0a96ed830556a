"""Tests of what the database needs as days go by."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import job_pb2
from argosy_core.job.identity import parse_id
from argosy_server.maintenance import maintain_once
from argosy_store import Effects
from argosy_testkit.postgres import set_database_time, today
from argosy_testkit.submissions import make_job_ends

DAY_US = 86_400_000_000


async def test_maintenance_makes_days_to_come_and_drops_ended_jobs_of_aged_days(api: Any, leader_store: Any) -> None:
    """Ended jobs go with their day once it is older than retention; open jobs stay; submits find a partition."""
    ended, open_ = await api.submit({}, {})
    leadership = leader_store.try_lead("leader", "127.0.0.1:1", 600.0)
    handles = np.array([parse_id(ended)[1]], dtype=np.int64)
    now_us = today() * DAY_US
    leader_store.apply(leadership.epoch, Effects(job_updates=make_job_ends(handles, end_time_us=now_us)))
    set_database_time(api.url, now_us + 5 * DAY_US)
    made, retained = maintain_once(api.url, 7, 90)
    assert today() + 5 in made
    assert today() not in retained.dropped_days
    set_database_time(api.url, now_us + 9 * DAY_US)
    made, retained = maintain_once(api.url, 7, 90)
    assert today() in retained.dropped_days
    assert (await api.jobs.GetJob(job_pb2.GetJobRequest(id=open_))).job.id == open_
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.GetJob(job_pb2.GetJobRequest(id=ended))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert maintain_once(api.url, 7, 90)[0] == ()

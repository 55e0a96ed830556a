"""The load generator against a server in the test's process."""

import dataclasses

import grpc

from argosy.api.v1 import job_pb2
from argosy_local.load_generator import LoadOrder, request_bytes, run_load
from argosy_testkit.fake_api import FakeApi, start_fake
from argosy_workload.load import MeshLoad

LOAD = MeshLoad(queue_count=3, class_count=5, batch_size=10)


def order(server: str, **changes: object) -> LoadOrder:
    """Return an order of 40 calls of 10 jobs in 0.4 s."""
    fields = {
        "server": server,
        "rate": 1000.0,
        "seconds": 0.4,
        "skip_s": 0.2,
        "connection_count": 2,
        "max_call_count": 100,
        "prefix": "p-",
        "seed": 1,
        "load": dataclasses.asdict(LOAD),
    }
    return LoadOrder(**{**fields, **changes})  # type: ignore[arg-type]


def test_request_is_what_the_submission_says() -> None:
    """Each job points to its spec and has a client id of its own."""
    submission = next(LOAD.submissions(1, prefix="p-"))

    request = job_pb2.SubmitJobsRequest.FromString(request_bytes(submission))

    assert [spec.manifests[0].encode() for spec in request.specs] == list(submission.specs)
    assert [item.client_id for item in request.items] == [f"p-{number}" for number in range(10)]
    assert [item.spec for item in request.items] == list(submission.spec)


async def test_load_sends_all_jobs_of_its_rate() -> None:
    """Rate times seconds, each job once."""
    api = FakeApi()
    server, address = await start_fake(api)

    result = await run_load(order(address))
    await server.stop(None)

    assert result["offered_count"] == result["accepted_count"] == len(api.jobs) == 400
    assert result["errors"] == {}
    assert 0 < result["acknowledged"]["p50_ms"] <= result["acknowledged"]["p99_ms"]


async def test_load_goes_on_when_calls_fail() -> None:
    """An open loop: failed calls are counted by their codes and not sent again."""
    api = FakeApi()
    server, address = await start_fake(api)
    api.failures["SubmitJobs"].extend([grpc.StatusCode.RESOURCE_EXHAUSTED] * 3)

    result = await run_load(order(address))
    await server.stop(None)

    assert result["errors"] == {"RESOURCE_EXHAUSTED": 3}
    assert (result["offered_count"], result["accepted_count"]) == (400, 370)


async def test_load_counts_calls_that_were_held_up() -> None:
    """More calls under way than allowed wait for one another."""
    api = FakeApi()
    server, address = await start_fake(api)

    result = await run_load(order(address, max_call_count=1, rate=20_000.0, seconds=0.1, skip_s=0.0))
    await server.stop(None)

    assert result["held_up_count"] > 0
    assert result["accepted_count"] == result["offered_count"] == 2000

"""The client against a server in the test's process."""

import time
from itertools import count
from types import SimpleNamespace

import grpc
import pytest

from argosy.error_details import DETAILS_KEY
from argosy_client import ArgosyClient, JobDraft, JobSelector, Queue, RetryPolicy, repeated_calls
from argosy_client.rpc_errors import ERRORS, is_repeatable
from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    StateConflict,
)
from argosy_runtime.errors import ERROR_CODES, code_of, details_of
from argosy_testkit.fake_api import FakeApi, start_fake

POD = '{"apiVersion":"v1","kind":"Pod"}'
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def draft(*, queue: str = "science", count: int = 1, client_id: str = "", manifest: str = POD) -> JobDraft:
    """Return a draft."""
    return JobDraft(queue=queue, job_set="first", manifests=(manifest,), count=count, client_id=client_id)


async def test_error_table_is_that_of_the_servers_for_every_code() -> None:
    """What a server says with a code, the client understands from it."""
    assert {code: ERRORS[code] for code in ERROR_CODES.values()} == {code: kind for kind, code in ERROR_CODES.items()}


async def test_queue_comes_back_as_stored(client: ArgosyClient) -> None:
    """A queue keeps every field on its way there and back."""
    wanted = Queue(name="science", weight=2.5, pool="p", max_queued_count=7, namespaces=("a", "b"))

    stored = await client.create_queue(wanted)

    assert (stored.name, stored.weight, stored.pool) == ("science", 2.5, "p")
    assert (stored.max_queued_count, stored.namespaces, stored.etag) == (7, ("a", "b"), "1")
    assert stored.create_time is not None
    assert stored.create_time.year == 2023
    assert await client.get_queue("science") == stored


async def test_queue_weight_zero_travels(api: FakeApi, client: ArgosyClient) -> None:
    """A weight of 0 is not the same as no weight."""
    await client.create_queue(Queue(name="idle", weight=0.0))

    assert api.requests["CreateQueue"][0].queue.weight == 0.0


async def test_lists_give_every_page_in_order(api: FakeApi, client: ArgosyClient) -> None:
    """Paging is followed to the end."""
    for number in range(5):
        await client.create_queue(Queue(name=f"q{number}"))

    names = [queue.name async for queue in client.list_queues(page_size=2)]

    assert names == ["q0", "q1", "q2", "q3", "q4"]
    assert len(api.requests["ListQueues"]) == 3


async def test_queue_update_names_its_fields_and_is_not_repeated(api: FakeApi, client: ArgosyClient) -> None:
    """An etag moves with the first update that arrives, so repeating one would say conflict for success."""
    stored = await client.create_queue(Queue(name="science"))
    api.failures["UpdateQueue"].append(UNAVAILABLE)

    with pytest.raises(BackendUnavailable):
        await client.update_queue(stored, ["weight"])

    (request,) = api.requests["UpdateQueue"]
    assert (request.queue.etag, list(request.update_mask.paths)) == ("1", ["weight"])


async def test_queue_delete_is_success_when_only_the_answer_was_lost(api: FakeApi, client: ArgosyClient) -> None:
    """A repeated delete that finds nothing has found what the first one did."""
    await client.create_queue(Queue(name="science"))
    api.failures_after["DeleteQueue"].append(UNAVAILABLE)

    await client.delete_queue("science")

    assert len(api.requests["DeleteQueue"]) == 2
    with pytest.raises(NotFound):
        await client.delete_queue("science")


async def test_submit_repeats_with_the_same_client_ids(api: FakeApi, client: ArgosyClient) -> None:
    """The library makes client ids, so a submit whose answer was lost makes no second job."""
    api.failures_after["SubmitJobs"].extend([UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])

    ids = await client.submit([draft(count=2), draft()])

    first, _, last = api.requests["SubmitJobs"]
    assert first == last
    assert len({item.client_id for item in first.items}) == 2
    assert len(ids) == len(set(ids)) == len(api.jobs) == 3
    assert client.retry_count == 2


async def test_submit_keeps_the_client_ids_of_the_user(api: FakeApi, client: ArgosyClient) -> None:
    """An id that the user gave is never replaced."""
    await client.submit([draft(client_id="mine"), draft()])

    given, made = (item.client_id for item in api.requests["SubmitJobs"][0].items)
    assert given == "mine"
    assert made.startswith("auto-")


async def test_submit_without_repetition_makes_no_ids(api: FakeApi, client: ArgosyClient) -> None:
    """Whoever wants no repetition gets none, and no ids."""
    api.failures["SubmitJobs"].append(UNAVAILABLE)

    with pytest.raises(BackendUnavailable):
        await client.submit([draft()], repeat=False)

    assert [item.client_id for item in api.requests["SubmitJobs"][0].items] == [""]


async def test_submit_sends_equal_specs_once(api: FakeApi, client: ArgosyClient) -> None:
    """A spec travels once, however many drafts have it."""
    other = POD.replace("v1", "v2")

    await client.submit([draft(), draft(manifest=other), draft()])

    request = api.requests["SubmitJobs"][0]
    assert [spec.manifests[0] for spec in request.specs] == [POD, other]
    assert [item.spec for item in request.items] == [0, 1, 0]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest, id="invalid"),
        pytest.param(grpc.StatusCode.ALREADY_EXISTS, AlreadyExists, id="exists"),
        pytest.param(grpc.StatusCode.RESOURCE_EXHAUSTED, QuotaExceeded, id="quota"),
        pytest.param(grpc.StatusCode.ABORTED, StateConflict, id="conflict"),
    ],
)
async def test_refusals_are_not_repeated_and_carry_their_violations(
    api: FakeApi, client: ArgosyClient, code: grpc.StatusCode, kind: type[ArgosyError]
) -> None:
    """What the server refuses it would refuse again; every violation reaches the caller."""
    api.failures["SubmitJobs"].append(code)
    api.violations = [("items[0].queue", "there is no queue"), ("items[2].count", "is too large")]

    with pytest.raises(kind) as caught:
        await client.submit([draft()])

    assert [(v.field, v.description) for v in caught.value.violations] == api.violations
    assert len(api.requests["SubmitJobs"]) == 1


@pytest.mark.parametrize(
    ("failure", "is_repeated"),
    [
        pytest.param(DeadlineExceeded("Postgres took too long"), False, id="the-server-gave-it-up"),
        pytest.param(None, True, id="nobody-answered-in-time"),
        pytest.param(BackendUnavailable("Postgres is away"), True, id="the-server-could-not"),
    ],
)
def test_call_that_the_server_gave_up_is_not_repeated(failure: ArgosyError | None, *, is_repeated: bool) -> None:
    """It would take as long again, and hold up others; one of which nothing is known may have been done."""
    details = () if failure is None else ((DETAILS_KEY, details_of(failure)),)
    code = grpc.StatusCode.DEADLINE_EXCEEDED if failure is None else code_of(failure)
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*details), "")
    assert is_repeatable(error) is is_repeated


async def test_busy_server_is_asked_again_after_the_time_it_said(api: FakeApi, client: ArgosyClient) -> None:
    """A server that is busy says how long to wait, and the client waits that long before it repeats the call."""
    api.retry_delay_s = 0.05
    api.failures["SubmitJobs"].append(grpc.StatusCode.RESOURCE_EXHAUSTED)
    started_s = time.monotonic()

    assert len(await client.submit([draft()])) == 1

    assert time.monotonic() - started_s >= 0.05
    assert client.retry_count == 1


async def test_wait_longer_than_the_retries_last_is_an_error_at_once(api: FakeApi, client: ArgosyClient) -> None:
    """Whoever would wait in vain is told at once, and how long the server wants to be left alone."""
    api.retry_delay_s = 3600.0
    api.failures["GetQueue"].append(UNAVAILABLE)

    with pytest.raises(BackendUnavailable) as caught:
        await client.get_queue("science")

    assert caught.value.retry_delay_s == 3600.0
    assert client.retry_count == 0


async def test_repetition_ends_when_its_time_is_over(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stays away is an error, not a hang: of attempts that take 10 ms each, five begin within 45 ms."""
    monkeypatch.setattr(repeated_calls, "time", SimpleNamespace(monotonic=count(step=0.01).__next__))
    server, address = await start_fake(api)
    api.failures["GetQueue"].extend([UNAVAILABLE] * 1000)
    retries = RetryPolicy(first_delay_s=0.001, max_delay_s=0.001, total_s=0.045)
    async with ArgosyClient(address, retries=retries) as client:
        with pytest.raises(BackendUnavailable, match="not now"):
            await client.get_queue("science")
    await server.stop(None)

    assert len(api.requests["GetQueue"]) == 5


async def test_change_requests_go_by_ids_or_by_selector(api: FakeApi, client: ArgosyClient) -> None:
    """The answer counts, shows a sample, and names ids that name nothing."""
    ids = await client.submit([draft(count=3)])

    preview = await client.cancel_jobs(JobSelector(queue="science"), validate_only=True)
    answer = await client.cancel_jobs([ids[0], "01890000-0000-7000-8000-00000000ffff"], reason="enough")
    changed = await client.reprioritize_jobs(JobSelector(queue="science", states=("queued",)), 9)

    assert (preview.job_count, len(preview.sample)) == (3, 3)
    assert (answer.job_count, answer.unknown_ids) == (1, ("01890000-0000-7000-8000-00000000ffff",))
    assert api.requests["CancelJobs"][1].reason == "enough"
    assert changed.job_count == 3
    jobs = [job async for job in client.list_jobs(JobSelector(queue="science"), page_size=2)]
    assert [job.priority for job in jobs] == [9, 9, 9]
    assert [job.cancel_requested for job in jobs] == [True, False, False]


async def test_selector_with_a_state_that_is_none_is_refused_before_it_is_sent(
    api: FakeApi, client: ArgosyClient
) -> None:
    """A misspelt state must not select all states."""
    with pytest.raises(InvalidRequest, match="'runing' is no state"):
        await client.cancel_jobs(JobSelector(queue="science", states=("runing",)))

    assert api.requests["CancelJobs"] == []


async def test_reads_give_values(client: ArgosyClient) -> None:
    """Explain, shares, rounds, clusters and nodes come as plain values."""
    (job_id,) = await client.submit([draft()])

    explanation = await client.explain_job(job_id)
    shares = await client.get_shares()
    last = await client.get_last_round()
    clusters = [cluster async for cluster in client.list_clusters()]
    nodes = [node async for node in client.list_nodes("c1")]

    assert (explanation.stage, explanation.filters[0].node_count) == ("pending", 12)
    assert (shares.capacity_cores, shares.shares[0].usage_cores) == (64, 12.5)
    assert (last.phases_ms, last.totals) == ({"sample": 1.5}, {"conflicts": 3})
    assert last.latencies["leased"].bucket_counts == (1, 3)
    assert clusters[0].free == {"cpu": 32_000, "memory": 64 << 30}
    assert [node.name for node in nodes] == ["n0", "n1", "n2"]
    assert (await client.get_job(job_id)).manifests == (POD,)
    cordoned = await client.cordon_cluster("c1", "repair")
    assert (cordoned.cordoned, cordoned.cordon_reason) == (True, "repair")
    assert not (await client.uncordon_cluster("c1")).cordoned
    assert (await client.cordon_node("c1", "n1", "disk")).cordoned_nodes == {"n1": "disk"}
    assert (await client.uncordon_node("c1", "n1")).cordoned_nodes == {}
    (job,), unknown = await client.get_jobs([job_id, "01890000-0000-7000-8000-00000000ffff"])
    assert (job.id, unknown) == (job_id, ("01890000-0000-7000-8000-00000000ffff",))
    job_sets = [job_set async for job_set in client.list_job_sets("science", count_states=True)]
    assert [(job_set.name, job_set.state_counts) for job_set in job_sets] == [("first", {"queued": 1})]
    info = await client.server_info()
    assert (info.version, info.limits["max_jobs_per_request"], info.features) == ("1.2.3", 100_000, ("yaml_manifests",))
    assert await client.forget_cluster("c1") == 7
    assert "".join([chunk async for chunk in client.dump_state()]) == '{"round": 5}'
    assert b"".join([piece async for piece in client.read_log("j", tail_line_count=2)]) == b"first line\nsecond line\n"

"""How the API server is spared, what goes first, and what keeps watches, bindings and deletions right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.documents import WATCH_OF_PODS, PodDocument
from argosy_kube.kubernetes.api.resources import PODS
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.api.watch_stream import WatchStream
from argosy_kube.port import CreateCode, DeleteCode, Selector
from argosy_testkit.cluster_batches import make_create_batch, make_delete_batch, read_events
from argosy_testkit.cluster_contract import codes
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab
from argosy_testkit.fake_kube_api.store import Document

TIMEOUT_S = 50.0
OTHER_UID = "99999999-0000-4000-8000-000000000000"


def times_s(lab: FakeKubeLab, method: str) -> list[float]:
    """Return when the calls of a method came."""
    faults = lab.api.faults
    return [moment_s for (seen, _), moment_s in zip(faults.seen, faults.seen_s, strict=True) if seen == method]


async def until(condition: Any) -> None:
    """Return once something holds; nothing tells it."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


# --- how fast -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
async def test_no_call_begins_while_the_api_server_asks_to_wait(lab: FakeKubeLab, status: int) -> None:
    """What it asks of one call holds for all that have not begun."""
    cluster = lab.open("one", retry_most_s=0.5)
    lab.api.faults.add(ApiFault(method="POST", path="/pods", status=status, reason="Slow", retry_after="1"))
    refused = asyncio.ensure_future(cluster.create_objects(make_create_batch([(11, 1)])))
    await until(lambda: times_s(lab, "POST"))
    for _ in range(100):  # the answer is here long before so many turns of the loop, which serves it, too
        await asyncio.sleep(0.001)
    others = await cluster.create_objects(make_create_batch([(12, 1), (13, 1)]))
    assert codes(others) + codes(await refused) == [CreateCode.CREATED] * 3
    began_s = times_s(lab, "POST")
    assert len(began_s) == 4
    assert min(began_s[1:]) - began_s[0] >= 0.5


async def test_calls_begin_no_faster_than_the_setting_says(lab: FakeKubeLab) -> None:
    """Beyond the burst they are spread evenly, however many could be under way."""
    cluster = lab.open("one", requests_per_s=50.0, burst_count=1)
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 12)]))
    began_s = times_s(lab, "POST")
    assert len(began_s) == 11
    assert began_s[-1] - began_s[0] >= 0.1


async def test_no_more_calls_are_under_way_than_the_setting_says(lab: FakeKubeLab) -> None:
    """The bound is for all calls of the port together."""
    cluster = lab.open("one", concurrency=3)
    lab.api.faults.add(ApiFault(method="POST", kind="slow", delay_s=0.01, count=999))
    batches = [make_create_batch([(first + place, 1) for place in range(4)]) for first in (10, 20, 30)]
    results = await asyncio.gather(*(cluster.create_objects(batch) for batch in batches))
    assert all(set(codes(result)) == {CreateCode.CREATED} for result in results)
    assert lab.api.most_under_way == 3


async def test_deletion_goes_before_creates_that_wait(lab: FakeKubeLab) -> None:
    """Room that it frees is what they may be waiting for."""
    cluster = lab.open("one", concurrency=1)
    await cluster.create_objects(make_create_batch([(1, 1)]))
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    lab.api.faults.seen.clear()
    lab.api.faults.add(ApiFault(method="POST", kind="slow", delay_s=0.1))
    creates = [
        asyncio.ensure_future(cluster.create_objects(make_create_batch([(number, 1)]))) for number in range(2, 7)
    ]
    await until(lambda: lab.api.faults.seen)
    result = await cluster.delete_objects(make_delete_batch(seen))
    await asyncio.gather(*creates)
    assert result.code_column.tolist() == [DeleteCode.DELETED]
    assert [method for method, _ in lab.api.faults.seen].index("DELETE") == 1


async def test_upkeep_goes_after_all_else(lab: FakeKubeLab) -> None:
    """Labels that somebody changed can wait: the pod is known without them."""
    cluster = lab.open("one", concurrency=1)
    await cluster.create_objects(make_create_batch([(1, 1)], nodes=("nowhere",)))
    await cluster.list_objects(Selector.OURS)
    (pod,) = lab.api.store.all("pods")
    lab.api.store.replace("pods", {**pod, "metadata": {**pod["metadata"], "labels": {}}})
    lab.api.faults.seen.clear()
    listing = asyncio.ensure_future(cluster.list_objects(Selector.OURS))
    lab.api.faults.add(ApiFault(method="GET", path="/configmaps", kind="slow", delay_s=0.1))
    await until(lambda: any("/configmaps" in path for _, path in lab.api.faults.seen))  # the repair waits by now
    batches = [make_create_batch([(number, 1)], nodes=("nowhere",)) for number in range(2, 7)]
    await asyncio.gather(listing, *(cluster.create_objects(batch) for batch in batches))
    await until(lambda: any(method == "PATCH" for method, _ in lab.api.faults.seen))
    changes = [method for method, _ in lab.api.faults.seen if method != "GET"]
    assert changes == ["POST"] * 5 + ["PATCH"]


# --- watches --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def watching(
    lab: FakeKubeLab, *, position: str, selector: str = "", **settings: Any
) -> AsyncGenerator[tuple[WatchStream[PodDocument], asyncio.Event], None]:
    """Give a watch of pods, and what says that there is something to take."""
    used, told = replace(QUICK, **settings), asyncio.Event()
    server = ApiServer(Credentials(CredentialSource(path=str(lab.kubeconfig))), settings=used, call_timeout_s=5.0)
    stream: WatchStream[PodDocument] = WatchStream(
        server, PODS, decoder=WATCH_OF_PODS, selector=selector, position=position, wake=told.set
    )
    stream.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield stream, told
    finally:
        await stream.stop()
        await server.close()


async def test_watch_that_nobody_takes_from_is_read_no_further_than_its_buffer(lab: FakeKubeLab) -> None:
    """What waits is bounded; the rest comes as there is room, and nothing is lost."""
    count = 60
    async with watching(lab, position=str(lab.api.store.version), watch_buffer_bytes=2000) as (stream, told):
        for number in range(count):
            lab.make_pod(f"p{number}", "nowhere", {})
            await asyncio.sleep(0.002)  # so that each is a block of its own
        await asyncio.sleep(0.05)
        names = [event.object.metadata.name for event in stream.take()]
        assert 0 < len(names) < count // 2
        while len(names) < count:
            await told.wait()
            told.clear()
            names += [event.object.metadata.name for event in stream.take()]
        assert names == [f"p{number}" for number in range(count)]


async def test_bookmark_is_where_a_watch_goes_on(lab: FakeKubeLab) -> None:
    """Of a quiet watch the version of its last bookmark is kept, when that of its last event is too old by far."""
    first = str(lab.api.store.version)
    lab.make_pod("somebody's", "nowhere", {})
    latest = str(lab.api.store.version)
    async with watching(lab, position=first, selector="labelSelector=whose%3Dours") as (stream, _):
        await until(lambda: stream.take() or stream.position != first)
        position = stream.position
    assert position == latest
    lab.api.store.history.clear()
    lab.api.store.floor = int(latest)  # what was before is too old
    lab.make_pod("ours", "nowhere", {}, labels={"whose": "ours"})
    async with watching(lab, position=position, selector="labelSelector=whose%3Dours") as (stream, told):
        await told.wait()
        assert [event.object.metadata.name for event in stream.take()] == ["ours"]


# --- what may not be hit, and what must not wait --------------------------------------------------------------------


async def test_binding_never_hits_another_pod_of_the_name(lab: FakeKubeLab) -> None:
    """Ours went before it was bound, and somebody made one of its name: that one keeps having no node."""
    cluster = lab.open("one", binding="subresource")

    def replace_pod(plural: str, change: str, document: Document) -> None:
        if plural == "pods" and change == "ADDED":
            key = document["metadata"]["namespace"], document["metadata"]["name"]
            lab.api.store.objects["pods"][key] = {**document, "metadata": {**document["metadata"], "uid": OTHER_UID}}

    lab.api.store.on_change.append(replace_pod)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    assert any(path.endswith("/binding") for _, path in lab.api.faults.seen)
    assert ["nodeName" in pod["spec"] for pod in lab.api.store.all("pods")] == [False]


@pytest.mark.parametrize(("is_lost", "count"), [(True, 2), (False, 1)], ids=["lost", "alive"])
async def test_pod_of_a_lost_node_is_deleted_without_waiting_for_its_kubelet(
    lab: FakeKubeLab, *, is_lost: bool, count: int
) -> None:
    """Nobody is there to say that its containers have ended, so a second deletion waits for nobody."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    await until(lambda: next(lab.api.store.all("pods"))["status"]["phase"] == "Running")
    if is_lost:
        lab.api.store.delete("nodes", "", "node-a", {})
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    result = await cluster.delete_objects(make_delete_batch(seen))
    assert result.code_column.tolist() == [DeleteCode.DELETED]
    assert len(times_s(lab, "DELETE")) == count
    await until(lambda: not list(lab.api.store.all("pods")))

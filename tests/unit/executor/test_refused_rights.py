"""An executor on an API server that refuses a right, or is slow: no running job ends by that, and all is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from argosy_core.job.states import ObjectState
from argosy_executor.app import start
from argosy_executor.config import ExecutorConfig
from argosy_kube.kubernetes.ours import kinds
from argosy_kube.port import Cluster
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.metrics import METRICS
from argosy_testkit.cluster_batches import make_pod
from argosy_testkit.fake_kube_api import ApiFault, FakeKubeApi
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"k": "v"}}
BAG = json.dumps([SECRET, make_pod()]).encode()
RELIST_S = 0.1


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[FakeKubeLab, None]:
    """Serve a fake API server."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
        yield FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)


@asynccontextmanager
async def running(cluster: Cluster, address: str, **fields: Any) -> AsyncGenerator[None, None]:
    """Run an executor of a cluster."""
    values: dict[str, Any] = {"relist_s": RELIST_S, "gather_ms": 1.0, "drain_s": 5.0} | fields
    config = ExecutorConfig(
        cluster="refused", cluster_address="kubernetes", server_addresses=(address,), installation="one", **values
    )
    life = Lifecycle("executor", drain_s=config.drain_s)

    async def begin(life: Lifecycle) -> None:
        await start(life, config, cluster=cluster)

    async with asyncio.TaskGroup() as group:
        group.create_task(life.run(begin))
        try:
            yield
        finally:
            life.request_stop()


async def until(condition: Any) -> None:
    """Return once something holds."""
    async with asyncio.timeout(50):
        while not condition():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)


async def lists_of_pods(lab: FakeKubeLab, count: int) -> None:
    """Return once some more lists were made and taken."""
    seen = lab.api.faults.seen
    before = len(seen)
    await until(lambda: sum("/nodes?limit" in path for _, path in seen[before:]) >= count)


def hidden_count() -> float:
    """Return the metric."""
    found = METRICS.unlistable_objects.labels("refused")._value.get()
    return float(found)


async def test_right_that_is_refused_at_a_relist_ends_no_job(
    lab: FakeKubeLab, leader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bag of a secret and a pod runs on, here and with a successor; what is really gone is told when it can be."""
    monkeypatch.setattr(kinds, "FIRST_PAUSE_S", 0.05)
    refused = ApiFault(method="GET", path="/secrets", status=403, reason="Forbidden", count=9999)
    async with running(lab.open("one"), leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], BAG)
        await session.wait_states(1, "CREATED", "RUNNING", position=1)
        lab.api.faults.add(refused)
        await lists_of_pods(lab, 3)
        assert session.states == {(1, 1, 0): ["RUNNING"], (1, 1, 1): ["CREATED", "RUNNING"]}
        await until(lambda: hidden_count() == 1)
    async with running(lab.open("one"), leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], BAG, seen=True)
        await session.wait_for(lambda: (1, 1, 0) in session.states)
        await lists_of_pods(lab, 3)
        assert session.states[1, 1, 0] == ["RUNNING"]
        assert not any(method == "DELETE" for method, _ in lab.api.faults.seen)
        assert [len(list(lab.api.store.all(kind))) for kind in ("pods", "secrets")] == [1, 1]
        refused.count = 1
        await until(lambda: hidden_count() == 0)
        (secret,) = lab.api.store.all("secrets")
        lab.api.store.delete("secrets", "default", secret["metadata"]["name"], {})
        await session.wait_for(lambda: ObjectState.LOST.name in session.states[1, 1, 0])


async def test_right_to_make_objects_that_is_missing_fails_the_run_after_its_timeout(
    lab: FakeKubeLab, leader: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then it is tried again and the log says why; the words of the API server stand in the failure."""
    words = 'secrets is forbidden: User "x" cannot create resource "secrets" in API group ""'
    denied = ApiFault(method="POST", path="/secrets", status=403, reason="Forbidden", resource="secrets", message=words)
    denied.count = 999
    lab.api.faults.add(denied)
    async with running(lab.open("one"), leader.address, quota_timeout_s=1.0):
        session = await leader.next_session()
        await session.give([(1, 1)], BAG)
        await session.wait_for(lambda: (1, 1, 0) in session.states)
        assert session.states[1, 1, 0] == ["FAILED"]
        texts = [text for batch in session.batches for text in batch.texts]
        assert any(words in text for text in texts)
    assert "takes no such objects now" in capsys.readouterr().out
    assert sum(method == "POST" and path.endswith("/secrets") for method, path in lab.api.faults.seen) >= 2
    assert not list(lab.api.store.all("pods"))


async def test_list_that_takes_longer_than_a_call_may_is_taken(lab: FakeKubeLab, leader: Any) -> None:
    """The time of a call bounds each page and not their sum: else a large cluster would never have an executor."""
    for number in range(1, 9):
        lab.make_pod(f"p{number}", "node-a", {}, labels={"argosy.dev/installation": "one"})
    lab.api.faults.add(ApiFault(method="GET", path="/pods?limit", kind="slow", delay_s=0.1, count=99))
    cluster = lab.open("one", call_timeout_s=1.0, page_count=1, discover=False)
    async with running(cluster, leader.address, call_timeout_s=1.0):
        await leader.next_session()

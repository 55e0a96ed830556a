"""The overheads of RuntimeClasses, from a cluster's API server into a sampler's ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.plugins import build_framework
from argosy_runtime.channel import Backoff
from argosy_sampler.informer import Informer
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

TIMEOUT_S = 50.0


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[FakeKubeLab, None]:
    """Serve a fake API server for one test."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi())
        yield FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)


def add_runtime_class(lab: FakeKubeLab, name: str, **more: Any) -> None:
    """Install a RuntimeClass."""
    document = {"metadata": {"name": name}, "handler": name, **more}
    lab.api.store.create("runtimeclasses", "", {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **document})


async def test_overheads_are_told_in_base_units_and_those_without_are_left_out(lab: FakeKubeLab) -> None:
    """What cannot be read counts as nothing."""
    assert await lab.open("one").runtime_overheads() == {}
    add_runtime_class(lab, "sandbox", overhead={"podFixed": {"cpu": "250m", "memory": "120Mi", "pods": "odd"}})
    add_runtime_class(lab, "plain")
    add_runtime_class(lab, "empty", overhead={})
    assert await lab.open("one").runtime_overheads() == {"sandbox": {"cpu": 250, "memory": 120 << 20}}


@pytest.mark.parametrize("status", [403, 404])
async def test_cluster_that_does_not_let_us_see_says_nothing(lab: FakeKubeLab, status: int) -> None:
    """A sampler goes on without, as before it read them."""
    lab.api.faults.add(ApiFault(path="/runtimeclasses", status=status, reason="Forbidden", count=9))
    assert await lab.open("one").runtime_overheads() is None


async def test_sampler_knows_overheads_before_it_answers_a_leader(lab: FakeKubeLab) -> None:
    """A list that fails is tried again; nothing is committed without it."""
    add_runtime_class(lab, "sandbox", overhead={"podFixed": {"cpu": "250m"}})
    lab.api.faults.add(ApiFault(path="/runtimeclasses", status=500, count=20))
    ledger = NodeLedger()
    ledger.define_class(1, SchedulingClass(requests=(("cpu", 1000),), runtime_classes=(("sandbox", 1),)))
    backoff = partial(Backoff, rng=np.random.default_rng(1), most_s=0.05)
    informer = Informer(
        lab.open("one"), ledger, framework=build_framework(), backoff=backoff, log=structlog.get_logger()
    )
    follows = (informer.follow_nodes, informer.follow_pods, informer.follow_runtime_classes)
    tasks = [asyncio.create_task(follow()) for follow in follows]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await informer.wait_listed()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert ledger.classes.requests[0, ledger.axis.index("cpu")] == 1250

"""A cluster for the tests of the Kubernetes adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from testbed.cluster import KubeApi
from testbed.lab import NAMESPACE, RealLab, make_node

from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_kubelet import FakeKubelet
from argosy_testkit.fake_kubelet.api import Api


@pytest.fixture(scope="module")
def contract_api(kube_api_factory: Callable[..., KubeApi]) -> Iterator[KubeApi]:
    """A cluster of this module's own: its tests count all pods and nodes."""
    api = kube_api_factory()
    yield api
    api.stop()


@pytest.fixture
async def lab(contract_api: KubeApi) -> AsyncGenerator[RealLab, None]:
    """Give a cluster with three nodes and nothing else."""
    pki = contract_api.ca.parent
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Api(contract_api.url, contract_api.token, contract_api.ca))
        for node in LAB_NODES:
            status, body = await admin.request("POST", "/api/v1/nodes", make_node(node))
            assert status == 201, body
        kubelet = FakeKubelet(
            contract_api.url,
            contract_api.token,
            contract_api.ca,
            certificate=pki / "kubelet.crt",
            key=pki / "kubelet.key",
            heartbeat_s=5.0,
        )
        await stack.enter_async_context(kubelet)
        lab = RealLab(contract_api, admin, kubelet, stack)
        stack.push_async_callback(lab.clear)
        await wait_for_account(admin)
        yield lab
    await asyncio.sleep(0.1)  # TLS connections that were cancelled close in a moment, and only while the loop runs


async def wait_for_account(admin: Api) -> None:
    """Wait until pods may be made: controllers make the account that they use."""
    async with asyncio.timeout(30):
        while True:
            status, _ = await admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")
            if status == 200:
                return
            await asyncio.sleep(0.05)

"""The contract of what an agent hears of its pods' use, held by every source of metrics through the agent's port."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import pytest

from argosy_core.autoscale.events import PodGone, PodSeen
from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile import Deletes
from argosy_kube import open_cluster
from argosy_kube.kubernetes.api.credentials import CredentialSource
from argosy_kube.kubernetes.scaling.cgroups import NodeCgroups
from argosy_kube.kubernetes.scaling.scaler import MetricsSource, PodScaler
from argosy_kube.opening import open_scaler, read_policy
from argosy_kube.port import Cluster
from argosy_kube.scaler_port import PodEvent, Scaler
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_testkit.cluster_contract import LAB_NODES, make_bag, make_create_batch, make_pod
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab
from argosy_testkit.fake_kube_api.metrics import SAMPLE_S

MIB = 1 << 20
BOUNDS = {"autoscale_min": "cpu=500m,memory=1Gi", "autoscale_max": "cpu=3,memory=6Gi"}


class Source(Protocol):
    """Where pods run, and where what they use is told."""

    cluster: Cluster
    scaler: Scaler

    async def use(self, uid: str, millicores: int, mebibytes: int) -> None:
        """Have a pod use so much from now on, for long enough that all sources tell it."""
        ...

    def silence(self) -> Any:
        """Let the source tell nothing while a block runs."""
        ...


class KubernetesSource:
    """A fake API server whose kubelets tell what pods use; its clock goes as far as it is told."""

    def __init__(self, api: FakeKubeApi, lab: FakeKubeLab, folder: Path, metrics: str) -> None:
        """Let nothing be used."""
        self.now_s = 100.0
        self._uses: dict[Path, int] = {}
        self._api, self._cgroups = api, folder / "cgroup"
        (self._cgroups / "kubepods/burstable").mkdir(parents=True)
        (self._cgroups / "cgroup.controllers").touch()
        api.monotonic = lambda: self.now_s
        self.cluster = open_cluster(f"kubernetes:{lab.kubeconfig}", installation="one", settings=QUICK)
        self.scaler = PodScaler(
            CredentialSource(path=str(lab.kubeconfig)),
            installation="one",
            read_policy=read_policy,
            settings=QUICK,
            metrics=NodeCgroups("node-a", self._cgroups) if metrics == "cgroup" else MetricsSource(metrics),
            monotonic=lambda: self.now_s,
        )

    async def use(self, uid: str, millicores: int, mebibytes: int) -> None:
        """See Source; counters tell a rate from the second time on."""
        (name,) = [
            (pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in self._api.store.all("pods")
            if pod["metadata"]["uid"] == uid
        ]
        self._api.uses[name] = f"{millicores}m", f"{mebibytes}Mi"
        folder = self._cgroups / f"kubepods/burstable/pod{uid}"
        folder.mkdir()
        (folder / "memory.current").write_text(f"{mebibytes * MIB}\n")
        self._uses[folder] = millicores
        self._go_on()
        await self.scaler.read_usage()
        self._go_on()

    def _go_on(self) -> None:
        """Let so much time pass that a kubelet looks at each pod again."""
        self.now_s += SAMPLE_S + 5.0
        for folder, millicores in self._uses.items():
            (folder / "cpu.stat").write_text(f"usage_usec {round(millicores * 1000 * self.now_s)}\n")

    @asynccontextmanager
    async def silence(self) -> AsyncIterator[None]:
        """See Source."""
        self._api.faults.add(ApiFault(path="/proxy", status=404, reason="NotFound"))
        self._api.faults.add(ApiFault(path="metrics.k8s.io", status=404, reason="NotFound"))
        shutil.move(self._cgroups, f"{self._cgroups}.away")
        yield
        shutil.move(f"{self._cgroups}.away", self._cgroups)


class SimulatedSource:
    """A simulated cluster, whose pods say what they use."""

    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        """Be served."""
        self._served = stack
        self.cluster = open_cluster(address, installation="one", settings=QUICK)
        self.scaler = open_scaler(address, installation="one", metrics="metrics-api")

    async def use(self, uid: str, millicores: int, mebibytes: int) -> None:
        """See Source; the pod says so itself."""

    @asynccontextmanager
    async def silence(self) -> AsyncIterator[None]:
        """See Source."""
        await self._served.aclose()
        yield


class Lab:
    """Pods, and what an agent hears of them."""

    def __init__(self, source: Source) -> None:
        """Have heard of none."""
        self.source = source
        self._events = source.scaler.follow()
        self._heard: list[PodEvent] = []

    async def make(self, handle: int, use: tuple[int, int] | None) -> str:
        """Make a pod that uses so many millicores and MiB, or of which nothing is told; return its uid."""
        says = {} if use is None else {"simulated_use": f"cpu={use[0]}m,memory={use[1]}Mi"}
        pod = make_pod(run_time="1h", cpu="2", **BOUNDS, **says)
        created = await self.source.cluster.create_objects(make_create_batch([(handle, 1)], bag=make_bag(pod)))
        uid = str(UUID(bytes=created.uid_column[0].tobytes()))
        await self.until(PodSeen, uid)
        if use is not None:
            await self.source.use(uid, *use)
        return uid

    async def delete(self, handle: int, uid: str) -> None:
        """Delete a pod, and hear that it went."""
        one = np.zeros(1, np.int16)
        await self.source.cluster.delete_objects(
            Deletes(
                uid_column=np.frombuffer(UUID(uid).bytes, np.uint8).reshape(1, 16),
                kind_column=one,
                handle_column=np.array([handle]),
                ordinal_column=np.array([1]),
                object_column=one,
                kinds=("Pod",),
            )
        )
        await self.until(PodGone, uid)

    async def until(self, kind: type, uid: str) -> None:
        """Wait for an event of a pod."""
        while not any(isinstance(event, kind) and event.uid == uid for event in self._heard):
            self._heard += await anext(self._events)

    async def uses(self) -> dict[str, tuple[float, float]]:
        """Return the cores and MiB of each pod that the agent hears of."""
        told = await self.source.scaler.read_usage()
        rows = zip(told.load_cores.tolist(), (told.memory_bytes / MIB).tolist(), strict=True)
        return dict(zip(told.uids, rows, strict=True))

    async def close(self) -> None:
        """End everything."""
        await self._events.aclose()
        await self.source.scaler.close()
        await self.source.cluster.close()


@pytest.fixture(params=["metrics-api", "kubelet-summary", "kubelet-page", "cgroup", "simulated"])
async def lab(request: Any, tmp_path: Path) -> AsyncGenerator[Lab, None]:
    """Serve a cluster and a source of metrics."""
    source: Source
    async with AsyncExitStack() as stack:
        if request.param == "simulated":
            served = await stack.enter_async_context(AsyncExitStack())
            host = make_host("lab", LAB_NODES, speed=1.0, seed=0, flush_interval_s=0.01)
            address = await served.enter_async_context(serve_cluster(host, f"unix:{tmp_path}/socket"))
            source = SimulatedSource(f"simulated:{address}", served)
        else:
            api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
            made = FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)
            source = KubernetesSource(api, made, tmp_path, request.param)
        opened = Lab(source)
        stack.push_async_callback(opened.close)
        async with asyncio.timeout(50):
            yield opened


async def test_what_pods_use_is_told_in_cores_and_bytes(lab: Lab) -> None:
    """Of each its own, whatever the source counts in, and from however many answers."""
    one, other = await lab.make(1, (600, 512)), await lab.make(2, (1250, 64))
    assert await lab.uses() == {one: (pytest.approx(0.6), 512), other: (pytest.approx(1.25), 64)}


async def test_of_what_nothing_is_told_is_no_number_and_the_others_count(lab: Lab) -> None:
    """So that pod may grow by other metrics, and may not shrink."""
    silent, other = await lab.make(1, None), await lab.make(2, (300, 64))
    told = await lab.uses()
    assert np.isnan(told[silent]).all()
    assert told[other] == (pytest.approx(0.3), 64)


async def test_a_pod_that_went_is_told_no_more(lab: Lab) -> None:
    """Whatever its source remembers."""
    gone, other = await lab.make(1, (500, 64)), await lab.make(2, (300, 64))
    await lab.delete(1, gone)
    assert set(await lab.uses()) == {other}


async def test_a_source_that_does_not_answer_is_unavailable_and_no_more(lab: Lab) -> None:
    """The agent goes on without metrics: nothing is made up."""
    await lab.make(1, (500, 64))
    async with lab.source.silence():
        with pytest.raises(BackendUnavailable):
            await lab.source.scaler.read_usage()

"""Durable permits through the parts of a sampler: noted before they are told, and known to the next sampler."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Framework
from argosy_core.job.reading.scaling import PERMIT_ANNOTATION
from argosy_core.ledger import NodeLedger, PermitNote
from argosy_core.permits import AgentHello, Inventory, PermitRequest, Permits, PermitService
from argosy_core.plugins.registry import DEFAULT_PROFILE, build_framework
from argosy_kube.opening import open_pod_notes
from argosy_runtime.channel import Backoff
from argosy_runtime.logs import get_logger
from argosy_sampler.config import PermitConfig
from argosy_sampler.informer import Informer
from argosy_sampler.permit_notes import NoteWriter
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab

GIB = 1 << 30
BOUNDS = {"argosy.dev/autoscale-min": "cpu=250m,memory=1Gi", "argosy.dev/autoscale-max": "cpu=3,memory=6Gi"}


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[FakeKubeLab]:
    """A fake API server with a scaled pod of one core on node-a."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi())
        lab = FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)
        size = {"requests": {"cpu": "1", "memory": "1Gi"}}
        lab.make_pod("p", "node-a", size, annotations={**BOUNDS, "argosy.dev/simulated-run-time": "1h"})
        yield lab


class Sampler:
    """What a sampler has of its cluster."""

    def __init__(self, lab: FakeKubeLab, stack: AsyncExitStack, process_id: bytes) -> None:
        """See nothing yet."""
        self.ledger = PermitConfig(durable=True).make_ledger(process_id=process_id)
        notes = open_pod_notes(f"kubernetes:{lab.kubeconfig}", settings=QUICK)
        stack.push_async_callback(notes.close)
        self.writer = NoteWriter(notes, log=get_logger())
        self.cluster = lab.open("argosy")
        self.service = PermitService(self.ledger, cluster="c", cluster_uid="u")
        self.now_s = 0.0

    async def fill(self) -> None:
        """List nodes and pods."""
        framework: Framework = build_framework(DEFAULT_PROFILE, ())
        backoff: Callable[[], Backoff] = lambda: Backoff(rng=np.random.default_rng(1), most_s=0.1)  # noqa: E731
        informer = Informer(
            self.cluster, self.ledger, framework=framework, backoff=backoff, log=get_logger(), see_pods=self.writer.see
        )
        follow = [
            asyncio.ensure_future(one)
            for one in (informer.follow_nodes(), informer.follow_pods(), informer.follow_runtime_classes())
        ]
        await informer.wait_listed()
        for task in follow:
            task.cancel()
        await asyncio.gather(*follow, return_exceptions=True)

    async def note(self) -> list[Permits]:
        """Write what is to be noted; return what is told then."""
        notes: list[PermitNote] = self.service.take_notes(8)
        found = [(note.uid, await self.writer.write(note)) for note in notes]
        return [reply for _, reply in self.service.end_notes(found, self.now_s).replies if isinstance(reply, Permits)]

    def booked(self) -> list[int]:
        """Return what the only scaled pod is booked at."""
        pods = self.ledger.permits.pods
        return pods.booked(pods.live())[:, 0].tolist()


def noted(lab: FakeKubeLab) -> str:
    """Return the note of the pod, without whose it is."""
    notes = lab.api.store.find("pods", "default", "p")["metadata"]["annotations"]
    return notes.get(PERMIT_ANNOTATION, ",").partition(",")[2]


async def test_a_permit_is_noted_before_it_is_told_and_books_the_pod_after_a_start(lab: FakeKubeLab) -> None:
    """The next sampler puts its name on the note, and books the pod at what it says; agents hear after the note."""
    uid = UUID(lab.api.store.find("pods", "default", "p")["metadata"]["uid"])
    uids = np.frombuffer(uid.bytes, np.int64).reshape(1, 2)
    async with AsyncExitStack() as stack:
        one = Sampler(lab, stack, b"1" * 16)
        await one.fill()
        welcome, _ = one.service.begin(AgentHello(cluster="c", cluster_uid="u", process_id=b"a" * 16), 0.0)
        size = np.array([[1000], [GIB]])
        yes, no = np.ones(1, np.bool_), np.zeros(1, np.bool_)
        said = Inventory(uids=uids, ceilings=size, held=yes, permitted=no, numbers=np.ones(1, np.int64))
        assert one.service.take([(welcome.session, 2, said)], 0.0).replies == []
        lab.api.faults.add(ApiFault(kind="status", method="PATCH", status=403, reason="Forbidden"))
        assert await one.note() == []  # it may not, and tries again
        assert noted(lab) == ""
        one.ledger.permits.set_time(1.0)
        (permits,) = await one.note()
        assert permits.permits.tolist() == size.tolist()
        assert noted(lab) == "cpu=2000m,memory=2147483648"  # with room ahead
        asked = PermitRequest(
            uids=uids, wanted=np.array([[2500], [GIB]]), bundle=np.zeros(1, np.bool_), numbers=np.full(1, 2)
        )
        assert one.service.take([(welcome.session, 3, asked)], 1.0).replies == []
        (permits,) = await one.note()
        assert (permits.permits[0, 0], noted(lab)) == (2500, "cpu=3000m,memory=2147483648")
        one.ledger.permits.set_time(31.0)  # nothing was asked for half a minute
        await one.note()
        assert noted(lab) == "cpu=2500m,memory=1073741824"

        two = Sampler(lab, stack, b"2" * 16)
        await two.fill()
        assert two.booked() == [3000, 6 * GIB]
        await two.note()
        assert two.booked() == [2500, GIB]
        late = PermitRequest(
            uids=uids, wanted=np.array([[3000], [GIB]]), bundle=np.zeros(1, np.bool_), numbers=np.full(1, 3)
        )
        assert one.service.take([(welcome.session, 4, late)], 31.0).replies == []
        assert await one.note() == []  # who was replaced tells nothing above the note any more


def test_durable_permits_need_a_kubernetes() -> None:
    """A simulated cluster keeps nothing on its pods; without the setting no note is written."""
    with pytest.raises(InvalidRequest, match=r"permits\.durable needs a Kubernetes"):
        open_pod_notes("simulated:127.0.0.1:1")
    ledger: NodeLedger = PermitConfig().make_ledger(process_id=b"1" * 16)
    assert ledger.permits.settings.noted_by == ""

"""The contract of clusters that fail on order, as tests that an adapter's own test module inherits.

Source: `argosy_kube.port`, `argosy_kube.simulated.faults`.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import Change, CreateCode, PodPhase, Selector, WatchGone
from argosy_kube.simulated.faults import Fault, FaultKind
from argosy_testkit.cluster_batches import make_create_batch, make_delete_batch, read_events
from argosy_testkit.cluster_contract import TIMEOUT_S, ClusterLab, changed, codes, ended, watch_until

__all__ = ["FaultContract", "FaultLab"]


class FaultLab(ClusterLab):
    """A lab whose cluster fails on order."""

    async def inject(self, fault: Fault) -> None:
        """Make a failure happen."""


class FaultContract:
    """What a cluster does when it fails on order; the executor's and sampler's defences are tested against this."""

    async def test_create_timeout_applies_and_does_not_say(self, lab: FaultLab) -> None:
        """After a time-out the outcome is unknown; asking again finds the object."""
        cluster = lab.open("one")
        await lab.inject(Fault(kind="create-timeout"))
        assert codes(await cluster.create_objects(make_create_batch([(11, 1)]))) == [CreateCode.UNAVAILABLE]
        assert codes(await cluster.create_objects(make_create_batch([(11, 1)]))) == [CreateCode.EXISTS]

    async def test_create_throttled_applies_nothing(self, lab: FaultLab) -> None:
        """A throttled create made nothing."""
        cluster = lab.open("one")
        await lab.inject(Fault(kind="create-throttled"))
        assert codes(await cluster.create_objects(make_create_batch([(11, 1)]))) == [CreateCode.UNAVAILABLE]
        assert codes(await cluster.create_objects(make_create_batch([(11, 1)]))) == [CreateCode.CREATED]

    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            ("create-rejected", CreateCode.REJECTED),
            ("create-quota", CreateCode.QUOTA),
            ("create-foreign", CreateCode.EXISTS),
        ],
    )
    async def test_create_refuses_as_many_objects_as_ordered(
        self, lab: FaultLab, kind: FaultKind, code: CreateCode
    ) -> None:
        """The first `count` objects are refused, the others made."""
        cluster = lab.open("one")
        await lab.inject(Fault(kind=kind, count=1))
        result = await cluster.create_objects(make_create_batch([(11, 1), (12, 1)]))
        assert codes(result) == [code, CreateCode.CREATED]
        assert not result.existing_ours_column.any()

    async def test_image_that_never_pulls_keeps_the_pod_pending(self, lab: FaultLab) -> None:
        """Such a pod stays pending with the kubelet's reason."""
        cluster = lab.open("one")
        await lab.inject(Fault(kind="image-never-pulls"))
        await cluster.create_objects(make_create_batch([(11, 1), (12, 1)]))
        first, second = read_events(await cluster.list_objects(Selector.OURS))
        assert (first.phase, first.reason) == (PodPhase.PENDING, "ImagePullBackOff")
        assert second.phase == PodPhase.RUNNING

    async def test_unavailable_cluster_raises_for_every_kind_of_call(self, lab: FaultLab) -> None:
        """A call that is not answered raises BackendUnavailable; the next works."""
        cluster = lab.open("one")
        for call in (
            cluster.list_nodes,
            lambda: cluster.list_objects(Selector.OURS),
            lambda: cluster.create_objects(make_create_batch([(11, 1)])),
            lambda: cluster.delete_objects(make_delete_batch()),
            lambda: cluster.find_objects(make_create_batch([(11, 1)])),
        ):
            await lab.inject(Fault(kind="unavailable"))
            with pytest.raises(BackendUnavailable):
                await call()
            await call()

    async def test_dropped_watch_ends_without_error_and_resumes(self, lab: FaultLab) -> None:
        """A dropped watch just ends; from its last version nothing is lost."""
        cluster = lab.open("one")
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.create_objects(make_create_batch([(11, 1)]))
        async with asyncio.timeout(TIMEOUT_S), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
            async for events in watch:
                if len(events):
                    version = events.version
                    await lab.inject(Fault(kind="watch-dropped"))
        await cluster.create_objects(make_create_batch([(12, 1)]))
        added = changed(Change.ADDED)
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), added)
        assert [item.run[0] for item in seen] == [12]

    async def test_stale_watch_is_gone_and_a_new_list_works(self, lab: FaultLab) -> None:
        """After the history was dropped an old version is gone, the one of a new list is not."""
        cluster = lab.open("one")
        version = (await cluster.list_objects(Selector.OURS)).version
        await cluster.create_objects(make_create_batch([(11, 1)]))
        await lab.inject(Fault(kind="watch-stale"))
        with pytest.raises(WatchGone):
            await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
        listing = await cluster.list_objects(Selector.OURS)
        assert len(listing) == 1
        await cluster.create_objects(make_create_batch([(12, 1)]))
        added = changed(Change.ADDED)
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, listing.version), added)
        assert [item.run[0] for item in seen] == [12]

    async def test_unreachable_node_hides_its_pods_until_it_recovers(self, lab: FaultLab) -> None:
        """Pods of a node that is not heard are UNKNOWN, and what they are again once it is heard."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)]))
        version = (await cluster.list_objects(Selector.OURS)).version
        await lab.inject(Fault(kind="node-unreachable", node="node-a"))
        (hidden,) = read_events(await cluster.list_objects(Selector.OURS))
        assert hidden.phase == PodPhase.UNKNOWN
        assert [node.name for node in (await cluster.list_nodes()).nodes if not node.ready] == ["node-a"]
        await lab.inject(Fault(kind="node-recovered", node="node-a"))
        back = lambda seen: seen[-1].phase == PodPhase.RUNNING  # noqa: E731 - reads as the condition it is
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), back)
        assert [item.phase for item in seen] == [PodPhase.UNKNOWN, PodPhase.RUNNING]

    async def test_evicting_node_fails_its_pods(self, lab: FaultLab) -> None:
        """Evicted pods fail with that reason."""
        cluster = lab.open("one")
        await cluster.create_objects(make_create_batch([(11, 1)]))
        await lab.inject(Fault(kind="node-evicts", node="node-a"))
        (pod,) = read_events(await cluster.list_objects(Selector.OURS))
        assert (pod.phase, pod.reason) == (PodPhase.FAILED, "Evicted")

"""An executor that serves named namespaces only: it lists, watches and makes in each, and asks nothing of others."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from argosy_core.errors import InvalidRequest, NotFound
from argosy_kube import KubernetesSettings
from argosy_kube.kubernetes.settings import MOST_NAMESPACES
from argosy_kube.port import Change, CreateCode, PodPhase, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import ClusterContract, changed, codes, ended, read_whole_log, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

NAMED = ("default", "science")
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "door"}, "spec": {"ports": [{"port": 80}]}}
WIDGET = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "wheel"}}
EVERYWHERE = re.compile(r"/(api/v1|apis/[^/]+/v1)/(?!nodes|namespaces|runtimeclasses)[a-z]+(\?|$)")
INSIDE = re.compile(r"/namespaces/([^/?]+)/[a-z]")


def asked_beyond(lab: FakeKubeLab) -> list[str]:
    """Return the calls that were about objects of other namespaces than the named, or of all."""
    return [
        path
        for _, path in lab.api.faults.seen
        if EVERYWHERE.match(path) or any(name not in NAMED for name in INSIDE.findall(path))
    ]


def within(namespace: str, *manifests: dict[str, Any]) -> bytes:
    """Return a bag whose objects are in a namespace."""
    return make_bag(*({**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in manifests))


@pytest.fixture
def spaces(lab: FakeKubeLab) -> FakeKubeLab:
    """A cluster with more namespaces, one of them not named."""
    lab.api.store.namespaces |= {"science": "Active", "foreign": "Active"}
    return lab


class TestNamedNamespacesOnFake(ClusterContract):
    """The contract of the port holds; all pods are listed everywhere, as a sampler does, and nothing else is."""

    @pytest.fixture
    async def lab(self, lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FakeKubeLab, None]:
        """Open clusters that serve two namespaces."""
        lab.api.store.namespaces["science"] = "Active"
        plain = lab.open
        monkeypatch.setattr(lab, "open", lambda *args, **kwargs: plain(*args, namespaces=NAMED, **kwargs))
        yield lab
        assert [one for one in asked_beyond(lab) if not re.match(r"/api/v1/pods\?(?!.*labelSelector)", one)] == []


async def test_job_in_a_named_namespace_runs_and_nothing_is_asked_of_others(spaces: FakeKubeLab) -> None:
    """Made, watched, read, found by name and deleted in each namespace; objects of other kinds and custom ones too."""
    cluster = spaces.open("one", namespaces=NAMED)
    version = (await cluster.list_objects(Selector.OURS)).version
    bag = within("science", SERVICE, WIDGET, make_pod(run_time="1s"))
    batch = make_create_batch([(11, 1)], bag=bag, objects=3)
    assert codes(await cluster.create_objects(batch)) == [CreateCode.CREATED] * 3
    await cluster.create_objects(make_create_batch([(12, 1)], bag=make_bag(make_pod(run_time="1s"))))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(2))
    assert {item.run[0] for item in seen if item.phase == PodPhase.SUCCEEDED} == {11, 12}
    assert await read_whole_log(cluster, (11, 1, 2))
    with pytest.raises(NotFound):
        await read_whole_log(cluster, (13, 1, 0))
    again = spaces.open("one", namespaces=NAMED)
    listed = read_events(await again.list_objects(Selector.OURS))
    assert sorted((item.run[0], item.kind) for item in listed) == [
        *((11, kind) for kind in ("Pod", "Service", "Widget.example.test")),
        (12, "Pod"),
    ]
    assert len(await again.find_objects(batch)) == 3
    third = spaces.open("one", namespaces=NAMED)  # it has seen nothing, so it looks for what it deletes
    await third.delete_objects(make_delete_batch(*listed))
    assert not await third.release_pods()
    assert not read_events(await again.list_objects(Selector.OURS))
    assert asked_beyond(spaces) == []


async def test_what_wants_another_namespace_is_rejected_by_name(spaces: FakeKubeLab) -> None:
    """The reason names the namespace and those that are served; nothing is asked of it."""
    cluster = spaces.open("one", namespaces=NAMED)
    batch = make_create_batch([(11, 1)], bag=within("foreign", make_pod()))
    result = await cluster.create_objects(batch)
    assert codes(result) == [CreateCode.REJECTED]
    assert "namespace foreign" in result.messages[0]
    assert "default, science" in result.messages[0]
    assert not len(await cluster.find_objects(batch))
    assert asked_beyond(spaces) == []


async def test_objects_are_told_with_the_namespace_in_which_they_are(spaces: FakeKubeLab) -> None:
    """By lists, watches and looks; a pod with a run's labels elsewhere is told as what it is, and where."""
    cluster = spaces.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    asked = make_create_batch([(11, 1)], bag=within("science", SERVICE, make_pod()), objects=2)
    await cluster.create_objects(asked)
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), lambda seen: len(seen) > 1)
    (forged,) = [pod for pod in spaces.api.store.objects["pods"].values() if pod["metadata"]["namespace"] == "science"]
    copied = {key: forged["metadata"][key] for key in ("name", "labels", "annotations")}
    spaces.api.store.create("pods", "foreign", {**forged, "metadata": {**copied, "namespace": "foreign"}})
    listed = read_events(await cluster.list_objects(Selector.OURS))
    found = read_events(await cluster.find_objects(asked))
    own = {((11, 1, 0), "Service", "science"), ((11, 1, 1), "Pod", "science")}
    assert {(item.run, item.kind, item.namespace) for item in seen} == own
    assert {(item.run, item.kind, item.namespace) for item in found} == own
    assert {(item.run, item.kind, item.namespace) for item in listed} == own | {((11, 1, 1), "Pod", "foreign")}


async def test_watches_of_namespaces_go_on_where_each_stood(spaces: FakeKubeLab) -> None:
    """After watches ended nothing of any namespace is told twice, and nothing is left out."""
    cluster = spaces.open("one", namespaces=NAMED)
    version = (await cluster.list_objects(Selector.OURS)).version
    told: list[tuple[int, Change]] = []
    for handle, namespace in ((11, "science"), (12, "default"), (13, "science")):
        await cluster.create_objects(make_create_batch([(handle, 1)], bag=within(namespace, make_pod())))
        seen, version = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.ADDED))
        told += [(item.run[0], item.change) for item in seen if item.change == Change.ADDED]
        spaces.api.drop_watches()
    assert told == [(11, Change.ADDED), (12, Change.ADDED), (13, Change.ADDED)]


async def test_list_beside_watches_is_never_older_than_what_they_told(
    spaces: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a watch of one namespace brought while another was listed is in the list."""
    cluster = spaces.open("one", namespaces=NAMED)
    version = (await cluster.list_objects(Selector.OURS)).version
    async with aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
        await cluster.create_objects(make_create_batch([(11, 1)]))
        await anext(watch)
        plain = spaces.api.faults.take

        def end_pod_meanwhile(method: str, path: str) -> ApiFault | None:
            """Let a pod end whose namespace was listed already."""
            if "/science/services?" in path:
                monkeypatch.undo()
                (pod,) = spaces.api.store.all("pods", "default")
                spaces.api.store.replace("pods", {**pod, "status": {"phase": "Succeeded"}})
            return plain(method, path)

        monkeypatch.setattr(spaces.api.faults, "take", end_pod_meanwhile)
        listed = read_events(await cluster.list_objects(Selector.OURS))
    assert listed[-1].phase == PodPhase.SUCCEEDED


async def test_list_that_begins_again_tells_nothing_twice(spaces: FakeKubeLab) -> None:
    """A page of the second namespace that came too late (410) begins both again."""
    cluster = spaces.open("one", namespaces=NAMED, page_count=1)
    for handle, namespace in ((11, "default"), (12, "science"), (13, "science")):
        await cluster.create_objects(make_create_batch([(handle, 1)], bag=within(namespace, make_pod())))
    spaces.api.faults.add(ApiFault(path="continue=", status=410, reason="Expired"))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert sorted(item.run[0] for item in listed) == [11, 12, 13]


async def test_kind_that_one_namespace_refuses_is_unlistable(spaces: FakeKubeLab) -> None:
    """Nothing of it is called gone, though the other namespace shows it; all else is followed."""
    cluster = spaces.open("one", namespaces=NAMED)
    await cluster.create_objects(make_create_batch([(11, 1)], bag=within("science", SERVICE, make_pod()), objects=2))
    refused = ApiFault(method="GET", path="/science/services", status=403, reason="Forbidden", count=99)
    spaces.api.faults.add(refused)
    listing = await cluster.list_objects(Selector.OURS)
    assert listing.unlistable_kinds == ("Service",)
    assert [item.kind for item in read_events(listing)] == ["Pod"]


async def test_cluster_agent_watches_pods_once_and_other_kinds_where_they_are_named(spaces: FakeKubeLab) -> None:
    """Its sampler reads all pods anyhow."""
    cluster = spaces.open("one", namespaces=NAMED, shares_pods=True)
    await cluster.create_objects(make_create_batch([(11, 1)], bag=within("science", SERVICE, make_pod()), objects=2))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert sorted(item.kind for item in listed) == ["Pod", "Service"]
    assert {path.partition("?")[0] for path in asked_beyond(spaces)} == {"/api/v1/pods"}


@pytest.mark.parametrize(
    "names",
    [
        ("",),
        ("Science",),
        ("a.b",),
        ("*",),
        ("kube-system/x",),
        ("a", "a"),
        tuple(map(str, range(MOST_NAMESPACES + 1))),
    ],
)
def test_namespaces_that_are_none_or_too_many_are_refused(names: tuple[str, ...]) -> None:
    """At the start of a process, and by the name of the setting."""
    with pytest.raises(InvalidRequest, match=r"kubernetes\.namespaces"):
        KubernetesSettings(namespaces=names)

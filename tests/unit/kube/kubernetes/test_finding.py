"""Objects are found by name whatever their labels, and a name alone makes nothing ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_ANNOTATION, RUN_LABEL, run_label
from argosy_kube.kubernetes.ours import lookup
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.port import Change, CreateCode, DeleteCode, PodPhase, Selector
from argosy_testkit.cluster_batches import (
    make_bag,
    make_create_batch,
    make_delete_batch,
    make_pod,
    read_events,
)
from argosy_testkit.cluster_contract import changed, codes, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

OWN = {INSTALLATION_LABEL: "one", RUN_LABEL: run_label(11, 1), OBJECT_LABEL: "0"}
ASKED = make_create_batch([(11, 1)])
CONFIG_MAP_AND_POD = make_create_batch(
    [(11, 1)], bag=make_bag({"kind": "ConfigMap", "metadata": {"name": "settings"}}, make_pod()), objects=2
)
Metadata = dict[str, Any]


def change_pod(lab: FakeKubeLab, **metadata: object) -> Metadata:
    """Change the metadata of the only pod; return it."""
    (pod,) = lab.api.store.all("pods")
    return dict(lab.api.store.replace("pods", {**pod, "metadata": {**pod["metadata"], **metadata}})["metadata"])


def requests(lab: FakeKubeLab, method: str) -> list[str]:
    """Return the paths of the requests so far that name a pod or a config map, or list them without a selector."""
    parts = ("/pods", "/configmaps")
    return [path for verb, path in lab.api.faults.seen if verb == method and any(part in path for part in parts)]


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        ({"labels": {}}, True),
        ({"labels": {**OWN, INSTALLATION_LABEL: "two"}}, True),
        ({"labels": {**OWN, RUN_LABEL: run_label(99, 1)}}, True),
        ({"annotations": {}}, True),
        ({"labels": {}, "annotations": {}}, True),
        ({"labels": {}, "annotations": {}, "finalizers": []}, False),
        ({"labels": {}, "annotations": {RUN_ANNOTATION: "two/11-1/0"}}, False),
        ({"labels": {}, "annotations": {RUN_ANNOTATION: "one/12-1/0"}}, False),
        ({"annotations": {RUN_ANNOTATION: "one/12-1/0"}}, True),
        ({"labels": {INSTALLATION_LABEL: "two"}, "annotations": {}}, False),
    ],
    ids=[
        "no-labels",
        "another-installation",
        "another-run",
        "no-annotations",
        "only-our-finalizer",
        "nothing-but-the-name",
        "annotation-of-another-installation",
        "annotation-of-another-run",
        "labels-as-they-were",
        "labels-of-another-installation",
    ],
)
async def test_pod_of_the_name_is_ours_by_its_annotation_its_labels_or_its_finalizer(
    lab: FakeKubeLab, metadata: Metadata, *, is_ours: bool
) -> None:
    """Whoever makes a pod of that name gains nothing by it, whether it is looked for or met by a create."""
    await lab.open("one").create_objects(ASKED)
    uid = change_pod(lab, **metadata)["uid"].replace("-", "")
    found = read_events(await lab.open("one").find_objects(ASKED))
    assert [(item.run, item.uid.hex()) for item in found] == ([((11, 1, 0), uid)] if is_ours else [])
    if is_ours:
        async with asyncio.timeout(50):
            await lab.api.wait_until(
                lambda: OWN.items() <= next(lab.api.store.all("pods"))["metadata"]["labels"].items()
            )
        change_pod(lab, **metadata)
    before = next(lab.api.store.all("pods"))["metadata"]
    met = await lab.open("one").create_objects(ASKED)
    assert (codes(met), bool(met.existing_ours_column[0] and met.existing_handle_column[0] == 11)) == (
        [CreateCode.EXISTS],
        is_ours,
    )
    if not is_ours:
        assert next(lab.api.store.all("pods"))["metadata"] == before, "it is left alone"


async def test_many_are_looked_for_in_one_list_of_their_namespace(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are read one by one; beyond a number, pages of a list cost less."""
    runs = [(handle, 1) for handle in range(11, 21)]
    await lab.open("one").create_objects(make_create_batch(runs))
    for handle, attempt in runs:
        await lab.take_labels((handle, attempt, 0))
    few = await lab.open("one").find_objects(make_create_batch(runs[:4]))
    assert (len(few), len(requests(lab, "GET"))) == (4, 4)
    monkeypatch.setattr(lookup, "MOST_READS", 4)
    many = await lab.open("one").find_objects(make_create_batch(runs))
    assert sorted(item.run[0] for item in read_events(many)) == [handle for handle, _ in runs]
    assert [path.partition("?")[0] for path in requests(lab, "GET")[4:]] == ["/api/v1/namespaces/default/pods"]


async def test_nothing_is_known_if_a_pod_cannot_be_asked_for(lab: FakeKubeLab) -> None:
    """An answer that is missing is no absence."""
    await lab.open("one").create_objects(ASKED)
    lab.api.faults.add(ApiFault(method="GET", path="/pods/work-", status=500, count=99))
    with pytest.raises(BackendUnavailable):
        await lab.open("one").find_objects(ASKED)


async def test_kind_that_may_not_be_looked_at_is_hidden_and_stands_in_nobodys_way(lab: FakeKubeLab) -> None:
    """As in lists: that nothing of it was found says nothing; pods are another matter."""
    await lab.open("one").create_objects(CONFIG_MAP_AND_POD)
    lab.api.faults.add(ApiFault(method="GET", path="/configmaps", status=403, reason="Forbidden", count=99))
    found = await lab.open("one").find_objects(CONFIG_MAP_AND_POD)
    assert ([item.kind for item in read_events(found)], found.unlistable_kinds) == (["Pod"], ("ConfigMap",))


async def test_pod_that_has_ended_and_is_kept_by_our_finalizer_alone_is_told_with_its_end(lab: FakeKubeLab) -> None:
    """It was collected while nobody looked; the finalizer kept it for this."""
    await lab.open("one").create_objects(ASKED)
    (pod,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(pod, 3, "Error")
    lab.api.store.delete("pods", "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})
    assert change_pod(lab, labels={})["finalizers"] == [STORED_FINALIZER]
    (found,) = read_events(await lab.open("one").find_objects(ASKED))
    assert (found.phase, found.exit_code) == (PodPhase.FAILED, 3)


@pytest.mark.parametrize("how", ["watch", "list", "long-list"])
async def test_config_map_that_loses_its_labels_is_not_told_as_gone_and_is_deleted_with_its_run(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It is known by its uid from then on, and gets its labels back."""
    if how == "long-list":
        monkeypatch.setattr(lookup, "MOST_READS", 0)
    cluster = lab.open("one")
    await cluster.create_objects(CONFIG_MAP_AND_POD)
    listing = await cluster.list_objects(Selector.OURS)
    config_map = next(item for item in read_events(listing) if item.kind == "ConfigMap")
    await lab.take_labels((11, 1, 0))
    if how == "watch":
        is_told = lambda items: any(item.kind == "ConfigMap" for item in items)  # noqa: E731 - a condition
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, listing.version), is_told)
    else:
        seen = read_events(await cluster.list_objects(Selector.OURS))
    assert {item.change for item in seen if item.kind == "ConfigMap"} <= {Change.ADDED, Change.MODIFIED}
    assert (11, 1, 0) in {item.run for item in seen}
    async with asyncio.timeout(50):
        labels = lambda: next(lab.api.store.all("configmaps"))["metadata"]["labels"]  # noqa: E731 - read again and again
        await lab.api.wait_until(lambda: OWN.items() <= labels().items())
    result = await cluster.delete_objects(make_delete_batch(config_map))
    assert result.code_column.tolist() == [DeleteCode.DELETED]
    assert list(lab.api.store.all("configmaps")) == []


async def test_config_map_without_labels_that_nobody_may_patch_is_deleted_all_the_same(lab: FakeKubeLab) -> None:
    """The uid is enough; so the right to change objects of other kinds than pods is not needed."""
    cluster = lab.open("one")
    lab.api.faults.add(ApiFault(method="PATCH", path="/configmaps/", status=403, reason="Forbidden", count=99))
    await cluster.create_objects(CONFIG_MAP_AND_POD)
    listed = read_events(await cluster.list_objects(Selector.OURS))
    await lab.take_labels((11, 1, 0))
    assert len(await cluster.list_objects(Selector.OURS)) == 2
    await cluster.delete_objects(make_delete_batch(next(item for item in listed if item.kind == "ConfigMap")))
    assert list(lab.api.store.all("configmaps")) == []


async def test_deletions_of_config_maps_by_us_ask_for_nothing(lab: FakeKubeLab) -> None:
    """They show no deletion before they are gone, and it is no surprise; one by somebody else costs a call."""
    cluster = lab.open("one")
    await cluster.create_objects(CONFIG_MAP_AND_POD)
    listing = await cluster.list_objects(Selector.OURS)
    config_map = next(item for item in read_events(listing) if item.kind == "ConfigMap")
    await cluster.delete_objects(make_delete_batch(config_map))
    await watch_until(cluster.watch_objects(Selector.OURS, listing.version), changed(Change.DELETED))
    assert [path for path in requests(lab, "GET") if "fieldSelector=metadata.name" in path] == []

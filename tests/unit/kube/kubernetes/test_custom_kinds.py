"""Kinds that the cluster's owner added: which are taken, and what is said of those that are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from argosy_core.job.reading.naming import object_name
from argosy_kube.kubernetes.ours import kinds
from argosy_kube.port import CreateCode, DeleteCode, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import codes
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

DENIED = 'widgets.example.test is forbidden: User "x" cannot {} resource "widgets" in API group "example.test"'


def bag(api_version: str = "example.test/v1", kind: str = "Widget") -> bytes:
    """Return a bag of a custom resource and a pod."""
    return make_bag({"apiVersion": api_version, "kind": kind, "metadata": {"name": "wheel"}}, make_pod())


@pytest.mark.parametrize(
    ("api_version", "kind", "text"),
    [
        pytest.param("no.such/v1", "Thing", "has no kind Thing of no.such/v1", id="group"),
        pytest.param("example.test/v9", "Widget", "has no kind Widget of example.test/v9", id="version"),
        pytest.param("example.test/v1", "Cog", "has no kind Cog of example.test/v1", id="kind"),
        pytest.param("example.test/v1", "Gadget", "in no namespace", id="of-the-cluster"),
        pytest.param("v1", "Node", "may not hold a Node", id="node"),
        pytest.param("networking.k8s.io/v1", "NetworkPolicy", "may not hold", id="of-kubernetes"),
    ],
)
async def test_kind_that_no_bag_may_hold_is_rejected_and_says_why(
    lab: FakeKubeLab, api_version: str, kind: str, text: str
) -> None:
    """It is not tried again for ever; nothing is made of it."""
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag(api_version, kind), objects=2))
    assert codes(result)[0] == CreateCode.REJECTED
    assert text in result.messages[result.message_column[0]]
    assert not any(method == "POST" and "/pods" not in path for method, path in lab.api.faults.seen)


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        pytest.param(
            {"method": "GET", "path": "/widgets?limit=1", "status": 403, "message": DENIED.format("list")},
            CreateCode.REJECTED,
            "cannot list",
            id="may-not-list",
        ),
        pytest.param(
            {
                "method": "POST",
                "path": "/widgets",
                "status": 403,
                "resource": "widgets",
                "message": DENIED.format("create"),
            },
            CreateCode.REJECTED,
            "can grant them",
            id="may-not-create",
        ),
        pytest.param(
            {"method": "POST", "path": "/widgets", "status": 404, "message": "404 page not found"},
            CreateCode.REJECTED,
            "any more",
            id="removed-meanwhile",
        ),
        pytest.param(
            {"method": "GET", "path": "/apis/example.test/v1", "status": 503, "count": 99},
            CreateCode.UNAVAILABLE,
            "on order",
            id="not-served-now",
        ),
    ],
)
async def test_right_that_is_missing_fails_the_object_and_an_absent_server_does_not(
    lab: FakeKubeLab, fault: dict[str, Any], code: CreateCode, text: str
) -> None:
    """What the cluster's owner did not grant is said; what may be back in a moment is waited for."""
    lab.api.faults.add(ApiFault(**fault))
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag(), objects=2))
    assert codes(result) == [code, CreateCode.CREATED]
    assert text in result.messages[result.message_column[0]]


async def test_declared_references_of_a_custom_resource_follow_the_names_of_each_run(lab: FakeKubeLab) -> None:
    """What the API server is given for two runs names each run's own config map, which is there."""
    widget = {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "metadata": {"name": "wheel", "annotations": {"argosy.dev/references": '["/spec/settings/*/name"]'}},
        "spec": {"settings": [{"name": "conf"}], "title": "conf"},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
    made = make_create_batch([(11, 1), (12, 3)], bag=make_bag(widget, config, make_pod()), objects=3)
    assert set(codes(await lab.open("one").create_objects(made))) == {CreateCode.CREATED}
    widgets = list(lab.api.store.all("widgets"))
    named = [document["spec"]["settings"][0]["name"] for document in widgets]
    assert sorted(named) == sorted([object_name("conf", 11, 1), object_name("conf", 12, 3)])
    assert {document["spec"]["title"] for document in widgets} == {"conf"}
    assert {document["metadata"]["name"] for document in lab.api.store.all("configmaps")} == set(named)


async def test_group_that_is_not_served_does_not_stop_a_list_and_is_looked_at_again(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server's group is away: our objects elsewhere are listed, its own once it is back, after a pause."""
    monkeypatch.setattr(kinds, "FIRST_PAUSE_S", 0.0)
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag(), objects=2))
    lab.api.faults.add(ApiFault(method="GET", path="/apis/example.test/v1", status=503, count=4))
    other = lab.open("one")
    assert [item.kind for item in read_events(await other.list_objects(Selector.OURS))] == ["Pod"]
    listed = read_events(await other.list_objects(Selector.OURS))
    assert sorted(item.kind for item in listed) == ["Pod", "Widget.example.test"]


async def test_deletion_of_a_custom_resource_finds_it_by_its_labels(lab: FakeKubeLab) -> None:
    """An adapter that has not listed the kind asks for it; while nobody answers, nothing is known."""
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag(), objects=2))
    other = lab.open("one")
    widgets = [item for item in read_events(await other.list_objects(Selector.OURS)) if item.kind != "Pod"]
    another = lab.open("one", discover=False)
    lab.api.faults.add(ApiFault(method="GET", path="/apis/example.test/v1", status=503, count=4))
    result = await another.delete_objects(make_delete_batch(*widgets))
    assert result.code_column.tolist() == [DeleteCode.UNAVAILABLE]
    assert len(list(lab.api.store.all("widgets"))) == 1
    result = await another.delete_objects(make_delete_batch(*widgets))
    assert result.code_column.tolist() == [DeleteCode.DELETED]
    assert not list(lab.api.store.all("widgets"))
    assert len(list(lab.api.store.all("pods"))) == 1


async def test_object_of_a_kind_that_the_cluster_lost_is_gone(lab: FakeKubeLab) -> None:
    """Its objects went with it."""
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag(), objects=2))
    listed = read_events(await lab.open("one").list_objects(Selector.OURS))
    (widget,) = [replace(item, kind="Cog.example.test") for item in listed if item.kind != "Pod"]
    result = await lab.open("one").delete_objects(make_delete_batch(widget))
    assert result.code_column.tolist() == [DeleteCode.GONE]

"""Kinds that an API server does not let us look at: nothing of them is called gone, and nothing else is held up."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.kubernetes.ours import kinds
from argosy_kube.port import Change, CreateCode, DeleteCode, Selector, WatchGone
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import changed, codes, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}
WIDGET = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "wheel"}}
REFUSED: dict[str, Any] = {"method": "GET", "status": 403, "reason": "Forbidden", "count": 999}


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each list look again at what could not be listed."""
    monkeypatch.setattr(kinds, "FIRST_PAUSE_S", 0.0)


@pytest.mark.usefixtures("no_pause")
async def test_kind_that_is_refused_is_told_as_unlistable_until_it_is_not(lab: FakeKubeLab) -> None:
    """A list without it says so; the places of its objects stay known, so that they can be deleted."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(SECRET, make_pod()), objects=2))
    secret = next(item for item in read_events(await cluster.list_objects(Selector.OURS)) if item.kind == "Secret")
    fault = ApiFault(path="/secrets", **REFUSED)
    lab.api.faults.add(fault)
    for _ in range(2):
        listing = await cluster.list_objects(Selector.OURS)
        assert listing.unlistable_kinds == ("Secret",)
        assert [item.kind for item in read_events(listing)] == ["Pod"]
    assert (await cluster.delete_objects(make_delete_batch(secret))).code_column.tolist() == [DeleteCode.DELETED]
    fault.count = 1
    await cluster.list_objects(Selector.OURS)
    assert (await cluster.list_objects(Selector.OURS)).unlistable_kinds == ()


async def test_watch_without_a_right_goes_on_and_lists_anew_once_it_has_it(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is followed; what changed meanwhile of the unlistable kind only a list can tell."""
    monkeypatch.setattr(kinds, "FIRST_PAUSE_S", 0.05)
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(SECRET, make_pod()), objects=2))
    fault = ApiFault(path="/secrets", **REFUSED)
    lab.api.faults.add(fault)
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, version = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.ADDED))
    assert {item.run[0] for item in seen if item.change == Change.ADDED} == {12}
    fault.count = 1
    with pytest.raises(WatchGone):
        await watch_until(cluster.watch_objects(Selector.OURS, version), lambda _: False)
    assert (await cluster.list_objects(Selector.OURS)).unlistable_kinds == ()


async def test_right_that_goes_during_a_watch_is_told_and_nothing_is_missed_when_it_is_back(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream of the kind goes on where it was."""
    monkeypatch.setattr(kinds, "FIRST_PAUSE_S", 0.05)
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(SECRET, make_pod()), objects=2))
    version = (await cluster.list_objects(Selector.OURS)).version
    fault = ApiFault(path="/secrets", **REFUSED)
    lab.api.faults.add(fault)
    hidden: list[tuple[str, ...]] = []
    gone = 0
    async with asyncio.timeout(50), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
        async for events in watch:
            if not hidden or hidden[-1] != events.unlistable_kinds:
                hidden.append(events.unlistable_kinds)
            if hidden[-1] and fault.count > 1:
                (document,) = lab.api.store.all("secrets")
                lab.api.store.delete("secrets", "default", document["metadata"]["name"], {})
                fault.count = 1
            gone += sum(item.change == Change.DELETED for item in read_events(events))
            if gone and not hidden[-1]:
                break
    assert hidden[-2:] == [("Secret",), ()]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"path": "/widgets", "status": 500}, id="its-conversion-webhook-fails"),
        pytest.param({"path": "/widgets", "kind": "drop"}, id="it-is-not-answered"),
        pytest.param({"path": "/apis/example.test/v1", "status": 500}, id="its-group-cannot-be-found-out"),
    ],
)
@pytest.mark.usefixtures("no_pause")
async def test_broken_definition_of_somebody_else_keeps_nobody_from_listing(
    lab: FakeKubeLab, fault: dict[str, Any]
) -> None:
    """A kind that no setting names and no bag uses is passed over, and looked at again by the next list."""
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=make_bag(WIDGET, make_pod()), objects=2))
    failing = ApiFault(method="GET", count=999, **fault)
    lab.api.faults.add(failing)
    cluster = lab.open("one")
    listing = await cluster.list_objects(Selector.OURS)
    assert [item.kind for item in read_events(listing)] == ["Pod"]
    assert listing.unlistable_kinds in {("Widget.example.test",), ("*.example.test",)}
    failing.count = 1
    lab.api.faults.take("GET", fault["path"])  # the last of them
    listing = await cluster.list_objects(Selector.OURS)
    assert sorted(item.kind for item in read_events(listing)) == ["Pod", "Widget.example.test"]
    assert listing.unlistable_kinds == ()


@pytest.mark.parametrize("kinds", [(), ("Widget.example.test",)], ids=["used", "named"])
@pytest.mark.usefixtures("no_pause")
async def test_broken_kind_that_is_ours_is_unlistable_and_silence_about_it_is_no_list(
    lab: FakeKubeLab, kinds: tuple[str, ...]
) -> None:
    """An API server that fails to show it says so of this kind; one that does not answer may be away altogether."""
    cluster = lab.open("one", kinds=kinds)
    if not kinds:
        await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(WIDGET, make_pod()), objects=2))
    lab.api.faults.add(ApiFault(method="GET", path="/widgets", status=500, count=4))
    assert (await cluster.list_objects(Selector.OURS)).unlistable_kinds == ("Widget.example.test",)
    lab.api.faults.add(ApiFault(method="GET", path="/widgets", kind="drop", count=99))
    with pytest.raises(BackendUnavailable):
        await cluster.list_objects(Selector.OURS)


async def test_built_in_kind_that_fails_fails_the_list(lab: FakeKubeLab) -> None:
    """Secrets and the like are the API server's own: if it cannot show them it is not well."""
    lab.api.faults.add(ApiFault(method="GET", path="/secrets", status=500, count=4))
    with pytest.raises(BackendUnavailable):
        await lab.open("one").list_objects(Selector.OURS)


async def test_missing_right_that_is_about_an_object_that_exists_holds_nothing_back(lab: FakeKubeLab) -> None:
    """Only a refused creation says that there is no object: after a refused binding or look, it is not known."""
    denied: dict[str, Any] = {"status": 403, "reason": "Forbidden", "resource": "pods", "message": "not yours"}
    lab.api.faults.add(ApiFault(method="POST", path="/binding", **denied))
    cluster = lab.open("one", binding="subresource")
    batch = make_create_batch([(11, 1)])
    assert codes(await cluster.create_objects(batch)) == [CreateCode.UNAVAILABLE]
    lab.api.faults.add(ApiFault(method="GET", path="/pods/", **denied))
    assert codes(await cluster.create_objects(batch)) == [CreateCode.UNAVAILABLE]
    assert codes(await cluster.create_objects(batch)) == [CreateCode.EXISTS]

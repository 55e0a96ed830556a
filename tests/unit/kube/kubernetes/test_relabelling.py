"""Pods of ours whose labels somebody changes stay ours: a pod that is called lost would run a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube.kubernetes.ours import lookup, relabelling
from argosy_kube.port import Change, DeleteCode, PodPhase, Selector
from argosy_testkit.cluster_batches import SeenObject, make_create_batch, make_delete_batch, read_events
from argosy_testkit.cluster_contract import changed, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

OWN = {INSTALLATION_LABEL: "one", RUN_LABEL: run_label(11, 1), OBJECT_LABEL: "0"}
EDITS = [
    pytest.param({INSTALLATION_LABEL: None}, id="installation-taken-away"),
    pytest.param({INSTALLATION_LABEL: "another"}, id="installation-changed"),
    pytest.param({RUN_LABEL: run_label(99, 3)}, id="another-run"),
    pytest.param({RUN_LABEL: "mine"}, id="no-run"),
    pytest.param({OBJECT_LABEL: None}, id="no-position"),
    pytest.param(dict.fromkeys(OWN), id="all-taken-away"),
]
READERS = [pytest.param(False, id="own-watch"), pytest.param(True, id="watch-of-all-pods")]


def relabel(lab: FakeKubeLab, labels: dict[str, str | None], *, handle: int = 11) -> None:
    """Change labels of the pod of a run, as somebody with kubectl would."""
    pod = next(pod for pod in lab.api.store.all("pods") if run_label(handle, 1) == pod["metadata"]["labels"][RUN_LABEL])
    new = {**pod["metadata"]["labels"], **labels}
    metadata = {**pod["metadata"], "labels": {key: value for key, value in new.items() if value is not None}}
    lab.api.store.replace("pods", {**pod, "metadata": metadata})


def own_labels(lab: FakeKubeLab) -> list[dict[str, str]]:
    """Return those of our labels that pods have."""
    pods = list(lab.api.store.all("pods"))
    return [{key: value for key, value in pod["metadata"]["labels"].items() if key in OWN} for pod in pods]


async def until_restored(lab: FakeKubeLab) -> None:
    """Return once the only pod has its labels again."""
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: own_labels(lab) == [OWN])


def is_of(handle: int) -> Callable[[list[SeenObject]], bool]:
    """Return a condition: something was seen of a job."""
    return lambda items: any(item.run[0] == handle for item in items)


@pytest.mark.parametrize("labels", EDITS)
@pytest.mark.parametrize("shares_pods", READERS)
async def test_relabelled_pod_is_watched_on_and_gets_its_labels_back(
    lab: FakeKubeLab, *, shares_pods: bool, labels: dict[str, str | None]
) -> None:
    """The watch tells of no deletion and of no other run, and what happens to the pod later is still told."""
    cluster = lab.open("one", shares_pods=shares_pods)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    seen: list[SeenObject] = []
    async with asyncio.timeout(50), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
        relabel(lab, labels)
        async for events in watch:
            seen += [item for item in read_events(events) if item.ours]
            if own_labels(lab) == [OWN] and seen:
                break
    await until_restored(lab)
    assert {(item.change == Change.DELETED, item.run) for item in seen} == {(False, (11, 1, 0))}
    listing = await cluster.list_objects(Selector.OURS)
    (listed,) = read_events(listing)
    assert (listed.ours, listed.run) == (True, (11, 1, 0))
    assert (await cluster.delete_objects(make_delete_batch(listed))).code_column.tolist() == [DeleteCode.DELETED]
    more, _ = await watch_until(cluster.watch_objects(Selector.OURS, listing.version), changed(Change.DELETED))
    assert [item.run for item in more if item.change == Change.DELETED] == [(11, 1, 0)]


async def test_ended_pod_that_loses_its_labels_is_not_told_as_gone(lab: FakeKubeLab) -> None:
    """It is there until its end is stored and we delete it; nobody else would."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    (pod,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(pod, 0, "Completed")
    version = (await cluster.list_objects(Selector.OURS)).version
    relabel(lab, {INSTALLATION_LABEL: None})
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), is_of(12))
    assert [item.run for item in seen if item.change == Change.DELETED] == []


@pytest.mark.parametrize("labels", [EDITS[0], EDITS[1], EDITS[-1]])
@pytest.mark.parametrize("shares_pods", READERS)
@pytest.mark.parametrize("exit_code", [0, 3])
async def test_ended_pod_that_lost_its_labels_while_nobody_ran_is_found_by_the_next_process(
    lab: FakeKubeLab, *, shares_pods: bool, labels: dict[str, str | None], exit_code: int
) -> None:
    """Its run may be over, so nobody looks for its name; our finalizer would keep it for ever."""
    before = lab.open("one")
    await before.create_objects(make_create_batch([(11, 1)]))
    (pod,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(pod, exit_code, "Completed")
    await before.close()
    relabel(lab, labels)
    cluster = lab.open("one", shares_pods=shares_pods)
    (listed,) = [item for item in read_events(await cluster.list_objects(Selector.OURS)) if item.ours]
    assert listed.run == (11, 1, 0)
    await until_restored(lab)
    assert (await cluster.delete_objects(make_delete_batch(listed))).code_column.tolist() == [DeleteCode.DELETED]
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: not list(lab.api.store.all("pods")))


@pytest.mark.parametrize("strip", ["finalizers", "annotations"])
async def test_ended_pod_without_our_mark_or_finalizer_is_not_ours(lab: FakeKubeLab, strip: str) -> None:
    """The one says whose a pod is, and without the other it keeps nobody waiting."""
    before = lab.open("one")
    await before.create_objects(make_create_batch([(11, 1)]))
    (pod,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(pod, 0, "Completed")
    await before.close()
    relabel(lab, dict.fromkeys(OWN))
    (pod,) = lab.api.store.all("pods")
    lab.api.store.replace("pods", {**pod, "metadata": {**pod["metadata"], strip: None}})
    assert [item for item in read_events(await lab.open("one").list_objects(Selector.OURS)) if item.ours] == []


@pytest.mark.parametrize("labels", EDITS)
@pytest.mark.parametrize("reader", ["own", "own-many", "shared"])
async def test_pod_relabelled_while_nobody_watched_is_listed(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch, reader: str, labels: dict[str, str | None]
) -> None:
    """What was known and is not in the list is looked for, few by name and many in a list of all pods."""
    if reader == "own-many":
        monkeypatch.setattr(lookup, "MOST_READS", 0)
    cluster = lab.open("one", shares_pods=reader == "shared")
    await cluster.create_objects(make_create_batch([(11, 1), (12, 1)]))
    await cluster.list_objects(Selector.OURS)
    relabel(lab, labels)
    listed = {item.run[0]: item for item in read_events(await cluster.list_objects(Selector.OURS)) if item.ours}
    assert sorted(listed) == [11, 12]
    assert listed[11].phase in {PodPhase.PENDING, PodPhase.RUNNING}
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: OWN in own_labels(lab))


async def test_pod_that_cannot_be_relabelled_is_ours_all_the_same(lab: FakeKubeLab) -> None:
    """Somebody forbids the repair: the pod is not called gone, and each list tells how it is."""
    cluster = lab.open("one")
    lab.api.faults.add(ApiFault(method="PATCH", path="/pods/", status=403, reason="Forbidden", count=99))
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    relabel(lab, {INSTALLATION_LABEL: None})
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), is_of(12))
    assert [item.run for item in seen if item.change == Change.DELETED] == []
    for _ in range(2):
        listed = read_events(await cluster.list_objects(Selector.OURS))
        assert sorted(item.run[0] for item in listed) == [11, 12]


@pytest.mark.parametrize("how", ["watch", "list"])
async def test_pod_of_which_nobody_knows_whether_it_is_there_is_not_called_gone(lab: FakeKubeLab, how: str) -> None:
    """Looking for it fails: so does the watch, or the list; nothing is concluded."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    relabel(lab, {INSTALLATION_LABEL: None})
    lab.api.faults.add(ApiFault(method="GET", path="/pods/work-", status=500, count=4))
    seen: list[SeenObject] = []

    async def look() -> None:
        if how == "list":
            await cluster.list_objects(Selector.OURS)
        async with asyncio.timeout(50), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
            async for events in watch:
                seen.extend(read_events(events))

    with pytest.raises(BackendUnavailable):
        await look()
    assert seen == []
    (listed,) = read_events(await cluster.list_objects(Selector.OURS))
    assert listed.run == (11, 1, 0)


async def test_pod_that_went_without_a_word_is_told_gone_once(lab: FakeKubeLab) -> None:
    """No finalizer, no grace: the last that is seen shows no deletion, and it is gone all the same."""
    cluster = lab.open("one", finalizer=False)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    (pod,) = lab.api.store.all("pods")
    lab.api.store.delete("pods", "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), is_of(12))
    assert [item.run for item in seen if item.change == Change.DELETED] == [(11, 1, 0)]
    assert [item.run[0] for item in read_events(await cluster.list_objects(Selector.OURS))] == [12]


async def test_deletions_that_were_seen_ask_for_nothing(lab: FakeKubeLab) -> None:
    """An ended pod that we delete shows its deletion, and costs no call more."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    (pod,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(pod, 0, "Completed")
    (listed,) = read_events(await cluster.list_objects(Selector.OURS))
    await cluster.delete_objects(make_delete_batch(listed))
    await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.DELETED))
    reads = [path for method, path in lab.api.faults.seen if method == "GET" and "/pods/" in path]
    assert reads == []


async def test_labels_taken_away_again_and_again_are_given_back_no_faster_than_once_a_second(lab: FakeKubeLab) -> None:
    """Somebody's controller that fights is not met at full speed."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    began_s = asyncio.get_running_loop().time()
    following = asyncio.ensure_future(watch_until(cluster.watch_objects(Selector.OURS, version), is_of(99)))
    for _ in range(2):
        relabel(lab, {INSTALLATION_LABEL: None})
        await until_restored(lab)
    assert asyncio.get_running_loop().time() - began_s >= 0.9
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_labels_of_many_pods_are_given_back_one_after_the_other(lab: FakeKubeLab) -> None:
    """However many somebody changes at once, one task repairs them, and each waits its second before the next time."""
    cluster, count = lab.open("one"), 30
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(count)], nodes=("nowhere",)))
    await cluster.list_objects(Selector.OURS)
    for number in range(count):
        relabel(lab, {OBJECT_LABEL: "5"}, handle=number)
    for pod in lab.api.store.all("pods"):
        assert pod["metadata"]["labels"][OBJECT_LABEL] == "5"
    lab.api.faults.add(ApiFault(method="PATCH", path="/pods/", kind="slow", delay_s=0.001, count=99))
    await cluster.list_objects(Selector.OURS)
    assert sum(task.get_name() == "restore labels" for task in asyncio.all_tasks()) == 1
    lab.api.most_under_way = 0
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: all(labels[OBJECT_LABEL] == "0" for labels in own_labels(lab)))
    assert lab.api.most_under_way == 1


async def test_second_between_repairs_holds_however_many_others_come_between(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered goes with its time, not with the number of others; repairs beyond the bound are dropped."""
    monkeypatch.setattr(relabelling, "_MOST_WAITING", 3)
    monkeypatch.setattr(relabelling, "_PAUSE_S", 0.3)
    cluster, count = lab.open("one"), 5
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(count)], nodes=("nowhere",)))
    await cluster.list_objects(Selector.OURS)

    def patches() -> int:
        return sum(method == "PATCH" for method, _ in lab.api.faults.seen)

    relabeller = cluster._relabeller
    uids = sorted(cluster._places._known)
    for uid in uids:
        relabeller.restore(uid, (0, 1, 0))
    async with asyncio.timeout(50):
        while relabeller._worker is not None:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.005)
    assert patches() == 3
    began_s = asyncio.get_running_loop().time()
    relabeller.restore(uids[0], (0, 1, 0))
    async with asyncio.timeout(50):
        while patches() < 4:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.005)
    assert asyncio.get_running_loop().time() - began_s >= 0.2
    assert len(relabeller._repaired_s) <= 3

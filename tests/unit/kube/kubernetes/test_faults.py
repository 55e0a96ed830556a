"""What the adapter makes of an API server that fails, each failure on order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import Change, CreateCode, DeleteCode, PodPhase, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import changed, codes, ended, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


def posts(lab: FakeKubeLab) -> int:
    """Return how often a pod was posted."""
    return sum(method == "POST" and path.endswith("/pods") for method, path in lab.api.faults.seen)


ANSWERS = [
    pytest.param({"status": 500}, CreateCode.CREATED, 2, id="500-is-tried-again"),
    pytest.param({"status": 503, "reason": "ServiceUnavailable"}, CreateCode.CREATED, 2, id="503-is-tried-again"),
    pytest.param({"status": 429, "retry_after": "1"}, CreateCode.CREATED, 2, id="429-is-tried-again"),
    pytest.param({"status": 504, "is_applied": True}, CreateCode.EXISTS, 2, id="504-after-having-applied"),
    pytest.param({"kind": "drop", "is_applied": True}, CreateCode.EXISTS, 2, id="dropped-after-having-applied"),
    pytest.param({"kind": "drop"}, CreateCode.CREATED, 2, id="dropped"),
    pytest.param({"kind": "truncate"}, CreateCode.EXISTS, 2, id="truncated-answer"),
    pytest.param({"kind": "garbage"}, CreateCode.EXISTS, 2, id="answer-that-is-no-json"),
    pytest.param({"kind": "bad-utf8"}, CreateCode.EXISTS, 2, id="answer-that-is-not-utf8"),
    pytest.param({"kind": "slow", "delay_s": 0.05}, CreateCode.CREATED, 1, id="slow-body"),
    pytest.param({"status": 409, "reason": "Conflict"}, CreateCode.CREATED, 2, id="409-of-a-quota-is-tried-again"),
    pytest.param({"status": 500, "count": 99}, CreateCode.UNAVAILABLE, 4, id="500-for-ever"),
    pytest.param(
        {
            "status": 403,
            "reason": "Forbidden",
            "name": "work",
            "message": 'pods "work" is forbidden: exceeded quota: q',
        },
        CreateCode.QUOTA,
        1,
        id="quota",
    ),
    pytest.param(
        {"status": 403, "reason": "Forbidden", "name": "work", "message": "violates PodSecurity"},
        CreateCode.REJECTED,
        1,
        id="admission-refuses",
    ),
    pytest.param({"status": 422, "reason": "Invalid"}, CreateCode.REJECTED, 1, id="422"),
    pytest.param(
        {"status": 500, "message": 'failed calling webhook "x": Post "https://x/": EOF', "count": 99},
        CreateCode.QUOTA,
        4,
        id="webhook-that-cannot-be-reached-is-waited-for-like-room-in-a-quota",
    ),
    *(
        pytest.param(
            {"status": 403, "reason": "Forbidden", "name": "work", "message": f'pods "work" is forbidden: {text}'},
            CreateCode.QUOTA,
            1,
            id=name,
        )
        for name, text in (
            ("quota-that-was-not-counted-yet", "status unknown for quota: q, resources: cpu"),
            ("service-account-not-made-yet", "error looking up service account a/default: not found"),
        )
    ),
    pytest.param(
        {
            "status": 403,
            "reason": "Forbidden",
            "resource": "pods",
            "message": 'pods is forbidden: User "x" cannot create resource "pods" in API group ""',
        },
        CreateCode.QUOTA,
        1,
        id="right-that-is-missing-is-waited-for-like-room-in-a-quota",
    ),
    pytest.param(
        {"status": 401, "reason": "Unauthorized", "name": "work", "resource": "pods", "count": 2},
        CreateCode.REJECTED,
        2,
        id="policy-that-refuses-with-401",
    ),
]
"""What the API server does, what a creation is answered, and how often it is posted."""


@pytest.mark.parametrize(("fault", "code", "post_count"), ANSWERS)
async def test_create_responses_by_what_the_api_server_said(
    lab: FakeKubeLab, fault: dict[str, Any], code: CreateCode, post_count: int
) -> None:
    """Passing failures are tried again, others answered; whatever happens there is at most one pod."""
    cluster = lab.open("one")
    lab.api.faults.add(ApiFault(method="POST", path="/pods", **fault))
    result = await cluster.create_objects(make_create_batch([(11, 1)]))
    assert codes(result) == [code]
    assert posts(lab) == post_count
    listed = read_events(await cluster.list_objects(Selector.OURS))
    exists = code in {CreateCode.CREATED, CreateCode.EXISTS}
    assert [item.run for item in listed] == [(11, 1, 0)] * exists
    if exists:
        assert result.uid_column[0].tobytes() == listed[0].uid
    if code == CreateCode.EXISTS:
        assert (result.existing_ours_column[0], result.existing_handle_column[0]) == (True, 11)
    if code in {CreateCode.REJECTED, CreateCode.QUOTA, CreateCode.UNAVAILABLE}:
        assert result.messages[result.message_column[0]]


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (400, "BadRequest", " without explanation"),
        (401, "Unauthorized", ": not you"),
        (403, "Forbidden", ": exceeded quota of my own"),
        (404, "NotFound", ": no such team"),
        (409, "AlreadyExists", ": one is enough"),
        (429, "TooManyRequests", ": slowly"),
        (500, "InternalError", ": I do not like it"),
    ],
)
async def test_denial_of_a_webhook_is_final_whatever_its_code(
    lab: FakeKubeLab, status: int, reason: str, text: str
) -> None:
    """The webhook chooses the code; the API server says whose word it is."""
    denial = f'admission webhook "no.example.test" denied the request{text}'
    lab.api.faults.add(
        ApiFault(method="POST", path="/pods", status=status, reason=reason, message=denial, is_bare=True, count=99)
    )
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)]))
    assert codes(result) == [CreateCode.REJECTED]
    assert result.messages[result.message_column[0]] == denial
    assert posts(lab) == 1


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        pytest.param("Forbidden", CreateCode.REJECTED, id="of-the-api-server"),
        pytest.param("", CreateCode.UNAVAILABLE, id="of-a-proxy-before-it"),
    ],
)
async def test_403_that_is_about_no_kind_is_no_missing_right(lab: FakeKubeLab, reason: str, code: CreateCode) -> None:
    """Whoever lacks a right is told to what; a proxy knows nothing of the object."""
    lab.api.faults.add(ApiFault(method="POST", path="/pods", status=403, reason=reason, is_bare=True))
    assert codes(await lab.open("one").create_objects(make_create_batch([(11, 1)]))) == [code]


async def test_denial_of_a_webhook_holds_up_no_other_call(lab: FakeKubeLab) -> None:
    """It may say 429 and how long to wait; that is not the API server's word."""
    cluster = lab.open("one", retry_most_s=5.0)
    denial = 'admission webhook "no.example.test" denied the request: slowly'
    lab.api.faults.add(ApiFault(method="POST", path="/pods", status=429, message=denial, is_bare=True, retry_after="5"))
    began_s = asyncio.get_running_loop().time()
    result = await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 4)]))
    assert sorted(codes(result)) == [CreateCode.CREATED, CreateCode.CREATED, CreateCode.REJECTED]
    assert asyncio.get_running_loop().time() - began_s < 2.0


async def test_deletion_that_a_webhook_denies_is_not_taken_for_an_object_that_is_gone(lab: FakeKubeLab) -> None:
    """It may say 404: the pod runs on, and is deleted once nobody says no."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    denial = 'admission webhook "no.example.test" denied the request: no such reason'
    fault = ApiFault(method="DELETE", path="/pods/", status=404, reason="NotFound", message=denial, is_bare=True)
    lab.api.faults.add(fault)
    delete = make_delete_batch(seen)
    assert (await cluster.delete_objects(delete)).code_column.tolist() == [DeleteCode.UNAVAILABLE]
    assert (await cluster.delete_objects(delete)).code_column.tolist() == [DeleteCode.DELETED]


async def test_create_waits_as_long_as_the_api_server_asks(lab: FakeKubeLab) -> None:
    """Retry-After holds back every call, not only the one that was refused."""
    cluster = lab.open("one", retry_most_s=0.4)
    lab.api.faults.add(ApiFault(method="POST", path="/pods", status=429, retry_after="1"))
    began_s = asyncio.get_running_loop().time()
    result = await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 4)]))
    assert codes(result) == [CreateCode.CREATED] * 3
    assert asyncio.get_running_loop().time() - began_s >= 0.4


@pytest.mark.parametrize("state", ["missing", "terminating"])
async def test_create_is_rejected_where_the_namespace_is_not(lab: FakeKubeLab, state: str) -> None:
    """Neither a namespace that is missing nor one that ends will ever take the object."""
    if state == "terminating":
        lab.api.store.namespaces["elsewhere"] = "Terminating"
    pod = make_pod()
    pod["metadata"]["namespace"] = "elsewhere"
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=make_bag(pod)))
    assert codes(result) == [CreateCode.REJECTED]
    assert "elsewhere" in result.messages[result.message_column[0]]


async def test_unreachable_api_server_is_unavailable_for_every_call(lab: FakeKubeLab) -> None:
    """Nothing but BackendUnavailable leaves the adapter, and soon."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    version = (await cluster.list_nodes()).version
    lab.api.faults.add(ApiFault(kind="drop", count=1000))
    for call in (
        cluster.list_nodes(),
        cluster.list_objects(Selector.OURS),
        cluster.list_objects(Selector.ALL_PODS),
        cluster.create_objects(make_create_batch([(number, 1) for number in range(100)])),
        cluster.delete_objects(make_delete_batch(seen)),
        anext(cluster.read_log(11, 1, 0, follow=False, tail_line_count=None)),
        anext(cluster.watch_nodes(version)),
    ):
        with pytest.raises(BackendUnavailable):
            await call


@pytest.mark.parametrize("kind", ["truncate", "garbage", "bad-utf8"])
async def test_list_that_cannot_be_read_is_unavailable(lab: FakeKubeLab, kind: Any) -> None:
    """A list that is not whole is none; the next is."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    lab.api.faults.add(ApiFault(method="GET", path="/pods", kind=kind))
    with pytest.raises(BackendUnavailable):
        await cluster.list_objects(Selector.OURS)
    assert len(await cluster.list_objects(Selector.OURS)) == 1


async def test_list_begins_again_when_a_page_comes_too_late(lab: FakeKubeLab) -> None:
    """A list of several pages is one snapshot: after 410 it starts over, and has everything once."""
    cluster = lab.open("one", page_count=2)
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 8)]))
    lab.api.faults.add(ApiFault(method="GET", path="continue=", status=410, reason="Expired"))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert [item.run[0] for item in listed] == list(range(1, 8))


async def test_refused_credentials_are_read_again(lab: FakeKubeLab) -> None:
    """A token that was changed is found in the kubeconfig, and the call goes on."""
    cluster = lab.open("one")
    assert len((await cluster.list_nodes()).nodes) == 3
    lab.api.token = "another"
    lab.api.write_kubeconfig(lab.kubeconfig)
    assert len((await cluster.list_nodes()).nodes) == 3


async def test_slow_reader_loses_nothing(lab: FakeKubeLab) -> None:
    """A consumer that lets a full buffer wait gets every event in the end."""
    cluster = lab.open("one", watch_buffer_bytes=2000)
    version = (await cluster.list_objects(Selector.OURS)).version
    watch = cluster.watch_objects(Selector.OURS, version)
    count = 60
    first = asyncio.ensure_future(anext(watch))
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(count)], nodes=("nowhere",)))
    seen = read_events(await first)
    async with asyncio.timeout(50), aclosing(watch):
        while len(seen) < count:
            await asyncio.sleep(0.005)
            seen += read_events(await anext(watch))
    assert sorted(item.run[0] for item in seen) == list(range(count))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        pytest.param({"status": 500}, DeleteCode.DELETED, id="500-is-tried-again"),
        pytest.param({"status": 429, "retry_after": "1"}, DeleteCode.DELETED, id="429-is-tried-again"),
        pytest.param({"status": 504, "is_applied": True}, DeleteCode.DELETED, id="504-after-having-applied"),
        pytest.param({"status": 404, "reason": "NotFound"}, DeleteCode.GONE, id="404"),
        pytest.param({"status": 409, "reason": "Conflict"}, DeleteCode.UNAVAILABLE, id="409-of-the-object-itself"),
        pytest.param({"status": 500, "count": 99}, DeleteCode.UNAVAILABLE, id="500-for-ever"),
    ],
)
async def test_delete_responses_by_what_the_api_server_said(
    lab: FakeKubeLab, fault: dict[str, Any], code: DeleteCode
) -> None:
    """Passing failures are tried again; what is not there, or is another object, is gone."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    lab.api.faults.add(ApiFault(method="DELETE", path="/pods/", **fault))
    assert (await cluster.delete_objects(make_delete_batch(seen))).code_column.tolist() == [code]


async def test_delete_finds_what_another_process_made(lab: FakeKubeLab) -> None:
    """An adapter that has seen nothing yet finds an object by its labels."""
    created = await lab.open("one").create_objects(make_create_batch([(11, 1)]))
    (seen,) = read_events(await lab.open("one").list_objects(Selector.OURS))
    other = lab.open("one")
    assert (await other.delete_objects(make_delete_batch(seen))).code_column.tolist() == [DeleteCode.DELETED]
    assert created.uid_column[0].tobytes() == seen.uid
    assert not list(lab.api.store.all("pods"))


# --- nodes ----------------------------------------------------------------------------------------------------------


def set_node(lab: FakeKubeLab, name: str, *, ready: str, taints: list[dict[str, str]] | None = None) -> None:
    """Change what is known of a node."""
    found = lab.api.store.objects["nodes"]["", name]
    status = {**found["status"], "conditions": [{"type": "Ready", "status": ready}]}
    lab.api.store.replace("nodes", {**found, "spec": {"taints": taints or []}, "status": status})


async def test_pods_of_a_node_that_is_not_heard_are_unknown_until_it_is(lab: FakeKubeLab) -> None:
    """A node that does not report hides its pods; they are what they were once it reports again."""
    cluster = lab.open("one")
    start = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)]))
    running = lambda items: items[-1].phase == PodPhase.RUNNING if items else False  # noqa: E731
    _, version = await watch_until(cluster.watch_objects(Selector.OURS, start), running)
    set_node(lab, "node-a", ready="Unknown")
    seen, version = await watch_until(cluster.watch_objects(Selector.OURS, version), bool)
    assert [item.phase for item in seen] == [PodPhase.UNKNOWN]
    assert [item.phase for item in read_events(await cluster.list_objects(Selector.OURS))] == [PodPhase.UNKNOWN]
    set_node(lab, "node-a", ready="True")
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), running)
    assert seen[-1].run[0] == 11


@pytest.mark.parametrize("how", ["removed", "out-of-service", "missing"])
async def test_pods_of_a_lost_node_have_failed(lab: FakeKubeLab, how: str) -> None:
    """A node that is gone, was declared out of service, or never was: its pods have ended, reason NodeLost."""
    cluster = lab.open("one")
    node = "nowhere" if how == "missing" else "node-a"
    await cluster.create_objects(make_create_batch([(11, 1), (12, 1)], nodes=(node, "node-b")))
    version = (await cluster.list_objects(Selector.OURS)).version
    if how == "removed":
        lab.api.store.delete("nodes", "", "node-a", {})
    elif how == "out-of-service":
        set_node(lab, "node-a", ready="Unknown", taints=[{"key": "node.kubernetes.io/out-of-service"}])
    if how != "missing":
        seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
        assert {item.run[0] for item in seen if item.phase == PodPhase.FAILED} == {11}
    listed = {item.run[0]: item for item in read_events(await cluster.list_objects(Selector.OURS))}
    assert (listed[11].phase, listed[11].reason) == (PodPhase.FAILED, "NodeLost")
    assert listed[12].phase in {PodPhase.PENDING, PodPhase.RUNNING}
    await cluster.delete_objects(make_delete_batch(listed[11]))
    assert [pod["spec"]["nodeName"] for pod in lab.api.store.all("pods")] == ["node-b"]


# --- kinds ----------------------------------------------------------------------------------------------------------


async def test_custom_resources_are_made_watched_listed_and_deleted(lab: FakeKubeLab) -> None:
    """A kind that no list knew joins a watch under way when a bag uses it, and another process finds it."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    watch = cluster.watch_objects(Selector.OURS, version)
    widget = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "wheel"}}
    bag = make_bag(widget, make_pod())

    async def create() -> None:
        result = await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, objects=2))
        assert codes(result) == [CreateCode.CREATED] * 2

    creating = asyncio.ensure_future(create())
    seen, _ = await watch_until(watch, lambda items: {item.kind for item in items} == {"Widget.example.test", "Pod"})
    await creating
    assert {item.run for item in seen} == {(11, 1, 0), (11, 1, 1)}
    other = lab.open("one")
    listed = read_events(await other.list_objects(Selector.OURS))
    assert sorted(item.kind for item in listed) == ["Pod", "Widget.example.test"]
    result = await other.delete_objects(make_delete_batch(*listed))
    assert result.code_column.tolist() == [DeleteCode.DELETED] * 2
    assert not list(lab.api.store.all("widgets"))


@pytest.mark.parametrize(("status", "hidden"), [(403, ("Widget.example.test",)), (404, ())])
async def test_kind_that_goes_from_the_cluster_does_not_stop_the_others(
    lab: FakeKubeLab, status: int, hidden: tuple[str, ...]
) -> None:
    """Its definition was removed, and its objects with it, or only our right to it: everything else is followed on."""
    cluster = lab.open("one")
    widget = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "wheel"}}
    bag = make_bag(widget, make_pod())
    await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, objects=2))
    version = (await cluster.list_objects(Selector.OURS)).version
    lab.api.faults.add(ApiFault(method="GET", path="/widgets", status=status, reason="NotFound", count=99))
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.ADDED))
    assert {item.run[0] for item in seen if item.change == Change.ADDED} == {12}
    listing = await cluster.list_objects(Selector.OURS)
    assert {item.kind for item in read_events(listing)} == {"Pod"}
    assert listing.unlistable_kinds == hidden


async def test_kind_that_the_cluster_lacks_is_rejected(lab: FakeKubeLab) -> None:
    """The message names the kind; the rest of the bag is made."""
    bag = make_bag({"apiVersion": "no.such/v1", "kind": "Gadget", "metadata": {"name": "x"}}, make_pod())
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=bag, objects=2))
    assert codes(result) == [CreateCode.REJECTED, CreateCode.CREATED]
    assert "Gadget" in result.messages[result.message_column[0]]


async def test_kinds_that_we_may_not_list_are_left_out(lab: FakeKubeLab) -> None:
    """Least rights: what is refused and not used is not asked for; pods must be."""
    cluster = lab.open("one")
    lab.api.faults.add(ApiFault(method="GET", path="/secrets", status=403, reason="Forbidden", count=99))
    assert len(await cluster.list_objects(Selector.OURS)) == 0
    lab.api.faults.add(ApiFault(method="GET", path="/pods", status=403, reason="Forbidden"))
    with pytest.raises(BackendUnavailable):
        await cluster.list_objects(Selector.OURS)


async def test_secrets_do_not_travel_when_they_are_listed(lab: FakeKubeLab) -> None:
    """Objects other than pods are listed and watched by their metadata."""
    cluster = lab.open("one")
    bag = make_bag(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "eA=="}}, make_pod()
    )
    await cluster.create_objects(make_create_batch([(11, 1)], bag=bag, objects=2))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert sorted(item.kind for item in listed) == ["Pod", "Secret"]
    (secret,) = lab.api.store.all("secrets")
    assert secret["metadata"]["name"].startswith("key-")


async def test_all_pods_counts_what_pods_ask_for_as_kubernetes_does(lab: FakeKubeLab) -> None:
    """Init containers, sidecars and overhead count."""
    lab.make_pod("plain", "node-a", {"limits": {"cpu": "250m"}})
    listed = await lab.open("one").list_objects(Selector.ALL_PODS)
    (seen,) = read_events(listed)
    assert seen.requests == {"cpu": 250, "pods": 1}
    assert np.array_equal(listed.ours_column, [False])

"""Sizes of pods, patches that change them, and the adapter of agents on a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import (
    OutOfMemory,
    Pending,
    PodGone,
    PodSeen,
    Resize,
    ResizeOutcome,
    ScalingPolicy,
)
from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.kubernetes.api.credentials import CredentialSource
from argosy_kube.kubernetes.scaling.cgroups import NodeCgroups
from argosy_kube.kubernetes.scaling.scaler import MetricsSource, PodScaler
from argosy_kube.kubernetes.scaling.sizes import (
    SCALED_POD,
    ScaledPod,
    contract_host,
    out_of_memory_count,
    read_size,
    resize_patch,
)
from argosy_kube.opening import open_scaler
from argosy_kube.scaler_port import PodEvent
from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab

GIB = 1 << 30
POLICY = ScalingPolicy(least=Amounts(100, GIB), most=Amounts(64_000, 64 * GIB))


def container(
    name: str, cpu: str, memory: str, limits: dict[str, str] | None = None, **fields: object
) -> dict[str, Any]:
    """Return a container."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, **({"limits": limits} if limits else {})}
    return {"name": name, "resources": resources, **fields}


def pod(*containers: dict[str, Any], status: dict[str, Any] | None = None, **spec: object) -> ScaledPod:
    """Return a document of a pod."""
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"},
        "spec": {"containers": list(containers), **spec},
        "status": {"phase": "Running", **(status or {})},
    }
    return SCALED_POD.decode(msgspec.json.encode(document))


def patched(document: ScaledPod, amounts: Amounts) -> list[dict[str, Any]]:
    """Return the resources of each container after a resize."""
    patch = msgspec.json.decode(resize_patch(document, amounts, 7))
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    return [one["resources"] for one in patch["spec"]["containers"]]


def test_a_size_is_shared_out_by_what_containers_request_to_the_last_unit() -> None:
    """3 to 1, and what does not divide goes to the largest remainder."""
    document = pod(container("a", "1500m", "3Gi"), container("b", "500m", "1Gi"))
    first, second = patched(document, Amounts(3001, 8 * GIB + 1))
    assert (first["requests"], second["requests"]) == (
        {"cpu": "2251m", "memory": str(6 * GIB + 1)},
        {"cpu": "750m", "memory": str(2 * GIB)},
    )


@pytest.mark.parametrize(
    ("limits", "resized"),
    [
        (None, None),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2000m", "memory": str(2 * GIB)}),
        ({"cpu": "2", "memory": "4Gi"}, {"cpu": "4000m", "memory": str(8 * GIB)}),
        ({"memory": "1025Mi"}, {"memory": str(2 * 1025 << 20)}),
    ],
    ids=["none", "guaranteed", "twice the request", "memory alone"],
)
def test_limits_keep_their_ratio_to_requests_so_the_class_stays(
    limits: dict[str, str] | None, resized: dict[str, str] | None
) -> None:
    """Equal stays equal, above stays above, and what has none gets none."""
    (resources,) = patched(pod(container("a", "1", "1Gi", limits)), Amounts(2000, 2 * GIB))
    assert resources.get("limits") == resized


def test_sidecars_and_overhead_keep_what_they_have() -> None:
    """The containers of the job take the difference."""
    sidecar = container("proxy", "100m", "1Gi", restartPolicy="Always")
    document = pod(container("a", "1", "1Gi"), initContainers=[sidecar], overhead={"cpu": "50m"})
    assert read_size(document, POLICY).desired == Amounts(1150, 2 * GIB)
    (resources,) = patched(document, Amounts(2150, 3 * GIB))
    assert resources["requests"] == {"cpu": "2000m", "memory": str(2 * GIB)}


def test_every_container_keeps_something_and_a_size_of_too_little_is_refused() -> None:
    """A request of nothing would change the class."""
    document = pod(container("a", "999m", "1Gi"), container("b", "1m", "1"))
    assert [one["requests"]["cpu"] for one in patched(document, Amounts(2, GIB))] == ["1m", "1m"]
    with pytest.raises(InvalidRequest, match="leaves 1 of cpu for 2 containers"):
        resize_patch(document, Amounts(1, GIB), 7)


def test_what_is_desired_allocated_and_actual_are_told_apart() -> None:
    """A limit stands in for a missing request; what the kubelet does not tell is as the step before."""
    status = {
        "containerStatuses": [
            {
                "name": "a",
                "allocatedResources": {"cpu": "2", "memory": "2Gi"},
                "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
            }
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    }
    document = pod(container("a", "3", "2Gi"), container("b", "1", "1Gi"), status=status)
    seen = read_size(document, POLICY)
    assert (seen.desired, seen.allocated, seen.actual) == (
        Amounts(4000, 3 * GIB),
        Amounts(3000, 3 * GIB),
        Amounts(2000, 3 * GIB),
    )
    assert (seen.pending, seen.version) == (Pending.DEFERRED, 7)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (pod({"name": "a"}), "container a requests no cpu"),
        (pod({"name": "a", "resources": {"requests": {"cpu": "1"}}}), "container a requests no memory"),
        (
            pod(
                container(
                    "a", "1", "1Gi", resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
                )
            ),
            "container a is restarted when its memory is resized",
        ),
        (pod(container("a", "1", "1Gi"), resources={"requests": {"cpu": "1"}}), "set for the pod as a whole"),
        (pod(), "no containers"),
    ],
)
def test_a_pod_that_cannot_be_resized_in_place_is_refused_with_the_reason(document: Any, why: str) -> None:
    """Nothing is tried."""
    assert why in read_size(document, POLICY).refusal


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("100.64.0.9", "100.64.0.9"),
        ("fd00::7", "fd00::7"),
        ("127.0.0.1", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("169.254.169.254", ""),
        ("fe80::1", ""),
        ("224.0.0.1", ""),
        ("0.0.0.0", ""),
        ("metadata.internal", ""),
        ("", ""),
    ],
)
def test_a_pod_is_asked_at_its_own_address_and_nothing_else_is(address: str, host: str) -> None:
    """What listens on this machine, on the link or on the pod's node is not the pod."""
    document = pod(container("a", "1", "1Gi"), status={"podIP": address})
    assert contract_host(document) == host
    assert contract_host(pod(container("a", "1", "1Gi"), status={"podIP": address}, hostNetwork=True)) == ""


def test_restarts_count_as_out_of_memory_only_if_that_was_why() -> None:
    """By the last end of each container."""
    ends = [("a", 2, "OOMKilled"), ("b", 3, "Error")]
    statuses = [
        {"name": name, "restartCount": count, "lastState": {"terminated": {"exitCode": 137, "reason": reason}}}
        for name, count, reason in ends
    ]
    assert out_of_memory_count(pod(container("a", "1", "1Gi"), status={"containerStatuses": statuses})) == 2


# --- on a fake API server -------------------------------------------------------------------------------------------


def read_policy(annotations: Mapping[str, str]) -> ScalingPolicy | None:
    """Return the policy of pods with a mark."""
    if annotations.get("scaled") == "wrong":
        raise InvalidRequest("scaled is wrong")
    return POLICY if "scaled" in annotations else None


class Followed:
    """Pods as an agent hears of them."""

    def __init__(self, lab: FakeKubeLab, scaler: PodScaler, events: AsyncGenerator[list[PodEvent], None]) -> None:
        """Have heard of none."""
        self.lab, self.scaler, self._events = lab, scaler, events
        self.heard: list[PodEvent] = []

    def make(self, name: str, scaled: str = "yes", cpu: str = "1", node: str = "node-a") -> str:
        """Make a pod that runs at once; return its uid."""
        notes = {"argosy.dev/simulated-run-time": "1h", "scaled": scaled}
        labels = {INSTALLATION_LABEL: "one"}
        resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        made = self.lab.make_pod(name, node, resources, annotations=notes, labels=labels)
        return made["metadata"]["uid"]

    async def until(self, *kinds: type, **fields: object) -> Any:
        """Return the first event of a kind with some fields."""
        while True:
            for event in self.heard:
                if isinstance(event, kinds) and all(getattr(event, key) == value for key, value in fields.items()):
                    return event
            self.heard += await anext(self._events)


@pytest.fixture
async def followed(lab: FakeKubeLab) -> AsyncGenerator[Followed, None]:
    """Follow the scaled pods of a fake API server."""
    source = CredentialSource(path=str(lab.kubeconfig))
    scaler = PodScaler(source, installation="one", read_policy=read_policy, settings=QUICK, call_timeout_s=5.0)
    try:
        async with asyncio.timeout(50), aclosing(scaler.follow()) as events:
            yield Followed(lab, scaler, events)
    finally:
        await scaler.close()


async def test_a_pod_grows_by_a_resize_that_its_node_confirms(followed: Followed) -> None:
    """The agent hears of the desired size, then of the actual one."""
    uid = followed.make("p")
    seen: PodSeen = await followed.until(PodSeen, uid=uid)
    grown = Amounts(2000, 2 * GIB)
    resize = Resize(uid=uid, number=1, version=seen.version, amounts=grown)
    ended = await followed.scaler.resize(resize, 5.0)
    assert (ended.outcome, ended.version > seen.version) == (ResizeOutcome.ACCEPTED, True)
    await followed.until(PodSeen, uid=uid, desired=grown, allocated=grown, actual=grown)


async def test_the_address_of_a_pod_is_the_one_that_the_cluster_has_for_it(followed: Followed) -> None:
    """Of a pod that nobody knows, or that has none yet, there is none."""
    uid = followed.make("a")
    await followed.until(PodSeen, uid=uid)
    assert followed.scaler.contract_host(uid) == followed.scaler.contract_host("other") == ""
    store = followed.lab.api.store
    (made,) = [one for one in store.all("pods") if one["metadata"]["uid"] == uid]
    store.replace("pods", {**made, "status": {**made["status"], "podIP": "10.1.2.3"}})
    while not followed.scaler.contract_host(uid):
        followed.heard.clear()
        await followed.until(PodSeen)
    assert followed.scaler.contract_host(uid) == "10.1.2.3"


async def test_a_resize_for_an_older_version_is_a_conflict_and_does_nothing(followed: Followed) -> None:
    """Somebody changed the pod meanwhile."""
    uid = followed.make("p")
    await followed.until(PodSeen, uid=uid)
    late = Resize(uid=uid, number=1, version=1, amounts=Amounts(2000, GIB))
    assert (await followed.scaler.resize(late, 5.0)).outcome is ResizeOutcome.CONFLICT
    gone = Resize(uid="nobody", number=1, version=1, amounts=Amounts(2000, GIB))
    assert (await followed.scaler.resize(gone, 5.0)).outcome is ResizeOutcome.REFUSED


@pytest.mark.parametrize(("cpu", "pending"), [("3", Pending.DEFERRED), ("99", Pending.INFEASIBLE)])
async def test_what_a_node_refuses_flows_back(followed: Followed, cpu: str, pending: Pending) -> None:
    """It has no room now, or never will."""
    uid = followed.make("p")
    followed.make("other", cpu="2")
    seen: PodSeen = await followed.until(PodSeen, uid=uid)
    await followed.until(PodSeen, desired=Amounts(2000, GIB))
    resize = Resize(uid=uid, number=1, version=seen.version, amounts=Amounts(int(cpu) * 1000, GIB))
    assert (await followed.scaler.resize(resize, 5.0)).outcome is ResizeOutcome.ACCEPTED
    found: PodSeen = await followed.until(PodSeen, uid=uid, pending=pending)
    assert found.actual == Amounts(1000, GIB)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (ApiFault(kind="status", method="PATCH", status=422, reason="Invalid", message="no"), ResizeOutcome.REFUSED),
        (ApiFault(kind="status", method="PATCH", status=403, reason="Forbidden", message="no"), ResizeOutcome.REFUSED),
        (ApiFault(kind="slow", method="PATCH", delay_s=1.0), ResizeOutcome.UNKNOWN),
    ],
)
async def test_a_resize_without_success_is_told_as_what_it_is(
    followed: Followed, fault: ApiFault, outcome: ResizeOutcome
) -> None:
    """Refused is not done; without an answer it may be."""
    uid = followed.make("p")
    seen: PodSeen = await followed.until(PodSeen, uid=uid)
    followed.lab.api.faults.add(fault)
    resize = Resize(uid=uid, number=1, version=seen.version, amounts=Amounts(2000, GIB))
    ended = await followed.scaler.resize(resize, 0.3)
    assert (ended.outcome, ended.number) == (outcome, 1)


async def test_pods_that_are_not_scaled_or_not_readable_are_left_out_and_those_that_end_are_gone(
    followed: Followed,
) -> None:
    """Annotations that cannot be read are kept with the reason."""
    wrong, uid = followed.make("wrong", scaled="wrong"), followed.make("p")
    await followed.until(PodSeen, uid=uid)
    followed.make("last")
    store = followed.lab.api.store
    store.replace("pods", {**store.find("pods", "default", "p"), "status": {"phase": "Succeeded"}})
    assert await followed.until(PodGone) == PodGone(uid)
    assert followed.scaler.unreadable == {wrong: "scaled is wrong"}


async def test_a_container_that_is_restarted_for_want_of_memory_is_told(followed: Followed) -> None:
    """Once, when its count of restarts rises."""
    uid = followed.make("p")
    await followed.until(PodSeen, uid=uid)
    store = followed.lab.api.store
    found = store.find("pods", "default", "p")
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {**found["status"], "containerStatuses": [{"name": "main", "restartCount": 1, "lastState": ended}]}
    store.replace("pods", {**found, "status": status})
    assert await followed.until(OutOfMemory) == OutOfMemory(uid)


async def test_what_pods_use_is_read_from_the_metrics_api(followed: Followed) -> None:
    """A pod that it does not know uses what is no number."""
    uid = followed.make("p")
    await followed.until(PodSeen, uid=uid)
    unknown = (await followed.scaler.read_usage()).load_cores
    assert unknown[0] != unknown[0]
    followed.lab.api.uses["default", "p"] = ("1500m", "512Mi")
    metrics = await followed.scaler.read_usage()
    assert (metrics.uids, metrics.load_cores.tolist(), metrics.memory_bytes.tolist()) == ((uid,), [1.5], [512 * 2**20])


async def test_what_pods_use_is_read_from_kubelets_one_of_which_may_be_silent(lab: FakeKubeLab) -> None:
    """Its pods' use is no number; that of the others' is."""
    source = CredentialSource(path=str(lab.kubeconfig))
    scaler = PodScaler(
        source, installation="one", read_policy=read_policy, settings=QUICK, metrics=MetricsSource.KUBELET_SUMMARY
    )
    try:
        async with asyncio.timeout(50), aclosing(scaler.follow()) as events:
            followed = Followed(lab, scaler, events)
            uids = [followed.make("p"), followed.make("q", node="node-b")]
            for uid, name in zip(uids, "pq", strict=True):
                await followed.until(PodSeen, uid=uid)
                lab.api.uses["default", name] = ("1500m", "512Mi")
            lab.api.faults.add(ApiFault(path="node-b/proxy", status=404, reason="NotFound"))
            metrics = await scaler.read_usage()
            told = dict(zip(metrics.uids, metrics.load_cores.tolist(), strict=True))
            assert told[uids[0]] == 1.5
            assert told[uids[1]] != told[uids[1]]
            lab.api.faults.add(ApiFault(path="/proxy", status=404, reason="NotFound", count=2))
            with pytest.raises(BackendUnavailable, match="reading metrics"):
                await scaler.read_usage()
    finally:
        await scaler.close()


async def test_an_agent_of_a_node_reads_its_cgroups_and_sees_no_other_nodes_pods(
    lab: FakeKubeLab, tmp_path: Path
) -> None:
    """What the kernel counts is the pods of one machine; a node must be named."""
    with pytest.raises(InvalidRequest, match="say as `node` on which"):
        open_scaler(f"kubernetes:{lab.kubeconfig}", installation="one", metrics="cgroup")
    source, cgroups = CredentialSource(path=str(lab.kubeconfig)), NodeCgroups("node-a", tmp_path)
    scaler = PodScaler(source, installation="one", read_policy=read_policy, settings=QUICK, metrics=cgroups)
    try:
        async with asyncio.timeout(50), aclosing(scaler.follow()) as events:
            followed = Followed(lab, scaler, events)
            followed.make("other", node="node-b")
            uid = followed.make("p")
            await followed.until(PodSeen, uid=uid)
            with pytest.raises(BackendUnavailable, match="no cgroup v2"):
                await scaler.read_usage()
            pod = tmp_path / "kubepods" / "burstable" / f"pod{uid}"
            pod.mkdir(parents=True)
            (tmp_path / "cgroup.controllers").touch()
            for at in (1, 2):
                (pod / "cpu.stat").write_text(f"usage_usec {10**9 * at}")
                (pod / "memory.current").write_text("4096")
                metrics = await scaler.read_usage()
            assert (metrics.uids, metrics.memory_bytes.tolist()) == ((uid,), [4096.0])
            assert metrics.load_cores[0] > 0
    finally:
        await scaler.close()


async def test_an_api_server_without_metrics_is_unavailable_and_no_more(followed: Followed, tmp_path: Path) -> None:
    """The agent goes on without: pods may grow and not shrink."""
    followed.lab.api.faults.add(ApiFault(kind="status", method="GET", status=404, reason="NotFound", message="none"))
    with pytest.raises(BackendUnavailable, match="reading metrics"):
        await followed.scaler.read_usage()

"""The fake kubelet drives pods of a real API server through their lives, and its nodes through bad days."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testbed.cluster import KubeApi

from argosy_core.errors import BackendUnavailable, NotFound
from argosy_kube.port import EXIT_CODE_ANNOTATION, RUN_TIME_ANNOTATION, START_DELAY_ANNOTATION
from argosy_local.processes import await_true
from argosy_testkit.fake_kubelet import LOG_LINES_ANNOTATION, REASON_ANNOTATION, STOP_TIME_ANNOTATION

_numbers = itertools.count()
SOON_S = 100.0


class Bed:
    """A cluster with a node of the test's own, and pods on it."""

    def __init__(self, cluster: KubeApi) -> None:
        self.cluster = cluster
        self.kubelet = cluster.kubelet
        (self.node,) = cluster.add_nodes(1, prefix=f"bed-{next(_numbers)}", cpu="4", memory="8Gi")

    def create(self, annotations: dict[str, str], **spec: Any) -> str:
        """Create a pod that is bound to the node; return its name."""
        name = f"bed-{next(_numbers)}"
        requests = spec.pop("requests", {"cpu": "1"})
        finalizers = spec.pop("finalizers", [])
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations, "finalizers": finalizers},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
                **spec,
            },
        }
        self.cluster.kubectl("create", "--filename=-", stdin=json.dumps(document))
        return name

    def pod(self, name: str) -> dict[str, Any] | None:
        """Return the pod as it is, None if there is none."""
        return self.cluster.control_plane.get(f"/api/v1/namespaces/default/pods/{name}")

    def await_pod(self, name: str, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the pod once something holds of its status."""
        await_true(
            lambda: what((self.pod(name) or {}).get("status", {})), f"{name}: {self.pod(name)}", timeout_s=SOON_S
        )
        pod = self.pod(name)
        assert pod is not None
        return pod

    def await_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Return the status of the pod once it has a phase."""
        return dict(self.await_pod(name, lambda status: status.get("phase") == phase)["status"])

    def delete(self, name: str) -> None:
        """Delete the pod without waiting."""
        self.cluster.kubectl("delete", "pod", name, "--wait=false")

    def await_gone(self, name: str) -> None:
        """Wait until there is no such pod."""
        await_true(lambda: self.pod(name) is None, f"{name} to be gone", timeout_s=SOON_S)

    def ready(self) -> str:
        """Return what the cluster believes of the node's readiness."""
        found = self.cluster.control_plane.get(f"/api/v1/nodes/{self.node}") or {}
        conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", [])}
        return str(conditions.get("Ready"))

    def taints(self) -> set[str]:
        """Return the keys of the node's taints."""
        found = self.cluster.control_plane.get(f"/api/v1/nodes/{self.node}") or {}
        return {taint["key"] for taint in found.get("spec", {}).get("taints", [])}


@pytest.fixture
def bed(kube_api: KubeApi) -> Iterator[Bed]:
    """A node of the test's own, removed with its pods."""
    bed = Bed(kube_api)
    yield bed
    kube_api.kubectl("delete", "pods", f"--field-selector=spec.nodeName={bed.node}", "--force", "--grace-period=0")
    if bed.cluster.control_plane.get(f"/api/v1/nodes/{bed.node}") is not None:
        bed.kubelet.remove_nodes([bed.node])


@pytest.mark.parametrize(
    ("annotations", "phase", "ending"),
    [
        pytest.param({}, "Succeeded", (0, "Completed"), id="by itself"),
        pytest.param({EXIT_CODE_ANNOTATION: "3"}, "Failed", (3, "Error"), id="with an exit code"),
        pytest.param({REASON_ANNOTATION: "OOMKilled"}, "Failed", (137, "OOMKilled"), id="out of memory"),
    ],
)
def test_pod_ends_as_its_annotations_say(
    bed: Bed, annotations: dict[str, str], phase: str, ending: tuple[int, str]
) -> None:
    """A pod runs, and then ends with phase, exit code and reason as a real kubelet writes them."""
    name = bed.create({RUN_TIME_ANNOTATION: "200ms", **annotations})
    terminated = bed.await_phase(name, phase)["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == ending


def test_pod_waits_for_its_start_delay(bed: Bed) -> None:
    """Until then it is pending, and its containers have no status."""
    name = bed.create({RUN_TIME_ANNOTATION: "1h", START_DELAY_ANNOTATION: "5s"})
    pod = bed.pod(name)
    assert pod is not None
    assert pod["status"]["phase"] == "Pending"
    conditions = {one["type"]: one["status"] for one in bed.await_phase(name, "Running")["conditions"]}
    assert conditions["Ready"] == "True"


def test_pod_whose_image_never_comes_stays_pending(bed: Bed) -> None:
    """It goes from ErrImagePull to ImagePullBackOff and no further."""
    name = bed.create({REASON_ANNOTATION: "ErrImagePull"})
    seen: list[str] = []

    def backs_off(status: dict[str, Any]) -> bool:
        seen.extend(container["state"]["waiting"]["reason"] for container in status.get("containerStatuses", []))
        return "ImagePullBackOff" in seen

    pod = bed.await_pod(name, backs_off)
    assert seen[0] == "ErrImagePull"
    assert pod["status"]["phase"] == "Pending"


@pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded"])
def test_pod_that_is_given_up_as_a_whole_tells_why(bed: Bed, reason: str) -> None:
    """An evicted pod, and one past its deadline, carry the reason in their own status."""
    if reason == "Evicted":
        name = bed.create({RUN_TIME_ANNOTATION: "1h"})
        bed.await_phase(name, "Running")
        bed.kubelet.end_pod("default", name, reason="Evicted")
    else:
        name = bed.create({RUN_TIME_ANNOTATION: "1h"}, activeDeadlineSeconds=1)
    assert bed.await_phase(name, "Failed")["reason"] == reason


def test_pod_that_does_not_fit_is_refused_until_another_ends(bed: Bed) -> None:
    """A node takes no more than it has, whatever was bound to it: over-commitment shows as OutOfcpu."""
    first = bed.create({RUN_TIME_ANNOTATION: "1h"}, requests={"cpu": "3"})
    bed.await_phase(first, "Running")
    refused = bed.create({}, requests={"cpu": "2"})
    assert bed.await_phase(refused, "Failed")["reason"] == "OutOfcpu"
    bed.delete(first)
    bed.await_gone(first)
    bed.await_phase(bed.create({RUN_TIME_ANNOTATION: "1h"}, requests={"cpu": "2"}), "Running")


def test_pod_starts_again_as_its_policy_says(bed: Bed) -> None:
    """With OnFailure a failed container is started again, and counted."""
    name = bed.create({RUN_TIME_ANNOTATION: "100ms", EXIT_CODE_ANNOTATION: "1"}, restartPolicy="OnFailure")
    bed.await_pod(name, lambda status: status.get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2)


def test_deleted_pod_goes_after_its_stop_time(bed: Bed) -> None:
    """It runs on for its stop time, and the object goes only then."""
    name = bed.create({RUN_TIME_ANNOTATION: "1h", STOP_TIME_ANNOTATION: "5s"})
    bed.await_phase(name, "Running")
    bed.delete(name)
    pod = bed.pod(name)
    assert pod is not None
    assert pod["status"]["phase"] == "Running"
    bed.await_gone(name)


def test_deleted_pod_with_a_finalizer_stays_until_that_is_taken_away(bed: Bed) -> None:
    """Its containers end, the object does not."""
    name = bed.create({RUN_TIME_ANNOTATION: "1h"}, finalizers=["argosy.dev/kept"])
    bed.await_phase(name, "Running")
    bed.delete(name)
    bed.await_phase(name, "Failed")
    bed.cluster.kubectl("patch", "pod", name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    bed.await_gone(name)


def test_logs_come_through_the_api_server(bed: Bed) -> None:
    """`kubectl logs` gives every line, follows to the pod's end, and gives the last ones only if asked."""
    name = bed.create({RUN_TIME_ANNOTATION: "1s", LOG_LINES_ANNOTATION: "4"})
    bed.await_pod(name, lambda status: status.get("phase") in {"Running", "Succeeded"})
    lines = [f"{name} main line {index}" for index in range(4)]
    assert bed.cluster.kubectl("logs", "--follow", name).splitlines() == lines
    assert bed.cluster.kubectl("logs", "--tail=1", name).splitlines() == lines[-1:]


def test_logs_of_a_pod_that_has_not_started_are_refused(bed: Bed) -> None:
    """As a real kubelet does."""
    name = bed.create({START_DELAY_ANNOTATION: "1h"})
    with pytest.raises(BackendUnavailable, match="waiting to start"):
        bed.cluster.kubectl("logs", name)


def test_partitioned_node_tells_when_it_is_healed_what_had_happened(bed: Bed) -> None:
    """Its pods go on unseen: the cluster believes what it saw last, then hears of the end that was."""
    running = bed.create({RUN_TIME_ANNOTATION: "10s"})  # time enough to cut the node off before the end
    bed.await_phase(running, "Running")
    bed.kubelet.partition([bed.node])
    unheard = bed.create({RUN_TIME_ANNOTATION: "1h"})
    # The condition is written first and the taint by a worker of its own some time later.
    await_true(
        lambda: bed.ready() == "Unknown" and "node.kubernetes.io/unreachable" in bed.taints(),
        "the node to be given up",
        timeout_s=90.0,
    )
    statuses = [(bed.pod(name) or {})["status"]["phase"] for name in (running, unheard)]
    assert statuses == ["Running", "Pending"]
    bed.kubelet.heal([bed.node])
    assert bed.await_phase(running, "Succeeded")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    bed.await_phase(unheard, "Running")
    await_true(lambda: bed.ready() == "True" and not bed.taints(), "the node to be well", timeout_s=SOON_S)


def test_node_that_says_it_is_not_ready_is_tainted_by_the_cluster(bed: Bed) -> None:
    """The controllers take it out of use, and back into use."""
    bed.kubelet.set_ready([bed.node], is_ready=False)
    await_true(lambda: "node.kubernetes.io/not-ready" in bed.taints(), "the taint", timeout_s=SOON_S)
    bed.kubelet.set_ready([bed.node], is_ready=True)
    await_true(lambda: not bed.taints(), "the taint to go", timeout_s=SOON_S)


def test_removed_node_leaves_its_pods_to_the_cluster(bed: Bed) -> None:
    """Nothing is told of them any more: the last state stands until somebody deletes them."""
    name = bed.create({RUN_TIME_ANNOTATION: "1h"})
    bed.await_phase(name, "Running")
    bed.kubelet.remove_nodes([bed.node])
    assert bed.cluster.control_plane.get(f"/api/v1/nodes/{bed.node}") is None
    with pytest.raises(NotFound):
        bed.kubelet.end_pod("default", name)


def test_kubelet_that_was_killed_takes_its_nodes_and_pods_up_again(bed: Bed) -> None:
    """A new one finds the nodes, and the pod ends when it would have ended."""
    name = bed.create({RUN_TIME_ANNOTATION: "3s"})
    bed.await_phase(name, "Running")
    bed.kubelet.kill()
    bed.kubelet.start()
    assert bed.kubelet.counts()["nodes"] >= 1
    bed.await_phase(name, "Succeeded")


def test_kubelet_goes_on_after_the_api_server_was_away(bed: Bed) -> None:
    """A pod that ended meanwhile is told of once the API server is back, and new pods start."""
    name = bed.create({RUN_TIME_ANNOTATION: "1s"})
    bed.await_phase(name, "Running")
    bed.cluster.restart()
    bed.await_phase(name, "Succeeded")
    bed.await_phase(bed.create({RUN_TIME_ANNOTATION: "1h"}), "Running")


def test_kubelet_keeps_up_with_a_burst(kube_api: KubeApi, bed: Bed) -> None:
    """Some hundred pods that come at once all end, each told of as running and as ended."""
    (node,) = kube_api.add_nodes(1, prefix=f"bed-{next(_numbers)}", cpu="1000", memory="1Ti")
    before = kube_api.kubelet.counts()
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"burst-{index}", "annotations": {RUN_TIME_ANNOTATION: "100ms"}},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        }
        for index in range(200)
    ]
    kube_api.kubectl("create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def ended() -> int:
        return kube_api.kubelet.counts()["ended"] - before.get("ended", 0)

    await_true(lambda: ended() >= 200, "200 pods to end", timeout_s=200.0)
    ours = f"--field-selector=spec.nodeName={node}"  # other tests may have left pods on nodes of theirs
    kube_api.kubectl("delete", "pods", ours, "--wait=false")
    await_true(
        lambda: not kube_api.kubectl("get", "pods", ours, "--output=name").strip(), "the pods to go", timeout_s=200.0
    )
    kube_api.kubelet.remove_nodes([node])

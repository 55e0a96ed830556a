"""What the adapter reads in pods: phase, exit code, reason, requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from argosy_core.job.reading.classes import HostPort
from argosy_core.job.states import FailureKind
from argosy_kube.failure_table import failure_of
from argosy_kube.kubernetes.api.documents import POD, PodDocument
from argosy_kube.kubernetes.reading.pods import (
    RequestReader,
    exit_and_reason,
    host_ports,
    is_gone,
    phase_of,
    pod_request,
    read_time_us,
)
from argosy_kube.port import PodPhase


def read(status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **metadata: object) -> PodDocument:
    """Return a pod as the adapter decodes it."""
    return POD.decode(msgspec.json.encode({"metadata": metadata, "spec": spec or {}, "status": status or {}}))


def terminated(code: int, reason: str) -> dict[str, Any]:
    """Return the status of a container that has ended."""
    return {"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason}}}


def waiting(reason: str) -> dict[str, Any]:
    """Return the status of a container that waits."""
    return {"name": "main", "state": {"waiting": {"reason": reason}}}


STATUSES = [
    pytest.param({}, PodPhase.PENDING, 0, "", id="new"),
    pytest.param({"phase": "Running"}, PodPhase.RUNNING, 0, "", id="running"),
    pytest.param({"phase": "Unknown", "reason": "NodeLost"}, PodPhase.UNKNOWN, 0, "NodeLost", id="unknown"),
    pytest.param(
        {"phase": "Succeeded", "containerStatuses": [terminated(0, "Completed")]},
        PodPhase.SUCCEEDED,
        0,
        "",
        id="succeeded",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [terminated(0, "Completed"), terminated(3, "Error")]},
        PodPhase.FAILED,
        3,
        "Error",
        id="first-failed-container",
    ),
    pytest.param(
        {"phase": "Failed", "initContainerStatuses": [terminated(2, "Error")], "containerStatuses": []},
        PodPhase.FAILED,
        2,
        "Error",
        id="init-container",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [terminated(137, "OOMKilled")]},
        PodPhase.FAILED,
        137,
        "OOMKilled",
        id="out-of-memory",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "Evicted", "containerStatuses": [terminated(137, "Error")]},
        PodPhase.FAILED,
        137,
        "Evicted",
        id="evicted",
    ),
    pytest.param({"phase": "Failed", "reason": "OutOfcpu"}, PodPhase.FAILED, 0, "OutOfcpu", id="no-room"),
    pytest.param(
        {
            "phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}],
            "containerStatuses": [terminated(143, "Error")],
        },
        PodPhase.FAILED,
        143,
        "NodeLost",
        id="collected-with-its-node",
    ),
    pytest.param(
        {"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]},
        PodPhase.PENDING,
        0,
        "",
        id="ordinary-wait",
    ),
    pytest.param(
        {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]},
        PodPhase.PENDING,
        0,
        "ImagePullBackOff",
        id="image",
    ),
    pytest.param(
        {"phase": "Pending", "containerStatuses": [waiting("CreateContainerConfigError")]},
        PodPhase.PENDING,
        0,
        "CreateContainerConfigError",
        id="config",
    ),
    pytest.param(
        {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
        PodPhase.PENDING,
        0,
        "Unschedulable",
        id="unschedulable",
    ),
]
"""Status of a pod, and the phase, exit code and reason that are read in it."""


@pytest.mark.parametrize(("status", "phase", "exit_code", "reason"), STATUSES)
def test_state_is_read_from_the_status(status: dict[str, Any], phase: PodPhase, exit_code: int, reason: str) -> None:
    """The pod's own reason comes first, then that of a disruption, then that of the first failed container."""
    pod = read(status)
    assert phase_of(pod.status) == phase
    assert exit_and_reason(pod, phase) == (exit_code, reason)


@pytest.mark.parametrize(
    ("metadata", "phase", "expected"),
    [
        pytest.param({}, "Running", False, id="there"),
        pytest.param({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, "Running", False, id="stopping"),
        pytest.param({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, "Running", True, id="by-force"),
        pytest.param({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, "Failed", False, id="told-its-end"),
    ],
)
def test_only_a_pod_that_will_never_tell_its_end_is_gone(
    metadata: dict[str, Any], phase: str, *, expected: bool
) -> None:
    """What ended is kept until its end is stored; what was taken away by force has no end to store."""
    assert is_gone(read({"phase": phase}, **metadata)) is expected


@pytest.mark.parametrize(
    ("deleted", "finished", "container_reason", "reason"),
    [
        pytest.param({}, "10:00:40", "Error", "Error", id="not-deleted"),
        pytest.param({"deletionTimestamp": "2026-01-01T10:00:30Z"}, "10:00:29", "Error", "Error", id="failed-before"),
        pytest.param({"deletionTimestamp": "2026-01-01T10:00:30Z"}, "10:00:30", "Error", "Deleted", id="after"),
        pytest.param(
            {"deletionTimestamp": "2026-01-01T10:00:30Z", "deletionGracePeriodSeconds": 30},
            "10:00:01",
            "Error",
            "Deleted",
            id="within-its-grace",
        ),
        pytest.param({"deletionTimestamp": "2026-01-01T10:00:30Z"}, "10:00:30", "OOMKilled", "OOMKilled", id="memory"),
        pytest.param({"deletionTimestamp": "2026-01-01T10:00:30Z"}, None, "Error", "Error", id="nobody-knows-when"),
        pytest.param(
            {"deletionTimestamp": "2026-01-01T10:00:30Z"}, None, "ContainerStatusUnknown", "Deleted", id="never-seen"
        ),
    ],
)
def test_container_that_fails_after_a_deletion_was_killed_by_it(
    deleted: dict[str, Any], finished: str | None, container_reason: str, reason: str
) -> None:
    """Its exit code says nothing of the job; one that failed before the deletion failed by itself."""
    container_status = terminated(143, container_reason)
    container_status["state"]["terminated"]["finishedAt"] = finished and f"2026-01-01T{finished}Z"
    pod = read({"phase": "Failed", "containerStatuses": [container_status]}, **deleted)
    found = exit_and_reason(pod, PodPhase.FAILED)
    assert found == (143, reason)


@pytest.mark.parametrize(("exit_code", "reason"), [(3, "Error"), (137, "Deleted"), (143, "Deleted")])
def test_container_that_fails_in_the_second_of_a_deletion_is_judged_by_its_exit_code(
    exit_code: int, reason: str
) -> None:
    """Times are whole seconds: what ended by itself just before keeps its own failure."""
    container_status = terminated(exit_code, "Error")
    container_status["state"]["terminated"]["finishedAt"] = "2026-01-01T10:00:30Z"
    pod = read({"phase": "Failed", "containerStatuses": [container_status]}, deletionTimestamp="2026-01-01T10:00:30Z")
    found = exit_and_reason(pod, PodPhase.FAILED)
    assert found == (exit_code, reason)


@pytest.mark.parametrize(("exit_code", "reason"), [(3, "Error"), (137, "Deleted"), (143, "Deleted")])
@pytest.mark.parametrize("seen", [{}, {"observedGeneration": 2}])
def test_end_of_a_deletion_without_generations_is_judged_by_the_signal(
    seen: dict[str, int], exit_code: int, reason: str
) -> None:
    """A kubelet's last deletion, of grace 0, moves the time past the end of the containers it was to stop."""
    container_status = terminated(exit_code, "Error")
    container_status["state"]["terminated"]["finishedAt"] = "2026-01-01T10:00:30Z"
    status = {"phase": "Failed", "containerStatuses": [container_status], **seen}
    pod = read(status, deletionTimestamp="2026-01-01T10:00:31Z", deletionGracePeriodSeconds=0)
    assert exit_and_reason(pod, PodPhase.FAILED) == (exit_code, reason)


@pytest.mark.parametrize(
    ("exit_code", "word", "finished", "reason"),
    [
        pytest.param(3, "Error", "2026-01-01T10:00:29Z", "Error", id="before"),
        pytest.param(3, "Error", "2026-01-01T10:00:30Z", "Evicted", id="in-its-second"),
        pytest.param(3, "Error", None, "Evicted", id="nobody-knows-when"),
        pytest.param(143, "Error", "2026-01-01T10:00:29Z", "Evicted", id="stopped-by-a-node-whose-clock-is-slow"),
        pytest.param(137, "OOMKilled", "2026-01-01T10:00:29Z", "OOMKilled", id="memory"),
    ],
)
def test_what_had_ended_by_itself_before_a_disruption_keeps_its_failure(
    exit_code: int, word: str, finished: str | None, reason: str
) -> None:
    """The finalizer keeps pods that have failed, and whoever drains their node marks them too."""
    container_status = terminated(exit_code, word)
    container_status["state"]["terminated"]["finishedAt"] = finished
    disruption = {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": "2026-01-01T10:00:30Z",
    }  # fmt: skip
    pod = read({"phase": "Failed", "containerStatuses": [container_status], "conditions": [disruption]})
    assert exit_and_reason(pod, PodPhase.FAILED) == (exit_code, reason)


def test_pod_deleted_before_its_containers_began_was_deleted() -> None:
    """A kubelet says that it failed, and nothing else; of one that nobody deleted it has lost the containers."""
    status = {"phase": "Failed", "containerStatuses": [waiting("ContainerCreating")]}
    assert exit_and_reason(read(status, deletionTimestamp="2026-01-01T10:00:30Z"), PodPhase.FAILED) == (0, "Deleted")
    assert exit_and_reason(read(status), PodPhase.FAILED) == (0, "ContainerStatusUnknown")


def container(cpu: str | None = None, memory: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a container with requests."""
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None}
    return {"name": "c", "resources": {"requests": requests}, **fields}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"containers": [container("1", "1Gi"), container("500m")]}, {"cpu": 1500, "memory": 1 << 30}, id="sum"
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1"}}}]},
            {"cpu": 2000, "memory": 1},
            id="limit-for-request",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            {"cpu": 3000},
            id="largest-init-container",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]},
            {"cpu": 3000},
            id="sidecar-runs-beside",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("4"), container("1")],
            },
            {"cpu": 5000},
            id="init-beside-the-sidecar-before-it",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("4"), container("1", restartPolicy="Always")],
            },
            {"cpu": 4000},
            id="init-before-the-sidecar",
        ),
        pytest.param(
            {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "10"}},
            {"cpu": 1250, "memory": 10},
            id="overhead",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, {"cpu": 4000}, id="whole-pod"
        ),
        pytest.param({"containers": [container("much")]}, {"cpu": 0}, id="unreadable-is-none"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_request_is_counted_as_kubernetes_does(spec: dict[str, Any], expected: dict[str, int]) -> None:
    """The rules of the scheduler, worked out by hand."""
    assert pod_request(read(spec=spec)) == expected


def test_exit_code_of_a_sidecar_counts_only_where_no_other_container_has_failed() -> None:
    """The kubelet stops sidecars, by a signal as a rule, when the containers are done."""
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}], "containers": [{"name": "main"}]}
    stopped = {"name": "proxy", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
    status = {"phase": "Failed", "initContainerStatuses": [stopped], "containerStatuses": [terminated(3, "Error")]}
    assert exit_and_reason(read(status, spec), PodPhase.FAILED) == (3, "Error")
    alone = status | {"containerStatuses": [terminated(0, "Completed")]}
    assert exit_and_reason(read(alone, spec), PodPhase.FAILED) == (137, "Error")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", FailureKind.EXIT_CODE),
        ('Container main exceeded its local ephemeral storage limit "1Gi". ', FailureKind.EXIT_CODE),
        ('Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ', FailureKind.EXIT_CODE),
        ("The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi.", FailureKind.EVICTED),
    ],
)
def test_eviction_for_the_jobs_own_limit_is_its_own_failure(message: str, kind: FailureKind) -> None:
    """It would be evicted again on any node; one for want of the node is tried elsewhere."""
    pod = read({"phase": "Failed", "reason": "Evicted", "message": message})
    exit_code, reason = exit_and_reason(pod, PodPhase.FAILED)
    assert failure_of(reason, exit_code) == kind


def resized(asked: str, given: str, actual: str, **status: Any) -> PodDocument:
    """Return a pod of one container in the middle of a resize of its cpu."""
    held = {
        "name": "c", "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": actual}},
    }  # fmt: skip
    return read({"phase": "Running", "containerStatuses": [held], **status}, {"containers": [container(asked)]})


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(resized("1", "1", "1"), 1000, id="at-rest"),
        pytest.param(resized("3", "1", "1"), 3000, id="grows"),
        pytest.param(resized("1", "1", "3"), 3000, id="shrinks-still-has"),
        pytest.param(resized("1", "2", "1"), 2000, id="given-by-the-kubelet"),
        pytest.param(
            resized("9", "1", "1", conditions=[{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
            1000,
            id="infeasible-never-comes",
        ),
        pytest.param(
            resized("9", "1", "1", conditions=[{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]),
            9000,
            id="deferred-may-come",
        ),
    ],
)
def test_pod_that_is_resized_counts_with_the_most_that_it_may_hold(pod: PodDocument, cpu: int) -> None:
    """The greatest of desired, allocated and actual, as the scheduler of Kubernetes counts it."""
    assert pod_request(pod) == {"cpu": cpu}
    reader = RequestReader(lambda amounts: amounts["cpu"])
    assert [reader.row(one) for one in (resized("1", "1", "1"), pod)] == [1000, cpu]


def test_limit_of_the_pod_stands_in_only_for_what_no_container_asks() -> None:
    """A limit alone is no request where the containers have theirs."""
    spec = {"containers": [container("1")], "resources": {"limits": {"cpu": "8", "memory": "64"}}}
    assert pod_request(read(spec=spec)) == {"cpu": 1000, "memory": 64}


def test_ports_of_containers_and_sidecars_are_the_nodes() -> None:
    """Init containers end before they matter; every address is none in particular."""
    spec = {
        "containers": [
            {"name": "a", "ports": [{"containerPort": 1}, {"hostPort": 80, "hostIP": "0.0.0.0"}]},
            {"name": "b", "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
        ],
        "initContainers": [
            {"name": "proxy", "restartPolicy": "Always", "ports": [{"hostPort": 22}]},
            {"name": "init", "ports": [{"hostPort": 23}]},
        ],
    }
    assert host_ports(read(spec=spec).spec) == (
        HostPort("TCP", 22), HostPort("TCP", 80), HostPort("UDP", 53, "10.0.0.1"),
    )  # fmt: skip


def test_times_are_read_to_the_second() -> None:
    """What is missing or no time is 0."""
    assert read_time_us("1970-01-01T00:00:02Z") == 2_000_000
    assert read_time_us(None) == read_time_us("yesterday") == 0

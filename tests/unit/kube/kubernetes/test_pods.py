"""What the adapter reads in pods: phase, exit code, reason, requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from argosy_kube.kubernetes.api.documents import POD, PodDocument
from argosy_kube.kubernetes.reading.pods import (
    deletion_us,
    effective_request,
    exit_and_reason,
    is_gone,
    phase_of,
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
    read_status = read(status).status
    assert phase_of(read_status) == phase
    assert exit_and_reason(read_status, phase) == (exit_code, reason)


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
    found = exit_and_reason(pod.status, PodPhase.FAILED, deleted_us=deletion_us(pod.metadata))
    assert found == (143, reason)


@pytest.mark.parametrize(("exit_code", "reason"), [(3, "Error"), (137, "Deleted"), (143, "Deleted")])
def test_container_that_fails_in_the_second_of_a_deletion_is_judged_by_its_exit_code(
    exit_code: int, reason: str
) -> None:
    """Times are whole seconds: what ended by itself just before keeps its own failure."""
    container_status = terminated(exit_code, "Error")
    container_status["state"]["terminated"]["finishedAt"] = "2026-01-01T10:00:30Z"
    pod = read({"phase": "Failed", "containerStatuses": [container_status]}, deletionTimestamp="2026-01-01T10:00:30Z")
    found = exit_and_reason(pod.status, PodPhase.FAILED, deleted_us=deletion_us(pod.metadata))
    assert found == (exit_code, reason)


def test_pod_deleted_before_its_containers_began_was_deleted() -> None:
    """A kubelet says that it failed, and nothing else."""
    status = read({"phase": "Failed", "containerStatuses": [waiting("ContainerCreating")]}).status
    assert exit_and_reason(status, PodPhase.FAILED, deleted_us=1) == (0, "Deleted")
    assert exit_and_reason(status, PodPhase.FAILED) == (0, "")


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
    assert effective_request(read(spec=spec).spec) == expected


def test_times_are_read_to_the_second() -> None:
    """What is missing or no time is 0."""
    assert read_time_us("1970-01-01T00:00:02Z") == 2_000_000
    assert read_time_us(None) == read_time_us("yesterday") == 0

"""Pods as a real kubelet and a real control plane left them, read as an executor reads them.

`recorded/pods` holds the documents; its README says how they came about. They go through a list of the adapter and
the executor's columns, so that what is compared is what the core is told.

Source: docs/failures.md.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy_core.job.states import FailureKind, ObjectState
from argosy_executor.cluster_codec import observations
from argosy_kube.port import Selector
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

RECORDED = Path(__file__).parent / "recorded" / "pods"
DOCUMENTS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_bytes()) for path in RECORDED.glob("*.json")}
Told = tuple[ObjectState, FailureKind, str]
"""State, kind of failure, and what people are told."""

OWN = {
    "deadline": "the pod ran longer than its activeDeadlineSeconds (DeadlineExceeded)",
    "deadline_before_start": "the pod ran longer than its activeDeadlineSeconds (DeadlineExceeded)",
    "deadline_of_a_stubborn_container": "the pod ran longer than its activeDeadlineSeconds (DeadlineExceeded)",
    "exit_code": "container trainer ended with exit code 3: no input",
    "exit_code_with_log": "container trainer ended with exit code 4: reading no such bucket",
    "failed_before_it_was_deleted": "container trainer ended with exit code 2",
    "failed_before_its_node_was_tainted": "container trainer ended with exit code 2",
    "failed_with_sidecar": "container trainer ended with exit code 3",
    "init_container": "container fetch ended with exit code 1: bucket not found",
    "liveness_probe": "container trainer ended with exit code 137, SIGKILL",
    "mount_refused": (
        "container trainer ended with exit code 128 (StartError): failed to create containerd task: "
        "failed to create sh…lumes/kubernetes.io~empty-dir/v:/etc/passwd (via /proc/self/fd/6), "
        "flags: 0x5000: not a directory: unknown"
    ),
    "no_such_command": (
        "container trainer ended with exit code 128 (StartError): failed to create containerd task: "
        'failed to create sh…unable to start container process: exec: "/bin/trian": stat /bin/trian: '
        "no such file or directory: unknown"
    ),
    "one_of_two_cannot_start": (
        "container trainer ended with exit code 128 (StartError): failed to create containerd task: "
        'failed to create sh…unable to start container process: exec: "/bin/trian": stat /bin/trian: '
        "no such file or directory: unknown"
    ),
    "one_of_two_fails": "container trainer ended with exit code 7",
    "out_of_memory_survived_beside_a_failure": "container trainer ended with exit code 9",
    "segmentation_fault": "container trainer ended with exit code 139, SIGSEGV",
    "start_hook": "container trainer ended with exit code 137, SIGKILL",
    "startup_probe": "container trainer ended with exit code 137, SIGKILL",
    "storage_of_a_container": (
        "the pod took more ephemeral storage than its limit: Pod ephemeral local storage usage "
        "exceeds the total limit of containers 5Mi."
    ),
    "storage_of_a_pod": (
        "the pod took more ephemeral storage than its limit: Pod ephemeral local storage usage "
        "exceeds the total limit of containers 10Mi."
    ),
    "storage_of_a_volume": (
        'the pod took more ephemeral storage than its limit: Usage of EmptyDir volume "scratch" '
        'exceeds the limit "5Mi".'
    ),
}
"""Failed of what the job itself did."""

OUT_OF_MEMORY = {
    "init_container_out_of_memory": "a container used more memory than its limit (OOMKilled, container fetch)",
    "out_of_memory": "a container used more memory than its limit (OOMKilled, container trainer)",
    "out_of_memory_of_a_child": "a container used more memory than its limit (OOMKilled, container trainer)",
}
"""Failed of the memory that a container, or a process in it, took."""

EVICTED = {
    "evicted_by_api": "the pod was evicted (Evicted): Eviction API: evicting",
    "evicted_by_api_before_start": "the pod was evicted (Evicted): Eviction API: evicting",
    "node_low_on_memory": (
        "the pod was evicted (Evicted): The node was low on resource: memory. Threshold "
        "quant…ilable: 20391052Ki. Container trainer was using 1848012Ki, request is 0, has larger "
        "consumption of memory."
    ),
    "preempted_by_kubelet": "the pod was evicted (Preempting): Preempted in order to admit critical pod",
    "preempted_by_scheduler": (
        "the pod was evicted (Preempting): default-scheduler: preempting to accommodate a higher priority pod"
    ),
    "refused_under_pressure": (
        "the pod was evicted (Evicted): Pod was rejected: The node had condition: [MemoryPressure]."
    ),
}
"""Sent away by who may evict or preempt, or by a node that is short of something."""

CLUSTER = {
    "containers_not_found": "the node or cluster failed (ContainerStatusUnknown)",
    "containers_unknown": (
        "the node or cluster failed (ContainerStatusUnknown, container trainer): The container could "
        "not be located when the pod was terminated"
    ),
    "deleted_by_force": "the node or cluster failed (Deleted)",
    "deleted_stubborn": "the node or cluster failed (Deleted)",
    "deleted_stubborn_and_kept": "the node or cluster failed (Deleted)",
    "deleted_while_pulling": "the node or cluster failed (Deleted)",
    "deleted_with_exit_code": "the node or cluster failed (Deleted)",
    "deleted_with_exit_code_and_kept": "the node or cluster failed (Deleted)",
    "deleted_without_a_node": "the node or cluster failed (Deleted)",
    "device_plugin_fails": (
        "the node or cluster failed (UnexpectedAdmissionError): Pod was rejected: Allocate failed "
        "due to rpc error: code = Unknown desc = device 0 does not answer, which is unexpected"
    ),
    "evicted_by_taint": ("the node or cluster failed (NodeNotReady): Taint manager: deleting due to NoExecute taint"),
    "node_removed": "the node or cluster failed (NodeLost): PodGC: node no longer exists",
    "node_removed_before_start": "the node or cluster failed (NodeLost): PodGC: node no longer exists",
    "node_restarted": "the node or cluster failed (Unknown, container trainer)",
    "refused_for_affinity": (
        "the node or cluster failed (NodeAffinity): Pod was rejected: Predicate NodeAffinity failed: "
        "node(s) didn't match Pod's node affinity/selector"
    ),
    "refused_for_cpu": (
        "the node or cluster failed (OutOfcpu): Pod was rejected: Node didn't have enough resource: "
        "cpu, requested: 100000, used: 500, capacity: 2000"
    ),
    "refused_for_devices": (
        "the node or cluster failed (UnexpectedAdmissionError): Pod was rejected: Allocate failed "
        "due to requested number of devices unavailable for example.com/gpu. Requested: 2, "
        "Available: 1, which is unexpected"
    ),
    "refused_for_memory": (
        "the node or cluster failed (OutOfmemory): Pod was rejected: Node didn't have enough "
        "resource: memory, requested: 1099511627776, used: 125829120, capacity: 25171656704"
    ),
    "refused_for_port": (
        "the node or cluster failed (NodePorts): Pod was rejected: Predicate NodePorts failed: "
        "node(s) didn't have free ports for the requested pod ports"
    ),
    "refused_for_sysctl": (
        "the node or cluster failed (SysctlForbidden): Pod was rejected: forbidden sysctl: "
        '"kernel.msgmax" not allowlisted'
    ),
    "refused_for_system": (
        "the node or cluster failed (PodOSNotSupported): Pod was rejected: Failed to admit pod as "
        "the OS field doesn't match node OS"
    ),
    "refused_for_taint": (
        "the node or cluster failed (TaintToleration): Pod was rejected: Predicate TaintToleration "
        "failed: node(s) had taints that the pod didn't tolerate"
    ),
}
"""Failed of what node or cluster did."""

IMAGE = {
    "image_back_off": (
        "ImagePullBackOff, container trainer: Back-off pulling image "
        '"registry.example.test/missing…led to resolve reference '
        '"registry.example.test/missing:1.4": registry.example.test/missing:1.4: not found'
    ),
    "image_denied": (
        "ErrImagePull, container trainer: failed to pull and unpack image "
        '"registry.example.tes…ed:1.4": pulling from host registry.example.test failed with status '
        "code [manifests 1.4]: 401 Unauthorized"
    ),
    "image_name": (
        "InvalidImageName, container trainer: Failed to apply default image tag "
        '"registry.example.t…"registry.example.test/Trainer:1.4": invalid reference format: '
        "repository name (Trainer) must be lowercase"
    ),
    "image_never_pulled": (
        'ErrImageNeverPull, container trainer: Container image "registry.example.test/other:1.4" is '
        "not present with pull policy of Never"
    ),
    "image_not_found": (
        "ErrImagePull, container trainer: rpc error: code = NotFound desc = failed to pull and …led "
        'to resolve reference "registry.example.test/missing:1.4": '
        "registry.example.test/missing:1.4: not found"
    ),
    "image_of_a_sidecar": (
        'ImagePullBackOff, container proxy: Back-off pulling image "registry.example.test/missing… '
        "tcp: lookup registry.example.test on 192.0.2.53:53: read udp "
        "192.0.2.10:54064->192.0.2.53:53: i/o timeout"
    ),
    "image_of_an_init_container": (
        'ImagePullBackOff, container fetch: Back-off pulling image "registry.example.test/missing… '
        "tcp: lookup registry.example.test on 192.0.2.53:53: read udp "
        "192.0.2.10:54064->192.0.2.53:53: i/o timeout"
    ),
    "image_registry_away": (
        'ErrImagePull, container trainer: failed to pull and unpack image "away.example.test/tr…dial '
        "tcp: lookup away.example.test on 192.0.2.53:53: read udp 192.0.2.10:38333->192.0.2.53:53: "
        "i/o timeout"
    ),
    "image_registry_broken": (
        'ErrImagePull, container trainer: failed to pull and unpack image "registry.example.tes…: '
        "pulling from host registry.example.test failed with status code [manifests 1.4]: 503 "
        "Service Unavailable"
    ),
}
"""They wait for an image."""

REJECTED = {
    "crash_loop_of_a_sidecar": (
        "CrashLoopBackOff, container proxy: back-off 20s restarting failed container=proxy "
        "pod=train-aaaaaaaaabh-1_team-a(017ee5b1-aeaf-414a-bd51-f12a1fb22652)"
    ),
    "missing_key": (
        "CreateContainerConfigError, container trainer: couldn't find key absent in ConfigMap team-a/settings"
    ),
    "missing_secret": 'CreateContainerConfigError, container trainer: secret "tokens" not found',
    "no_command": (
        "CreateContainerError, container trainer: failed to generate container "
        '"8f695e7a6ee93603266fc84f33998dd79a98d83406cf67d16fb221f76db4a423" spec: failed to generate '
        "spec: no command specified"
    ),
    "runs_as_root": (
        "CreateContainerConfigError, container trainer: container has runAsNonRoot and image will "
        'run as root (pod: "train-aaaaaaaaaar-1_team-a(afca0e3b-dfa6-4085-bc0b-4b81246feb7e)", '
        "container: trainer)"
    ),
    "sub_path": (
        "CreateContainerConfigError, container trainer: failed to prepare subPath for volumeMount "
        '"v" of container "trainer"'
    ),
}
"""Containers of theirs cannot be made."""

WAITING = {
    "gated": "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates",
    "unschedulable": (
        "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    ),
}
"""They wait for a node."""

NEW = ["missing_volume", "new", "sidecar_starting"]
"""They say nothing of themselves: why two of them wait stands in events only."""
RUNNING = ["crash_loop", "no_such_command_tried_again", "readiness_probe", "running"]
"""They run, also those that their kubelet starts again and again, or that are not ready."""
SUCCEEDED = ["deleted_obeyed", "evicted_by_api_obeyed", "out_of_memory_survived", "succeeded", "succeeded_with_sidecar"]
"""All their containers ended with 0, whoever asked them to end."""

EXPECTED: dict[str, Told] = {
    **{case: (ObjectState.FAILED, FailureKind.EXIT_CODE, text) for case, text in OWN.items()},
    **{case: (ObjectState.FAILED, FailureKind.OUT_OF_MEMORY, text) for case, text in OUT_OF_MEMORY.items()},
    **{case: (ObjectState.FAILED, FailureKind.EVICTED, text) for case, text in EVICTED.items()},
    **{case: (ObjectState.FAILED, FailureKind.INFRASTRUCTURE, text) for case, text in CLUSTER.items()},
    **{case: (ObjectState.CREATED, FailureKind.IMAGE, text) for case, text in IMAGE.items()},
    **{case: (ObjectState.CREATED, FailureKind.REJECTED, text) for case, text in REJECTED.items()},
    **{case: (ObjectState.CREATED, FailureKind.INFRASTRUCTURE, text) for case, text in WAITING.items()},
    **dict.fromkeys(NEW, (ObjectState.CREATED, FailureKind.NONE, "")),
    **dict.fromkeys(RUNNING, (ObjectState.RUNNING, FailureKind.NONE, "")),
    **dict.fromkeys(SUCCEEDED, (ObjectState.SUCCEEDED, FailureKind.NONE, "")),
}


async def read(documents: Mapping[str, dict[str, Any]], folder: Path) -> dict[str, Told]:
    """Return what an executor that has just started is told of some pods, each of another name."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi())
        lab = FakeKubeLab(api, api.write_kubeconfig(folder / "kubeconfig"), stack)
        await lab.put_node(replace(LAB_NODES[0], name="node-1"))
        api.store.objects["pods"] = {
            (pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in documents.values()
        }
        observed = observations(await lab.open("argosy").list_objects(Selector.OURS))
    texts = (*observed.texts, "")
    told = {
        f"{observed.handle_column[row]}-1": (
            ObjectState(observed.state_column[row]),
            FailureKind(observed.failure_column[row]),
            texts[observed.message_column[row]],
        )
        for row in range(observed.handle_column.size)
    }
    return {case: told[pod["metadata"]["labels"]["argosy.dev/run"]] for case, pod in documents.items()}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """What is told of each document; those of one pod at several times are read one after another."""
    times: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    seen: dict[str, int] = defaultdict(int)
    for case, pod in sorted(DOCUMENTS.items()):
        name = pod["metadata"]["name"]
        times[seen[name]][case] = pod
        seen[name] += 1
    found: dict[str, Told] = {}
    for documents in times.values():
        found |= asyncio.run(read(documents, tmp_path_factory.mktemp("credentials")))
    return found


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_recorded_pod_is_told_as_the_page_of_failures_says(told: dict[str, Told], case: str) -> None:
    """What the job did itself fails it; what its node or cluster did lets it be tried again."""
    assert told[case] == EXPECTED[case]


def test_every_recorded_pod_is_expected_to_be_something() -> None:
    """No document lies there unread."""
    assert DOCUMENTS.keys() == EXPECTED.keys()

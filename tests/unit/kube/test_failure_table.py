"""Pods as an API server shows them, read through the one table of failures.

The documents are whole pods, written by hand in the shapes of the Kubernetes API reference and of what kubelet, pod
garbage collector, taint manager and scheduler write; they were not captured from a cluster.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from argosy_core.job.states import FailureKind
from argosy_kube.failure_table import (
    DISRUPTIONS,
    WORDS,
    describe_failure,
    describe_wait,
    failure_of,
    waiting_failure_of,
)
from argosy_kube.kubernetes.api.documents import POD
from argosy_kube.kubernetes.reading.details import detail_of
from argosy_kube.kubernetes.reading.pods import exit_and_reason, phase_of
from argosy_kube.port import Detail, PodPhase

DOCUMENTS = Path(__file__).parent / "pod_documents"
FAILURES_PAGE = Path(__file__).parents[3] / "docs" / "failures.md"
LOW_MEMORY = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 62Mi."

ENDED = [
    ("exit_code", FailureKind.EXIT_CODE, "container trainer ended with exit code 3: no input"),
    ("segmentation_fault", FailureKind.EXIT_CODE, "container trainer ended with exit code 139, SIGSEGV"),
    ("init_container", FailureKind.EXIT_CODE, "container fetch ended with exit code 1: bucket not found"),
    (
        "cannot_start",
        FailureKind.EXIT_CODE,
        (
            "container trainer ended with exit code 128 (StartError): failed to create containerd task: "
            'exec: "/bin/trian": stat /bin/trian: no such file or directory'
        ),
    ),
    ("deadline", FailureKind.EXIT_CODE, "the pod ran longer than its activeDeadlineSeconds (DeadlineExceeded)"),
    ("failed_before_it_was_deleted", FailureKind.EXIT_CODE, "container trainer ended with exit code 2"),
    (
        "out_of_memory",
        FailureKind.OUT_OF_MEMORY,
        "a container used more memory than its limit (OOMKilled, container trainer)",
    ),
    ("evicted_by_kubelet", FailureKind.EVICTED, f"the pod was evicted (Evicted): {LOW_MEMORY}"),
    ("evicted_by_api", FailureKind.EVICTED, "the pod was evicted (Evicted): Eviction API: evicting"),
    (
        "preempted_by_scheduler",
        FailureKind.EVICTED,
        "the pod was evicted (Preempting): default-scheduler: preempting to accommodate a higher priority pod",
    ),
    (
        "preempted_by_kubelet",
        FailureKind.EVICTED,
        "the pod was evicted (Preempting): Preempted in order to admit critical pod",
    ),
    (
        "node_removed",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (NodeLost): PodGC: node no longer exists",
    ),
    (
        "node_shutdown",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (Terminated): Pod was terminated in response to imminent node shutdown.",
    ),
    (
        "tainted_node",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (NodeNotReady): Taint manager: deleting due to NoExecute taint",
    ),
    (
        "refused_for_cpu",
        FailureKind.INFRASTRUCTURE,
        (
            "the node or cluster failed (OutOfcpu): Pod was rejected: Node didn't have enough resource: cpu, "
            "requested: 1000, used: 7800, capacity: 8000"
        ),
    ),
    (
        "refused_for_affinity",
        FailureKind.INFRASTRUCTURE,
        (
            "the node or cluster failed (NodeAffinity): Pod was rejected: Predicate NodeAffinity failed: "
            "node(s) didn't match Pod's node affinity/selector"
        ),
    ),
    ("deleted_by_hand", FailureKind.INFRASTRUCTURE, "the node or cluster failed (Deleted)"),
    (
        "unknown_word",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (AcmeDriverNotReady): the driver is not ready",
    ),
]
"""(document, kind of failure, what people are told) of pods that have failed."""

WAITING = [
    (
        "image_pull",
        FailureKind.IMAGE,
        (
            "ErrImagePull, container trainer: rpc error: code = NotFound desc = failed to pull and unpack image "
            '"registry.example.test/trainer:1.4": not found'
        ),
    ),
    (
        "image_back_off",
        FailureKind.IMAGE,
        'ImagePullBackOff, container trainer: Back-off pulling image "registry.example.test/trainer:1.4"',
    ),
    (
        "image_name",
        FailureKind.IMAGE,
        'InvalidImageName, container trainer: Failed to apply default image tag "Trainer:": couldn\'t parse image name',
    ),
    (
        "missing_secret",
        FailureKind.REJECTED,
        'CreateContainerConfigError, container trainer: secret "tokens" not found',
    ),
    (
        "unschedulable",
        FailureKind.INFRASTRUCTURE,
        "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
    ),
]
"""(document, kind of failure if it goes on, what people are told) of pods that wait."""

QUIET = [("new", PodPhase.PENDING), ("running", PodPhase.RUNNING), ("succeeded", PodPhase.SUCCEEDED)]
"""(document, phase) of pods with which nothing is amiss."""


def read(name: str) -> tuple[PodPhase, int, str, Detail]:
    """Return phase, exit code, reason and detail of an example pod."""
    pod = POD.decode((DOCUMENTS / f"{name}.json").read_bytes())
    phase = phase_of(pod.status)
    exit_code, reason = exit_and_reason(pod, phase)
    return phase, exit_code, reason, detail_of(pod, phase, reason) or Detail()


@pytest.mark.parametrize(("name", "kind", "told"), ENDED, ids=[row[0] for row in ENDED])
def test_failed_pod_is_of_its_kind_and_told_in_words(name: str, kind: FailureKind, told: str) -> None:
    """What the job did itself fails it; what its node or cluster did lets it be tried again."""
    phase, exit_code, reason, detail = read(name)
    assert phase == PodPhase.FAILED
    assert failure_of(reason, exit_code) == kind
    assert describe_failure(reason, exit_code, detail) == told


@pytest.mark.parametrize(("name", "kind", "told"), WAITING, ids=[row[0] for row in WAITING])
def test_waiting_pod_fails_of_what_it_waits_for(name: str, kind: FailureKind, told: str) -> None:
    """A name that is wrong is the job's fault, a node that does nothing is not."""
    phase, _, reason, detail = read(name)
    assert phase == PodPhase.PENDING
    assert waiting_failure_of(reason) == kind
    assert describe_wait(reason, detail) == told


@pytest.mark.parametrize(("name", "phase"), QUIET, ids=[row[0] for row in QUIET])
def test_pod_with_which_nothing_is_amiss_gives_no_reason(name: str, phase: PodPhase) -> None:
    """New, running and succeeded pods wait for nothing and have failed of nothing."""
    assert read(name) == (phase, 0, "", Detail())


def test_every_example_pod_is_expected_to_be_something() -> None:
    """No document lies there unread."""
    told = {row[0] for row in (*ENDED, *WAITING, *QUIET)}
    assert told == {path.stem for path in DOCUMENTS.glob("*.json")}


def test_disruptions_are_words_of_the_table() -> None:
    """None of them falls to the last row, which knows nothing."""
    assert set(DISRUPTIONS.values()) <= {word.pattern for word in WORDS}


def test_page_of_failures_shows_the_table() -> None:
    """The table in docs/failures.md is that of the code, row by row and in its order."""

    def name(kind: FailureKind | None) -> str:
        return "by the exit code" if kind is None else kind.name.lower().replace("_", " ")

    rows = [(f"`{word.pattern}`" if word.pattern else "(none)", name(word.ended), name(word.waiting)) for word in WORDS]
    section = FAILURES_PAGE.read_text().partition("## The words of Kubernetes")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, flags=re.MULTILINE)[1:]
    assert [row for row in shown if row[0] != "---"] == rows


@pytest.mark.parametrize(
    ("reason", "exit_code", "kind"),
    [
        ("", 2, FailureKind.EXIT_CODE),
        ("ErrImagePull", 0, FailureKind.IMAGE),
        ("RegistryUnavailable", 0, FailureKind.IMAGE),
        ("NodeShutdown", 143, FailureKind.INFRASTRUCTURE),
        ("Whatever", 0, FailureKind.INFRASTRUCTURE),
        ("Whatever", 3, FailureKind.EXIT_CODE),
    ],
)
def test_word_decides_before_the_exit_code_where_it_is_known(reason: str, exit_code: int, kind: FailureKind) -> None:
    """What a node did shows an exit code as well, that of the kill; a word that nobody knows leaves it to the code."""
    assert failure_of(reason, exit_code) == kind


@pytest.mark.parametrize(
    ("reason", "exit_code", "text"),
    [
        ("Error", 255, "a container ended with exit code 255"),
        ("ContainerCannotRun", 127, "a container ended with exit code 127 (ContainerCannotRun)"),
        ("", 0, "a container ended with a non-zero exit code"),
    ],
)
def test_failure_without_a_container_is_told_in_words(reason: str, exit_code: int, text: str) -> None:
    """Simulated clusters do not name containers."""
    assert describe_failure(reason, exit_code) == text

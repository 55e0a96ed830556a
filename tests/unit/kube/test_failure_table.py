"""The one table of failures, and what it says of pods that could not be recorded.

Recorded pods are read in tests/contract/kube/test_recorded_pods.py. The documents here are of a node that shuts down,
which takes a login manager, and of a vendor's own word; they were written by hand in the shapes of the API reference.
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
    failure_of,
)
from argosy_kube.kubernetes.api.documents import POD
from argosy_kube.kubernetes.reading.details import detail_of
from argosy_kube.kubernetes.reading.pods import exit_and_reason, phase_of
from argosy_kube.port import Detail, PodPhase

DOCUMENTS = Path(__file__).parent / "pod_documents"
FAILURES_PAGE = Path(__file__).parents[3] / "docs" / "failures.md"

ENDED = [
    (
        "node_shutdown",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (Terminated): Pod was terminated in response to imminent node shutdown.",
    ),
    (
        "unknown_word",
        FailureKind.INFRASTRUCTURE,
        "the node or cluster failed (AcmeDriverNotReady): the driver is not ready",
    ),
]
"""(document, kind of failure, what people are told) of pods that have failed."""


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


def test_every_example_pod_is_expected_to_be_something() -> None:
    """No document lies there unread."""
    assert {row[0] for row in ENDED} == {path.stem for path in DOCUMENTS.glob("*.json")}


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
        ("Unknown", 255, FailureKind.INFRASTRUCTURE),
        ("ContainerStatusUnknown", 137, FailureKind.INFRASTRUCTURE),
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

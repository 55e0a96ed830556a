"""Completion of what is typed: names that the server knows, and files."""

from typing import Any

import pytest
from click.shell_completion import BashComplete

from argosy_cli.root import cli


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param("argosy jobs --queue s", {"science"}, id="queue"),
        pytest.param("argosy queue get s", {"science"}, id="queue-argument"),
        pytest.param("argosy jobs --queue science --job-set f", {"first"}, id="job-set"),
        pytest.param("argosy cluster cordon c", {"c1"}, id="cluster"),
        pytest.param("argosy watch science f", {"first"}, id="watch"),
        pytest.param("argosy queue update x --parent s", {"science"}, id="parent-of-a-queue"),
        pytest.param("argosy queue policy get s", {"science"}, id="policy"),
        pytest.param("argosy slurm squeue -p s", {"science"}, id="partition"),
        pytest.param("argosy node get c1 n2", {"n2"}, id="node"),
        pytest.param("argosy jobs --node n2", {"n2"}, id="node-of-any-cluster"),
        pytest.param("argosy explain 0", {"000001"}, id="job"),
        pytest.param("argosy jobs --parent 0", {"000001"}, id="parent-of-a-job"),
        pytest.param("argosy autoscale show 0", {"000001"}, id="resized"),
    ],
)
def test_names_are_completed(
    argosy: Any, job_id: str, monkeypatch: pytest.MonkeyPatch, *, typed: str, expected: set[str]
) -> None:
    """What the server knows is offered where it can stand."""
    argosy("queue", "create", "science")
    assert completed(monkeypatch, typed) == expected


@pytest.mark.parametrize(
    "typed", ["submit x", "submit -f x", "plan x", "apply -f x", "run --script x", "slurm sbatch x", "simulate x"]
)
def test_files_are_completed_where_a_file_can_stand(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    """The shell knows them."""
    words = ["argosy", *typed.split()]
    monkeypatch.setenv("_ARGOSY_COMPLETE", "bash_complete")
    found = BashComplete(cli, {}, "argosy", "_ARGOSY_COMPLETE").get_completions(words[1:-1], words[-1])
    assert [item.type for item in found] == ["file"]


def test_completion_says_nothing_where_no_server_is(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's prompt is no place for errors."""
    assert completed(monkeypatch, "argosy jobs --queue s") == set()


def completed(monkeypatch: pytest.MonkeyPatch, typed: str) -> set[str]:
    """Return what the command offers for the last word."""
    monkeypatch.setenv("_ARGOSY_COMPLETE", "bash_complete")
    words = typed.split()
    found = BashComplete(cli, {}, "argosy", "_ARGOSY_COMPLETE").get_completions(words[1:-1], words[-1])
    return {item.value for item in found}

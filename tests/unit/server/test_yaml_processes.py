"""Tests of reading YAML in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_server.api.submits.manifests import Converted, read_all, to_json
from argosy_server.api.submits.yaml_processes import YamlProcesses

POD = "kind: Pod\nmetadata: {name: \u00e9}\n"


@pytest.fixture(name="yaml", scope="module")
def fixture_yaml() -> Iterator[YamlProcesses]:
    """Processes, ended in the end."""
    processes = YamlProcesses()
    yield processes
    processes.close()


def children() -> set[int]:
    """Return the ids of this process's children."""
    return {int(one) for task in Path("/proc/self/task").iterdir() for one in (task / "children").read_text().split()}


def test_yaml_is_not_read_by_the_interpreter_that_serves(yaml: YamlProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read where this one has no reader at all."""
    monkeypatch.setitem(sys.modules, "argosy_client.yaml_nodes", None)
    with pytest.raises(ImportError):
        read_all([POD])
    manifests, _, violations = to_json([POD.encode(), b"{}"], read=yaml.read)
    assert (manifests, violations) == (['{"kind":"Pod","metadata":{"name":"\u00e9"}}'.encode(), b"{}"], ())


def test_what_is_wrong_comes_back_as_a_fault(yaml: YamlProcesses) -> None:
    """Each text has its own, and the process reads on."""
    read = yaml.read([None, "a: [", POD])
    assert [one.fault.partition(":")[0] for one in read] == ["", "YAML", ""]
    assert read == read_all([None, "a: [", POD])
    assert yaml.read([None]) == [Converted()]


def test_one_process_reads_one_text_after_another(yaml: YamlProcesses) -> None:
    """As many run as there are calls at once, however many there were."""
    yaml.read([POD])
    before = children()
    yaml.read([POD])
    assert children() == before


def test_process_that_ends_is_told_and_replaced() -> None:
    """The call that it read for can be made again; the next one is served."""
    before, yaml = children(), YamlProcesses()
    try:
        yaml.read([POD])
        (process,) = children() - before
        os.kill(process, signal.SIGKILL)
        with pytest.raises(BackendUnavailable):
            yaml.read([POD])
        assert yaml.read([POD])[0].text
    finally:
        yaml.close()
    assert children() == before, "a process is left behind"

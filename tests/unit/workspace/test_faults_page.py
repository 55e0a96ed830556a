"""The page of faults names tests that exist, and what it says of the product at large is so."""

import re
from pathlib import Path

from argosy.api.v1 import access_pb2, cluster_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "FAULTS.md"
NAMED = re.compile(r"`(test_\w+)`")
ROW = re.compile(r"^\| ([RF]?\d+[a-i]?) \| .+ \| (.+) \|$", flags=re.MULTILINE)
WITHOUT_TEST = {"6b", "31b"}
"""Figures, for which there are measurements."""


def test_every_test_that_the_page_of_faults_names_exists() -> None:
    """A test that is renamed or removed takes its line with it; one that moves to another file does not."""
    named = set(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) >= 180
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"\bdef (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert sorted(named - defined) == []


def test_every_fault_has_a_test_or_says_that_it_has_none() -> None:
    """Each has a name of its own, too."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    names = [name for name, _ in rows]
    assert len(names) == len(set(names)) >= 130
    assert {name for name, tests in rows if not NAMED.search(tests)} == WITHOUT_TEST


def test_no_answer_of_the_api_tells_a_clusters_uid() -> None:
    """It is what an executor proves that it speaks for its cluster with; who asks to join says it, and nobody else."""
    modules = (access_pb2, cluster_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2)
    fields = {
        f"{name}.{field}"
        for module in modules
        for name, message in module.DESCRIPTOR.message_types_by_name.items()
        for field in message.fields_by_name
        if "uid" in field
    }
    assert fields == {"JoinClusterRequest.cluster_uid"}


def test_product_cannot_empty_the_tables_of_a_database() -> None:
    """What tests clear between each other stands in the testkit."""
    deleting = re.compile(r"\b(?:TRUNCATE|DROP SCHEMA)\b")
    sources = [
        *(ROOT / "services").glob("*/src"),
        *(one for one in (ROOT / "libs").glob("*/src") if "testkit" not in str(one)),
    ]
    found = [
        str(path.relative_to(ROOT))
        for source in sources
        for path in source.rglob("*.py")
        if deleting.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []

"""Node files and uniform nodes of simulated clusters."""

from __future__ import annotations

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.nodes import Taint
from argosy_kube.simulated.__main__ import main
from argosy_kube.simulated.inventory import format_nodes, make_uniform_nodes, parse_nodes, parse_uniform
from argosy_kube.simulated.recipes import parse_span


def test_parse_uniform_reads_count_and_quantities() -> None:
    """`3125:cpu=32,memory=128Gi` is 3,125 nodes of 32,000 millicores and 128 GiB, with 110 pods."""
    count, amounts = parse_uniform("3125:cpu=32,memory=128Gi")
    assert count == 3125
    assert amounts == {"cpu": 32_000, "memory": 128 << 30, "pods": 110}
    nodes = make_uniform_nodes("c1", 2, amounts)
    assert [node.name for node in nodes] == ["c1-n00000", "c1-n00001"]
    assert nodes[1].labels["kubernetes.io/hostname"] == "c1-n00001"


@pytest.mark.parametrize("text", ["", "x:cpu=1", "0:cpu=1", "3:cpu", "3", "3:cpu=lots", "3:=4"])
def test_parse_uniform_refuses_what_it_cannot_read(text: str) -> None:
    """A bad text is answered with what would be right."""
    with pytest.raises(InvalidRequest):
        parse_uniform(text)


def test_node_file_round_trips() -> None:
    """What is written parses back to the same nodes."""
    document = b"""[{"name": "n1", "allocatable": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 8},
        "labels": {"rack": "r7"}, "taints": [{"key": "gpu", "effect": "NoExecute"}], "unschedulable": true}]"""
    nodes = parse_nodes(document)
    assert nodes[0].allocatable == {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 8, "pods": 110}
    assert nodes[0].taints == (Taint("gpu", "", "NoExecute"),)
    assert nodes[0].labels["rack"] == "r7"
    assert parse_nodes(format_nodes(nodes)) == nodes


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"[", "not a node file"),
        (b'[{"name": "n"}]', "allocatable"),
        (b'[{"name": "n", "allocatable": {"cpu": "x"}}]', "not a quantity"),
        (b'[{"name": "n", "allocatable": {}}, {"name": "n", "allocatable": {}}]', "twice"),
        (b'[{"name": "n", "allocatable": {}, "colour": 1}]', "colour"),
    ],
    ids=["no json", "missing field", "bad quantity", "repeated name", "unknown field"],
)
def test_node_file_errors_say_what_is_wrong(document: bytes, message: str) -> None:
    """A bad file names its fault."""
    with pytest.raises(InvalidRequest, match=message):
        parse_nodes(document)


@pytest.mark.parametrize(
    ("text", "span_us"),
    [
        ("30s", (30_000_000, 30_000_000)),
        ("20s-40s", (20_000_000, 40_000_000)),
        ("250ms", (250_000, 250_000)),
        ("1.5h", (5_400_000_000, 5_400_000_000)),
        ("7", (7_000_000, 7_000_000)),
    ],
)
def test_parse_span_reads_stated_and_drawn_times(text: str, span_us: tuple[int, int]) -> None:
    """A time is stated, or drawn between two."""
    assert parse_span(text) == span_us


@pytest.mark.parametrize("text", ["", "fast", "40s-20s", "-3s", "3 weeks"])
def test_parse_span_refuses_anything_else(text: str) -> None:
    """Anything else is an error."""
    with pytest.raises(InvalidRequest):
        parse_span(text)


def test_main_reports_a_missing_node_file(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there ends the command with a message and status 1."""
    assert main(["--name", "c", "--nodes", "/nonexistent.json", "--listen", "unix:/nowhere"]) == 1
    assert "nonexistent" in capsys.readouterr().err


def test_main_refuses_a_seed_below_zero(capsys: pytest.CaptureFixture[str]) -> None:
    """No generator takes one."""
    with pytest.raises(SystemExit) as end:
        main(["--name", "c", "--uniform", "1:cpu=1", "--listen", "unix:/nowhere", "--seed", "-1"])
    assert end.value.code == 2
    assert "--seed must be 0 or more" in capsys.readouterr().err

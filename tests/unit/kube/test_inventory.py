"""Node files and kinds of nodes of simulated clusters."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.nodes import Taint
from argosy_kube.simulated.__main__ import main
from argosy_kube.simulated.inventory import format_nodes, make_nodes, parse_nodes
from argosy_kube.simulated.node_kinds import parse_node_kinds
from argosy_kube.simulated.recipes import parse_span


def test_node_kinds_read_counts_quantities_labels_and_taints() -> None:
    """`3125:cpu=32,memory=128Gi` is 3,125 nodes of 32,000 millicores and 128 GiB, with 110 pods; kinds follow `;`."""
    large = "1:cpu=96,memory=1Ti,gpu=8,label:model=A100,taint:gpu=yes:NoExecute"
    kinds = parse_node_kinds(f"3125:cpu=32,memory=128Gi; {large}")
    assert [kind.count for kind in kinds] == [3125, 1]
    assert kinds[0].allocatable == {"cpu": 32_000, "memory": 128 << 30, "pods": 110}
    assert kinds[1].allocatable == {"cpu": 96_000, "memory": 1 << 40, "nvidia.com/gpu": 8, "pods": 110}
    nodes = make_nodes("c1", [replace(kinds[0], count=2), kinds[1]])
    assert [node.name for node in nodes] == ["c1-n00000", "c1-n00001", "c1-n00002"]
    assert nodes[1].labels["kubernetes.io/hostname"] == "c1-n00001"
    assert nodes[2].labels["model"] == "A100"
    assert nodes[2].taints == (Taint("gpu", "yes", "NoExecute"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not COUNT:RESOURCE=QUANTITY"),
        ("x:cpu=1", "is not COUNT:RESOURCE=QUANTITY"),
        ("0:cpu=1", "is not COUNT:RESOURCE=QUANTITY"),
        ("3", "is not COUNT:RESOURCE=QUANTITY"),
        ("3:cpu", "'cpu' is not RESOURCE=QUANTITY, as cpu=32"),
        ("3:=4", "'=4' is not RESOURCE=QUANTITY"),
        ("3:cpu=lots,memory=1Gi", "lots"),
        ("3:memory=1Gi", "says no cpu; add for example cpu=32"),
        ("3:cpu=4", "says no memory; add for example memory=128Gi"),
        ("3:cores=32,memory=1Gi", "'cores' in 'cores=32' is no resource of a node; did you mean cpu?"),
        ("3:cpu=32,memroy=1Gi", "did you mean memory?"),
        ("3:cpu=32,memory=128GB", "did you mean 128G or 128Gi?"),
        ("3:cpu=32,memory=1Gi,wheels=4", "devices have a domain, as example.com/device"),
        ("3:cpu=32,cpu=4,memory=1Gi", "cpu stands twice"),
        ("3:cpu=4,memory=1Gi,label:rack", "is not label:KEY=VALUE"),
        ("3:cpu=4,memory=1Gi,taint:a=b:NoSched", "did you mean NoSchedule?"),
        ("600000:cpu=4,memory=1Gi;600000:cpu=4,memory=1Gi", "are 1,200,000 nodes"),
    ],
)
def test_node_kinds_that_cannot_be_read_are_told_what_would_be_right(text: str, message: str) -> None:
    """A bad text is answered with the part that is wrong, and what would be right."""
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        parse_node_kinds(text)


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
        main(["--name", "c", "--kinds", "1:cpu=1", "--listen", "unix:/nowhere", "--seed", "-1"])
    assert end.value.code == 2
    assert "--seed must be 0 or more" in capsys.readouterr().err

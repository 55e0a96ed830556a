"""`argosy submit --sweep`: a document for each combination of values."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy_client.sweeps import read_sweeps
from argosy_core.errors import InvalidRequest
from argosy_testkit.fake_api import FakeApi

TEMPLATE = """\
queue: q
jobSet: sweep
clientId: night
spec:
  manifests:
    - kind: Pod
      apiVersion: v1
      spec: {containers: [{name: main, image: i, args: [--lr, "{{lr}}", --seed, "{{ seed }}"]}]}
"""


def test_combinations_are_the_product_of_values_ranges_and_rows(tmp_path: Path) -> None:
    """Rows of a file stay together; everything else is combined with everything."""
    path = tmp_path / "grid.csv"
    path.write_text('lr,name\n0.1,"a, b"\n0.2,c\n')
    assert read_sweeps([str(path), "seed=1..3:2"]) == [
        {"lr": "0.1", "name": "a, b", "seed": "1"},
        {"lr": "0.1", "name": "a, b", "seed": "3"},
        {"lr": "0.2", "name": "c", "seed": "1"},
        {"lr": "0.2", "name": "c", "seed": "3"},
    ]
    assert read_sweeps(['x="a,b",c']) == [{"x": "a,b"}, {"x": "c"}]


def test_each_combination_is_a_job_with_its_values_in_place_and_as_labels(
    api: FakeApi, argosy: Any, tmp_path: Path
) -> None:
    """Jobs are found by their values, and repeating the command makes none twice."""
    path = tmp_path / "job.yaml"
    path.write_text(TEMPLATE)
    sweep = ("submit", str(path), "--sweep", "lr=0.1,0.2", "--sweep", "seed=1..3")
    assert argosy(*sweep).out.startswith("6 jobs accepted in q/sweep")
    request = api.requests["SubmitJobs"][0]
    arguments = [json.loads(one.manifests[0])["spec"]["containers"][0]["args"] for one in request.specs]
    assert [(args[1], args[3]) for args in arguments] == [(lr, s) for lr in ("0.1", "0.2") for s in "123"]
    assert dict(request.items[5].labels) == {"sweep.lr": "0.2", "sweep.seed": "3"}
    assert len({item.client_id for item in request.items}) == 6
    assert "all 6 existed already" in argosy(*sweep).err
    printed = json.loads(argosy(*sweep, "--dry-run", "-o", "json").out)
    assert len(printed) == 6


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        (["lr=1"], "job.yaml:8: {{seed}} has no value"),
        (["lr=1", "seed=1", "sed=2"], "nothing says {{sed}}, of which --sweep gives values; did you mean seed?"),
        (["lr=1", "lr=2", "seed=1"], "gives lr twice"),
        (["lr=1,,2", "seed=1"], "an empty value"),
        (["lr=5..1", "seed=1"], "is no range"),
        (["lr=1..200", "seed=1..51"], "makes 10,200 combinations, at most 10,000"),
        (["nope.csv"], "is neither NAME=VALUES nor a file that can be read"),
    ],
)
def test_wrong_sweeps_are_named(argosy: Any, tmp_path: Path, sweeps: list[str], said: str) -> None:
    """A variable without a value would go to the cluster as it stands, a value without a variable nowhere."""
    path = tmp_path / "job.yaml"
    path.write_text(TEMPLATE)
    outcome = argosy("submit", str(path), *(word for one in sweeps for word in ("--sweep", one)))
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.parametrize(
    ("text", "said"),
    [("a b\n1\n", ":1: a b is no name"), ("a,b\n1\n", "row 2 has 1 values"), ("a\n", "needs a heading")],
)
def test_wrong_rows_are_named(tmp_path: Path, text: str, said: str) -> None:
    """The file's line says what to mend."""
    path = tmp_path / "grid.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=said):
        read_sweeps([str(path)])

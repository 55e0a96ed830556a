"""`argosy slurm`: what somebody types who comes from there."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from argosy_cli.commands.slurm import memory_text, seconds_of
from argosy_testkit.fake_api import FakeApi

SCRIPT = """#!/bin/sh
#SBATCH --job-name=Train_Net
#SBATCH -c 4 --mem=8G   # a note
#SBATCH --time=1-02:30
#SBATCH --gres=gpu:a100:2

# the work
train $1
#SBATCH --mem=999G
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A script with options of its own."""
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


def test_day_of_a_slurm_user(api: FakeApi, argosy: Any, script: str) -> None:
    """Submit, look, submit what comes after, end it: the words are the same."""
    submitted = argosy("slurm", "sbatch", "-p", "science", "--mem", "16G", script, "--fast")
    assert (submitted.code, submitted.err) == (0, "")
    assert submitted.out.startswith("Submitted batch job 0")
    job_id = submitted.out.split()[-1]
    (item,) = api.requests["SubmitJobs"][0].items
    assert (item.queue, item.time_limit.seconds, item.job_set.rpartition("-")[0]) == ("science", 95_400, "train-net")
    config_map, pod = (json.loads(text) for text in next(iter(api.jobs.values())).spec.manifests)
    (container,) = pod["spec"]["containers"]
    assert config_map["data"]["train.sh"] == SCRIPT
    assert container["command"] == ["/argosy/train.sh", "--fast"]
    assert container["resources"]["requests"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 2}

    after = argosy("slurm", "sbatch", "--parsable", "-d", f"afterany:{job_id}", "--wrap", "echo done").out.strip()
    (item,) = api.requests["SubmitJobs"][1].items
    assert [one[-6:] for one in item.after.job_ids] == [job_id]
    listed = argosy("slurm", "squeue", "-p", "science").out.splitlines()
    assert listed[0].split() == ["JOBID", "PARTITION", "NAME", "ST", "TIME", "NODES", "NODELIST(REASON)"]
    assert listed[1].split()[:4] == [job_id, "science", item_set(api, 0), "PD"]
    assert listed[1].endswith("(Resources)")  # the fake's wait reason
    assert argosy("slurm", "scancel", job_id, after).code == 0
    assert all(job.cancel_requested for job in api.jobs.values())
    assert argosy("slurm", "sinfo").out.splitlines()[1].split() == ["c1", "up", "3", "idle"]


@pytest.mark.parametrize("root", [False, True])
def test_root_gives_a_job_the_user_of_its_image(api: FakeApi, argosy: Any, *, root: bool) -> None:
    """Without it pods keep to the level restricted, as those of `argosy run`."""
    assert argosy("slurm", "sbatch", "--wrap", "id", *(["--root"] if root else [])).code == 0
    (pod,) = (json.loads(text) for text in next(iter(api.jobs.values())).spec.manifests)
    (container,) = pod["spec"]["containers"]
    assert ("securityContext" in pod["spec"], "securityContext" in container) == (not root, not root)


def item_set(api: FakeApi, number: int) -> str:
    """Return the job set of a submit."""
    return str(api.requests["SubmitJobs"][number].items[0].job_set)


def test_array_has_its_index_under_slurms_name(api: FakeApi, argosy: Any) -> None:
    """The variable is made of ours, so it stands behind it."""
    argosy("slurm", "sbatch", "-a", "3-4", "--wrap", "work")
    pods = [json.loads(job.spec.manifests[0]) for job in api.jobs.values()]
    for pod, index in zip(pods, ("3", "4"), strict=True):
        names = [one["name"] for one in pod["spec"]["containers"][0]["env"]]
        values = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
        assert (values["ARGOSY_ARRAY_INDEX"], values["SLURM_ARRAY_TASK_ID"]) == (index, "$(ARGOSY_ARRAY_INDEX)")
        assert names.index("ARGOSY_ARRAY_INDEX") < names.index("SLURM_ARRAY_TASK_ID")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--nodes", "2", "--wrap", "x"), id="nodes"),
        pytest.param(("--exclusive", "--wrap", "x"), id="unknown-option"),
        pytest.param(("--dependency", "singleton", "--wrap", "x"), id="dependency"),
        pytest.param((), id="nothing"),
        pytest.param(("no-such-file.sh",), id="no-file"),
    ],
)
def test_option_without_a_meaning_here_is_refused(api: FakeApi, argosy: Any, arguments: tuple[str, ...]) -> None:
    """Nothing is left out in silence."""
    assert argosy("slurm", "sbatch", *arguments).code == 2
    assert api.jobs == {}


def test_unknown_option_in_a_script_is_refused(api: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """The same in the script's own lines."""
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n#SBATCH --reservation=x\ntrue\n")
    outcome = argosy("slurm", "sbatch", str(path))
    assert (outcome.code, "--reservation" in outcome.err, api.jobs) == (2, True, {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("30:15", 1815), ("2:30:15", 9015), ("1-2", 93_600), ("1-2:30", 95_400), ("1-2:30:15", 95_415)],
)
def test_times_mean_what_they_mean_there(text: str, seconds: int) -> None:
    """One number is minutes; behind days it is hours."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(("text", "quantity"), [("4000", "4000Mi"), ("4G", "4Gi"), ("512k", "512Ki"), ("1T", "1Ti")])
def test_memory_means_what_it_means_there(text: str, quantity: str) -> None:
    """Without a unit it is megabytes."""
    assert memory_text(text) == quantity


@pytest.mark.parametrize("text", ["0", "", "1h", "1:2:3:4"])
def test_time_that_is_none_is_refused(text: str) -> None:
    """A limit that bounds nothing, or another form."""
    with pytest.raises(click.BadParameter):
        seconds_of(text)

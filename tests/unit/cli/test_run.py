"""`argosy run`: what it submits, shows and ends with."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from argosy.api.v1 import job_pb2
from argosy_cli.commands import logs
from argosy_cli.commands.run import read_array
from argosy_core.job.reading.group_spec import read_group_bag
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_testkit.fake_api import FakeApi


@pytest.fixture
def ended(api: FakeApi) -> FakeApi:
    """A server whose jobs have ended well as soon as they are submitted."""
    api.submitted_state = job_pb2.JOB_STATE_SUCCEEDED
    api.submitted_runs = [job_pb2.Run(attempt=1, state=job_pb2.RUN_STATE_SUCCEEDED, exit_code=0)]
    return api


def bags(api: FakeApi) -> list[list[dict[str, Any]]]:
    """Return the manifests of each job, after seeing that a server takes them without a word."""
    found = []
    for job in api.jobs.values():
        bag = read_bag([manifest.encode() for manifest in job.spec.manifests], SpecLimits())
        assert (bag.violations, bag.field_faults, bag.warnings) == ((), (), ())
        found.append([json.loads(manifest) for manifest in job.spec.manifests])
    return found


def test_run_needs_no_manifest_and_shows_the_log(ended: FakeApi, argosy: Any) -> None:
    """The command behind `--` is the container's, options of its own included."""
    outcome = argosy("run", "python:3.12", "--cpu", "4", "--mem", "2Gi", "--gpu", "1", "--", "python", "-c", "print(1)")

    assert (outcome.code, outcome.out) == (0, "first line\nsecond line\n")
    ((pod,),) = bags(ended)
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["command"]) == ("python:3.12", ["python", "-c", "print(1)"])
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": 1},
        "limits": {"memory": "2Gi", "nvidia.com/gpu": 1},
    }


def test_run_keeps_to_the_level_restricted_unless_root_is_wanted(ended: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """Any queue takes what it makes, a script included; `--root` leaves user and rights to the image."""
    script = tmp_path / "work.sh"
    script.write_text("#!/bin/sh\n")
    assert argosy("run", "--script", str(script)).code == 0
    assert argosy("run", "--root", "--", "true").code == 0
    limits = replace(SpecLimits(), rights=PodRights(level=PodLevel.RESTRICTED))
    modest, root = (
        read_bag([json.dumps(manifest).encode() for manifest in bag], limits).violations for bag in bags(ended)
    )
    assert modest == ()
    assert {one.field.rpartition(".")[2] for one in root} >= {"runAsNonRoot", "drop"}


def test_run_has_a_default_image_and_makes_the_default_queue(ended: FakeApi, argosy: Any) -> None:
    """A newcomer needs one command; a queue that was named and is not there is an error."""
    ended.needs_queues = True
    assert argosy("run", "--", "true").code == 0
    assert list(ended.queues) == ["default"]
    ((pod,),) = bags(ended)
    assert pod["spec"]["containers"][0]["image"] == "busybox:1.36"
    missing = argosy("run", "--queue", "nope", "--", "true")
    assert (missing.code, "nope" in missing.err, list(ended.queues)) == (125, True, ["default"])


def test_fault_of_the_machine_is_125_and_help_is_none(
    ended: FakeApi, argosy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command did not do never has a code that it might have."""

    def submitting_ends_with(fault: Exception) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise fault

        monkeypatch.setattr("argosy_cli.commands.run.submit_drafts", fail)
        return argosy("run", "--", "true")

    outcome = submitting_ends_with(OSError("no space left"))
    assert (outcome.code, "no space left" in outcome.err) == (125, True)
    assert submitting_ends_with(KeyError("a fault of ours")).code == 125
    assert argosy("run", "--help").code == 0
    assert not ended.jobs


@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [
        pytest.param(job_pb2.JOB_STATE_FAILED, 7, 7, id="exit-code"),
        pytest.param(job_pb2.JOB_STATE_FAILED, None, 125, id="no-exit-code"),
        pytest.param(job_pb2.JOB_STATE_CANCELLED, None, 125, id="cancelled"),
    ],
)
def test_run_ends_as_its_command_did(
    api: FakeApi, argosy: Any, *, state: Any, exit_code: int | None, code: int
) -> None:
    """The command's exit code is passed on; 125 stands for everything that is not the command's doing."""
    api.submitted_state = state
    api.submitted_runs = [job_pb2.Run(attempt=1, state=job_pb2.RUN_STATE_FAILED, exit_code=exit_code)]
    assert argosy("run", "--", "false").code == code


def test_run_of_several_members_ends_as_the_one_that_failed(api: FakeApi, argosy: Any) -> None:
    """The others were only stopped with it, and what they end with then is not the command's doing."""
    api.submitted_state = job_pb2.JOB_STATE_FAILED
    states = ((job_pb2.RUN_STATE_CANCELLED, 0), (job_pb2.RUN_STATE_FAILED, 3), (job_pb2.RUN_STATE_CANCELLED, 0))
    api.submitted_runs = [
        job_pb2.Run(attempt=1, member=member, state=state, exit_code=exit_code)
        for member, (state, exit_code) in enumerate(states)
    ]
    for run in api.submitted_runs:
        run.end_time.FromSeconds(1_800_000_000)
    assert argosy("run", "--members", "3", "--", "false").code == 3


def test_run_says_why_it_waits(api: FakeApi, argosy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that nothing can hold would otherwise wait without a word; the reason is said once, not at every look."""
    monkeypatch.setattr(logs, "_POLL_S", 0.0)
    asked: list[str] = []

    def end(job_id: str) -> None:
        asked.append(job_id)
        if len(asked) == 3:
            job = api.jobs[job_id]
            job.state = job_pb2.JOB_STATE_SUCCEEDED
            job.runs.add(attempt=1, state=job_pb2.RUN_STATE_SUCCEEDED, exit_code=0)

    api.when_explained = end
    outcome = argosy("run", "--", "true")
    assert outcome.code == 0
    assert outcome.err.count("It waits for room. (c1/n7 lacks 2 cpu)") == 1


def test_run_begins_after_others(ended: FakeApi, argosy: Any) -> None:
    """The end of an id is enough."""
    first = argosy("run", "-d", "--", "true").out.strip()
    assert argosy("run", "-d", "--after", first[-6:], "--", "true").code == 0
    assert list(ended.requests["SubmitJobs"][-1].items[0].after.job_ids) == [first]


def test_array_is_a_job_for_each_index_in_one_job_set(ended: FakeApi, argosy: Any) -> None:
    """The index is in the environment, in the pod's name and in a label."""
    outcome = argosy("run", "--array", "0-4:2", "--name", "sweep", "-d", "--", "work")

    assert outcome.out.split() == list(ended.jobs)
    pods = [pod for (pod,) in bags(ended)]
    assert [pod["metadata"]["name"] for pod in pods] == ["sweep-0", "sweep-2", "sweep-4"]
    assert [{one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]} for pod in pods] == [
        {"ARGOSY_ARRAY_INDEX": index, "ARGOSY_ARRAY_COUNT": "3"} for index in "024"
    ]
    assert [job.labels["array-index"] for job in ended.jobs.values()] == ["0", "2", "4"]
    assert len({job.job_set for job in ended.jobs.values()}) == 1


def test_script_travels_in_a_config_map(ended: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """It is made executable, and what stands behind `--` are its arguments; what is too large is refused."""
    script = tmp_path / "work.sh"
    script.write_text("#!/bin/sh\necho $1\n")
    assert argosy("run", "--script", str(script), "--env", "A=b=c", "--", "one").code == 0

    ((config_map, pod),) = bags(ended)
    (container,) = pod["spec"]["containers"]
    assert config_map["data"] == {"work.sh": script.read_text()}
    assert container["command"] == ["/argosy/work.sh", "one"]
    assert container["env"] == [{"name": "A", "value": "b=c"}]
    assert pod["spec"]["volumes"][0]["configMap"] == {"name": config_map["metadata"]["name"], "defaultMode": 0o555}
    script.write_bytes(b"x" * 200_001)
    refused = argosy("run", "--script", str(script))
    assert (refused.code, "at most 200,000 travel along" in refused.err) == (125, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param((), "there is nothing to run", id="nothing"),
        pytest.param(("--env", "A", "--", "true"), "is no NAME=VALUE", id="env"),
        pytest.param(("--name", "A_b", "--", "true"), "--name 'A_b' must be", id="name"),
        pytest.param(("--cpu", "four", "--", "true"), "'four' is no number of cores", id="value"),
        pytest.param(("--gpu", "-1", "--", "true"), "'--gpu'", id="range"),
        pytest.param(("--cpus", "4", "--", "true"), "--cpus", id="no-option"),
        pytest.param(("--script", "absent.sh"), "absent.sh", id="no-file"),
        pytest.param(("busybox", "true"), "(true)", id="no-dashes"),
    ],
)
def test_own_mistake_is_125(ended: FakeApi, argosy: Any, arguments: tuple[str, ...], text: str) -> None:
    """What cannot be submitted is said, and is no exit code that a command would have."""
    outcome = argosy("run", *arguments)
    assert (outcome.code, text in outcome.err) == (125, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("--bad", "run", "--", "jobs"), 125, id="no-option"),
        pytest.param(("--bad", "value", "run", "--", "jobs"), 125, id="no-option-with-a-value"),
        pytest.param(("--server", "jobs", "--timeout", "x", "run", "--", "true"), 125, id="value"),
        pytest.param(("-o", "xml", "run", "--", "true"), 125, id="short"),
        pytest.param(("--timeout", "run", "--", "true"), 125, id="no-value"),
        pytest.param(("--server",), 2, id="no-command"),
        pytest.param(("--bad", "jobs", "run"), 2, id="another-command"),
        pytest.param(("--server", "run", "--bad", "jobs"), 2, id="run-is-a-value"),
        pytest.param(("--bad", "--", "run"), 2, id="behind-the-dashes"),
    ],
)
def test_mistake_before_run_is_125_and_before_others_2(offline: Any, arguments: tuple[str, ...], code: int) -> None:
    """Global options that are wrong are our failure, too; for commands that pass nothing on they are wrong usage."""
    outcome = offline(*arguments)
    assert (outcome.code, "Error: " in outcome.err) == (code, True)


@pytest.mark.parametrize(
    ("text", "indices"),
    [("7", [7]), ("0-3", [0, 1, 2, 3]), ("5,1,5", [5, 1]), ("0-10:5", [0, 5, 10])],
)
def test_array_names_its_indices(text: str, indices: list[int]) -> None:
    """Single ones, ranges and steps, each index once; behind a percent sign, how many run at once."""
    assert read_array(text) == (tuple(indices), 0)
    assert read_array(f"{text}%10") == (tuple(indices), 10)


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-99%0", "0-99%x", "0-99%", "0-99%1%1", "0-20000", "1-5:0"])
def test_array_that_means_nothing_is_refused(offline: Any, text: str) -> None:
    """Empty, backwards, endless, or a form that there is not."""
    assert offline("run", "--array", text, "--", "true").code == 125


def test_run_on_several_pods_is_one_job_with_a_group(ended: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """The pods begin together, on whole nodes unless told otherwise; a script is an object of each."""
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    assert argosy("run", "--name", "train", "--members", "4", "--script", str(script)).code == 0
    assert argosy("run", "--members", "2", "--share-nodes", "--", "true").code == 0
    first, second = (job.spec for job in ended.jobs.values())
    (group,) = first.groups
    assert (group.name, group.min, group.max, group.shares_nodes) == ("train", 4, 4, False)
    assert [json.loads(manifest)["kind"] for manifest in first.manifests] == ["ConfigMap"]
    assert second.groups[0].shares_nodes
    for spec in (first, second):
        groups = [
            PodGroup(name=one.name, minimum=one.min, maximum=one.max, template=one.template) for one in spec.groups
        ]
        bag = read_group_bag([manifest.encode() for manifest in spec.manifests], groups, SpecLimits())
        assert (bag.violations, bag.field_faults, bag.warnings) == ((), (), ())
    assert argosy("run", "--members", "2-8", "--member-failure", "replace", "--", "true").code == 0
    third = list(ended.jobs.values())[-1].spec
    assert (third.groups[0].min, third.groups[0].max) == (2, 8)
    assert third.member_failure == job_pb2.MEMBER_FAILURE_REPLACE
    for wrong in ("0", "8-2", "2-1001", "many"):
        assert argosy("run", "--members", wrong, "--", "true").code == 125
    assert argosy("run", "--member-failure", "replace", "--", "true").code == 125
    refused = argosy("run", "--share-nodes", "--", "true")
    assert (refused.code, "--members" in refused.err) == (125, True)


def test_job_that_nothing_can_hold_is_told_at_once(ended: FakeApi, argosy: Any) -> None:
    """The server's warnings are shown, so that nobody waits for what never comes."""
    ended.warnings = [job_pb2.SubmitWarning(field="specs[0]", description="no node can ever hold it")]
    assert "warning: no node can ever hold it" in argosy("run", "--cpu", "400", "--detach", "--", "true").err


def test_distributed_job_that_was_printed_can_be_submitted_again(ended: FakeApi, argosy: Any, tmp_path: Path) -> None:
    """What `jobs ID -o json` prints of groups is what a document says of them."""
    assert argosy("run", "--members", "4", "--share-nodes", "--", "true").code == 0
    (job,) = list(ended.jobs.values())
    job.spec.retry.CopyFrom(
        job_pb2.RetryRules(
            max_failed_runs=3,
            by_kind=[job_pb2.FailureLimit(kind=job_pb2.FAILURE_KIND_EXIT_CODE, max_failed_runs=2)],
            first_back_off=Duration(seconds=10),
            back_off_factor=1.5,
        )
    )
    job.spec.node_lost.replace_after.FromSeconds(90)
    job.spec.executor_lost.stop_after.FromSeconds(600)
    printed = tmp_path / "job.json"
    printed.write_text(argosy("jobs", job.id, "-o", "json").out)
    assert argosy("submit", str(printed)).code == 0
    groups = [group for other in ended.jobs.values() for group in other.spec.groups]
    assert [(one.name, one.min, one.max, one.shares_nodes) for one in groups] == [("run", 4, 4, True)] * 2
    assert json.loads(groups[0].template) == json.loads(groups[1].template)
    assert [other.spec.retry for other in ended.jobs.values()] == [job.spec.retry] * 2
    assert [other.spec.node_lost for other in ended.jobs.values()] == [job.spec.node_lost] * 2
    assert [other.spec.executor_lost for other in ended.jobs.values()] == [job.spec.executor_lost] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cpu", "x"), "'x' is no number of cores; write 4, 0.5 or 500m"),
        (("--mem", "5"), "5 would be bytes; write 5Gi or 5Mi"),
        (("--mem", "5 GB"), "is no amount of memory; write 2Gi or 512Mi"),
    ],
)
def test_wrong_amounts_are_named_by_their_options(argosy: Any, options: tuple[str, str], said: str) -> None:
    """Nobody has to know where an option stands in the manifest that is made of it."""
    outcome = argosy("run", *options, "--", "echo")
    assert outcome.code == 125
    assert options[0] in outcome.err
    assert said in " ".join(outcome.err.split())


def test_array_says_how_many_of_its_jobs_run_at_once(ended: FakeApi, argosy: Any) -> None:
    """Each job says it for its job set, which is the array's own; without a percent sign none does."""
    assert argosy("run", "-d", "--array", "0-2%2", "--", "true").code == 0
    assert argosy("run", "-d", "--array", "0-1", "--", "true").code == 0
    items = [item for request in ended.requests["SubmitJobs"] for item in request.items]
    assert [item.job_set_limit for item in items] == [2, 2, 2, 0, 0]
    assert len({item.job_set for item in items}) == 2


def test_autoscale_says_how_many_times_its_size_a_pod_may_have(ended: FakeApi, argosy: Any) -> None:
    """In steps of the least; the server takes what is made of it."""
    assert argosy("run", "-d", "--cpu", "500m", "--mem", "1Gi", "--autoscale", "0.5-8", "--", "true").code == 0
    (item,) = ended.requests["SubmitJobs"][0].items
    least, most = job_pb2.ScaledAmounts(cpu="250m", memory="512Mi"), job_pb2.ScaledAmounts(cpu="4", memory="8Gi")
    assert item.scaling == job_pb2.ScalingPolicy(min=least, max=most, unit=least)


@pytest.mark.parametrize("options", [("8",), ("2-8",), ("0-8",), ("0.5-0.9",), ("1-8", "--members", "2")])
def test_autoscale_that_cannot_be_is_refused_before_anything_is_sent(
    ended: FakeApi, argosy: Any, options: tuple[str, ...]
) -> None:
    """A pod begins with its size, so the range holds it; and it is the only pod of its job."""
    outcome = argosy("run", "--autoscale", *options, "--", "true")
    assert (outcome.code, "--autoscale" in outcome.err, ended.requests["SubmitJobs"]) == (125, True, [])


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([("items[0].time_limit", "must be shorter")], "error: --time: must be shorter\n"),
        ([("items[0].surplus", "is odd")], "error: surplus: is odd\n"),
        (
            [
                (f"specs[0].manifests[1].spec.containers[0].resources.{what}.memory", "is too large")
                for what in ("requests", "limits")
            ],
            "error: --mem: is too large\n",
        ),
        ([("specs[0].manifests", "asks for too much")], "error: the job: asks for too much\n"),
        (
            [("items[0].queue", "is no name"), ("specs[0].manifests[0].metadata.name", "is taken")],
            "error: nothing was submitted because of 2 faults\n  --queue: is no name\n  --name: is taken\n",
        ),
        ([("page_size", "is odd")], "error: not now\n  page_size: is odd\n"),
    ],
)
def test_refusal_names_the_options_that_were_typed(
    api: FakeApi, argosy: Any, told: list[tuple[str, str]], said: str
) -> None:
    """Nobody who types a command has seen the fields that it makes of its options."""
    api.failures["SubmitJobs"].append(grpc.StatusCode.INVALID_ARGUMENT)
    api.violations = told
    outcome = argosy("run", "--", "true")
    assert (outcome.code, outcome.err) == (125, said)


def test_refusal_of_a_slurm_command_names_its_own_options(api: FakeApi, argosy: Any) -> None:
    """What is `--queue` elsewhere is a partition there."""
    api.failures["SubmitJobs"].append(grpc.StatusCode.INVALID_ARGUMENT)
    api.violations = [("items[0].queue", "is no name")]
    outcome = argosy("slurm", "sbatch", "--partition", "a b", "--wrap", "true")
    assert (outcome.code, outcome.err) == (2, "error: --partition: is no name\n")


def test_image_that_no_registry_could_have_is_refused_before_anything_is_sent(api: FakeApi, argosy: Any) -> None:
    """Its job would wait for a pull that never succeeds."""
    outcome = argosy("run", "busy box", "--", "true")
    assert (outcome.code, "'busy box' is no image" in outcome.err, api.jobs) == (125, True, {})

"""Commands against a server: what they send, what they print, what they end with."""

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import event_pb2, job_pb2
from argosy_cli.output import shown, state_text, time_text
from argosy_testkit.fake_api import FakeApi
from argosy_testkit.fake_clusters import SCALED_JOB

UNKNOWN_ID = "01890000-0000-7000-8000-00000000ffff"


def test_queue_commands_make_show_change_and_delete(api: FakeApi, argosy: Any) -> None:
    """A queue's whole life by command."""
    made = argosy("queue", "create", "science", "--weight", "2")
    changed = argosy("queue", "update", "science", "--max-queued", "5", "--parent", "all", "--max-running", "3")
    limited = argosy("queue", "update", "science", "--max-amount", "cpu=64", "--max-amount", "memory=1Ti")
    assert argosy("queue", "update", "science", "--max-amount", "cpu").code == 2
    rated = argosy("queue", "update", "science", "--submit-rate", "2.5", "--lease-rate", "0.1")
    assert ("most submits a second: 2.5" in rated.out, "most leases a second:  0.1" in rated.out) == (True, True)
    assert list(api.requests["UpdateQueue"][-1].update_mask.paths) == ["submit_rate_per_s", "lease_rate_per_s"]
    urgent = argosy("queue", "update", "science", "--preempts-unexpired", "--preempts-endless")
    assert "work not past its lifetime, work without a lifetime" in urgent.out
    assert "work without" not in argosy("queue", "update", "science", "--spares-endless").out
    assert {"SUBMITS/S", "LEASES/S"} <= set(argosy("queue", "list", "-o", "wide").out.split())
    argosy("queue", "cordon", "science", "--reason", "repair")
    listed = argosy("queue", "list")
    deleted = argosy("queue", "delete", "science")

    assert (made.code, changed.code, listed.code, deleted.code) == (0, 0, 0, 0)
    assert "most running jobs: 3" in changed.out
    assert "cpu=64, memory=1Ti" in limited.out
    assert made.out.splitlines()[:2] == ["name:     science", "weight:   2"]
    assert (api.requests["UpdateQueue"][0].queue.weight, api.requests["UpdateQueue"][0].queue.etag) == (2, "1")
    assert listed.out.splitlines()[0].split() == ["NAME", "WEIGHT", "PARENT", "CORDONED", "AGE"]
    assert listed.out.splitlines()[1].split()[:5] == ["science", "2", "all", "yes", "(repair)"]
    assert api.queues == {}


@pytest.mark.parametrize(
    ("form", "read"),
    [
        pytest.param("json", json.loads, id="json"),
        pytest.param("yaml", yaml.safe_load, id="yaml"),
        pytest.param("jsonl", lambda text: [json.loads(line) for line in text.splitlines()], id="jsonl"),
    ],
)
@pytest.mark.parametrize("place", ["before the command", "behind it"])
def test_every_form_for_programs_carries_all_fields(argosy: Any, form: str, read: Any, place: str) -> None:
    """-o may stand before or behind the command, and nothing is left out or put into tables."""
    argosy("queue", "create", "a", "--weight", "2", "--namespace", "x")
    argosy("queue", "create", "b")

    outcome = (
        argosy("-o", form, "queue", "list") if place == "before the command" else argosy("queue", "list", "-o", form)
    )

    documents = read(outcome.out)
    assert [document["name"] for document in documents] == ["a", "b"]
    assert documents[0]["weight"] == 2.0
    assert documents[0]["namespaces"] == ["x"]
    assert documents[0]["createTime"] == "2023-11-14T22:13:20.000Z"


def test_wide_tables_have_more_columns(argosy: Any) -> None:
    """-o wide shows what does not fit a narrow table."""
    assert "POOLS" in argosy("cluster", "list", "-o", "wide").out
    assert "UID" not in argosy("cluster", "list").out


def test_cancel_by_id_needs_no_confirmation(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Whoever names a job means it; an id that names nothing is exit code 3."""
    outcome = argosy("cancel", job_id, UNKNOWN_ID, "--reason", "enough")

    assert outcome.code == 3
    assert "asked to cancel 1 job" in outcome.out
    assert f"there is no job {UNKNOWN_ID}" in outcome.err
    assert api.jobs[job_id].cancel_requested


def test_cancel_by_selector_asks_first(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Without a terminal to ask at, -y is needed; --dry-run only looks."""
    unsure = argosy("cancel", "--queue", "science")
    looked = argosy("cancel", "--queue", "science", "--dry-run")

    assert (unsure.code, looked.code) == (2, 0)
    assert "would cancel 1 job; confirm with -y" in unsure.err
    assert "would cancel 1 job" in looked.out
    assert not api.jobs[job_id].cancel_requested

    sure = argosy("cancel", "--queue", "science", "-y")

    assert sure.code == 0
    assert api.jobs[job_id].cancel_requested


def test_reprioritize_gives_another_priority(api: FakeApi, argosy: Any, job_id: str) -> None:
    """By selector with -y."""
    outcome = argosy("reprioritize", "--queue", "science", "--priority", "-7", "-y")

    assert outcome.code == 0
    assert api.jobs[job_id].priority == -7


def test_preempt_shows_what_it_means_and_asks_for_it(api: FakeApi, argosy: Any, job_id: str) -> None:
    """A look changes nothing."""
    assert "would preempt 1 job" in argosy("preempt", "--queue", "science", "--dry-run").out
    assert argosy("preempt", job_id, "--reason", "make room").code == 0
    asked = [(request.validate_only, request.reason) for request in api.requests["PreemptJobs"]]
    assert asked == [(True, ""), (False, "make room")]


def test_hold_and_release_go_by_id_and_by_selector(api: FakeApi, argosy: Any, job_id: str) -> None:
    """The list shows what is held; a look changes nothing."""
    assert "would hold 1 job" in argosy("hold", "--queue", "science", "--dry-run").out
    assert not api.jobs[job_id].held
    assert argosy("hold", job_id).code == 0
    assert api.jobs[job_id].held
    assert "(held)" in argosy("jobs", "--queue", "science").out
    assert argosy("release", "--queue", "science", "-y").code == 0
    assert not api.jobs[job_id].held


def test_explain_shows_stage_reasons_counts_and_nearest_miss(argosy: Any, job_id: str) -> None:
    """Where it stands, nodes per filter, and what came closest."""
    lines = argosy("explain", job_id).out

    assert "stage:                  pending" in lines
    assert "before it in its queue: 3" in lines
    assert "waits for:              no room" in lines
    assert "by cluster:             c1: no room; 7 nodes could hold it" in lines
    holds = "holds 62.5% of the pool (90% of its memory; example.com/gpu weighs nothing); its share is 25%"
    assert f"its queue:              {holds}; first come" in lines
    earliest, likely = (time_text(datetime.fromtimestamp(at_s, UTC)) for at_s in (1_000_000_000, 1_000_000_600))
    band = f"from {earliest} to nobody knows when, most likely {likely}"
    assert f"expected to start:      {band}" in lines
    assert "largest node for it:    c1/n7 (8 cpu)" in lines
    assert "missing:                no node has disk=ssd; nodes have disk=hdd" in lines
    assert "turned away:            insufficient resources on 12 nodes" in lines
    assert "nearest miss:           c1/n7 lacks 2 cpu" in lines
    assert "failed often on:        c1/n9" in lines
    assert argosy("describe", job_id).out == lines


def test_logs_are_printed_as_they_were_written(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Bytes pass through, and options travel; a tail of 0 lines is not no tail."""
    assert argosy("logs", job_id).out == "first line\nsecond line\n"
    argosy("logs", job_id, "--tail", "0", "-c", "side", "--pod", "1", "--attempt", "2", "--member", "3", "-f")

    plain, full = api.requests["GetJobLog"]
    assert (plain.id, plain.attempt, plain.follow, plain.HasField("tail_line_count")) == (job_id, 0, False, False)
    assert (full.attempt, full.member, full.pod, full.container, full.follow) == (2, 3, 1, "side", True)
    assert (full.HasField("tail_line_count"), full.tail_line_count) == (True, 0)


def test_logs_since_a_time_are_asked_for_by_it(api: FakeApi, argosy: Any, job_id: str) -> None:
    """What is older does not leave the cluster; without, everything is asked for."""
    argosy("logs", job_id, "--since", "1m", "--timestamps")
    argosy("logs", job_id)
    since, plain = api.requests["GetJobLog"]
    ago = datetime.now(UTC) - since.since_time.ToDatetime(tzinfo=UTC)
    assert timedelta(minutes=1) <= ago < timedelta(minutes=2)
    assert (since.timestamps, plain.timestamps, plain.HasField("since_time")) == (True, False, False)


def test_logs_of_all_containers_come_one_after_another_by_name(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Init containers first, as they run; what would mean one container alone is refused beside it."""
    spec = {"initContainers": [{"name": "fetch"}], "containers": [{"name": "main"}, {"name": "side"}]}
    api.jobs[job_id].spec.manifests[:] = [json.dumps({"kind": "Service"}), json.dumps({"kind": "Pod", "spec": spec})]
    out = argosy("logs", job_id, "--all-containers", "--tail", "5").out
    assert [line for line in out.splitlines() if line.startswith("==>")] == [
        "==> fetch <==", "==> main <==", "==> side <==",
    ]  # fmt: skip
    assert [request.container for request in api.requests["GetJobLog"]] == ["fetch", "main", "side"]
    assert argosy("logs", job_id, "--all-containers", "-c", "main").code == 2
    assert argosy("logs", job_id, "--all-containers", "--pod", "3").code == 3
    wrong = argosy("logs", job_id, "-c", "mian")
    assert (wrong.code, "has no container 'mian'; it has fetch, main, side" in wrong.err) == (3, True)


def test_logs_that_are_gone_say_so(api: FakeApi, argosy: Any, job_id: str) -> None:
    """NOT_FOUND has the exit code of what does not exist."""
    api.failures["GetJobLog"].append(grpc.StatusCode.NOT_FOUND)
    outcome = argosy("logs", job_id)

    assert (outcome.code, outcome.out) == (3, "")
    assert "not now" in outcome.err


def test_machines_are_shown_and_cordoned(argosy: Any) -> None:
    """Clusters and nodes by command."""
    assert argosy("cluster", "list").out.splitlines()[1].split()[:6] == ["c1", "yes", "no", "3", "0", "32"]
    assert "cordoned:     yes (repair)" in argosy("cluster", "cordon", "c1", "--reason", "repair").out
    assert "yes, its sampler chooses" in argosy("cluster", "delegate", "c1").out
    assert "yes, its sampler chooses" in argosy("cluster", "delegate", "c1", "--as-installed").out
    assert "yes, its sampler chooses" not in argosy("cluster", "delegate", "c1", "--off").out
    assert "give one of them" in argosy("cluster", "delegate", "c1", "--off", "--as-installed").err
    assert "yes (repair)" in argosy("cluster", "list").out
    assert argosy("node", "list", "c1").out.splitlines()[3].split()[:4] == ["n2", "yes", "no", "science/night"]
    assert "cordoned nodes: n1" in argosy("node", "cordon", "c1", "n1").out
    assert "7 runs are lost" in argosy("cluster", "forget", "c1", "-y").out


def test_pods_that_are_resized_are_shown_with_what_they_asked_for_may_have_and_have(api: FakeApi, argosy: Any) -> None:
    """By cluster and queue, by job, and what they were before."""
    outcome = argosy("autoscale", "list")
    assert outcome.code == 0, outcome.err
    listed = outcome.out.splitlines()[1]
    assert "4 cpu" in listed
    assert "2 cpu" in listed
    assert "waits for room" in listed
    assert "no pods" in argosy("autoscale", "list", "--queue", "other").err
    least, most = job_pb2.ScaledAmounts(cpu="1", memory="1Gi"), job_pb2.ScaledAmounts(cpu="8", memory="8Gi")
    rules = job_pb2.ScalingPolicy(min=least, max=most, unit=least, bundle=True)
    api.jobs[SCALED_JOB] = job_pb2.Job(id=SCALED_JOB, queue="science", scaling=rules)
    within = "1 to 8 cpu, 1Gi to 8Gi memory, in 1 cpu and 1Gi memory, in equal units"
    assert within in argosy("autoscale", "show", SCALED_JOB).out.splitlines()[1]
    assert re.search(f"autoscale: +{within}\n", argosy("jobs", SCALED_JOB).out)
    written = {"min": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "8", "memory": "8Gi"}}
    said = json.loads(argosy("jobs", SCALED_JOB, "-o", "json").out)["scaling"]
    assert said == {**written, "unit": written["min"], "bundle": True}
    assert [line.split()[-2:] for line in argosy("autoscale", "history", SCALED_JOB).out.splitlines()[1:]] == [
        ["as", "asked"], ["for", "room"],
    ]  # fmt: skip
    refused = argosy("autoscale", "show", "01900000-0000-7000-8000-0000000000bb")
    assert (refused.code, "no bounds" in refused.err) == (3, True)


def test_shares_show_requested_running_and_entitled_of_every_resource_and_what_weighs_nothing(argosy: Any) -> None:
    """Parts of the pool first, then each resource; whoever holds what weighs nothing is not seen."""
    outcome = argosy("shares")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[1][:9] == ["science", "2", "50%", "62.5%", "19.5%", "31.2%", "0%", "19.5%", "cpu"]
    wide = argosy("shares", "-o", "wide").out
    assert "RUNNING CORES" in wide
    assert "8 at 12 running, 3 at 0.5/s" in wide
    assert ["science", "cpu", "40", "12.5", "20"] in lines
    assert ["science", "memory", "4Gi", "1Gi", "2Gi"] in lines
    assert ["science", "example.com/gpu", "3", "1", "2", "weighs", "nothing"] in lines
    assert "memory: 64Gi, 1 GiB counts 1 cores" in outcome.err
    assert "example.com/gpu: 8, weighs nothing" in outcome.err


def test_before_the_pools_capacity_is_known_no_part_of_it_is_shown(api: FakeApi, argosy: Any) -> None:
    """A dash stands for it, one line says why, and programs get nothing instead of a wrong number."""
    api.knows_capacity = False
    outcome = argosy("shares")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[1] == ["science", "2", "50%", "-", "-", "-", "-", "-", "0", "0", "0"]
    assert ["science", "cpu", "40", "12.5", "-"] in lines
    assert outcome.err.splitlines() == [
        "capacity of the pool: not known, since none of its clusters is connected (yet); so no parts of it"
    ]
    assert "0/-" in argosy("shares", "-o", "wide").out
    told = json.loads(argosy("shares", "-o", "json").out)
    assert [told["capacityCores"], told["shares"][0]["entitledCores"]] == [None, None]
    top = argosy("top").out
    assert top.startswith("12.5 cores running, 0 jobs waiting; no cluster of the pool is connected (yet)")
    assert ["science", "12.5", "-", "40.0"] in [line.split()[:4] for line in top.splitlines()]


def add_event(api: FakeApi, kind: "event_pb2.JobEventKind", number: int) -> None:
    """Give the job set one more event."""
    event = event_pb2.JobEvent(number=number, job_id="j", kind=kind)
    event.event_time.FromSeconds(1_700_000_000)
    api.events.append(event)


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        pytest.param({"succeeded": 2}, 0, id="all succeeded"),
        pytest.param({"succeeded": 1, "failed": 1}, 5, id="one failed"),
        pytest.param({"cancelled": 2}, 5, id="cancelled"),
    ],
)
def test_watch_ends_with_how_the_jobs_ended(api: FakeApi, argosy: Any, counts: dict[str, int], code: int) -> None:
    """Exit code 5 if a job failed or was cancelled."""
    add_event(api, event_pb2.JOB_EVENT_KIND_SUCCEEDED, 1)
    api.state_counts = counts

    outcome = argosy("watch", "science", "first")

    assert outcome.code == code
    assert outcome.out.strip() == ", ".join(f"{count} {state}" for state, count in counts.items())


def test_watch_goes_on_at_a_cursor_and_prints_events(api: FakeApi, argosy: Any) -> None:
    """Events after the cursor, one a line."""
    add_event(api, event_pb2.JOB_EVENT_KIND_RUNNING, 1)
    add_event(api, event_pb2.JOB_EVENT_KIND_SUCCEEDED, 2)

    outcome = argosy("watch", "science", "first", "--cursor", "1", "-o", "jsonl")

    (line,) = outcome.out.splitlines()
    assert (json.loads(line)["number"], json.loads(line)["kind"]) == (2, "succeeded")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        pytest.param(grpc.StatusCode.INVALID_ARGUMENT, 2, id="invalid"),
        pytest.param(grpc.StatusCode.NOT_FOUND, 3, id="not found"),
        pytest.param(grpc.StatusCode.FAILED_PRECONDITION, 1, id="not now"),
        pytest.param(grpc.StatusCode.INTERNAL, 1, id="internal"),
    ],
)
def test_errors_of_the_server_are_messages_and_exit_codes(
    api: FakeApi, argosy: Any, code: grpc.StatusCode, exit_code: int
) -> None:
    """No traceback: the server's words, its violations, and a code that scripts know."""
    api.failures["GetShares"].append(code)
    api.violations = [("pool", "there is none")]

    outcome = argosy("shares")

    assert outcome.code == exit_code
    assert outcome.err == "error: not now\n  pool: there is none\n"


def test_server_that_stays_away_is_exit_code_4(api: FakeApi, argosy: Any) -> None:
    """It is tried for --timeout seconds, then named."""
    api.failures["GetShares"].extend([grpc.StatusCode.UNAVAILABLE] * 1000)

    outcome = argosy("--timeout", "0.1", "shares")

    assert outcome.code == 4
    assert "error: server 127.0.0.1:" in outcome.err


def test_selector_that_means_no_job_asks_nothing(api: FakeApi, argosy: Any) -> None:
    """There is nothing to confirm, and nothing to be carried out."""
    outcome = argosy("cancel", "--queue", "empty")
    assert (outcome.code, outcome.out) == (0, "asked to cancel 0 jobs\n")
    assert [request.validate_only for request in api.requests["CancelJobs"]] == [True]


def test_forget_without_a_terminal_wants_yes(argosy: Any) -> None:
    """A request that nobody can answer is a mistake in the command, not an interruption."""
    outcome = argosy("cluster", "forget", "c1")
    assert outcome.code == 2
    assert "confirm with -y" in outcome.err


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    """Names, reasons and messages of others never move a cursor, rename a window or turn a line round."""
    assert shown("a\x1b[2J\x1b]0;x\x07\x9bH\u202eb\tc\n") == "a\\u001b[2J\\u001b]0;x\\u0007\\u009bH\\u202eb\tc\n"
    assert shown(state_text("failed")) == state_text("failed")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("jobs",), id="jobs"),
        pytest.param(("explain",), id="explain"),
        pytest.param(("logs",), id="logs"),
        pytest.param(("cancel",), id="cancel"),
        pytest.param(("reprioritize", "--priority", "3"), id="reprioritize"),
    ],
)
def test_every_command_takes_the_end_of_an_id(argosy: Any, job_id: str, command: tuple[str, ...]) -> None:
    """Tables show the unique end of an id, and it is taken wherever an id is."""
    listed = argosy("jobs", "--queue", "science").out.splitlines()[1].split()[0]
    assert (len(listed), job_id.endswith(listed)) == (6, True)
    assert argosy(*command, listed).code == 0
    missing = argosy(*command, "fffffe")
    assert (missing.code, "no job has an id that ends with fffffe" in missing.err) == (3, True)
    assert argosy(*command, "no-id").code == 2


def test_wait_ends_with_the_jobs_and_says_how_they_ended(api: FakeApi, argosy: Any, job_id: str) -> None:
    """Exit code 0 after success, 5 if a job failed, 4 when the time is over, 3 if there is no such job."""
    late = argosy("wait", job_id, "--within", "0s")
    assert (late.code, late.err) == (4, "error: the job has not ended within 0 s\n")
    api.jobs[job_id].state = job_pb2.JOB_STATE_SUCCEEDED
    assert argosy("wait", job_id[-6:]).out == "1 succeeded\n"
    api.jobs[job_id].state = job_pb2.JOB_STATE_FAILED
    failed = argosy("wait", "--queue", "science", "--job-set", "first")
    assert (failed.code, failed.out) == (5, "1 failed\n")
    assert argosy("wait", "--queue", "science", "--job-set", "none").code == 3
    assert argosy("wait").code == 2


def test_timeout_may_stand_behind_a_command(argosy: Any, api: FakeApi) -> None:
    """`--timeout` is an option of the command line, wherever it stands."""
    api.failures["GetShares"].extend([grpc.StatusCode.UNAVAILABLE] * 50)
    begun = time.monotonic()
    assert argosy("shares", "--timeout", "0.1").code == 4
    assert time.monotonic() - begun < 20  # without it calls are repeated for 30 s


def test_declined_question_is_no_interruption(
    api: FakeApi, argosy: Any, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever says no gets told that nothing was done, and exit code 0."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    outcome = argosy("cancel", "--queue", "science")
    assert (outcome.code, outcome.err.splitlines()[-1]) == (0, "nothing was done")
    assert not api.jobs[job_id].cancel_requested


def test_change_that_means_no_open_job_says_so(api: FakeApi, argosy: Any) -> None:
    """`asked to hold 0 jobs` alone leaves whoever typed it to guess; jobs that are there are just counted."""
    empty = argosy("hold", "--queue", "science", "--yes")
    assert (empty.code, empty.out, "has ended, or nothing of it would change" in empty.err) == (
        0, "asked to hold 0 jobs\n", True,
    )  # fmt: skip
    assert not api.jobs

"""What a fake kubelet makes of a pod, as values: how it behaves, what it asks for, which statuses it goes through."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
import pytest

from argosy_kube.port import EXIT_CODE_ANNOTATION, RUN_TIME_ANNOTATION, START_DELAY_ANNOTATION
from argosy_testkit.fake_kubelet import LOG_LINES_ANNOTATION, REASON_ANNOTATION, STOP_TIME_ANNOTATION
from argosy_testkit.fake_kubelet.behaviour import (
    Behaviour,
    Pod,
    ended_status,
    pod_requests,
    read_behaviour,
    refused_status,
    restarted_status,
    rfc3339,
    running_status,
    waiting_status,
)
from argosy_testkit.fake_kubelet.logs import LogSource
from argosy_testkit.fake_kubelet.nodes import FakeNode, allocatable_of, lease_document, node_document

NOW_S = 1_700_000_000.0


def pod_of(containers: list[dict[str, Any]], **spec: Any) -> Pod:
    """Return a pod as the fake kubelet reads it."""
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}, Pod)


def container(name: str = "main", **resources: dict[str, str]) -> dict[str, Any]:
    """Return a container."""
    return {"name": name, "image": "none", "resources": resources}


def random() -> np.random.Generator:
    """Return the same chance each time."""
    return np.random.default_rng(1)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, Behaviour(), id="nothing said"),
        pytest.param(
            {RUN_TIME_ANNOTATION: "30s", START_DELAY_ANNOTATION: "250ms", EXIT_CODE_ANNOTATION: "3"},
            Behaviour(run_time_s=30.0, start_delay_s=0.25, exit_code=3),
            id="all times and the code",
        ),
        pytest.param(
            {REASON_ANNOTATION: "OOMKilled", STOP_TIME_ANNOTATION: "2s", LOG_LINES_ANNOTATION: "0"},
            Behaviour(reason="OOMKilled", stop_time_s=2.0, log_lines=0),
            id="reason, stop time, no lines",
        ),
        pytest.param(
            {RUN_TIME_ANNOTATION: "soon", EXIT_CODE_ANNOTATION: "bad", LOG_LINES_ANNOTATION: "-1"},
            Behaviour(),
            id="what cannot be read counts as absent",
        ),
    ],
)
def test_behaviour_is_what_the_annotations_say(annotations: dict[str, str], expected: Behaviour) -> None:
    """Run time, delay and exit code mean what they mean to the simulated cluster."""
    assert read_behaviour(annotations, random()) == expected


def test_behaviour_draws_a_time_from_a_span() -> None:
    """A span gives each pod a time of its own within it."""
    chance = random()
    drawn = [read_behaviour({RUN_TIME_ANNOTATION: "20s-40s"}, chance).run_time_s for _ in range(50)]
    assert all(20.0 <= run_s <= 40.0 for run_s in drawn)
    assert len(set(drawn)) == 50


def test_requests_are_the_sum_of_containers_or_the_largest_init_container() -> None:
    """As kubelets count: requests, else limits, and one of `pods`."""
    pod = pod_of(
        [container("a", requests={"cpu": "500m"}), container("b", limits={"cpu": "1", "memory": "1Gi"})],
        initContainers=[container("i", requests={"cpu": "1", "memory": "2Gi"})],
    )
    assert pod_requests(pod) == {"pods": 1, "cpu": 1500, "memory": 2 * 2**30}


def test_running_status_has_every_container_running_and_ready() -> None:
    """All conditions hold, and times are whole seconds in UTC."""
    status = running_status(pod_of([container("a"), container("b")]), NOW_S, address="10.128.0.1")
    assert (status["phase"], status["startTime"], status["podIP"]) == ("Running", "2023-11-14T22:13:20Z", "10.128.0.1")
    assert {one["type"]: one["status"] for one in status["conditions"]} == dict.fromkeys(
        ("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True"
    )
    assert [one["state"] for one in status["containerStatuses"]] == [{"running": {"startedAt": rfc3339(NOW_S)}}] * 2


def test_init_containers_have_ended_once_the_pod_runs() -> None:
    """A pod runs only behind them."""
    status = running_status(pod_of([container()], initContainers=[container("i")]), NOW_S, address="10.128.0.1")
    (first,) = status["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0


def test_restarted_status_changes_nothing_but_the_containers() -> None:
    """The API server refuses another start time or address."""
    status = restarted_status(pod_of([container()]), NOW_S, restarts=2)
    assert list(status) == ["containerStatuses"]
    assert status["containerStatuses"][0]["restartCount"] == 2


@pytest.mark.parametrize(
    ("exit_code", "reason", "phase", "terminated"),
    [
        pytest.param(0, "", "Succeeded", (0, "Completed", None), id="well"),
        pytest.param(3, "", "Failed", (3, "Error", None), id="badly"),
        pytest.param(0, "OOMKilled", "Failed", (137, "OOMKilled", None), id="out of memory"),
        pytest.param(0, "Evicted", "Failed", (137, "Error", "Evicted"), id="evicted"),
        pytest.param(5, "DeadlineExceeded", "Failed", (5, "Error", "DeadlineExceeded"), id="past its deadline"),
    ],
)
def test_ended_status_tells_how_it_ended(
    exit_code: int,
    reason: str,
    phase: str,
    terminated: tuple[int, str, str | None],
) -> None:
    """A container's reason stands at the container, the pod's at the pod."""
    status = ended_status(pod_of([container()]), NOW_S, NOW_S + 5, exit_code=exit_code, reason=reason)
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert status["phase"] == phase
    assert (state["exitCode"], state["reason"], status.get("reason")) == terminated
    assert (state["startedAt"], state["finishedAt"]) == (rfc3339(NOW_S), rfc3339(NOW_S + 5))


def test_waiting_and_refused_statuses_name_their_reason() -> None:
    """One stays pending, the other is over."""
    waiting = waiting_status(pod_of([container()]), NOW_S, "ErrImagePull")
    assert (waiting["phase"], waiting["containerStatuses"][0]["state"]["waiting"]["reason"]) == (
        "Pending",
        "ErrImagePull",
    )
    assert refused_status("OutOfcpu", "too small") == {"phase": "Failed", "reason": "OutOfcpu", "message": "too small"}


def test_node_gives_no_more_than_it_has() -> None:
    """What does not fit takes nothing, and what was given back can be taken again."""
    node = FakeNode("n", "u", {"cpu": 2000, "pods": 2})
    assert node.take({"cpu": 1500, "pods": 1}) == ""
    assert node.take({"cpu": 600, "pods": 1}) == "cpu"
    assert node.used == {"cpu": 1500, "pods": 1}
    assert node.take({"nvidia.com/gpu": 1}) == "nvidia.com/gpu"
    node.give_back({"cpu": 1500, "pods": 1})
    assert node.take({"cpu": 2000, "pods": 1}) == ""


def test_node_document_is_that_of_a_ready_node() -> None:
    """Its amounts read back as base units, and its logs are found at the one port."""
    document = node_document(
        "n", resources={"cpu": "2", "memory": "1Gi"}, labels={"zone": "a"}, taints=[], log_port=4321
    )
    amounts = allocatable_of(document)
    assert (amounts["cpu"], amounts["memory"], amounts["pods"]) == (2000, 2**30, 1000)
    assert document["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert document["metadata"]["labels"]["zone"] == "a"
    assert {one["type"]: one["status"] for one in document["status"]["conditions"]}["Ready"] == "True"
    assert document["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 4321


def test_lease_goes_with_its_node() -> None:
    """Its owner is the node, so that the cluster collects it, and its time has microseconds."""
    lease = lease_document(FakeNode("n", "u", {}), NOW_S + 0.25)
    assert lease["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert lease["spec"]["renewTime"] == "2023-11-14T22:13:20.250000Z"


@pytest.mark.parametrize(
    ("age_s", "ended_after_s", "expected"),
    [
        pytest.param(0.0, None, ["p c line 0\n"], id="at its start"),
        pytest.param(2.5, None, ["p c line 0\n", "p c line 1\n", "p c line 2\n"], id="while it runs"),
        pytest.param(9.0, 1.5, ["p c line 0\n", "p c line 1\n"], id="no more once it ended"),
    ],
)
def test_log_has_the_lines_of_the_time_that_passed(
    age_s: float, ended_after_s: float | None, expected: list[str]
) -> None:
    """Lines are spread evenly over the run time."""
    started_s = time.time()
    source = LogSource(
        containers=("c",),
        pod="p",
        started_s=started_s,
        run_time_s=4.0,
        ended_s=lambda: 0.0 if ended_after_s is None else started_s + ended_after_s,
        line_count=4,
        is_reachable=True,
    )
    assert [line for _, line in source.lines("c", started_s + age_s)] == expected

"""What a reader who counts pods sees of those that are not ours, beyond their requests."""

from __future__ import annotations

from argosy_core.job.reading.classes import HostPort
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, OBJECT_LABEL, RUN_LABEL
from argosy_kube.port import Selector
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

PORTS = [{"containerPort": 8080, "hostPort": 8080}]


async def test_ports_of_the_node_are_told_of_the_right_pods(lab: FakeKubeLab) -> None:
    """By place in the list, whatever stands before and after."""
    cluster = lab.open("one")
    for number, ports in enumerate(([], PORTS, [])):
        spec = {"nodeName": "node-a", "containers": [{"name": "main", "ports": ports}]}
        lab.api.store.create("pods", "default", {"metadata": {"name": f"other-{number}"}, "spec": spec})
    events = await cluster.list_objects(Selector.ALL_PODS)
    assert len(events) == 3
    assert events.host_ports == {1: (HostPort("TCP", 8080),)}


async def test_room_that_was_made_for_a_pod_counts_as_its_own(lab: FakeKubeLab) -> None:
    """The scheduler of the cluster nominates a node when it has preempted there, and binds later."""
    cluster = lab.open("one")
    document = {
        "metadata": {"name": "urgent"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]},
    }
    made = lab.api.store.create("pods", "default", document)
    lab.api.store.replace("pods", made | {"status": {"phase": "Pending", "nominatedNodeName": "node-b"}})
    events = await cluster.list_objects(Selector.ALL_PODS)
    assert [events.nodes[node] for node in events.node_column] == ["node-b"]


async def test_labels_of_a_run_on_a_pod_of_another_name_are_not_believed(lab: FakeKubeLab) -> None:
    """Whoever may make pods can write labels; the name must be that of the run, too."""
    cluster = lab.open("one")
    labels = {INSTALLATION_LABEL: "one", RUN_LABEL: "11-1", OBJECT_LABEL: "0"}
    spec = {"nodeName": "node-a", "containers": [{"name": "main"}]}
    lab.api.store.create("pods", "default", {"metadata": {"name": "forged", "labels": labels}, "spec": spec})
    assert len(await cluster.list_objects(Selector.OURS)) == 0
    events = await cluster.list_objects(Selector.ALL_PODS)
    assert events.ours_column.tolist() == [False]

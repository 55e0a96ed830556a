"""Network policies and pods as kustomize and Helm write them: nobody of ours is kept out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from images.helm import find_helm
from testbed.cluster import KubeApi
from testbed.network_policies import is_admitted, pod_labels

pytestmark = pytest.mark.timeout(600)

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
GRPC, METRICS = 50051, 9090
SERVERS = {"argosy-api", "argosy-leader"}
DIALLERS = {"argosy-sampler", "argosy-executor", "argosy-cluster-agent", *SERVERS}
"""Who dials a server: a cluster's parts, and servers each other."""
CHARTS = {
    "chart": (),
    "chart, combined": ("--set", "cluster.combined=true", "--set", "server.eventsUrl=pulsar://log:6650"),
}


def kustomized(api: KubeApi, *bases: str) -> list[dict[str, Any]]:
    """Return the documents of bases that are installed together."""
    texts = [api.kubectl("kustomize", str(DEPLOY / "kustomize" / base)) for base in bases]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def say(line: str) -> None:
    """Tell what takes long."""
    sys.stderr.write(f"testbed: {line}\n")


def charted(*arguments: str) -> list[dict[str, Any]]:
    """Return the documents of the chart."""
    helm = find_helm(say)
    command = [helm, "template", "argosy", str(DEPLOY / "helm" / "argosy"), "--kube-version", "1.33.0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.parametrize(
    "way", ["server + cluster", "server-events + cluster-agent", *CHARTS], ids=lambda way: way.replace(" ", "")
)
def test_network_policies_let_in_who_must_reach_a_server_and_nobody_else(kube_api: KubeApi, way: str) -> None:
    """Samplers, executors, agents and servers reach servers; a pod without our label does not; metrics are for all."""
    documents = charted(*CHARTS[way]) if way in CHARTS else kustomized(kube_api, *way.split(" + "))
    policies = [document for document in documents if document["kind"] == "NetworkPolicy"]
    pods = pod_labels(documents)
    dialling = DIALLERS & set(pods)
    assert len(policies) == 2
    assert len(dialling) == len(SERVERS) + (1 if "argosy-cluster-agent" in pods else 2)

    kept_out = {
        (source, target) for source in dialling for target in SERVERS
        if not is_admitted(policies, pods[source], pods[target], GRPC)
    }  # fmt: skip
    assert kept_out == set()
    stranger = {"app.kubernetes.io/name": "argosy-sampler-of-somebody"}
    assert not any(is_admitted(policies, stranger, labels, GRPC) for name, labels in pods.items() if name in SERVERS)
    assert all(is_admitted(policies, stranger, pods[name], METRICS) for name in dialling)


@pytest.mark.parametrize("base", ["cluster", "cluster-agent", "server", "server-events"])
def test_label_of_the_installation_is_on_pods_and_in_no_selector(kube_api: KubeApi, base: str) -> None:
    """A deployment's selector cannot be changed, so one that the last release made would refuse this one."""
    for document in kustomized(kube_api, base):
        if document["kind"] in {"Deployment", "Job"}:
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert labels == {
                "app.kubernetes.io/name": document["metadata"]["name"], "app.kubernetes.io/part-of": "argosy"
            }  # fmt: skip
        if document["kind"] == "Deployment":
            assert document["spec"]["selector"] == {
                "matchLabels": {"app.kubernetes.io/name": document["metadata"]["name"]}
            }

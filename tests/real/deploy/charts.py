"""The chart with values of its users, rendered by helm."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
CHARTS = {
    "all": [],
    "server": ["--set", "cluster.enabled=false", "--set", "server.eventLogUrl=pulsar://log:6650"],
    "cluster": ["--set", "server.enabled=false", "--set", "cluster.servers={argosy.example.org:50051}"],
    "least rights, own certificates, events": [
        *("--set", "server.database.grant=true", "--set", "server.eventsUrl=pulsar+ssl://log:6651"),
        *("--set", "server.database.keys.migrate=migrate,server.database.keys.api=api"),
        *("--set", "server.volumes[0].name=ca,server.volumes[0].secret.secretName=argosy-ca"),
        *("--set", "server.volumeMounts[0].name=ca,server.volumeMounts[0].mountPath=/etc/argosy/ca"),
        *("--set", "server.env[0].name=ARGOSY_SERVER_API_READER_COUNT", "--set-string", "server.env[0].value=4"),
    ],
    "combined": [
        *("--set", "cluster.combined=true,cluster.delegated=true"),
        *("--set", "tracesEndpoint=http://collector:4317"),
        *("--set", "cluster.executor.env[0].name=ARGOSY_CLUSTER_AGENT_IMAGE_TIMEOUT_S"),
        *("--set-string", "cluster.executor.env[0].value=0"),
    ],
    "agent": ["--set", "cluster.agent.enabled=true,cluster.agent.durable=true", "--set", "cluster.combined=true"],
    "agent inside": [
        *("--set", "cluster.agent.enabled=true,cluster.agent.inside=true,cluster.agent.metrics=kubelet-page"),
        *("--set", "cluster.combined=true"),
    ],
    "agent that asks kubelets": [
        *("--set", "cluster.agent.enabled=true,cluster.agent.durable=true"),
        *("--set", "cluster.agent.metrics=kubelet-summary"),
        *("--set", "cluster.agent.env[0].name=ARGOSY_AGENT_METRICS_INTERVAL_S"),
        *("--set-string", "cluster.agent.env[0].value=10"),
    ],
    "service accounts call": ["--set", "server.serviceAccounts=true"],
    "kube-scheduler binds": ["--set", "cluster.binding=affinity"],
    "named namespaces": ["--set", "cluster.executor.namespaces={science,training}"],
    "named namespaces, combined": [
        *("--set", "cluster.executor.namespaces={science,training}", "--set", "cluster.combined=true"),
    ],
    "agent binds": ["--set", "cluster.binding=subresource", "--set", "cluster.combined=true"],
    "log and events on brokers of their own": [
        *("--set", "server.eventLogUrl=pulsar://log:6650", "--set", "server.eventsUrl=pulsar://events:6650"),
    ],
    "own settings of sampler and executor": [
        *("--set", "cluster.sampler.env[0].name=ARGOSY_SAMPLER_RETRY_MOST_S"),
        *("--set-string", "cluster.sampler.env[0].value=1"),
        *("--set", "cluster.executor.env[0].name=ARGOSY_EXECUTOR_QUOTA_TIMEOUT_S"),
        *("--set-string", "cluster.executor.env[0].value=0"),
        *("--set", "cluster.executor.volumes[0].name=ca,cluster.executor.volumes[0].secret.secretName=ca"),
        *("--set", "cluster.executor.volumeMounts[0].name=ca,cluster.executor.volumeMounts[0].mountPath=/etc/ca"),
    ],
}


def render_chart(helm: str, *arguments: str) -> str:
    """Return the chart's manifests."""
    chart = str(DEPLOY / "helm" / "argosy")
    command = [helm, "template", "argosy", chart, "-n", "argosy", "--kube-version", "1.33.0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents_of(manifests: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return the documents of a kind by name."""
    found = (document for document in yaml.safe_load_all(manifests) if document and document["kind"] == kind)
    return {document["metadata"]["name"]: document for document in found}


def container_of(manifests: str, part: str) -> dict[str, Any]:
    """Return the container of one of our pods, as manifests describe it."""
    (container,) = (
        container
        for document in yaml.safe_load_all(manifests)
        if document and document["kind"] in {"Deployment", "Job"}
        if document["metadata"]["labels"]["app.kubernetes.io/name"] == f"argosy-{part}"
        for container in document["spec"]["template"]["spec"]["containers"]
    )
    return dict(container)

"""What is set in the chart's values stands in its manifests, and what it would not heed is refused."""

import subprocess

import pytest
import yaml
from tests.real.deploy.charts import CHARTS, DEPLOY, container_of, documents_of, render_chart

pytestmark = pytest.mark.timeout(600)


def test_job_that_runs_something_else_has_another_name(helm: str) -> None:
    """A job cannot be changed; where manifests are only rendered, every revision is the first."""
    first, same, other = (
        set(documents_of(render_chart(helm, "--set", f"image.tag=v{tag}"), "Job")) for tag in (1, 1, 2)
    )
    assert first == same
    assert not first & other
    assert {name.rpartition("-")[0] for name in first} == {"argosy-migrate"}


def test_pods_have_what_is_set_for_all_and_what_is_set_for_them(helm: str) -> None:
    """Values of a part come before those of all; replicas spread over nodes, and digests before tags."""
    digest = "sha256:" + "0" * 64
    rendered = render_chart(
        helm,
        *("--set", f"pods.priorityClassName=high,pods.annotations.team=batch,image.digests.server={digest}"),
        *("--set", "server.leader.pods.priorityClassName=highest,pods.nodeSelector.disk=fast"),
        *("--set-json", 'cluster.executor.pods.tolerations=[{"operator":"Exists"}]'),
        *("--set-json", 'cluster.sampler.pods.affinity={"nodeAffinity":{}}'),
    )
    pods = {name: document["spec"]["template"] for name, document in documents_of(rendered, "Deployment").items()}
    specs = {name.removeprefix("argosy-"): pod["spec"] for name, pod in pods.items()}
    classes = {name: spec["priorityClassName"] for name, spec in specs.items()}
    assert classes == {"api": "high", "leader": "highest", "sampler": "high", "executor": "high"}
    assert [name for name, spec in specs.items() if "tolerations" in spec] == ["executor"]
    assert [name for name, spec in specs.items() if "affinity" in spec] == ["sampler"]
    assert all(spec["nodeSelector"] == {"disk": "fast"} for spec in specs.values())
    for pod in pods.values():
        assert pod["metadata"]["annotations"]["team"] == "batch"
        assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert specs["api"]["containers"][0]["image"] == f"argosy/server@{digest}"
    assert specs["executor"]["containers"][0]["image"].startswith("argosy/executor:")


def test_monitor_finds_the_pods_of_the_release(helm: str) -> None:
    """It is made where it is asked for, since clusters without the operator do not know the kind."""
    assert not documents_of(render_chart(helm), "PodMonitor")
    rendered = render_chart(helm, "--set", "monitors.create=true,monitors.labels.release=prometheus")
    (monitor,) = documents_of(rendered, "PodMonitor").values()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    named = set(monitor["spec"]["selector"]["matchExpressions"][0]["values"])
    assert set(documents_of(rendered, "Deployment")) <= named


@pytest.mark.parametrize(
    ("chart", "part", "name", "binding"),
    [
        ("kube-scheduler binds", "executor", "ARGOSY_EXECUTOR_KUBERNETES_BINDING", "affinity"),
        ("agent binds", "cluster-agent", "ARGOSY_CLUSTER_AGENT_KUBERNETES_BINDING", "subresource"),
    ],
)
def test_chart_tells_the_executor_how_pods_get_their_node(
    helm: str, *, chart: str, part: str, name: str, binding: str
) -> None:
    """The value of the chart becomes the setting; samplers have none."""
    assert container_of(render_chart(helm, *CHARTS[chart]), part)["env"].count({"name": name, "value": binding}) == 1
    if part == "executor":
        sampler = container_of(render_chart(helm, *CHARTS[chart]), "sampler")
        assert not [entry for entry in sampler["env"] if entry["name"].endswith("BINDING")]


@pytest.mark.parametrize(
    ("chart", "log", "events"),
    [
        ("log and events on brokers of their own", "pulsar://log:6650", "pulsar://events:6650"),
        ("least rights, own certificates, events", "", "pulsar+ssl://log:6651"),
        ("server", "pulsar://log:6650", ""),
    ],
    ids=["apart", "events alone", "log alone"],
)
def test_chart_makes_topics_of_log_and_events_where_each_belongs(
    helm: str, *, chart: str, log: str, events: str
) -> None:
    """`setup-log` is told of both, and of events only where there are some."""
    container = container_of(render_chart(helm, *CHARTS[chart]), "setup-log")
    told = {entry["name"]: entry["value"] for entry in container["env"] if entry["name"].endswith("_URL")}
    assert told == {"ARGOSY_SERVER_EVENT_LOG_URL": log, "ARGOSY_SERVER_EVENTS_URL": events}
    assert ("--events" in container["args"]) is bool(events)


def test_chart_refuses_a_cluster_without_a_server(helm: str) -> None:
    """A value that is missing or misspelt is named, not guessed."""
    command = [helm, "template", "x", str(DEPLOY / "helm" / "argosy"), "--kube-version", "1.33.0", "--set"]
    lonely = subprocess.run([*command, "server.enabled=false"], capture_output=True, text=True, check=False)
    assert lonely.returncode != 0
    assert "cluster.servers is empty" in lonely.stderr
    misspelt = subprocess.run([*command, "cluster.nmae=x"], capture_output=True, text=True, check=False)
    assert misspelt.returncode != 0
    assert "nmae" in misspelt.stderr


@pytest.mark.parametrize(("part", "name"), [("sampler", "RETRY_MOST_S"), ("executor", "QUOTA_TIMEOUT_S")])
def test_chart_gives_sampler_and_executor_what_is_set_for_them(helm: str, part: str, name: str) -> None:
    """Variables, volumes and mounts stand in the pods of the part that they were given to."""
    documents = list(yaml.safe_load_all(render_chart(helm, *CHARTS["own settings of sampler and executor"])))
    (pod,) = (
        document["spec"]["template"]["spec"]
        for document in documents
        if document and document["kind"] == "Deployment" and document["metadata"]["name"] == f"argosy-{part}"
    )
    (container,) = pod["containers"]
    assert f"ARGOSY_{part.upper()}_{name}" in {entry["name"] for entry in container["env"]}
    own = {"ca"} if part == "executor" else set()
    assert {volume["name"] for volume in pod["volumes"]} == {"tmp", "identity"} | own
    assert {mount["name"] for mount in container["volumeMounts"]} == {"tmp", "identity"} | own


@pytest.mark.parametrize(
    "value",
    [
        "cluster.sampler.replicas=2",
        "cluster.executor.replicas=1",
        "server.api.serviceAccount=x",
        "installation=Bad Name!",
        "cluster.executor.namespaces={Science}",
        "cluster.delegated=true",
        "pool=-x",
    ],
)
def test_chart_refuses_what_it_would_not_heed(helm: str, value: str) -> None:
    """One sampler and one executor for a cluster, no account for servers; names become labels; whom would it ask?"""
    command = [helm, "template", "x", str(DEPLOY / "helm" / "argosy"), "--kube-version", "1.33.0", "--set", value]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    name = value.partition("=")[0].rpartition(".")[2]
    assert name in refused.stderr


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (["cluster.combined=true"], "cluster-agent"),
        (["cluster.executor.env[0].name=ARGOSY_EXECUTOR_SAMPLER_ADDRESS,cluster.executor.env[0].value=s:1"], "sampler"),
    ],
)
def test_chart_tells_the_sampler_that_its_cluster_is_delegated(helm: str, *, values: list[str], part: str) -> None:
    """The value of the chart becomes the setting of whoever samples, and of nobody else."""
    rendered = render_chart(helm, "--set", ",".join(["cluster.delegated=true", *values]))
    name = f"ARGOSY_{part.upper().replace('-', '_')}_DELEGATED"
    assert container_of(rendered, part)["env"].count({"name": name, "value": "true"}) == 1
    assert rendered.count("_DELEGATED") == 1
    assert "_DELEGATED" not in render_chart(helm, "--set", values[0])

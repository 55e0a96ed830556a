"""Kustomize bases and Helm chart, installed: controllers make their pods, and their accounts suffice for a mesh.

No image of ours runs here: a fake kubelet plays the pods of the installation. The services themselves run as processes
of this machine, with tokens of the accounts that were installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from images.helm import find_helm
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions

from argosy_core.errors import BackendUnavailable
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

pytestmark = pytest.mark.timeout(300)

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
IN_NAMESPACE = ("-n", "argosy")
WHAT_IS_LEFT = "clusterroles,clusterrolebindings,namespaces"
SEPARATE = ("argosy-sampler", "argosy-executor")

BAG = """\
queue: "@namespace@"
jobSet: rights
count: 2
spec:
  manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: "@namespace@"}, data: {key: value}}
    - {apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: "@namespace@"}, stringData: {key: value}}
    - apiVersion: v1
      kind: Service
      metadata: {name: work, namespace: "@namespace@"}
      spec: {selector: {app: work}, ports: [{port: 80}]}
    - apiVersion: networking.k8s.io/v1
      kind: Ingress
      metadata: {name: work, namespace: "@namespace@"}
      spec: {defaultBackend: {service: {name: work, port: {number: 80}}}}
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata: {name: disk, namespace: "@namespace@"}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
    - apiVersion: v1
      kind: Pod
      metadata:
        name: work
        namespace: "@namespace@"
        labels: {app: work}
        annotations: {argosy.dev/simulated-run-time: 1s}
      spec:
        restartPolicy: Never
        containers: [{name: main, image: none, resources: {requests: {cpu: "1", memory: 64Mi}}}]
"""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to install."""

    bases: tuple[str, ...] = ()
    """Kustomize bases."""
    folders: tuple[Path, ...] = ()
    """What of kustomize is applied: the bases, or overlays."""
    values: tuple[str, ...] = ()
    """Values of the chart, if it is not kustomize."""
    deployments: frozenset[str]
    accounts: tuple[str, ...]
    """Those of the sampler and the executor, or the one of both."""
    serves_one: bool = False
    """The executor has rights in the namespace of its jobs and in no other."""


WAYS = {
    "kustomize": Way(
        bases=("server", "cluster"),
        deployments=frozenset({"argosy-api", "argosy-leader", "argosy-sampler", "argosy-executor"}),
        accounts=SEPARATE,
    ),
    "kustomize-agent": Way(
        bases=("cluster-agent",),
        deployments=frozenset({"argosy-cluster-agent"}),
        accounts=("argosy-cluster-agent",),
    ),
    "helm": Way(
        values=("--set", "server.eventLogUrl=pulsar://log:6650"),
        deployments=frozenset({"argosy-api", "argosy-leader", "argosy-sampler", "argosy-executor"}),
        accounts=SEPARATE,
    ),
    "helm-combined": Way(
        values=("--set", "cluster.combined=true,server.enabled=false,cluster.servers={argosy.example.org:50051}"),
        deployments=frozenset({"argosy-cluster-agent"}),
        accounts=("argosy-executor",),
    ),
    "kustomize-named": Way(
        bases=("cluster",),
        deployments=frozenset({"argosy-sampler", "argosy-executor"}),
        accounts=SEPARATE,
        serves_one=True,
    ),
    "helm-combined-named": Way(
        values=(
            *("--set", "cluster.combined=true,server.enabled=false,cluster.servers={argosy.example.org:50051}"),
            *("--set", "cluster.executor.namespaces={helm-combined-named}"),
        ),
        deployments=frozenset({"argosy-cluster-agent"}),
        accounts=("argosy-executor",),
        serves_one=True,
    ),
}


@pytest.fixture(scope="module")
def cluster(kube_api_factory: Callable[..., KubeApi]) -> Iterator[KubeApi]:
    """A cluster with controllers and a scheduler, so that a deployment gets pods, and pods get nodes."""
    cluster = kube_api_factory(ControlPlaneOptions(has_scheduler=True))
    cluster.add_nodes(3, prefix="machine")
    yield cluster
    cluster.stop()


def run_helm(cluster: KubeApi, *arguments: str) -> str:
    """Run Helm as the administrator."""
    command = [find_helm(lambda _: None), *arguments, "--kubeconfig", str(cluster.kubeconfig), *IN_NAMESPACE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(cluster: KubeApi, *arguments: str) -> set[str]:
    """Return the names of objects."""
    return set(cluster.kubectl("get", *arguments, "-o", "name").split())


def make_secrets(cluster: KubeApi, folder: Path) -> None:
    """Make and apply what bases prove themselves by, of servers and of a cluster."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = str(DEPLOY / "kustomize" / "make-secrets.sh")
    subprocess.run([script, str(folder), "here"], env={**os.environ, "PATH": path}, check=True, timeout=120)
    for part in (folder, folder / "clusters" / "here"):
        cluster.kubectl("apply", "-k", str(part))
    found = {name.partition("/")[2] for name in names(cluster, "secrets", *IN_NAMESPACE)}
    assert {"argosy-server", "argosy-cluster"} <= found


def write_overlays(folder: Path, base: str, namespace: str) -> list[Path]:
    """Write overlays as docs/deploy.md has them: a base that serves a namespace, and its rights there."""
    (folder / "cluster").mkdir()
    (folder / "rights").mkdir()
    deploy = os.path.relpath(DEPLOY / "kustomize", folder / "cluster")
    kind: dict[str, object] = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    named = {"name": "argosy-cluster", "behavior": "merge", "literals": [f"namespaces={namespace}"]}
    overlays: dict[str, dict[str, object]] = {
        "cluster": {
            "namespace": "argosy",
            "resources": [f"{deploy}/{base}"],
            "components": [f"{deploy}/named-namespaces"],
            "configMapGenerator": [named],
        },
        "rights": {"namespace": namespace, "resources": [f"{deploy}/executor-namespace"]},
    }
    for name, overlay in overlays.items():
        (folder / name / "kustomization.yaml").write_text(yaml.safe_dump({**kind, **overlay}), encoding="utf-8")
    return [folder / name for name in overlays]


@pytest.fixture(scope="module", params=WAYS)
def installed(
    request: pytest.FixtureRequest, cluster: KubeApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Way]:
    """Argosy, installed as docs/deploy.md says, and taken away afterwards with everything that came with it."""
    way = WAYS[request.param]
    before = names(cluster, WHAT_IS_LEFT)
    cluster.kubectl("apply", "-f", str(DEPLOY / "kustomize" / "cluster" / "namespace.yaml"))
    secret = ("generic", "argosy-database", "--from-literal=url=postgresql://argosy@db.example.org/argosy")
    cluster.kubectl("create", "secret", *secret, *IN_NAMESPACE)
    cluster.kubectl("create", "namespace", request.param)
    folders = [DEPLOY / "kustomize" / base for base in way.bases]
    if way.bases and way.serves_one:
        folders = write_overlays(tmp_path_factory.mktemp("overlays"), way.bases[0], request.param)
    if way.bases:
        make_secrets(cluster, tmp_path_factory.mktemp("secrets"))
        for folder in folders:
            cluster.kubectl("apply", "-k", str(folder))
    else:
        run_helm(cluster, "install", "argosy", str(DEPLOY / "helm" / "argosy"), *way.values)
    yield replace(way, folders=tuple(folders))
    if way.bases:
        for folder in folders:
            cluster.kubectl("delete", "--ignore-not-found", "-k", str(folder))
    else:
        run_helm(cluster, "uninstall", "argosy", "--wait")
        cluster.kubectl("delete", "namespace", "argosy")
    of_jobs = {f"namespace/{request.param}"}
    assert names(cluster, WHAT_IS_LEFT) - before <= of_jobs


def test_every_pod_is_admitted_and_every_deployment_gets_ready(cluster: KubeApi, installed: Way) -> None:
    """Admission at the restricted level takes every pod that the controllers make; jobs run to their end."""
    found = {name.partition("/")[2] for name in names(cluster, "deployments", *IN_NAMESPACE)}
    assert found == installed.deployments
    cluster.kubectl("wait", "--for=condition=Available", "deployment", "--all", *IN_NAMESPACE, "--timeout=120s")
    for job in names(cluster, "jobs", *IN_NAMESPACE):
        cluster.kubectl("wait", "--for=condition=Complete", job, *IN_NAMESPACE, "--timeout=120s")
    failed = json.loads(
        cluster.kubectl("get", "events", *IN_NAMESPACE, "--field-selector=reason=FailedCreate", "-o", "json")
    )
    assert [event["message"] for event in failed["items"]] == []


def test_installation_is_upgraded_in_place(cluster: KubeApi, installed: Way) -> None:
    """A new value reaches the pods and nothing stands in its way; what stays the same makes no new pod."""
    pods = names(cluster, "pods", *IN_NAMESPACE)
    if installed.bases:
        for folder in installed.folders:
            cluster.kubectl("apply", "-k", str(folder))
        assert names(cluster, "pods", *IN_NAMESPACE) == pods
        return
    chart = str(DEPLOY / "helm" / "argosy")
    run_helm(cluster, "upgrade", "argosy", chart, *installed.values, "--set", "logLevel=debug")
    for name in installed.deployments:
        cluster.kubectl("rollout", "status", f"deployment/{name}", *IN_NAMESPACE, "--timeout=120s")
    assert "debug" in cluster.kubectl("get", "pods", *IN_NAMESPACE, "-o", "yaml")


def write_kubeconfig(cluster: KubeApi, account: str, folder: Path) -> Path:
    """Write a kubeconfig with a token of an account that was installed."""
    token = cluster.kubectl("create", "token", account, *IN_NAMESPACE, "--duration=1h").strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_installed_accounts_suffice_for_a_mesh(
    cluster: KubeApi, installed: Way, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Sampler and executor, each as its own account, run bags of every kind; nothing is ever forbidden to them."""
    name = request.node.callspec.id
    addresses = [f"kubernetes:{write_kubeconfig(cluster, account, tmp_path)}" for account in installed.accounts]
    served = ("--kubernetes-namespaces", name) if installed.serves_one else ()
    plan = MeshPlan(
        clusters=(ClusterPlan(name="here", address=addresses[-1]),),
        combined=len(addresses) == 1,
        # Each mesh has a database of its own, so what another one left behind is neither its own nor in its way.
        flags={
            "server": ("--leader-installation", name),
            "sampler": ("--installation", name, "--cluster-address", addresses[0]),
            "executor": ("--installation", name, *served),
            "combined": ("--installation", name, *served),
        },
    )
    bag = tmp_path / "bag.yaml"
    bag.write_text(BAG.replace("@namespace@", name))
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    with Mesh(tmp_path / "mesh") as mesh:
        mesh.up(plan)

        def argosy(*arguments: str) -> str:
            command = [sys.executable, "-m", "argosy_cli", "--server", mesh.server, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        argosy("queue", "create", name)
        argosy("submit", "-f", str(bag))
        argosy("watch", name, "rights")
        jobs = [json.loads(line) for line in argosy("-o", "jsonl", "jobs", "--queue", name).splitlines()]
        assert [job["state"] for job in jobs] == ["succeeded", "succeeded"]
        assert argosy("logs", jobs[0]["id"])
        logs = "\n".join(mesh.log_path(role).read_text(encoding="utf-8") for role in mesh.roles)
    assert "orbidden" not in logs


def test_executor_of_named_namespaces_may_nothing_in_others(cluster: KubeApi, installed: Way) -> None:
    """Its account acts where it is named; elsewhere it reads pods if a sampler is within it, and nothing else."""
    account = f"--as=system:serviceaccount:argosy:{installed.accounts[-1]}"

    def may(verb: str, resource: str) -> bool:
        try:
            return cluster.kubectl("auth", "can-i", verb, resource, "-n", "kube-system", account).startswith("yes")
        except BackendUnavailable:  # kubectl ends with an error for "no"
            return False

    serves_all = not installed.serves_one
    assert may("list", "pods") == may("watch", "pods") == (serves_all or len(installed.accounts) == 1)
    assert {may(verb, "pods") for verb in ("create", "delete", "patch")} == {serves_all}
    assert {may("list", kind) for kind in ("secrets", "configmaps", "services", "events")} == {serves_all}

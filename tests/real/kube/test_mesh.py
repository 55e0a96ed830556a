"""A whole mesh on a real API server with kube-scheduler: used by command, as its users would.

One mesh, one cluster agent that binds by node affinity. Only the kubelet is fake.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions

from argosy_cli.root import run
from argosy_core.reconcile.rendering import JOB_LABEL, RUN_LABEL
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

pytestmark = pytest.mark.timeout(240)

LONGEST_S = 100.0
"""Of a state to come; an executor that was restarted concludes what is not there after 50 s (docs/failures.md)."""
ROLE = "combined-lab"
NODES = ("lab-0", "lab-1", "lab-2")
CRDS = [
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.parts.test"},
        "spec": {
            "group": "parts.test",
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == "v1",
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
                for version in ("v1beta1", "v1")
            ],
        },
    }
    for plural, kind, scope in (("widgets", "Widget", "Namespaced"), ("factories", "Factory", "Cluster"))
]
STORAGE = [
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    *(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{node}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/disk"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                                ]
                            }
                        ]
                    }
                },
            },
        }
        for node in NODES
    ),
]


@dataclass
class Bed:
    """What a test works with."""

    home: Path
    api: KubeApi
    mesh: Mesh

    def __call__(self, *arguments: str, expected: int = 0) -> str:
        """Run a command line of argosy, check its exit code, and return its standard output."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["--home", str(self.home), *arguments])
        assert code == expected, f"argosy {' '.join(arguments)}: {code}\n{out.getvalue()}{err.getvalue()}"
        return out.getvalue()

    def submit(self, job_set: str, *manifests: dict[str, Any], count: int = 1) -> list[str]:
        """Submit jobs and return their ids."""
        path = self.home / "jobs.yaml"
        document = {"queue": "science", "jobSet": job_set, "count": count, "spec": {"manifests": list(manifests)}}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return [entry["id"] for entry in json.loads(self("-o", "json", "submit", "-f", str(path)))]

    def submit_groups(
        self, job_set: str, *groups: dict[str, Any], beside: tuple[dict[str, Any], ...] = (), **rules: str
    ) -> list[str]:
        """Submit a distributed job, by rules of its spec, and return its id."""
        path = self.home / "groups.yaml"
        spec = {"manifests": list(beside), "groups": list(groups), **rules}
        document = {"queue": "science", "jobSet": job_set, "spec": spec}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return [entry["id"] for entry in json.loads(self("-o", "json", "submit", "-f", str(path)))]

    def job(self, job_id: str) -> dict[str, Any]:
        """Return what the command says of a job."""
        found = json.loads(self("-o", "json", "jobs", job_id))
        return dict(found[0] if isinstance(found, list) else found)

    def await_state(self, job_id: str, *states: str) -> dict[str, Any]:
        """Return a job once it is in one of some states."""
        until(lambda: self.job(job_id)["state"] in states, lambda: str(self.job(job_id)))
        return self.job(job_id)

    def objects(self, resource: str, job_id: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that a job has in the cluster."""
        selector = f"{JOB_LABEL}={job_id}"
        return list(json.loads(self.api.kubectl("get", resource, "-A", "-o", "json", "-l", selector))["items"])


def until(condition: Callable[[], bool], tell: Callable[[], str] = lambda: "") -> None:
    """Return once a condition holds."""
    limit_s = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < limit_s, tell()
        time.sleep(0.1)


def pod(*, run_time: str = "1h", containers: tuple[str, ...] = ("main",), **notes: str) -> dict[str, Any]:
    """Return a pod; keywords say how the fake kubelet plays it."""
    annotations = {"argosy.dev/simulated-run-time": run_time}
    annotations |= {f"argosy.dev/simulated-{key.replace('_', '-')}": text for key, text in notes.items()}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "work", "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": name, "image": "app:1", "resources": resources} for name in containers],
        },
    }


@pytest.fixture(scope="module")
def bed(kube_api_factory: Callable[..., KubeApi], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A mesh on a cluster of three nodes with kube-scheduler, custom kinds and local disks; and a queue."""
    api = kube_api_factory(ControlPlaneOptions(has_scheduler=True))
    assert api.add_nodes(len(NODES), prefix="lab", cpu="4", memory="16Gi") == NODES
    api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([*CRDS, *STORAGE]))
    api.kubectl("wait", "--for=condition=Established", "crd", *(crd["metadata"]["name"] for crd in CRDS))
    home = tmp_path_factory.mktemp("home")
    mesh = Mesh(home / "mesh")
    cluster = ClusterPlan(name="lab", address=f"kubernetes:{api.kubeconfig}")
    keep = ("--leader-keep-finished-s", "20", "--leader-keep-failed-s", "20")  # for as long as a test reads their logs
    flags = {"combined": ("--kubernetes-binding", "affinity"), "server": keep}
    mesh.up(MeshPlan(clusters=(cluster,), combined=True, flags=flags))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("ARGOSY_SERVER", raising=False)
            bed = Bed(home, api, mesh)
            bed("queue", "create", "science")
            yield bed
    finally:
        mesh.down()
        api.stop()


def test_log_of_a_job_comes_through_the_api_server_and_the_kubelet(bed: Bed) -> None:
    """Followed it ends with its container, line after line; later it is had as a whole, in part, and by container."""
    (job_id,) = bed.submit("written", pod(run_time="3s", containers=("main", "side"), log_lines="6"))
    bed.await_state(job_id, "running", "succeeded")
    (own,) = bed.objects("pods", job_id)
    name = own["metadata"]["name"]
    assert bed("logs", job_id, "-f").splitlines() == [f"{name} main line {number}" for number in range(6)]
    assert bed("logs", job_id).splitlines() == [f"{name} main line {number}" for number in range(6)]
    assert bed("logs", job_id, "--tail", "2", "-c", "side").splitlines() == [f"{name} side line {n}" for n in (4, 5)]
    bed("logs", job_id, "-c", "other", expected=3)
    assert bed.await_state(job_id, "succeeded")["runs"][0]["cluster"] == "lab"


def test_failure_names_the_container(bed: Bed) -> None:
    """Which container ended and how is said by the job, and by its events."""
    (job_id,) = bed.submit("failing", pod(run_time="0.5s", containers=("trainer", "side"), exit_code="3"))
    job = bed.await_state(job_id, "failed")
    assert "container trainer ended with exit code 3" in json.dumps(job)
    assert "container trainer ended with exit code 3" in bed("explain", job_id)


@pytest.mark.parametrize(
    ("kind", "version", "text"),
    [
        pytest.param("Cog", "parts.test/v1", "has no kind Cog of parts.test/v1", id="unknown"),
        pytest.param("Factory", "parts.test/v1", "in no namespace", id="of-the-cluster"),
    ],
)
def test_kind_that_the_cluster_cannot_take_fails_the_job(bed: Bed, kind: str, version: str, text: str) -> None:
    """At the first try, as refused, and with the reason."""
    custom = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    (job_id,) = bed.submit(f"refused-{kind.lower()}", pod(), custom)
    job = bed.await_state(job_id, "failed")
    assert len(job["runs"]) == 1
    assert text in json.dumps(job)
    assert not bed.objects("pods", job_id)


def test_custom_resources_live_and_end_with_their_job(bed: Bed) -> None:
    """Named and labelled as the pods, in any version; found again by the next process; gone with the job."""
    widget = {"apiVersion": "parts.test/v1beta1", "kind": "Widget", "metadata": {"name": "wheel"}, "spokes": 7}
    (job_id,) = bed.submit("custom", pod(), widget)
    bed.await_state(job_id, "running")
    until(lambda: bool(bed.objects("widgets.parts.test", job_id)))  # it is made after the pod
    (made,), (own,) = bed.objects("widgets.parts.test", job_id), bed.objects("pods", job_id)
    suffix = own["metadata"]["name"].removeprefix("work")
    assert (made["metadata"]["name"], made["spokes"]) == (f"wheel{suffix}", 7)
    assert made["metadata"]["labels"][RUN_LABEL] == own["metadata"]["labels"][RUN_LABEL]
    with psycopg.connect(bed.mesh.database_url) as database:
        rows = database.execute("SELECT DISTINCT kind FROM objects WHERE name LIKE %s", (f"%{suffix}",)).fetchall()
    assert sorted(kind for (kind,) in rows) == ["Pod", "Widget.parts.test"]
    bed.mesh.kill(ROLE)
    bed.mesh.start(ROLE)
    bed.mesh.await_ready()
    (other,) = bed.submit("custom-after", pod(run_time="0.2s"), {**widget, "apiVersion": "parts.test/v1"})
    bed.await_state(other, "succeeded")
    assert bed.job(job_id)["state"] == "running"
    bed("cancel", job_id, "-y")
    bed.await_state(job_id, "cancelled")
    until(lambda: not bed.objects("widgets.parts.test", job_id) and not bed.objects("pods", job_id))


def test_volume_that_waits_for_its_consumer_is_bound_where_the_job_was_placed(bed: Bed) -> None:
    """Each pod requires the node that was decided; kube-scheduler binds the volume and the pod there."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    user = pod()
    user["spec"]["volumes"] = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    ids = [*bed.submit("disks", user, claim), *bed.submit("plain", pod(), count=4)]
    for job_id in ids:
        job = bed.await_state(job_id, "running")
        (own,) = bed.objects("pods", job_id)
        decided = job["runs"][-1]["node"]
        terms = own["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (field,) = terms["nodeSelectorTerms"][0]["matchFields"]
        assert (field["key"], field["values"]) == ("metadata.name", [decided])
        assert own["spec"]["nodeName"] == decided
        scheduled = bed.api.kubectl(
            *("get", "events", "-o", "jsonpath={.items[*].source.component}{.items[*].reportingComponent}"),
            *("--field-selector", f"reason=Scheduled,involvedObject.name={own['metadata']['name']}"),
        )
        assert "default-scheduler" in scheduled
    (bound,) = bed.objects("persistentvolumeclaims", ids[0])
    assert bound["status"]["phase"] == "Bound"
    assert bound["spec"]["volumeName"] == f"disk-{bed.job(ids[0])['runs'][-1]['node']}"
    bed("cancel", "--queue", "science", "-y")
    for job_id in ids:
        bed.await_state(job_id, "cancelled")
    until(lambda: not bed.objects("persistentvolumeclaims", ids[0]))


def group(name: str, count: int, template: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return a group that shares nodes."""
    return {"name": name, "min": count, "sharesNodes": True, "template": template, **rest}


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a pod's first container."""
    return {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}


def test_members_of_a_distributed_job_start_in_order_and_know_their_peers(bed: Bed) -> None:
    """All have nodes and services before the first pod runs; pods come when the coordinator is ready."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    head, work = pod(run_time="6s", start_delay="2s"), pod(run_time="3s", log_lines="1")
    (job_id,) = bed.submit_groups(
        "distributed", group("head", 1, head), group("work", 2, work, after="head"), beside=(settings,)
    )
    until(lambda: len(bed.objects("pods", job_id)) == 3)
    pods = {environment(one)["ARGOSY_MEMBER"]: one for one in bed.objects("pods", job_id)}
    assert pods["0"]["metadata"]["labels"]["argosy.dev/group"] == "head"
    peers = environment(pods["0"])["ARGOSY_PEERS"].split(",")
    services = {one["metadata"]["name"]: one for one in bed.objects("services", job_id)}
    # By the cluster's own times, whole seconds: whoever asks from outside may come when all is over.
    ready = next(one for one in pods["0"]["status"]["conditions"] if one["type"] == "Ready")["lastTransitionTime"]
    assert all(one["metadata"]["creationTimestamp"] < ready for one in services.values())
    assert all(pods[member]["metadata"]["creationTimestamp"] >= ready for member in ("1", "2"))
    assert sorted(services) == sorted(peers)
    for member, address in enumerate(peers):
        assert services[address]["spec"]["clusterIP"] == "None"
        selector = ",".join(f"{key}={value}" for key, value in services[address]["spec"]["selector"].items())
        names = bed.api.kubectl("get", "pods", "-A", "-o", "name", "-l", selector).split()
        assert names == [f"pod/{pods[str(member)]['metadata']['name']}"]
        assert pods[str(member)]["spec"]["hostname"] == address
        assert environment(pods[str(member)])["ARGOSY_PEERS"] == ",".join(peers)
    assert len(bed.objects("configmaps", job_id)) == 3
    job = bed.await_state(job_id, "running", "succeeded")
    assert [(run["member"], run["node"]) for run in job["runs"]] == [
        (member, pods[str(member)]["spec"].get("nodeName") or run["node"]) for member, run in enumerate(job["runs"])
    ]
    assert bed("logs", job_id, "--member", "2", "-f").split()[0] == pods["2"]["metadata"]["name"]
    assert bed.await_state(job_id, "succeeded", "failed")["state"] == "succeeded"


def test_member_that_is_replaced_is_found_at_the_address_of_the_first_one(bed: Bed) -> None:
    """Its peers know one address for it, whose service finds the new pod and no other; they themselves run on."""
    (job_id,) = bed.submit_groups("replaced", group("work", 2, pod()), memberFailure="replace")

    def members() -> dict[str, dict[str, Any]]:
        pods = [one for one in bed.objects("pods", job_id) if "deletionTimestamp" not in one["metadata"]]
        return {environment(one)["ARGOSY_MEMBER"]: one for one in pods}

    until(lambda: len(members()) == 2 and all(one["status"].get("phase") == "Running" for one in members().values()))
    first = members()
    lost = first["1"]["metadata"]
    bed.api.kubectl("delete", "pod", lost["name"], "-n", lost["namespace"], "--grace-period=1", "--wait=false")
    until(lambda: len(members()) == 2 and members()["1"]["metadata"]["uid"] != first["1"]["metadata"]["uid"])
    now = members()
    assert now["0"]["metadata"]["uid"] == first["0"]["metadata"]["uid"]
    peers = environment(first["0"])["ARGOSY_PEERS"]
    assert {environment(one)["ARGOSY_PEERS"] for one in now.values()} == {peers}
    address = peers.split(",")[1]
    assert now["1"]["spec"]["hostname"] == address
    until(lambda: address in {one["metadata"]["name"] for one in bed.objects("services", job_id)})
    (service,) = [one for one in bed.objects("services", job_id) if one["metadata"]["name"] == address]
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    found = bed.api.kubectl("get", "pods", "-A", "-o", "name", "-l", selector).split()
    assert found == [f"pod/{now['1']['metadata']['name']}"]
    assert {run["attempt"] for run in bed.job(job_id)["runs"]} == {1}
    bed("cancel", job_id, "-y")
    bed.await_state(job_id, "cancelled")
    until(lambda: not bed.objects("pods", job_id) and not bed.objects("services", job_id))


def test_member_that_fails_ends_its_job_and_every_object(bed: Bed) -> None:
    """The others are stopped, the services go with them, and the reason is that of the member that failed."""
    (job_id,) = bed.submit_groups(
        "failing-member", group("fine", 2, pod()), group("bad", 1, pod(run_time="1s", exit_code="3"))
    )
    job = bed.await_state(job_id, "failed")
    assert len({run["attempt"] for run in job["runs"]}) == 1
    assert "ended with exit code 3" in json.dumps(job)
    until(lambda: not bed.objects("pods", job_id) and not bed.objects("services", job_id))


def test_coordinator_that_is_never_ready_ends_its_job_with_that_reason(bed: Bed) -> None:
    """Nobody waits for ever; the members that waited for it never had pods."""
    (job_id,) = bed.submit_groups(
        "never-ready",
        group("head", 1, pod(reason="CreateContainerConfigError")),
        group("work", 2, pod(), after="head"),
    )
    until(lambda: len(bed.objects("services", job_id)) == 3 and len(bed.objects("pods", job_id)) == 1)
    bed("cancel", job_id, "-y")
    bed.await_state(job_id, "cancelled")
    until(lambda: not bed.objects("pods", job_id) and not bed.objects("services", job_id))

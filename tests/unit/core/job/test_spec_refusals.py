"""Reading bags: everything that is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.job.bag_documents import LIMITS, PORT_RIGHTS, container, custom, faults, pod, read, resources

from argosy_core.job.reading.spec import read_bag


@pytest.mark.parametrize(
    ("manifest", "field", "text"),
    [
        pytest.param(custom("apps/v1", "Deployment"), "kind", "not allowed", id="workload"),
        pytest.param(custom("rbac.authorization.k8s.io/v1", "Role"), "kind", "not allowed", id="rights"),
        pytest.param(
            custom("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"), "kind", "use one of", id="hook"
        ),
        pytest.param(custom("v1", "Node"), "kind", "not allowed", id="node"),
        pytest.param(custom("x.k8s.io/v1", "Widget"), "kind", "not allowed", id="reserved-group"),
        pytest.param(custom("x.k8s.io/v1", "Pod"), "apiVersion", "must be v1 for a Pod", id="pod-of-reserved-group"),
        pytest.param(custom("example.test/V1"), "apiVersion", "GROUP/VERSION", id="version"),
        pytest.param(custom("example.test/"), "apiVersion", "GROUP/VERSION", id="no-version"),
        pytest.param(custom("a/example.test/v1"), "kind", "not allowed", id="two-slashes"),
        pytest.param(custom("Example.test/v1"), "kind", "not allowed", id="group-in-capitals"),
        pytest.param(custom(kind="widget"), "kind", "upper-case", id="kind-in-small"),
        pytest.param(custom(kind="W" * 64), "kind", "upper-case", id="long-kind"),
        pytest.param(custom(kind="../../../v1/nodes"), "kind", "upper-case", id="path-as-kind"),
        pytest.param(custom(kind=5), "kind", "not allowed", id="kind-is-a-number"),
        pytest.param(custom(5), "kind", "not allowed", id="version-is-a-number"),
        pytest.param(custom(metadata={"finalizers": ["x/y"]}), "metadata.finalizers", "executor", id="finalizer"),
    ],
)
def test_read_bag_refuses_kinds_of_kubernetes_itself_and_what_is_none(
    manifest: dict[str, Any], field: str, text: str
) -> None:
    """Groups of Kubernetes reach beyond a job; forms that no cluster has need not travel to one."""
    assert text in faults(read(manifest, pod()))[f"manifests[0].{field}"]


def test_host_address_must_be_one() -> None:
    """A name would never be given out by a kubelet."""
    ports = [{"containerPort": 1, "hostPort": 80, "hostIP": "localhost"}]
    found = read(pod(container(ports=ports)), limits=PORT_RIGHTS)
    assert [(v.field, v.description) for v in found.violations] == [
        ("manifests[0].spec.containers[0].ports[0].hostIP", "must be an IP address")
    ]


REFUSED = [
    pytest.param(pod(hostNetwork=True), "spec.hostNetwork", id="host-network"),
    pytest.param(pod(hostPID=True), "spec.hostPID", id="host-pid"),
    pytest.param(pod(hostIPC=True), "spec.hostIPC", id="host-ipc"),
    pytest.param(pod(nodeName="node-1"), "spec.nodeName", id="static-node"),
    pytest.param(pod(priorityClassName="system-node-critical"), "spec.priorityClassName", id="system-priority"),
    pytest.param(pod(serviceAccountName="admin"), "spec.serviceAccountName", id="foreign-account"),
    pytest.param(pod(automountServiceAccountToken=True), "spec.automountServiceAccountToken", id="token"),
    pytest.param(pod(restartPolicy="Always"), "spec.restartPolicy", id="never-ends"),
    pytest.param(pod(restartPolicy="OnFailure"), "spec.restartPolicy", id="may-never-end"),
    *(
        pytest.param(
            pod(terminationGracePeriodSeconds=grace), "spec.terminationGracePeriodSeconds", id=f"grace-{grace}"
        )
        for grace in (0, -1, 10**9, "30", True)
    ),
    pytest.param(
        pod(initContainers=[container("init", ports=[{"hostPort": 22}])]),
        "spec.initContainers[0].ports[0].hostPort",
        id="port-of-an-init-container",
    ),
    pytest.param(pod(volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "spec.volumes[0].hostPath", id="host-path"),
    pytest.param(
        pod(container(securityContext={"privileged": True})),
        "spec.containers[0].securityContext.privileged",
        id="privileged",
    ),
    pytest.param(
        pod(container(securityContext={"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}})),
        "spec.containers[0].securityContext.capabilities.add[1]",
        id="capability",
    ),
    pytest.param(
        pod(container(securityContext={"procMount": "Unmasked"})),
        "spec.containers[0].securityContext.procMount",
        id="proc-mount",
    ),
    pytest.param(
        pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "spec.securityContext.seccompProfile.type",
        id="seccomp",
    ),
    pytest.param(
        pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "spec.securityContext.sysctls[0].name",
        id="sysctl",
    ),
    pytest.param(
        pod(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
        "spec.securityContext.seLinuxOptions.type",
        id="selinux",
    ),
    pytest.param(
        pod(securityContext={"windowsOptions": {"hostProcess": True}}),
        "spec.securityContext.windowsOptions.hostProcess",
        id="host-process",
    ),
    pytest.param(
        pod(container(livenessProbe={"httpGet": {"host": "10.0.0.1"}})),
        "spec.containers[0].livenessProbe.httpGet.host",
        id="probe-host",
    ),
    pytest.param(
        pod(container(lifecycle={"preStop": {"tcpSocket": {"host": "x"}}})),
        "spec.containers[0].lifecycle.preStop.tcpSocket.host",
        id="hook-host",
    ),
    pytest.param(pod(container(ports=[{"hostPort": 80}])), "spec.containers[0].ports[0].hostPort", id="host-port"),
    pytest.param(
        pod(initContainers=[container("i", securityContext={"privileged": True})]),
        "spec.initContainers[0].securityContext.privileged",
        id="privileged-init",
    ),
    pytest.param(
        pod(metadata={"labels": {"argosy.dev/run": "1-1"}}), "metadata.labels.argosy.dev/run", id="reserved-label"
    ),
    pytest.param(
        pod(metadata={"annotations": {"argosy.dev/x": "1"}}),
        "metadata.annotations.argosy.dev/x",
        id="reserved-annotation",
    ),
    pytest.param(pod(nodeSelector={"argosy.dev/x": "1"}), "spec.nodeSelector.argosy.dev/x", id="reserved-selector"),
    pytest.param(pod(tolerations=[{"operator": "Exists"}]), "spec.tolerations[0]", id="every-taint"),
    pytest.param(pod(tolerations=[{"key": "node-role.kubernetes.io/master"}]), "spec.tolerations[0]", id="masters"),
    pytest.param(
        pod(tolerations=[{"key": "argosy.dev/x", "operator": "Exists"}]),
        "spec.tolerations[0].key",
        id="reserved-toleration",
    ),
    pytest.param(pod(metadata={"finalizers": ["a/b"]}), "metadata.finalizers", id="finalizer"),
    pytest.param(pod(metadata={"ownerReferences": [{}]}), "metadata.ownerReferences", id="owner"),
    pytest.param(pod(metadata={"namespace": "../x"}), "metadata.namespace", id="path-as-namespace"),
    pytest.param(pod(metadata={"name": "UPPER"}), "metadata.name", id="name"),
    pytest.param(pod(metadata={"name": "a\nb"}), "metadata.name", id="newline"),
    pytest.param(pod(metadata={"labels": {"a": "x" * 64}}), "metadata.labels.a", id="long-label"),
    pytest.param(pod(metadata={"labels": {f"l{i}": "" for i in range(65)}}), "metadata.labels", id="many-labels"),
    pytest.param(pod(container(name="")), "spec.containers[0].name", id="container-name"),
    pytest.param(pod(container(image=" ")), "spec.containers[0].image", id="image"),
    pytest.param(pod(container(resources={"requests": {"cpu": "1"}})), "spec.containers[0].resources", id="no-memory"),
    pytest.param(
        pod(initContainers=[container("i", resources={})]),
        "spec.initContainers[0].resources",
        id="init-without-values",
    ),
    pytest.param(
        pod(container(resources=resources(cpu="-1", memory="1Gi"))),
        "spec.containers[0].resources.requests.cpu",
        id="negative",
    ),
    pytest.param(
        pod(container(resources=resources(cpu="NaN", memory="1Gi"))),
        "spec.containers[0].resources.requests.cpu",
        id="nan",
    ),
    pytest.param(
        pod(container(resources=resources(cpu="1e99", memory="1Gi"))),
        "spec.containers[0].resources.requests.cpu",
        id="huge",
    ),
    pytest.param(
        pod(container(resources={"requests": {"cpu": True, "memory": "1Gi"}})),
        "spec.containers[0].resources.requests.cpu",
        id="boolean",
    ),
    pytest.param(
        pod(container(resources={"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "1"}})),
        "spec.containers[0].resources.requests.cpu",
        id="request-over-limit",
    ),
    pytest.param(pod(container(resources=resources(cpu="0", memory="0"))), "spec", id="nothing-at-all"),
    pytest.param(
        pod(container(resources={"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0.5"}})),
        "spec.containers[0].resources.requests.nvidia.com/gpu",
        id="half-a-gpu",
    ),
    pytest.param(
        pod(container(resources=resources(cpu="1", memory="1Gi", pods="3"))),
        "spec.containers[0].resources.requests.pods",
        id="pods",
    ),
    pytest.param(
        pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        "spec.affinity.podAntiAffinity",
        id="pod-affinity",
    ),
    pytest.param(
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        id="affinity-that-matches-nothing",
    ),
    pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}, "spec.containers", id="no-container"),
    pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": 5}, "spec", id="spec-is-a-number"),
    pytest.param({"apiVersion": "v2", "kind": "Pod", "spec": pod()["spec"]}, "apiVersion", id="api-version"),
    pytest.param({"apiVersion": "v1", "kind": "DaemonSet"}, "kind", id="kind"),
]
"""(manifest, path below the manifest of the field that is refused)."""


@pytest.mark.parametrize(("spec", "path"), REFUSED)
def test_read_bag_refuses_and_names_the_field(spec: dict[str, Any], path: str) -> None:
    """Each thing that is not allowed is refused with the path of its field."""
    assert f"manifests[0].{path}" in faults(read(spec))


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        pytest.param(b"\xff{}", "UTF-8", id="utf-8"),
        pytest.param(b'{"kind": "Pod", "kind": "Pod"}', "twice", id="duplicate-key"),
        pytest.param(b'{"kind": NaN}', "NaN", id="nan"),
        pytest.param(b'{"kind": 1e400}', "too large", id="infinite"),
        pytest.param(b'{"kind": ' + b"9" * 5000 + b"}", "digits", id="long-integer"),
        pytest.param(b'{"a":' * 70 + b"1" + b"}" * 70, "nested", id="depth-70"),
        pytest.param(b"[" * 20_000, "nested", id="depth-20000"),
        pytest.param(b"[]", "JSON object", id="array"),
        pytest.param(b'{"kind": "Pod"} {}', "line 1 column 17", id="two-documents"),
        pytest.param(b"{", "line 1", id="truncated"),
        pytest.param(b'{"a": "' + b"x" * 262_144 + b'"}', "bytes", id="size"),
    ],
)
def test_read_bag_refuses_bytes_that_are_not_strict_json(manifest: bytes, text: str) -> None:
    """What could be read in two ways, or is too deep or large, is refused before it is looked at."""
    (violation,) = read_bag([manifest], LIMITS).violations
    assert violation.field == "manifests[0]"
    assert text in violation.description


def test_read_bag_lists_everything_that_is_wrong_at_once() -> None:
    """All violations of all manifests come together."""
    bag = read(
        pod(hostPID=True, nodeName="x"), {"apiVersion": "v1", "kind": "Role"}, pod(hostIPC=True, metadata={"name": "b"})
    )
    assert list(faults(bag)) == [
        "manifests[0].spec.hostPID",
        "manifests[0].spec.nodeName",
        "manifests[1].kind",
        "manifests[2].spec.hostIPC",
    ]
    many = read(*[pod(container(image=""), *[container("x", image="") for _ in range(9)]) for _ in range(32)])
    assert len(many.violations) == 100


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "Service", "spec": {"externalIPs": ["1.2.3.4"]}},
            "spec.externalIPs",
            id="service",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}, "type", id="secret"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "pv"}},
            "spec.volumeName",
            id="claim",
        ),
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}, "data.a", id="config-map"),
        pytest.param({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": []}, "spec", id="ingress"),
    ],
)
def test_read_bag_checks_other_kinds(extra: dict[str, Any], path: str) -> None:
    """Objects beside the pods may not reach past their job either."""
    assert list(faults(read(pod(), extra))) == [f"manifests[1].{path}"]


def test_read_bag_refuses_bags_without_pods_with_too_many_objects_and_with_equal_names() -> None:
    """A job has at least one pod, at most 32 objects, and each object its own name after cutting."""
    assert list(faults(read({"apiVersion": "v1", "kind": "ConfigMap"}))) == ["manifests"]
    assert "manifests" in faults(read(*[pod(metadata={"name": f"p{i}"}) for i in range(33)]))
    assert list(faults(read(pod(), pod()))) == ["manifests[1].metadata.name"]
    stem = "n" * 42
    for one, other in ((stem + "11", stem + "12"), (stem + "-x", stem), ("a.b", "a-b")):
        assert list(faults(read(pod(metadata={"name": one}), pod(metadata={"name": other})))) == [
            "manifests[1].metadata.name"
        ], "cut for a member's number, at a hyphen, and with dots as hyphens they are alike"
    assert not faults(read(pod(metadata={"name": stem + "1"}), pod(metadata={"name": stem + "2"})))


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        pytest.param([{"cpu": "10T", "memory": "1Gi"}], "asks for more than 1000000 of cpu", id="one-pod"),
        pytest.param([{"cpu": "1", "memory": "4E"}] * 3, "asks for more than 64Pi of memory", id="sum-of-pods"),
        pytest.param(
            [{"cpu": "1", "memory": "1Gi", **{f"x.example/r{number}": "1" for number in range(31)}}],
            "asks for 33 different resources",
            id="distinct-names",
        ),
    ],
)
def test_read_bag_refuses_what_cannot_be_counted(pods: list[dict[str, str]], text: str) -> None:
    """What would overflow a pool's sums is refused where it enters, for the bag as a whole."""
    bag = read(
        *[
            pod(
                container(resources={"requests": amounts, "limits": amounts}),
                metadata={"name": f"p{number}"},
            )
            for number, amounts in enumerate(pods)
        ]
    )
    assert text in faults(bag)["manifests"]


@pytest.mark.parametrize("name", ["hugepages-", "hugepages-2Mi\n", "hugepages-\x1b"])
def test_read_bag_refuses_names_of_huge_pages_that_no_node_has(name: str) -> None:
    """A resource's name is checked before it is stored: it becomes a column of every pool."""
    amounts = {"cpu": "1", "memory": "1Gi", name: "1"}
    bag = read(pod(container(resources={"requests": amounts, "limits": amounts})))
    assert "is not a resource of a container" in " ".join(faults(bag).values())

"""Policies of queues: what they let pods do, what they refuse by name, and what they add."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.group_spec import read_group_bag
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.pod_rights import PodLevel
from argosy_core.job.reading.queue_policy import QueuePolicy, add_defaults, read_queue_policy
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.reading.spec_reader import SpecReader

RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
MODEST: dict[str, Any] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
}


def policy(**document: Any) -> QueuePolicy:
    """Return the policy of a document."""
    return read_queue_policy(json.dumps(document))


def pod(*, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    main = {"name": "main", "image": "registry.example.org/team/tool:1", "resources": RESOURCES, **(container or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [main], **spec}}


def faults(given: QueuePolicy, *objects: dict[str, Any]) -> list[str]:
    """Return the fields that a policy refuses in a bag, however it is read."""
    manifests = [json.dumps(one).encode() for one in objects]
    limits = replace(SpecLimits(), rights=given.rights)
    bag = read_bag(manifests, limits)
    reader = SpecReader(limits)
    assert reader.read(manifests) == bag
    assert reader.read(manifests) == bag
    return [violation.field.removeprefix("manifests[0].") for violation in bag.violations]


def test_restricted_level_names_everything_that_a_pod_must_give_up() -> None:
    """All controls of Kubernetes' level restricted, of init containers too; what gives them up is fine."""
    restricted = policy(level="restricted")
    bare = pod(
        container={"securityContext": {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
        initContainers=[{"name": "first", "image": "i", "resources": RESOURCES}],
        volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}],
    )
    settings = "spec.containers[0].securityContext"
    first = "spec.initContainers[0].securityContext"
    assert set(faults(restricted, bare)) == {
        "spec.volumes[0].nfs",
        f"{settings}.runAsUser",
        f"{settings}.runAsNonRoot",
        f"{settings}.allowPrivilegeEscalation",
        f"{settings}.seccompProfile",
        f"{settings}.capabilities.add",
        *(
            f"{first}.{key}"
            for key in ("runAsNonRoot", "allowPrivilegeEscalation", "seccompProfile", "capabilities.drop")
        ),
    }
    limits = replace(SpecLimits(), rights=restricted.rights)
    found = read_bag([json.dumps(pod()).encode()], limits).violations
    told = {one.field.rpartition("securityContext.")[2]: one.description for one in found}
    for key, line in (
        ("runAsNonRoot", "add `runAsNonRoot: true`"),
        ("allowPrivilegeEscalation", "add `allowPrivilegeEscalation: false`"),
        ("seccompProfile", "add `seccompProfile: {type: RuntimeDefault}`"),
        ("capabilities.drop", "add `capabilities: {drop: [ALL]}`"),
    ):
        assert line in told[key], "whoever is refused is told what to write"
    assert faults(restricted, pod(container={"securityContext": MODEST})) == []
    of_pod = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own = {key: MODEST[key] for key in ("allowPrivilegeEscalation", "capabilities")}
    assert faults(restricted, pod(container={"securityContext": own}, securityContext=of_pod)) == []
    windows = pod(container={"securityContext": {"runAsNonRoot": True}}, os={"name": "windows"})
    assert faults(restricted, windows) == []
    contrary = pod(container={"securityContext": {**MODEST, "runAsNonRoot": False}}, securityContext=of_pod)
    assert set(faults(restricted, contrary)) == {f"{settings}.runAsNonRoot"}
    as_pod = pod(container={"securityContext": MODEST}, securityContext={"runAsNonRoot": False})
    assert set(faults(restricted, as_pod)) == {"spec.securityContext.runAsNonRoot"}


def test_priorities_of_the_system_and_shared_devices_are_refused_at_every_level() -> None:
    """The first would push Kubernetes' own pods aside; a kubelet gives a device to one container, whole."""
    assert faults(policy(), pod(priority=2_000_000_000)) == ["spec.priority"]
    amounts = {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}
    assert faults(policy(), pod(container={"resources": amounts})) == [
        "spec.containers[0].resources.limits.example.com/gpu"
    ]


REACHING: list[dict[str, Any]] = [
    {"hostNetwork": True},
    {"hostPID": True},
    {"hostIPC": True},
    {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
    {"container": {"securityContext": {"privileged": True}}},
    {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
    {"container": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
    {"container": {"securityContext": {"procMount": "Unmasked"}}},
    {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
]


@pytest.mark.parametrize("reach", REACHING, ids=lambda reach: json.dumps(reach)[:40])
def test_pods_are_part_of_their_node_only_where_that_is_granted(reach: dict[str, Any]) -> None:
    """What the baseline refuses, the level privileged grants."""
    assert faults(policy(), pod(**reach)) != []
    assert faults(policy(level="privileged"), pod(**reach)) == []


def test_nobody_chooses_a_node_or_takes_the_priority_of_the_system() -> None:
    """The level privileged does not lead around the scheduler."""
    odd = pod(nodeName="n", priorityClassName="system-node-critical", ephemeralContainers=[{"name": "x"}])
    assert set(faults(policy(level="privileged"), odd)) == {
        "spec.nodeName",
        "spec.priorityClassName",
        "spec.ephemeralContainers",
    }


def test_pod_in_the_nodes_network_takes_its_ports() -> None:
    """Every port that it names is one of the node, so two such pods do not meet."""
    manifest = json.dumps(pod(hostNetwork=True, container={"ports": [{"containerPort": 8080}]})).encode()
    limits = replace(SpecLimits(), rights=policy(level="privileged").rights)
    ports = read_bag([manifest], limits).scheduling_class.host_ports
    assert [port.port for port in ports] == [8080]


def test_images_priority_classes_accounts_and_ports_are_those_that_are_granted() -> None:
    """What is named is allowed, everything else is refused where it stands."""
    given = policy(
        images=["registry.example.org/team/"], priorityClasses=["batch"], serviceAccounts=["trainer"],
        serviceAccountToken=True, hostPorts=["30000-30010"],
    )  # fmt: skip
    right = pod(
        container={"ports": [{"containerPort": 80, "hostPort": 30005}]}, priorityClassName="batch",
        serviceAccountName="trainer", automountServiceAccountToken=True,
    )  # fmt: skip
    wrong = pod(
        container={"ports": [{"containerPort": 80, "hostPort": 80}], "image": "docker.io/team/x"},
        priorityClassName="urgent", serviceAccountName="root",
    )  # fmt: skip
    assert faults(given, right) == []
    assert set(faults(given, wrong)) == {
        "spec.containers[0].image",
        "spec.containers[0].ports[0].hostPort",
        "spec.priorityClassName",
        "spec.serviceAccountName",
    }
    assert faults(policy(), pod(container={"image": "any"}, priorityClassName="any")) == []


def test_kinds_and_requests_are_bounded() -> None:
    """A pod always may be; other kinds where they are named, and the sum of a bag's pods counts."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    widget = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert faults(policy(kinds=["ConfigMap"]), service, widget, pod()) == ["kind", "manifests[1].kind"]
    assert faults(policy(kinds=["Service", "Widget.example.test"]), service, widget, pod()) == []
    second = {**pod(), "metadata": {"name": "q"}}
    assert faults(policy(maxRequests={"cpu": 1.5}), pod(), second) == ["manifests"]
    assert faults(policy(maxRequests={"cpu": 2, "memory": "2Gi"}), pod(), second) == []


def test_objects_of_others_are_refused_wherever_a_pod_names_them() -> None:
    """Secrets, config maps and claims of the bag and those that are shared; no volume that names secrets otherwise."""
    given = policy(ownObjectsOnly=True, sharedObjects=["pull"])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}

    def user(name: str) -> dict[str, Any]:
        env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]
        sources = {"sources": [{"configMap": {"name": name}}]}
        return pod(
            container={"env": env, "envFrom": [{"configMapRef": {"name": name}}]},
            imagePullSecrets=[{"name": "pull"}],
            volumes=[
                {"name": "a", "secret": {"secretName": name}},
                {"name": "b", "persistentVolumeClaim": {"claimName": name}},
                {"name": "c", "projected": sources},
            ],
        )

    assert faults(given, user("mine"), secret) == []
    assert set(faults(given, user("theirs"), secret)) == {
        "spec.containers[0].env[0].valueFrom.secretKeyRef.name",
        "spec.containers[0].envFrom[0].configMapRef.name",
        "spec.volumes[0].secret.secretName",
        "spec.volumes[1].persistentVolumeClaim.claimName",
        "spec.volumes[2].projected.sources[0].configMap.name",
    }
    odd = pod(volumes=[{"name": "v", "cephfs": {"monitors": ["m"], "secretRef": {"name": "theirs"}}}])
    assert faults(given, odd) == ["spec.volumes[0].cephfs"]
    widget = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert faults(given, widget, pod()) == ["kind"]


def test_pods_that_a_custom_resource_asks_for_are_judged_too() -> None:
    """Privileged containers, host things and foreign accounts are found wherever the template stands."""
    template = {
        "hostNetwork": True,
        "serviceAccountName": "root",
        "containers": [{"name": "x", "securityContext": {"privileged": True}, "ports": [{"hostPort": 80}]}],
    }
    widget = {
        "apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"roles": [{"template": {"spec": template}}]},
    }  # fmt: skip
    place = "spec.roles[0].template.spec"
    assert set(faults(policy(), widget, pod())) == {
        f"{place}.hostNetwork",
        f"{place}.serviceAccountName",
        f"{place}.containers[0].securityContext.privileged",
        f"{place}.containers[0].ports[0].hostPort",
    }
    assert faults(policy(level="privileged", serviceAccounts=["root"]), widget, pod()) == []


def test_defaults_are_added_where_nothing_is_said() -> None:
    """What a manifest says of its own stands; what adds nothing leaves it as it was received."""
    given = policy(
        defaults={
            "namespace": "team", "nodeSelector": {"pool": "team", "zone": "a"}, "labels": {"team": "blue"},
            "tolerations": [{"key": "team", "operator": "Exists"}],
        }
    )  # fmt: skip
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    raw = [json.dumps(one).encode() for one in (pod(nodeSelector={"zone": "b"}), service)] + [b"{"]
    first, second, third = add_defaults(raw, given.defaults, max_depth=64)
    made = json.loads(first)
    assert made["spec"]["nodeSelector"] == {"pool": "team", "zone": "b"}
    assert made["spec"]["tolerations"] == [{"key": "team", "operator": "Exists"}]
    assert (made["metadata"]["namespace"], made["metadata"]["labels"]) == ("team", {"team": "blue"})
    assert json.loads(second)["metadata"] == {"name": "s", "namespace": "team"}
    assert third == b"{"
    assert add_defaults([first], given.defaults, max_depth=64) == [first]


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ({"level": "loose", "Level": 1}, {"policy.level", "policy.Level"}),
        ({"hostPorts": ["0-1"]}, {"policy.hostPorts[0]"}),
        ({"hostPorts": ["2-1"]}, {"policy.hostPorts[0]"}),
        ({"kinds": ["Node"]}, {"policy.kinds[0]"}),
        ({"maxRequests": {"cpu": "much"}}, {"policy.maxRequests.cpu"}),
        ({"maxTime": "soon"}, {"policy.maxTime"}),
        ({"ownObjectsOnly": "yes"}, {"policy.ownObjectsOnly"}),
        ({"defaults": {"labels": {"argosy.dev/queue": "x"}}}, {"policy.defaults.labels.argosy.dev/queue"}),
        ({"defaults": {"tolerations": [{"operator": "Exists"}]}}, {"policy.defaults.tolerations[0]"}),
        ({"images": "all"}, {"policy.images"}),
        ({"serviceAccounts": ["x"] * 101}, {"policy.serviceAccounts"}),
    ],
)
def test_policy_that_says_something_else_is_refused_with_every_fault(document: Any, fields: set[str]) -> None:
    """A misspelt key must not be a right that is missing."""
    with pytest.raises(InvalidRequest) as caught:
        policy(**document)
    assert {violation.field for violation in caught.value.violations} == fields


def test_policy_without_a_word_is_what_holds_without_one() -> None:
    """So a queue may be given one key after the other."""
    assert policy() == QueuePolicy(rights=SpecLimits().rights)
    assert policy(level="restricted").rights.level == PodLevel.RESTRICTED
    assert policy(maxTime="90m").max_time_s == 5400


def test_pods_of_groups_are_judged_alike_and_bounded_together() -> None:
    """A template's faults are named by its group; at their largest all of them count; our own service is no kind."""
    limits = replace(
        SpecLimits(), rights=policy(kinds=["ConfigMap"], images=["registry."], maxRequests={"cpu": 5}).rights
    )

    def read(image: str, maximum: int) -> list[str]:
        template = json.dumps(pod(container={"image": image}))
        group = PodGroup(name="workers", minimum=1, maximum=maximum, template=template)
        return [violation.field for violation in read_group_bag([], [group], limits).violations]

    assert read("registry.example.org/x", 5) == []
    assert read("docker.io/x", 5) == ["groups[0].template.spec.containers[0].image"]
    assert read("registry.example.org/x", 6) == ["groups"]

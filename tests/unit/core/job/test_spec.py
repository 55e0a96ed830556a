"""Reading bags: classes and layouts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.core.job.bag_documents import (
    GIB,
    LIMITS,
    PORT_RIGHTS,
    container,
    custom,
    faults,
    pod,
    read,
    requests,
    resources,
)

from argosy_core.job.reading.classes import HostPort, MatchExpression, SchedulingClass, Toleration
from argosy_core.job.reading.pod_rights import PodRights
from argosy_core.job.reading.spec import SpecLimits, read_bag, spec_hash
from argosy_core.reconcile.intake import kinds_of_body


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod(), {"cpu": 1000, "memory": GIB}, id="one"),
        pytest.param(pod(container("a"), container("b")), {"cpu": 2000, "memory": 2 * GIB}, id="containers-add-up"),
        pytest.param(
            pod(container(resources={"limits": {"cpu": "500m", "memory": "1Gi"}})),
            {"cpu": 500, "memory": GIB},
            id="limits-stand-in",
        ),
        pytest.param(
            pod(initContainers=[container("i", resources=resources(cpu="3", memory="512Mi"))]),
            {"cpu": 3000, "memory": GIB},
            id="init-is-a-maximum",
        ),
        pytest.param(
            pod(
                initContainers=[
                    container("side", restartPolicy="Always", resources=resources(cpu="500m", memory="1Gi")),
                    container("i", resources=resources(cpu="2", memory="512Mi")),
                ]
            ),
            {"cpu": 2500, "memory": 2 * GIB},
            id="sidecar-runs-beside-later-init-and-containers",
        ),
        pytest.param(
            pod(
                initContainers=[
                    container("i", resources=resources(cpu="2", memory="512Mi")),
                    container("side", restartPolicy="Always", resources=resources(cpu="500m", memory="1Gi")),
                ]
            ),
            {"cpu": 2000, "memory": 2 * GIB},
            id="sidecar-after-init-does-not-add-to-it",
        ),
        pytest.param(
            pod(overhead={"cpu": "250m", "memory": "128Mi"}),
            {"cpu": 1250, "memory": GIB + (128 << 20)},
            id="overhead",
        ),
        pytest.param(
            pod(
                container(
                    resources={
                        "requests": {"cpu": 2, "memory": "1e9", "nvidia.com/gpu": "1"},
                        "limits": {"nvidia.com/gpu": 1},
                    }
                )
            ),
            {"cpu": 2000, "memory": 10**9, "nvidia.com/gpu": 1},
            id="numbers-and-extended-resources",
        ),
        pytest.param(
            pod(container(resources={}), resources={"requests": {"cpu": "4", "memory": "2Gi"}}),
            {"cpu": 4000, "memory": 2 * GIB},
            id="pod-level-resources",
        ),
    ],
)
def test_read_bag_sums_effective_requests_as_kubernetes_does(spec: dict[str, Any], expected: dict[str, int]) -> None:
    """The class asks for what the Kubernetes scheduler would count."""
    assert requests(read(spec)) == expected


def test_read_bag_puts_pods_last_and_keeps_bytes_as_received() -> None:
    """The layout is the order of creation, the body has each manifest as it came, and the hash covers what came."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "head"}, "spec": {}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "b"}}
    received = [
        json.dumps(pod()).encode(),
        json.dumps(service).encode(),
        b' {"kind":"ConfigMap",' + json.dumps(config).encode()[1:].replace(b'"kind": "ConfigMap", ', b""),
    ]
    bag = read_bag(received, LIMITS)
    assert bag.violations == ()
    assert bag.layout == (("Service", "head"), ("ConfigMap", "conf"), ("Pod", "train"))
    assert json.loads(bag.layout_definition()) == [["Service", "head"], ["ConfigMap", "conf"], ["Pod", "train"]]
    assert bag.body == b"[" + b",".join([received[1], received[2], received[0]]) + b"]"
    assert bag.hash == spec_hash(received)
    assert len(bag.hash) == 16
    assert spec_hash(received) != spec_hash([received[1], received[0], received[2]])
    assert spec_hash([b"ab", b"c"]) != spec_hash([b"a", b"bc"])


def test_read_bag_takes_custom_resources_and_calls_them_by_kind_and_group() -> None:
    """Any kind of a group that Kubernetes does not own, also one that is called as a kind of ours; pods stay last."""
    service = custom("serving.example.test/v1", "Service", spec={"externalIPs": ["1.2.3.4"]})
    bag = read(pod(), custom(spokes=7), service, custom("other.test/v1beta1", metadata={}))
    assert bag.violations == ()
    assert bag.layout == (
        ("Widget.example.test", "wheel"),
        ("Service.serving.example.test", "wheel"),
        ("Widget.other.test", "widget"),
        ("Pod", "train"),
    )
    assert kinds_of_body(bag.body) == tuple(kind for kind, _ in bag.layout)
    assert requests(bag) == {"cpu": 1000, "memory": GIB}


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ({"key": "x", "operator": "Exists"}, {"key": "x", "value": "1"}, Toleration("x", "Equal", "1")),
        ({"operator": "Exists", "effect": "NoExecute"}, {"key": "y"}, Toleration("y", "Equal", "", "NoExecute")),
        ({"key": "x", "effect": "NoExecute"}, {"key": "x"}, Toleration("x", "Equal", "", "NoExecute")),
        ({"key": "x", "value": "1"}, {"key": "x", "value": "2"}, None),
        ({"key": "x", "effect": "NoExecute"}, {"key": "x", "effect": "NoSchedule"}, None),
        ({"key": "x", "operator": "Exists"}, {"key": "y", "operator": "Exists"}, None),
    ],
)  # fmt: skip
def test_bag_tolerates_the_taints_that_each_of_its_pods_tolerates(
    ours: dict[str, str], theirs: dict[str, str], both: Toleration | None
) -> None:
    """What they mean counts, not how they are written."""
    for first, second in ((ours, theirs), (theirs, ours)):
        bag = read(pod(tolerations=[first]), pod(metadata={"name": "side"}, tolerations=[second]))
        assert bag.scheduling_class.tolerations == ((both,) if both else ())


def test_on_failure_with_a_deadline_is_taken() -> None:
    """It ends, if only by its deadline."""
    assert not faults(read(pod(restartPolicy="OnFailure", activeDeadlineSeconds=60)))


@pytest.mark.parametrize("amount", ["2.0", "2e0", "0.002k", 2])
def test_devices_may_be_written_as_any_whole_number(amount: object) -> None:
    """Kubernetes takes them so."""
    devices = container(resources={"requests": {"cpu": "1", "memory": "1"}, "limits": {"nvidia.com/gpu": amount}})
    assert requests(read(pod(devices)))["nvidia.com/gpu"] == 2


def test_limit_of_the_pod_stands_in_only_for_what_no_container_asks_for() -> None:
    """As the API server fills in requests."""
    bag = read(pod(resources={"limits": {"cpu": "8", "memory": "8Gi", "ephemeral-storage": "5"}}))
    assert requests(bag) == {"cpu": 1000, "memory": GIB, "ephemeral-storage": 5}


def test_read_bag_sums_pods_of_one_node_and_merges_constraints() -> None:
    """Several pods are placed on one node together: requests and pods add up, constraints hold at once."""
    first = pod(nodeSelector={"zone": "a"}, tolerations=[{"key": "x", "operator": "Exists"}])
    second = pod(
        metadata={"name": "side"},
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "x", "operator": "Exists"}, {"key": "y", "value": "1"}],
    )
    bag = read(first, second)
    assert requests(bag) == {"cpu": 2000, "memory": 2 * GIB, "pods": 2}
    assert bag.scheduling_class.node_selector == (("disk", "ssd"), ("zone", "a"))
    assert bag.scheduling_class.tolerations == (Toleration("x", "Exists"),)
    clash = read(first, pod(metadata={"name": "side"}, nodeSelector={"zone": "b"}))
    assert list(faults(clash)) == ["manifests[1].spec.nodeSelector.zone"]


def test_read_bag_reads_constraints_into_sorted_class() -> None:
    """Selectors, affinity, tolerations, platform and host ports are sorted, so that equal needs are equal classes."""
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["v100", "a100"]}]},
        {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["32"]}], "matchFields": []},
        {},
    ]
    spec = pod(
        container(ports=[{"containerPort": 80, "hostPort": 30080}, {"containerPort": 81}]),
        nodeSelector={"kubernetes.io/arch": "arm64", "zone": "b"},
        os={"name": "linux"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        tolerations=[{"key": "b", "effect": "NoSchedule", "value": "1"}, {"operator": "Exists"}],
    )
    found = read(spec, limits=SpecLimits(rights=PodRights(host_ports=((30000, 30100),), control_plane_allowed=True)))
    assert found.violations == ()
    cls = found.scheduling_class
    assert cls.node_selector == (("zone", "b"),)
    assert cls.platforms == (("linux", "arm64"),)
    assert cls.affinity == (
        (MatchExpression("cores", "Gt", ("32",)),),
        (MatchExpression("gpu", "In", ("a100", "v100")),),
    )
    assert cls.tolerations == (Toleration("", "Exists"), Toleration("b", "Equal", "1", "NoSchedule"))
    assert cls.host_ports == (HostPort("TCP", 30080),)
    assert type(cls).parse(cls.definition()) == cls


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ("", "0.0.0.0", None),
        ("10.0.0.1", "", None),
        ("10.0.0.1", "10.0.0.1", None),
        ("10.0.0.1", "10.0.0.2", ("10.0.0.1", "10.0.0.2")),
        ("fd00::1", "10.0.0.2", ("10.0.0.2", "fd00::1")),
    ],
    ids=["all-addresses", "one-of-all", "same", "different", "ipv6"],
)
def test_one_port_of_different_addresses_may_be_taken_twice(first: str, second: str, taken: tuple | None) -> None:
    """An empty address and 0.0.0.0 are all addresses, as in Kubernetes."""
    ports = [{"containerPort": 1, "hostPort": 80, "hostIP": address} for address in (first, second)]
    found = read(pod(container(ports=ports)), limits=PORT_RIGHTS)
    if taken is None:
        assert [v.description for v in found.violations] == ["the node's port 80 is taken twice"]
    else:
        assert found.scheduling_class.host_ports == tuple(HostPort("TCP", 80, address) for address in taken)
        assert SchedulingClass.parse(found.scheduling_class.definition()) == found.scheduling_class


def test_read_bag_names_what_has_no_name() -> None:
    """Objects without a name get their kind's, longer where that is taken."""
    bag = read(pod(metadata={"name": ""}), pod(metadata={"name": "pod"}), pod(metadata={"name": ""}))
    assert bag.violations == ()
    assert bag.layout == (("Pod", "podx"), ("Pod", "pod"), ("Pod", "podxx"))
    assert bag.namespaces == ("default",)


def test_read_bag_grants_rights_that_the_installation_gives() -> None:
    """Service accounts, tokens and host ports can be granted."""
    rights = PodRights(service_accounts=frozenset({"spark"}), token_allowed=True, host_ports=((80, 80),))
    spec = pod(
        container(ports=[{"containerPort": 80, "hostPort": 80}]),
        serviceAccountName="spark",
        automountServiceAccountToken=True,
    )
    assert read(spec, limits=SpecLimits(rights=rights)).violations == ()

"""What a pod may not ask for: the levels of the Pod Security Standards, and what would reach past the scheduler.

Every tenant's pods run on shared machines with the executor's rights behind them, so anything that leads to the host,
to another tenant or around the scheduler is refused when the job is submitted, long before a cluster sees it.

Only keys that are present are looked at: one dictionary lookup per key of the manifest finds the check, if it has one.

Levels are Kubernetes' own: `privileged` lets pods be part of their node, `baseline` is what is refused unless an
installation or a queue says otherwise, and `restricted` asks pods besides to give up what they do not need. At no level
may a pod choose its node, take the priority of the system or run for ever.

Source: Pod Security Standards; design section 5, "Submit" ("then policy").
"""

from __future__ import annotations

from typing import Any, Final

from argosy_core.job.reading.findings import Findings, is_dns_label
from argosy_core.job.reading.pod_rights import Check, PodLevel, PodRights, must_be_false, unless_privileged
from argosy_core.job.reading.security_context import check_restricted, check_security_context

__all__ = [
    "APPARMOR_PREFIX",
    "RESERVED_PREFIX",
    "check_container",
    "check_pod_spec",
    "check_template",
    "is_reserved_key",
]

RESERVED_PREFIX: Final = "argosy.dev/"
"""Labels and annotations below this prefix are written by Argosy alone; `argosy.dev/simulated-` is free; there are
annotations for users in `references.DECLARATIONS`, for manifests, and `scaling.SCALING_ANNOTATIONS`, for jobs too."""
_FREE_PREFIX: Final = "argosy.dev/simulated-"
APPARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Annotations below this prefix choose an AppArmor profile, so their values are looked at."""

_NODE_VOLUMES: Final = frozenset({"hostPath", "flexVolume", "gitRepo"})  # the last two run programs of the node
_RESTRICTED_VOLUMES: Final = frozenset(
    {
        "name",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_MAX_USER_PRIORITY: Final = 1_000_000_000
_MAX_GRACE_S: Final = 86_400


def is_reserved_key(key: str) -> bool:
    """Return whether a label, annotation or taint key belongs to Argosy."""
    return key.startswith(RESERVED_PREFIX) and not key.startswith(_FREE_PREFIX)


def _must_be_absent(description: str) -> Check:
    """Return a check that refuses anything but nothing."""

    def check(value: object, path: str, findings: Findings, _: PodRights) -> None:
        if value not in (None, "", [], {}):
            findings.add(path, description)

    return check


def _check_priority_class(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse the classes that push Kubernetes' own pods aside, and those that were not granted."""
    name = findings.text(value, path)
    if name.startswith("system-"):
        findings.add(path, "names a system priority class; these are for parts of the cluster")
    elif name and rights.priority_classes and name not in rights.priority_classes:
        findings.add(path, f"the priority class {name[:63]!r} is not granted to jobs of the queue")


def _check_priority(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse numeric priorities of the system's range."""
    if value is not None and (type(value) is not int or value > _MAX_USER_PRIORITY):
        findings.add(path, f"must be a whole number of at most {_MAX_USER_PRIORITY}")


def _check_service_account(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse service accounts that were not granted."""
    name = findings.text(value, path)
    if name not in ("", "default") and name not in rights.service_accounts:
        findings.add(path, f"the service account {name[:63]!r} is not granted to jobs of this installation")


def _check_token(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse a token of the API server unless it was granted."""
    if value is not None and value is not False and not rights.token_allowed:
        findings.add(path, "must be false: jobs of this installation get no service account token")


def _check_restart_policy(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse pods that never end."""
    if value not in (None, "Never", "OnFailure"):
        findings.add(path, "must be Never or OnFailure, because a job ends; left out it is Never")


def _check_grace(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse graces with which a pod is called ended while it runs, or never ends."""
    if value is not None and (type(value) is not int or not 1 <= value <= _MAX_GRACE_S):
        findings.add(path, f"must be a whole number of seconds, 1 to {_MAX_GRACE_S}")


def _check_volumes(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse volumes that lead to the host, and projected tokens that were not granted."""
    for index, volume in enumerate(findings.mappings(value, path)):
        place = f"{path}[{index}]"
        if not is_dns_label(findings.text(volume.get("name"), f"{place}.name")):
            findings.add(f"{place}.name", "must be a DNS label")
        if rights.level != PodLevel.PRIVILEGED:
            for kind in sorted(_NODE_VOLUMES & volume.keys()):
                findings.add(f"{place}.{kind}", "is not allowed: jobs do not reach files and programs of the node")
        if rights.level == PodLevel.RESTRICTED or rights.own_objects_only:  # others name secrets in ways of their own
            for kind in sorted(volume.keys() - _RESTRICTED_VOLUMES - _NODE_VOLUMES):
                findings.add(f"{place}.{kind}", "is not allowed to jobs of the queue; use a persistentVolumeClaim")
        projected = volume.get("projected")
        if projected is not None and not rights.token_allowed:
            sources = findings.mapping(projected, f"{place}.projected").get("sources")
            for number, source in enumerate(findings.mappings(sources, f"{place}.projected.sources")):
                if "serviceAccountToken" in source:
                    findings.add(
                        f"{place}.projected.sources[{number}]", "jobs of this installation get no service account token"
                    )


def _check_probe(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse probes that make the kubelet call other hosts."""
    probe = findings.mapping(value, path)
    for action in ("httpGet", "tcpSocket"):
        if action in probe and findings.mapping(probe[action], f"{path}.{action}").get("host"):
            findings.add(f"{path}.{action}.host", "must not be set: probes call their own pod only")


def _check_lifecycle(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse hooks that make the kubelet call other hosts."""
    for name, hook in findings.mapping(value, path).items():
        if name != "stopSignal":
            _check_probe(hook, f"{path}.{name}", findings, rights)


_POD_CHECKS: Final[dict[str, Check]] = {
    "hostNetwork": must_be_false("must be false: jobs have their own network"),
    "hostPID": must_be_false("must be false: jobs have their own processes"),
    "hostIPC": must_be_false("must be false: jobs have their own memory segments"),
    "nodeName": _must_be_absent("must not be set: the scheduler chooses the node; use nodeSelector or affinity"),
    "priorityClassName": _check_priority_class,
    "priority": _check_priority,
    "serviceAccountName": _check_service_account,
    "serviceAccount": _check_service_account,
    "automountServiceAccountToken": _check_token,
    "restartPolicy": _check_restart_policy,
    "terminationGracePeriodSeconds": _check_grace,
    "volumes": _check_volumes,
    "securityContext": check_security_context,
    "ephemeralContainers": _must_be_absent("cannot be set when a pod is made"),
    "schedulingGates": _must_be_absent("is not allowed: pods are made with their node"),
    "resourceClaims": _must_be_absent("resource claims are not supported"),
    "topologySpreadConstraints": _must_be_absent("is not supported for the one node of a job"),
}
_CONTAINER_CHECKS: Final[dict[str, Check]] = {
    "securityContext": check_security_context,
    "livenessProbe": unless_privileged(_check_probe),
    "readinessProbe": unless_privileged(_check_probe),
    "startupProbe": unless_privileged(_check_probe),
    "lifecycle": unless_privileged(_check_lifecycle),
}
_TEMPLATE_KEYS: Final = frozenset(
    {
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "nodeName",
        "priorityClassName",
        "serviceAccountName",
        "serviceAccount",
        "automountServiceAccountToken",
        "volumes",
        "securityContext",
    }
)
"""Keys of a pod by which it reaches its node or others; those of a custom resource's templates are looked at alone."""


def check_pod_spec(spec: dict[str, Any], path: str, findings: Findings, *, rights: PodRights) -> None:
    """Note everything in a pod's spec, containers apart, that is not allowed.

    Args:
        spec: The pod's `spec`.
        path: Its path.
        findings: Where violations are noted.
        rights: What is allowed beyond the baseline.
    """
    if spec.get("restartPolicy") == "OnFailure" and type(spec.get("activeDeadlineSeconds")) is not int:
        findings.add(
            f"{path}.restartPolicy",
            "OnFailure needs activeDeadlineSeconds, or a container that always fails would be started for ever; "
            "with Never Argosy tells the failure",
        )
    for key, value in spec.items():
        check = _POD_CHECKS.get(key)
        if check is not None:
            check(value, f"{path}.{key}", findings, rights)


def check_container(container: dict[str, Any], path: str, findings: Findings, *, rights: PodRights) -> None:
    """Note everything in a container that is not allowed or missing; ports are read with the constraints."""
    name = container.get("name")
    if not isinstance(name, str) or not is_dns_label(name):
        findings.add(f"{path}.name", "must be a DNS label: a-z, 0-9 and '-', at most 63")
    image = container.get("image")
    if not isinstance(image, str) or not image.strip():
        findings.add(f"{path}.image", "must name an image")
    elif rights.image_prefixes and not image.startswith(rights.image_prefixes):
        allowed = ", ".join(rights.image_prefixes[:5])
        findings.add(f"{path}.image", f"{image[:200]!r} is none of the queue's images, which begin with {allowed}")
    for key, value in container.items():
        check = _CONTAINER_CHECKS.get(key)
        if check is not None:
            check(value, f"{path}.{key}", findings, rights)


def check_template(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Note what pods that a custom resource's controller makes would reach beyond themselves.

    Whatever has a list of containers is taken for a pod's spec, wherever it stands; only the keys are looked at by
    which a pod reaches its node or others.

    Complexity: linear in the document.
    """
    if isinstance(value, dict):
        containers = [
            (f"{path}.{key}[{index}]", one)
            for key in ("containers", "initContainers")
            for index, one in enumerate(value[key] if isinstance(value.get(key), list) else ())
            if isinstance(one, dict)
        ]
        if containers:
            for key in sorted(_TEMPLATE_KEYS & value.keys()):
                _POD_CHECKS[key](value[key], f"{path}.{key}", findings, rights)
            if rights.level == PodLevel.RESTRICTED:
                check_restricted(value, containers, findings)
        for place, container in containers:
            _check_template_container(container, place, findings, rights)
        for key, item in value.items():
            check_template(item, f"{path}.{key}", findings, rights)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_template(item, f"{path}[{index}]", findings, rights)


def _check_template_container(container: dict[str, Any], path: str, findings: Findings, rights: PodRights) -> None:
    check_security_context(container.get("securityContext"), f"{path}.securityContext", findings, rights)
    ports = container.get("ports")
    for index, port in enumerate(ports if isinstance(ports, list) else ()):
        if isinstance(port, dict) and port.get("hostPort") and rights.level != PodLevel.PRIVILEGED:
            findings.add(f"{path}.ports[{index}].hostPort", "is not granted to pods that others make")

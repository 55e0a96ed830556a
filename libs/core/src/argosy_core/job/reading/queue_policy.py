"""What a queue lets its jobs do, and what it adds to their pods: read from a document, and applied to manifests.

A policy is a document that administrators write, for instance::

    level: restricted                 # or baseline, privileged: as Kubernetes' Pod Security Standards define them
    serviceAccounts: [trainer]        # besides `default`
    serviceAccountToken: true
    controlPlane: true                # may tolerate the taints of control-plane nodes
    hostPorts: [30000-30100]
    images: [registry.example.org/team/]
    priorityClasses: [batch]
    kinds: [ConfigMap, Secret]        # besides Pod
    ownObjectsOnly: true              # no secret, config map or claim but the job's own ...
    sharedObjects: [pull-secret]      # ... and these
    maxRequests: {cpu: 64, memory: 1Ti}
    maxTime: 24h                      # jobs must have a time limit, of this at most
    defaults:                         # for pods that say nothing of it
      namespace: team
      nodeSelector: {pool: team}
      tolerations: [{key: team, operator: Exists}]
      labels: {team: blue}

Every key may be left out. A queue without a policy has the installation's.

Source: design section 5, "Submit" ("then policy").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.findings import Findings, is_dns_label, is_dns_name, is_label_key, is_label_value
from argosy_core.job.reading.kinds import KINDS, POD
from argosy_core.job.reading.manifest_json import MalformedManifest, read_manifest
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.policy import is_reserved_key
from argosy_core.resources import parse_quantity

__all__ = ["MAX_POLICY_BYTES", "NO_DEFAULTS", "PodDefaults", "QueuePolicy", "add_defaults", "read_queue_policy"]

MAX_POLICY_BYTES: Final = 16_384
"""Bytes of a policy's document."""
_MAX_ENTRIES: Final = 100
_MAX_TEXT: Final = 253
_MAX_DEPTH: Final = 8
_MAX_TIME_S: Final = 315_360_000
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LAST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """What is added to a job's objects that say nothing of it."""

    namespace: str = ""
    """Namespace of objects that name none."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels that nodes of pods must have, by keys that their selector does not name."""
    tolerations: tuple[str, ...] = ()
    """Tolerations, JSON, of pods that have not the very same."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of pods, by keys that they do not have."""

    def __bool__(self) -> bool:
        """Return whether anything is added."""
        return bool(self.namespace or self.node_selector or self.tolerations or self.labels)


NO_DEFAULTS: Final = PodDefaults()
"""Nothing is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """What a queue lets its jobs do, and what it adds to them."""

    rights: PodRights
    """What pods may do."""
    max_time_s: int = 0
    """Most seconds that a job's time limit may have, which it must have then; 0 for any and none."""
    defaults: PodDefaults = NO_DEFAULTS
    """What is added to pods."""


def read_queue_policy(document: str | bytes, *, level: PodLevel = PodLevel.BASELINE) -> QueuePolicy:
    """Return the policy that a JSON document says.

    Args:
        document: The document.
        level: Level where it names none: the installation's.

    Raises:
        InvalidRequest: It says something that is none; every fault is listed.
    """
    findings = Findings()
    raw = document.encode() if isinstance(document, str) else document
    if len(raw) > MAX_POLICY_BYTES:
        findings.add("policy", f"has {len(raw)} bytes, at most {MAX_POLICY_BYTES} are allowed")
        raw = b"{}"
    try:
        values: Mapping[str, Any] = read_manifest(raw, _MAX_DEPTH)
    except MalformedManifest as fault:
        findings.add("policy", str(fault))
        values = {}
    reader = _Reader(values, "policy", findings)
    rights = PodRights(
        level=reader.one_of("level", {one.value: one for one in PodLevel}, level),
        service_accounts=frozenset(reader.texts("serviceAccounts", is_dns_name, "a service account's name")),
        token_allowed=reader.flag("serviceAccountToken"),
        control_plane_allowed=reader.flag("controlPlane"),
        host_ports=tuple(map(_ports, reader.texts("hostPorts", _is_ports, "a range of ports, as 30000-30100"))),
        image_prefixes=reader.texts("images", lambda text: bool(text.strip()), "the beginning of an image's name"),
        priority_classes=frozenset(reader.texts("priorityClasses", is_dns_name, "a priority class's name")),
        kinds=frozenset(reader.texts("kinds", _is_kind, f"one of {', '.join(KINDS)}, or KIND.GROUP")),
        own_objects_only=reader.flag("ownObjectsOnly"),
        shared_objects=frozenset(reader.texts("sharedObjects", is_dns_name, "an object's name")),
        max_requests=reader.amounts("maxRequests"),
    )
    policy = QueuePolicy(
        rights=rights, max_time_s=reader.duration_s("maxTime"), defaults=_read_defaults(reader.below("defaults"))
    )
    reader.refuse_others()
    if findings.violations:
        raise InvalidRequest("the policy says something that is none", violations=tuple(findings.violations))
    return policy


def add_defaults(manifests: Sequence[bytes], defaults: PodDefaults, *, max_depth: int) -> list[bytes]:
    """Return manifests, JSON, with a queue's defaults; what cannot be read is returned as it is.

    Complexity: linear in the bytes, with one parse of each manifest.
    """
    answers = []
    for manifest in manifests:
        try:
            document = read_manifest(manifest, max_depth)
        except MalformedManifest:
            answers.append(manifest)
            continue
        changed = _add_to_metadata(document, defaults)
        if document.get("kind") == POD and _add_to_pod(document.get("spec"), defaults):
            changed = True
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        answers.append(text.encode("utf-8", "surrogatepass") if changed else manifest)
    return answers


def _add_to_metadata(document: dict[str, Any], defaults: PodDefaults) -> bool:
    metadata = document.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        return False
    changed = False
    if defaults.namespace and not metadata.get("namespace"):
        metadata["namespace"] = defaults.namespace
        changed = True
    if document.get("kind") == POD:
        changed = _merge(metadata, "labels", defaults.labels) or changed
    return changed


def _add_to_pod(spec: object, defaults: PodDefaults) -> bool:
    if not isinstance(spec, dict):
        return False
    changed = _merge(spec, "nodeSelector", defaults.node_selector)
    present = spec.get("tolerations") or []
    if isinstance(present, list):
        missing = [one for one in map(json.loads, defaults.tolerations) if one not in present]
        if missing:
            spec["tolerations"] = [*present, *missing]
            changed = True
    return changed


def _merge(holder: dict[str, Any], key: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    present = holder.get(key) or {}
    if not pairs or not isinstance(present, dict) or present.keys() >= dict(pairs).keys():
        return False
    holder[key] = {**dict(pairs), **present}
    return True


class _Reader:
    """Takes the values of one object, key by key, and notes what is wrong; what was not asked for is refused."""

    def __init__(self, values: Mapping[str, Any], path: str, findings: Findings) -> None:
        self._left = dict(values)
        self.path = path
        self.findings = findings

    def one_of(self, key: str, choices: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401 - any kind of value
        text = self.findings.text(self._left.pop(key, None), f"{self.path}.{key}")
        if text and text not in choices:
            self.findings.add(f"{self.path}.{key}", f"must be one of {', '.join(choices)}")
        return choices.get(text, default)

    def flag(self, key: str) -> bool:
        value = self._left.pop(key, None)
        if value is not None and not isinstance(value, bool):
            self.findings.add(f"{self.path}.{key}", "must be true or false")
        return value is True

    def texts(self, key: str, is_right: Callable[[str], bool], what: str) -> tuple[str, ...]:
        found = self.findings.items(self._left.pop(key, None), f"{self.path}.{key}")
        if len(found) > _MAX_ENTRIES:
            self.findings.add(f"{self.path}.{key}", f"has {len(found)} entries, at most {_MAX_ENTRIES} are allowed")
            return ()
        for index, one in enumerate(found):
            if not isinstance(one, str) or len(one) > _MAX_TEXT or not is_right(one):
                self.findings.add(f"{self.path}.{key}[{index}]", f"must be {what}")
                return ()
        return tuple(sorted(set(found)))

    def text(self, key: str, is_right: Callable[[str], bool], what: str) -> str:
        value = self.findings.text(self._left.pop(key, None), f"{self.path}.{key}")
        if value and not is_right(value):
            self.findings.add(f"{self.path}.{key}", f"must be {what}")
        return value

    def labels(self, key: str) -> tuple[tuple[str, str], ...]:
        pairs = self.findings.mapping(self._left.pop(key, None), f"{self.path}.{key}")
        for name, value in pairs.items():
            is_label = is_label_key(name) and isinstance(value, str) and is_label_value(value)
            if not is_label or is_reserved_key(name) or len(pairs) > _MAX_ENTRIES:
                self.findings.add(f"{self.path}.{key}.{name[:80]}", "must be a label that is not ours")
                return ()
        return tuple(sorted(pairs.items()))

    def amounts(self, key: str) -> tuple[tuple[str, int], ...]:
        found = {}
        for name, value in self.findings.mapping(self._left.pop(key, None), f"{self.path}.{key}").items():
            try:
                found[name] = parse_quantity(name, str(value))
            except InvalidRequest as error:
                self.findings.add(f"{self.path}.{key}.{name[:80]}", error.message)
        return tuple(sorted(found.items()))

    def duration_s(self, key: str) -> int:
        text = self.findings.text(self._left.pop(key, None), f"{self.path}.{key}")
        if not text:
            return 0
        amount, unit = text[:-1], _UNITS.get(text[-1])
        if unit is None or not (amount.isascii() and amount.isdigit()) or not 0 < int(amount) * unit <= _MAX_TIME_S:
            self.findings.add(f"{self.path}.{key}", "must be a time, as 90s, 30m, 24h or 7d")
            return 0
        return int(amount) * unit

    def mappings(self, key: str) -> list[dict[str, Any]]:
        return self.findings.mappings(self._left.pop(key, None), f"{self.path}.{key}")[:_MAX_ENTRIES]

    def below(self, key: str) -> _Reader:
        path = f"{self.path}.{key}"
        return _Reader(self.findings.mapping(self._left.pop(key, None), path), path, self.findings)

    def refuse_others(self) -> None:
        for key in self._left:
            self.findings.add(f"{self.path}.{key[:80]}", "is no key of a policy")


def _read_defaults(reader: _Reader) -> PodDefaults:
    tolerations = []
    for index, one in enumerate(reader.mappings("tolerations")):
        known = one.keys() <= {"key", "operator", "value", "effect", "tolerationSeconds"}
        if not known or not one.get("key"):
            reader.findings.add(f"{reader.path}.tolerations[{index}]", "must be a toleration of a key")
        tolerations.append(json.dumps(one, sort_keys=True))
    defaults = PodDefaults(
        namespace=reader.text("namespace", is_dns_label, "a namespace"),
        node_selector=reader.labels("nodeSelector"),
        tolerations=tuple(tolerations),
        labels=reader.labels("labels"),
    )
    reader.refuse_others()
    return defaults


def _is_kind(text: str) -> bool:
    kind, _, group = text.partition(".")
    return text in KINDS or (kind.isalnum() and is_dns_name(group))


def _is_ports(text: str) -> bool:
    parts = text.split("-")
    if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return False
    first, last = _ports(text)
    return 1 <= first <= last <= _LAST_PORT


def _ports(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)

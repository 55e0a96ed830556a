"""Pod groups: the body of a distributed job as it is stored, and the bag that each member of a run makes of it.

The body is an array of manifests, as of any job: what stands beside the pods, one headless service, and one pod per
group with an annotation that says what the group is. A member's bag is all but the pods of other groups, so the bags of
all members have the same layout: nobody but who makes objects needs to know of groups.

Members are numbered through the groups in order: first the minimum of each, from 0, then what each has beyond it.

Source: 003 "Distributed jobs"; decision 0018.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

__all__ = [
    "AWAITED_LABEL",
    "GROUP_LABEL",
    "MAX_GROUP_COUNT",
    "MAX_MEMBER_COUNT",
    "MEMBER_NAME",
    "MEMBER_NOTE",
    "MemberBags",
    "MemberSheet",
    "PodGroup",
    "build_body",
    "is_of_groups",
    "member_bags",
    "read_groups",
    "read_sheet",
    "service_manifest",
]

GROUP_LABEL: Final = "argosy.dev/group"
"""Label of pods: the name of their group."""
AWAITED_LABEL: Final = "argosy.dev/awaited"
"""Label of pods for whose readiness other groups of their job wait; such a pod counts as running once it is ready."""
MEMBER_NAME: Final = "member"
"""What the pod and the service of each member are called, the run's suffix behind it."""
MAX_MEMBER_COUNT: Final = 1000
"""Most members of a job: each is told the addresses of all that begin together."""
MAX_GROUP_COUNT: Final = 16
"""Most groups of a job."""
MEMBER_NOTE: Final = "argosy.dev/member-of"
"""Annotation of a pod in a member's bag: its `MemberSheet`; no pod that is made has it."""
_GROUP_NOTE: Final = "argosy.dev/pod-group"
_GROUP_MARK: Final = json.dumps(_GROUP_NOTE).encode()
_MEMBER_MARK: Final = json.dumps(MEMBER_NOTE).encode()
_REMEMBERED_BODIES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods of one job that are alike, each a member of the job's runs."""

    name: str
    """DNS label, unique in the job."""
    minimum: int
    """Pods without which no run begins."""
    maximum: int
    """Pods that it can use."""
    template: str
    """The pod's manifest, JSON; where it is submitted, YAML too."""
    max_hops: int = -1
    """Most hops between two of its pods; negative for no limit."""
    whole_nodes: bool = True
    """Whether its pods are only put on nodes that hold nothing of others."""
    after: str = ""
    """Name of the group whose minimum must be ready before pods of this one are made; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSheet:
    """What a member's pod is told, but its own number."""

    group: str
    """Name of its group."""
    count: int
    """Members that begin together: the minima of all groups."""
    after: tuple[int, int] = (0, 0)
    """Numbers [first, end) of the members that must be ready before it is made."""
    is_awaited: bool = False
    """Whether others wait for it to be ready."""

    @staticmethod
    def parse(text: str) -> MemberSheet:
        """Return a sheet from its annotation."""
        note = json.loads(text)
        return MemberSheet(**{**note, "after": tuple(note["after"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBags:
    """The bags of the members of a job's runs."""

    bodies: tuple[bytes, ...]
    """Body of a member's bag, by group."""
    group_of: tuple[int, ...]
    """Index of the group that each member is of, by its number in a run that has grown to its maximum."""


def build_body(others: Sequence[bytes], groups: Sequence[PodGroup], *, namespace: str) -> bytes:
    """Return the body of a job with groups.

    Args:
        others: Manifests of what stands beside the pods, JSON.
        groups: Its groups; their templates are sound.
        namespace: Where the service is made: that of the pods.
    """
    pods = []
    for group in groups:
        pod = json.loads(group.template)
        note = {"name": group.name, "min": group.minimum, "max": group.maximum}
        note |= {} if group.whole_nodes else {"whole_nodes": False}
        note |= {"after": group.after} if group.after else {}
        note |= {"max_hops": group.max_hops} if group.max_hops >= 0 else {}
        metadata = pod["metadata"] = {**(pod.get("metadata") or {}), "name": MEMBER_NAME}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _GROUP_NOTE: _compact(note)}
        pods.append(_compact(pod).encode())
    return b"[" + b",".join([*others, service_manifest(namespace), *pods]) + b"]"


def service_manifest(namespace: str) -> bytes:
    """Return the service of a member as it stands in the body: headless, and without a selector."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": MEMBER_NAME, "namespace": namespace},
        # Peers look each other up before they are ready, and have nothing to balance.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True},
    }
    return _compact(service).encode()


def is_of_groups(body: bytes) -> bool:
    """Return whether a body is that of a job with groups."""
    return _GROUP_MARK in body


def read_groups(body: bytes) -> tuple[list[dict[str, Any]], list[PodGroup]]:
    """Return what stands beside the pods and their service, and the groups, of such a body."""
    others, groups = [], []
    for manifest in json.loads(body):
        text = (manifest.get("metadata", {}).get("annotations") or {}).pop(_GROUP_NOTE, None)
        if text is None:
            others.append(manifest)
            continue
        note = json.loads(text)
        groups.append(
            PodGroup(
                name=note["name"],
                minimum=note["min"],
                maximum=note["max"],
                template=_compact(manifest),
                max_hops=note.get("max_hops", -1),
                whole_nodes=note.get("whole_nodes", True),
                after=note.get("after", ""),
            )
        )
    return others[:-1], groups


@lru_cache(maxsize=_REMEMBERED_BODIES)
def member_bags(body: bytes) -> MemberBags:
    """Return the bags that the members of runs make of the body of a job with groups."""
    manifests: list[dict[str, Any]] = json.loads(body)
    _, groups = read_groups(body)
    rest, pods = manifests[: -len(groups)], manifests[-len(groups) :]
    ends = list(accumulate(group.minimum for group in groups))
    extras = [group.maximum - group.minimum for group in groups]
    sizes = [*enumerate(group.minimum for group in groups), *enumerate(extras)]
    awaited = {group.after for group in groups}
    spans = {group.name: (end - group.minimum, end) for group, end in zip(groups, ends, strict=True)}
    bodies = []
    for group, pod in zip(groups, pods, strict=True):
        after = spans[group.after] if group.after else (0, 0)
        sheet = {"group": group.name, "count": ends[-1], "after": after, "is_awaited": group.name in awaited}
        del pod["metadata"]["annotations"][_GROUP_NOTE]
        pod["metadata"]["annotations"][MEMBER_NOTE] = _compact(sheet)
        service = {**rest[-1], "spec": {**rest[-1]["spec"], "selector": {GROUP_LABEL: group.name}}}
        bodies.append(_compact([*rest[:-1], service, pod]).encode())
    return MemberBags(bodies=tuple(bodies), group_of=tuple(at for at, size in sizes for _ in range(size)))


def read_sheet(body: bytes) -> MemberSheet | None:
    """Return what the body of a member's bag says of its member; None for bags of jobs without groups."""
    return _read_sheet(body) if _MEMBER_MARK in body else None


@lru_cache(maxsize=_REMEMBERED_BODIES)
def _read_sheet(body: bytes) -> MemberSheet:
    return MemberSheet.parse(json.loads(body)[-1]["metadata"]["annotations"][MEMBER_NOTE])


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

"""Bodies of creates: each distinct object of a bag is rendered once, then cut where runs differ.

A run differs from another in the suffix of its names, its run label, its job id and its node. The object is rendered
for a run that nobody has, with numbers drawn at random, and cut at these texts; a body for a real run is the pieces
joined with its own texts. That costs microseconds where rendering costs tens of them.

Source: `argosy_core.reconcile.rendering`; design section 8 (cost).
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.naming import naming_ordinal, run_suffix
from argosy_core.job.tables.members import MAX_MEMBER, attempt_of, member_of, ordinal_of, place_of
from argosy_core.reconcile import Creates
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity, run_label
from argosy_kube.kubernetes.acting.operators import tell_operator
from argosy_kube.kubernetes.api.resources import Resource, ResourceDiscovery
from argosy_kube.kubernetes.ours.binding import NODE_ANNOTATION
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.port import POD_KIND

__all__ = ["ObjectTemplate", "TemplateCache"]

_MOST_BAGS: Final = 512
_MOST_TEMPLATES: Final = 2048
_SENTINEL_ATTEMPT: Final = 255
_SENTINEL_MEMBER: Final = ordinal_of(_SENTINEL_ATTEMPT, MAX_MEMBER)
_SENTINEL_PLACE: Final = ordinal_of(_SENTINEL_ATTEMPT, place_of(MAX_MEMBER))
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_Key = tuple[bytes, int, bytes, tuple[str, str], bool, bool]
"""Body, position in the bag, metadata, (queue, job set), whether it has a node, and is of another member than 0."""


@dataclass(frozen=True, slots=True)
class ObjectTemplate:
    """One object of a bag, ready for any run."""

    resource: Resource
    """Its kind."""
    namespace: str
    """Its namespace."""
    stem: str
    """Its name without the run's suffix."""
    path: str
    """Where it is posted."""
    pieces: tuple[bytes, ...]
    """Texts that all runs share; between them stand those that differ."""
    slots: tuple[int, ...]
    """Which text stands between: 0 suffix, 1 run label, 2 job id, 3 node, 4 suffix of member 0, 5 place of the member,
    6 suffix of the first member in that place."""
    base: str
    """Its name in the bag."""

    def name(self, handle: int, ordinal: int) -> str:
        """Return the name of a run's object."""
        return self.stem + run_suffix(handle, naming_ordinal(self.resource.kind, self.base, ordinal))

    def body(self, handle: int, ordinal: int, id_high: int, node: str) -> bytes:
        """Return the manifest of a run's object."""
        suffix, member = run_suffix(handle, ordinal).encode(), member_of(ordinal)
        first = attempt_of(ordinal)
        texts = (
            suffix,
            run_label(handle, ordinal).encode(),
            compose_id(id_high, handle).encode(),
            node.encode(),
            run_suffix(handle, first).encode() if member else suffix,
            _member_text(place_of(member)),
            run_suffix(handle, ordinal_of(first, place_of(member))).encode() if member else suffix,
        )
        parts = [self.pieces[0]]
        for slot, piece in zip(self.slots, self.pieces[1:], strict=True):
            parts.append(texts[slot])
            parts.append(piece)
        return b"".join(parts)


def _member_text(member: int) -> bytes:
    """Return where a member's number stands in its pod, with enough around it to be found again."""
    return b'"ARGOSY_MEMBER","value":"%d"' % member


class TemplateCache:
    """Templates of the bags that were met last.

    Args:
        installation: Whose objects they are.
        settings: How pods are bound and kept.
        resources: Where kinds are.
        rng: Draws the run that nobody has.
    """

    def __init__(
        self, installation: str, settings: KubernetesSettings, resources: ResourceDiscovery, *, rng: np.random.Generator
    ) -> None:
        """Start empty."""
        self._installation = installation
        self._settings = settings
        self._resources = resources
        self._bags: OrderedDict[bytes, BagTemplate] = OrderedDict()
        self._templates: OrderedDict[_Key, ObjectTemplate] = OrderedDict()
        self._handle = int(rng.integers(1 << 53, 1 << 54))
        self._id_high = int(rng.integers(1 << 61, 1 << 62))
        self._node = f"node-{int(rng.integers(1 << 61, 1 << 62)):x}"
        # Those of a member begin with those of member 0, so they are looked for first. Members of distributed jobs are
        # told where their peers are, whose names begin with the suffix of member 0; for member 0 that is its own.
        self._slot_of = {
            run_suffix(self._handle, _SENTINEL_MEMBER).encode(): 0,
            run_label(self._handle, _SENTINEL_MEMBER).encode(): 1,
            run_suffix(self._handle, _SENTINEL_PLACE).encode(): 6,
            run_suffix(self._handle, _SENTINEL_ATTEMPT).encode(): 4,
            run_label(self._handle, _SENTINEL_ATTEMPT).encode(): 1,
            compose_id(self._id_high, self._handle).encode(): 2,
            self._node.encode(): 3,
            _member_text(place_of(MAX_MEMBER)): 5,
        }
        self._cut = re.compile(b"(" + b"|".join(re.escape(text) for text in self._slot_of) + b")")

    async def find(self, batch: Creates, row: int) -> ObjectTemplate:
        """Return the template of one object of a batch.

        Raises:
            InvalidRequest: The object cannot be one of this cluster; the message says why.
            ApiFailure: The API server was asked for a kind and did not answer.
        """
        metadata_row = int(batch.metadata_column[row])
        metadata = batch.metadata[metadata_row] if metadata_row >= 0 else b""
        body = batch.bodies[batch.body_column[row]]
        owner = batch.owners[batch.owner_column[row]]
        has_node = int(batch.node_column[row]) >= 0
        is_of_member = member_of(int(batch.ordinal_column[row])) > 0
        key = (body, int(batch.object_column[row]), metadata, owner, has_node, is_of_member)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = await self._make(key)
            if len(self._templates) > _MOST_TEMPLATES:
                self._templates.popitem(last=False)
        return found

    async def _make(self, key: _Key) -> ObjectTemplate:
        body, index, metadata, owner, has_node, is_of_member = key
        ordinal = _SENTINEL_MEMBER if is_of_member else _SENTINEL_ATTEMPT
        try:
            bag = self._bag(body)
            additions = json.loads(metadata) if metadata else {}
            run = RunIdentity(
                installation=self._installation,
                handle=self._handle,
                ordinal=ordinal,
                id_high=self._id_high,
                queue=owner[0],
                job_set=owner[1],
                node=self._node if has_node else "",
                labels=additions.get("labels") or {},
                annotations=additions.get("annotations") or {},
            )
            manifest = bag.render(index, run)
        except (InvalidRequest, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise InvalidRequest(f"object {index} of the bag cannot be made: {error!r}") from error
        kind, namespace = bag.kinds[index], bag.namespaces[index]
        if self._settings.namespaces and namespace not in self._settings.namespaces:
            raise InvalidRequest(
                f"object {index} of the bag is in the namespace {namespace}, which is none of those that the executor "
                f"of this cluster serves: {', '.join(self._settings.namespaces)}"
            )
        named = str(manifest.get("kind")), str(manifest.get("apiVersion") or "")
        try:
            resource = await self._resources.find(*named)
        except InvalidRequest as error:
            raise InvalidRequest(f"object {index} of the bag: {error.message}") from error
        manifest["apiVersion"] = resource.api_version
        if kind == POD_KIND:
            self._prepare_pod(manifest)
        parts = self._cut.split(msgspec.json.encode(manifest))
        name = str(manifest["metadata"]["name"])
        return ObjectTemplate(
            resource=resource,
            namespace=namespace,
            base=bag.names[index],
            stem=name.removesuffix(run_suffix(self._handle, naming_ordinal(kind, bag.names[index], ordinal))),
            path=resource.path(namespace),
            pieces=tuple(parts[::2]),
            slots=tuple(self._slot_of[text] for text in parts[1::2]),
        )

    def _bag(self, body: bytes) -> BagTemplate:
        bag = self._bags.get(body)
        if bag is None:
            bag = self._bags[body] = BagTemplate(body)
            if len(self._bags) > _MOST_BAGS:
                self._bags.popitem(last=False)
        return bag

    def _prepare_pod(self, manifest: dict[str, Any]) -> None:
        """Give a pod its finalizer and its way to a node."""
        spec, settings = manifest["spec"], self._settings
        tell_operator(manifest, settings)
        if settings.finalizer:
            manifest["metadata"]["finalizers"] = [STORED_FINALIZER]
        node = spec.get("nodeName")
        if not node or settings.binding != "node-name":
            spec.pop("nodeName", None)
        if not node:
            return
        if settings.binding == "subresource":
            manifest["metadata"].setdefault("annotations", {})[NODE_ANNOTATION] = node
            if spec.get("schedulerName") in {None, "", _DEFAULT_SCHEDULER}:
                spec["schedulerName"] = settings.scheduler_name
        elif settings.binding == "affinity":
            _require_node(spec, node)


def _require_node(spec: dict[str, Any], node: str) -> None:
    """Let a pod go to one node only, whatever else it asks of nodes."""
    affinity = spec["affinity"] = dict(spec.get("affinity") or {})
    node_affinity = affinity["nodeAffinity"] = dict(affinity.get("nodeAffinity") or {})
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    required = node_affinity[rule] = dict(node_affinity.get(rule) or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in terms
    ]

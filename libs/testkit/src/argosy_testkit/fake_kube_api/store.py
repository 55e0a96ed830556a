"""What a fake API server keeps: objects, their versions and their history."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

from argosy_core.errors import InvalidRequest
from argosy_core.resources import parse_quantity

__all__ = ["Document", "Refusal", "Store", "selects"]

Document = dict[str, Any]
"""An object as JSON."""
_GRACE_S: Final = 30
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Refusal(Exception):  # an answer, not a fault
    """A call that is not carried out."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, object] | None = None) -> None:
        """Keep what is answered."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})


def selects(document: Document, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Return whether an object has some labels and some fields, which are named by their paths.

    A label whose key ends with `!` is one that the object must not have with that value.
    """
    own = document["metadata"].get("labels") or {}
    if any((own.get(key.removesuffix("!")) == value) == key.endswith("!") for key, value in labels.items()):
        return False
    return all(_field(document, path) == value for path, value in fields.items())


def _field(document: Document, path: str) -> object:
    found: Any = document
    for name in path.split("."):
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found


class Store:
    """Objects by plural, namespace and name. Documents are replaced, never changed, so history may hold them."""

    def __init__(self, *, first_version: int = 1000) -> None:
        """Start empty, with the namespace `default`."""
        self.version = first_version
        """Version of the last change."""
        self.floor = first_version
        """Oldest version that can be watched from."""
        self.objects: dict[str, dict[tuple[str, str], Document]] = {}
        """Objects by plural."""
        self.history: list[tuple[int, str, str, Document, Document | None]] = []
        """(version, plural, type of event, object, what it was before)."""
        self.namespaces: dict[str, str] = {"default": "Active", "kube-system": "Active"}
        """Phase by name."""
        self.on_change: list[Callable[[str, str, Document], None]] = []
        """Called with plural, type of event and object after each change."""

    def find(self, plural: str, namespace: str, name: str) -> Document:
        """Return an object.

        Raises:
            Refusal: There is none.
        """
        found = self.objects.get(plural, {}).get((namespace, name))
        if found is None:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found', {"name": name, "kind": plural})
        return found

    def all(self, plural: str, namespace: str = "") -> Iterator[Document]:
        """Give the objects of a kind in the order of their names."""
        kept = self.objects.get(plural, {})
        for key in sorted(kept):
            if not namespace or key[0] == namespace:
                yield kept[key]

    def create(self, plural: str, namespace: str, document: Document) -> Document:
        """Keep a new object.

        Raises:
            Refusal: As a real API server would.
        """
        metadata = {**document["metadata"], "namespace": namespace}
        name = metadata["name"]
        if namespace and namespace not in self.namespaces:
            details = {"name": namespace, "kind": "namespaces"}
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found', details)
        if self.namespaces.get(namespace) == "Terminating":
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            text = f'{plural} "{name}" is forbidden: unable to create new content in namespace {namespace}'
            raise Refusal(403, "Forbidden", text, {"name": name, "kind": plural, "causes": [cause]})
        if plural == "pods":
            _check_pod(document)
        if (namespace, name) in self.objects.get(plural, {}):
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists', {"name": name, "kind": plural})
        metadata["uid"] = str(uuid4())
        metadata["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        made = {**document, "metadata": metadata}
        if plural == "pods":
            made["status"] = {"phase": "Pending"}
        return self._put(plural, "ADDED", made)

    def replace(self, plural: str, document: Document) -> Document:
        """Keep a changed object; what is only waiting for its finalizers goes with the last of them."""
        metadata = document["metadata"]
        is_over = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
        if is_over and not metadata.get("finalizers"):
            return self._drop(plural, document)
        return self._put(plural, "MODIFIED", document)

    def delete(self, plural: str, namespace: str, name: str, options: Document) -> tuple[Document, bool]:
        """Delete an object; return it and whether it is gone.

        Raises:
            Refusal: There is none, or it has another uid.
        """
        found = self.find(plural, namespace, name)
        metadata = found["metadata"]
        uid = options.get("preconditions", {}).get("uid")
        if uid is not None and uid != metadata["uid"]:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
            raise Refusal(409, "Conflict", text, {"name": name, "kind": plural})
        is_pod = plural == "pods"
        has_kubelet = is_pod and found["spec"].get("nodeName") and found["status"].get("phase") not in _ENDED
        grace_s = options.get("gracePeriodSeconds", _GRACE_S) if has_kubelet else 0
        if grace_s or metadata.get("finalizers"):
            stamp = metadata.get("deletionTimestamp") or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            least_s = min(grace_s, metadata.get("deletionGracePeriodSeconds", grace_s))
            marks = {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": least_s}
            return self._put(plural, "MODIFIED", {**found, "metadata": {**metadata, **marks}}), False
        return self._drop(plural, found), True

    def forget(self) -> None:
        """Forget all history, so that no version before now can be watched from."""
        self.history.clear()
        self.version += 1
        self.floor = self.version

    def _put(self, plural: str, change: str, document: Document) -> Document:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        kept = {**document, "metadata": metadata}
        objects, key = self.objects.setdefault(plural, {}), (metadata.get("namespace", ""), metadata["name"])
        before, objects[key] = objects.get(key), kept
        return self._tell(plural, change, kept, before)

    def _drop(self, plural: str, document: Document) -> Document:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        del self.objects[plural][metadata.get("namespace", ""), metadata["name"]]
        return self._tell(plural, "DELETED", {**document, "metadata": metadata}, None)

    def _tell(self, plural: str, change: str, document: Document, before: Document | None) -> Document:
        self.history.append((self.version, plural, change, document, before))
        for call in self.on_change:
            call(plural, change, document)
        return document


def _check_pod(document: Document) -> None:
    for container in document.get("spec", {}).get("containers", ()):
        for name, quantity in container.get("resources", {}).get("requests", {}).items():
            try:
                parse_quantity(name, str(quantity))
            except InvalidRequest as error:
                raise Refusal(400, "BadRequest", f"Pod cannot be handled as a Pod: {error.message}") from error

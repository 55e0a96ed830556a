"""What the patches that the fake API server takes make of an object."""

from __future__ import annotations

import copy

from argosy_testkit.fake_kube_api.store import Document, Refusal

__all__ = ["merged", "noted", "resized"]


def merged(found: Document, patch: Document, plural: str) -> Document:
    """Return an object with a strategic merge patch of its metadata, spec or status.

    Raises:
        Refusal: The patch is for an object of another uid.
    """
    metadata = dict(found["metadata"])
    changes = dict(patch.get("metadata", {}))
    uid = changes.pop("uid", metadata["uid"])
    if uid != metadata["uid"]:
        raise Refusal(409, "Conflict", "Precondition failed: UID", {"name": metadata["name"], "kind": plural})
    dropped = changes.pop("$deleteFromPrimitiveList/finalizers", [])
    metadata["finalizers"] = [item for item in metadata.get("finalizers") or [] if item not in dropped]
    labels = {**(metadata.get("labels") or {}), **changes.pop("labels", {})}
    metadata["labels"] = {key: value for key, value in labels.items() if value is not None}
    changed = {**found, "metadata": {**metadata, **changes}}
    for part in ("spec", "status"):
        if part in patch:
            changed[part] = {**found.get(part, {}), **patch[part]}
    return changed


def noted(found: Document, steps: list[Document]) -> Document:
    """Return an object with a JSON patch of tests and additions, of the metadata only.

    Raises:
        Refusal: A test fails.
    """
    changed = copy.deepcopy(found)
    for step in steps:
        *parents, key = (part.replace("~1", "/") for part in step["path"].split("/")[1:])
        place = changed
        for parent in parents:
            place = place.get(parent) or {}
        if step["op"] == "test" and place.get(key) != step["value"]:
            raise Refusal(422, "Invalid", "the server rejected our request due to an error in our request")
        if step["op"] == "add":
            place[key] = step["value"]
    return changed


def resized(pod: Document, patch: Document) -> Document:
    """Return a pod with the resources of a patch, if it is the one that the patch is for.

    Raises:
        Refusal: It is another one, or its class of service would change.
    """
    metadata = pod["metadata"]
    for key in ("uid", "resourceVersion"):
        if patch["metadata"].get(key, metadata[key]) != metadata[key]:
            text = f"the object has been modified: its {key} is {metadata[key]}"
            raise Refusal(409, "Conflict", text, {"name": metadata["name"], "kind": "pods"})
    wanted = {one["name"]: one["resources"] for one in patch["spec"]["containers"]}
    containers = []
    for one in pod["spec"]["containers"]:
        held, new = one.get("resources", {}), wanted.get(one["name"], {})
        if held.get("limits", {}).keys() != new.get("limits", held.get("limits", {})).keys():
            raise Refusal(422, "Invalid", "Pod QOS Class may not change as a result of resizing")
        containers.append({**one, "resources": {**held, **new}})
    if containers == pod["spec"]["containers"]:
        return pod
    return {**pod, "spec": {**pod["spec"], "containers": containers}}

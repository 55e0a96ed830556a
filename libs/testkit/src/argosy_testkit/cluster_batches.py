"""Batches of the cluster port for tests: made from a few words, and spelled out.

Source: `argosy_kube.port`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from argosy_core.reconcile import Creates, Deletes
from argosy_kube.port import EXIT_CODE_ANNOTATION, RUN_TIME_ANNOTATION, Change, ObjectEvents, PodPhase

__all__ = [
    "LONG_RUN_TIME",
    "SeenObject",
    "make_bag",
    "make_create_batch",
    "make_delete_batch",
    "make_pod",
    "read_events",
]

LONG_RUN_TIME = "1h"
"""Run time of pods that shall not end during a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenObject:
    """One element of ObjectEvents, spelled out."""

    change: Change
    """What happened."""
    kind: str
    """Kind."""
    uid: bytes
    """Uid."""
    ours: bool
    """Carries our labels."""
    run: tuple[int, int, int]
    """(handle, ordinal, object index)."""
    namespace: str | None
    """Namespace, of an object of ours."""
    node: str | None
    """Node name."""
    phase: PodPhase
    """Phase."""
    exit_code: int
    """Exit code."""
    reason: str | None
    """Reason."""
    requests: Mapping[str, int] | None
    """Requests by resource, zeros left out."""
    version: int
    """Version."""


def read_events(events: ObjectEvents) -> list[SeenObject]:
    """Return the elements of a batch, spelled out."""
    seen: list[SeenObject] = []
    for row in range(len(events)):
        node, reason = int(events.node_column[row]), int(events.reason_column[row])
        namespace = int(events.namespace_column[row])
        request = int(events.request_column[row])
        amounts = zip(events.resources, events.requests[request].tolist(), strict=True) if request >= 0 else None
        seen.append(
            SeenObject(
                change=Change(int(events.change_column[row])),
                kind=events.kinds[events.kind_column[row]],
                uid=events.uid_column[row].tobytes(),
                ours=bool(events.ours_column[row]),
                run=(
                    int(events.handle_column[row]),
                    int(events.ordinal_column[row]),
                    int(events.object_column[row]),
                ),
                namespace=events.texts[namespace] if namespace >= 0 else None,
                node=events.nodes[node] if node >= 0 else None,
                phase=PodPhase(int(events.phase_column[row])),
                exit_code=int(events.exit_code_column[row]),
                reason=events.texts[reason] if reason >= 0 else None,
                requests={name: amount for name, amount in amounts if amount} if amounts is not None else None,
                version=int(events.version_column[row]),
            )
        )
    return seen


def make_pod(
    *, run_time: str = LONG_RUN_TIME, exit_code: int = 0, cpu: str = "1", memory: str = "1Gi", **annotations: str
) -> dict[str, Any]:
    """Return the manifest of a pod with one container; keywords become annotations `argosy.dev/...`."""
    notes = {RUN_TIME_ANNOTATION: run_time, EXIT_CODE_ANNOTATION: str(exit_code)}
    notes |= {f"argosy.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "work", "annotations": notes},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.test/work:1", "resources": resources}],
        },
    }


def make_bag(*manifests: Mapping[str, Any]) -> bytes:
    """Return a bag of manifests as the port takes it."""
    return json.dumps(list(manifests)).encode()


def make_create_batch(
    runs: Sequence[tuple[int, int]],
    *,
    bag: bytes | None = None,
    nodes: Sequence[str] = ("node-a",),
    objects: int = 1,
    metadata: bytes | None = None,
) -> Creates:
    """Return a batch with all objects of some runs (handle, ordinal), spread over nodes in turn."""
    count = len(runs) * objects
    handles = np.repeat(np.array([handle for handle, _ in runs], dtype=np.int64), objects)
    ordinals = np.repeat(np.array([ordinal for _, ordinal in runs], dtype=np.int64), objects)
    turns = np.repeat(np.arange(len(runs), dtype=np.int32) % max(1, len(nodes)), objects)
    return Creates(
        bodies=(bag if bag is not None else make_bag(make_pod()),),
        metadata=() if metadata is None else (metadata,),
        owners=(("queue", "set"),),
        nodes=tuple(nodes),
        body_column=np.zeros(count, dtype=np.int32),
        object_column=np.tile(np.arange(objects, dtype=np.int16), len(runs)),
        handle_column=handles,
        ordinal_column=ordinals,
        id_high_column=np.full(count, 7, dtype=np.int64),
        node_column=turns,
        metadata_column=np.full(count, -1 if metadata is None else 0, dtype=np.int32),
        owner_column=np.zeros(count, dtype=np.int32),
    )


def make_delete_batch(*seen: SeenObject) -> Deletes:
    """Return a batch that deletes objects as they were seen."""
    kinds = tuple(dict.fromkeys(["Pod", *(item.kind for item in seen)]))
    return Deletes(
        uid_column=np.frombuffer(b"".join(item.uid for item in seen), dtype=np.uint8).reshape(-1, 16),
        kind_column=np.array([kinds.index(item.kind) for item in seen], dtype=np.int16),
        handle_column=np.array([item.run[0] for item in seen], dtype=np.int64),
        ordinal_column=np.array([item.run[1] for item in seen], dtype=np.int64),
        object_column=np.array([item.run[2] for item in seen], dtype=np.int16),
        kinds=kinds,
    )

"""A cluster as small as the reconcile step can see it: objects that exist, events that were not read yet, and faults.

It takes the core's own columns, so tests drive the reconciler without a port in between. It keeps what it was made to
do, so tests can ask whether a second pod of a run ever stood beside or after the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from argosy_core.job.states import IS_RUN_TERMINAL, FailureKind, ObjectState
from argosy_core.reconcile import CreateResponses, Creates, DeleteResponses, Deletes, Observations
from argosy_core.reconcile.intake import kinds_of_body
from argosy_core.reconcile.rendering import DEFAULT_NAMESPACE

__all__ = ["ClusterModel", "ModelObject", "make_observations"]

Key = tuple[int, int, int]
"""(handle, ordinal, position in the bag)."""


@dataclass(slots=True)
class ModelObject:
    """One object of the cluster."""

    key: Key
    """Which object of which run it is."""
    uid: int
    """Its uid as a number."""
    kind: str
    """Kubernetes kind."""
    state: ObjectState
    """What it shows."""
    exit_code: int = 0
    """Exit code, if it failed."""
    is_gone: bool = False
    """Whether it was removed."""
    namespace: str = DEFAULT_NAMESPACE
    """Namespace that it is in."""


def make_observations(objects: Iterable[ModelObject], *, time_us: int = 0) -> Observations:
    """Return objects as the reconcile step takes them, in order."""
    found = list(objects)
    kinds = tuple(dict.fromkeys(["Pod", *(item.kind for item in found)]))
    namespaces = tuple(dict.fromkeys(item.namespace for item in found))
    return Observations(
        gone_column=np.array([item.is_gone for item in found], dtype=np.bool_),
        handle_column=np.array([item.key[0] for item in found], dtype=np.int64),
        ordinal_column=np.array([item.key[1] for item in found], dtype=np.int64),
        object_column=np.array([item.key[2] for item in found], dtype=np.int16),
        kind_column=np.array([kinds.index(item.kind) for item in found], dtype=np.int16),
        state_column=np.array([item.state for item in found], dtype=np.int8),
        uid_column=_uids([item.uid for item in found]),
        time_us_column=np.full(len(found), time_us, dtype=np.int64),
        exit_code_column=np.array([item.exit_code for item in found], dtype=np.int32),
        failure_column=np.array(
            [FailureKind.EXIT_CODE if item.state == ObjectState.FAILED else 0 for item in found], dtype=np.int8
        ),
        message_column=np.full(len(found), -1, dtype=np.int32),
        namespace_column=np.array([namespaces.index(item.namespace) for item in found], dtype=np.int32),
        kinds=kinds,
        texts=namespaces,
    )


def _uids(numbers: list[int]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return numbers as uids."""
    column = np.zeros((len(numbers), 16), dtype=np.uint8)
    for place, number in enumerate(numbers):
        column[place] = np.frombuffer(number.to_bytes(16, "little"), dtype=np.uint8)
    return column


@dataclass(slots=True)
class ClusterModel:
    """What a cluster must show after what was done to it, by plain rules."""

    objects: dict[Key, ModelObject] = field(default_factory=dict)
    """What exists, by name; a name belongs to one object of one run."""
    unread: list[ModelObject] = field(default_factory=list)
    """Changes that no watcher has seen, in order."""
    created_pods: dict[Key, int] = field(default_factory=dict)
    """How often each pod was created, since the beginning."""
    unmanaged_pods: set[Key] = field(default_factory=set)
    """Names that belong to somebody else."""
    refused: set[int] = field(default_factory=set)
    """Handles of jobs whose objects the cluster refuses."""
    full: set[int] = field(default_factory=set)
    """Handles of jobs whose objects a quota keeps out for now."""
    unlabelled: set[Key] = field(default_factory=set)
    """Objects whose labels somebody took away: only a look by name shows them."""
    lookup_count: int = 0
    """How many objects were looked for by name."""
    untold_ends: set[Key] = field(default_factory=set)
    """Pods that ended and went while nobody looked, so that nobody can know how: a real cluster keeps them, by the
    finalizer that the adapter sets, and shows this to no watcher."""
    next_uid: int = 1
    """Next uid."""

    def create(self, creates: Creates, *, lost_answers: bool = False, lost_calls: bool = False) -> CreateResponses:
        """Create objects.

        Args:
            creates: What to create.
            lost_answers: It is done, and nobody hears what became of it.
            lost_calls: It is not done, and nobody hears so.
        """
        count = len(creates)
        exists, refused, later = (np.zeros(count, dtype=np.bool_) for _ in range(3))
        uids = [0] * count
        for place in range(count if not lost_calls else 0):
            handle, position = int(creates.handle_column[place]), int(creates.object_column[place])
            key = (handle, int(creates.ordinal_column[place]), position)
            if key in self.unmanaged_pods or handle in self.refused:
                refused[place] = True
            elif handle in self.full:
                later[place] = True
            else:
                body = creates.bodies[creates.body_column[place]]
                uids[place] = self._make(key, kinds_of_body(body)[position])
                exists[place] = True
        if lost_answers:
            exists, refused, later = (np.zeros(count, dtype=np.bool_) for _ in range(3))
            uids = [0] * count
        return CreateResponses(
            exists_column=exists,
            refused_column=refused,
            later_column=later,
            uid_column=_uids(uids),
            message_column=np.where(refused, 0, -1).astype(np.int32),
            messages=("refused by the cluster",),
        )

    def _make(self, key: Key, kind: str) -> int:
        """Create one object unless it is there; return its uid. What is there gets its labels back."""
        self.unlabelled.discard(key)
        if key not in self.objects:
            state = ObjectState.CREATED if kind == "Pod" else ObjectState.RUNNING
            self.objects[key] = ModelObject(key, self.next_uid, kind, state)
            self.next_uid += 1
            self._note(self.objects[key])
            if kind == "Pod":
                self.created_pods[key] = self.created_pods.get(key, 0) + 1
        return self.objects[key].uid

    def _note(self, item: ModelObject) -> None:
        """Keep a change for the watcher, who does not see what has lost its labels."""
        if item.key in self.unlabelled:
            return
        self.unread.append(ModelObject(item.key, item.uid, item.kind, item.state, item.exit_code, item.is_gone))

    def delete(self, deletes: Deletes, *, lost_answers: bool = False, lost_calls: bool = False) -> DeleteResponses:
        """Delete objects by uid, at once; arguments as in `create`."""
        count = len(deletes)
        accepted, gone = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
        for place in range(count if not lost_calls else 0):
            key = (
                int(deletes.handle_column[place]),
                int(deletes.ordinal_column[place]),
                int(deletes.object_column[place]),
            )
            item = self.objects.get(key)
            uid = int.from_bytes(deletes.uid_column[place].tobytes(), "little")
            if item is None or item.uid != uid:
                gone[place] = True
            else:
                self.remove(key)
                accepted[place] = True
        if lost_answers:
            accepted[:] = gone[:] = False
        return DeleteResponses(accepted_column=accepted, gone_column=gone)

    def find(self, lookups: Creates, *, time_us: int = 0) -> Observations:
        """Return what is there of some objects, by name, and give it its labels back."""
        columns = (lookups.handle_column, lookups.ordinal_column, lookups.object_column)
        keys = list(zip(*(column.tolist() for column in columns), strict=True))
        self.lookup_count += len(keys)
        self.unlabelled -= set(keys)
        return make_observations((self.objects[key] for key in keys if key in self.objects), time_us=time_us)

    def show(self, key: Key, state: ObjectState, *, exit_code: int = 0) -> None:
        """Let an object show another state, unless it is gone or has ended."""
        item = self.objects.get(key)
        if item is not None and item.state not in (ObjectState.SUCCEEDED, ObjectState.FAILED):
            item.state, item.exit_code = state, exit_code
            self._note(item)

    def remove(self, key: Key) -> None:
        """Take an object away."""
        item = self.objects.pop(key, None)
        if item is not None:
            item.is_gone = True
            self._note(item)
            self.unlabelled.discard(key)

    def pods(self) -> list[ModelObject]:
        """Return the pods that exist, by key."""
        return [self.objects[key] for key in sorted(self.objects) if self.objects[key].kind == "Pod"]

    def read_events(self, *, time_us: int = 0) -> Observations:
        """Return all unread changes and forget them."""
        events, self.unread = self.unread, []
        return make_observations(events, time_us=time_us)

    def read_listing(self, *, time_us: int = 0) -> Observations:
        """Return everything that exists; unread changes are part of it and forgotten."""
        ended = {item.key for item in self.unread if not item.is_gone and IS_RUN_TERMINAL[item.state]}
        self.untold_ends |= {item.key for item in self.unread if item.is_gone} & ended
        self.unread = []
        shown = (self.objects[key] for key in sorted(self.objects) if key not in self.unlabelled)
        return make_observations(shown, time_us=time_us)

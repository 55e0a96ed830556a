"""A cluster: nodes, objects that are created, run for their time, end and are deleted, and watches that tell of it.

Calls and watches are slow and, while faults are on, unreliable: a call may be lost or arrive twice, its answer may be
lost, a watch may lag behind or end. The cluster itself never dies.

Source: design section 5, "Sync"; section 7 (what a cluster does wrong).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.job.states import FailureKind, ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.nodes import NodeSpec
from argosy_core.placement import PlaceReply
from argosy_core.reconcile import CreateResponses, Creates, DeleteResponses, Deletes
from argosy_core.resources import PODS
from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.audit import Audit
from argosy_simulation.cluster_changes import (
    Key,
    NodeChange,
    ObjectChange,
    PodResized,
    Scope,
    TakeListing,
    UnmanagedPod,
    uid_column,
)
from argosy_simulation.cluster_objects import ClusterObject, RunningPod
from argosy_simulation.network import Network
from argosy_simulation.plan import POD, JobIndex
from argosy_simulation.settings import WorldSettings
from argosy_simulation.watches import Watches

__all__ = ["ClusterActor"]

_CREATED, _RUNNING = int(ObjectState.CREATED), int(ObjectState.RUNNING)
_SUCCEEDED, _FAILED = int(ObjectState.SUCCEEDED), int(ObjectState.FAILED)
_ENDED = (_SUCCEEDED, _FAILED)
_EXIT_CODE: Final = int(FailureKind.EXIT_CODE)
_INFRASTRUCTURE: Final = int(FailureKind.INFRASTRUCTURE)


class ClusterActor(Process):
    """A Kubernetes cluster in virtual time: takes creates and deletes, runs pods, shows what changed.

    Args:
        name: Its name.
        nodes: Its nodes.
        job_index: Tells what the pods of a job need, and how long they run.
        agenda: Time.
        network: Draws delays and faults.
        settings: Delays.
        audit: Is told what pods do.
    """

    def __init__(
        self,
        name: str,
        nodes: Iterable[NodeSpec],
        *,
        job_index: JobIndex,
        agenda: Agenda,
        network: Network,
        settings: WorldSettings,
        audit: Audit,
    ) -> None:
        """Start with empty nodes."""
        super().__init__(name)
        self._job_index = job_index
        self._agenda = agenda
        self._network = network
        self._settings = settings
        self._audit = audit
        self.nodes: dict[str, NodeSpec] = {}
        self._free: dict[str, dict[str, int]] = {}
        self.objects: dict[Key, ClusterObject] = {}
        self._made: set[Key] = set()
        self._unmanaged_pods: dict[int, UnmanagedPod] = {}
        self._next_uid = 1
        self.watches = Watches(agenda, network, settings)
        """Who is told of its changes."""
        self.dark = False
        """Whether nothing reaches it, and nothing runs in it."""
        self.placer: Callable[[Members], PlaceReply | None] = lambda _: None
        """Its newest sampler's way to place what is leased to the cluster; None is no answer."""
        self.on_start: Callable[[], None] = lambda: None
        """Is told that a pod began to run; an agent's."""
        for spec in nodes:
            self._add_node(spec)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _add_node(self, spec: NodeSpec) -> None:
        self.nodes[spec.name] = spec
        self._free[spec.name] = {PODS: 110, **spec.total}

    def lose_node(self, name: str, away_s: float) -> None:
        """Let a node disappear with its pods, and come back empty; never, if it is away for infinitely long.

        Pods that have ended stay: a finalizer keeps them until their executor deletes them.
        """
        spec = self.nodes.pop(name, None)
        if spec is None:
            return
        del self._free[name]
        self.watches.tell(Scope.NODES, NodeChange(name, None))
        for key in [key for key, item in self.objects.items() if item.node == name and item.kind == POD]:
            if self.objects[key].state in (_SUCCEEDED, _FAILED):
                continue
            self.objects[key].booked = False
            self._remove(key)
        for uid in [uid for uid, unmanaged_pod in self._unmanaged_pods.items() if unmanaged_pod.node == name]:
            self._end_unmanaged_pod(uid)
        if away_s < math.inf:
            self._agenda.after(away_s, self, self._return_node, spec)

    def _return_node(self, spec: NodeSpec) -> None:
        self._add_node(spec)
        self.watches.tell(Scope.NODES, NodeChange(spec.name, spec))

    # --- unmanaged pods -----------------------------------------------------------------------------------------------

    def admit_unmanaged_pod(self, node: str, requests: tuple[tuple[str, int], ...], run_s: float) -> bool:
        """Let a pod that is not ours run on a node if the node has room; return whether it has."""
        free = self._free.get(node)
        asked = (*requests, (PODS, 1))
        if free is None or any(free.get(resource, 0) < amount for resource, amount in asked):
            return False
        unmanaged_pod = UnmanagedPod(self._next_uid, node, asked, gone=False)
        self._next_uid += 1
        self._unmanaged_pods[unmanaged_pod.uid] = unmanaged_pod
        for resource, amount in asked:
            free[resource] -= amount
        self.watches.tell(Scope.OBJECTS, unmanaged_pod)
        self._agenda.after(run_s, self, self._end_unmanaged_pod, unmanaged_pod.uid)
        return True

    def _end_unmanaged_pod(self, uid: int) -> None:
        unmanaged_pod = self._unmanaged_pods.pop(uid, None)
        if unmanaged_pod is None:
            return
        free = self._free.get(unmanaged_pod.node)
        if free is not None:
            for resource, amount in unmanaged_pod.requests:
                free[resource] += amount
        self.watches.tell(Scope.OBJECTS, unmanaged_pod._replace(gone=True))

    # --- listing ------------------------------------------------------------------------------------------------------

    def list_all(self, owner: Process, scope: Scope, take: TakeListing, *, has_strays: bool = False) -> None:
        """Let a process have everything that exists, and the position from which to watch.

        Args:
            owner: The process.
            scope: Of what.
            take: Takes it.
            has_strays: Pods that have ended and lost their labels are looked for as well, and get them back.
        """
        delay_s = self._network.draw_s(self._settings.call_s)
        self._agenda.after(delay_s, self, self._answer_list, owner, scope, take, has_strays)

    def _answer_list(self, owner: Process, scope: Scope, take: TakeListing, has_strays: bool) -> None:  # noqa: FBT001
        rows: list[tuple[object, ...]]
        for key, item in self.objects.items() if has_strays else ():
            if item.kind == POD and item.state in _ENDED:
                self._label(key, item)
        if scope is Scope.NODES:
            rows = [NodeChange(name, spec) for name, spec in self.nodes.items()]
        else:
            rows = [self._show(key, item, gone=False) for key, item in self.objects.items()]
            rows.extend(PodResized(one.uid, one.requests) for one in self.objects.values() if one.requests is not None)
            rows.extend(self._unmanaged_pods.values())
        position = self.watches.position(scope)
        self._agenda.after(self._network.draw_s(self._settings.call_s), owner, take, rows, position)

    def _show(self, key: Key, item: ClusterObject, *, gone: bool) -> ObjectChange:
        shown = ObjectChange(
            *key, item.kind, item.state, gone, item.uid, item.node, self._agenda.now_us, item.exit_code, item.failure
        )
        return shown if item.is_labelled else shown._replace(is_labelled=False)

    # --- calls --------------------------------------------------------------------------------------------------------

    def create(
        self,
        owner: Process,
        creates: Creates,
        take: Callable[[Creates, CreateResponses | None], None],
        *,
        is_superseded: bool,
    ) -> None:
        """Call: create objects, in order."""
        sent = self._audit.sending(creates, is_superseded=is_superseded)
        self._call(owner, partial(self._create, sent=sent), creates, take)

    def delete(self, owner: Process, deletes: Deletes, take: Callable[[Deletes, DeleteResponses | None], None]) -> None:
        """Call: delete objects that still have their uid."""
        self._call(owner, self._delete, deletes, take)

    def find(
        self, owner: Process, lookups: Creates, take: Callable[[Creates, list[ObjectChange] | None], None]
    ) -> None:
        """Call: look for objects by name; what is there gets its labels back."""
        self._call(owner, self._find, lookups, take)

    def place(self, owner: Process, members: Members, take: Callable[[Members, PlaceReply | None], None]) -> None:
        """Call the cluster's sampler: choose nodes for members of runs."""
        self._call(owner, self._place, members, take)

    def _place(self, members: Members) -> PlaceReply | None:
        return self.placer(members)

    def _call(self, owner: Process, action: Callable[..., object], what: object, take: Callable[..., None]) -> None:
        """Let a call arrive, late, twice or not at all, and its answer, or none."""
        network, settings = self._network, self._settings
        faults = network.faults
        slow_s = 0.0
        lost = unanswered = twice = False
        if faults is not None:
            lost = network.happens(faults.call_loss_ratio)
            unanswered = network.happens(faults.call_loss_ratio)
            twice = network.happens(faults.repeat_ratio)
            if network.happens(2 * faults.call_loss_ratio):
                slow_s = network.draw_s((0.0, faults.call_delay_s))
        arrival_s = slow_s + network.draw_s(settings.call_s)
        if not lost:
            answered = None if unanswered else take
            if twice:  # whoever repeats a call waits for the answer to the last one
                self._agenda.after(arrival_s, self, self._arrive, owner, action, what, None)
                arrival_s += network.draw_s((0.0, settings.call_s[1] * 10))
            self._agenda.after(arrival_s, self, self._arrive, owner, action, what, answered)
        if lost or unanswered:
            self._agenda.after(settings.call_timeout_s, owner, take, what, None)

    def _arrive(
        self, owner: Process, action: Callable[..., object], what: object, take: Callable[..., None] | None
    ) -> None:
        if self.dark:
            return
        answers = action(what)
        if take is not None:
            self._agenda.after(self._network.draw_s(self._settings.call_s), owner, take, what, answers)

    def _create(self, creates: Creates, *, sent: frozenset[Key]) -> CreateResponses:
        count = len(creates)
        uids = []
        columns = (creates.handle_column, creates.ordinal_column, creates.object_column, creates.node_column)
        for handle, attempt, position, node in zip(*(column.tolist() for column in columns), strict=True):
            key = (handle, attempt, position)
            item = self.objects.get(key)
            if item is None:
                item = self._make(key, creates.nodes[node], was_known=key in sent)
            self._label(key, item)
            uids.append(item.uid)
        none = np.zeros(count, dtype=np.bool_)
        return CreateResponses(
            exists_column=np.ones(count, dtype=np.bool_),
            refused_column=none,
            later_column=none,
            uid_column=uid_column(uids),
            message_column=np.full(count, -1, dtype=np.int32),
            messages=(),
        )

    def _delete(self, deletes: Deletes) -> DeleteResponses:
        count = len(deletes)
        accepted, gone = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
        uids = np.ascontiguousarray(deletes.uid_column).view(np.int64)[:, 0].tolist()
        columns = (deletes.handle_column, deletes.ordinal_column, deletes.object_column)
        rows = zip(uids, *(column.tolist() for column in columns), strict=True)
        for place, (uid, handle, attempt, position) in enumerate(rows):
            key = (handle, attempt, position)
            item = self.objects.get(key)
            if item is None or item.uid != uid:
                gone[place] = True
                continue
            accepted[place] = True
            if not item.deleting:
                item.deleting = True
                ended = item.state in _ENDED or item.kind != POD
                delay_s = 0.0 if ended else self._network.draw_s(self._settings.pod_stop_s)
                self._agenda.after(delay_s, self, self._stop, key, uid)
        return DeleteResponses(accepted_column=accepted, gone_column=gone)

    def _find(self, lookups: Creates) -> list[ObjectChange]:
        columns = (lookups.handle_column, lookups.ordinal_column, lookups.object_column)
        found = []
        for key in zip(*(column.tolist() for column in columns), strict=True):
            item = self.objects.get(key)
            if item is not None:
                self._label(key, item)
                found.append(self._show(key, item, gone=False))
        return found

    def _label(self, key: Key, item: ClusterObject) -> None:
        """Give an object its labels back."""
        if not item.is_labelled:
            item.is_labelled = True
            self.watches.tell(Scope.OBJECTS, self._show(key, item, gone=False))

    def take_labels(self, rng: np.random.Generator, is_live: Callable[[int, int], bool]) -> int:
        """Take the labels from about half of the pods that have ended or are of live runs, and tell nobody.

        Args:
            rng: Draws which.
            is_live: Tells of a member, (handle, ordinal), whether its run is.

        Returns:
            From how many.
        """
        pods = [item for key, item in sorted(self.objects.items()) if item.kind == POD and is_live(*key[:2])]
        pods = [item for item in pods if item.state in (_CREATED, _RUNNING)]
        pods += [item for _, item in sorted(self.objects.items()) if item.kind == POD and item.state in _ENDED]
        hit = [item for item in pods if rng.random() < 0.5]
        for item in hit:
            item.is_labelled = False
        return len(hit)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _make(self, key: Key, node: str, *, was_known: bool) -> ClusterObject:
        """Create an object; a pod starts a while later if its node is there and has room."""
        handle, _, position = key
        kind = self._job_index.kinds_of(handle)[position]
        item = self.objects[key] = ClusterObject(self._next_uid, kind, node, _CREATED if kind == POD else _RUNNING)
        self._next_uid += 1
        if kind == POD:
            self._audit.pod_created(self.name, key, was_known=was_known)
            item.repeated = key in self._made
            self._made.add(key)
            if node in self.nodes:
                self._admit(key, item)
            else:
                self._agenda.after(self._network.draw_s(self._settings.collect_s), self, self._stop, key, item.uid)
        self.watches.tell(Scope.OBJECTS, self._show(key, item, gone=False))
        if item.booked:
            start_s = self._network.draw_s(self._settings.pod_start_s)
            if start_s:
                self._agenda.after(start_s, self, self._start, key, item.uid)
            else:
                self._start(key, item.uid)
        return item

    def _admit(self, key: Key, item: ClusterObject) -> None:
        """Let a pod take room on its node, or fail as nodes let pods fail for which there is none.

        That must not happen, with two exceptions: another pod came between commit and creation; or a pod that vanished
        before any executor saw it is made again, although the sampler saw it go and gave its room to another.
        """
        free = self._free[item.node]
        for resource, amount in self._asks(key, item):
            if free.get(resource, 0) < amount:
                on_node = [other for other in self.objects.values() if other.node == item.node and other.booked]
                crowded = any(unmanaged_pod.node == item.node for unmanaged_pod in self._unmanaged_pods.values())
                if not crowded and not item.repeated and not any(other.repeated for other in on_node):
                    self._audit.node_overcommitted(self.name, item.node, resource)
                item.state, item.failure = _FAILED, _INFRASTRUCTURE
                return
        item.booked = True
        self._book_room(key, item, -1)

    def _asks(self, key: Key, item: ClusterObject) -> tuple[tuple[str, int], ...]:
        """Return what a pod asks for."""
        return self._job_index.requests_of(*key) if item.requests is None else item.requests

    def _book_room(self, key: Key, item: ClusterObject, sign: int) -> None:
        """Take (-1) or give back (+1) what a pod asks for."""
        free = self._free[item.node]
        for resource, amount in self._asks(key, item):
            free[resource] = free.get(resource, 0) + sign * amount

    def _start(self, key: Key, uid: int) -> None:
        item = self.objects.get(key)
        if item is None or item.uid != uid or item.deleting or item.state != _CREATED:
            return
        handle, attempt, position = key
        self._audit.pod_started(self.name, handle, attempt, position)
        item.state, item.started_us = _RUNNING, self._agenda.now_us
        self.watches.tell(Scope.OBJECTS, self._show(key, item, gone=False))
        self.on_start()
        run_s = self._job_index.run_s(handle, position)
        if np.isfinite(run_s):
            self._agenda.at(self._end_us(run_s), self, self._finish, key, uid)

    def _end_us(self, run_s: float) -> int:
        """Return when a pod that starts now and runs so long ends, at the world's resolution."""
        end_us, step_us = self._agenda.now_us + round(run_s * 1e6), round(self._settings.resolution_s * 1e6)
        if not step_us:
            return end_us
        return self._agenda.start_us + round((end_us - self._agenda.start_us) / step_us) * step_us

    def _finish(self, key: Key, uid: int) -> None:
        """Let a pod end by itself."""
        item = self.objects.get(key)
        if item is None or item.uid != uid or item.state != _RUNNING:
            return
        item.exit_code = self._job_index.exit_code(key[0], key[2])
        item.state = _FAILED if item.exit_code else _SUCCEEDED
        item.failure = _EXIT_CODE if item.exit_code else 0
        self._leave(key, item)
        self.watches.tell(Scope.OBJECTS, self._show(key, item, gone=False))

    def _stop(self, key: Key, uid: int) -> None:
        """Remove an object that is being deleted."""
        item = self.objects.get(key)
        if item is not None and item.uid == uid:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        item = self.objects.pop(key)
        self._leave(key, item)
        self.watches.tell(Scope.OBJECTS, self._show(key, item, gone=True))

    def _leave(self, key: Key, item: ClusterObject) -> None:
        """Let a pod give back what it holds."""
        if item.booked:
            item.booked = False
            self._book_room(key, item, 1)
        if item.kind == POD:
            self._audit.pod_stopped(self.name, *key)

    # --- sizes --------------------------------------------------------------------------------------------------------

    def running_pods(self) -> list[RunningPod]:
        """Return the pods that run."""
        return [
            RunningPod(key, item.uid, item.version, self._asks(key, item), item.started_us)
            for key, item in self.objects.items()
            if item.kind == POD and item.state == _RUNNING and not item.deleting
        ]

    def resize(self, key: Key, version: int, amounts: dict[str, int]) -> int:
        """Give a pod another size, at once; return its version then, 0 if it is not there or at another one.

        Raises:
            InvalidRequest: Its node has no room.
        """
        item = self.objects.get(key)
        if item is None or item.state != _RUNNING or item.version != version or not item.booked:
            return 0
        before = self._asks(key, item)
        free = self._free[item.node]
        if any(amounts.get(name, amount) - amount > free.get(name, 0) for name, amount in before):
            raise InvalidRequest("the node has no room for that size")
        self._book_room(key, item, 1)
        item.requests = tuple((name, amounts.get(name, amount)) for name, amount in before)
        item.version += 1
        self._book_room(key, item, -1)
        self.watches.tell(Scope.OBJECTS, PodResized(item.uid, item.requests))
        return item.version

    def unfinished_pods(self) -> set[tuple[int, int]]:
        """Return (handle, ordinal) of the pods that have not ended."""
        return {
            (handle, ordinal)
            for (handle, ordinal, _), item in self.objects.items()
            if item.kind == POD and item.state in (_CREATED, _RUNNING)
        }

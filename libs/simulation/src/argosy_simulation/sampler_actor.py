"""A sampler: keeps a cluster's ledger from what its watches show, and answers its leader.

Source: design section 5, "Sampler session" and "Sampler lost"; section 7, invariants 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.errors import StateConflict
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import PlacedNodes
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.permits import PermitService
from argosy_core.placement import CommitRequest, NodeSampler, Placements, PlaceReply, SampleRequest, SamplerSession
from argosy_core.scheduler import CapacityColumns, ClusterRuns
from argosy_simulation.agenda import Process
from argosy_simulation.cluster_actor import ClusterActor
from argosy_simulation.cluster_changes import NodeChange, ObjectChange, PodResized, Scope, UnmanagedPod, uid_column
from argosy_simulation.context import Context
from argosy_simulation.network import Stream
from argosy_simulation.plan import POD

__all__ = ["SamplerActor"]

_ENDED = frozenset({int(ObjectState.SUCCEEDED), int(ObjectState.FAILED)})
_LEASE_STEPS = 3
_HELD_ANEW_S = 60.0
"""How often the leader is told of all pods that are resized, as by the service."""
Classes = tuple[tuple[int, bytes], ...]
"""(class id, definition) of classes that a message makes known."""


class SamplerActor(Process):
    """One sampler process.

    Args:
        context: The world.
        cluster: Its cluster.
        incarnation: Grows with each start.
    """

    def __init__(self, context: Context, cluster: ClusterActor, incarnation: int) -> None:
        """List the cluster; dial the leader when that is done."""
        super().__init__(f"{cluster.name}/sampler{incarnation}")
        self._context = context
        self.cluster = cluster
        self.incarnation = incarnation
        scaling = context.job_index.plan.scaling
        # An agent is heard once a step, which a lease must outlast.
        permits = None if scaling is None else PermitSettings(lease_s=_LEASE_STEPS * scaling.step_s)
        self.ledger = NodeLedger(permits=permits)
        self.permits = PermitService(self.ledger, cluster=cluster.name, cluster_uid=cluster.name)
        """What answers the cluster's agent, if pods are resized."""
        self._resized: dict[int, tuple[tuple[str, int], ...]] = {}
        """By uid: what pods that were resized ask for."""
        self._scaled: dict[int, ObjectChange] = {}
        """By uid: pods that may be resized, as they were seen last."""
        self.stream: Stream | None = None
        self._rng = context.generator(2, incarnation, *cluster.name.encode())
        self.session = SamplerSession(self.ledger, NodeSampler(self.ledger, incarnation=incarnation), self._rng)
        self._generation = -1
        self._placement_count = -1
        self._held_anew_s = 0.0
        self._telling = False
        self._dialling = False
        self._listed: set[Scope] = set()
        self._vectors: dict[tuple[tuple[str, int], ...], Int64s] = {}
        cluster.placer = self.place
        for scope, take in ((Scope.NODES, self._take_node_list), (Scope.OBJECTS, self._take_pod_list)):
            cluster.list_all(self, scope, take)

    @property
    def ready(self) -> bool:
        """Whether a session stands and requests are answered."""
        return self.session.ready

    @property
    def epoch(self) -> int:
        """Highest epoch of a leader seen."""
        return self.session.epoch

    # --- the cluster --------------------------------------------------------------------------------------------------

    def _take_node_list(self, rows: list[tuple[object, ...]], position: int) -> None:
        table = self.ledger.nodes
        present = {row[0] for row in rows}
        self.ledger.remove_nodes([n for n in (table.names[row] for row in table.live().tolist()) if n not in present])
        self._take_nodes(rows)
        self._watch(Scope.NODES, self._take_nodes, position)

    def _take_nodes(self, rows: list[tuple[object, ...]]) -> None:
        """Take in changes of nodes."""
        last = {change.node: change.spec for change in cast("list[NodeChange]", rows)}
        put = [spec for spec in last.values() if spec is not None]
        gone = [name for name, spec in last.items() if spec is None]
        if put:
            self.ledger.put_nodes(put)
        if gone:
            self.ledger.remove_nodes(gone)
        self._tell_soon()

    def _take_pod_list(self, rows: list[tuple[object, ...]], position: int) -> None:
        self._resized.clear()
        self._scaled.clear()
        events = self._pod_events(rows)
        if self._context.job_index.has_several_pods:
            shapes, column = _shapes(events)
            self.ledger.take_pod_list(events, shapes=shapes, shape_column=column)
        else:
            self.ledger.observe_all(events)
        self._tell_soon()
        self._watch(Scope.OBJECTS, self._take_pods, position)

    def _take_pods(self, rows: list[tuple[object, ...]]) -> None:
        """Take in changes of pods."""
        events = self._pod_events(rows)
        if len(events):
            if self._context.job_index.has_several_pods:
                shapes, column = _shapes(events)
                self.ledger.take_pods(events, shapes=shapes, shape_column=column)
            else:
                self.ledger.observe(events)
            self._tell_soon()

    def _watch(self, scope: Scope, take: Callable[[list[tuple[object, ...]]], None], position: int) -> None:
        if self.cluster.watches.begin(self, scope, take, position) is None:
            self.watch_ended(scope)
            return
        self._listed.add(scope)
        if len(self._listed) == len(Scope) and self.stream is None:
            self._dial_soon(0.0)

    def watch_ended(self, scope: Scope) -> None:
        """List again: a watch that ended cannot be resumed."""
        take = self._take_node_list if scope is Scope.NODES else self._take_pod_list
        self.cluster.list_all(self, scope, take)

    def _pod_events(self, changes: list[tuple[object, ...]]) -> PodEvents:
        """Return changes of pods as the ledger takes them, unmanaged pods last."""
        pods = self._seen_pods(changes)
        others = [change for change in changes if isinstance(change, UnmanagedPod)]
        job_index = self._context.job_index
        asked = [self._resized.get(pod.uid) for pod in pods] if self._resized else [None] * len(pods)
        vectors = [
            self._vector(job_index.requests_of(pod.handle, pod.ordinal, pod.position) if size is None else size)
            for pod, size in zip(pods, asked, strict=True)
        ]
        vectors += [self._vector(other.requests) for other in others]
        width = len(self.ledger.axis)
        requests = np.zeros((len(vectors), width), dtype=np.int64)
        for place, vector in enumerate(vectors):
            requests[place, : vector.size] = vector
        strange = [0] * len(others)
        members = Members(
            np.array([pod.handle for pod in pods] + strange, np.int64),
            np.array([pod.ordinal for pod in pods] + strange, np.int64),
        )
        ended = [pod.gone or pod.state in _ENDED for pod in pods] + [other.gone for other in others]
        return PodEvents(
            members=members,
            uids=uid_column([pod.uid for pod in pods] + [other.uid for other in others]),
            nodes=self.ledger.rows_of_names([pod.node for pod in pods] + [other.node for other in others]),
            ended=np.array(ended, dtype=np.bool_),
            requests=requests,
            scalings={} if job_index.plan.scaling is None else self._scalings(pods),
        )

    def _seen_pods(self, changes: list[tuple[object, ...]]) -> list[ObjectChange]:
        """Return the pods that changes are about, those that were resized as they were seen last."""
        if self._context.job_index.plan.scaling is None:
            return [change for change in changes if isinstance(change, ObjectChange) and change.kind == POD]
        pods: list[ObjectChange] = []
        for change in changes:
            if isinstance(change, PodResized):
                self._resized[change.uid] = change.requests
                pods += [self._scaled[change.uid]] if change.uid in self._scaled else []
            elif isinstance(change, ObjectChange) and change.kind == POD:
                pods.append(change)
                self._scaled[change.uid] = change
        return pods

    def _scalings(self, pods: list[ObjectChange]) -> dict[int, Scaling]:
        """Return by place within what pods are resized, and forget those that are gone."""
        scalings = {}
        for place, pod in enumerate(pods):
            scaling = self._context.job_index.scaling_of(pod.handle)
            if scaling is not None:
                scalings[place] = scaling
            if pod.gone or pod.state in _ENDED:
                self._scaled.pop(pod.uid, None)
                self._resized.pop(pod.uid, None)
        return scalings

    def _vector(self, asked: tuple[tuple[str, int], ...]) -> Int64s:
        """Return amounts in the order of the ledger's resources, which learn the names of new ones."""
        vector = self._vectors.get(asked)
        if vector is None or vector.size != len(self.ledger.axis):
            self.ledger.extend_axis([name for name, _ in asked])
            vector = self._vectors[asked] = self.ledger.axis.vector(dict(asked))
        return vector

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _dial_soon(self, wait_s: float) -> None:
        if not self._dialling:
            self._dialling = True
            self._context.agenda.after(wait_s, self, self._dial)

    def _dial(self) -> None:
        self._dialling = False
        leader = self._context.directory.find_leader()
        network = self._context.network
        if leader is None:
            self._dial_soon(network.draw_s(self._context.settings.dial_s))
            return
        self.session.begin()
        self.stream = network.dial(self, leader)
        self._generation = -1
        self._held_anew_s = 0.0
        network.tell(self.stream, "take_sampler_hello", self)

    def stream_closed(self, stream: Stream) -> None:
        """Dial again."""
        if stream is self.stream:
            self._leave()

    def _leave(self) -> None:
        self.stream, self.session.ready = None, False
        self._dial_soon(self._context.network.draw_s(self._context.settings.dial_s))

    def _refuses(self, stream: Stream, epoch: int) -> bool:
        """Return whether a message counts for nothing; one of an old epoch ends its stream."""
        if stream is not self.stream:
            return True
        try:
            self.session.check_epoch(epoch)
        except StateConflict:
            self._context.network.close(stream, self)
            self._leave()
            return True
        return False

    def take_welcome(self, stream: Stream, epoch: int) -> None:
        """Begin a session: tell of all nodes."""
        if not self._refuses(stream, epoch):
            self._send_capacity()

    def take_placements(self, stream: Stream, epoch: int, placements: Placements, classes: Classes) -> None:
        """Take in the full list of placements; from now on requests are answered."""
        if self._refuses(stream, epoch):
            return
        self._define(classes)
        self.session.take_placements(placements, is_last=True)
        self._send_capacity()
        self._context.network.tell(stream, "take_ready")
        self._tell_placed()

    def _define(self, classes: Classes) -> None:
        self.session.define((class_id, SchedulingClass.parse(definition)) for class_id, definition in classes)

    def forget_classes(self, stream: Stream, epoch: int, class_ids: tuple[int, ...]) -> None:
        """Let classes leave that the leader has dropped; part of its next request on the wire."""
        if not self._refuses(stream, epoch):
            self.session.forget(class_ids)

    def answer_sample(self, stream: Stream, epoch: int, request: SampleRequest, classes: Classes) -> None:
        """Answer a request of the sampling phase."""
        if self._refuses(stream, epoch) or not self.session.ready:
            return
        self._define(classes)
        self.ledger.extend_axis(request.resources)
        answer = self.session.sample(epoch, request)
        self._context.network.tell(stream, "take_sample", request.round_number, answer, repeatable=True)

    def answer_commit(self, stream: Stream, epoch: int, request: CommitRequest) -> None:
        """Place runs (MultiBind)."""
        if self._refuses(stream, epoch) or not self.session.ready:
            return
        before = self.ledger.nodes_of(request.members)
        answer = self.session.commit(epoch, request)
        placed = (before < 0) & (answer.node >= 0) & (answer.node != self.ledger.nodes.any_row)
        self._context.audit.committed(self.name, self.ledger, request, np.where(placed, answer.node, np.int32(-1)))
        self._tell_soon()
        self._context.network.tell(
            stream,
            "take_commit",
            request.round_number,
            request.stage,
            answer,
            repeatable=True,
        )

    def take_release(self, stream: Stream, epoch: int, runs: ClusterRuns) -> None:
        """Let the leader go of placements."""
        if not self._refuses(stream, epoch):
            self.session.release(epoch, runs.members)
            self._tell_soon()

    # --- the executor -------------------------------------------------------------------------------------------------

    def place(self, members: Members) -> PlaceReply | None:
        """Choose nodes for what is leased to the cluster, and tell the leader; None if nobody is there to answer."""
        if not self.alive or not self.session.ready:
            return None
        before = self.ledger.nodes_of(members)
        reply = self.session.place(members)
        after = self.ledger.nodes_of(members)
        self._context.audit.placed(self.name, self.ledger, members, np.where(after != before, after, np.int32(-1)))
        self._tell_placed()
        self._tell_soon()
        return reply

    def _tell_placed(self) -> None:
        """Tell the leader where what was leased to the cluster is placed."""
        members, nodes = self.session.take_placed()
        if nodes and self.stream is not None:
            placed = PlacedNodes(members=members, nodes=nodes)
            self._context.network.tell(self.stream, "take_nodes", placed, repeatable=True)

    # --- capacity -----------------------------------------------------------------------------------------------------

    def permitted(self) -> None:
        """Take note that permits were given or taken back: the leader is told what is free."""
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._telling and self.stream is not None:
            self._telling = True
            settings = self._context.settings
            wait_s = settings.rise_interval_s if self.session.sampler.waiting_count else settings.capacity_interval_s
            self._context.agenda.after(wait_s, self, self._tell)

    def _tell(self) -> None:
        self._telling = False
        if self.session.ready:
            self._send_capacity()

    def _send_capacity(self) -> None:
        """Tell the leader what changed of the nodes."""
        stream, table = self.stream, self.ledger.nodes
        placement_count = self.ledger.placement_count
        if stream is None or (self._generation == table.generation and self._placement_count == placement_count):
            return
        rows = table.changed_since(self._generation)
        self._generation, self._placement_count = table.generation, placement_count
        totals = table.totals()
        fitting, room = self.session.sampler.take_fitting()
        capacity = CapacityColumns(
            incarnation=self.incarnation,
            resources=table.axis.names,
            node=rows.astype(np.int32),
            names=tuple(table.names[row] for row in rows.tolist()),
            allocatable=np.ascontiguousarray(table.allocatable[:, rows].T),
            free=np.ascontiguousarray(table.free[:, rows].T),
            flag=table.flags[rows].astype(np.int8),
            total=totals.allocatable,
            total_free=totals.free,
            node_count=totals.node_count,
            placement_count=placement_count,
            fitting=fitting,
            fitting_room=room.astype(np.int32),
        )
        self._context.network.tell(stream, "take_capacity", capacity, repeatable=True)
        self._tell_held(stream)

    def _tell_held(self, stream: Stream) -> None:
        """Tell the leader what members hold that is not what their class says; now and then of all of them.

        Of nodes that members have for themselves with every change: the leader heeds no word on runs that it has not
        yet stored.
        """
        now_s = self._context.agenda.elapsed_s
        anew = now_s >= self._held_anew_s
        if anew:
            self._held_anew_s = now_s + _HELD_ANEW_S
        for held in (self.session.take_permitted(anew=anew), self.session.take_whole_nodes(anew=True)):
            if held is not None:
                self._context.network.tell(stream, "take_held", held, repeatable=True)


def _shapes(events: PodEvents) -> tuple[Int64s, Int32s]:
    """Return what pods ask for, each its own, as the ledger takes it."""
    return events.requests, np.arange(len(events), dtype=np.int32)

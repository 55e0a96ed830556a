"""A leader machine with real samplers and the simulation's database around it, told step by step by a test.

Nothing decides here: the machine is told what happened, and each of its instructions is carried out at once. After
every step the invariants of the pool and of the ledgers are checked; the database checks every event and transaction.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobEventKind, JobState
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import PlacedNodes
from argosy_core.leader import LeaderMachine, MachineSettings, Phase
from argosy_core.leader import events as hear
from argosy_core.leader import instructions as say
from argosy_core.leader.events import ClusterSettings, Event, Moment, Session
from argosy_core.leader.rounds import ROUND_GIVEN_UP
from argosy_core.leader.transaction import Transaction
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import ANY_NODE, NodeSpec
from argosy_core.placement import CommitReply, CommitRequest, PlaceReply, SampleReply, SampleRequest
from argosy_core.scheduler import LeasePlan, PoolState, RoundSettings, check_invariants
from argosy_simulation.changes import read_changes
from argosy_simulation.durable import DurableStore
from argosy_simulation.stored_rows import JobRow
from argosy_testkit.world_clusters import EventKeeper, WorldCluster
from argosy_testkit.world_rows import Report, add_jobs, empty_index, empty_plan, held_amounts

__all__ = ["LeaderWorld"]


class LeaderWorld:
    """Tells a `LeaderMachine` what a test says, in virtual time.

    Args:
        clusters: Name -> number of nodes.
        node_amounts: What each node has, base units.
        queues: Name -> weight; ids are 1, 2, ...
        parents: Name -> name of the queue above, for those that have one.
        settings: Of the rounds.
        seed: Of all randomness.
    """

    def __init__(
        self,
        *,
        clusters: Mapping[str, int] | None = None,
        node_amounts: Mapping[str, int] | None = None,
        queues: Mapping[str, float] | None = None,
        parents: Mapping[str, str] | None = None,
        settings: RoundSettings | None = None,
        seed: int = 1,
    ) -> None:
        """Have a leader take over an empty pool, and connect the clusters; without settings, shares cap nothing."""
        settings = settings or RoundSettings(non_preemptible_excess_ratio=1e9)
        self.settings = MachineSettings(round=settings, busy_s=0.0, release_wait_s=0.0)
        self.rng = np.random.default_rng(seed)
        self.now_s = 1_000_000.0
        self._mono_s = 0.0
        self._begin_s = self.now_s
        self.node_amounts = dict(node_amounts or {"cpu": 4000, "memory": 16 << 30})
        self.job_index = empty_index(queues or {"alice": 1.0}, parents)
        self.events = EventKeeper()
        self.store = DurableStore(self.job_index, self.events)
        self.clusters: dict[str, WorldCluster] = {}
        self.make_ledger: Callable[[], tuple[NodeLedger, int]] = lambda: (NodeLedger(), 0)
        """Returns the ledger of a sampler that starts, and the pool's number there; others may place on it too."""
        self.stored: list[Transaction] = []
        """Everything committed."""
        self.said: list[say.Instruction] = []
        """Everything that the machine had done, in order."""
        self._published: say.Publish | None = None
        self._holds_plans = False
        self._answer_sample: Callable[[SampleRequest], SampleReply | None] = lambda _: None
        self._answer_commit: Callable[[CommitRequest], CommitReply | None] = self.commit
        self._do: dict[type, Callable[[Any], Iterable[Event]]] = {
            say.PublishMarker: lambda _: [hear.MarkerPublished(position=self.store.append(self.machine.epoch, None))],
            say.Load: lambda _: [self._load()],
            say.ReadChanges: lambda _: [read_changes(self.store, self.job_index, self.machine)],
            say.ReadRecords: self._read_records,
            say.Publish: self._publish,
            say.Store: self._commit,
            say.SendPlacements: self._take_placements,
            say.SendSample: self._sample,
            say.SendCommit: self._bind,
            say.SendReleases: self._release,
            say.SendRows: self._make,
            say.Warn: _warn,
        }
        self._lead()
        for name, count in (clusters or {"a": 4}).items():
            self.add_cluster(name, count)

    # --- the machine --------------------------------------------------------------------------------------------------

    @property
    def state(self) -> PoolState:
        """The pool's memory."""
        return self.machine.state

    def tell(self, *events: Event) -> None:
        """Tell the machine events, carry out all that follows, and check all invariants."""
        self._tell(*events)
        self.check()

    def _tell(self, *events: Event) -> None:
        waiting: deque[Event] = deque(events)
        while waiting:
            waiting.extend(self._carry_out(self.machine.handle(waiting.popleft(), self._now())))

    def _now(self) -> Moment:
        return Moment(self._mono_s, round(self.now_s * 1e6))

    def _carry_out(self, instructions: list[say.Instruction]) -> Iterator[Event]:
        self.said += instructions
        for instruction in instructions:
            yield from self._do.get(type(instruction), lambda _: ())(instruction)

    def _lead(self) -> None:
        self.machine = LeaderMachine("default", self.store.lead(), settings=self.settings, rng=self.rng)
        self.tell(*self._carry_out(self.machine.start(self._now())))
        assert self.machine.phase is Phase.IDLE

    def take_over(self, unread: LeasePlan | None = None, *, reconnects: bool = True) -> None:
        """Lose the leader; another one loads, ingests what stood in the log, and everybody connects to it.

        Args:
            unread: A plan that `plan` answered: it was published, and nobody has ingested it.
            reconnects: False leaves it to `reconnect`.
        """
        if unread is not None:
            self.store.append(self.machine.epoch, unread)
        self._published = None
        self._lead()
        for name in self.clusters if reconnects else ():
            self.reconnect(name)

    def _load(self) -> hear.Loaded:
        columns = self.store.load()
        return hear.Loaded(
            columns=columns,
            classes=dict(self.job_index.definitions),
            queues=tuple(self.job_index.queues()),
            clusters=tuple(self.store.cluster_settings(name) for name in self.clusters),
            log_position=self.store.log_position,
        )

    def _read_records(self, instruction: say.ReadRecords) -> Iterator[Event]:
        log = self.store.log[instruction.after :]
        yield hear.RecordsRead(
            records=tuple(hear.ReadRecord(position=r.position, epoch=r.epoch, plan=r.plan) for r in log)
        )

    def _publish(self, publish: say.Publish) -> Iterator[Event]:
        self._published = publish
        if not self._holds_plans:
            yield self._append()

    def _append(self) -> hear.Published:
        assert self._published is not None
        publish, self._published = self._published, None
        positions = tuple(self.store.append(self.machine.epoch, record) for record in publish.records)
        return hear.Published(position=positions[-1], positions=positions)

    def _commit(self, store: say.Store) -> Iterator[Event]:
        self.stored.append(store.transaction)
        yield hear.Stored(number=store.number, refused=self.store.apply(self.machine.epoch, store.transaction))

    # --- clusters -----------------------------------------------------------------------------------------------------

    def add_cluster(self, name: str, node_count: int, node_amounts: Mapping[str, int] | None = None) -> None:
        """Connect the sampler and the executor of a cluster of equal nodes."""
        amounts = dict(node_amounts or self.node_amounts)
        specs = [NodeSpec(name=f"{name}-{row}", total=amounts) for row in range(node_count)]
        self.clusters[name] = WorldCluster(name, specs, self.make_ledger, self.rng)
        self.reconnect(name)

    def reconnect(self, name: str) -> None:
        """Restart everything of a cluster."""
        self.reconnect_sampler(name)
        self.reconnect_executor(name)

    def reconnect_sampler(self, name: str) -> None:
        """Restart a sampler: a new incarnation, which knows its nodes in another order, takes the leader's list."""
        cluster = self.clusters[name]
        cluster.restart_sampler(self.make_ledger)
        self.tell(hear.Bound(session=cluster.sampler, settings=self._bind_to_store(cluster.sampler)))

    def reconnect_executor(self, name: str) -> None:
        """Restart an executor, which has made all that it was told to make."""
        cluster = self.clusters[name]
        known = cluster.restart_executor(self.live_runs(name))
        self.tell(hear.Bound(session=cluster.executor, settings=self._bind_to_store(cluster.executor), known=known))

    def _bind_to_store(self, session: Session) -> ClusterSettings:
        self.store.bind(self.machine.epoch, session.cluster, role=session.role, incarnation=session.incarnation)
        return self.store.cluster_settings(session.cluster)

    def _take_placements(self, sent: say.SendPlacements) -> Iterator[Event]:
        yield from self.clusters[sent.session.cluster].take_placements(self.machine.epoch, sent)

    def _sample(self, sent: say.SendSample) -> Iterator[Event]:
        cluster = self.clusters[sent.session.cluster]
        cluster.sampling.forget(sent.dropped_classes)
        cluster.define(sent.classes)
        reply = self._answer_sample(sent.request)
        if reply is not None:
            yield hear.SampleAnswered(session=sent.session, round_number=sent.request.round_number, reply=reply)

    def sample(self, request: SampleRequest) -> SampleReply:
        """Answer a sampling request with the real sampler."""
        sampling = self.clusters[request.cluster].sampling
        sampling.ledger.extend_axis(request.resources)
        return sampling.sample(self.machine.epoch, request)

    def _bind(self, sent: say.SendCommit) -> Iterator[Event]:
        reply, asked = self._answer_commit(sent.request), sent.request
        if reply is not None:
            yield hear.CommitAnswered(
                session=sent.session, round_number=asked.round_number, stage=asked.stage, reply=reply
            )

    def commit(self, request: CommitRequest) -> CommitReply:
        """Answer a commit request with the real MultiBind."""
        return self.clusters[request.cluster].sampling.commit(self.machine.epoch, request)

    def _release(self, sent: say.SendReleases) -> Iterable[Event]:
        self.clusters[sent.runs.cluster].sampling.release(self.machine.epoch, sent.runs.members)
        return ()

    def _make(self, sent: say.SendRows) -> Iterable[Event]:
        self.clusters[sent.session.cluster].make(sent.rows)
        return ()

    def set_nodes(self, name: str, node_amounts: Mapping[str, int]) -> None:
        """Give the nodes of a cluster other amounts, and have its sampler tell them."""
        self.clusters[name].set_nodes(node_amounts)
        self.send_capacity(name)

    def send_capacity(self, name: str) -> None:
        """Have a sampler tell its nodes and totals."""
        self.tell(self.clusters[name].capacity())

    def tell_amounts(self, cluster: str, amounts: Mapping[tuple[int, int], int], resource: str = "cpu") -> None:
        """Have a sampler tell what members, (handle, ordinal), hold of a resource; -1 for what the class says."""
        held = held_amounts(amounts, resource)
        self.tell(hear.AmountsHeld(session=self.clusters[cluster].sampler, held=held))

    def delegate(self, cluster: str, *, delegated: bool = True) -> None:
        """Have a cluster place by itself from now on, or not."""
        (self.store.delegated.add if delegated else self.store.delegated.discard)(cluster)
        self.store.changes[self.store.next_change_id()] = cluster
        self.take()

    def place_leased(self, cluster: str) -> PlaceReply:
        """Have the executor of a cluster ask its sampler for nodes, as for all rows without one; return the answer."""
        world = self.clusters[cluster]
        runs = [key for key, run in self.store_runs(cluster).items() if run == ANY_NODE]
        reply = world.sampling.place(Members.from_pairs(runs))
        members, nodes = world.sampling.take_placed()
        self.tell(hear.NodesChosen(session=world.sampler, placed=PlacedNodes(members=members, nodes=nodes)))
        self.take()
        return reply

    def store_runs(self, cluster: str) -> dict[tuple[int, int], str]:
        """Return the node of each live run of a cluster as it is stored, by (handle, ordinal)."""
        return {
            (handle, ordinal): run.node
            for handle, job in self.store.jobs.items()
            for ordinal, run in job.runs.items()
            if run.cluster == cluster and not run.ended
        }

    def tell_whole_nodes(self, cluster: str) -> None:
        """Have a sampler tell what members on nodes of their own hold, if there are any."""
        held = self.clusters[cluster].sampling.take_whole_nodes(anew=True)
        if held is not None:
            self.tell(hear.AmountsHeld(session=self.clusters[cluster].sampler, held=held))

    def tell_news(self) -> None:
        """Have the samplers tell of classes that fit by now, as they do soon after capacity rose."""
        if news := self._news():
            self.tell(*news)

    def _news(self) -> list[Event]:
        """Return what samplers have to tell of classes that fit by now."""
        return [one.capacity() for one in self.clusters.values() if one.sampling.sampler.waiting_count]

    # --- people -------------------------------------------------------------------------------------------------------

    def define_class(self, class_id: int, *, node_selector: tuple[tuple[str, str], ...] = (), **requests: int) -> None:
        """Define a class by its requests, base units, and the labels that its nodes must have."""
        amounts = tuple(sorted(requests.items()))
        self.job_index.definitions[class_id] = SchedulingClass(
            requests=amounts, node_selector=node_selector
        ).definition()

    def define_gang(self, class_id: int, *groups: GangGroup) -> None:
        """Define the class of a distributed job by its sub-groups."""
        self.job_index.definitions[class_id] = SchedulingClass.of_gang(groups).definition()

    def submit(self, count: int, **job: Any) -> list[int]:  # noqa: ANN401
        """Submit equal jobs, as `add_jobs` describes them, have the leader take them, and return their handles."""
        rows = self.grow(count, **job)
        self.store.submit(self.store.next_change_id(), rows, round(self.now_s * 1e6))
        self.take()
        return [int(handle) for handle in self.job_index.handles(rows)]

    def grow(self, count: int, **job: Any) -> Int64s:  # noqa: ANN401
        """Add equal jobs, as `add_jobs` describes them, to those there will be, and return their rows in the index."""
        return add_jobs(self.job_index, count, submit_s=self.now_s - self._begin_s, **job)

    def read(self) -> None:
        """Have the leader read the changes that can be seen; its next cycle takes them."""
        self._tell(read_changes(self.store, self.job_index, self.machine))
        self._tell(hear.EndsRead(states=self.store.states(self.machine.unsettled())))

    def cancel(self, handles: Sequence[int], *, deliver: bool = True) -> Callable[[], None]:
        """Set cancel requests, as the API does; the next cycle takes them.

        Args:
            handles: Jobs.
            deliver: Whether the leader can read them; otherwise it can once what is returned is called.
        """
        known = set(self.store.changes)
        self.store.change_request(handles)
        late = {key: self.store.changes.pop(key) for key in set(self.store.changes) - known}

        def see() -> None:
            self.store.changes.update(late)
            late.clear()
            self.read()

        if deliver:
            see()
        return see

    def reprioritize(self, handles: Sequence[int], priority: int) -> None:
        """Give jobs another priority."""
        self.store.change_request(handles, priority=priority)
        self.take()

    def hold(self, handles: Sequence[int]) -> None:
        """Hold jobs back."""
        self.store.change_request(handles, held=True)
        self.take()

    def preempt(self, handles: Sequence[int]) -> None:
        """Ask that the runs of jobs make room."""
        self.store.change_request(handles, preempt=True)
        self.take()

    def release(self, handles: Sequence[int]) -> None:
        """Let held jobs go."""
        self.store.change_request(handles, held=False)
        self.take()

    def forget(self, cluster: str) -> None:
        """Declare a cluster gone."""
        self.store.forget(cluster)
        self.take()

    # --- cycles -------------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Run a cycle in which no sampler answers: what arrived is taken and stored, and nothing new is placed."""
        self.read()
        self._run_cycle()

    def plan(
        self,
        *,
        answer_sample: Callable[[SampleRequest], SampleReply | None] | None = None,
        answer_commit: Callable[[CommitRequest], CommitReply | None] | None = None,
    ) -> LeasePlan:
        """Run one cycle until its plan is to be published, and return that; an empty one if nothing was decided.

        Args:
            answer_sample: Answers instead of the samplers; None for no answer in time.
            answer_commit: The same for commits.
        """
        self._tell(*self._news())  # all is checked when the cycle ends
        self._answer_sample, self._answer_commit = answer_sample or self.sample, answer_commit or self.commit
        self._holds_plans = True
        self._run_cycle()
        if self._published is not None:
            return self._published.plan
        return empty_plan(self.state, self.now_s)

    def _run_cycle(self) -> None:
        self._tell(hear.Explained())
        self._mono_s += self.settings.window_max_s
        self._tell(hear.Tick())
        while self.machine.phase in (Phase.SAMPLING, Phase.COMMITTING):
            self._mono_s += self.settings.response_timeout_s
            self._tell(hear.Tick())
        self.tell(hear.Tick())  # what was let go of at last is told
        self._answer_sample, self._holds_plans = lambda _: None, False

    def ingest(self, plan: LeasePlan) -> None:
        """Let the log take the plan that `plan` returned; the leader ingests and stores it."""
        if plan.has_news:
            self.tell(self._append())

    def round(self) -> LeasePlan:
        """Run one whole cycle and return its plan."""
        plan = self.plan()
        self.ingest(plan)
        return plan

    # --- executors ----------------------------------------------------------------------------------------------------

    def report(
        self, cluster: str, reports: Sequence[Report], *, ahead_s: float = 0.0, sent_ahead_s: float = 0.0
    ) -> Transaction:
        """Have a cluster's executor report states, and a cycle take them that places nothing; return what it stored.

        Args:
            cluster: The cluster.
            reports: What it reports.
            ahead_s: How far the cluster's clock is ahead, and that of its executor with it.
            sent_ahead_s: How far the executor's own is, beside that.
        """
        there_s = self.now_s + ahead_s
        count = len(self.stored)
        self._tell(self.clusters[cluster].report(reports, there_s, there_s + sent_ahead_s))
        self.take()
        return self.stored[count] if len(self.stored) > count else Transaction()

    def live_runs(self, cluster: str) -> list[tuple[int, int]]:
        """Return (handle, ordinal) of the stored members of runs of a cluster that have not ended."""
        rows = [(handle, self.job(handle).members()) for handle in sorted(self.store.open_handles)]
        return [
            (handle, ordinal)
            for handle, members in rows
            for ordinal, run in sorted(members.items())
            if run.cluster == cluster and not run.ended
        ]

    def sent(self, kind: type[say.SendRows | say.SendStops | say.SendReleases]) -> list[tuple[str, int, int]]:
        """Return (cluster, handle, ordinal) of all rows, stops or releases that were sent."""
        sent = [one for one in self.said if isinstance(one, kind)]
        found = [
            Members.of(one.rows.handle, one.rows.attempt, one.rows.member)
            if isinstance(one, say.SendRows)
            else one.runs.members
            for one in sent
        ]
        return [(one.session.cluster, *key) for one, keys in zip(sent, found, strict=True) for key in keys.pairs()]

    # --- what is so ---------------------------------------------------------------------------------------------------

    def job(self, handle: int) -> JobRow:
        """Return a job as it is stored."""
        return self.store.jobs[handle]

    def place(self, handle: int) -> tuple[str, str]:
        """Return cluster and node of a job's newest run."""
        runs = self.job(handle).runs
        return runs[max(runs)].cluster, runs[max(runs)].node

    def job_state(self, handle: int) -> JobState:
        """Return the state that the events say a job has."""
        return JobState(self.job(handle).event_state)

    def kinds(self, handle: int) -> list[JobEventKind]:
        """Return the kinds of a job's events in order."""
        return [JobEventKind(kind) for job, kind in self.events.kinds if job == handle]

    def check(self) -> None:
        """Check all invariants there are."""
        check_invariants(self.state)
        for cluster in self.clusters.values():
            cluster.ledger.check_invariants()

    def digest(self) -> str:
        """Return a hash over all events and decisions so far."""
        plans = [(one.plan.handle.tolist(), one.plan.nodes) for one in self.said if isinstance(one, say.Publish)]
        return hashlib.blake2b(repr((plans, self.events.kinds)).encode()).hexdigest()


def _warn(warn: say.Warn) -> Iterable[Event]:
    """Let no fault of a round be passed over."""
    assert warn.text != ROUND_GIVEN_UP, warn.subject
    return ()

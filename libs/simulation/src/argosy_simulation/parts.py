"""The parts of a world: people, processes and clusters, and how they begin, die and come back.

Source: design section 2, `simulation`; section 7.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation
from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.agent_actor import AgentActor
from argosy_simulation.api_role import ApiRole
from argosy_simulation.audit import Audit
from argosy_simulation.cluster_actor import ClusterActor
from argosy_simulation.context import Context
from argosy_simulation.durable import DurableStore
from argosy_simulation.executor_actor import ExecutorActor
from argosy_simulation.leader_actor import LeaderActor
from argosy_simulation.network import Network
from argosy_simulation.plan import START_US, ChangeRequestPlan, JobIndex, WorldPlan
from argosy_simulation.results import JobTimes
from argosy_simulation.sampler_actor import SamplerActor
from argosy_simulation.settings import WorldSettings

__all__ = ["WorldParts"]

_SECOND_US = 1_000_000


class WorldParts:
    """What a world is made of, and what may happen to it.

    Args:
        plan: Clusters, queues and jobs.
        seed: Source of all chance, 0 or more.
        settings: Delays and periods; the defaults if None.
        with_api: Whether calls go to an API role that may die; else they are transactions.
    """

    def __init__(
        self,
        plan: WorldPlan,
        *,
        seed: int,
        settings: WorldSettings | None = None,
        with_api: bool = False,
    ) -> None:
        """Put the first events on the agenda; nothing happens before `run`."""
        settings = settings or WorldSettings()
        agenda, job_index = Agenda(START_US), JobIndex(plan)
        self.times = JobTimes(len(plan))
        store = DurableStore(job_index, self.times)
        self.context = Context(
            agenda=agenda,
            network=Network(agenda, settings, np.random.default_rng([seed, 0])),
            store=store,
            job_index=job_index,
            audit=Audit(store),
            settings=settings,
            seed=seed,
            directory=self,
        )
        self._people = Process("people")
        self._fate = Process("fate")
        self.submitted_count = 0
        """Jobs that were acknowledged."""
        self.leaders: list[LeaderActor] = []
        """Leaders that live, oldest first; all but the last have been replaced without knowing it."""
        self.clusters = tuple(
            ClusterActor(
                name,
                nodes,
                job_index=job_index,
                agenda=agenda,
                network=self.context.network,
                settings=settings,
                audit=self.context.audit,
            )
            for name, nodes in plan.clusters
        )
        if job_index.has_several_pods:
            for index, cluster in enumerate(self.clusters):
                cluster.watches.pauses = self.context.generator(7, index)
        self._started: dict[tuple[str, int], int] = {}
        self._every_executor: list[ExecutorActor] = []
        self.samplers = [self._start_sampler(index) for index in range(len(self.clusters))]
        """The newest sampler of each cluster, dead or alive."""
        self.executors = [self._start_executor(index) for index in range(len(self.clusters))]
        """The newest executor of each cluster, dead or alive."""
        self.agents = [] if plan.scaling is None else [self._start_agent(at) for at in range(len(self.clusters))]
        """The agent of each cluster, if pods are resized."""
        self.api: ApiRole | None = None
        """Whoever takes calls, if it may die; else calls are transactions."""
        if with_api:
            self.api = ApiRole(self.context, self._people, np.random.default_rng([seed, 5]))
        self._plan_people(plan)
        self.elect()

    # --- people -------------------------------------------------------------------------------------------------------

    def _plan_people(self, plan: WorldPlan) -> None:
        """Put submits (one for all jobs of a moment) and change requests on the agenda."""
        agenda = self.context.agenda
        moments_us = START_US + np.round(plan.submit_s * _SECOND_US).astype(np.int64)
        bounds = [0, *(np.flatnonzero(np.diff(moments_us)) + 1).tolist(), len(plan)]
        for first, last in pairwise(bounds):
            if last > first:
                agenda.at(int(moments_us[first]), self._people, self._call_submit, first, last)
        for change_request in plan.change_requests:
            agenda.after(change_request.at_s, self._people, self._call_change_request, change_request)

    def _call_submit(self, first: int, last: int) -> None:
        context = self.context
        if self.api is not None:
            rows = np.arange(first, last, dtype=np.int64)
            self.api.call(partial(self._accept, rows), partial(self._acknowledge, rows))
            return
        change_id = context.store.next_change_id()
        delay_s = context.network.draw_s(context.settings.transaction_s)
        context.agenda.after(delay_s, context.store, self._submit, change_id, first, last)

    def _submit(self, change_id: int, first: int, last: int) -> None:
        """Commit and acknowledge a submit."""
        self.context.store.submit(change_id, np.arange(first, last, dtype=np.int64), self.context.agenda.now_us)
        self.submitted_count += last - first
        self._tell_leader()

    def _accept(self, rows: npt.NDArray[np.int64]) -> None:
        """Commit a submit that may have been committed before."""
        store = self.context.store
        store.submit(store.next_change_id(), rows, self.context.agenda.now_us)
        self._tell_leader()

    def _acknowledge(self, rows: npt.NDArray[np.int64]) -> None:
        """Take note that somebody was told that jobs are accepted.

        Raises:
            InvariantViolation: They are not.
        """
        for handle in self.context.job_index.handles(rows).tolist():
            if handle not in self.context.store.jobs:
                raise InvariantViolation(f"job {handle} was acknowledged and is not stored")
        self.submitted_count += rows.size

    def _call_change_request(self, change_request: ChangeRequestPlan) -> None:
        context = self.context
        if self.api is not None:
            self.api.call(partial(self._change_request, change_request), lambda: None)
            return
        delay_s = context.network.draw_s(context.settings.transaction_s)
        context.agenda.after(delay_s, context.store, self._change_request, change_request)

    def _change_request(self, change_request: ChangeRequestPlan) -> None:
        """Commit a change request."""
        handles = self.context.job_index.handles(np.array(change_request.jobs, dtype=np.int64))
        if self.context.store.change_request(
            handles.tolist(), priority=change_request.priority, held=change_request.held, preempt=change_request.preempt
        ):
            self._tell_leader()

    def _tell_leader(self) -> None:
        """Let the leaders find a change when they look for changes next."""
        for leader in self.leaders:
            self.context.agenda.after(
                self.context.network.draw_s(self.context.settings.poll_s), leader, leader.look_for_changes
            )

    # --- processes ----------------------------------------------------------------------------------------------------

    def find_leader(self) -> LeaderActor | None:
        """Return a leader that takes sessions; one in four finds a replaced one that still does."""
        serving = [leader for leader in self.leaders if leader.serving]
        if not serving:
            return None
        return serving[0] if len(serving) > 1 and self.context.network.happens(0.25) else serving[-1]

    def leader_died(self, leader: Process, epoch: int) -> None:
        """Have another one elected, unless one was."""
        was_last = bool(self.leaders) and self.leaders[-1] is leader
        self.leaders = [one for one in self.leaders if one is not leader]
        if was_last:
            delay_s = self.context.network.draw_s(self.context.settings.election_s)
            self.context.agenda.after(delay_s, self._fate, self._replace_leader, epoch)

    def _replace_leader(self, epoch: int) -> None:
        if self.context.store.epoch == epoch:
            self.elect()

    def elect(self) -> None:
        """Begin a new epoch with a new leader."""
        context = self.context
        context.counters["epochs"] += 1
        for leader in self.leaders:
            # Whoever was replaced finds out at the latest when the lead is to be renewed.
            context.agenda.after(context.network.draw_s(context.settings.renew_s), leader, leader.give_up)
        self.leaders.append(LeaderActor(self.context, self.context.store.lead()))

    def _next_incarnation(self, role: str, index: int) -> int:
        self._started[role, index] = self._started.get((role, index), 0) + 1
        return self._started[role, index]

    def _start_sampler(self, index: int) -> SamplerActor:
        return SamplerActor(self.context, self.clusters[index], self._next_incarnation("sampler", index))

    def _start_agent(self, index: int) -> AgentActor:
        return AgentActor(self.context, self.clusters[index], find_sampler=lambda: self.samplers[index])

    def _start_executor(self, index: int) -> ExecutorActor:
        executor = ExecutorActor(self.context, self.clusters[index], self._next_incarnation("executor", index))
        self._every_executor.append(executor)
        return executor

    def _kill(self, process: SamplerActor | ExecutorActor) -> None:
        process.alive = False
        self.context.network.end_all(process)
        process.cluster.watches.forget(process)

    def restart_sampler(self, index: int) -> None:
        """Kill a cluster's sampler and start another a while later."""
        if self.samplers[index].alive:
            self._kill(self.samplers[index])
            delay_s = self.context.network.draw_s(self.context.settings.restart_s)
            self.context.agenda.after(delay_s, self._fate, self._replace_sampler, index)

    def _replace_sampler(self, index: int) -> None:
        if not self.clusters[index].dark and not self.samplers[index].alive:
            self.samplers[index] = self._start_sampler(index)

    def restart_executor(self, index: int) -> None:
        """Kill a cluster's executor and start another a while later."""
        if self.executors[index].alive:
            self._kill(self.executors[index])
            delay_s = self.context.network.draw_s(self.context.settings.restart_s)
            self.context.agenda.after(delay_s, self._fate, self._replace_executor, index)

    def _replace_executor(self, index: int) -> None:
        if not self.clusters[index].dark and not self.executors[index].alive:
            self.executors[index] = self._start_executor(index)

    def overlap_executors(self, index: int, length_s: float) -> None:
        """Cut an executor off from its leader for a while and start another beside it.

        What the older one sees of the cluster is as old, so that nothing but its fence holds it back.
        """
        old, network = self.executors[index], self.context.network
        if not old.alive:
            return
        old.isolated_until_us = self.context.agenda.now_us + round(length_s * 1e6)
        if old.stream is not None:
            network.stall(old.stream, length_s)
        for watch in old.cluster.watches.active:
            if watch.owner is old:
                watch.lagging_until_us = old.isolated_until_us
        delay_s = network.draw_s(self.context.settings.restart_s)
        self.context.agenda.after(delay_s, self._fate, self._start_beside, index, old)

    def isolate_executor(self, index: int, length_s: float) -> None:
        """Cut an executor off from its leader for a while, and from nobody else."""
        executor = self.executors[index]
        executor.isolated_until_us = self.context.agenda.now_us + round(length_s * 1e6)
        if executor.stream is not None:
            self.context.network.stall(executor.stream, length_s)

    def _start_beside(self, index: int, old: ExecutorActor) -> None:
        if self.executors[index] is old and not self.clusters[index].dark:
            self.executors[index] = self._start_executor(index)

    def lose_node(self, cluster: str, node: str, after_s: float) -> None:
        """Let a node go for good after some seconds, with what runs there.

        Raises:
            KeyError: There is no such cluster.
        """
        actor = {one.name: one for one in self.clusters}[cluster]
        self.context.agenda.after(after_s, self._fate, actor.lose_node, node, math.inf)

    # --- clusters that are gone ---------------------------------------------------------------------------------------

    def lose_cluster(self, index: int, gone_s: float, back_s: float) -> None:
        """Let a cluster go dark with everything in it; somebody declares it gone, and it comes back.

        Args:
            index: Which.
            gone_s: When it is declared gone, seconds from now; later if nobody leads then.
            back_s: When it comes back, seconds from now.
        """
        cluster = self.clusters[index]
        if cluster.dark:
            return
        cluster.dark = True
        for executor in self._every_executor:
            if executor.alive and executor.cluster is cluster:
                self._kill(executor)
        if self.samplers[index].alive:
            self._kill(self.samplers[index])
        for node in sorted(cluster.nodes):
            cluster.lose_node(node, back_s)
        self.context.agenda.after(gone_s, self._people, self._forget, index)
        self.context.agenda.after(back_s, self._fate, self._return_cluster, index)

    def _forget(self, index: int) -> None:
        """Declare a cluster gone, unless it is back or its leader still hears of it."""
        cluster, leader = self.clusters[index], self.leaders[-1] if self.leaders else None
        if not cluster.dark:
            return
        if leader is None or not leader.serving or leader.has_sessions(cluster.name):
            self.context.agenda.after(1.0, self._people, self._forget, index)
            return
        self.context.counters["clusters forgotten"] += 1
        self.context.store.forget(cluster.name)
        self._tell_leader()

    def _return_cluster(self, index: int) -> None:
        """Bring a cluster back; if it was declared gone, nobody may wait for it until then.

        Raises:
            InvariantViolation: A run is still expected there, although everything that was decided is stored.
        """
        store, name = self.context.store, self.clusters[index].name
        is_quiet = self.context.network.faults is None and not store.changes
        if is_quiet and name in store.forgotten and self.leaders and self.leaders[-1].is_idle:
            for handle in store.open_handles:
                job = store.jobs[handle]
                if any(run.cluster == name for run in job.members().values()):
                    raise InvariantViolation(f"job {handle} still waits for {name}, which was declared gone")
        self.clusters[index].dark = False
        self._replace_sampler(index)
        self._replace_executor(index)

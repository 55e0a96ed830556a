"""The agents of a world of permits: what they ask, hear and do, and the network between them and a sampler.

Source: `argosy_testkit.permit_world`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy_core.errors import ArgosyError
from argosy_core.ledger import RefusalReason
from argosy_core.permits import (
    AgentHello,
    AgentMessage,
    Directive,
    Directives,
    Goodbye,
    Heartbeat,
    Inventory,
    PermitRequest,
    Permits,
    PermitService,
    Refusals,
    Reply,
)
from argosy_testkit.permit_parties import CAPACITY, AgentPermit, Amounts, WorldAgent, WorldCluster, WorldPod, join, meet

__all__ = ["PATCH_S", "Agents"]

PATCH_S = 2.0
"""Longest time that a patch of a pod takes."""
_AGENT_COUNT = 3


class Agents:
    """The agents of a cluster; each has the pods whose handle leaves its remainder, and one has a rival.

    Args:
        cluster: The cluster.
        lease_s: How long a lease lasts.
        heeds_numbers: Agents ignore permits that do not answer their latest word.
        taken: Tells what the sampler's ledger takes of nodes for certain.
    """

    def __init__(
        self, cluster: WorldCluster, *, lease_s: float, heeds_numbers: bool, taken: Callable[[], np.ndarray]
    ) -> None:
        """Start them, without sessions."""
        self._cluster = cluster
        self._random = cluster.random
        self._counts = cluster.counts
        self._lease_s = lease_s
        self._heeds_numbers = heeds_numbers
        self._taken = taken
        self.zombies: list[WorldAgent] = []
        """Those that were replaced, and may still act on their leases."""
        self.living = [self._new_agent(number % _AGENT_COUNT) for number in range(_AGENT_COUNT + 1)]
        """Those that have or may get a session."""

    def _new_agent(self, remainder: int) -> WorldAgent:
        return WorldAgent(process_id=self._random.randbytes(16), remainder=remainder)

    def _own(self, agent: WorldAgent) -> list[WorldPod]:
        return [
            pod
            for pod in self._cluster.pods.values()
            if pod.exists and pod.handle % _AGENT_COUNT == agent.remainder and pod.scaling is not None
        ]

    def _say(self, agent: WorldAgent, message: AgentMessage) -> None:
        agent.sequence += 1
        agent.sent_s[agent.sequence] = self._cluster.now_s
        agent.up.append((agent.sequence, message))

    def dial(self, service: PermitService) -> None:
        """An agent without a session begins one, or tells of pods that it has not told of."""
        agent = self._random.choice(self.living)
        if not agent.session:
            try:
                agent.service = service
                welcome, _ = service.begin(
                    AgentHello(cluster="c", cluster_uid="u", process_id=agent.process_id), self._cluster.now_s
                )
            except ArgosyError:
                return
            agent.session, agent.sequence, agent.sent_s = welcome.session, 1, {1: self._cluster.now_s}
            agent.tenure += 1
            self._counts["session"] += 1
        pods = [pod for pod in self._own(agent) if self._is_untold(agent, pod)]
        if not pods:
            return
        ceilings, held = [], []
        for pod in pods:
            permit = agent.permits.get(pod.handle)
            has_lease = permit is not None and permit.lease_until_s > self._cluster.now_s
            if permit is None or not has_lease:
                permit = agent.permits[pod.handle] = AgentPermit(pod.most, 0 if permit is None else permit.number)
            permit.number += 1
            ceilings.append(permit.ceiling)
            held.append(has_lease)
        self._say(
            agent,
            Inventory(
                uids=self._uids(pods),
                ceilings=np.array(ceilings).T,
                held=np.array(held),
                permitted=np.array(held),
                numbers=np.array([agent.permits[pod.handle].number for pod in pods]),
            ),
        )

    def _is_untold(self, agent: WorldAgent, pod: WorldPod) -> bool:
        permit = agent.permits.get(pod.handle)
        return permit is None or permit.tenure != agent.tenure

    def want(self) -> None:
        """An agent's pods are to have something else."""
        agent = self._random.choice(self.living)
        pods = [pod for pod in self._own(agent) if not self._is_untold(agent, pod) and pod.patch is None]
        if not agent.session or not pods:
            return
        pods = self._random.sample(pods, min(len(pods), self._random.randint(1, 3)))
        wanted = []
        for pod in pods:
            permit = agent.permits[pod.handle]
            most = pod.scaling.most if pod.scaling is not None else CAPACITY
            want: Amounts = (
                self._random.randrange(100, most[0] + 1, 100),
                self._random.randrange(10, most[1] + 1, 10),
            )
            if self._random.random() < 0.02:
                want = self._random.choice([(-100, 10), (150, 10), (100, 1000)])
            else:  # shrink first, tell after
                lower = meet(pod.size, want)
                if lower != pod.size:
                    pod.size = lower
                    self._cluster.show(pod)
                permit.ceiling = meet(permit.ceiling, want)
            permit.number += 1
            wanted.append(want)
        self._say(
            agent,
            PermitRequest(
                uids=self._uids(pods),
                wanted=np.array(wanted).T,
                bundle=np.array([self._random.random() < 0.3 for _ in pods]),
                numbers=np.array([agent.permits[pod.handle].number for pod in pods]),
            ),
        )
        self._counts["request"] += len(pods)

    def beat(self) -> None:
        """An agent says that it lives."""
        agent = self._random.choice(self.living)
        if agent.session:
            self._say(agent, Heartbeat())

    def say_goodbye(self) -> None:
        """An agent stops in order: no resize of its own is under way, and it makes none any more."""
        agent = self._random.choice(self.living)
        if agent.session and all(pod.patch is None for pod in self._own(agent)):
            agent.permits.clear()
            agent.up.clear()
            agent.sequence = agent.service.confirmed(agent.session) if agent.service is not None else 0
            self._say(agent, Goodbye())
            self._deliver_up_of(agent)
            self.hang_up(agent)
            self._counts["goodbye"] += 1

    def say_twice(self) -> None:
        """A message comes a second time."""
        agent = self._random.choice(self.living)
        if agent.up:
            agent.up.insert(1, agent.up[0])
            self._counts["repeated"] += 1

    def cut(self) -> None:
        """A stream breaks; what was on its way is lost."""
        agent = self._random.choice(self.living)
        if agent.session:
            self.hang_up(agent)
            self._counts["cut"] += 1

    def hang_up(self, agent: WorldAgent) -> None:
        """A session ends, at both ends."""
        if agent.session and agent.service is not None:
            agent.service.end(agent.session, self._cluster.now_s)
        agent.session = 0
        agent.up.clear()
        agent.down.clear()

    def restart(self) -> None:
        """A new process takes an agent's place; the old one may still act on its leases."""
        place = self._random.randrange(len(self.living))
        self.zombies.append(self.living[place])
        if self._random.random() < 0.5:
            self.hang_up(self.living[place])
        else:  # nobody has noticed yet
            self.living[place].up.clear()
            self.living[place].down.clear()
        self.living[place] = self._new_agent(self.living[place].remainder)
        self._counts["agent restarted"] += 1

    def forget_zombies(self) -> None:
        """Old processes whose leases have ended are over."""
        self.zombies = [
            agent
            for agent in self.zombies
            if any(one.lease_until_s > self._cluster.now_s for one in agent.permits.values())
        ]

    def resize(self) -> None:
        """An agent gives a pod what it may have."""
        agent = self._random.choice([*self.living, *self.zombies])
        permits = [
            (pod, agent.permits[pod.handle])
            for pod in self._own(agent)
            if pod.handle in agent.permits
            and pod.patch is None
            and agent.permits[pod.handle].lease_until_s > self._cluster.now_s
        ]
        if permits:
            pod, permit = self._random.choice(permits)
            target = join(pod.size, permit.ceiling)
            if target != pod.size:
                pod.patch = self._cluster.now_s + self._random.random() * PATCH_S, target
                self._counts["grown"] += 1

    # --- the network --------------------------------------------------------------------------------------------------

    def deliver_up(self) -> None:
        """A sampler hears something."""
        speaking = [agent for agent in self.living if agent.up]
        if speaking:
            self._deliver_up_of(self._random.choice(speaking))

    def _deliver_up_of(self, agent: WorldAgent) -> None:
        sequence, message = agent.up.popleft()
        before, service = self._taken(), agent.service
        assert service is not None
        outcome = service.take([(agent.session, sequence, message)], self._cluster.now_s)
        if outcome.broken:
            self.hang_up(agent)
            self._counts["session ended"] += 1
            return
        if isinstance(message, PermitRequest):
            self._check_taken(before)
        self._counts["message"] += 1
        self.send_down(service, outcome.replies)
        if not any(to == agent.session for to, _ in outcome.replies):
            agent.down.append((sequence, None))

    def send_down(self, service: PermitService, replies: list[tuple[int, Reply]]) -> None:
        """A sampler answers."""
        for session, reply in replies:
            for agent in self.living:
                if agent.session == session and agent.service is service:
                    agent.down.append((service.confirmed(session), reply))

    def deliver_down(self) -> None:
        """An agent hears something."""
        hearing = [agent for agent in self.living if agent.down]
        if not hearing:
            return
        agent = self._random.choice(hearing)
        confirmed, reply = agent.down.popleft()
        if isinstance(reply, Permits):
            self._hear_permits(agent, reply)
        elif isinstance(reply, Directives):
            for uid, directive in zip(reply.uids[:, 0], reply.directives, strict=True):
                if directive == Directive.STOP:
                    agent.permits.pop(int(uid), None)
        elif isinstance(reply, Refusals):
            self._counts.update(f"refused: {RefusalReason(reason).name}" for reason in reply.reasons.tolist())
        renewed_s = agent.sent_s[confirmed] + self._lease_s
        for permit in agent.permits.values():
            if agent.session and permit.tenure == agent.tenure:
                permit.lease_until_s = max(permit.lease_until_s, renewed_s)

    def _hear_permits(self, agent: WorldAgent, reply: Permits) -> None:
        for uid, number, amounts in zip(reply.uids[:, 0], reply.numbers, reply.permits.T, strict=True):
            permit = agent.permits.get(int(uid))
            if permit is not None and (permit.number == number or not self._heeds_numbers):
                permit.ceiling, permit.tenure = (int(amounts[0]), int(amounts[1])), agent.tenure
                self._counts["permit"] += 1

    def _uids(self, pods: list[WorldPod]) -> np.ndarray:
        return np.array([[pod.handle, 0] for pod in pods], np.int64)

    def _check_taken(self, before: np.ndarray) -> None:
        """No request raises what is taken for certain above what a node has."""
        after = self._taken()
        limit = np.array(CAPACITY)[:, np.newaxis]
        assert ((after <= limit) | (after <= before)).all(), (before, after)

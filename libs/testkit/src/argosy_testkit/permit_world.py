"""A cluster with agents, a sampler and a leader in virtual time: what anybody may still do never exceeds a node.

Agents keep the protocol; everything else goes wrong: streams break with messages on their way, messages come twice,
agents start again while their old process still acts, two agents want the same pods, the sampler and the leader start
anew, watches lag, clocks of leases run out, pods come, go and change their bounds, cordons come and go. With notes, a
sampler also writes on pods what they may have: writes are late or lost, and so are their answers. A sampler that is
replaced may go on for a moment, with the agents that it has.

After each event the pods of every node are summed up by the most that anybody may still make of them: what they have, a
resize under way, and the ceiling of every agent, dead or alive, whose lease has not ended. That must fit the node.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from argosy_core.errors import ArgosyError
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitNote, PermitSettings, PodEvents, RefusalReason
from argosy_core.nodes import NodeSpec
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
from argosy_core.placement import commit
from argosy_testkit.permit_parties import Amounts, Grip, WorldAgent, WorldPod, join, meet

__all__ = ["CAPACITY", "PermitWorld"]

CAPACITY = (1000, 100)
"""What each node has."""
_UNIT = (100, 10)
_CLASSES = {1: (100, 10), 2: (200, 20), 3: (300, 20)}
_SETTINGS = PermitSettings(lease_s=6.0, margin_s=4.0, unit=_UNIT, rises_per_s=100.0, note_quiet_s=0.2)
_PATCH_S = 2.0
_WATCH_S = 1.5
_OLD_SAMPLER_S = 0.4
"""How long a sampler may go on that was replaced: what its agents do last is seen within lease and margin."""
_NOTED_OLD_SAMPLER_S = 4.0
"""The same with notes, and with as much more margin."""
_NODE_COUNT = 3
_AGENT_COUNT = 3
_MOST_RUNS = 18


class PermitWorld:
    """The world.

    Args:
        seed: All chance.
        make_ledger: Makes the sampler's ledger, to try one without a defence.
        heeds_numbers: Agents ignore permits that do not answer their latest word.
        restart_ratio: How many of its steps are a start of the sampler.
        has_notes: What pods may have is noted on them.
    """

    def __init__(
        self,
        seed: int,
        *,
        make_ledger: Callable[..., NodeLedger] = NodeLedger,
        heeds_numbers: bool = True,
        restart_ratio: float = 0.0002,
        has_notes: bool = False,
    ) -> None:
        """Three empty nodes and three agents, one of which has a rival."""
        self.counts: Counter[str] = Counter()
        """How often what happened."""
        self.now_s = 0.0
        self._random = random.Random(seed)
        self._make_ledger = make_ledger
        self._heeds_numbers = heeds_numbers
        self._restart_ratio = restart_ratio
        self._has_notes = has_notes
        self._old_sampler_s = _NOTED_OLD_SAMPLER_S if has_notes else _OLD_SAMPLER_S
        more_s = self._old_sampler_s - _OLD_SAMPLER_S
        self._settings = replace(_SETTINGS, margin_s=_SETTINGS.margin_s + more_s)
        self._writes: list[tuple[float, PermitService, PermitNote]] = []
        self._service: PermitService
        self._old: tuple[float, PermitService] | None = None
        self._pods: dict[int, WorldPod] = {}
        self._cordoned: set[str] = set()
        self._watch: deque[tuple[float, WorldPod, Amounts, Scaling | None, bool]] = deque()
        self._last_handle = 0
        self._bounds_changed_s = float("-inf")
        self._zombies: list[WorldAgent] = []
        self._agents = [self._new_agent(number % _AGENT_COUNT) for number in range(_AGENT_COUNT + 1)]
        self._start_sampler()
        self._acts: list[tuple[Callable[[], None], int]] = [
            (self._agent_wants, 150), (self._deliver_up, 300), (self._deliver_down, 300), (self._resize, 200),
            (self._see_one, 200), (self._submit, 60), (self._create, 60), (self._end_pod, 15), (self._tick, 60),
            (self._dial, 40), (self._beat, 60), (self._cut, 4), (self._restart_agent, 2), (self._say_goodbye, 1),
            (self._say_twice, 2), (self._change_bounds, 1), (self._cordon, 4), (self._shrink_by_hand, 8),
            (self._write_notes, 150 if has_notes else 0),
        ]  # fmt: skip

    def step(self) -> None:
        """Let one thing happen, and check every node.

        Raises:
            AssertionError: A node is promised twice.
        """
        chance = self._random
        self.now_s += chance.random() * 0.02
        lot = chance.random()
        # What nobody remembers after a start: bounds that were lowered while a lease may last (docs/autoscale.md).
        is_remembered = self.now_s - self._bounds_changed_s > self._settings.lease_s + self._settings.margin_s
        if lot < self._restart_ratio and is_remembered:
            self._start_sampler()
        elif lot > 0.9997:
            for _ in range(chance.randrange(60)):  # nobody is heard for long; what is due happens when it is
                self.now_s += 0.2
                self._pass_time()
        else:
            acts, weights = zip(*self._acts, strict=True)
            chance.choices(acts, weights)[0]()
        self._pass_time()
        self.check()

    def check(self) -> None:
        """Check what anybody may still do against what nodes have.

        Raises:
            AssertionError: A node is promised twice.
        """
        sums = [[0, 0] for _ in range(_NODE_COUNT)]
        for pod in self._pods.values():
            most = pod.most
            for agent in (*self._agents, *self._zombies):
                grip = agent.grips.get(pod.handle)
                if grip is not None and grip.lease_until_s > self.now_s:
                    most = join(most, grip.ceiling)
            sums[pod.node][0] += most[0]
            sums[pod.node][1] += most[1]
        for node, taken in enumerate(sums):
            assert taken[0] <= CAPACITY[0], (node, taken, self.now_s)
            assert taken[1] <= CAPACITY[1], (node, taken, self.now_s)

    def configure(self, rules: PermitRules) -> None:
        """Somebody changes how permits are given; a next sampler has heard nothing of it."""
        self._ledger.take_rules(rules)

    def check_books(self) -> None:
        """Check the ledger's own invariants."""
        self._ledger.check_invariants()

    # --- the sampler --------------------------------------------------------------------------------------------------

    def _start_sampler(self) -> None:
        """A sampler starts: it lists nodes and pods, and takes in the leader's list."""
        self.counts["sampler started"] += 1
        self._end_old_sampler()
        if self.counts["sampler started"] > 1 and self._random.random() < 0.5:
            self._old = self.now_s + self._old_sampler_s * self._random.random(), self._service
        else:
            for agent in self._agents:
                self._hang_up(agent)
        process = f"s{self.counts['sampler started']}" if self._has_notes else ""
        self._ledger = self._make_ledger(permits=replace(self._settings, noted_by=process))
        self._ledger.permits.start(self.now_s)
        for class_id, (cpu, memory) in _CLASSES.items():
            self._ledger.define_class(class_id, SchedulingClass(requests=(("cpu", cpu), ("memory", memory))))
        total = {"cpu": CAPACITY[0], "memory": CAPACITY[1], "pods": 100}
        self._ledger.put_nodes([NodeSpec(name=f"n{number}", total=total) for number in range(_NODE_COUNT)])
        self._ledger.set_cordons(self._cordoned)
        self._watch.clear()
        there = [(pod, pod.size, pod.scaled, False) for pod in self._pods.values() if pod.exists]
        self._ledger.observe_all(self._events(there))
        placed = list(self._pods.values())
        self._ledger.take_list(
            Members.of([pod.handle for pod in placed], [1] * len(placed)),
            np.array([1 + pod.handle % 3 for pod in placed], np.int32),
            np.array([pod.node for pod in placed], np.int32),
        )
        self._service = PermitService(self._ledger, cluster="c", cluster_uid="u")

    def _events(self, seen: list[tuple[WorldPod, Amounts, Scaling | None, bool]]) -> PodEvents:
        uids = np.zeros((len(seen), 16), np.uint8)
        uids[:, :8] = np.array([pod.handle for pod, *_ in seen], np.int64)[:, None].view(np.uint8)
        return PodEvents(
            members=Members.of([pod.handle for pod, *_ in seen], [1] * len(seen)),
            uids=uids,
            nodes=np.array([pod.node for pod, *_ in seen], np.int32),
            ended=np.array([ended for *_, ended in seen], np.bool_),
            requests=np.array([[*size, 1] for _, size, *_ in seen], np.int64).reshape(len(seen), 3),
            scalings={place: one for place, (_, _, one, _) in enumerate(seen) if one is not None},
        )

    def _see_one(self) -> None:
        """The watch brings its next event."""
        if self._watch:
            _, pod, size, scaling, ended = self._watch.popleft()
            self._ledger.observe(self._events([(pod, size, scaling, ended)]))
            self.counts["pod event"] += 1

    def _show(self, pod: WorldPod, *, ended: bool = False) -> None:
        """The cluster has something to tell of a pod; the watch brings it within _WATCH_S."""
        self._watch.append((self.now_s + _WATCH_S, pod, pod.size, pod.scaled, ended))

    def _end_old_sampler(self) -> None:
        """A sampler that was replaced is over."""
        if self._old is not None:
            for agent in self._agents:
                if agent.service is self._old[1]:
                    self._hang_up(agent)
            self._old = None

    def _services(self) -> list[PermitService]:
        return [self._service] if self._old is None else [self._service, self._old[1]]

    def _tick(self) -> None:
        for service in self._services():
            outcome = service.tick(self.now_s)
            self._send_down(service, outcome.replies)
            for agent in self._agents:
                if agent.service is service and agent.session in outcome.ended:
                    self._hang_up(agent)
        self.counts["tick"] += 1

    def _write_notes(self) -> None:
        """Notes are sent."""
        for service in self._services():
            notes = service.take_notes(4)
            self._writes += [(self.now_s + self._random.random() * _PATCH_S, service, note) for note in notes]

    def _finish_writes(self) -> None:
        """Writes that are due come to pass, or do not; their senders hear of it, or do not."""
        due = [one for one in self._writes if one[0] <= self.now_s]
        self._writes = [one for one in self._writes if one[0] > self.now_s]
        for _, service, note in due:
            pod = self._pods.get(int.from_bytes(note.uid[:8], "little"))
            found = None
            if pod is not None and pod.exists and self._random.random() < 0.9:
                self.counts["note" if pod.note == note.before else "note too late"] += 1
                if pod.note == note.before:
                    pod.note = note.after
                    self._show(pod)
                found = pod.note if self._random.random() < 0.9 else None
            self._send_down(service, service.end_notes([(note.uid, found)], self.now_s).replies)

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        """A leader places a run."""
        if len(self._pods) >= _MOST_RUNS:
            return
        self._last_handle += 1
        handle, class_id = self._last_handle, 1 + self._last_handle % 3
        candidates = self._random.sample(range(_NODE_COUNT), _NODE_COUNT)
        nodes, _ = commit(
            self._ledger,
            Members.of([handle], [1]),
            class_ids=np.array([class_id], np.int32),
            offsets=np.array([0, _NODE_COUNT], np.int32),
            candidates=np.array(candidates, np.int32),
        )
        if nodes[0] >= 0:
            scaling = self._bounds() if self._random.random() < 0.85 else None
            self._pods[handle] = WorldPod(handle, int(nodes[0]), _CLASSES[class_id], scaling)
            self.counts["placed"] += 1

    def _bounds(self) -> Scaling:
        most = self._random.choice([(400, 40), (800, 60), (1000, 100)])
        return Scaling(least=_UNIT, most=most, queue=self._random.choice("abc"))

    def _create(self) -> None:
        """An executor makes a pod."""
        waiting = [pod for pod in self._pods.values() if not pod.exists]
        if waiting:
            pod = self._random.choice(waiting)
            pod.exists = True
            self._show(pod)

    def _end_pod(self) -> None:
        """A pod ends, and its leader lets go."""
        there = [pod for pod in self._pods.values() if pod.exists]
        if there:
            pod = self._random.choice(there)
            del self._pods[pod.handle]
            self._show(pod, ended=True)
            self._ledger.release(Members.of([pod.handle], [1]))
            self.counts["pod ended"] += 1

    def _change_bounds(self) -> None:
        """Somebody changes a pod's annotations."""
        there = [pod for pod in self._pods.values() if pod.exists]
        if there:
            pod = self._random.choice(there)
            pod.scaling = self._bounds() if self._random.random() < 0.8 else None
            self._bounds_changed_s = self.now_s
            self._show(pod)

    def _cordon(self) -> None:
        name = f"n{self._random.randrange(_NODE_COUNT)}"
        self._cordoned ^= {name}
        self._ledger.set_cordons(self._cordoned)

    def _shrink_by_hand(self) -> None:
        """Somebody else resizes a pod."""
        there = [pod for pod in self._pods.values() if pod.exists and pod.patch is None]
        if there:
            pod = self._random.choice(there)
            pod.size = (max(100, pod.size[0] - 100), pod.size[1])
            self._show(pod)

    # --- agents -------------------------------------------------------------------------------------------------------

    def _new_agent(self, remainder: int) -> WorldAgent:
        return WorldAgent(process_id=self._random.randbytes(16), remainder=remainder)

    def _own(self, agent: WorldAgent) -> list[WorldPod]:
        return [
            pod
            for pod in self._pods.values()
            if pod.exists and pod.handle % _AGENT_COUNT == agent.remainder and pod.scaling is not None
        ]

    def _say(self, agent: WorldAgent, message: AgentMessage) -> None:
        agent.sequence += 1
        agent.sent_s[agent.sequence] = self.now_s
        agent.up.append((agent.sequence, message))

    def _dial(self) -> None:
        """An agent without a session begins one, or tells of pods that it has not told of."""
        agent = self._random.choice(self._agents)
        if not agent.session:
            try:
                agent.service = self._service
                welcome, _ = self._service.begin(
                    AgentHello(cluster="c", cluster_uid="u", process_id=agent.process_id), self.now_s
                )
            except ArgosyError:
                return
            agent.session, agent.sequence, agent.sent_s = welcome.session, 1, {1: self.now_s}
            agent.tenure += 1
            self.counts["session"] += 1
        pods = [pod for pod in self._own(agent) if self._is_untold(agent, pod)]
        if not pods:
            return
        ceilings, held = [], []
        for pod in pods:
            grip = agent.grips.get(pod.handle)
            has_lease = grip is not None and grip.lease_until_s > self.now_s
            if grip is None or not has_lease:
                grip = agent.grips[pod.handle] = Grip(pod.most, 0 if grip is None else grip.number)
            grip.number += 1
            ceilings.append(grip.ceiling)
            held.append(has_lease)
        self._say(
            agent,
            Inventory(
                uids=self._uids(pods),
                ceilings=np.array(ceilings).T,
                held=np.array(held),
                permitted=np.array(held),
                numbers=np.array([agent.grips[pod.handle].number for pod in pods]),
            ),
        )

    def _is_untold(self, agent: WorldAgent, pod: WorldPod) -> bool:
        grip = agent.grips.get(pod.handle)
        return grip is None or grip.tenure != agent.tenure

    def _agent_wants(self) -> None:
        """An agent's pods are to have something else."""
        agent = self._random.choice(self._agents)
        pods = [pod for pod in self._own(agent) if not self._is_untold(agent, pod) and pod.patch is None]
        if not agent.session or not pods:
            return
        pods = self._random.sample(pods, min(len(pods), self._random.randint(1, 3)))
        wanted = []
        for pod in pods:
            grip = agent.grips[pod.handle]
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
                    self._show(pod)
                grip.ceiling = meet(grip.ceiling, want)
            grip.number += 1
            wanted.append(want)
        self._say(
            agent,
            PermitRequest(
                uids=self._uids(pods),
                wanted=np.array(wanted).T,
                bundle=np.array([self._random.random() < 0.3 for _ in pods]),
                numbers=np.array([agent.grips[pod.handle].number for pod in pods]),
            ),
        )
        self.counts["request"] += len(pods)

    def _beat(self) -> None:
        agent = self._random.choice(self._agents)
        if agent.session:
            self._say(agent, Heartbeat())

    def _say_goodbye(self) -> None:
        """An agent stops in order: no resize of its own is under way, and it makes none any more."""
        agent = self._random.choice(self._agents)
        if agent.session and all(pod.patch is None for pod in self._own(agent)):
            agent.grips.clear()
            agent.up.clear()
            agent.sequence = agent.service.confirmed(agent.session) if agent.service is not None else 0
            self._say(agent, Goodbye())
            self._deliver_up_of(agent)
            self._hang_up(agent)
            self.counts["goodbye"] += 1

    def _say_twice(self) -> None:
        """A message comes a second time."""
        agent = self._random.choice(self._agents)
        if agent.up:
            agent.up.insert(1, agent.up[0])
            self.counts["repeated"] += 1

    def _cut(self) -> None:
        """A stream breaks; what was on its way is lost."""
        agent = self._random.choice(self._agents)
        if agent.session:
            self._hang_up(agent)
            self.counts["cut"] += 1

    def _hang_up(self, agent: WorldAgent) -> None:
        if agent.session and agent.service is not None:
            agent.service.end(agent.session, self.now_s)
        agent.session = 0
        agent.up.clear()
        agent.down.clear()

    def _restart_agent(self) -> None:
        """A new process takes an agent's place; the old one may still act on its leases."""
        place = self._random.randrange(len(self._agents))
        self._zombies.append(self._agents[place])
        if self._random.random() < 0.5:
            self._hang_up(self._agents[place])
        else:  # nobody has noticed yet
            self._agents[place].up.clear()
            self._agents[place].down.clear()
        self._agents[place] = self._new_agent(self._agents[place].remainder)
        self.counts["agent restarted"] += 1

    def _resize(self) -> None:
        """An agent gives a pod what it may have."""
        agent = self._random.choice([*self._agents, *self._zombies])
        grips = [
            (pod, agent.grips[pod.handle])
            for pod in self._own(agent)
            if pod.handle in agent.grips and pod.patch is None and agent.grips[pod.handle].lease_until_s > self.now_s
        ]
        if grips:
            pod, grip = self._random.choice(grips)
            target = join(pod.size, grip.ceiling)
            if target != pod.size:
                pod.patch = self.now_s + self._random.random() * _PATCH_S, target
                self.counts["grown"] += 1

    # --- the network --------------------------------------------------------------------------------------------------

    def _deliver_up(self) -> None:
        speaking = [agent for agent in self._agents if agent.up]
        if speaking:
            self._deliver_up_of(self._random.choice(speaking))

    def _deliver_up_of(self, agent: WorldAgent) -> None:
        sequence, message = agent.up.popleft()
        before, service = self._taken(), agent.service
        assert service is not None
        outcome = service.take([(agent.session, sequence, message)], self.now_s)
        if outcome.broken:
            self._hang_up(agent)
            self.counts["session ended"] += 1
            return
        if isinstance(message, PermitRequest):
            self._check_taken(before)
        self.counts["message"] += 1
        self._send_down(service, outcome.replies)
        if not any(to == agent.session for to, _ in outcome.replies):
            agent.down.append((sequence, None))

    def _send_down(self, service: PermitService, replies: list[tuple[int, Reply]]) -> None:
        for session, reply in replies:
            for agent in self._agents:
                if agent.session == session and agent.service is service:
                    agent.down.append((service.confirmed(session), reply))

    def _deliver_down(self) -> None:
        """An agent hears something."""
        hearing = [agent for agent in self._agents if agent.down]
        if not hearing:
            return
        agent = self._random.choice(hearing)
        confirmed, reply = agent.down.popleft()
        if isinstance(reply, Permits):
            self._hear_permits(agent, reply)
        elif isinstance(reply, Directives):
            for uid, directive in zip(reply.uids[:, 0], reply.directives, strict=True):
                if directive == Directive.STOP:
                    agent.grips.pop(int(uid), None)
        elif isinstance(reply, Refusals):
            self.counts.update(f"refused: {RefusalReason(reason).name}" for reason in reply.reasons.tolist())
        renewed_s = agent.sent_s[confirmed] + _SETTINGS.lease_s
        for grip in agent.grips.values():
            if agent.session and grip.tenure == agent.tenure:
                grip.lease_until_s = max(grip.lease_until_s, renewed_s)

    def _hear_permits(self, agent: WorldAgent, reply: Permits) -> None:
        for uid, number, amounts in zip(reply.uids[:, 0], reply.numbers, reply.permits.T, strict=True):
            grip = agent.grips.get(int(uid))
            if grip is not None and (grip.number == number or not self._heeds_numbers):
                grip.ceiling, grip.tenure = (int(amounts[0]), int(amounts[1])), agent.tenure
                self.counts["permit"] += 1

    # --- time ---------------------------------------------------------------------------------------------------------

    def _pass_time(self) -> None:
        """What is due happens: resizes and notes take effect, the watch tells, leases of old processes end."""
        if self._old is not None and self._old[0] <= self.now_s:
            self._end_old_sampler()
        self._finish_writes()
        for pod in self._pods.values():
            if pod.patch is not None and pod.patch[0] <= self.now_s:
                pod.size, pod.patch = join(pod.size, pod.patch[1]), None
                self._show(pod)
        while self._watch and self._watch[0][0] <= self.now_s:
            self._see_one()
        self._zombies = [
            agent for agent in self._zombies if any(one.lease_until_s > self.now_s for one in agent.grips.values())
        ]

    def _uids(self, pods: list[WorldPod]) -> np.ndarray:
        return np.array([[pod.handle, 0] for pod in pods], np.int64)

    def _taken(self) -> np.ndarray:
        books = self._ledger.permits.room.node_books()
        return books.reserved - books.buffer

    def _check_taken(self, before: np.ndarray) -> None:
        """No request raises what is taken for certain above what a node has."""
        after = self._taken()
        limit = np.array(CAPACITY)[:, np.newaxis]
        assert ((after <= limit) | (after <= before)).all(), (before, after)

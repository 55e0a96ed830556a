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
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitNote, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import (
    PermitService,
)
from argosy_core.placement import commit
from argosy_testkit.permit_agents import PATCH_S, Agents
from argosy_testkit.permit_parties import CAPACITY, Amounts, WorldCluster, WorldPod, join

__all__ = ["PermitWorld"]

_UNIT = (100, 10)
_CLASSES = {1: (100, 10), 2: (200, 20), 3: (300, 20)}
_SETTINGS = PermitSettings(lease_s=6.0, margin_s=4.0, unit=_UNIT, rises_per_s=100.0, note_quiet_s=0.2)
_OLD_SAMPLER_S = 0.4
"""How long a sampler may go on that was replaced: what its agents do last is seen within lease and margin."""
_NOTED_OLD_SAMPLER_S = 4.0
"""The same with notes, and with as much more margin."""
_NODE_COUNT = 3
_MOST_RUNS = 18


class PermitWorld:
    """A sampler, its agents and their pods, whose messages come late, twice or not at all.

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
        self._random = random.Random(seed)
        self._cluster = WorldCluster(self._random, self.counts)
        self._make_ledger = make_ledger
        self._restart_ratio = restart_ratio
        self._has_notes = has_notes
        self._old_sampler_s = _NOTED_OLD_SAMPLER_S if has_notes else _OLD_SAMPLER_S
        more_s = self._old_sampler_s - _OLD_SAMPLER_S
        self._settings = replace(_SETTINGS, margin_s=_SETTINGS.margin_s + more_s)
        self._writes: list[tuple[float, PermitService, PermitNote]] = []
        self._service: PermitService
        self._old: tuple[float, PermitService] | None = None
        self._cordoned: set[str] = set()
        self._last_handle = 0
        self._bounds_changed_s = float("-inf")
        agents = self._agents = Agents(
            self._cluster, lease_s=_SETTINGS.lease_s, heeds_numbers=heeds_numbers, taken=self._taken
        )
        self._start_sampler()
        self._acts: list[tuple[Callable[[], None], int]] = [
            (agents.want, 150), (agents.deliver_up, 300), (agents.deliver_down, 300), (agents.resize, 200),
            (self._see_one, 200), (self._submit, 60), (self._create, 60), (self._end_pod, 15), (self._tick, 60),
            (self._dial, 40), (agents.beat, 60), (agents.cut, 4), (agents.restart, 2), (agents.say_goodbye, 1),
            (agents.say_twice, 2), (self._change_bounds, 1), (self._cordon, 4), (self._shrink_by_hand, 8),
            (self._write_notes, 150 if has_notes else 0),
        ]  # fmt: skip

    def step(self) -> None:
        """Let one thing happen, and check every node.

        Raises:
            AssertionError: A node is promised twice.
        """
        chance = self._random
        self._cluster.now_s += chance.random() * 0.02
        lot = chance.random()
        # What nobody remembers after a start: bounds that were lowered while a lease may last (docs/autoscale.md).
        is_remembered = self._cluster.now_s - self._bounds_changed_s > self._settings.lease_s + self._settings.margin_s
        if lot < self._restart_ratio and is_remembered:
            self._start_sampler()
        elif lot > 0.9997:
            for _ in range(chance.randrange(60)):  # nobody is heard for long; what is due happens when it is
                self._cluster.now_s += 0.2
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
        for pod in self._cluster.pods.values():
            most = pod.most
            for agent in (*self._agents.living, *self._agents.zombies):
                permit = agent.permits.get(pod.handle)
                if permit is not None and permit.lease_until_s > self._cluster.now_s:
                    most = join(most, permit.ceiling)
            sums[pod.node][0] += most[0]
            sums[pod.node][1] += most[1]
        for node, taken in enumerate(sums):
            assert taken[0] <= CAPACITY[0], (node, taken, self._cluster.now_s)
            assert taken[1] <= CAPACITY[1], (node, taken, self._cluster.now_s)

    def configure(self, rules: PermitRules) -> None:
        """Somebody changes how permits are given; a next sampler has heard nothing of it."""
        self._ledger.take_rules(rules)

    def check_ledger(self) -> None:
        """Check the ledger's own invariants."""
        self._ledger.check_invariants()

    # --- the sampler --------------------------------------------------------------------------------------------------

    def _start_sampler(self) -> None:
        """A sampler starts: it lists nodes and pods, and takes in the leader's list."""
        self.counts["sampler started"] += 1
        self._end_old_sampler()
        if self.counts["sampler started"] > 1 and self._random.random() < 0.5:
            self._old = self._cluster.now_s + self._old_sampler_s * self._random.random(), self._service
        else:
            for agent in self._agents.living:
                self._agents.hang_up(agent)
        process = f"s{self.counts['sampler started']}" if self._has_notes else ""
        self._ledger = self._make_ledger(permits=replace(self._settings, noted_by=process))
        self._ledger.permits.start(self._cluster.now_s)
        for class_id, (cpu, memory) in _CLASSES.items():
            self._ledger.define_class(class_id, SchedulingClass(requests=(("cpu", cpu), ("memory", memory))))
        total = {"cpu": CAPACITY[0], "memory": CAPACITY[1], "pods": 100}
        self._ledger.put_nodes([NodeSpec(name=f"n{number}", total=total) for number in range(_NODE_COUNT)])
        self._ledger.set_cordons(self._cordoned)
        self._cluster.watch.clear()
        there = [(pod, pod.size, pod.scaled, False) for pod in self._cluster.pods.values() if pod.exists]
        self._ledger.observe_all(self._events(there))
        placed = list(self._cluster.pods.values())
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
        if self._cluster.watch:
            _, pod, size, scaling, ended = self._cluster.watch.popleft()
            self._ledger.observe(self._events([(pod, size, scaling, ended)]))
            self.counts["pod event"] += 1

    def _end_old_sampler(self) -> None:
        """A sampler that was replaced is over."""
        if self._old is not None:
            for agent in self._agents.living:
                if agent.service is self._old[1]:
                    self._agents.hang_up(agent)
            self._old = None

    def _services(self) -> list[PermitService]:
        return [self._service] if self._old is None else [self._service, self._old[1]]

    def _dial(self) -> None:
        self._agents.dial(self._service)

    def _tick(self) -> None:
        for service in self._services():
            outcome = service.tick(self._cluster.now_s)
            self._agents.send_down(service, outcome.replies)
            for agent in self._agents.living:
                if agent.service is service and agent.session in outcome.ended:
                    self._agents.hang_up(agent)
        self.counts["tick"] += 1

    def _write_notes(self) -> None:
        """Notes are sent."""
        for service in self._services():
            notes = service.take_notes(4)
            self._writes += [(self._cluster.now_s + self._random.random() * PATCH_S, service, note) for note in notes]

    def _finish_writes(self) -> None:
        """Writes that are due come to pass, or do not; their senders hear of it, or do not."""
        due = [one for one in self._writes if one[0] <= self._cluster.now_s]
        self._writes = [one for one in self._writes if one[0] > self._cluster.now_s]
        for _, service, note in due:
            pod = self._cluster.pods.get(int.from_bytes(note.uid[:8], "little"))
            found = None
            if pod is not None and pod.exists and self._random.random() < 0.9:
                self.counts["note" if pod.note == note.before else "note too late"] += 1
                if pod.note == note.before:
                    pod.note = note.after
                    self._cluster.show(pod)
                found = pod.note if self._random.random() < 0.9 else None
            self._agents.send_down(service, service.end_notes([(note.uid, found)], self._cluster.now_s).replies)

    # --- the leader ---------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        """A leader places a run."""
        if len(self._cluster.pods) >= _MOST_RUNS:
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
            self._cluster.pods[handle] = WorldPod(handle, int(nodes[0]), _CLASSES[class_id], scaling)
            self.counts["placed"] += 1

    def _bounds(self) -> Scaling:
        most = self._random.choice([(400, 40), (800, 60), (1000, 100)])
        return Scaling(least=_UNIT, most=most, queue=self._random.choice("abc"))

    def _create(self) -> None:
        """An executor makes a pod."""
        waiting = [pod for pod in self._cluster.pods.values() if not pod.exists]
        if waiting:
            pod = self._random.choice(waiting)
            pod.exists = True
            self._cluster.show(pod)

    def _end_pod(self) -> None:
        """A pod ends, and its leader lets go."""
        there = [pod for pod in self._cluster.pods.values() if pod.exists]
        if there:
            pod = self._random.choice(there)
            del self._cluster.pods[pod.handle]
            self._cluster.show(pod, ended=True)
            self._ledger.release(Members.of([pod.handle], [1]))
            self.counts["pod ended"] += 1

    def _change_bounds(self) -> None:
        """Somebody changes a pod's annotations."""
        there = [pod for pod in self._cluster.pods.values() if pod.exists]
        if there:
            pod = self._random.choice(there)
            pod.scaling = self._bounds() if self._random.random() < 0.8 else None
            self._bounds_changed_s = self._cluster.now_s
            self._cluster.show(pod)

    def _cordon(self) -> None:
        name = f"n{self._random.randrange(_NODE_COUNT)}"
        self._cordoned ^= {name}
        self._ledger.set_cordons(self._cordoned)

    def _shrink_by_hand(self) -> None:
        """Somebody else resizes a pod."""
        there = [pod for pod in self._cluster.pods.values() if pod.exists and pod.patch is None]
        if there:
            pod = self._random.choice(there)
            pod.size = (max(100, pod.size[0] - 100), pod.size[1])
            self._cluster.show(pod)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _pass_time(self) -> None:
        """What is due happens: resizes and notes take effect, the watch tells, leases of old processes end."""
        if self._old is not None and self._old[0] <= self._cluster.now_s:
            self._end_old_sampler()
        self._finish_writes()
        for pod in self._cluster.pods.values():
            if pod.patch is not None and pod.patch[0] <= self._cluster.now_s:
                pod.size, pod.patch = join(pod.size, pod.patch[1]), None
                self._cluster.show(pod)
        while self._cluster.watch and self._cluster.watch[0][0] <= self._cluster.now_s:
            self._see_one()
        self._agents.forget_zombies()

    def _taken(self) -> np.ndarray:
        accounts = self._ledger.permits.room.node_accounts()
        return accounts.reserved - accounts.buffer

"""The agent against a ledger, an API server and a node that answer late, twice, in part, or not at all.

The ledger is as harsh as it may be: it gives away what a request gives up the moment it reads it, and everything above
what a pod has once the lease has run out. Whatever happens, no pod may then have more than it is booked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from argosy_core.autoscale import Agent, AgentSettings, Amounts, Horizon, PredictorSettings, next_actions
from argosy_core.autoscale.events import (
    ContractAnswered,
    ContractQuestion,
    Directed,
    Directive,
    Leased,
    MetricsSeen,
    OutOfMemory,
    Pending,
    Permit,
    PermitRequest,
    PermitsTold,
    PodGone,
    PodSeen,
    Refused,
    Resize,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
    SessionDown,
    SessionUp,
)

UNIT = Amounts(250, 1 << 30)
ROOM = UNIT.times(10)
LEASE_S = 30.0
SETTINGS = AgentSettings(
    request_timeout_s=6.0, refused_retry_s=2.0, resize_timeout_s=6.0, resize_retry_s=1.0, confirm_timeout_s=20.0,
    deferred_timeout_s=5.0, hold_s=6.0, max_units=8,
)  # fmt: skip
UIDS = ("a", "b", "c")
QUICK = PredictorSettings(
    horizons=(Horizon(1.0, 1.0),), prior_s=0.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    grow_gain_units=0.0, shrink_gain_units=0.0,
)  # fmt: skip
"""A predictor without much memory: sizes change all the time."""
POLICY = ScalingPolicy(least=UNIT, most=UNIT.times(6))
LIES = (None, Amounts(0, 0), UNIT.times(3), UNIT.times(6), Amounts(0, 1 << 50), Amounts(10**15, 0))
"""What a pod says that it needs, whatever it is asked."""


@dataclass
class Sent:
    """A message of the agent, or of the ledger about it."""

    at_s: float
    request: PermitRequest


class AgentWorld:
    """Three pods on a node for ten units, one of which lies when it is asked; the invariant is what a ledger is for."""

    def __init__(self, seed: int) -> None:
        """Begin with each pod at two units, and an agent that has seen them."""
        self.now_s = 0.0
        self.agent = Agent(SETTINGS, QUICK)
        self.rng = np.random.default_rng(seed)
        self.grown_count = 0
        self.pods = {
            uid: PodSeen(
                uid=uid, version=1, policy=POLICY, **dict.fromkeys(("desired", "allocated", "actual"), UNIT.times(2))
            )
            for uid in UIDS
        }
        self.pods["a"] = replace(self.pods["a"], policy=replace(POLICY, contract_port=1))
        self.questions: deque[ContractQuestion] = deque(maxlen=3)
        self.lie_count = 0
        self.booked = {uid: UNIT.times(2) for uid in UIDS}
        self.deferred: dict[str, PermitRequest] = {}
        self.session = 0
        self.is_up = False
        self.up: deque[Sent] = deque()
        self.down: deque[tuple[float, PermitsTold | Refused]] = deque()
        self.members: set[str] = set()
        self.heard_s = dict.fromkeys(UIDS, 0.0)
        self.patches: list[tuple[float, Resize]] = []
        self.answers: deque[ResizeEnded] = deque()
        self.watch: deque[PodSeen] = deque()
        for pod in self.pods.values():
            self.agent.take(pod, self.now_s)

    def act(self) -> None:
        """Carry out what the agent wants now."""
        actions = next_actions(self.agent, self.now_s)
        for request in actions.requests:
            assert self.is_up
            assert request.held.fits(request.wanted)
            assert request.wanted.fits(POLICY.most.join(request.held))
            self.up.append(Sent(self.now_s, request))
        for resize in actions.resizes:
            self.patches.append((self.now_s, resize))
        self.questions.extend(actions.questions)

    # --- the session ----------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """A session begins, if there is none."""
        if self.is_up:
            return
        self.session, self.is_up = self.session + 1, True
        self.agent.take(SessionUp(self.session), self.now_s)
        self.act()

    def disconnect(self) -> None:
        """The session breaks, and what was on the way is lost."""
        self.up.clear()
        self.down.clear()
        self.deferred.clear()
        self.members.clear()
        self.is_up = False
        self.agent.take(SessionDown(), self.now_s)
        self.act()

    def read(self, refuse: int) -> None:
        """The ledger reads a request: what is given up is gone at once, what is asked for is granted in part."""
        if not self.up:
            return
        sent = self.up.popleft()
        request, uid = sent.request, sent.request.uid
        self.hear_agent(sent.at_s)
        if refuse == 0 or not (request.is_first or uid in self.members):
            self.members.discard(uid)
            self.deferred.pop(uid, None)
            self.down.append(
                (sent.at_s, Refused(session=self.session, uid=uid, sequence=request.sequence, reason="no"))
            )
            return
        if request.is_first:
            self.members.add(uid)
            self.hear_agent(sent.at_s)
        self.booked[uid] = self.booked[uid].meet(request.wanted)
        self.deferred[uid] = request
        self.grant(request, sent.at_s)

    def hear_agent(self, at_s: float) -> None:
        """A message of the agent renews the leases of the pods that it has announced."""
        for uid in self.members:
            self.heard_s[uid] = max(self.heard_s[uid], at_s)

    def beat(self) -> None:
        """A heartbeat is read and confirmed, once all before it is."""
        if self.is_up and not self.up and not self.down:
            self.hear_agent(self.now_s)
            self.agent.take(Leased(self.session, self.now_s + LEASE_S), self.now_s)
            self.act()

    def grant(self, request: PermitRequest, at_s: float) -> None:
        """Book as much of a request as there is room for, and tell."""
        free = Amounts(*(ROOM[place] - sum(one[place] for one in self.booked.values()) for place in (0, 1)))
        booked = self.booked[request.uid]
        self.booked[request.uid] = Amounts(
            *(booked[place] + min(request.wanted[place] - booked[place], free[place]) for place in (0, 1))
        )
        permit = Permit(uid=request.uid, sequence=request.sequence, amounts=self.booked[request.uid], unit=UNIT)
        self.down.append((at_s, PermitsTold(self.session, (permit,))))

    def push(self, uid: str) -> None:
        """Room has come: what was deferred is granted without being asked for again."""
        if uid in self.deferred:
            self.grant(self.deferred[uid], self.heard_s[uid])

    def tell(self, *, twice: bool) -> None:
        """The agent hears of an answer, perhaps twice; that it was heard renews its lease."""
        if not self.down:
            return
        at_s, answer = self.down.popleft()
        for _ in range(1 + twice):
            self.agent.take(answer, self.now_s)
        self.agent.take(Leased(self.session, at_s + LEASE_S), self.now_s)
        self.act()

    def direct(self, uid: str, directive: Directive) -> None:
        """The ledger wants something of a pod, mostly nothing."""
        self.agent.take(Directed(self.session, uid, directive), self.now_s)
        self.act()

    def late_word(self) -> None:
        """A permit of an earlier session, and one for an earlier request, change nothing."""
        for uid in UIDS:
            for session, sequence in ((self.session - 1, 10**6), (self.session, 0)):
                permit = Permit(uid=uid, sequence=sequence, amounts=ROOM, unit=UNIT)
                self.agent.take(PermitsTold(session, (permit,)), self.now_s)
        self.act()

    # --- the cluster ----------------------------------------------------------------------------------------------

    def patch(self, place: int, answer: str) -> None:
        """The API server does one of the resizes that are on the way, in any order."""
        if not self.patches:
            return
        _, resize = self.patches.pop(place % len(self.patches))
        pod = self.pods.get(resize.uid)
        outcome = ResizeOutcome.CONFLICT
        if answer == "refused":
            outcome = ResizeOutcome.REFUSED
        elif pod is not None and pod.version == resize.version:
            outcome = ResizeOutcome.ACCEPTED
            self.grown_count += not resize.amounts.fits(pod.desired)
            changes = pod.desired != resize.amounts
            pod = self.pods[resize.uid] = replace(
                pod, desired=resize.amounts, version=pod.version + changes, pending=Pending.NO
            )
            self.watch.append(pod)
        if answer != "lost":
            version = 0 if pod is None else pod.version
            self.answers.append(ResizeEnded(uid=resize.uid, number=resize.number, outcome=outcome, version=version))

    def hear(self, what: str) -> None:
        """The agent hears of the end of a resize, or that a connection broke, or sees the pod, late as it may be."""
        if what == "answer" and self.answers:
            self.agent.take(self.answers.popleft(), self.now_s)
        elif what == "broken" and self.patches:
            broken = self.patches[0][1]
            self.agent.take(
                ResizeEnded(uid=broken.uid, number=broken.number, outcome=ResizeOutcome.UNKNOWN), self.now_s
            )
        elif what == "watch" and self.watch:
            seen = self.watch.popleft()
            if seen.uid in self.pods:
                self.agent.take(seen, self.now_s)
        self.act()

    def node(self, uid: str, how: str) -> None:
        """The node takes a step with a pod, or refuses to."""
        pod = self.pods.get(uid)
        if pod is None:
            return
        if how == "allocate":
            pod = replace(pod, allocated=pod.desired, pending=Pending.NO)
        elif how == "actuate":
            pod = replace(pod, actual=pod.allocated)
        elif how in {"Deferred", "Infeasible"} and pod.allocated != pod.desired:
            pod = replace(pod, pending=Pending(how))
        if pod != self.pods[uid]:
            self.pods[uid] = replace(pod, version=pod.version + 1)
            self.watch.append(self.pods[uid])

    # --- demand and time ------------------------------------------------------------------------------------------

    def measure(self, load: list[float], used: float) -> None:
        """Metrics come, some of them nonsense."""
        memory = np.full(len(UIDS), used * UNIT.memory_bytes)
        self.agent.take(MetricsSeen(uids=UIDS, load_cores=np.array(load), memory_bytes=memory), self.now_s)
        self.act()

    def lie(self, needs: Amounts | None) -> None:
        """A pod answers a question, perhaps an old one, and perhaps again."""
        if self.questions:
            asked = self.questions[0]
            self.questions.rotate(-1)
            self.lie_count += 1
            self.agent.take(ContractAnswered(uid=asked.uid, number=asked.number, needs=needs), self.now_s)
            self.act()

    def run_out(self, uid: str) -> None:
        """A pod runs out of memory."""
        self.agent.take(OutOfMemory(uid), self.now_s)
        self.act()

    def wait(self, by_s: float) -> None:
        """Time goes on, for the agent perhaps backwards; what the API server has not done by its time is not done."""
        self.now_s += max(by_s, 0.0)
        if by_s < 0:
            self.agent.take(PodGone("nobody"), self.now_s + by_s)
        self.patches = [one for one in self.patches if one[0] + SETTINGS.resize_timeout_s >= self.now_s]
        for uid in self.booked:
            if self.now_s > self.heard_s[uid] + LEASE_S:
                pod = self.pods[uid]
                self.booked[uid] = self.booked[uid].meet(pod.desired.join(pod.allocated).join(pod.actual))
                self.deferred.pop(uid, None)
        self.act()

    # --- what must hold -------------------------------------------------------------------------------------------

    def nothing_is_over_committed(self) -> None:
        """Every pod fits what it is booked at, and all that is booked fits the node."""
        for uid, pod in self.pods.items():
            assert pod.desired.join(pod.allocated).join(pod.actual).fits(self.booked[uid]), uid
        for place in (0, 1):
            assert sum(one[place] for one in self.booked.values()) <= ROOM[place]

    def a_permit_is_never_more_than_what_is_booked(self) -> None:
        """As long as it can be used: the agent never believes more than the ledger, only less."""
        for uid, scaling in self.agent.pods.items():
            if scaling.permit is not None and self.now_s < scaling.lease_s:
                assert scaling.permit.fits(self.booked[uid]), uid

    # --- chance ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let something happen, by chance."""
        rng = self.rng
        uid = UIDS[rng.integers(3)]
        directive = list(Directive)[rng.integers(4)] if rng.random() < 0.1 else Directive.NONE
        load = rng.choice([0.2, 0.8, 1.4, 9.0, np.nan, -1.0], 3).tolist()
        moves: dict[str, Callable[[], None]] = {
            "session": lambda: self.disconnect() if self.is_up and rng.random() < 0.05 else self.connect(),
            "beat": self.beat,
            "late": self.late_word,
            "direct": lambda: self.direct(uid, directive),
            "run out": lambda: self.run_out(uid),
            "push": lambda: self.push(uid),
            "measure": lambda: self.measure(load, float(rng.choice([0.1, 0.1, 2.5, np.nan]))),
            "wait": lambda: self.wait(float(rng.choice([0.2, 1.0, 9.0, 70.0, -5.0], p=[0.6, 0.34, 0.04, 0.01, 0.01]))),
            "read": lambda: self.read(int(rng.integers(20))),
            "tell": lambda: self.tell(twice=bool(rng.integers(2))),
            "patch": lambda: self.patch(int(rng.integers(9)), str(rng.choice(["told"] * 8 + ["lost", "refused"]))),
            "hear": lambda: self.hear(str(rng.choice(["answer", "watch"] * 4 + ["broken"]))),
            "node": lambda: self.node(uid, str(rng.choice(["allocate", "actuate"] * 3 + ["Deferred", "Infeasible"]))),
            "lie": lambda: self.lie(LIES[rng.integers(len(LIES))]),
        }
        moves[str(rng.choice(list(moves), p=CHANCES))]()
        self.nothing_is_over_committed()
        self.a_permit_is_never_more_than_what_is_booked()


CHANCES = (0.04, 0.05, 0.01, 0.02, 0.002, 0.02, 0.028, 0.13, 0.15, 0.15, 0.1, 0.15, 0.1, 0.05)


def test_no_pod_has_more_than_it_is_booked_at_whatever_comes_late_or_not_at_all() -> None:
    """Ten thousand things happen to three pods by chance; nothing is over-committed after any of them."""
    grown_count = lie_count = 0
    for seed in range(10):
        world = AgentWorld(seed)
        for _ in range(1000):
            world.step()
        grown_count += world.grown_count
        lie_count += world.lie_count
    assert grown_count > 30
    assert lie_count > 100

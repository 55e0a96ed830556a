"""An agent: resizes the pods of a cluster by what a plan says they use, within permits of the cluster's sampler.

It runs in one process with that sampler, as in a cluster agent, so nothing is lost between them. Once a step it looks
at what pods use, asks, resizes until nothing more is to be done, and notes how things stand.

Source: design section 5, "Resize"; docs/autoscale.md "In a simulation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from argosy_core.autoscale import Agent, AgentSettings, Amounts, next_actions
from argosy_core.autoscale.events import (
    Directed,
    Directive,
    Leased,
    MetricsSeen,
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
    SessionUp,
)
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import SCALED
from argosy_core.permits import AgentHello, AgentMessage, Heartbeat, Inventory, Outcome, Permits, Refusals
from argosy_core.permits import Directive as Told
from argosy_core.permits import PermitRequest as PermitAsked
from argosy_simulation.agenda import Process
from argosy_simulation.cluster_actor import ClusterActor
from argosy_simulation.cluster_objects import RunningPod
from argosy_simulation.context import Context
from argosy_simulation.sampler_actor import SamplerActor

__all__ = ["AgentActor", "PodMoment", "ScalingMoment"]

_NOTED_PODS: Final = 64
"""Of so many pods the sizes over time are kept."""
_MOST_TURNS: Final = 100
"""Turns of asking and resizing within one moment; what is left then is done with the next step."""
_USED_MEMORY_RATIO: Final = 0.5
"""Part of the least size's memory that pods use: processors decide."""
_DIRECTIVES: Final = {
    Told.MIGRATE: Directive.MIGRATE,
    Told.RESUME: Directive.NONE,
    Told.DRAIN: Directive.DRAIN,
    Told.STOP: Directive.STOP,
}


class PodMoment(NamedTuple):
    """Millicores of one pod at a moment."""

    at_s: float
    """Seconds since the start."""
    requested: int
    """What its agent asked for."""
    approved: int
    """What it may have."""
    held: int
    """What it has."""
    used: float
    """What it uses."""


class ScalingMoment(NamedTuple):
    """All pods of a cluster that are resized, at a moment; sums of millicores."""

    at_s: float
    """Seconds since the start."""
    requested: int
    """What was asked for."""
    approved: int
    """What is permitted."""
    held: int
    """What they have."""
    used: float
    """What they use."""
    pods: int
    """How many they are."""
    short: int
    """Pods that would use more than they have."""
    resizes: int
    """Resizes since the moment before."""


class AgentActor(Process):
    """The agent of one cluster.

    Args:
        context: The world.
        cluster: Its cluster.
        find_sampler: Returns the newest sampler of the cluster, dead or alive.
    """

    def __init__(self, context: Context, cluster: ClusterActor, *, find_sampler: Callable[[], SamplerActor]) -> None:
        """Wait for the first pod.

        Raises:
            InvalidRequest: The plan has no scaling.
        """
        super().__init__(f"{cluster.name}/agent")
        plan = context.job_index.plan.scaling
        if plan is None:
            raise InvalidRequest("nothing is resized in this world")
        self._context, self._cluster, self._plan = context, cluster, plan
        self._find_sampler = find_sampler
        self._agent = Agent(AgentSettings(max_units=plan.units + 1, metrics_timeout_s=2 * plan.step_s))
        self._sampler: SamplerActor | None = None
        self._session = self._sequence = self._session_count = 0
        self._seen: dict[str, RunningPod] = {}
        self._is_awake = False
        self._resize_count = 0
        self.moments: list[ScalingMoment] = []
        """How things stood after each step."""
        self.pods: dict[int, list[PodMoment]] = {}
        """By handle of the job: the first pods' sizes after each step."""
        cluster.on_start = self._wake

    def _wake(self) -> None:
        """Look at the pods with the next step, which all agents have at the same moments."""
        if not self._is_awake:
            self._is_awake = True
            elapsed_s, step_s = self._context.agenda.elapsed_s, self._plan.step_s
            self._context.agenda.after((elapsed_s // step_s + 1) * step_s - elapsed_s, self, self._step)

    def _step(self) -> None:
        self._is_awake = False
        now_s = self._context.agenda.elapsed_s
        running = [
            pod for pod in self._cluster.running_pods() if self._context.job_index.scaling_of(pod.key[0]) is not None
        ]
        if running:
            self._wake()
        elif not self._seen:
            return
        sampler = self._find_sampler()
        if not sampler.alive or not sampler.ledger.permits.has_listed:
            return
        self._follow(running, now_s)
        self._speak(sampler, now_s)
        used, demand = self._measure(running, now_s)
        self._act(now_s)
        self._note(running, used, demand, now_s=now_s)

    def _follow(self, running: list[RunningPod], now_s: float) -> None:
        """Tell the agent of pods that came, went or have another size."""
        there = {str(pod.uid): pod for pod in running}
        for uid in self._seen.keys() - there.keys():
            self._agent.take(PodGone(uid), now_s)
        for uid, pod in there.items():
            if self._seen.get(uid) != pod:
                self._agent.take(self._shown(uid, pod), now_s)
        self._seen = there

    def _shown(self, uid: str, pod: RunningPod) -> PodSeen:
        scaling = self._context.job_index.scaling_of(pod.key[0])
        assert scaling is not None
        policy = ScalingPolicy(least=Amounts(*scaling.least), most=Amounts(*scaling.most), load_ratio=1.0)
        size = _size(pod)
        return PodSeen(uid=uid, version=pod.version, policy=policy, desired=size, allocated=size, actual=size)

    def _speak(self, sampler: SamplerActor, now_s: float) -> None:
        """Say that the agent is there, in a new session if there is none."""
        if sampler is self._sampler and sampler.permits.confirmed(self._session):
            self._say(Heartbeat(), now_s)
            self._deliver(sampler.permits.tick(now_s), now_s)
            return
        self._sampler, self._session_count = sampler, self._session_count + 1
        name = self._cluster.name
        hello = AgentHello(cluster=name, cluster_uid=name, process_id=b"agent of a world")
        welcome, _ = sampler.permits.begin(hello, now_s)
        self._session, self._sequence = welcome.session, 1
        # Numbers of sessions begin anew with each sampler, and to the agent they must grow.
        self._agent.take(SessionUp(self._session_count), now_s)
        self._agent.take(Leased(self._session_count, now_s + welcome.lease_s), now_s)

    def _say(self, message: AgentMessage, now_s: float) -> None:
        """Say something, and take in what the sampler answers."""
        assert self._sampler is not None
        self._sequence += 1
        service = self._sampler.permits
        outcome = service.take([(self._session, self._sequence, message)], now_s)
        if service.confirmed(self._session):
            lease_s = self._sampler.ledger.permits.lease_s(self._session)
            self._agent.take(Leased(self._session_count, now_s + lease_s), now_s)
        self._deliver(outcome, now_s)

    def _deliver(self, outcome: Outcome, now_s: float) -> None:
        for session, reply in outcome.replies:
            if session != self._session:
                continue
            uids = [str(uid) for uid in reply.uids[:, 0].tolist()]
            if isinstance(reply, Permits):
                rows = zip(uids, reply.numbers.tolist(), reply.permits.T.tolist(), reply.units.T.tolist(), strict=True)
                permits = tuple(
                    Permit(uid=uid, sequence=number, amounts=Amounts(*amounts), unit=Amounts(*unit))
                    for uid, number, amounts, unit in rows
                )
                self._agent.take(PermitsTold(self._session_count, permits), now_s)
            elif isinstance(reply, Refusals):
                for uid, number, wait_s in zip(uids, reply.numbers.tolist(), reply.retry_after_s.tolist(), strict=True):
                    refused = Refused(
                        session=self._session_count, uid=uid, sequence=number, reason="refused", retry_after_s=wait_s
                    )
                    self._agent.take(refused, now_s)
            else:
                for uid, word in zip(uids, reply.directives.tolist(), strict=True):
                    self._agent.take(Directed(self._session_count, uid, _DIRECTIVES[Told(word)]), now_s)

    def _measure(
        self, running: list[RunningPod], now_s: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Tell the agent what pods use; return millicores that they use, and that they would use."""
        agenda, job_index = self._context.agenda, self._context.job_index
        jobs = np.array([job_index.index(pod.key[0]) for pod in running], np.int64)
        ages_s = np.array([(agenda.now_us - pod.started_us) / 1e6 for pod in running])
        asked = [dict(job_index.requests_of(*pod.key)) for pod in running]
        whole = np.array([[amounts[name] for name in SCALED] for amounts in asked], np.float64).reshape(-1, len(SCALED))
        demand = self._plan.use_ratios(jobs, ages_s) * whole[:, 0]
        used = np.minimum(demand, np.array([_size(pod).cpu_millicores for pod in running], np.float64))
        self._agent.take(
            MetricsSeen(
                uids=tuple(str(pod.uid) for pod in running),
                load_cores=used / 1000.0,
                memory_bytes=np.maximum(whole[:, 1] / self._plan.units * _USED_MEMORY_RATIO, 1.0),
            ),
            now_s,
        )
        return used, demand

    def _act(self, now_s: float) -> None:
        """Ask and resize until nothing more is to be done."""
        for _ in range(_MOST_TURNS):
            actions = next_actions(self._agent, now_s)
            for message in _messages(actions.requests):
                self._say(message, now_s)
            for resize in actions.resizes:
                self._resize(resize, now_s)
            if not actions.requests and not actions.resizes:
                break
        if self._sampler is not None:
            self._sampler.permitted()

    def _resize(self, resize: Resize, now_s: float) -> None:
        pod = self._seen[resize.uid]
        version, reason, outcome = 0, "", ResizeOutcome.CONFLICT
        try:
            version = self._cluster.resize(pod.key, resize.version, dict(zip(SCALED, resize.amounts, strict=True)))
        except InvalidRequest as error:
            outcome, reason = ResizeOutcome.REFUSED, error.message
        if version:
            outcome = ResizeOutcome.ACCEPTED
            self._resize_count += 1
        ended = ResizeEnded(uid=resize.uid, number=resize.number, outcome=outcome, version=version, reason=reason)
        self._agent.take(ended, now_s)
        if version:
            asked = tuple(
                (name, dict(zip(SCALED, resize.amounts, strict=True)).get(name, has)) for name, has in pod.requests
            )
            self._seen[resize.uid] = pod._replace(version=version, requests=asked)
            self._agent.take(self._shown(resize.uid, self._seen[resize.uid]), now_s)

    def _note(
        self,
        running: list[RunningPod],
        used: npt.NDArray[np.float64],
        demand: npt.NDArray[np.float64],
        *,
        now_s: float,
    ) -> None:
        """Note how things stand."""
        moments = []
        for pod, uses in zip(running, used.tolist(), strict=True):
            known, held = self._agent.pods[str(pod.uid)], _size(self._seen[str(pod.uid)]).cpu_millicores
            permit = known.permit.cpu_millicores if known.permit is not None else held
            moment = PodMoment(now_s, known.requested.cpu_millicores or held, permit, held, uses)
            moments.append(moment)
            if pod.key[0] in self.pods or len(self.pods) < _NOTED_PODS:
                self.pods.setdefault(pod.key[0], []).append(moment)
        had = np.array([_size(pod).cpu_millicores for pod in running], np.float64)
        self.moments.append(
            ScalingMoment(
                at_s=now_s,
                requested=sum(one.requested for one in moments),
                approved=sum(one.approved for one in moments),
                held=sum(one.held for one in moments),
                used=float(used.sum()),
                pods=len(moments),
                short=int(np.count_nonzero(demand > had)),
                resizes=self._resize_count,
            )
        )
        self._resize_count = 0


def _size(pod: RunningPod) -> Amounts:
    amounts = dict(pod.requests)
    return Amounts(*(amounts[name] for name in SCALED))


def _messages(requests: Iterable[PermitRequest]) -> Iterable[AgentMessage]:
    """Give requests as the sampler takes them: pods that are announced, then what is asked for."""
    first = [one for one in requests if one.is_first]
    if first:
        yield Inventory(
            uids=_uids(first),
            ceilings=np.array([one.wanted for one in first], np.int64).T,
            held=np.array([one.was_permitted for one in first], np.bool_),
            permitted=np.array([one.is_permit for one in first], np.bool_),
            numbers=np.array([one.sequence for one in first], np.int64),
        )
    asked = [one for one in requests if not one.is_first]
    if asked:
        yield PermitAsked(
            uids=_uids(asked),
            wanted=np.array([one.wanted for one in asked], np.int64).T,
            bundle=np.array([one.is_bundle for one in asked], np.bool_),
            numbers=np.array([one.sequence for one in asked], np.int64),
        )


def _uids(requests: list[PermitRequest]) -> npt.NDArray[np.int64]:
    return np.array([(int(one.uid), 0) for one in requests], np.int64)

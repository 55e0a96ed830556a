"""The agent: what it learns of its pods goes in as events, and what is to be done comes out as actions.

It knows no clock, no stream and no API server. `take` takes one event in; `next_actions` says what to do now and when
to ask again. Only pods that something happened to, or whose time has come, are looked at: a step costs those, not all.

Source: design section 5, "Resize"; docs/autoscale.md "The agent".
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from argosy_core.autoscale.amounts import NOTHING
from argosy_core.autoscale.events import (
    Actions,
    ContractAnswered,
    Directed,
    Event,
    Leased,
    MetricsSeen,
    OutOfMemory,
    Permit,
    PermitsTold,
    PodGone,
    PodSeen,
    Refused,
    ResizeEnded,
    SessionDown,
    SessionUp,
    StoryEntry,
)
from argosy_core.autoscale.goals import GoalKeeper
from argosy_core.autoscale.pod import AgentSettings, PodScaling
from argosy_core.autoscale.predictor import PredictorSettings

__all__ = ["Agent", "next_actions"]

_STORY_LENGTH = 64
_OUT_OF_MEMORY_RATIO = 1.2
"""How much more memory a pod gets that ran out of it, at least one unit; as the vertical pod autoscaler."""


class Agent:
    """The state of an agent.

    Args:
        settings: How patient it is.
        predictor: What a unit is worth.
    """

    def __init__(self, settings: AgentSettings | None = None, predictor: PredictorSettings | None = None) -> None:
        """Start without pods and without a session."""
        self._settings = settings or AgentSettings()
        self._goals = GoalKeeper(self._settings.max_units, self._settings.metrics_timeout_s, predictor)
        self._pods: dict[str, PodScaling] = {}
        self._stories: dict[str, deque[StoryEntry]] = {}
        self._session: int | None = None
        self._lease_s = float("-inf")
        self._touched: dict[str, None] = {}
        self._wakes: list[tuple[float, str]] = []
        self._wake_of: dict[str, float] = {}
        self._told: list[StoryEntry] = []
        self._now_s = float("-inf")

    @property
    def pods(self) -> Mapping[str, PodScaling]:
        """Pods by uid; to be read, not changed."""
        return self._pods

    def story(self, uid: str) -> tuple[StoryEntry, ...]:
        """Return the last things that happened to a pod, oldest first; none of a pod that is not known."""
        return tuple(self._stories.get(uid, ()))

    def take(self, event: Event, now_s: float) -> None:
        """Take in what happened. What is of another session, or of a pod that is not known, changes nothing.

        Args:
            event: What.
            now_s: The present by a clock that never goes back, seconds; if it does, it counts as standing still.
        """
        self._now_s = max(self._now_s, now_s)
        if isinstance(event, PodSeen):
            self._see(event)
        elif isinstance(event, PodGone):
            self._forget(event.uid)
        elif isinstance(event, MetricsSeen):
            self._measure(event)
        elif isinstance(event, SessionUp | SessionDown):
            self._begin_session(event.session if isinstance(event, SessionUp) else None)
        else:
            self._take_of_pod(event)

    def _take_of_pod(
        self, event: OutOfMemory | PermitsTold | Leased | Refused | Directed | ResizeEnded | ContractAnswered
    ) -> None:
        if isinstance(event, PermitsTold | Leased | Refused | Directed) and event.session != self._session:
            return
        if isinstance(event, PermitsTold):
            for permit in event.permits:
                self._permit(permit)
        elif isinstance(event, Leased):
            self._lease(event.until_s)
        elif (pod := self._pods.get(event.uid)) is not None:
            self._take_of_one(pod, event)

    def _take_of_one(
        self, pod: PodScaling, event: OutOfMemory | Refused | Directed | ResizeEnded | ContractAnswered
    ) -> None:
        if isinstance(event, Refused):
            self._tell(event.uid, pod.take_refusal(event, self._now_s))
        elif isinstance(event, ResizeEnded):
            self._tell(event.uid, pod.end_resize(event, self._now_s))
        elif isinstance(event, ContractAnswered):
            self._tell(event.uid, pod.take_answer(event, self._now_s))
        elif isinstance(event, OutOfMemory):
            self._raise_floor(pod)
        elif pod.directive is not event.directive:
            pod.directive = event.directive
            self._tell(event.uid, f"directed: {event.directive}")

    def _see(self, seen: PodSeen) -> None:
        pod = self._pods.get(seen.uid)
        if pod is not None:
            policy = pod.seen.policy
            self._tell(seen.uid, pod.see(seen, self._now_s))
            if pod.seen.policy != policy:
                self._bound(pod)
                self._tell(seen.uid, "has another policy" if pod.seen.policy.is_on else "is not autoscaled any more")
            return
        pod = PodScaling(settings=self._settings, seen=seen)
        self._pods[seen.uid], self._stories[seen.uid] = pod, deque(maxlen=_STORY_LENGTH)
        self._goals.add(seen.uid, self._now_s)
        why = "is not resized: autoscaling is off" if not seen.policy.is_on else ""
        self._tell(seen.uid, f"is not resized: {seen.refusal}" if seen.refusal else why or "is autoscaled")

    def _permit(self, permit: Permit) -> None:
        """Take in a permit; a pod whose unit was not known begins with the size that it has."""
        pod = self._pods.get(permit.uid)
        if pod is None:
            return
        before = pod.unit
        what = pod.take_permit(permit)
        if pod.unit is not None and pod.unit != before:
            pod.goal_units = (pod.seen.desired if before is None else before.times(pod.goal_units)).units(pod.unit)
            self._bound(pod)
        self._tell(permit.uid, what)

    def _lease(self, until_s: float) -> None:
        """Let all permits hold until a time; one that had run out by then is not revived, its pod is announced anew."""
        if self._now_s >= self._lease_s > float("-inf"):
            for pod in self._pods.values():
                pod.lapse()
        if self._now_s + self._settings.resize_timeout_s >= self._lease_s:
            self._touched.update(dict.fromkeys(self._pods))
        self._lease_s = max(self._lease_s, until_s)

    def _bound(self, pod: PodScaling) -> None:
        """Bring a goal into the bounds of its policy."""
        if pod.unit is not None:
            least, most = pod.seen.policy.bounds_units(pod.unit)
            pod.goal_units = max(1, min(max(least, pod.goal_units), most, self._settings.max_units))

    def _forget(self, uid: str) -> None:
        if self._pods.pop(uid, None) is not None:
            self._goals.remove(uid)
            del self._stories[uid]
            self._wake_of.pop(uid, None)
            self._touched.pop(uid, None)

    def _measure(self, metrics: MetricsSeen) -> None:
        known, pods, policies = [], [], []
        for place, uid in enumerate(metrics.uids):
            pod = self._pods.get(uid)
            if pod is not None and pod.unit is not None:
                known.append(place)
                pods.append(pod)
                policies.append((pod.seen.policy, pod.unit, pod.seen.actual.cpu_millicores))
        if not known:
            return
        current = np.array([pod.goal_units for pod in pods], dtype=np.int64)
        goals = self._goals.take(_select(metrics, known), policies, current, self._now_s)
        used = metrics.memory_bytes[known]
        used_bytes = np.where(np.isfinite(used) & (used > 0), used, 0.0).astype(np.int64).tolist()
        for pod, goal, memory_bytes in zip(pods, goals, used_bytes, strict=True):
            pod.used_bytes = max(memory_bytes, 0) or pod.used_bytes
            if goal != pod.goal_units:
                before, pod.goal_units = pod.goal_units, goal
                self._tell(pod.seen.uid, f"should have {goal} units instead of {before}")

    def _raise_floor(self, pod: PodScaling) -> None:
        seen = pod.seen
        if pod.unit is None:
            self._tell(seen.uid, "ran out of memory")
            return
        more_bytes = max(int(seen.actual.memory_bytes * _OUT_OF_MEMORY_RATIO), seen.actual.memory_bytes + 1)
        units = min(-(-more_bytes // pod.unit.memory_bytes), self._settings.max_units)
        self._goals.raise_floor(seen.uid, units)
        pod.floor_until_s = self._now_s + self._settings.out_of_memory_hold_s
        pod.goal_units = max(pod.goal_units, units)
        self._bound(pod)
        self._tell(seen.uid, f"ran out of memory: at least {units} units for now")

    def _begin_session(self, session: int | None) -> None:
        for pod in self._pods.values():
            self._renew(pod)
            pod.lose_session()
        self._touched.update(dict.fromkeys(self._pods))
        self._session, self._lease_s = session, float("-inf")

    def _renew(self, pod: PodScaling) -> None:
        """Let a permit of this session hold as long as the session's lease."""
        if pod.is_leased:
            pod.lease_s = max(pod.lease_s, self._lease_s)

    def _tell(self, uid: str, what: str) -> None:
        """Look at a pod with the next actions, and add to its story."""
        self._touched[uid] = None
        self._record(self._pods[uid], what)

    def _record(self, pod: PodScaling, what: str) -> None:
        """Add to a pod's story, unless nothing is worth it."""
        if not what:
            return
        uid = pod.seen.uid
        entry = StoryEntry(
            uid=uid,
            at_s=self._now_s,
            what=what,
            goal=pod.goal,
            requested=pod.requested,
            approved=pod.permit or NOTHING,
            allocated=pod.seen.allocated,
            actual=pod.seen.actual,
        )
        self._stories[uid].append(entry)
        self._told.append(entry)

    def step(self, now_s: float) -> Actions:
        """Return what to do now; see `next_actions`."""
        self._now_s = now_s = max(self._now_s, now_s)
        while self._wakes and self._wakes[0][0] <= now_s:
            at_s, uid = heapq.heappop(self._wakes)
            if self._wake_of.get(uid) == at_s:
                del self._wake_of[uid]
                self._touched[uid] = None
        touched, self._touched = self._touched, {}
        requests, resizes, questions = [], [], []
        for uid in touched:
            pod = self._pods[uid]
            if pod.floor_until_s is not None and now_s >= pod.floor_until_s:
                pod.floor_until_s = None
                self._goals.drop_floor(uid)
            self._renew(pod)
            self._record(pod, pod.hear(now_s))
            resize = pod.next_resize(now_s)
            if resize is not None:
                resizes.append(resize)
            request = pod.next_request(now_s) if self._session is not None else None
            if request is not None:
                requests.append(request)
            question = pod.next_question(now_s)
            if question is not None:
                questions.append(question)
            self._wake(uid, pod.wake_s(now_s))
        reports, self._told = tuple(self._told), []
        while self._wakes and self._wake_of.get(self._wakes[0][1]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        wake_at_s = self._wakes[0][0] if self._wakes else float("inf")
        return Actions(
            requests=tuple(requests),
            resizes=tuple(resizes),
            questions=tuple(questions),
            reports=reports,
            wake_at_s=wake_at_s,
        )

    def _wake(self, uid: str, at_s: float) -> None:
        """Look at a pod at a time, instead of at the time that was set before."""
        if self._wake_of.get(uid) == at_s:
            return
        self._wake_of.pop(uid, None)
        if at_s == float("inf"):
            return
        self._wake_of[uid] = at_s
        heapq.heappush(self._wakes, (at_s, uid))
        if len(self._wakes) > 64 + 4 * len(self._pods):  # times that were set anew leave their old ones behind
            self._wakes = [(time_s, one) for one, time_s in self._wake_of.items()]
            heapq.heapify(self._wakes)


def next_actions(state: Agent, now_s: float) -> Actions:
    """Return what to do now: the same state and time give the same actions.

    What is returned counts as begun: each request and resize comes once, and its end is told by an event, or by the
    time that it may take.

    Args:
        state: The agent.
        now_s: The present, seconds; the clock of the events.

    Returns:
        Requests, resizes and reports; O(pods that something happened to).
    """
    return state.step(now_s)


def _select(metrics: MetricsSeen, places: Iterable[int]) -> MetricsSeen:
    """Return the metrics of some pods."""
    chosen = list(places)
    cached, working_set = metrics.cached_bytes, metrics.working_set_bytes
    return MetricsSeen(
        uids=tuple(metrics.uids[place] for place in chosen),
        load_cores=metrics.load_cores[chosen],
        memory_bytes=metrics.memory_bytes[chosen],
        cached_bytes=None if cached is None else cached[chosen],
        working_set_bytes=None if working_set is None else working_set[chosen],
    )

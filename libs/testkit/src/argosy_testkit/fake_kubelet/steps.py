"""What each step of a pod does: it starts, waits, is resized, ends or stops, and the API server is told."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from argosy_core.errors import BackendUnavailable
from argosy_testkit.fake_kubelet.agenda import DEADLINE, Agenda
from argosy_testkit.fake_kubelet.api import STRATEGIC_PATCH, TAKEN, Api
from argosy_testkit.fake_kubelet.behaviour import (
    EVICTED,
    REFUSING_REASONS,
    WAITING_REASONS,
    deferred_status,
    ended_status,
    pod_requests,
    refused_status,
    resized_status,
    restarted_status,
    running_status,
    waiting_status,
)
from argosy_testkit.fake_kubelet.nodes import FakeNode
from argosy_testkit.fake_kubelet.work import Work

__all__ = ["Steps"]

_PULL_RETRY_S: Final = 1.0
_LOST: Final = frozenset({404, 409})  # the pod is gone, or another one has its name
_REFUSED: Final = frozenset({400, 403, 422})
_KILLED_CODE: Final = 137


class Steps:
    """Carries out the steps of pods.

    Args:
        api: The API server.
        agenda: Where further steps go.
    """

    def __init__(self, api: Api, agenda: Agenda) -> None:
        """Start with nothing done."""
        self.counts: Counter[str] = Counter()
        """How often what was done."""
        self._api = api
        self._agenda = agenda
        self._addresses = itertools.count()
        self._deferred: dict[str, Work] = {}
        """By uid: pods whose resize waits for room."""

    def give_back(self, work: Work) -> None:
        """Let a pod that is over hold nothing of its node any more."""
        self._deferred.pop(work.pod.metadata.uid, None)
        if work.has_taken:
            work.node.give_back(work.request)
            work.has_taken = False
            self._retry_deferred(work.node)

    def _retry_deferred(self, node: FakeNode) -> None:
        """Try the resizes again that wait for room on a node."""
        for other in [other for other in self._deferred.values() if other.node is node]:
            self._agenda.add(other, "resize")

    async def do(self, work: Work, step: str) -> None:
        """Carry out a step, if it still applies.

        Raises:
            BackendUnavailable: The API server does not take it now.
        """
        if step == "start" and not work.is_stopping and not work.is_over:
            await self._start(work)
        elif step == "waiting" and not work.is_stopping:
            await self._tell(work, waiting_status(work.pod, time.time(), "ImagePullBackOff"), "waiting")
        elif step == "resize" and work.started_s and not work.is_over and not work.is_stopping:
            await self._resize(work)
        elif step == "end" and not work.is_over and not work.is_stopping:
            await self._tell_end(work)
        elif step == "stop":
            await self._stop(work)

    async def _start(self, work: Work) -> None:
        reason = work.behaviour.reason
        if reason in REFUSING_REASONS:
            await self._refuse(work, reason, "refused as its annotation wants")
            return
        if not work.has_taken:
            missing = work.node.take(work.request)
            if missing:
                await self._refuse(work, f"OutOf{missing}", f"Node didn't have enough resource: {missing}")
                return
            work.has_taken = True
        if reason in WAITING_REASONS:
            await self._tell(work, waiting_status(work.pod, time.time(), reason), "waiting")
            if reason == "ErrImagePull":
                self._agenda.after(work, _PULL_RETRY_S, "waiting")
            return
        if not work.ended_s:
            now_s = time.time()
            if work.restarts:
                status = restarted_status(work.pod, now_s, restarts=work.restarts)
            else:
                number = next(self._addresses)
                address = f"10.{128 + number // 65536 % 64}.{number // 256 % 256}.{number % 256}"
                status = running_status(work.pod, now_s, address=address)
            await self._tell(work, status, "running")
            work.started_s = now_s
            self._agenda.plan_end(work)

    async def _resize(self, work: Work) -> None:
        """Give a pod the size that its spec asks for, or say that there is no room for it yet.

        A size that the node could never have does not come here: the API server refuses it.
        """
        wanted, had, uid = pod_requests(work.pod), work.request, work.pod.metadata.uid
        if wanted != had and work.has_taken and not work.node.retake(had, wanted):
            self._deferred[uid] = work
            if not work.is_deferred:
                await self._tell(work, deferred_status(time.time(), wanted), "deferred")
                work.is_deferred = True
            return
        work.request = wanted
        self._deferred.pop(uid, None)
        if any(wanted.get(name, 0) < amount for name, amount in had.items()):
            self._retry_deferred(work.node)
        await self._tell(work, resized_status(work.pod, was_deferred=work.is_deferred), "resized")
        work.is_deferred = False

    async def _refuse(self, work: Work, reason: str, message: str) -> None:
        await self._tell(work, refused_status(reason, f"Pod was rejected: {message}"), "refused")
        work.is_over = True

    async def _tell_end(self, work: Work) -> None:
        policy = work.pod.spec.restart_policy
        failed = bool(work.exit_code or work.reason)
        is_again = policy == "Always" or (policy == "OnFailure" and failed)
        if is_again and work.reason not in {EVICTED, DEADLINE}:
            work.restarts += 1
            work.ended_s = 0.0
            work.steps.append("start")
            return
        status = ended_status(
            work.pod,
            work.started_s or work.ended_s,
            work.ended_s,
            exit_code=work.exit_code,
            reason=work.reason,
            restarts=work.restarts,
        )
        await self._tell(work, status, "ended")
        work.is_over = True
        self.give_back(work)

    async def _stop(self, work: Work) -> None:
        """Stop a deleted pod: tell how its containers ended if they ran, then let the object go."""
        if work.started_s and not work.is_over:
            ended_s = work.ended_s or time.time()
            code = work.exit_code if work.ended_s else _KILLED_CODE
            work.ended_s = ended_s
            await self._tell(work, ended_status(work.pod, work.started_s, ended_s, exit_code=code), "stopped")
            work.is_over = True
        self.give_back(work)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": work.pod.metadata.uid}}
        await self._call_pod(work, "DELETE", "", body)
        self.counts["deleted"] += 1

    async def _tell(self, work: Work, status: Mapping[str, Any], what: str) -> None:
        body = {"metadata": {"uid": work.pod.metadata.uid}, "status": status}
        await self._call_pod(work, "PATCH", "/status", body)
        self.counts[what] += 1

    async def _call_pod(self, work: Work, method: str, path: str, body: object) -> None:
        metadata = work.pod.metadata
        base = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"
        content_type = STRATEGIC_PATCH if method == "PATCH" else "application/json"
        status, answer = await self._api.request(method, base + path, body, content_type=content_type)
        words = f"{method} {base}{path}: {status} {answer[:300].decode(errors='replace')}"
        if status in _REFUSED:  # no use in asking again
            self.counts["rejected"] += 1
            sys.stderr.write(words + "\n")
        elif status not in TAKEN and status not in _LOST:
            raise BackendUnavailable(words)

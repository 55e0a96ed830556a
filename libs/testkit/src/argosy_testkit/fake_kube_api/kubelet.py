"""The kubelets of a fake API server's nodes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from argosy_core.resources import parse_quantity
from argosy_kube.port import EXIT_CODE_ANNOTATION, RUN_TIME_ANNOTATION, START_DELAY_ANNOTATION
from argosy_kube.simulated.recipes import parse_span
from argosy_testkit.fake_kube_api.store import Document, Store

__all__ = ["Kubelets"]


class Kubelets:
    """Runs the pods that are bound to nodes, and ends those that are deleted.

    Args:
        store: Where they are.
        speed: Simulated seconds per second.
    """

    def __init__(self, store: Store, *, speed: float) -> None:
        """Follow the store."""
        self._store = store
        self._speed = speed
        self._timers: set[asyncio.TimerHandle] = set()
        self._admitted: dict[str, tuple[str, dict[str, int]]] = {}
        store.on_change.append(self._heard)

    def close(self) -> None:
        """Run nothing any more."""
        for timer in self._timers:
            timer.cancel()

    def log(self, pod: Document) -> bytes:
        """Return what a pod has written so far."""
        phase, name = pod["status"].get("phase"), pod["metadata"]["name"]
        lines = [] if phase == "Pending" else [f"{name} started\n"]
        lines += [f"{name} ended\n"] if phase in {"Succeeded", "Failed"} else []
        return "".join(lines).encode()

    def _later(self, delay_s: float, act: Any, *arguments: str) -> None:  # noqa: ANN401 - a bound method
        def fire() -> None:
            self._timers.discard(handle)
            act(*arguments)

        handle = asyncio.get_running_loop().call_later(delay_s, fire)
        self._timers.add(handle)

    def _heard(self, plural: str, change: str, pod: Document) -> None:
        if plural != "pods":
            return
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        uid = metadata["uid"]
        if change == "DELETED" or pod["status"].get("phase") in {"Succeeded", "Failed"}:
            self._admitted.pop(uid, None)
        if change == "DELETED" or not node:
            return
        if metadata.get("deletionTimestamp"):
            if metadata["deletionGracePeriodSeconds"] and self._is_node(node):  # else there is no kubelet
                self._later(0.0, self._kill, metadata["namespace"], metadata["name"], uid)
        elif uid in self._admitted and pod["status"].get("phase") == "Running":
            if _requests(pod) != self._admitted[uid][1]:
                self._later(0.0, self._resize, metadata["namespace"], metadata["name"], uid)
        elif uid not in self._admitted and pod["status"].get("phase") == "Pending" and self._is_node(node):
            self._admitted[uid] = (node, _requests(pod))
            notes = metadata.get("annotations") or {}
            delay_us, _ = parse_span(notes.get(START_DELAY_ANNOTATION, "0s"))
            self._later(delay_us / 1e6 / self._speed, self._start, metadata["namespace"], metadata["name"], uid)

    def _is_node(self, name: str) -> bool:
        return ("", name) in self._store.objects.get("nodes", {})

    def _pod(self, namespace: str, name: str, uid: str) -> Document | None:
        pod = self._store.objects.get("pods", {}).get((namespace, name))
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._pod(namespace, name, uid)
        if pod is None or uid not in self._admitted:
            return
        lacking = self._lacking(pod["spec"]["nodeName"], uid)
        if lacking:
            self._tell(pod, {"phase": "Failed", "reason": f"OutOf{lacking}"})
            return
        notes = pod["metadata"].get("annotations") or {}
        run_us, _ = parse_span(notes.get(RUN_TIME_ANNOTATION, "1s"))
        self._tell(pod, _status(pod, "Running", {"running": {"startedAt": _now()}}))
        self._later(run_us / 1e6 / self._speed, self._end, namespace, name, uid)

    def _resize(self, namespace: str, name: str, uid: str) -> None:
        """Take a size up if the node has room for it, else say that it has not now, or never will."""
        pod = self._pod(namespace, name, uid)
        if pod is None or uid not in self._admitted:
            return
        (node, before), wanted = self._admitted[uid], _requests(pod)
        if wanted == before:
            return
        allocatable = self._store.objects["nodes"]["", node]["status"]["allocatable"]
        never = any(amount > parse_quantity(key, str(allocatable.get(key, "0"))) for key, amount in wanted.items())
        self._admitted[uid] = node, wanted
        reason = "Infeasible" if never else "Deferred" if self._lacking(node, "") else ""
        if reason:
            self._admitted[uid] = node, before
            condition = {"type": "PodResizePending", "status": "True", "reason": reason}
            if condition not in pod["status"].get("conditions", ()):
                self._tell(pod, {"conditions": [condition]})
            return
        states = pod["status"]["containerStatuses"]
        self._tell(pod, {**_status(pod, "Running", states[0]["state"]), "conditions": []})

    def _lacking(self, node: str, uid: str) -> str:
        """Return the resource of which a node has not enough for all pods admitted up to one, or nothing."""
        allocatable = self._store.objects["nodes"]["", node]["status"]["allocatable"]
        used: dict[str, int] = {}
        for other, (where, amounts) in self._admitted.items():
            if where == node:
                for name, amount in amounts.items():
                    used[name] = used.get(name, 0) + amount
            if other == uid:
                break
        for name, amount in used.items():
            if amount > parse_quantity(name, str(allocatable.get(name, "0"))):
                return name
        return ""

    def _end(self, namespace: str, name: str, uid: str) -> None:
        pod = self._pod(namespace, name, uid)
        if pod is not None and pod["status"].get("phase") == "Running":
            code = int((pod["metadata"].get("annotations") or {}).get(EXIT_CODE_ANNOTATION, "0"))
            self.finish(pod, code, "Completed" if code == 0 else "Error")

    def finish(self, pod: Document, exit_code: int, reason: str) -> None:
        """End a pod's containers."""
        state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": _now()}}
        self._tell(pod, _status(pod, "Succeeded" if exit_code == 0 else "Failed", state))

    def _kill(self, namespace: str, name: str, uid: str) -> None:
        pod = self._pod(namespace, name, uid)
        if pod is not None:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            self._store.delete("pods", namespace, name, options)

    def _tell(self, pod: Document, status: Document) -> None:
        self._store.replace("pods", {**pod, "status": {**pod["status"], **status}})


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _status(pod: Document, phase: str, state: Document) -> Document:
    containers = pod["spec"]["containers"]
    resources = [one.get("resources", {}) for one in containers] if phase == "Running" else [{}] * len(containers)
    return {
        "phase": phase,
        "startTime": pod["status"].get("startTime") or _now(),
        "containerStatuses": [
            {"name": one["name"], "state": state}
            | ({"resources": held, "allocatedResources": held["requests"]} if "requests" in held else {})
            for one, held in zip(containers, resources, strict=True)
        ],
    }


def _requests(pod: Document) -> dict[str, int]:
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        for name, quantity in container.get("resources", {}).get("requests", {}).items():
            total[name] = total.get(name, 0) + parse_quantity(name, str(quantity))
    return total

"""Sizes of simulated pods: what runs can be made larger and smaller, and tells what it uses.

A pod is scaled if its annotations give it bounds, as anywhere. What it would use is told by an annotation: a sequence
of amounts, each for an equal part of its run. It uses no more than it has.

Source: docs/autoscale.md "On one machine".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import SCALED, SWITCH_ANNOTATION, read_amounts, read_scaling
from argosy_core.resources import CPU
from argosy_kube.port import USE_ANNOTATION, Change, PodPhase, UidArray
from argosy_kube.simulated.journal import Journal
from argosy_kube.simulated.objects import ObjectTable
from argosy_kube.simulated.tables import NodeTable
from argosy_kube.simulated.tally import Tally
from argosy_kube.tables import RequestTable

__all__ = ["PodSizes", "SizeConflict", "scaling_notes"]

Floats = npt.NDArray[np.float64]
Notes = tuple[tuple[str, str], ...]


class SizeConflict(Exception):
    """The pod is at another version than was asked for."""


def scaling_notes(annotations: Mapping[str, str]) -> Notes:
    """Return those annotations that say how a pod is scaled, sorted; none if it is not.

    Annotations that cannot be read scale nothing, as on any cluster.

    Raises:
        InvalidRequest: What it uses cannot be read, which only simulated pods tell.
    """
    noted = [key for key in annotations if key.startswith((SWITCH_ANNOTATION, USE_ANNOTATION))]
    if not noted:
        return ()
    _read_use(annotations.get(USE_ANNOTATION, ""))
    try:
        if read_scaling(annotations) is None:
            return ()
    except InvalidRequest:
        return ()
    return tuple((key, annotations[key]) for key in sorted(noted))


def _read_use(text: str) -> list[tuple[int, ...]]:
    """Return amounts by resource of SCALED, one after the other."""
    return [read_amounts(USE_ANNOTATION, part) for part in text.split(";")] if text else []


class PodSizes:
    """Resizes pods of a simulated cluster and says what they use.

    Args:
        objects: The objects.
        nodes: What nodes have free.
        requests: What pods ask for; a row carries its annotations of scaling.
        journal: Who is told.
        tally: What is counted.
    """

    def __init__(
        self, objects: ObjectTable, nodes: NodeTable, requests: RequestTable, *, journal: Journal, tally: Tally
    ) -> None:
        """Use what the engine has."""
        self._objects = objects
        self._nodes = nodes
        self._requests = requests
        self._journal = journal
        self._tally = tally
        self._uses: dict[str, list[tuple[int, ...]]] = {}

    def resize(self, uid: UidArray, version: int, amounts: tuple[int, ...], now_us: int) -> int:
        """Give a pod another size, at once; return its version then.

        Args:
            uid: (16,) its uid.
            version: Version that it must be at.
            amounts: By resource of SCALED.
            now_us: The present.

        Raises:
            SizeConflict: It is at another version.
            InvalidRequest: It does not run, is not scaled, or its node has no room.
        """
        objects, requests = self._objects, self._requests
        slots = objects.find(uid[np.newaxis])
        slot = int(slots[0])
        row = int(objects.request[slot]) if slot >= 0 else -1
        if row not in requests.notes or objects.phase[slot] != PodPhase.RUNNING or min(amounts) < 1:
            raise InvalidRequest("the pod does not run, or is not scaled, or the size is none")
        self._journal.flush()
        if objects.version[slot] != version:
            raise SizeConflict
        new = requests.variant(row, dict(zip(SCALED, amounts, strict=True)), requests.notes[row])
        self._nodes.fit_axis()
        change, node = requests.matrix[new] - requests.matrix[row], int(objects.node[slot])
        if (change > np.maximum(self._nodes.free[node], 0)).any():
            raise InvalidRequest("the node has no room for that size")
        self._nodes.free[node] -= change
        self._tally.running_millicores += int(change[requests.axis.index(CPU)])
        objects.request[slot] = new
        self._journal.tell(Change.MODIFIED, slots, PodPhase.RUNNING, now_us)
        self._journal.flush()
        return int(objects.version[slot])

    def usage(self, uids: UidArray, now_us: int) -> Floats:
        """Return (n, resource of SCALED) what pods use, base units; not a number where nothing is told.

        Args:
            uids: (n, 16) uids.
            now_us: The present.
        """
        objects, requests = self._objects, self._requests
        columns = [requests.axis.index(name) for name in SCALED]
        used = np.full((len(uids), len(SCALED)), np.nan)
        for place, slot in enumerate(objects.find(uids).tolist()):
            if slot < 0 or objects.phase[slot] != PodPhase.RUNNING:
                continue
            row = int(objects.request[slot])
            steps = self._steps(dict(requests.notes.get(row, ())).get(USE_ANNOTATION, ""))
            if steps:
                passed = (now_us - int(objects.started_us[slot])) / max(int(objects.run_us[slot]), 1)
                step = steps[min(max(int(passed * len(steps)), 0), len(steps) - 1)]
                used[place] = np.minimum(step, requests.matrix[row, columns])
        return used

    def _steps(self, text: str) -> list[tuple[int, ...]]:
        steps = self._uses.get(text)
        if steps is None:
            steps = self._uses[text] = _read_use(text)
        return steps

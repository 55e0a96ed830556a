"""Runs with several pods: their pods' events become those of one pod, which is what the ledger books.

A run holds one placement for all pods of its bag. It takes what its live pods ask for together, and ends when the last
of them ended. Almost every run has one pod; those pass through at the price of one look-up.

Source: design section 5, "Sampler session": an observed pod replaces its placement, never adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.ledger.records import PodEvents

__all__ = ["RunPods"]

Int64s = npt.NDArray[np.int64]
_MAX_SHARED: Final = 10_000


class RunPods:
    """Live pods by run."""

    def __init__(self) -> None:
        """Start without pods."""
        self._single: dict[int, tuple[bytes, Int64s]] = {}
        self._shared: dict[bytes, Int64s] = {}
        self._shapes: Sequence[Int64s] = ()
        self._own: list[Int64s] = []
        self._several: dict[int, tuple[bytes, dict[bytes, Int64s]]] = {}

    def clear(self) -> None:
        """Forget everything; a full list follows."""
        self._single.clear()
        self._several.clear()

    def fold(self, events: PodEvents, shapes: Sequence[Int64s], shape_column: npt.NDArray[np.int32]) -> PodEvents:
        """Return events with those of runs of several pods rewritten: one uid, summed requests, ended with the last.

        Args:
            events: n events.
            shapes: Distinct requests, each a vector; what is kept of them is copied, once for all pods alike.
            shape_column: (n,) index into `shapes`.

        Complexity: about half a microsecond an event.
        """
        changed: list[tuple[int, bytes, Int64s, bool]] = []
        single, several = self._single, self._several
        shapes = self._own_shapes(shapes)
        uids = events.uids.tobytes()
        rows = zip(events.run_keys.tolist(), events.ended.tolist(), shape_column.tolist(), strict=True)
        for row, (key, ended, shape) in enumerate(rows):
            if not key:
                continue
            uid = uids[16 * row : 16 * row + 16]
            known = single.get(key)
            if known is None:
                if key in several:
                    changed.append((row, *self._fold_several(key, uid, shapes[shape], ended=ended)))
                elif not ended:
                    single[key] = (uid, shapes[shape])
            elif known[0] == uid:
                if ended:
                    del single[key]
            elif not ended:
                del single[key]
                several[key] = (known[0], {known[0]: known[1]})
                changed.append((row, *self._fold_several(key, uid, shapes[shape], ended=False)))
        return _rewrite(events, changed) if changed else events

    def _own_shapes(self, shapes: Sequence[Int64s]) -> list[Int64s]:
        """Return copies of requests: a view would keep the whole table alive in which it came, once for each pod."""
        if shapes is not self._shapes:
            if len(self._shared) > _MAX_SHARED:
                self._shared.clear()
            self._shapes = shapes
            self._own = [self._shared.setdefault(shape.tobytes(), shape.copy()) for shape in shapes]
        return self._own

    def _fold_several(self, key: int, uid: bytes, requests: Int64s, *, ended: bool) -> tuple[bytes, Int64s, bool]:
        """Take in one event of a run with several pods; return the uid, requests and end that stand for the run."""
        first, pods = self._several[key]
        if ended:
            pods.pop(uid, None)
        else:
            pods[uid] = requests
        if not pods:
            del self._several[key]
            return first, requests, True
        width = max(len(amounts) for amounts in pods.values())
        total = np.zeros(width, dtype=np.int64)
        for amounts in pods.values():
            total[: len(amounts)] += amounts
        return first, total, False


def _rewrite(events: PodEvents, changed: list[tuple[int, bytes, Int64s, bool]]) -> PodEvents:
    uids, requests, ended = events.uids.copy(), events.requests.copy(), events.ended.copy()
    for row, uid, amounts, is_ended in changed:
        uids[row] = np.frombuffer(uid, dtype=np.uint8)
        requests[row, : len(amounts)] = amounts
        ended[row] = is_ended
    return PodEvents(
        run_keys=events.run_keys,
        uids=uids,
        nodes=events.nodes,
        ended=ended,
        requests=requests,
        host_ports=events.host_ports,
    )

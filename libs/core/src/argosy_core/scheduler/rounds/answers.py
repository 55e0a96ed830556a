"""What samplers answered in a round, and which classes wait for what after it.

Source: design section 5, "Round"; 003 "Scheduler architecture".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, are_among, has_true, true_places
from argosy_core.framework import Fault
from argosy_core.placement import ANY_KIND, SampleReply, WaitReason
from argosy_core.scheduler.backfill.promises import CouldHold
from argosy_core.scheduler.columns.codes import REASON_FAULT, REASON_NONE
from argosy_core.scheduler.memory.results import ClassResult
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.asking import Asking

__all__ = ["Answers"]

_PROMISED_RETRY_S: Final = 600.0
"""After how long a class is asked for again whose jobs were kept from promised nodes, without any news: whatever lets
them start there is news (a run ends, a promise ends or moves, jobs come), and passing time alone does not."""


class Answers:
    """The answers of one round."""

    def __init__(self, state: PoolState, asking: Asking, *, number: int, now_s: float) -> None:
        """Take note of the sessions that were asked.

        Args:
            state: The pool.
            asking: Who was asked for what.
            number: Number of the round.
            now_s: When it began.
        """
        self._state = state
        self._asking = asking
        self._number = number
        self._now_s = now_s
        self._session = state.clusters.session.copy()
        self._woken: set[tuple[int, int]] = set()
        self._lacking: list[tuple[int, npt.NDArray[np.int64], SampleReply]] = []
        self._exhausted: set[int] = set()
        self._held_back: set[int] = set()

    def note_woken(self, cluster: int, classes: Int32s) -> None:
        """Take note that a sampler's news came in the middle of the round: it outlasts the answer to its request."""
        self._woken.update((index, cluster) for index in classes.tolist())

    def exhaust(self, classes: Iterable[int]) -> None:
        """Take note that jobs of classes found no place any more."""
        self._exhausted.update(classes)

    def hold_back(self, class_index: int) -> None:
        """Take note that a job of a class found none, perhaps because it was kept from promised nodes."""
        self._held_back.add(class_index)

    def could_hold(self) -> list[CouldHold]:
        """Return what was said of nodes that could hold classes if nothing else ran there, in sessions that last."""
        return [
            CouldHold(cluster=index, classes=classes, reply=reply)
            for index, classes, reply in self._lacking
            if reply.could_hold_offset.size and self._state.clusters.session[index] == self._session[index]
        ]

    def take(self, index: int, rows: npt.NDArray[np.int64], reply: SampleReply) -> None:
        """Remember what the answer says of each class, but for whether it waits: that the decision tells.

        Args:
            index: The cluster.
            rows: Which of the classes asked for it answers.
            reply: The answer.
        """
        state, asking = self._state, self._asking
        classes = asking.classes[rows]
        # The class may have been forgotten and its index given to another while the request was on its way.
        same = state.classes.class_id[classes] == asking.class_ids[rows]
        empty, said = reply.offset[1:] == reply.offset[:-1], reply.reason != REASON_NONE
        none = empty & same
        unfinished = none & ~said & (reply.complete == 0)
        if state.asked_complete or has_true(unfinished):
            state.asked_complete.difference_update(classes[~unfinished].tolist())
            state.asked_complete.update(classes[unfinished].tolist())
        for row in true_places(none & said).tolist():
            state.answers[int(classes[row]), index] = ClassResult(
                reason=WaitReason(int(reply.reason[row])),
                text=reply.texts[row] if reply.texts else "",
                filters=reply.filters,
                filter_texts=reply.filter_texts,
                rejections=tuple(reply.rejection[row].tolist()) if reply.rejection.size else (),
                examined_count=int(reply.examined[row]),
                nearest_miss=reply.nearest_misses[row] if reply.nearest_misses else "",
                round_number=self._number,
            )
        state.totals["faults"] += int(np.count_nonzero(reply.reason == REASON_FAULT))
        if state.answers:
            for class_index in classes[~empty & same].tolist():
                state.answers.pop((class_index, index), None)
        self._lacking.append((index, np.where(same, classes, -1), reply))

    def note_waits(self, faults: Mapping[int, Fault], promised: Collection[int] = ()) -> None:
        """Have classes wait at clusters that said why they have no node for all of them, and had none for some job.

        Args:
            faults: What plugins of the decision said of classes, by class id.
            promised: Clusters of which nodes that others were promised stood among the candidates.
        """
        session = self._state.clusters.session
        # A new session begins with everything asked again.
        lasting = [answer for answer in self._lacking if session[answer[0]] == self._session[answer[0]]]
        if lasting:
            self._note_reasons(lasting, promised)
        for class_id, fault in faults.items():
            self._note_fault(class_id, fault)

    def _note_reasons(
        self, answers: Sequence[tuple[int, npt.NDArray[np.int64], SampleReply]], promised: Collection[int]
    ) -> None:
        """Note at once what some answers said: NumPy takes as long for the classes of one cluster as for those of all.

        Args:
            answers: Cluster, its classes, of which -1 is one that was forgotten, and the answer.
            promised: As for `note_waits`.
        """
        waits_table, replies = self._state.waits, [reply for _, _, reply in answers]
        classes = np.concatenate([own for _, own, _ in answers])
        cluster = np.repeat([index for index, _, _ in answers], [own.size for _, own, _ in answers])
        reason = np.concatenate([reply.reason for reply in replies])
        empty = np.concatenate([reply.offset[1:] == reply.offset[:-1] for reply in replies])
        is_exhausted = np.zeros(self._state.classes.ids.end + 1, dtype=np.bool_)  # the last stands for a forgotten one
        is_exhausted[list(self._exhausted)] = True
        known, said = classes >= 0, reason != REASON_NONE
        waits = known & said & (empty | is_exhausted[classes])
        if self._woken:
            pairs = zip(classes.tolist(), cluster.tolist(), strict=True)
            waits &= np.array([pair not in self._woken for pair in pairs], dtype=np.bool_)
        is_free = known & ~said
        waits_table.answered(classes[is_free], cluster[is_free])
        if has_true(waits):
            retry_s = [_or_all(reply.retry_after_s, 0.0, reply.reason.size) for reply in replies]
            kinds = [_or_all(reply.node_kinds, ANY_KIND, reply.reason.size) for reply in replies]
            waits_table.wait(
                classes[waits],
                cluster[waits],
                reason[waits],
                retry_after_s=np.concatenate(retry_s)[waits],
                now_s=self._now_s,
                node_kinds=np.concatenate(kinds)[waits],
            )
        if self._held_back and promised:
            behind = is_free & are_among(classes, np.array([*self._held_back]))
            behind &= np.array([index in promised for index in cluster.tolist()], dtype=np.bool_)
            count = int(np.count_nonzero(behind))
            waits_table.wait(
                classes[behind],
                cluster[behind],
                np.full(count, WaitReason.PROMISED, dtype=np.int8),
                retry_after_s=np.full(count, max(_PROMISED_RETRY_S, waits_table.expiry_s)),
                now_s=self._now_s,
            )

    def _note_fault(self, class_id: int, fault: Fault) -> None:
        """Have a class that a plugin of the decision turned away wait at every cluster that was asked for it."""
        state, found = self._state, self._state.classes.ids.find(class_id)
        for index, classes, _ in self._lacking if found is not None else ():
            if found not in classes or state.clusters.session[index] != self._session[index]:
                continue
            reason = WaitReason.PLUGIN if fault.is_objection else WaitReason.FAULT
            one = np.array([found], dtype=np.int64)
            retry_s = np.array([fault.retry_after_s])
            state.waits.wait(one, index, np.array([reason], dtype=np.int8), retry_after_s=retry_s, now_s=self._now_s)
            state.totals["faults"] += reason == WaitReason.FAULT
            state.answers[int(one[0]), index] = ClassResult(
                reason=reason,
                text=f"{fault.plugin}: {fault.reason}",
                round_number=self._number,
            )


def _or_all(values: npt.NDArray[Any], default: float, count: int) -> npt.NDArray[Any]:
    """Return values, or if there are none the same one for each of several classes."""
    return values if values.size else np.full(count, default)

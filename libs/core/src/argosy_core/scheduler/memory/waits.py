"""Why each class gets no node of each cluster now, and when that ends.

A pair (class, cluster) without a reason may be asked. One with a reason is not asked until its sampler says that the
class fits some node (`wake`), the sampler begins a new session (`clear_cluster`), or the reason expires. Every reason
expires, so that nothing waits for ever on news that was lost or on a filter whose answer changes with time.

Source: design section 5, "Round" 2 and 5; seed 000 "Sampling Phase".
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int64s, has_true, spread
from argosy_core.placement import ANY_KIND, WaitReason
from argosy_core.scheduler.columns.codes import REASON_FAULT, REASON_NO_ROOM, REASON_NONE

__all__ = ["UNKNOWN_ROOM", "WaitTable"]

FAULT_BACK_OFF_MAX_S: Final = 60.0
"""Longest time until a class is asked again whose filter failed, seconds; the first is one second, doubled by each."""
UNKNOWN_ROOM: Final = np.iinfo(np.int32).max
_MOST_FAULTS: Final = 6
"""Doublings after which the back-off is the longest."""
_EXPIRING_TOGETHER_S: Final = 1.0
"""Reasons are looked through at most this often, so that those which end at about one time cost one round."""


class WaitTable:
    """Reasons by (class index, cluster index).

    Args:
        expiry_s: How long a reason holds without news, seconds.
    """

    def __init__(self, expiry_s: float) -> None:
        """Start with no reasons."""
        self.expiry_s = expiry_s
        """How long a reason that is noted from now on holds without news, seconds."""
        self.reason: npt.NDArray[np.int8] = np.zeros((0, 0), dtype=np.int8)
        """(class, cluster) WaitReason; NONE, MISMATCH, NO_ROOM, PLUGIN or FAULT."""
        self.until_s: npt.NDArray[np.float64] = np.zeros((0, 0), dtype=np.float64)
        """(class, cluster) when the reason ends at the latest, seconds since the Unix epoch; infinite without one."""
        self.room: npt.NDArray[np.int32] = np.zeros((0, 0), dtype=np.int32)
        """(class, cluster) how many pods the sampler said fit, when it woke the class; UNKNOWN_ROOM otherwise."""
        self.fault_count: npt.NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        """(class, cluster) faults one after the other."""
        self.judged: npt.NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)
        """(class, cluster) whether the sampler has said, in its present session, whether its nodes match the class."""
        self.node_kinds: Int64s = np.zeros((0, 0), dtype=np.int64)
        """(class, cluster) which kinds of nodes could hold the class, a bit each, as its sampler said last in this
        session; -1 if it did not say."""
        self.next_end_s = math.inf
        """No reason ends before this."""

    def ensure(self, class_count: int, cluster_count: int) -> None:
        """Make room for classes and clusters."""
        rows, columns = self.reason.shape
        if class_count <= rows and cluster_count <= columns:
            return
        wide = max(cluster_count, columns)
        tall = max(class_count, 2 * rows) if class_count > rows else rows
        for name, fill in (
            ("reason", 0),
            ("until_s", math.inf),
            ("room", UNKNOWN_ROOM),
            ("fault_count", 0),
            ("judged", 0),
            ("node_kinds", ANY_KIND),
        ):
            old = getattr(self, name)
            grid = np.full((tall, wide), fill, dtype=old.dtype)
            grid[:rows, :columns] = old
            setattr(self, name, grid)

    def wait(
        self,
        classes: npt.NDArray[np.integer],
        cluster: int | Int64s,
        reasons: npt.NDArray[np.int8],
        *,
        retry_after_s: npt.NDArray[np.floating],
        now_s: float,
        node_kinds: Int64s | None = None,
    ) -> None:
        """Note reasons of classes at clusters.

        Args:
            classes: n class indices.
            cluster: n cluster indices, or one for all.
            reasons: n reasons, none of them NONE.
            retry_after_s: n times after which a plugin wants to be asked again, 0 if it does not say.
            now_s: Now.
            node_kinds: n sets of kinds of nodes as the sampler tells them, -1 where it does not; None if nowhere.
        """
        if node_kinds is not None:
            told = node_kinds != ANY_KIND
            self.node_kinds[classes[told], spread(cluster, classes.size, np.int64)[told]] = node_kinds[told]
        after_s = np.where(retry_after_s > 0, retry_after_s, self.expiry_s)
        counts: Int64s | int = 0
        is_fault = reasons == REASON_FAULT
        if has_true(is_fault):
            counts = np.where(is_fault, np.minimum(self.fault_count[classes, cluster] + 1, _MOST_FAULTS + 1), 0)
            after_s = np.where(is_fault, np.minimum(2.0 ** np.maximum(counts - 1, 0), FAULT_BACK_OFF_MAX_S), after_s)
        self.fault_count[classes, cluster] = counts
        self.judged[classes, cluster] = True
        self.reason[classes, cluster] = reasons
        self.until_s[classes, cluster] = now_s + after_s
        self.room[classes, cluster] = UNKNOWN_ROOM
        if after_s.size:
            self.next_end_s = min(self.next_end_s, now_s + float(after_s.min()))

    def answered(self, classes: npt.NDArray[np.integer], cluster: int | Int64s) -> None:
        """Note that classes were answered without a reason: what was said of them before is over.

        Args:
            classes: n class indices.
            cluster: n cluster indices, or one for all.
        """
        self.reason[classes, cluster] = REASON_NONE
        self.until_s[classes, cluster] = math.inf
        self.room[classes, cluster] = UNKNOWN_ROOM
        self.fault_count[classes, cluster] = 0
        self.judged[classes, cluster] = True

    def end(self, reason: WaitReason, clusters: npt.NDArray[np.integer]) -> None:
        """End a reason of all classes at some clusters."""
        clusters = clusters[clusters < self.reason.shape[1]]
        over = np.zeros_like(self.reason, dtype=np.bool_)
        over[:, clusters] = self.reason[:, clusters] == reason
        self.reason[over], self.until_s[over] = REASON_NONE, math.inf

    def hasten(
        self, reason: WaitReason, until_s: float, *, classes: npt.NDArray[np.integer] | None = None, cluster: int = -1
    ) -> None:
        """Have a reason end no later than at a moment.

        Args:
            reason: Which.
            until_s: The moment, seconds since the Unix epoch.
            classes: Class indices; of all classes by default.
            cluster: Cluster index; at all clusters by default.
        """
        columns = slice(None) if cluster < 0 else slice(cluster, cluster + 1)
        rows = slice(None) if classes is None else np.unique(classes[classes < self.reason.shape[0]])
        until = self.until_s[rows, columns]
        later = (self.reason[rows, columns] == reason) & (until > until_s)
        if has_true(later):
            self.until_s[rows, columns] = np.where(later, until_s, until)
            self.next_end_s = min(self.next_end_s, until_s)

    def wake(self, classes: npt.NDArray[np.integer], cluster: int, room: npt.NDArray[np.integer]) -> None:
        """Let classes be asked at a cluster, whose sampler says how many of their pods now fit there."""
        self.answered(classes, cluster)
        self.room[classes, cluster] = np.minimum(room, UNKNOWN_ROOM)

    def clear_cluster(self, cluster: int) -> None:
        """Forget all that was said of a cluster."""
        if cluster < self.reason.shape[1]:
            self.answered(np.arange(self.reason.shape[0]), cluster)
            self.judged[:, cluster] = False
            self.node_kinds[:, cluster] = ANY_KIND

    def clear_class(self, index: int) -> None:
        """Forget all that was said of a class."""
        if index < self.reason.shape[0]:
            self.reason[index], self.until_s[index] = REASON_NONE, math.inf
            self.room[index], self.fault_count[index], self.judged[index] = UNKNOWN_ROOM, 0, False
            self.node_kinds[index] = ANY_KIND

    def due_s(self, now_s: float) -> float:
        """Return when the next reason ends, seconds since the Unix epoch; infinite if none does.

        Complexity: O(classes x clusters) in NumPy where a reason was to end by now, since it may have ended before.
        """
        if self.next_end_s <= now_s:
            self.next_end_s = float(self.until_s.min(initial=math.inf))
        return self.next_end_s

    def expire(self, now_s: float) -> bool:
        """End the reasons whose time is over; return whether there were any. Faults are still counted.

        Whether nodes match is to be judged anew, but for classes that just had no room.
        """
        if now_s < self.next_end_s:
            return False
        over = self.until_s <= now_s
        self.judged[over & (self.reason != REASON_NO_ROOM)] = False
        self.reason[over] = REASON_NONE
        self.until_s[over] = math.inf
        self.next_end_s = max(float(self.until_s.min(initial=math.inf)), now_s + _EXPIRING_TOGETHER_S)
        return bool(has_true(over))

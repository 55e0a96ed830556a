"""Durable permits: what pods may have at most, noted on the pods themselves, for the sampler that comes after this one.

A new sampler does not know what the one before it has permitted, so it books every scaled pod at its maximum until its
agent reports. A note (`PERMIT_ANNOTATION`) says it instead: the sampler process that wrote it, and amounts that no
permit of the pod is told above. It is written ahead:

- A permit above what the note says is booked, and told once a note that allows it is written.
- A note is lowered only for a pod that an agent holds and that has asked for nothing for a while, to what it may have;
  from the moment that the write is sent nothing above it is told, whether it comes to pass or not.
- Each write names the note that it replaces, and does nothing if the pod has another; no two notes are equal. A new
  sampler begins by putting its own name on the note. From then on no write of its predecessor can come to pass, and
  what that one has told is at most what the note says: the pod is booked at that.
- Of pods that the first full list has nothing is told before their notes are ours: a write that the process before us
  sent, and that comes late, would say less than what we have told. One thing is: a permit of that process that the
  agent has under a lease. A note was lowered only once the agent had told that it keeps no more, so none says less.
- Notes are replaced only of processes that the first full list names: any other is younger, and has taken the pod over.

A pod without a note may have been permitted its maximum; so may be one whose note cannot be read.

Source: seed 001 "Startup uncertainty: buffer"; docs/autoscale.md "Durable permits".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import PERMIT_ANNOTATION, SCALED, read_amounts
from argosy_core.ledger.scaled_pods import UNBOUNDED, ScaledPodTable
from argosy_core.resources import CPU

__all__ = ["NotedPermits", "PermitNote", "note_text", "read_note"]

_BY: Final = "by="
_RETRY_S: Final = 1.0
"""How long after a write that failed it is tried again."""
_LOOK_S: Final = 0.2
"""How often all pods are looked through for notes that nobody waits for: to do so whenever a note was written took 4 ms
each with 10,000 pods, more than the write itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitNote:
    """A note to be written."""

    uid: bytes
    """16 bytes: the pod."""
    before: str
    """Note that it replaces; empty for none. The pod has another: nothing is written."""
    after: str
    """The note."""


def note_text(process: str, number: int, amounts: Sequence[int]) -> str:
    """Return what is noted on a pod: who noted it, and what the pod may have.

    Args:
        process: Name of the sampler process, without a point.
        number: Number of the note among those of the process.
        amounts: By resource of SCALED, base units.
    """
    parts = [f"{name}={amount}{'m' if name == CPU else ''}" for name, amount in zip(SCALED, amounts, strict=True)]
    return ",".join([f"{_BY}{process}.{number}", *parts])


def read_note(text: str) -> tuple[str, tuple[int, ...]] | None:
    """Return process and amounts of a note; None if it is none."""
    name, _, rest = text.partition(",")
    process = name.removeprefix(_BY).partition(".")[0]
    try:
        return (process, read_amounts(PERMIT_ANNOTATION, rest)) if name.startswith(_BY) else None
    except InvalidRequest:
        return None


class NotedPermits:
    """The notes of one cluster's scaled pods.

    Args:
        pods: The pods; `noted`, `kept`, `needs_note`, `has_own_note`, `is_noting` and `note_again_s` are changed here
            only.
        process: Name of this sampler process; empty if notes are neither written nor heeded.
        quiet_s: How long a pod has asked for nothing before its note is lowered, seconds.
    """

    def __init__(self, pods: ScaledPodTable, process: str, *, quiet_s: float) -> None:
        """Know of no note."""
        self._pods = pods
        self._process = process
        self._quiet_s = quiet_s
        self._count = 0
        self._before: set[str] = set()
        """Processes whose notes the first full list has: those before this one. Any other is younger."""
        self._sent: dict[bytes, tuple[int, str, Int64s]] = {}
        """By uid: row, text and amounts of the note that is being written."""
        self._held_back: dict[int, None] = {}
        """Rows whose permits wait for a note to be told, in their order."""
        self._due: dict[int, None] = {}
        """Rows whose notes are to be written once nobody waits, as they were looked through last."""
        self._behind_count = 0
        """How many of them were to be raised."""
        self._look_at_s = 0.0
        """When all pods are looked through again."""

    def see(self, row: int, text: str, *, is_first_list: bool) -> None:
        """Take in the note that a pod was seen with, empty for none; what we wrote ourselves is known."""
        pods = self._pods
        pods.needs_note[row] |= is_first_list and bool(self._process)
        if not self._process or pods.has_own_note[row] or pods.is_noting[row] or text == pods.note.get(row, ""):
            return
        if is_first_list and (note := read_note(text)) is not None:
            self._before.add(note[0])
        self._take_found(row, text)

    def _take_found(self, row: int, text: str) -> bool:
        """Take in a note that is not ours; return whether we may replace it, which a younger process's we may not."""
        pods, note = self._pods, read_note(text)
        if note is not None and (pods.has_own_note[row] or note[0] not in self._before):
            pods.note_again_s[row] = np.inf
            return False
        pods.note[row], pods.has_own_note[row] = text, False
        pods.noted[:, row] = UNBOUNDED if note is None else note[1]
        return True

    def keep(self, rows: Int32s, permitted: Bools) -> None:
        """Take in which pods an agent has just announced with no more than a permit under a lease that it has."""
        pods = self._pods
        pods.kept[:, rows] = np.where(permitted, pods.permit[:, rows], 0)

    def may_tell(self, rows: Int32s) -> Int32s:
        """Return those rows whose permits may be told: their notes allow them; the others' notes are written first."""
        if not self._process:
            return rows
        pods = self._pods
        is_within = (pods.permit[:, rows] <= pods.noted[:, rows]).all(axis=0)
        is_kept = (pods.permit[:, rows] <= pods.kept[:, rows]).all(axis=0)
        is_allowed = is_within & (is_kept | ~pods.needs_note[rows])
        self._held_back.update(dict.fromkeys(rows[~is_allowed].tolist()))
        allowed: Int32s = rows[is_allowed]
        return allowed

    def limit(self, rows: Int32s, most: Int64s) -> Int64s:
        """Return (resource, n) what pods may have been permitted by the process before this one.

        Args:
            rows: n rows.
            most: (resource, n) their maxima, which is what it is without a note of ours.
        """
        pods = self._pods
        known = pods.noted[:, rows]
        unsure: Int64s = np.where(known == UNBOUNDED, most, np.maximum(most, known))
        return np.where(pods.has_own_note[rows] & (known != UNBOUNDED), known, unsure)

    def begin(self, now_s: float, most_count: int) -> list[PermitNote]:
        """Return notes to be written now, the most urgent first; each counts as under way until `end`.

        Where more pods wait to be told than may be written at once, as after a start, notes are raised to the maximum:
        a pod then waits for one write, however fast it grows, and the API server need not take more than it can.

        Args:
            now_s: The present by the ledger's clock, seconds.
            most_count: Most notes under way at once.

        Complexity: O(notes) in NumPy, and every `_LOOK_S` O(scaled pods).
        """
        if not self._process:
            return []
        is_crowded = max(len(self._held_back), self._behind_count) > most_count
        begun: list[PermitNote] = []
        while self._held_back and len(self._sent) < most_count:
            begun += self._begin(_pop(self._held_back, most_count - len(self._sent)), now_s, is_crowded=is_crowded)
        if not self._due and now_s >= self._look_at_s:
            self._look_at_s = now_s + min(_LOOK_S, self._quiet_s / 10)
            rows = self._pods.live()
            raised, taken_over, lowered = self._kinds(rows, now_s)
            self._behind_count = int(np.count_nonzero(raised))
            self._due = dict.fromkeys(row for kind in (raised, taken_over, lowered) for row in rows[kind].tolist())
        while self._due and len(self._sent) < most_count:
            begun += self._begin(_pop(self._due, most_count - len(self._sent)), now_s, is_crowded=is_crowded)
        return begun

    def _begin(self, rows: Int32s, now_s: float, *, is_crowded: bool) -> list[PermitNote]:
        """Return notes of those among some pods that need one."""
        pods = self._pods
        raised, taken_over, lowered = self._kinds(rows, now_s)
        noted, permit = pods.noted[:, rows], pods.permit[:, rows]
        most = np.maximum(pods.most[:, rows], permit)
        ahead = np.minimum(np.maximum(2 * permit, noted * (noted < UNBOUNDED)), most)
        ahead = np.where(raised & is_crowded, most, np.maximum(ahead, permit))
        amounts = np.where(raised, ahead, np.where(lowered, permit, noted))
        chosen = np.flatnonzero(raised | taken_over | lowered)
        return [self._write(int(rows[at]), amounts[:, at]) for at in chosen.tolist()]

    def _kinds(self, rows: Int32s, now_s: float) -> tuple[Bools, Bools, Bools]:
        """Return, of pods, whose note is to be raised, taken over or lowered now."""
        pods = self._pods
        noted, permit, held = pods.noted[:, rows], pods.permit[:, rows], pods.session[rows] != 0
        is_free: Bools = (pods.slot[rows] >= 0) & ~pods.is_noting[rows] & (pods.note_again_s[rows] <= now_s)
        grows = np.asarray((permit > noted).any(axis=0))
        raised = is_free & (grows | pods.needs_note[rows]) & held
        # An uncertain pod's note becomes ours as it is: what the process before us has told is within it.
        is_unsure = (pods.floor[:, rows] > noted).any(axis=0)
        taken_over = is_free & is_unsure & ~held & ~pods.has_own_note[rows]
        is_quiet = pods.asked_s[rows] + self._quiet_s <= now_s
        is_less = (permit < np.minimum(noted, pods.most[:, rows])).any(axis=0)
        is_settled = (permit == pods.wanted[:, rows]).all(axis=0) & (permit > 0).all(axis=0)
        return raised, taken_over, is_free & held & is_quiet & is_less & is_settled & ~raised

    def _write(self, row: int, amounts: Int64s) -> PermitNote:
        self._count += 1
        pods, text = self._pods, note_text(self._process, self._count, amounts.tolist())
        uid = pods.uid[row].tobytes()
        # What is lowered counts from when it is sent; what is raised, from when it is known to be written.
        pods.noted[:, row] = np.minimum(pods.noted[:, row], amounts)
        pods.is_noting[row] = True
        self._sent[uid] = row, text, amounts
        return PermitNote(uid=uid, before=pods.note.get(row, ""), after=text)

    def end(self, uid: bytes, found: str | None, now_s: float) -> int:
        """Take in how a write ended; return the pod's row if its note is as it was to be, else 0.

        Args:
            uid: The pod.
            found: Note that the pod has now; None if that is not known.
            now_s: The present by the ledger's clock, seconds.
        """
        sent = self._sent.pop(uid, None)
        if sent is None:
            return 0
        row, text, amounts = sent
        pods = self._pods
        if pods.slot[row] < 0 or pods.uid[row].tobytes() != uid:
            return 0  # the pod went meanwhile
        pods.is_noting[row] = False
        if found == text:
            pods.note[row] = text
            pods.noted[:, row] = amounts
            pods.has_own_note[row], pods.needs_note[row] = True, False
            return row
        pods.note_again_s[row] = now_s + _RETRY_S
        if found is None:
            return 0
        note = read_note(found)
        if note is not None and note[0] == self._process:  # one whose end was not known had come to pass
            pods.note[row], pods.has_own_note[row] = found, True
        elif self._take_found(row, found):
            pods.note_again_s[row] = now_s
        return 0


def _pop(waiting: dict[int, None], most_count: int) -> Int32s:
    """Take the first rows out of those that wait."""
    rows = list(itertools.islice(waiting, most_count))
    for row in rows:
        del waiting[row]
    return np.array(rows, np.int32)

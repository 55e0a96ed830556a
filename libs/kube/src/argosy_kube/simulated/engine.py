"""The engine of the simulated cluster: pure state, moved by create, delete, node changes and the passing of time.

Pods go pending -> running -> succeeded or failed; a pod for which its node has no room fails with OutOf<resource>.
Everything is done for whole batches, so that a pod's life costs a few microseconds.

Source: design sections 5 and 7 (what a cluster does wrong), 8 (cost).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.errors import NotFound
from argosy_core.job.tables.members import member_of
from argosy_core.reconcile import Creates, Deletes
from argosy_core.resources import CPU
from argosy_kube.port import (
    POD_KIND,
    Change,
    CreateCode,
    CreateResult,
    DeleteCode,
    DeleteResult,
    Int16Array,
    Int32Array,
    Int64Array,
    NodeDescription,
    PodPhase,
)
from argosy_kube.simulated.creation import CreateResponse, Intake, read_recipes
from argosy_kube.simulated.faults import Audit, Fault, FaultKind, PendingFaults
from argosy_kube.simulated.journal import Journal
from argosy_kube.simulated.objects import GONE, SLOT_MASK, ObjectTable
from argosy_kube.simulated.recipes import RecipeCache
from argosy_kube.simulated.rooms import Rooms
from argosy_kube.simulated.sizes import PodSizes
from argosy_kube.simulated.tables import NodeTable
from argosy_kube.simulated.tally import Tally
from argosy_kube.simulated.timers import TimerWheel
from argosy_kube.tables import RequestTable, TextTable

__all__ = ["ClusterEngine"]

_OBJECT_BITS: Final = 5  # a bag has at most 32 objects
_NO_INSTALLATION: Final = -1
_ENDLESS_US: Final = 1 << 60
_KILLED_EXIT_CODE: Final = 137
_REFUSALS: Final[dict[FaultKind, CreateCode]] = {
    "create-rejected": CreateCode.REJECTED,
    "create-quota": CreateCode.QUOTA,
    "create-foreign": CreateCode.EXISTS,
}


class ClusterEngine:
    """All state of one simulated cluster. Times are microseconds since the Unix epoch and never go back."""

    def __init__(self, *, uid: str, start_us: int, speed: float, rng: np.random.Generator) -> None:
        """Start empty.

        Args:
            uid: Uid of the cluster.
            start_us: Now; versions start here, so that those of an earlier life are too old.
            speed: Simulated seconds per real second, above 0.
            rng: Draws run times and uids.
        """
        self.uid = uid
        self.speed = speed
        self.now_us = start_us
        self.texts = TextTable()
        self.kinds = TextTable((POD_KIND,))
        self.installations = TextTable()
        self.requests = RequestTable()
        self.nodes = NodeTable(self.requests)
        self.faults = PendingFaults()
        self._rng = rng
        self._objects = ObjectTable(rng.bytes(8))
        self.journal = Journal(self._objects, self.nodes, start_us)
        """What happened, as watchers see it."""
        self._recipes = RecipeCache(self.requests, self.kinds, self.texts)
        self._slot_of: dict[int, int] = {}
        self._timers = TimerWheel(start_us)
        self._late: Int32Array = np.zeros(0, dtype=np.int32)
        self._tally = Tally()
        self._rooms = Rooms(self._objects, self.nodes, self.requests, texts=self.texts, tally=self._tally)
        self.sizes = PodSizes(self._objects, self.nodes, self.requests, journal=self.journal, tally=self._tally)
        """What resizes pods."""

    # --- time ---------------------------------------------------------------------------------------------------------

    def touch(self, now_us: int) -> None:
        """Let time pass without looking at pods; what is done next happens then."""
        if now_us > self.now_us:
            self._tally.core_us += self._tally.running_millicores * (now_us - self.now_us) * self.speed / 1000
            self.now_us = now_us

    def advance(self, now_us: int) -> None:
        """Let time pass: start and end the pods whose moment has come."""
        self.touch(now_us)
        if due := self._timers.take_due(self.now_us):
            self._fire(np.array(due, dtype=np.int64))

    def _fire(self, keys: Int64Array) -> None:
        objects = self._objects
        slots = (keys & SLOT_MASK).astype(np.int32)
        slots = slots[objects.low[slots] == keys]
        phases = objects.phase[slots]
        running = phases == PodPhase.RUNNING
        if not running.all():
            self._start(slots[phases == PodPhase.PENDING], Change.MODIFIED)
            slots = slots[running]
        if self.nodes.unheard:
            reachable = self.nodes.reachable[objects.node[slots]]
            self._late = np.concatenate([self._late, slots[~reachable]])
            slots = slots[reachable]
        self._end(slots, "")

    def _start(self, slots: Int32Array, change: Change) -> None:
        """Let pods run: those of nodes that are not reachable stay as they are."""
        objects = self._objects
        if self.nodes.unheard:
            slots = slots[self.nodes.reachable[objects.node[slots]]]
        if not len(slots):
            return
        objects.phase[slots] = PodPhase.RUNNING
        chained = objects.chained[slots]
        if chained.any():
            self._count_doubles(slots[chained])
        objects.started_us[slots] = self.now_us
        self._book_running(slots, 1)
        self._tally.max_running = max(self._tally.max_running, self._tally.running)
        self._set_timers(slots, self.now_us + objects.run_us[slots])
        self.journal.tell(change, slots, PodPhase.RUNNING, self.now_us)

    def _end(self, slots: Int32Array, reason: str) -> None:
        """Let running pods end by themselves, or fail for a reason."""
        if not len(slots):
            return
        objects = self._objects
        if reason:
            objects.reason[slots] = self.texts.intern(reason)
            objects.exit_code[slots] = _KILLED_EXIT_CODE
        else:
            objects.exit_code[slots] = objects.planned_exit_code[slots]
        codes = objects.exit_code[slots]
        phases = np.where(codes == 0, np.int8(PodPhase.SUCCEEDED), np.int8(PodPhase.FAILED))
        self._book_running(slots, -1)
        objects.phase[slots] = phases
        self._rooms.leave(slots)
        succeeded = int(np.count_nonzero(phases == PodPhase.SUCCEEDED))
        self._tally.succeeded += succeeded
        self._tally.failed += len(slots) - succeeded
        self.journal.tell(Change.MODIFIED, slots, phases, self.now_us)

    def _set_timers(self, slots: Int32Array, deadlines_us: Int64Array) -> None:
        self._timers.add(deadlines_us.tolist(), self._objects.low[slots].tolist())

    def _book_running(self, slots: Int32Array, sign: int) -> None:
        objects = self._objects
        self._tally.running += sign * len(slots)
        own = slots[objects.installation[slots] != _NO_INSTALLATION] if self._tally.unmanaged_pods else slots
        millicores = self.requests.matrix[objects.request[own], self.requests.axis.index(CPU)]
        self._tally.running_millicores += sign * int(millicores.sum())

    def _count_doubles(self, slots: Int32Array) -> None:
        """Count pods that start while another attempt of the same object of that member runs."""
        objects = self._objects
        members = member_of(objects.ordinal)
        for slot in slots.tolist():
            other = self._slot_of.get(self._key(slot), -1)
            while other >= 0:
                is_same = other != slot and members[other] == members[slot]
                if is_same and objects.phase[other] == PodPhase.RUNNING:
                    self._tally.double += 1
                other = int(objects.previous[other])

    def _key(self, slot: int) -> int:
        return int(self._objects.handle[slot]) << _OBJECT_BITS | int(self._objects.object[slot])

    # --- creating -----------------------------------------------------------------------------------------------------

    def create(self, batch: Creates, installation: int) -> CreateResult:
        """Create objects as the port says; pods without a start delay run at once."""
        answer = CreateResponse(len(batch))
        if self.faults.take("create-throttled"):
            return answer.unknown("too many requests, try again")
        hide = bool(self.faults.take("create-timeout"))
        self._recipes.trim()
        recipes = read_recipes(batch, self._recipes, answer)
        rows = np.flatnonzero(recipes >= 0)
        for kind, code in _REFUSALS.items():
            count = self.faults.take(kind, len(rows))
            if count:
                answer.refuse(rows[:count], code, f"refused on order: {kind}")
                rows = rows[count:]
        keys = (batch.handle_column << _OBJECT_BITS) | batch.object_column
        intake = Intake(batch, recipes, installation, answer, keys)
        found = keys.tolist() if len(rows) == len(batch) else keys[rows].tolist()
        if len(set(found)) == len(found) and self._slot_of.keys().isdisjoint(found):
            self._insert(intake, rows)
        else:
            self._insert_with_conflicts(intake, rows)
        return answer.unknown("time-out, it is not known what was done") if hide else answer.result()

    def _insert_with_conflicts(self, intake: Intake, rows: Int64Array) -> None:
        """Insert what is new in one step, then the rest one by one in order."""
        batch, objects = intake.batch, self._objects
        seen: set[int] = set()
        fresh: list[int] = []
        rest: list[tuple[int, int]] = []
        for row, key in zip(rows.tolist(), intake.keys[rows].tolist(), strict=True):
            if key in self._slot_of or key in seen:
                rest.append((row, key))
            else:
                fresh.append(row)
            seen.add(key)
        self._insert(intake, np.array(fresh, dtype=np.int64))
        for row, key in rest:
            slot = self._slot_of.get(key, -1)
            while slot >= 0 and objects.ordinal[slot] != batch.ordinal_column[row]:
                slot = int(objects.previous[slot])
            if slot < 0:
                self._insert(intake, np.array([row], dtype=np.int64))
                continue
            is_ours = bool(objects.installation[slot] == intake.installation)
            intake.answer.exists(row, objects.uids(np.array([slot], dtype=np.int32))[0], is_ours=is_ours)
            if is_ours:
                intake.answer.existing_handle[row] = objects.handle[slot]
                intake.answer.existing_ordinal[row] = objects.ordinal[slot]

    def _insert(self, intake: Intake, rows: Int64Array) -> None:
        """Make the objects of some rows; several rows only if none of them stands beside another."""
        if not len(rows):
            return
        batch, objects = intake.batch, self._objects
        part: slice | Int64Array = slice(None) if len(rows) == len(batch) else rows
        recipe = intake.recipes[part]
        node_of = np.array([*map(self.nodes.find, batch.nodes), -1], dtype=np.int32)
        slots = self._add(
            recipe,
            runs=(batch.handle_column[part], batch.ordinal_column[part], batch.object_column[part]),
            nodes=node_of[batch.node_column[part]],
            installation=intake.installation,
        )
        keys = intake.keys[part].tolist()
        older = self._slot_of.get(keys[0], -1) if len(keys) == 1 else -1
        if older >= 0:
            objects.previous[slots] = older
            objects.chained[slots] = True
            objects.chained[older] = True
        self._slot_of.update(zip(keys, slots.tolist(), strict=True))
        intake.answer.created(rows, objects.uids(slots))
        self._admit_all(slots, recipe)

    def _add(
        self,
        recipe: Int32Array,
        *,
        runs: tuple[Int64Array, Int64Array, Int16Array],
        nodes: Int32Array,
        installation: int,
    ) -> Int32Array:
        """Put new objects into the table, with run times drawn; return their slots."""
        recipes, count = self._recipes, len(recipe)
        times, rest = recipes.times_us[recipe], recipes.columns[recipe]
        wide = np.zeros((count, 8), dtype=np.int64)
        wide[:, 2], wide[:, 5] = runs[0], runs[1]
        wide[:, 6] = self._draw(times[:, 0], times[:, 1])
        narrow = np.full((count, 8), -1, dtype=np.int32)
        narrow[:, 0] = nodes
        narrow[:, 1] = 0
        narrow[:, 3] = rest[:, 1]
        narrow[:, 4] = rest[:, 3]
        narrow[:, 6] = rest[:, 2]
        small = np.empty((count, 3), dtype=np.int16)
        small[:, 0] = installation
        small[:, 1] = rest[:, 0]
        small[:, 2] = runs[2]
        if rest[:, 0].any():
            narrow[rest[:, 0] > 0, 0] = -1
        return self._objects.add(wide, narrow, small)

    def _draw(self, least_us: Int64Array, most_us: Int64Array) -> Int64Array:
        """Return real durations for simulated ones, drawn evenly between two ends."""
        spread = most_us - least_us
        drawn = least_us + spread * self._rng.random(len(spread)) if spread.any() else least_us
        real_us: Int64Array = np.minimum(drawn / self.speed, _ENDLESS_US).astype(np.int64)
        return real_us

    def _admit_all(self, slots: Int32Array, recipe: Int32Array) -> None:
        """Do what kubelets do with new pods, and tell of all new objects."""
        objects, recipes = self._objects, self._recipes
        if objects.kind[slots].any():
            pods = objects.kind[slots] == 0
            others = slots[~pods]
            objects.phase[others] = PodPhase.RUNNING
            self.journal.tell(Change.ADDED, others, PodPhase.RUNNING, self.now_us)
            slots, recipe = slots[pods], recipe[pods]
        self._tally.created += len(slots)
        failed = self._rooms.admit(slots)
        if failed is None:
            if not (recipes.has_delay or self.nodes.unheard or self.faults.has("image-never-pulls")):
                self._start(slots, Change.ADDED)
                return
            failed = np.zeros(len(slots), dtype=np.bool_)
        starts = ~(failed | ~self.nodes.reachable[objects.node[slots]])
        healthy = np.flatnonzero(starts)
        if taken := self.faults.take("image-never-pulls", len(healthy)):
            starts[healthy[:taken]] = False
            objects.reason[slots[healthy[:taken]]] = self.texts.intern("ImagePullBackOff")
        if recipes.has_delay:
            times = recipes.times_us[recipe]
            delays = self._draw(times[:, 2], times[:, 3])
            delayed = starts & (delays > 0)
            self._set_timers(slots[delayed], self.now_us + delays[delayed])
            starts &= ~delayed
        self.journal.tell(Change.ADDED, slots[~starts & ~failed], PodPhase.PENDING, self.now_us)
        self.journal.tell(Change.ADDED, slots[failed], PodPhase.FAILED, self.now_us)
        self._start(slots[starts], Change.ADDED)

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, batch: Deletes) -> DeleteResult:
        """Delete objects by uid, at once."""
        slots = self._objects.find(batch.uid_column)
        codes = np.where(slots < 0, np.int8(DeleteCode.GONE), np.int8(DeleteCode.DELETED)).astype(np.int8)
        rows = np.flatnonzero(slots >= 0)
        if len(rows) and len(set(slots[rows].tolist())) < len(rows):
            _, first = np.unique(slots[rows], return_index=True)
            repeated = np.delete(rows, first)
            codes[repeated] = DeleteCode.GONE
            rows = rows[np.sort(first)]
        self._remove(slots[rows])
        return DeleteResult(code_column=codes)

    def _remove(self, slots: Int32Array) -> None:
        if not len(slots):
            return
        objects = self._objects
        pods = slots[objects.kind[slots] == 0]
        phases = objects.phase[pods]
        running = pods[phases == PodPhase.RUNNING]
        if len(running):
            self._book_running(running, -1)
        self._tally.killed += int(np.count_nonzero(phases <= PodPhase.RUNNING))
        self._tally.unmanaged_pods -= int(np.count_nonzero(objects.installation[pods] == _NO_INSTALLATION))
        self._rooms.leave(pods)
        self.journal.tell(Change.DELETED, slots, objects.phase[slots].copy(), self.now_us)
        own = slots[objects.installation[slots] != _NO_INSTALLATION]
        if objects.chained[own].any():
            for slot in own.tolist():
                self._unlink(slot)
        else:
            keys = (objects.handle[own] << _OBJECT_BITS) | objects.object[own]
            deque(map(self._slot_of.__delitem__, keys.tolist()), maxlen=0)
        objects.phase[slots] = GONE

    def _unlink(self, slot: int) -> None:
        """Take a slot out of the chain of attempts and members that have its object."""
        objects, key = self._objects, self._key(slot)
        previous, head = int(objects.previous[slot]), self._slot_of[key]
        if head != slot:
            while objects.previous[head] != slot:
                head = int(objects.previous[head])
            objects.previous[head] = previous
        elif previous >= 0:
            self._slot_of[key] = previous
        else:
            del self._slot_of[key]

    # --- nodes, unmanaged pods, failures ------------------------------------------------------------------------------

    def put_node(self, node: NodeDescription) -> None:
        """Add a node or change it."""
        _, is_new = self.nodes.put(node)
        self.journal.tell_node(Change.ADDED if is_new else Change.MODIFIED, node)

    def remove_node(self, name: str) -> None:
        """Take a node away together with its pods.

        Raises:
            NotFound: There is no such node.
        """
        index = self._node(name)
        self._remove(self._objects.pods_on(index))
        self.nodes.remove(index)
        self.journal.tell_node(Change.DELETED, self.nodes.descriptions[index])

    def add_unmanaged_pods(self, node: str, amounts: dict[str, int], count: int) -> None:
        """Put pods of somebody else on a node; they run until their node goes.

        Raises:
            NotFound: There is no such node.
        """
        index = self._node(node)
        recipe = np.full(count, self._recipes.unmanaged_pod(amounts), dtype=np.int32)
        objects = self._objects
        runs = (np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int16))
        nodes = np.full(count, index, dtype=np.int32)
        slots = self._add(recipe, runs=runs, nodes=nodes, installation=_NO_INSTALLATION)
        objects.name[slots] = [self.texts.intern(f"unmanaged-{low}") for low in objects.low[slots].tolist()]
        self._tally.unmanaged_pods += count
        self._admit_all(slots, recipe)

    def inject(self, fault: Fault) -> None:
        """Make a failure happen, now or at the next chance.

        Raises:
            NotFound: The fault names a node that is not there.
        """
        if fault.kind == "watch-dropped":
            self.journal.drops += 1
        elif fault.kind == "watch-stale":
            self.journal.forget()
        elif fault.kind == "node-lost":
            self.remove_node(fault.node)
        elif fault.kind == "node-unreachable":
            self._set_reachable(fault.node, reachable=False)
        elif fault.kind == "node-recovered":
            self._set_reachable(fault.node, reachable=True)
        elif fault.kind == "node-evicts":
            slots = self._objects.pods_on(self._node(fault.node))
            self._end(slots[self._objects.phase[slots] == PodPhase.RUNNING], "Evicted")
        else:
            self.faults.order(fault.kind, fault.count)

    def _set_reachable(self, name: str, *, reachable: bool) -> None:
        index = self._node(name)
        self.nodes.put(replace(self.nodes.descriptions[index], ready=reachable))
        self.journal.tell_node(Change.MODIFIED, self.nodes.descriptions[index])
        slots = self._objects.pods_on(index)
        phases = self._objects.phase[slots]
        running = slots[phases == PodPhase.RUNNING]
        self.journal.tell(Change.MODIFIED, running, PodPhase.RUNNING if reachable else PodPhase.UNKNOWN, self.now_us)
        if not reachable:
            return
        pending = slots[phases == PodPhase.PENDING]
        self._start(pending[self._objects.reason[pending] < 0], Change.MODIFIED)
        here = np.isin(self._late, running)
        late, self._late = self._late[here], self._late[~here]
        self._end(late, "")

    def _node(self, name: str) -> int:
        index = self.nodes.find(name)
        if index < 0:
            raise NotFound(f"there is no node {name!r}")
        return index

    def audit(self) -> Audit:
        """Return what was counted so far."""
        return self._tally.audit(
            self.nodes, self.requests.axis, pod_count=self._objects.pods().size, now_us=self.now_us, speed=self.speed
        )

"""What a world begins with: clusters, queues, classes, and jobs with when they come and how long they run.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import DAY_SHIFT, NOBODY, compose_id
from argosy_core.job.reading.after import AfterJobs, AfterUntil
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.families import Parent, family_marks
from argosy_core.job.reading.options import JobOptions
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules, with_rules
from argosy_core.job.reading.scaling import SCALED, Scaling
from argosy_core.job.tables.members import member_of, place_of
from argosy_core.nodes import NodeSpec
from argosy_core.queueing import QueueLimits
from argosy_core.resources import PODS
from argosy_core.scheduler import JobColumns, JobSetView, QueueView, SpecReference

__all__ = [
    "CONFIG_MAP",
    "POD",
    "REPLACING_LAYOUTS",
    "START_US",
    "ChangeRequestPlan",
    "JobIndex",
    "ScalingPlan",
    "WorldPlan",
]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

START_US: Final = 1_000_000_000_000
"""Moment at which time begins, microseconds since the Unix epoch."""
POD: Final = "Pod"
CONFIG_MAP: Final = "ConfigMap"
_DAY: Final = 20_000
_VERSION: Final = 7 << 12
"""Upper half of an id that is well formed."""
_FIRST_HANDLE: Final = (_DAY << DAY_SHIFT) + 1
_LAYOUTS: Final = (
    (POD,), (CONFIG_MAP, POD), (POD, POD), (CONFIG_MAP, POD, POD, POD), (CONFIG_MAP, POD), (POD,), (CONFIG_MAP, POD)
)  # fmt: skip
_STOP_AFTER_S: Final = (0.0, 0.0, 0.0, 0.0, 40.0, 0.0, 0.0)
"""For how long jobs of each layout wait for an executor that is not heard of; 0 for ever."""
REPLACING_LAYOUTS: Final = (5, 6)
"""Layouts of jobs of which members are replaced while the others run: lost ones, and all."""
_RULES: Final = tuple(
    RetryRules(stop_after_s=stop_after_s, replaced_members=replaced)
    for stop_after_s, replaced in zip(
        _STOP_AFTER_S, (*[ReplacedMembers.NONE] * 5, ReplacedMembers.LOST, ReplacedMembers.ALL), strict=True
    )
)
_BODIES: Final = tuple(
    json.dumps([{"kind": kind} for kind in kinds], separators=(",", ":")).encode() for kinds in _LAYOUTS
)


_POD_PLACES: Final = tuple(tuple(place for place, kind in enumerate(kinds) if kind == POD) for kinds in _LAYOUTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestPlan:
    """A change request that somebody will have for some jobs."""

    at_s: float
    """When, seconds from the start."""
    jobs: tuple[int, ...]
    """Which jobs."""
    priority: int | None = None
    """New priority, if it is to change."""
    held: bool | None = None
    """True to hold, False to release; None for neither."""
    preempt: bool = False
    """To preempt. Without any of the three, to cancel."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScalingPlan:
    """What pods would use while they run, so that agents resize them, up to what they ask for."""

    uses: npt.NDArray[np.float64]
    """(machine, step) part of what a pod asks for that it would use, from 0 to 1: job i does as machine i does, counted
    around, from its start on, and again from the first step."""
    step_s: float
    """Length of a step, seconds; as often do agents look."""
    units: int = 8
    """How many compute units a pod's request is; it has one at least."""

    def __post_init__(self) -> None:
        """Refuse uses that are none.

        Raises:
            InvalidRequest: There is no machine or step, a use is not from 0 to 1, or step or units are none.
        """
        if self.uses.ndim != 2 or not self.uses.size or not ((self.uses >= 0) & (self.uses <= 1)).all():
            raise InvalidRequest("what pods use must be a table of machines and steps, each value from 0 to 1")
        if not 0 < self.step_s < float("inf") or self.units < 1:
            raise InvalidRequest("the step of what pods use must be above 0 seconds, and their units at least 1")

    def use_ratios(self, jobs: Int64s, ages_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return which part of what they ask for pods would use.

        Args:
            jobs: (n,) indices of their jobs.
            ages_s: (n,) for how long each has run, seconds.
        """
        steps = (ages_s / self.step_s).astype(np.int64) % self.uses.shape[1]
        ratios: npt.NDArray[np.float64] = self.uses[jobs % len(self.uses), steps]
        return ratios


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorldPlan:
    """A world before its first moment; columns have one element per job, in order of submit."""

    clusters: tuple[tuple[str, tuple[NodeSpec, ...]], ...]
    """(name, nodes) of each cluster."""
    queues: tuple[tuple[str, float], ...]
    """(name, weight) of each queue; ids are 1, 2, ..."""
    classes: tuple[SchedulingClass, ...]
    """Scheduling classes; ids are 1, 2, ..."""
    job_sets: tuple[tuple[int, str], ...]
    """(index of the queue, name) of each job set; ids are 1, 2, ..."""
    submit_s: npt.NDArray[np.float64]
    """When each job is submitted, seconds from the start, ascending."""
    run_s: npt.NDArray[np.float64]
    """How long its first pod runs, each further one half as long again; infinite for pods that never end by
    themselves."""
    class_index: Int32s
    """Index into `classes`."""
    job_set: Int32s
    """Index into `job_sets`; gives the queue."""
    priority: Int32s
    """Priorities, higher first."""
    exit_code: Int32s
    """Exit code of the first pod, the others succeed; 0 is success."""
    layout: Int32s
    """0: one pod; 1: a config map and a pod; 2: two pods; 3: a config map and three pods; 4: as 1, of a job that waits
    40 s for an executor that is not heard of."""
    change_requests: tuple[ChangeRequestPlan, ...] = ()
    """ChangeRequests, in order of time."""
    options: JobOptions | None = None
    """What submitters say of jobs; None if nothing is said of any."""
    submitter: Int32s | None = None
    """Numbers of jobs' submitters (`job.identity.submitter_number`), `NOBODY` where that is not known; None if no job's
    is."""
    after: Mapping[int, tuple[AfterUntil, tuple[int, ...]]] = field(default_factory=dict)
    """Job -> what it waits for, and the earlier jobs that it waits for."""
    families: Mapping[int, int] = field(default_factory=dict)
    """Job -> the earlier job with which it ends."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Name of a queue -> name of the one above it."""
    limits: Mapping[str, QueueLimits] = field(default_factory=dict)
    """Limits of queues that have any, by name."""
    delegated: frozenset[str] = frozenset()
    """Names of clusters that place by themselves from the start."""
    scaling: ScalingPlan | None = None
    """What pods would use; None if nothing is resized."""

    def __post_init__(self) -> None:
        """Refuse columns that do not fit each other.

        Raises:
            InvalidRequest: Lengths differ, submits do not ascend, or an index points nowhere.
        """
        columns = (self.run_s, self.class_index, self.job_set, self.priority, self.exit_code, self.layout)
        if any(len(column) != len(self.submit_s) for column in (*columns, self.submitters())):
            raise InvalidRequest("the columns of the jobs differ in length")
        if len(self) and (self.submit_s[0] < 0 or (np.diff(self.submit_s) < 0).any()):
            raise InvalidRequest("jobs must be in order of their submit times, from 0 on")
        for column, size in (
            (self.class_index, len(self.classes)),
            (self.job_set, len(self.job_sets)),
            (self.layout, len(_LAYOUTS)),
        ):
            if len(self) and not 0 <= int(column.min()) <= int(column.max()) < size:
                raise InvalidRequest("a job names a class, job set or layout that does not exist")

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)

    def submitters(self) -> Int32s:
        """Return the number of each job's submitter, `NOBODY` where it is not known."""
        return np.full(len(self), NOBODY, dtype=np.int32) if self.submitter is None else self.submitter


@dataclass(slots=True)
class JobIndex:
    """Looks jobs up by handle, and makes their columns."""

    plan: WorldPlan
    """The world's plan."""
    definitions: dict[int, bytes] = field(init=False)
    """Class id -> definition."""
    specs: tuple[SpecReference, ...] = field(init=False)
    """One per layout."""
    has_several_pods: bool = field(init=False)
    """Whether there are bags of several pods."""

    def __post_init__(self) -> None:
        """Make definitions and specs."""
        self.has_several_pods = any(len(_POD_PLACES[layout]) > 1 for layout in np.unique(self.plan.layout).tolist())
        self.definitions = {number: c.definition() for number, c in enumerate(self.plan.classes, 1)}
        self.specs = tuple(
            SpecReference(
                hash=hashlib.blake2b(body + b" " * _spec_mark(place), digest_size=16).digest(),
                day=_DAY,
                layout=_layout_json(_LAYOUTS[place], _RULES[place]),
            )
            for place, body in enumerate(_BODIES)
        )

    def index(self, handle: int) -> int:
        """Return the index of a job."""
        return handle - _FIRST_HANDLE

    def handles(self, rows: npt.NDArray[np.integer]) -> Int64s:
        """Return the handles of some jobs."""
        return rows.astype(np.int64) + _FIRST_HANDLE

    def body_of(self, spec_hash: bytes) -> bytes:
        """Return the body of a spec."""
        return next(body for spec, body in zip(self.specs, _BODIES, strict=True) if spec.hash == spec_hash)

    def kinds_of(self, handle: int) -> tuple[str, ...]:
        """Return the kinds of the objects of a job's bag in order."""
        return _LAYOUTS[self.plan.layout[self.index(handle)]]

    def stop_after_s(self, handle: int) -> float:
        """Return for how long a job waits for an executor that is not heard of, seconds; 0 for ever."""
        return _STOP_AFTER_S[self.plan.layout[self.index(handle)]]

    def class_of(self, handle: int) -> int:
        """Return the index of a job's class."""
        return int(self.plan.class_index[self.index(handle)])

    def pods_of(self, handle: int) -> tuple[int, ...]:
        """Return the positions of a job's pods in its bag."""
        return _POD_PLACES[self.plan.layout[self.index(handle)]]

    def requests_of(self, handle: int, ordinal: int, position: int) -> tuple[tuple[str, int], ...]:
        """Return what a pod asks for, itself included: an even share of its member's class, the last one the rest."""
        definition = self.plan.classes[self.class_of(handle)]
        requests = definition.requests
        if definition.gang:
            requests = definition.gang[definition.member_groups[place_of(member_of(ordinal))]].pod.requests
        pods = self.pods_of(handle)
        if len(pods) > 1:
            is_last = position == pods[-1]
            parts = [(name, *divmod(amount, len(pods))) for name, amount in requests]
            requests = tuple((name, share + rest * is_last) for name, share, rest in parts)
        return (*requests, (PODS, 1))

    def scaling_of(self, handle: int) -> Scaling | None:
        """Return within what the pod of a job is resized; None if it is not, as one of several pods.

        It begins with what it asks for, which is the most that it may have.
        """
        plan = self.plan.scaling
        if plan is None:
            return None
        definition = self.plan.classes[self.class_of(handle)]
        amounts = dict(definition.requests)
        most = tuple(amounts.get(name, 0) for name in SCALED)
        unit = tuple(amount // plan.units for amount in most)
        if definition.gang or len(self.pods_of(handle)) > 1 or min(unit) < 1:
            return None
        return Scaling(least=unit, most=most, unit=unit)

    def run_s(self, handle: int, position: int) -> float:
        """Return how long a pod runs, seconds; infinite if it never ends by itself."""
        return float(self.plan.run_s[self.index(handle)]) * (1.0 + 0.5 * self.pods_of(handle).index(position))

    def exit_code(self, handle: int, position: int) -> int:
        """Return how a pod ends."""
        return int(self.plan.exit_code[self.index(handle)]) if position == self.pods_of(handle)[0] else 0

    def queues(self) -> list[QueueView]:
        """Return the queues as a leader loads them."""
        return [
            QueueView(
                queue_id=i,
                name=name,
                weight=weight,
                parent=self.plan.parents.get(name, ""),
                limits=self.plan.limits.get(name, QueueLimits()),
            )
            for i, (name, weight) in enumerate(self.plan.queues, 1)
        ]

    def job_set_views(self, last_numbers: dict[int, int]) -> list[JobSetView]:
        """Return job sets by id, each with the number of its last event."""
        return [
            JobSetView(
                job_set_id=job_set_id,
                queue_id=self.plan.job_sets[job_set_id - 1][0] + 1,
                name=self.plan.job_sets[job_set_id - 1][1],
                last_event_number=last,
            )
            for job_set_id, last in last_numbers.items()
        ]

    def _after(self, rows: Int64s) -> AfterJobs | None:
        """Return which jobs some jobs wait for; None if they wait for none."""
        pairs = [
            (row, other, until)
            for row in (rows.tolist() if self.plan.after else ())
            for until, others in [self.plan.after.get(row, (AfterUntil.ENDED, ()))]
            for other in others
        ]
        if not pairs:
            return None
        waiting, others, untils = np.array(pairs, dtype=np.int64).T.copy()
        other = self.handles(others)
        return AfterJobs(
            handle=self.handles(waiting),
            other_high=other * 7,
            other=other,
            until=untils.astype(np.int8),
            state=np.zeros(len(pairs), dtype=np.int8),
        )

    def _metadata(self, rows: Int64s) -> tuple[Int32s, tuple[bytes, ...]]:
        """Return the metadata of some jobs, by index; children alone have any."""
        texts: dict[bytes, int] = {}
        index = np.full(rows.size, -1, dtype=np.int32)
        for place, row in enumerate(rows.tolist() if self.plan.families else ()):
            parent = self.plan.families.get(row)
            if parent is None:
                continue
            handle = int(self.handles(np.array([parent]))[0])
            labels, annotations = family_marks(Parent(job_id=compose_id(_VERSION, handle)), 1, may_have_children=False)
            text = json.dumps({"labels": labels, "annotations": annotations}, separators=(",", ":")).encode()
            index[place] = texts.setdefault(text, len(texts))
        return index, tuple(texts)

    def columns(self, rows: Int64s, submit_time_us: Int64s, priority: Int32s) -> JobColumns:
        """Return the columns of some jobs.

        Args:
            rows: Indices of jobs.
            submit_time_us: When each was accepted.
            priority: Priorities as they are now.
        """
        plan = self.plan
        handle, job_set = self.handles(rows), plan.job_set[rows]
        queue = np.array([queue + 1 for queue, _ in plan.job_sets], dtype=np.int32)
        metadata_index, metadata = self._metadata(rows)
        return JobColumns(
            handle=handle,
            id_high=handle * 7,
            queue=queue[job_set],
            job_set=job_set.astype(np.int64) + 1,
            class_id=plan.class_index[rows] + np.int32(1),
            priority=priority,
            submit_time_us=submit_time_us,
            spec=plan.layout[rows],
            metadata_index=metadata_index,
            metadata=metadata,
            specs=self.specs,
            options=None if plan.options is None else plan.options[rows],
            after=self._after(rows),
            submitter=None if plan.submitter is None else plan.submitter[rows],
        )


def _spec_mark(layout: int) -> int:
    """Return what tells a spec from others of the same body: nothing where it has no rules."""
    return layout if _RULES[layout] != RetryRules() else 0


def _layout_json(kinds: tuple[str, ...], rules: RetryRules) -> bytes:
    """Return a layout as it travels."""
    layout = ("[" + ",".join(f'["{kind}","o{place}"]' for place, kind in enumerate(kinds)) + "]").encode()
    return with_rules(layout, rules) if rules != RetryRules() else layout

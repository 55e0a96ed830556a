"""States of jobs, runs and objects: one table that says what may follow what, and who writes it.

::

    job:  queued -> leased -> running -> succeeded | failed | cancelled
            ^          |         |
            +----------+---------+   (requeued: the run was lost, returned or preempted)

    run:  leased -> created -> running -> succeeded | failed | cancelled | preempted | returned | lost
                                 ^ |
                                 | v
                               unknown

*Pending* is an order in the leader's memory and no state. An object of a run (one Kubernetes object of the bag) goes
through the run's states, except that an object is never returned or preempted by itself.

Rules:

* Reports may come late, twice, or in gulps (a pod that was seen first when it had already ended). They apply by rank:
  never backwards, and a terminal state absorbs all that comes after it. `RUN_MAY_FOLLOW`, which is the table of runs
  as an array, says so for the scheduler and the reconciler, and they drop the rest.
* The events of a job that the scheduler writes follow the table of jobs. `next_job_state` raises `InvalidTransition`
  for an event that does not; the simulated worlds ask it of every event, services do not (decision 0010).
* What the pod did wins over what was asked: `resolve_ends`.

Source: design section 4, "States and rows"; codes are those of the protobuf enums of the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation
from argosy_core.job.failure_kind import FailureKind

__all__ = [
    "FAILURE_REASONS",
    "IS_RUN_TERMINAL",
    "JOB_TRANSITIONS",
    "RUN_MAY_FOLLOW",
    "RUN_RANKS",
    "RUN_TRANSITIONS",
    "FailureKind",
    "InvalidTransition",
    "JobEventKind",
    "JobStage",
    "JobState",
    "ObjectState",
    "RunState",
    "Writer",
    "may_follow",
    "next_job_state",
    "resolve_ends",
]


class JobState(IntEnum):
    """State of a job; codes as in argosy.api.v1.JobState."""

    QUEUED = 1
    """Waits for its turn or for room."""
    LEASED = 2
    """Has a run with a cluster and a node."""
    RUNNING = 3
    """Its pods run."""
    SUCCEEDED = 4
    """All its pods ended with success."""
    FAILED = 5
    """It failed and is not tried again."""
    CANCELLED = 6
    """It was cancelled."""


class JobStage(IntEnum):
    """Where a job stands, closer than its state; codes as in argosy.api.v1.JobStage."""

    QUEUED = 1
    """Waits for its turn."""
    PENDING = 2
    """Waits, and is a waiting head."""
    IN_FLIGHT = 3
    """Has a run that is not stored yet."""
    LEASED = 4
    """Has a run."""
    RUNNING = 5
    """Its pods run."""
    SUCCEEDED = 6
    """Ended with success."""
    FAILED = 7
    """Failed, and is not tried again."""
    CANCELLED = 8
    """Was cancelled."""


class RunState(IntEnum):
    """State of a run, which is one attempt at a job."""

    LEASED = 1
    """The lease is stored, no pod was reported yet."""
    CREATED = 2
    """Its pods exist."""
    RUNNING = 3
    """Its pods run."""
    SUCCEEDED = 4
    """All its pods ended with success."""
    FAILED = 5
    """A pod failed, or an object could not be made."""
    CANCELLED = 6
    """Its objects were deleted because the job was cancelled."""
    LOST = 7
    """A pod was reported once and is gone though nobody of ours deleted it."""
    UNKNOWN = 8
    """Its node does not answer; it may run or not."""
    RETURNED = 9
    """The cluster could not place it; no pod ever existed."""
    PREEMPTED = 10
    """Its objects were deleted to make room."""


class ObjectState(IntEnum):
    """State of one Kubernetes object of a run; codes as in argosy.executor.v1.ObjectState."""

    LEASED = 1
    """The row exists, the object not yet."""
    CREATED = 2
    """The object exists; a pod has not started."""
    RUNNING = 3
    """The pod runs; for other kinds, the object is there."""
    SUCCEEDED = 4
    """The pod ended with success."""
    FAILED = 5
    """The pod ended with failure, or the object could not be made."""
    CANCELLED = 6
    """The object was deleted, or never made, because the run was stopped."""
    LOST = 7
    """The object existed and is gone though nobody of ours deleted it."""
    UNKNOWN = 8
    """The cluster cannot tell (node unreachable)."""


FAILURE_REASONS: Final[Mapping[FailureKind, str]] = {
    FailureKind.NONE: "",
    FailureKind.EXIT_CODE: "a container ended with a non-zero exit code",
    FailureKind.OUT_OF_MEMORY: "a container used more memory than its limit",
    FailureKind.EVICTED: "the pod was evicted",
    FailureKind.IMAGE: "the image could not be had",
    FailureKind.INFRASTRUCTURE: "the node or cluster failed",
    FailureKind.REJECTED: "the cluster refused an object of the job",
    FailureKind.TIME_LIMIT: "the run took longer than its time limit",
    FailureKind.RETURNED: "no node of the cluster holds it",
}
"""Short text for people for each kind of failure, used where the executor gave no message."""


class JobEventKind(IntEnum):
    """What happened to a job; codes as in argosy.api.v1.JobEventKind."""

    SUBMITTED = 1
    """Accepted."""
    LEASED = 2
    """Given a cluster and a node."""
    CREATED = 3
    """Its pod exists."""
    RUNNING = 4
    """Its pod runs."""
    SUCCEEDED = 5
    """Ended with success."""
    FAILED = 6
    """Ended with failure."""
    CANCELLED = 7
    """Ended because it was cancelled."""
    CANCEL_REQUESTED = 8
    """Somebody asked to cancel it."""
    REPRIORITIZED = 9
    """Its priority changed."""
    REQUEUED = 10
    """Its run was lost, returned or preempted; it waits again."""
    UNKNOWN = 11
    """Its node does not answer."""
    HELD = 12
    """Somebody holds it back."""
    RELEASED = 13
    """It is held no longer."""
    MEMBER_LEASED = 14
    """Its run was given a further member, or one in the place of another."""
    MEMBER_RUNNING = 15
    """Such a member runs."""
    MEMBER_ENDED = 16
    """A member ended, and the run goes on."""


class Writer(Enum):
    """Who writes a transition: one writer per fact."""

    API = "api"
    """Any API replica, in the transaction of the request."""
    LEADER = "leader"
    """The pool's leader, in an epoch-checked transaction."""


class InvalidTransition(InvariantViolation):
    """An event that cannot happen in the present state.

    Args:
        subject: What it happened to, as `job 0190...` or `run 17/2`.
        state: The present state, None before the first.
        event: The event.
        history: Events before it, oldest first, as far as the caller knows them.
    """

    def __init__(
        self, subject: str, state: IntEnum | None, event: IntEnum, *, history: Iterable[IntEnum | str] = ()
    ) -> None:
        """Keep all four as attributes."""
        self.history = tuple(history)
        told = (item if isinstance(item, str) else item.name.lower() for item in self.history)
        story = " -> ".join(told) or "none known"
        present = "nothing" if state is None else state.name.lower()
        super().__init__(f"{subject} is {present}, so {event.name.lower()} cannot follow; history: {story}")
        self.subject = subject
        self.state = state
        self.event = event


_LEADER_ENDS: Final = {
    JobEventKind.SUCCEEDED: JobState.SUCCEEDED,
    JobEventKind.FAILED: JobState.FAILED,
    JobEventKind.CANCELLED: JobState.CANCELLED,
}
_CHANGE_REQUESTS: Final = (
    JobEventKind.CANCEL_REQUESTED,
    JobEventKind.REPRIORITIZED,
    JobEventKind.HELD,
    JobEventKind.RELEASED,
)


def _job_transitions() -> dict[tuple[JobState | None, JobEventKind], tuple[JobState, Writer]]:
    """Return the table of jobs."""
    queued, leased, running = JobState.QUEUED, JobState.LEASED, JobState.RUNNING
    table: dict[tuple[JobState | None, JobEventKind], tuple[JobState, Writer]] = {
        (None, JobEventKind.SUBMITTED): (queued, Writer.API),
        (queued, JobEventKind.LEASED): (leased, Writer.LEADER),
        # Ten failed attempts end a job that never had a run.
        (queued, JobEventKind.FAILED): (JobState.FAILED, Writer.LEADER),
        # A job without a run ends in the transaction of the change request.
        (queued, JobEventKind.CANCELLED): (JobState.CANCELLED, Writer.API),
        (leased, JobEventKind.CREATED): (leased, Writer.LEADER),
        # A node that did not answer is back.
        (running, JobEventKind.RUNNING): (running, Writer.LEADER),
    }
    for state in (queued, leased, running):
        for change_request in _CHANGE_REQUESTS:
            table[state, change_request] = (state, Writer.API)
    for state in (leased, running):
        # Whoever cannot be asked must be taken for running.
        table[state, JobEventKind.UNKNOWN] = (running, Writer.LEADER)
        table[state, JobEventKind.REQUEUED] = (queued, Writer.LEADER)
        for event in (JobEventKind.MEMBER_LEASED, JobEventKind.MEMBER_RUNNING, JobEventKind.MEMBER_ENDED):
            table[state, event] = (state, Writer.LEADER)
        for event, end in _LEADER_ENDS.items():
            table[state, event] = (end, Writer.LEADER)
    table[leased, JobEventKind.RUNNING] = (running, Writer.LEADER)
    return table


def _run_transitions() -> dict[tuple[RunState | None, RunState], tuple[RunState, Writer]]:
    """Return the table of runs; the event of a run is the state that is reported of it."""
    table: dict[tuple[RunState | None, RunState], tuple[RunState, Writer]] = {
        (None, RunState.LEASED): (RunState.LEASED, Writer.LEADER)
    }
    ends = (
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.CANCELLED,
        RunState.LOST,
        RunState.RETURNED,
        RunState.PREEMPTED,
    )
    follows: dict[RunState, tuple[RunState, ...]] = {
        # States may be overtaken: a run can be seen first when its pod has already ended.
        RunState.LEASED: (RunState.CREATED, RunState.RUNNING, RunState.UNKNOWN, *ends),
        # A pod that was created was placed, so it cannot be returned any more.
        RunState.CREATED: (RunState.RUNNING, RunState.UNKNOWN, *(end for end in ends if end != RunState.RETURNED)),
        RunState.RUNNING: (RunState.UNKNOWN, *(end for end in ends if end != RunState.RETURNED)),
        RunState.UNKNOWN: (RunState.RUNNING, *(end for end in ends if end != RunState.RETURNED)),
    }
    for state, reports in follows.items():
        for report in reports:
            table[state, report] = (report, Writer.LEADER)
    return table


JOB_TRANSITIONS: Final[Mapping[tuple[JobState | None, JobEventKind], tuple[JobState, Writer]]] = _job_transitions()
"""(state before or None, event) -> (state after, who writes it)."""

RUN_TRANSITIONS: Final[Mapping[tuple[RunState | None, RunState], tuple[RunState, Writer]]] = _run_transitions()
"""(state before or None, state reported) -> (state after, who writes it). Objects follow the same table."""


def _frozen(values: Sequence[int]) -> npt.NDArray[np.int8]:
    """Return a read-only lookup array."""
    array = np.array(values, dtype=np.int8)
    array.flags.writeable = False
    return array


RUN_RANKS: Final = _frozen([0, 1, 2, 3, 4, 4, 4, 4, 3, 4, 4])
"""int8[11] by RunState or ObjectState: unknown stands beside running, terminal states share the top; 0 is no run."""
IS_RUN_TERMINAL: Final[npt.NDArray[np.bool_]] = np.equal(RUN_RANKS, RUN_RANKS.max())
"""bool[11] by RunState or ObjectState."""
IS_RUN_TERMINAL.flags.writeable = False


def _may_follow() -> npt.NDArray[np.bool_]:
    """Return the run table as a matrix [before, reported]."""
    matrix = np.zeros((len(RUN_RANKS), len(RUN_RANKS)), dtype=np.bool_)
    for before, reported in RUN_TRANSITIONS:
        matrix[0 if before is None else before, reported] = True
    # Whoever has not heard of an object takes any state as its first.
    matrix[0, 1:] = True
    matrix.flags.writeable = False
    return matrix


RUN_MAY_FOLLOW: Final = _may_follow()
"""bool[11, 11] by (state before, state reported); row 0 stands for nothing known before."""
_MAY_FOLLOW: Final = RUN_MAY_FOLLOW.reshape(-1)
_STATE_COUNT: Final = np.array(len(RUN_RANKS), dtype=np.int8)


def may_follow(before: npt.NDArray[np.int8], reported: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Return which reported states follow those before, as `RUN_MAY_FOLLOW` says; costs less for a few elements.

    Args:
        before: int8[n], states before.
        reported: int8[n], states reported.
    """
    return _MAY_FOLLOW[(before * _STATE_COUNT + reported).astype(np.intp)]


_FAILED: Final = np.int8(ObjectState.FAILED)
_END_WITHOUT_A_WORD: Final = _frozen([ObjectState.LOST, ObjectState.CANCELLED])
"""By whether the deletion was sent."""


def next_job_state(
    state: JobState | None, event: JobEventKind, *, subject: str = "job", history: Iterable[IntEnum | str] = ()
) -> JobState:
    """Return the state of a job after an event.

    Args:
        state: State before, None for a job that is not there yet.
        event: What happened.
        subject: Who it happened to, for the error.
        history: What happened before, oldest first, for the error; read only then.

    Raises:
        InvalidTransition: The event cannot happen in this state.
    """
    row = JOB_TRANSITIONS.get((state, event))
    if row is None:
        raise InvalidTransition(subject, state, event, history=history)
    return row[0]


def resolve_ends(
    pod_states: npt.NDArray[np.int8], stop_sent: npt.NDArray[np.bool_], gone: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int8]:
    """Return the states to report of pods, given what was done to them.

    Success always wins over a cancel request. A pod that fails after its deletion was sent was killed by it, so the
    request explains the end; a failure seen before is the pod's own. A pod that is gone without a word was cancelled
    if we deleted it, and is lost otherwise.

    Args:
        pod_states: int8[n], ObjectState as the pods show it.
        stop_sent: bool[n], their deletion was sent before.
        gone: bool[n], they do not exist any more.

    Source: design section 4, "what the pod did wins over what was asked for".
    """
    killed = stop_sent & (pod_states == _FAILED)
    speechless = gone & ~IS_RUN_TERMINAL[pod_states]
    return np.where(killed | speechless, _END_WITHOUT_A_WORD[stop_sent.view(np.int8)], pod_states)

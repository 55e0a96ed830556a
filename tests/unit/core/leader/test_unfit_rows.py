"""What stands in the database and cannot be used costs the jobs that need it, and never the term."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.core.leader.told import (
    DEFINITION,
    EXECUTOR,
    NOBODY,
    Told,
    candidates,
    connect,
    lead,
    loaded,
    placed,
    submitted,
)

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.leader import instructions as say
from argosy_core.leader.events import Change, ChangesRead, MarkerPublished, Published, References, RowsLost, Stored
from argosy_core.leader.intake import join_jobs
from argosy_core.scheduler import (
    ChangeRequestColumns,
    JobColumns,
    QueueView,
    RoundSettings,
    RoundStateColumns,
    SpecReference,
    check_invariants,
    define_classes,
)
from argosy_core.scheduler.columns.codes import JOB_CANCELLED
from argosy_core.scheduler.memory.live_classes import MAX_RESOURCES

FAILED, EVENT_SUBMITTED, EVENT_FAILED = 5, 1, 6


def jobs_of(event: ChangesRead) -> JobColumns:
    """Return the jobs that a change accepts."""
    (change,) = event.changes
    assert change.jobs is not None
    return change.jobs


def with_jobs(event: ChangesRead, **columns: Any) -> ChangesRead:
    """Return a change whose jobs have other columns."""
    (change,) = event.changes
    return replace(event, changes=(replace(change, jobs=replace(jobs_of(event), **columns)),))


def with_class(event: ChangesRead, class_id: int, definition: bytes | None) -> ChangesRead:
    """Return a change whose jobs are of a class; None if that is not stored."""
    classes = {class_id: definition} if definition is not None else {}
    event = with_jobs(event, class_id=np.full(jobs_of(event).handle.size, class_id, dtype=np.int32))
    return replace(event, references=replace(event.references, classes=classes))


def asking_for(*names: str) -> bytes:
    """Return the definition of a class that asks for resources."""
    return SchedulingClass(requests=(("cpu", 1000), *((name, 1) for name in names))).definition()


def cycle(told: Told, *events: ChangesRead) -> say.Store:
    """Tell changes, have them taken, and return the transaction; samplers place what they are asked for."""
    told.tell(*events)
    told.pass_time(told.settings.window_idle_s)
    if say.SendSample in told.kinds():
        told.tell(candidates(told.one(say.SendSample)))
        told.tell(placed(told.one(say.SendCommit)))
        told.tell(Published(position=2))
    return told.one(say.Store)


def failed_of(store: say.Store) -> dict[int, str]:
    """Return why jobs fail in a transaction."""
    return {
        handle: ends.reasons[reason]
        for ends in store.transaction.job_ends
        for handle, state, reason in zip(
            ends.handle.tolist(), ends.state.tolist(), ends.reason_index.tolist(), strict=True
        )
        if state == FAILED
    }


LAYOUTS = {"broken": b"[[", "nothing": b"", "no pod": b"[]", "a number": b"7", "deep": b"[" * 100_000}
CLASSES = {
    "no JSON": b"{", "no requests": b"{}", "an amount that is none": b'{"requests": {"cpu": "many"}}',
    "infinite": b'{"requests": {"cpu": 1e999}}', "deep": b"[" * 100_000, "not stored": None,
    "more resources than are counted": asking_for(*(f"x.io/{number}" for number in range(MAX_RESOURCES))),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_job_whose_spec_cannot_be_read_fails_with_that_and_others_go_on(name: str) -> None:
    """Its events say that it was accepted and that it failed; a job of the same change is leased."""
    told = lead()
    connect(told)
    good = SpecReference(hash=bytes(16), day=1, layout=b'[["Pod","work"]]')
    bad = SpecReference(hash=b"\1" * 16, day=1, layout=LAYOUTS[name])
    event = with_jobs(submitted(5, 10, 11), specs=(good, bad), spec=np.array([0, 1], dtype=np.int32))

    store = cycle(told, event)

    assert list(failed_of(store)) == [11]
    assert b"\1".hex() * 16 in failed_of(store)[11]
    kinds = [kind for draft in store.transaction.events for kind in draft.kind[draft.handle == 11].tolist()]
    assert kinds[0] == EVENT_SUBMITTED
    assert len(kinds) == 2
    assert store.transaction.new_runs is not None
    assert store.transaction.new_runs.handle.tolist() == [10]
    check_invariants(told.machine.state)


@pytest.mark.parametrize("name", CLASSES)
def test_a_job_whose_class_cannot_be_used_fails_with_that_and_others_go_on(name: str) -> None:
    """Malformed, or with more resources than are counted, or not stored at all."""
    told = lead()
    connect(told)
    bad = with_class(submitted(5, 11), 2, CLASSES[name])
    if CLASSES[name] is None:
        told.tell(bad)
        told.pass_time(told.settings.window_idle_s)  # is read again, once
    store = cycle(told, bad, submitted(6, 10))
    assert "scheduling class" in failed_of(store)[11]
    assert store.transaction.new_runs is not None
    assert store.transaction.new_runs.handle.tolist() == [10]
    check_invariants(told.machine.state)


def with_texts(event: ChangesRead, *texts: bytes) -> ChangesRead:
    """Return a change whose jobs have labels and annotations, one text each."""
    return with_jobs(event, metadata=texts, metadata_index=np.arange(len(texts), dtype=np.int32))


def test_a_job_whose_queue_has_all_the_labels_and_annotations_it_may_have_fails_with_that() -> None:
    """Equal ones count once; what ended jobs had is there for others again."""
    told = lead(round=RoundSettings(queue_metadata_bytes=100))
    connect(told)
    store = cycle(told, with_texts(submitted(5, 10, 11, 12), b"a" * 60, b"b" * 60, b"a" * 60))
    assert list(failed_of(store)) == [11]
    assert "labels and annotations of the open jobs of queue" in failed_of(store)[11]
    assert store.transaction.new_runs is not None
    assert store.transaction.new_runs.handle.tolist() == [10, 12]
    live = told.machine.state.live
    assert live.metadata_texts.bytes_of(int(live.queue[live.slots(np.array([10]))[0]])) == 60
    assert len(live.metadata_texts) == 1
    told.machine.state.remove_jobs(live.slots(np.array([10, 12])), JOB_CANCELLED)
    assert len(live.metadata_texts) == 0
    told.tell(Stored(number=store.number, refused=NOBODY))
    store = cycle(told, with_texts(submitted(6, 13), b"b" * 60))
    assert failed_of(store) == {}


def test_a_loaded_job_that_cannot_be_led_fails_after_its_submit_is_told() -> None:
    """Its change may not have been read yet, and SUBMITTED comes first."""
    told = Told()
    event = submitted(5, 11)
    jobs = replace(jobs_of(event), specs=(replace(jobs_of(event).specs[0], layout=b""),))
    pool = loaded()
    ones = np.zeros(1, dtype=np.int64)
    columns = replace(
        pool.columns, jobs=jobs, cancel_requested=ones.astype(np.int8), last_attempt=ones.astype(np.int32),
        failures=ones.astype(np.int32), failed_time_us=ones, job_sets=event.references.job_sets,
    )  # fmt: skip
    told.tell(MarkerPublished(position=1), replace(pool, columns=columns, classes={1: DEFINITION}), event)
    store = told.one(say.Store)
    assert "is not stored" in failed_of(store)[11]
    kinds = [kind for draft in store.transaction.events for kind in draft.kind.tolist()]
    assert kinds[0] == EVENT_SUBMITTED
    assert len(kinds) == 2


def test_a_job_without_a_job_set_stays_aside_and_others_go_on() -> None:
    """Its events could not be numbered; it stays as it is in the database."""
    told = lead()
    connect(told)
    event = with_jobs(submitted(5, 10, 11), job_set=np.array([1, 77], dtype=np.int64))
    told.tell(event)
    told.pass_time(told.settings.window_idle_s)  # is read again, once
    store = cycle(told, event)
    assert store.transaction.new_runs is not None
    assert store.transaction.new_runs.handle.tolist() == [10]
    assert told.machine.totals["quarantined"] == 1


def test_the_run_of_a_row_that_cannot_be_made_fails_and_its_job_with_it() -> None:
    """The session goes on, and the place is free again."""
    told = lead()
    connect(told)
    store = cycle(told, submitted(5, 10, 11))
    told.tell(Stored(number=store.number, refused=NOBODY))
    runs = Members.of([10], [1])
    told.tell(RowsLost(session=EXECUTOR, runs=runs, reason="its spec is not stored"))
    told.pass_time(1.0)
    assert failed_of(told.one(say.Store)) == {10: "its spec is not stored"}
    assert told.machine.is_live(EXECUTOR)
    check_invariants(told.machine.state)


def test_a_spec_of_yesterday_is_not_the_same_row_as_that_of_today() -> None:
    """Each job refers to the row of its own day, which lives as long as its job."""
    day_one, day_two = jobs_of(submitted(5, 10)), jobs_of(submitted(6, 11))
    day_two = replace(day_two, specs=(replace(day_two.specs[0], day=2),))
    joined = join_jobs([day_one, day_two, day_one])
    assert [joined.specs[index].day for index in joined.spec.tolist()] == [1, 2, 1]
    assert len(joined.specs) == 2


def test_a_queue_that_was_deleted_before_its_jobs_are_read_ends_no_term() -> None:
    """Create, submit, cancel, delete while nobody leads: the changes are read one by one, the queue is gone already."""
    told = Told(changes_per_round=1)
    told.tell(MarkerPublished(position=1), replace(loaded(), queues=()))
    queue = QueueView(queue_id=1, name="alice", weight=1.0)
    gone = References(queues=(queue,), deleted_queue_ids=(1,))
    told.tell(ChangesRead(changes=(Change(change_id=1),), references=gone))
    event = submitted(2, 10)
    references = replace(event.references, queues=(queue,), deleted_queue_ids=(1,))
    told.tell(replace(event, references=references))
    assert 1 in told.machine.state.queues.ids
    cancel = ChangeRequestColumns(
        handle=np.array([10]), kind=np.ones(1, dtype=np.int8), priority=np.zeros(1, dtype=np.int32),
        ended=np.ones(1, dtype=np.int8),
    )  # fmt: skip
    told.tell(ChangesRead(changes=(Change(change_id=3, requests=cancel),), references=gone))
    told.tell(Stored(number=1, refused=NOBODY))
    told.tell(ChangesRead(changes=(Change(change_id=4),), references=gone), ChangesRead(changes=()))
    assert told.machine.phase == "replay"
    assert 1 not in told.machine.state.queues.ids
    assert len(told.machine.state.live) == 0


def test_a_backlog_of_changes_is_read_in_pages_that_are_stored_one_by_one() -> None:
    """No more stands in memory than the line of transactions holds."""
    told = Told(changes_per_round=2)
    told.tell(MarkerPublished(position=1), loaded())
    number, most = 0, 0
    for page in range(50):
        while say.ReadChanges not in told.kinds():
            number += 1
            told.tell(Stored(number=number, refused=NOBODY))
        told.tell(ChangesRead(changes=tuple(Change(change_id=2 * page + place) for place in range(2))))
        most = max(most, told.machine.budget().changes)
    assert most <= 2 * (told.settings.store_limit + 3)
    assert number >= 50 - told.settings.store_limit - 2


def test_resources_that_nobody_names_any_more_make_room_for_others() -> None:
    """Four thousand names in turn are counted one after the other; the columns never outgrow the limit."""
    told = lead()
    connect(told)
    failed = 0
    for batch in range(40):
        names = [f"x.io/{batch}-{number}" for number in range(100)]
        event = with_class(submitted(batch, 1000 + batch), 2 + batch, asking_for(*names))
        cancel = ChangeRequestColumns(
            handle=np.array([1000 + batch]), kind=np.ones(1, dtype=np.int8), priority=np.zeros(1, dtype=np.int32),
            ended=np.zeros(1, dtype=np.int8),
        )  # fmt: skip
        store = cycle(told, event, ChangesRead(changes=(Change(change_id=1000 + batch, requests=cancel),)))
        failed += len(failed_of(store))
        told.tell(Stored(number=store.number, refused=NOBODY))
        assert len(told.machine.state.classes.axis) <= MAX_RESOURCES
        told.pass_time(1.0)
    assert failed == 0
    assert len(told.machine.state.classes.axis) < 110
    assert told.machine.state.clusters.total.shape[1] == len(told.machine.state.classes.axis)
    check_invariants(told.machine.state)


def test_a_job_that_failed_backs_off_under_the_next_leader_too() -> None:
    """A leader that comes and goes must not use up the attempts of a job in a moment."""
    told = Told()
    pool, jobs = loaded(), jobs_of(submitted(5, 11))
    columns = replace(
        pool.columns, jobs=jobs, cancel_requested=np.zeros(1, dtype=np.int8), last_attempt=np.array([4], np.int32),
        failures=np.array([4], np.int32),
        failed_time_us=np.full(1, told.moment.db_us - 1_000_000), job_sets=submitted(5, 11).references.job_sets,
    )  # fmt: skip
    told.tell(MarkerPublished(position=1), replace(pool, columns=columns, classes={1: DEFINITION}))
    settings = told.machine.state.settings
    ((moment_s, handle),) = told.machine.state.back_off
    assert handle == 11
    assert moment_s == pytest.approx(told.now_s - 1.0 + settings.back_off_initial_s * 2**3)
    check_invariants(told.machine.state)


def test_jobs_that_ask_for_more_than_any_pool_has_leave_usages_and_other_jobs_as_they_are() -> None:
    """Three jobs of `cpu: 4T`, three pods of `memory: 4E` together, and `cpu: 10T`, stored before such were refused."""
    told = lead()
    connect(told)
    trillion, exa = 10**12 * 1000, 10**18
    classes = ((("cpu", 4 * trillion),), (("cpu", 1000), ("memory", 12 * exa)), (("cpu", 10 * trillion),))
    for number, requests in enumerate(classes):
        definition = SchedulingClass(requests=requests).definition()
        jobs = range(100 * number + 100, 100 * number + 103)
        told.tell(with_class(submitted(10 + number, *jobs), 2 + number, definition))
    store = cycle(told, submitted(5, 10))
    assert store.transaction.new_runs is not None
    assert store.transaction.new_runs.handle.tolist() == [10]
    queues = told.machine.state.queues
    assert queues.usage.max() == 1_000_000
    assert queues.queued_usage.min() >= 0
    check_invariants(told.machine.state)


def test_a_stored_round_state_that_cannot_be_used_costs_the_flows_and_not_the_term() -> None:
    """No number, below nothing, endless, or from a clock that was ahead by a day."""
    told = Told()
    pool = loaded()
    for flow in (math.nan, math.inf, -1.0):
        state = RoundStateColumns(
            queue=np.array([1]), flow=np.array([flow]), flow_time_us=told.moment.db_us + 86_400_000_000,
            attempted_handle=NOBODY, failed_attempt=NOBODY.astype(np.int32),
        )  # fmt: skip
        told = Told()
        told.tell(MarkerPublished(position=1), replace(pool, columns=replace(pool.columns, round_state=state)))
        assert told.machine.state.queues.flow[0] == 0.0
        assert told.machine.state.flow_time_s == told.now_s
        check_invariants(told.machine.state)


def test_classes_of_four_thousand_resources_are_defined_in_linear_time() -> None:
    """Those beyond the limit are refused one by one, and cost no column; twice as many take twice as long at most."""
    told = lead()
    definitions = {
        2 + number: asking_for(*(f"x.io/{32 * number + place}" for place in range(32))) for number in range(125)
    }
    define_classes(told.machine.state, definitions)
    assert len(told.machine.state.classes.axis) <= MAX_RESOURCES
    assert len(told.machine.state.classes.refused) == 125 - 192 // 32 + 1
    assert told.machine.state.classes.requests.shape[1] == len(told.machine.state.classes.axis)

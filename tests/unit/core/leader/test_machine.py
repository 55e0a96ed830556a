"""The leader machine told by hand: what it answers to single events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.core.leader.told import (
    C1,
    EXECUTOR,
    NOBODY,
    SAMPLER,
    Told,
    candidates,
    capacity,
    connect,
    lead,
    loaded,
    placed,
    plan,
    running,
    submitted,
)

from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.members import Members
from argosy_core.leader import Phase
from argosy_core.leader import instructions as say
from argosy_core.leader.events import (
    Bound,
    CapacityTold,
    Change,
    ChangedSettings,
    ChangesRead,
    MarkerPublished,
    Published,
    ReadRecord,
    RecordsRead,
    References,
    Role,
    Session,
    SessionLost,
    StatesReported,
    Stored,
)
from argosy_core.leader.transaction import SetAside
from argosy_core.scheduler import ChangeRequestColumns, RoundSettings

# --- taking over ------------------------------------------------------------------------------------------------------


def test_a_term_begins_with_marker_load_changes_and_records_and_only_then_serves() -> None:
    """Nothing of an earlier leader can follow the marker, and changes come before the records that lease their jobs."""
    told = Told()
    assert told.kinds() == [say.PublishMarker]
    told.tell(MarkerPublished(position=2))
    assert told.kinds() == [say.Load]
    told.tell(loaded())
    assert told.kinds() == [say.ReadChanges]
    told.tell(submitted(1, 10))
    assert told.kinds() == [say.Store, say.ReadChanges], "as long as there are more"
    assert told.one(say.Store).transaction.change_ids == [1]
    told.tell(ChangesRead(changes=()))
    assert told.one(say.ReadRecords).after == 0
    told.tell(RecordsRead(records=tuple(ReadRecord(position=n, epoch=e, plan=None) for n, e in ((1, 2), (2, 3)))))
    assert told.kinds() == [say.Store, say.Store]
    assert [store.transaction.log for store in told.said] == [(0, 1), (1, 2)]
    told.tell(Stored(number=1, refused=NOBODY), Stored(number=2, refused=NOBODY))
    assert told.kinds() == []
    told.tell(Stored(number=3, refused=NOBODY))
    assert told.kinds() == [say.Serve]
    assert told.machine.phase is Phase.IDLE


def test_settings_that_change_while_a_term_begins_hold_from_its_first_round_on() -> None:
    """They may be read before what was loaded is taken in, after it, or both; the newest hold, whatever comes last."""
    first, second = (RoundSettings(half_time_s=half_time_s) for half_time_s in (60.0, 30.0))
    told = Told()
    told.tell(MarkerPublished(position=1), replace(loaded(), settings=ChangedSettings(version=4, round=first)))
    assert (told.machine.state.settings, told.machine.settings_version) == (first, 4)
    for version, settings, change_id in ((5, second, 8), (4, first, 9)):
        changed = References(settings=ChangedSettings(version=version, round=settings))
        told.tell(ChangesRead(changes=(Change(change_id=change_id),), references=changed))
        assert told.one(say.Store).transaction.change_ids == [change_id]
    told.tell(ChangesRead(changes=()), RecordsRead(records=(ReadRecord(position=1, epoch=3, plan=None),)))
    told.tell(*(Stored(number=number, refused=NOBODY) for number in (1, 2, 3)))
    assert told.machine.phase is Phase.IDLE
    assert (told.machine.state.settings, told.machine.settings_version) == (second, 5)


def test_a_stale_record_is_passed_over_and_one_of_no_leader_is_set_aside() -> None:
    """One of a higher epoch stands before a stale one; what nobody can have published is kept for people."""
    told = Told()
    told.tell(MarkerPublished(position=4), loaded(), ChangesRead(changes=()))
    records = [ReadRecord(position=position, epoch=epoch, plan=None) for position, epoch in ((1, 2), (2, 1), (3, 9))]
    told.tell(RecordsRead(records=(*records, ReadRecord(position=4, epoch=3, plan=None))))
    stores = [said for said in told.said if isinstance(said, say.Store)]
    assert [store.transaction.log for store in stores] == [(0, 1), (1, 3), (3, 4)]
    assert [bool(store.transaction.set_aside) for store in stores] == [False, True, False]


def test_a_log_that_ends_before_the_marker_ends_the_term() -> None:
    """Whoever lost what it took is not the log."""
    told = Told()
    told.tell(MarkerPublished(position=4), loaded(), ChangesRead(changes=()))
    with pytest.raises(InvariantViolation, match="before the marker"):
        told.tell(RecordsRead(records=()))


def test_another_log_than_the_one_applied_is_begun_at_the_marker() -> None:
    """What the database has not heard of never happened."""
    told = Told()
    told.tell(MarkerPublished(position=4), loaded(log_position=7), ChangesRead(changes=()))
    assert told.one(say.Store).transaction.log == (7, 4)
    assert told.one(say.Warn)


# --- the cycle --------------------------------------------------------------------------------------------------------


def test_a_job_goes_from_change_to_rows_and_rows_wait_for_the_commit() -> None:
    """Take, sample, commit, publish, store; only then does the executor hear of it."""
    told = lead()
    connect(told)
    publish = plan(told, 5, 10, 11)
    assert [record.handle.tolist() for record in publish.records] == [[10, 11]]
    assert publish.first_sequence == 2
    told.tell(Published(position=2))
    store = told.one(say.Store)
    assert told.kinds() == [say.Store]
    assert store.transaction.change_ids == [5]
    assert store.transaction.log == (1, 2)
    told.tell(Stored(number=store.number, refused=NOBODY))
    assert told.one(say.SendRows).rows.handle.tolist() == [10, 11]


def test_refused_leases_are_taken_back_and_their_rows_are_not_sent() -> None:
    """A cancel request came while the round ran; the sampler is told that the place is free."""
    told = lead(release_wait_s=0.0)
    connect(told)
    plan(told, 5, 10, 11)
    told.tell(Published(position=2))
    told.tell(Stored(number=told.one(say.Store).number, refused=np.array([10], dtype=np.int64)))
    assert told.one(say.SendRows).rows.handle.tolist() == [11]
    assert told.one(say.SendReleases).runs.members.handle.tolist() == [10]


def test_news_waits_for_more_until_the_window_ends() -> None:
    """A round begins when arrivals pause, and at the latest after the window."""
    told = lead()
    connect(told)
    for number in range(12):
        told.tell(submitted(number, 10 + number))
        assert told.pass_time(0.004) == [], number
    told.tell(submitted(12, 22))
    assert told.kinds() == []
    told.pass_time(0.002)
    assert told.one(say.SendSample)
    assert told.machine.totals["submitted"] == 13


def test_a_round_goes_on_without_a_sampler_that_does_not_answer() -> None:
    """After the timeout its answer counts for nothing, and another round tries again."""
    told = lead()
    connect(told)
    told.tell(submitted(5, 10))
    told.pass_time(told.settings.window_idle_s)
    late = candidates(told.one(say.SendSample))
    assert told.machine.due_s() == pytest.approx(told.now_s + told.settings.response_timeout_s)
    told.pass_time(told.settings.response_timeout_s)
    assert told.one(say.Warn).subject == "c1"
    told.tell(Stored(number=told.one(say.Store).number, refused=NOBODY))
    told.tell(late)
    assert told.kinds() == []
    told.pass_time(told.settings.retry_s)
    assert told.one(say.SendSample).request.round_number > late.round_number


def test_an_answer_that_does_not_fit_its_request_ends_the_session_and_not_the_round() -> None:
    """Nothing of it is applied."""
    told = lead()
    connect(told)
    told.tell(submitted(5, 10))
    told.pass_time(told.settings.window_idle_s)
    answer = candidates(told.one(say.SendSample))
    told.tell(replace(answer, reply=replace(answer.reply, free=np.zeros((1, 77), dtype=np.int64))))
    assert told.kinds() == [say.Close, say.Store]


def test_a_round_goes_on_at_once_without_a_sampler_that_left() -> None:
    """Nobody waits for who is gone."""
    told = lead()
    connect(told)
    told.tell(submitted(5, 10))
    told.pass_time(told.settings.window_idle_s)
    assert told.machine.phase is Phase.SAMPLING
    told.tell(SessionLost(session=SAMPLER))
    assert told.one(say.Store)


def test_idle_machines_want_no_tick() -> None:
    """While there is nothing to do, time passes for free."""
    told = lead()
    connect(told)
    told.pass_time(60.0)
    assert told.machine.due_s() is None


def test_the_machine_pauses_when_transactions_pile_up() -> None:
    """Two wait behind the one under way; then nothing is taken until one is stored."""
    told = lead()
    connect(told)
    numbers = []
    for change_id in range(4):
        told.tell(submitted(change_id, 10 + change_id))
        told.pass_time(told.settings.window_idle_s)
        told.tell(candidates(told.one(say.SendSample)))
        told.tell(placed(told.one(say.SendCommit)))
        told.tell(Published(position=2 + change_id))
        numbers.append(told.one(say.Store).number)
    assert told.machine.phase is Phase.WAITING
    assert told.machine.budget().changes == 0
    told.tell(Stored(number=numbers[0], refused=NOBODY))
    assert told.machine.phase is Phase.IDLE


def test_transactions_must_be_stored_in_order() -> None:
    """A shell that tells otherwise has a fault."""
    told = lead()
    with pytest.raises(InvariantViolation, match="was stored before"):
        told.tell(Stored(number=99, refused=NOBODY))


def test_a_large_plan_is_published_as_several_records_in_sequence() -> None:
    """Each is small enough for the log, and together they say the same."""
    told = lead(max_record_bytes=1100)
    connect(told)
    publish = plan(told, 5, *range(10, 18))
    assert len(publish.records) > 1
    assert [number for record in publish.records for number in record.handle.tolist()] == publish.plan.handle.tolist()


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_change_is_taken_once_until_it_is_deleted_and_forgotten() -> None:
    """A read that began before the deletion may still show it."""
    told = lead()
    told.tell(submitted(5, 10))
    told.pass_time(told.settings.window_idle_s)
    store = told.one(say.Store)
    assert not told.machine.is_new(5)
    told.tell(submitted(5, 10))
    told.tell(Stored(number=store.number, refused=NOBODY))
    told.tell(submitted(5, 10))
    told.pass_time(1.0)
    assert say.Store not in told.kinds()
    assert told.machine.totals["submitted"] == 1


def test_what_cannot_be_read_is_set_aside_and_nothing_of_it_applied() -> None:
    """One bad change does not stop the others."""
    told = lead()
    bad = Change(change_id=4, bad=SetAside(payload=b"?", error="no such thing"))
    good = submitted(5, 10)
    told.tell(ChangesRead(changes=(bad, *good.changes), references=good.references))
    told.pass_time(told.settings.window_idle_s)
    transaction = told.one(say.Store).transaction
    assert [aside.payload for aside in transaction.set_aside] == [b"?"]
    assert transaction.change_ids == [4, 5]


def test_changes_whose_references_are_gone_are_read_again() -> None:
    """The memory let go of a class between the reading and the taking."""
    told = lead()
    change = submitted(5, 10)
    told.tell(ChangesRead(changes=change.changes))
    told.pass_time(told.settings.window_idle_s)
    assert told.machine.is_new(5)
    assert told.machine.lacking(change.changes).class_ids == (1,)
    told.tell(change)
    told.pass_time(told.settings.window_idle_s)
    assert told.machine.totals["submitted"] == 1


def test_a_job_that_was_never_held_is_cancelled_with_what_was_read_of_it() -> None:
    """After a change of leader its row had ended already, but its request was still unread."""
    told = lead()
    request = ChangeRequestColumns(
        handle=np.array([10], dtype=np.int64),
        kind=np.ones(1, dtype=np.int8),
        priority=np.zeros(1, dtype=np.int32),
        ended=np.ones(1, dtype=np.int8),
    )
    assert told.machine.lacking([Change(change_id=5, requests=request)]).ended == (10,)


# --- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(Role))
def test_a_newer_session_replaces_the_older_one_and_a_lower_incarnation_is_refused(role: Role) -> None:
    """Invariant 9: a stale incarnation changes nothing."""
    told = lead()
    known = Members.of([], []) if role is Role.EXECUTOR else None
    old, new, stale = Session("c1", role, 1, 1), Session("c1", role, 2, 2), Session("c1", role, 1, 3)
    told.tell(Bound(session=old, settings=C1, known=known))
    told.tell(Bound(session=new, settings=C1, known=known))
    assert told.one(say.Close).session == old
    assert told.one(say.Welcome).session == new
    told.tell(Bound(session=stale, settings=C1, known=known))
    assert told.kinds() == [say.Close]
    assert told.one(say.Close).session == stale
    told.tell(SessionLost(session=old))
    assert told.machine.is_live(new)


def test_an_executor_is_listened_to_once_everything_decided_is_stored() -> None:
    """No row may be sent that a crash could take back."""
    told = lead()
    connect(told)
    plan(told, 5, 10)
    told.tell(Published(position=2))
    number = told.one(say.Store).number
    again = Session("c1", Role.EXECUTOR, 2, 9)
    told.tell(Bound(session=again, settings=C1, known=Members.of([], [])))
    assert told.kinds() == [say.Close, say.Welcome]
    told.tell(Stored(number=number, refused=NOBODY))
    assert told.kinds()[-1] is say.Listen
    assert next(said for said in told.said if isinstance(said, say.SendRows)).rows.handle.tolist() == [10]


def test_states_are_acknowledged_after_their_commit() -> None:
    """Also those that change nothing, behind the transaction before them: a crash could take that back."""
    told = lead()
    connect(told)
    plan(told, 5, 10)
    told.tell(Published(position=2))
    told.tell(Stored(number=told.one(say.Store).number, refused=NOBODY))
    told.tell(StatesReported(session=EXECUTOR, batch=1, columns=running(10)))
    told.pass_time(told.settings.window_max_s)
    number = told.one(say.Store).number
    told.tell(StatesReported(session=EXECUTOR, batch=2, columns=running(10)))
    told.pass_time(told.settings.window_max_s)
    assert say.Acknowledge not in told.kinds(), "the same state again is nothing to store, and still not stored"
    told.tell(Stored(number=number, refused=NOBODY))
    assert [said.batch for said in told.said if isinstance(said, say.Acknowledge)] == [1, 2]


def test_batches_of_one_cycle_are_acknowledged_at_once() -> None:
    """The word for the last holds for all before it."""
    told = lead()
    connect(told)
    plan(told, 5, 10)
    told.tell(Published(position=2))
    told.tell(Stored(number=told.one(say.Store).number, refused=NOBODY))
    told.tell(*(StatesReported(session=EXECUTOR, batch=batch, columns=running(10)) for batch in (1, 2)))
    told.pass_time(told.settings.window_max_s)
    told.tell(Stored(number=told.one(say.Store).number, refused=NOBODY))
    assert [said.batch for said in told.said if isinstance(said, say.Acknowledge)] == [2]


def test_the_story_of_a_job_is_told_to_who_follows_it_and_is_bounded() -> None:
    """Off by default; its last steps, in order."""
    told = lead()
    connect(told)
    told.machine.follow(10)
    plan(told, 5, 10, 11)
    told.tell(Published(position=2))
    told.tell(Stored(number=told.one(say.Store).number, refused=NOBODY))
    assert [step.text for step in told.machine.story(10)] == ["taken", "leased", "stored"]
    assert told.machine.story(11) == []
    for batch in range(100):
        told.tell(StatesReported(session=EXECUTOR, batch=batch, columns=running(10)))
        for said in told.pass_time(told.settings.window_max_s):
            if isinstance(said, say.Store):
                told.tell(Stored(number=said.number, refused=NOBODY))
    assert len(told.machine.story(10)) == 64


def test_capacity_that_does_not_count_is_noted_once_in_an_hour() -> None:
    """The session goes on, operators are told what does not count, and whoever lies often fills no audit."""
    told = lead()
    settings = replace(C1, max_capacity=(("cpu", 5000),))
    told.tell(Bound(session=SAMPLER, settings=settings))
    told.tell(CapacityTold(session=SAMPLER, columns=capacity(cores=5)))
    assert say.NoteExcess not in told.kinds()
    told.tell(CapacityTold(session=SAMPLER, columns=capacity()))
    assert told.one(say.NoteExcess).text == "tells cpu 8000, of which 5000 count"
    told.tell(CapacityTold(session=SAMPLER, columns=capacity(cores=5)))
    told.tell(CapacityTold(session=SAMPLER, columns=capacity(cores=9)))
    assert say.NoteExcess not in told.kinds()
    told.now_s += 3600.0
    told.tell(CapacityTold(session=SAMPLER, columns=capacity(cores=9)))
    assert told.one(say.NoteExcess).session == SAMPLER
    assert say.Close not in told.kinds()

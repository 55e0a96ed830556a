"""Tests of cursors, selectors, ids, events and news."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from argosy.api.v1 import event_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.errors import InvalidRequest, InvariantViolation
from argosy_core.job.identity import NOBODY, compose_id, id_high, submitter_number
from argosy_core.job.tables.members import number_of
from argosy_core.leader.intake import join_jobs
from argosy_runtime.columns import pack_column, unpack_column
from argosy_server.api.codecs.changes_codec import encode_change_requests, encode_submitted
from argosy_server.api.codecs.cursors import (
    STATE_COUNT,
    WatchCursor,
    read_handle_token,
    read_name_token,
    write_handle_token,
    write_name_token,
)
from argosy_server.api.codecs.event_codec import StoredBatch, watch_responses
from argosy_server.api.codecs.job_codec import job_ids, split_body
from argosy_server.api.codecs.selectors import has_labels, parse_label_selector
from argosy_server.leader.log.codec import decode_changes
from argosy_testkit.submissions import make_request, make_spec
from argosy_testkit.world_rows import options_of

HANDLES = st.integers(1, (1 << 55) - 1)


@given(st.lists(st.tuples(st.integers(0, (1 << 48) - 1), st.integers(0, 4095), HANDLES), max_size=5))
def test_job_ids_are_those_composed_one_by_one(parts: list[tuple[int, int, int]]) -> None:
    """Many ids at once are the same texts."""
    highs = [id_high(time_ms, bits) for time_ms, bits, _ in parts]
    handles = [handle for _, _, handle in parts]
    expected = [compose_id(high, handle) for high, handle in zip(highs, handles, strict=True)]
    assert job_ids(np.array(highs, dtype=np.int64), np.array(handles, dtype=np.int64)) == expected


@given(
    st.integers(1, 1 << 60),
    st.lists(st.integers(0, 1 << 40), min_size=STATE_COUNT, max_size=STATE_COUNT),
    st.integers(0, 1 << 50),
    st.booleans(),
)
def test_cursor_comes_back_as_it_went(job_set_id: int, counts: list[int], extra: int, is_complete: bool) -> None:  # noqa: FBT001 - drawn
    """A cursor is text of at most 256 characters and parses to itself."""
    number = sum(counts) + extra
    cursor = WatchCursor(job_set_id=job_set_id, number=number, counts=tuple(counts), is_complete=is_complete)
    assert len(cursor.text()) <= 256
    assert WatchCursor.parse(cursor.text(), job_set_id=job_set_id) == cursor


@given(st.text(max_size=20) | st.binary(max_size=80).map(lambda data: data.hex()))
def test_cursor_made_up_is_refused(text: str) -> None:
    """No text but an own one is a cursor; empty text is the beginning."""
    if not text:
        assert WatchCursor.parse(text, job_set_id=1) == WatchCursor(job_set_id=1)
        return
    with pytest.raises(InvalidRequest):
        WatchCursor.parse(text, job_set_id=1)


def test_cursor_with_a_changed_character_is_refused() -> None:
    """Damage on the way is noticed."""
    text = WatchCursor(job_set_id=1, number=5, counts=(0, 1, 0, 0, 0, 0, 0)).text()
    for place in range(0, len(text) - 1, 7):
        damaged = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(InvalidRequest):
            WatchCursor.parse(damaged, job_set_id=1)


def test_tokens_come_back_and_are_not_mistaken_for_each_other() -> None:
    """Tokens of names, of jobs and cursors differ, and a job token belongs to its request."""
    token = write_handle_token(77, b"request")
    assert read_handle_token(token, b"request") == 77
    assert read_handle_token("", b"request") == 0
    name = write_name_token("red")
    assert read_name_token(name) == "red"
    for read, text in (
        (lambda text: read_handle_token(text, b"other"), token),
        (lambda text: read_handle_token(text, b"request"), name),
        (read_name_token, token),
        (read_name_token, WatchCursor(job_set_id=1).text()),
        (read_name_token, "!!"),
    ):
        with pytest.raises(InvalidRequest):
            read(text)


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "x"}, False),
        ("a=x", {"a": "x"}, True),
        ("a==x, b!=y", {"a": "x"}, True),
        ("a==x,b!=y", {"a": "x", "b": "y"}, False),
        ("a in (x, y)", {"a": "y"}, True),
        ("a notin (x,y)", {"a": "y"}, False),
        ("a notin (x,y)", {}, True),
        ("example.com/a = x", {"example.com/a": "x"}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selector_means_what_kubernetes_means(*, selector: str, labels: dict[str, str], expected: bool) -> None:
    """Equality, sets and existence, joined by commas."""
    assert has_labels(parse_label_selector(selector, field="label_selector"), labels) is expected


@pytest.mark.parametrize(
    "selector",
    [
        ",",
        "a,",
        "a in x",
        "a in (x",
        "a=b c",
        "=x",
        "a=(x)",
        "a b",
        "a='x'",
        "a/b/c=x",
        "a=" + "x" * 64,
        ",".join(["a"] * 33),
    ],
)
def test_label_selector_that_cannot_be_read_is_refused(selector: str) -> None:
    """What is no selector names the field."""
    with pytest.raises(InvalidRequest) as caught:
        parse_label_selector(selector, field="selector.label_selector")
    assert caught.value.violations[0].field == "selector.label_selector"


@pytest.mark.parametrize(
    "manifests",
    [["{}"], ['{"a": [1, "],["]}', ' {"b":2} '], ['{"\\u00e9": "\u00e9"}', '{"c": {"d": []}}', "{}"]],
)
def test_split_body_gives_manifests_as_they_were(manifests: list[str]) -> None:
    """The body of a spec is its manifests joined; splitting gives them back as they were."""
    assert list(split_body(f"[{','.join(manifests)}]".encode())) == manifests


EVENT = st.tuples(
    HANDLES,
    st.integers(1, 11),
    st.integers(0, 255),
    st.integers(1, 1 << 52),
    st.integers(-1, 2),
    st.integers(-1, 2),
    st.integers(0, 6),
    st.integers(1, 6),
)


def make_batch(events: list[tuple[int, ...]], texts: list[str], members: Sequence[int] = ()) -> bytes:
    """Return events (handle, kind, attempt, time, cluster, reason, from, to) as a row's payload."""
    columns = list(zip(*events, strict=True))
    count = len(events)
    return lease_pb2.EventBatch(
        handle_column=pack_column(columns[0], "int64"),
        id_high_column=pack_column([id_high(1_700_000_000_000, 5)] * count, "int64"),
        kind_column=pack_column(columns[1], "int8"),
        attempt_column=pack_column(columns[2], "int32"),
        time_us_column=pack_column(columns[3], "int64"),
        cluster_column=pack_column(columns[4], "int32"),
        node_column=pack_column([-1] * count, "int32"),
        reason_column=pack_column(columns[5], "int32"),
        texts=texts,
        from_state_column=pack_column(columns[6], "int8"),
        to_state_column=pack_column(columns[7], "int8"),
        member_column=pack_column(members, "int16") if members else b"",
    ).SerializeToString()


@given(st.lists(EVENT, min_size=1, max_size=6), st.integers(1, 7), st.integers(0, 1 << 40))
def test_watch_responses_equal_messages_built_one_by_one(
    events: list[tuple[int, ...]], max_count: int, before: int
) -> None:
    """Events written as bytes are the events that were stored, whatever the size of messages."""
    texts = ["east", "r\u00e9ason " * 40, ""]
    batch = StoredBatch.read(before + 1, make_batch(events, texts))
    cursor = WatchCursor(job_set_id=1, number=before, counts=(0,) * STATE_COUNT)
    responses = list(watch_responses(cursor, batch, max_count=max_count))
    got = [event for response, _ in responses for event in response.events]
    assert got == [
        event_pb2.JobEvent(
            number=before + place,
            job_id=compose_id(id_high(1_700_000_000_000, 5), event[0]),
            kind=event[1],
            attempt=event[2],
            event_time=Timestamp(seconds=event[3] // 1_000_000, nanos=event[3] % 1_000_000 * 1000),
            cluster=[*texts, ""][event[4]],
            reason=[*texts, ""][event[5]],
        )
        for place, event in enumerate(events, 1)
    ]
    assert responses[-1][1].number == before + len(events)
    assert all(len(response.events) <= max_count for response, _ in responses)


def test_event_of_a_member_says_which_and_how_often_it_was_replaced() -> None:
    """Their number is one in the row; rows without are of releases that told nothing of members."""
    events = [(1, 16, 1, 5, 0, 1, 3, 3), (1, 14, 1, 6, 0, -1, 3, 3), (2, 4, 1, 6, -1, -1, 2, 3)]
    for members in ((300, number_of(300, 2), 0), ()):
        batch = StoredBatch.read(1, make_batch(events, ["east", "its node is lost"], members))
        ((response, _),) = watch_responses(WatchCursor(job_set_id=1, number=0), batch, max_count=9)
        told = [(event.kind, event.member, event.replacement) for event in response.events]
        assert told == ([(16, 300, 0), (14, 300, 2), (4, 0, 0)] if members else [(16, 0, 0), (14, 0, 0), (4, 0, 0)])
        assert (response.events[0].cluster, response.events[0].reason) == ("east", "its node is lost")


def test_watch_responses_skip_what_the_cursor_has() -> None:
    """A watcher inside a row gets the rest of it only, with the counts it would have had."""
    events = [(1, 1, 0, 5, -1, -1, 0, 1), (2, 1, 0, 5, -1, -1, 0, 1), (1, 2, 1, 6, -1, -1, 1, 2)]
    batch = StoredBatch.read(10, make_batch(events, []))
    cursor = WatchCursor(job_set_id=1, number=10, counts=(0, 1, 0, 0, 0, 0, 0))
    ((response, after),) = watch_responses(cursor, batch, max_count=100)
    assert [event.number for event in response.events] == [11, 12]
    assert [(count.state, count.job_count) for count in response.state_counts] == [(1, 1), (2, 1)]
    assert after.number == 12


def test_watch_responses_leave_out_jobs_that_are_not_watched() -> None:
    """A narrowed watch gets the numbers of its own events, and the counts and the cursor of all."""
    events = [(1, 1, 0, 5, -1, -1, 0, 1), (2, 1, 0, 5, -1, -1, 0, 1), (1, 2, 1, 6, -1, -1, 1, 2)]
    batch = StoredBatch.read(10, make_batch(events, []))
    chosen = batch.handles == 1
    ((response, after),) = watch_responses(WatchCursor(job_set_id=1, number=9), batch, max_count=100, chosen=chosen)
    assert [event.number for event in response.events] == [10, 12]
    assert [(count.state, count.job_count) for count in response.state_counts] == [(1, 1), (2, 1)]
    assert after.number == 12


def test_stored_batch_names_row_that_cannot_be_read() -> None:
    """A broken row is a fault of ours that says where it is."""
    with pytest.raises(InvariantViolation, match="number 4"):
        StoredBatch.read(4, b"\xff")


def test_encode_submitted_names_each_spec_and_metadata_once() -> None:
    """Requests that share specs and labels share them in the news too; jobs that were not inserted are left out."""
    shared, own = make_spec(b"[1]"), make_spec(b"[2]")
    first = make_request(first=1, count=3, day=20_000, specs=(shared,), metadata=(b"m",))
    second = make_request(first=4, count=2, day=20_000, specs=(own, shared), metadata=(b"n", b"m"), priority=7)
    keep = np.array([True, False, True])
    news = lease_pb2.Changes.FromString(encode_submitted([(first, keep), (second, np.ones(2, dtype=bool))])).submitted
    assert unpack_column(news.handle_column, "int64", name="x").tolist() == [
        *first.handles[[0, 2]].tolist(),
        *second.handles.tolist(),
    ]
    assert [spec.hash for spec in news.specs] == [shared.hash, own.hash]
    assert {spec.day for spec in news.specs} == {20_000}
    assert unpack_column(news.spec_column, "int32", name="x").tolist() == [0, 0, 1, 0]
    assert list(news.metadata) == [b"m", b"n"]
    assert unpack_column(news.metadata_column, "int32", name="x").tolist() == [0, 0, 1, 0]
    assert unpack_column(news.priority_column, "int32", name="x").tolist() == [0, 0, 7, 7]


def test_encode_change_requests_carries_kind_priority_and_what_ended() -> None:
    """All columns have one element per job."""
    payload = encode_change_requests(
        np.array([5, 6]),
        np.array([0, 1], dtype=np.int8),
        kind=lease_pb2.CHANGE_REQUEST_KIND_CANCEL,
        priority=0,
        reason="why",
    )
    change_requests = lease_pb2.Changes.FromString(payload).change_requests
    assert unpack_column(change_requests.kind_column, "int8", name="x").tolist() == [1, 1]
    assert unpack_column(change_requests.ended_column, "int8", name="x").tolist() == [0, 1]
    assert unpack_column(change_requests.priority_column, "int32", name="x").tolist() == [0, 0]
    assert change_requests.reason == "why"


def test_submitted_durations_come_back_as_they_went() -> None:
    """Jobs of several requests keep their options, those without any stay without, and nothing said costs nothing."""
    one = make_request(first=1, count=2, day=20_000, options=options_of((0, -1, 5), (7, -1, -1)))
    other = make_request(first=3, count=2, day=20_000)
    keep = np.array([False, True])
    payload = encode_submitted([(other, np.ones(2, dtype=bool)), (one, keep)])
    assert lease_pb2.Changes.FromString(payload).submitted.estimate_s_column == b""
    jobs = decode_changes(payload).jobs
    assert jobs is not None
    assert jobs.options is not None
    assert jobs.options.lifetime_s.tolist() == [-1, -1, 7]
    assert jobs.options.time_limit_s.tolist() == jobs.options.estimate_s.tolist() == [-1, -1, -1]
    plain = decode_changes(encode_submitted([(other, np.ones(2, dtype=bool))])).jobs
    assert plain is not None
    assert plain.options is None


def test_submitters_travel_as_numbers() -> None:
    """Jobs have the number of who submitted them, those of nobody known have none, and no names cost nothing."""
    one = make_request(first=1, count=2, day=20_000, submitter="ada")
    other = make_request(first=3, count=2, day=20_000)
    payload = encode_submitted([(other, np.ones(2, dtype=bool)), (one, np.array([False, True]))])
    jobs = decode_changes(payload).jobs
    assert jobs is not None
    assert jobs.submitter is not None
    assert jobs.submitter.tolist() == [NOBODY, NOBODY, submitter_number("ada")]
    plain = encode_submitted([(other, np.ones(2, dtype=bool))])
    assert lease_pb2.Changes.FromString(plain).submitted.submitter_column == b""
    assert decode_changes(plain).jobs is not None
    joined = join_jobs([job for one in (plain, payload) if (job := decode_changes(one).jobs) is not None])
    assert joined.submitter is not None
    assert joined.submitter.tolist() == [NOBODY] * 4 + [submitter_number("ada")]


def test_submitted_options_of_another_length_are_refused() -> None:
    """A column has one element per job or none at all."""
    request = make_request(first=1, count=2, day=20_000)
    news = lease_pb2.Changes.FromString(encode_submitted([(request, np.ones(2, dtype=bool))]))
    news.submitted.estimate_s_column = bytes(4)
    with pytest.raises(InvalidRequest) as caught:
        decode_changes(news.SerializeToString())
    assert [one.field for one in caught.value.violations] == ["submitted.estimate_s_column"]

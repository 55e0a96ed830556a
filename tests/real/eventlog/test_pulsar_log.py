"""The event log on a real Pulsar broker, on days when something goes wrong.

Source: design section 5, "Ingest", "Leader lost"; section 7, invariant 9.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from argosy_core.errors import BackendUnavailable, InvalidRequest, InvariantViolation, NotAllowedNow, StateConflict
from argosy_eventlog.pulsar.log import PulsarLog
from argosy_eventlog.pulsar.numbers import ledger_and_entry, position_of, sequence_id_of
from argosy_eventlog.pulsar.settings import SUBSCRIPTION


def _numbers(world: Any) -> list[tuple[int, int]]:
    """Return (epoch, sequence) of every record."""
    return [(record.epoch, record.sequence) for record in world.read_all()]


def test_a_late_leader_cannot_write_behind_its_successor(log_world: Any) -> None:
    """An old leader that lost its connection and opens a producer anew finds its epoch gone."""
    log_world.log.append(1, 1, b"marker")
    log_world.replace_leader()
    log_world.reopen().append(2, 1, b"marker")
    late = log_world.reopen()
    with pytest.raises(StateConflict, match="the epoch is 2"):
        late.append(1, 2, b"late")
    assert _numbers(log_world) == [(1, 1), (2, 1)]


def test_the_broker_refuses_an_old_epoch_even_if_the_register_does_not(log_world: Any) -> None:
    """Sequence ids grow with epochs: what an older epoch writes behind a newer one is dropped by the broker."""
    log_world.log.append(1, 1, b"marker")
    log_world.register.fence(3)
    log_world.log.append(3, 1, b"marker")
    log_world.register._epoch = 1  # a database that was set back
    with pytest.raises(StateConflict, match="epoch 3 has written"):
        log_world.reopen().append(1, 2, b"late")
    assert _numbers(log_world) == [(1, 1), (3, 1)]


def test_a_successor_takes_over_while_the_old_leader_is_publishing(log_world: Any) -> None:
    """From the new leader's first record on nothing of the old one is stored."""
    new = log_world.reopen()
    published = threading.Event()

    def publish() -> int:
        for sequence in range(1, 100_000):
            try:
                log_world.log.append(1, sequence, b"lease")
            except StateConflict:
                return sequence
            if sequence == 20:
                published.set()
        raise AssertionError("it was never fenced")

    with ThreadPoolExecutor(1) as threads:
        old = threads.submit(publish)
        assert published.wait(20)
        log_world.replace_leader()
        marker = new.append(2, 1, b"marker")
        refused = old.result(20)
    records = log_world.read_all()
    assert [(record.epoch, record.sequence) for record in records] == [
        *((1, sequence) for sequence in range(1, refused)),
        (2, 1),
    ]
    assert records[-1].position == marker


def test_a_repeat_is_one_record_after_the_producer_was_opened_again(log_world: Any) -> None:
    """The broker knows what it has had from whatever process; a repeat answers where the first one stands."""
    positions = [log_world.log.append(1, sequence, b"%d" % sequence) for sequence in range(1, 6)]
    again = log_world.reopen()
    assert [again.append(1, sequence, b"%d" % sequence) for sequence in (5, 1, 3)] == [positions[n] for n in (4, 0, 2)]
    assert again.append(1, 6, b"6") > positions[-1]
    assert _numbers(log_world) == [(1, sequence) for sequence in range(1, 7)]


def test_the_broker_sees_one_named_fencing_producer_and_one_entry_per_record(
    log_world: Any, pulsar_broker: Any
) -> None:
    """Batches would hide sequence ids from deduplication; the name is the pool's, whoever leads; ids grow from 1."""
    positions = [log_world.log.append(1, sequence, b"x") for sequence in range(1, 6)]
    assert [ledger_and_entry(position)[1] for position in positions] == [0, 1, 2, 3, 4]
    stats = log_world.admin.call("GET", f"{log_world.log.topic.replace('://', '/')}/stats")
    (publisher,) = stats["publishers"]
    assert (publisher["producerName"], publisher["accessMode"]) == (f"argosy-{log_world.pool}", "ExclusiveWithFencing")
    client = pulsar.Client(pulsar_broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(log_world.log.topic, pulsar.MessageId.earliest)
        places = [reader.read_next(timeout_millis=10_000).message_id() for _ in positions]
        reader.close()
    finally:
        client.close()
    assert [place.batch_index() for place in places] == [-1] * len(positions)
    assert [position_of(place.ledger_id(), place.entry_id()) for place in places] == positions
    assert log_world.log._producer.last_sequence_id() == sequence_id_of(1, 5)


def test_a_sequence_that_was_left_out_is_a_fault(log_world: Any) -> None:
    """A broker that drops what does not grow would drop it silently: the log says so instead."""
    log_world.log.append(1, 1, b"a")
    log_world.log.append(1, 3, b"c")
    with pytest.raises(InvariantViolation, match="record 2 of epoch 1"):
        log_world.log.append(1, 2, b"b")


@pytest.mark.timeout(180)
def test_a_broker_that_is_killed_while_a_leader_publishes_loses_and_repeats_nothing(
    log_world: Any, insist: Callable[[Callable[[], int]], int]
) -> None:
    """Unknown results are repeated: every record stands once, in order, where its append said."""
    count = 400
    positions: list[int] = []

    def publish() -> None:
        for sequence in range(1, count + 1):
            payload = b"%d" % sequence + b"x" * 2000
            positions.append(insist(lambda: log_world.log.append(1, sequence, payload)))  # noqa: B023 - called at once

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(publish)
        for at in (100, 250):
            _await(lambda: len(positions) >= at or done.done())  # noqa: B023 - called at once
            log_world.broker.kill()
            log_world.broker.start()
        done.result(120)
    records = log_world.read_all()
    assert [(record.epoch, record.sequence) for record in records] == [(1, n) for n in range(1, count + 1)]
    assert [record.position for record in records] == positions
    assert positions == sorted(set(positions))


@pytest.mark.timeout(180)
def test_a_repeat_is_one_record_after_the_broker_was_killed(log_world: Any) -> None:
    """What the broker has had survives it; a reader goes on behind what it read before."""
    positions = [log_world.log.append(1, sequence, b"x") for sequence in (1, 2, 3)]
    seen = log_world.log.read(0, 2)
    log_world.broker.kill()
    log_world.broker.start()
    again = log_world.reopen()
    assert again.append(1, 3, b"x") == positions[2]
    assert again.append(1, 2, b"x") == positions[1]
    assert again.append(1, 4, b"y") > positions[2]
    rest = _until_known(lambda: log_world.log.read(seen[-1].position, 10))
    assert [record.sequence for record in rest] == [3, 4]
    assert _numbers(log_world) == [(1, 1), (1, 2), (1, 3), (1, 4)]


@pytest.mark.timeout(180)
def test_a_broker_that_is_away_is_told_in_time_and_found_again(log_world: Any) -> None:
    """Calls end after their patience, the same objects work again once it is back, and closing never hangs."""
    hasty = log_world.reopen(publish_timeout_s=2.0, operation_timeout_s=2.0)
    first = hasty.append(1, 1, b"a")
    log_world.broker.kill()
    try:
        started_s = time.monotonic()
        for call in (lambda: hasty.append(1, 2, b"b"), lambda: hasty.read(0, 10), lambda: hasty.trim(first + 1)):
            with pytest.raises(BackendUnavailable):
                call()
        assert time.monotonic() - started_s < 60  # each has 2 s; without a limit of theirs nothing ends them
        bystander = log_world.reopen(operation_timeout_s=2.0, publish_timeout_s=60.0)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(bystander.append, 1, 2, b"b")
            time.sleep(0.5)  # until it waits for the broker; earlier it proves less, never something wrong
            started_s = time.monotonic()
            bystander.close()
            with pytest.raises(BackendUnavailable):
                waiting.result(100)
            assert time.monotonic() - started_s < 40  # it would have tried for 60
    finally:
        log_world.broker.start()
    assert _until_known(lambda: hasty.append(1, 2, b"b")) > first
    assert _numbers(log_world) == [(1, 1), (1, 2)]


def test_a_large_record_goes_through_and_a_too_large_one_is_refused(log_world: Any) -> None:
    """The limit is ours before it is the broker's, and the message says what to do."""
    payload = bytes(range(256)) * (5_000_000 // 256)
    position = log_world.log.append(1, 1, payload)
    assert [record.payload for record in log_world.log.read(0, 10)] == [payload]
    with pytest.raises(InvalidRequest, match="max_message_bytes"):
        log_world.log.append(1, 2, b"x" * 5_000_001)
    generous = log_world.reopen(max_message_bytes=50_000_000)
    with pytest.raises(InvalidRequest, match="maxMessageSize"):
        generous.append(1, 2, b"x" * 6_000_000)
    assert log_world.log.read(position, 10) == []


def test_a_read_ends_before_it_fills_the_memory(log_world: Any) -> None:
    """However many records are asked for, one piece is bounded; reading on gives the rest."""
    for sequence in range(1, 11):
        log_world.log.append(1, sequence, b"x" * 4_500_000)
    first = log_world.log.read(0, 100)
    assert len(first) == 8  # 32 MiB are full
    assert [record.sequence for record in log_world.log.read(first[-1].position, 100)] == [9, 10]


def test_a_reader_at_the_end_holds_nothing_ready(log_world: Any) -> None:
    """What is published after a take-over is the leader's own: it is not sent back to it unasked."""
    log_world.log.append(1, 1, b"x")
    assert len(log_world.log.read(0, 10)) == 1
    path = f"{log_world.log.topic.replace('://', '/')}/stats"
    _await(lambda: set(log_world.admin.call("GET", path)["subscriptions"]) == {SUBSCRIPTION})


def test_a_message_of_somebody_else_is_a_record_that_nobody_published(log_world: Any, pulsar_broker: Any) -> None:
    """It has epoch 0, so it is poison or stale and never a lease; what stands behind it is read."""
    client = pulsar.Client(pulsar_broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(log_world.log.topic, batching_enabled=False)
    producer.send(b"hello", properties={"epoch": "-7"})
    producer.close()
    client.close()
    log_world.log.append(1, 1, b"marker")
    assert [(r.epoch, r.sequence, r.payload) for r in log_world.log.read(0, 10)] == [
        (0, 0, b"hello"),
        (1, 1, b"marker"),
    ]


def test_trimming_moves_the_cursor_and_nothing_else_does(log_world: Any) -> None:
    """What was not trimmed stands before the cursor, so the broker keeps it whatever its retention."""
    positions = [log_world.log.append(1, sequence, b"x") for sequence in range(1, 6)]
    path = f"{log_world.log.topic.replace('://', '/')}/internalStats"

    def cursor_entry() -> int:
        cursor = log_world.admin.call("GET", path)["cursors"][SUBSCRIPTION]
        return int(cursor["markDeletePosition"].partition(":")[2])

    assert cursor_entry() == -1
    log_world.log.trim(positions[3])
    _await(lambda: cursor_entry() == 2)
    log_world.log.trim(positions[1])  # an older one changes nothing
    assert log_world.log.append(1, 6, b"y") > positions[-1]
    assert cursor_entry() == 2


def test_a_partitioned_topic_is_refused(log_world: Any) -> None:
    """A pool's log has one order."""
    path = log_world.settings.log_topic("broad").replace("://", "/")
    log_world.admin.make("PUT", f"{path}/partitions", 3)
    log = PulsarLog(log_world.broker.service_url, "broad", log_world.register, log_world.settings)
    try:
        with pytest.raises(NotAllowedNow, match="partitioned"):
            log.append(1, 1, b"x")
    finally:
        log.close()
        log_world.admin.call("DELETE", f"{path}/partitions?force=true")


def test_a_topic_that_is_missing_is_not_made_in_passing(log_world: Any) -> None:
    """A name that was never set up is a mistake, and a topic made by the way would have no safe settings."""
    log = PulsarLog(log_world.broker.service_url, "nobody", log_world.register, log_world.settings)
    try:
        with pytest.raises(NotAllowedNow, match="setup-log"):
            log.append(1, 1, b"x")
    finally:
        log.close()


def _await(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to pass"
        time.sleep(0.02)


def _until_known(call: Callable[[], Any]) -> Any:
    """Return what a call answers once the broker serves again."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return call()
        except BackendUnavailable:
            assert time.monotonic() < deadline_s, "the broker did not come back"

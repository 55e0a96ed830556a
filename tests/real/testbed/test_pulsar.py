"""The broker of the testbed is healthy, keeps what a log relies on, and comes back after a kill."""

from __future__ import annotations

import json
import urllib.request

import pulsar
import pytest

from testbed.pulsar import VERSION, Broker

TOPIC = "persistent://public/default/testbed"


def configuration_of(broker: Broker) -> dict[str, str]:
    """Return the settings that the broker says it runs with."""
    with urllib.request.urlopen(f"{broker.admin_url}/admin/v2/brokers/configuration/runtime", timeout=30) as answer:
        return dict(json.load(answer))


def send(broker: Broker, text: bytes, sequence_id: int) -> None:
    """Send one message under a fixed producer name."""
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producer = client.create_producer(TOPIC, producer_name="testbed", batching_enabled=False)
        producer.send(text, sequence_id=sequence_id)
        producer.close()
    finally:
        client.close()


def stored(broker: Broker, count: int) -> list[bytes]:
    """Return the first messages of the topic, and fail if there are fewer."""
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        found = [reader.read_next(timeout_millis=20_000).data() for _ in range(count)]
        assert not reader.has_message_available()
        reader.close()
        return found
    finally:
        client.close()


def test_broker_is_of_the_release_that_was_asked_for(pulsar_broker: Broker) -> None:
    """The broker itself says so."""
    assert pulsar_broker.version == VERSION


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("brokerDeduplicationEnabled", "true"),
        ("brokerDeleteInactiveTopicsEnabled", "false"),
        ("defaultRetentionTimeInMinutes", "180"),
        ("defaultRetentionSizeInMB", "2048"),
        ("managedLedgerDefaultAckQuorum", "1"),
    ],
)
def test_broker_keeps_what_a_log_relies_on(pulsar_broker: Broker, setting: str, value: str) -> None:
    """The broker runs with our settings, not with those it is shipped with."""
    assert configuration_of(pulsar_broker)[setting] == value


def test_killed_broker_comes_back_with_what_it_acknowledged_and_drops_what_is_sent_again(
    pulsar_broker: Broker,
) -> None:
    """A kill loses no acknowledged message, and the same sequence id sent again is stored once."""
    send(pulsar_broker, b"first", 1)
    pulsar_broker.kill()
    assert not pulsar_broker.is_running
    pulsar_broker.start()
    send(pulsar_broker, b"first again", 1)
    send(pulsar_broker, b"second", 2)
    assert stored(pulsar_broker, 2) == [b"first", b"second"]


def test_stopped_broker_starts_again_on_its_address(pulsar_broker: Broker) -> None:
    """Clients find it where it was."""
    address = pulsar_broker.service_url
    pulsar_broker.stop()
    assert not pulsar_broker.is_running
    pulsar_broker.start()
    assert pulsar_broker.service_url == address
    assert pulsar_broker.version == VERSION

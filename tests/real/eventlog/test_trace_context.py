"""A record's trace context where consumers of Pulsar look for one."""

from __future__ import annotations

from typing import Any

import pulsar

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_trace_context_is_a_property_of_the_message(log_world: Any) -> None:
    """A traced record carries `traceparent` beside its epoch and sequence; others have no such property."""
    log_world.log.append(1, 1, b"marker")
    log_world.log.append(1, 2, b"lease", traceparent=CONTEXT)

    client = pulsar.Client(log_world.broker.service_url)
    try:
        reader = client.create_reader(log_world.log.topic, pulsar.MessageId.earliest)
        properties = [reader.read_next(timeout_millis=10_000).properties() for _ in range(2)]
    finally:
        client.close()

    assert properties == [
        {"epoch": "1", "sequence": "1"},
        {"epoch": "1", "sequence": "2", "traceparent": CONTEXT},
    ]

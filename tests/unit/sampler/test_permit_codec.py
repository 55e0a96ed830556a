"""Permits as messages: each distinct compute unit is said once, and what agents announce is read as they say it."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_agent.codec import request_messages
from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import PermitRequest
from argosy_core.permits import Inventory, Permits
from argosy_sampler.permit_codec import read_agent_message, reply_message


@pytest.mark.parametrize(
    ("units", "said", "places"),
    [
        ([(250, 10), (250, 10), (250, 10)], [250, 10], [0, 0, 0]),
        ([(500, 10), (250, 10), (500, 10)], [250, 10, 500, 10], [1, 0, 1]),
        ([(250, 10), (250, 20)], [250, 10, 250, 20], [0, 1]),
        ([], [], []),
    ],
)
def test_each_distinct_unit_is_said_once_and_pods_point_at_theirs(
    units: list[tuple[int, int]], said: list[int], places: list[int]
) -> None:
    """Whether all pods have the same or not."""
    columns = np.array(units, np.int64).reshape(-1, 2).T
    count = len(units)
    zeros = np.zeros((2, count), np.int64)
    reply = Permits(
        uids=np.zeros((count, 2), np.int64),
        numbers=np.zeros(count, np.int64),
        permits=zeros,
        deferred=zeros,
        units=columns,
    )
    message = reply_message(reply, 7).permits
    assert np.frombuffer(message.units, np.int64).tolist() == said
    assert np.frombuffer(message.unit_column, np.int32).tolist() == places


def test_an_announced_ceiling_is_a_permit_where_the_agent_says_so_and_nowhere_else() -> None:
    """An agent of an older version says it of none."""
    size = Amounts(250, 1 << 30)
    requests = [
        PermitRequest(
            uid=f"00000000-0000-4000-8000-00000000000{number}", sequence=1, wanted=size, held=size, is_bundle=False,
            is_first=True, was_permitted=True, is_permit=number == 1,
        )
        for number in (1, 2)
    ]  # fmt: skip
    (message,) = request_messages(requests, 10)
    read = read_agent_message(message)
    message.inventory.ClearField("permitted_column")
    older = read_agent_message(message)
    assert isinstance(read, Inventory)
    assert isinstance(older, Inventory)
    assert (read.held.tolist(), read.permitted.tolist()) == ([True, True], [True, False])
    assert (older.held.tolist(), older.permitted.tolist()) == ([True, True], [False, False])

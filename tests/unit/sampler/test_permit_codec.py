"""Permits as messages: each distinct compute unit is said once."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.permits import Permits
from argosy_sampler.permit_codec import reply_message


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

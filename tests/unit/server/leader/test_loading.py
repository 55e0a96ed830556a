"""What the store has read, as the machine takes it: what nobody may have set costs what it is of, and no term."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from argosy_server.leader.takeover.loading import cluster_settings, queue_views
from argosy_store.rows import ClusterRow, QueueRow

QUEUE = QueueRow(
    queue_id=7, name="red", weight=2.0, pool="default", cordoned=False, cordon_reason="", version=1, create_time_us=1,
    namespaces=(), max_queued_count=0, parent="", max_running_count=3, max_running_amounts=("cpu=5", "a=b=7"),
    submit_rate_per_s=0.0, lease_rate_per_s=0.5, preempts_unexpired=False, preempts_endless=False, deleted=False,
)  # fmt: skip
CLUSTER = ClusterRow(
    name="east", pools=("default",), uid="", contact_time_us=0, cordoned=False, cordon_reason="", cordoned_nodes=(),
    forgotten=False, node_cordon_reasons={}, delegated=False, max_capacity=("cpu=8",),
)  # fmt: skip
NO_AMOUNTS: list[Any] = [
    (None,),
    ("cpu=many",),
    ("cpu=-1",),
    ("cpu",),
    ("cpu=1e3",),
    ("cpu=9223372036854775808",),
    ("cpu=" + "9" * 5000,),
]


def test_rows_come_as_they_were_set() -> None:
    """Names of resources may hold what separates them from amounts."""
    (view,) = queue_views([QUEUE])
    assert (view.weight, view.cordoned, view.limits.max_running_count) == (2.0, False, 3)
    assert (view.limits.max_running_amounts, view.limits.lease_rate_per_s) == ((("cpu", 5), ("a=b", 7)), 0.5)
    settings = cluster_settings(CLUSTER)
    assert (settings.cordoned, settings.max_capacity) == (False, (("cpu", 8),))


@pytest.mark.parametrize(
    "damage",
    [
        *({"max_running_amounts": amounts} for amounts in NO_AMOUNTS),
        *({field: value} for field in ("weight", "lease_rate_per_s") for value in (math.nan, math.inf, -1.0, 1e308)),
        {"max_running_count": -1},
    ],
)
def test_queue_that_says_what_nobody_may_set_is_cordoned_and_weighs_nothing(damage: dict[str, Any]) -> None:
    """Its jobs wait for whoever mends it; the shares of others stay numbers."""
    broken, whole = queue_views([replace(QUEUE, **damage), QUEUE])
    assert (broken.queue_id, broken.weight, broken.cordoned, bool(broken.limits)) == (7, 0.0, True, False)
    assert not whole.cordoned


@pytest.mark.parametrize("amounts", NO_AMOUNTS)
def test_cluster_whose_bound_cannot_be_read_is_given_no_work(amounts: Any) -> None:
    """Without its bound it might tell of any capacity."""
    settings = cluster_settings(replace(CLUSTER, max_capacity=amounts))
    assert (settings.cordoned, settings.max_capacity) == (True, ())

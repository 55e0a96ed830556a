"""What submits are warned of is remembered, and leaders are asked for it seldom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import pytest

from argosy_core.errors import BackendUnavailable
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.nodes import NodeColumns, NodeGroup
from argosy_core.placement import WaitReason
from argosy_core.scheduler import ClusterStanding
from argosy_server.api.submits.outlook import ClassOutlook, KnownNodes

_SMALL = SchedulingClass(requests=(("cpu", 1000),)).definition()
_LARGE = SchedulingClass(requests=(("cpu", 9000),)).definition()
_MISSING = "it asks for 9 cpu, and the largest node, a/n0, has 4"


class Leader:
    """Has one node, or none, and counts how often it was asked; also finds itself."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.cpu = 4000

    def view(self, pool: str) -> Leader | None:
        """Lead every pool."""
        return None if self.is_away else self

    async def forward(self, *_: Any, **__: Any) -> Any:
        """Know of no other leader."""
        raise BackendUnavailable("nobody leads")

    def node_columns(self) -> Mapping[str, NodeColumns]:
        """Tell of the node."""
        self.asked += 1
        count = int(self.cpu > 0)
        return {
            "a": NodeColumns(
                names=["n0"][:count],
                groups=[NodeGroup()],
                group=np.zeros(count, np.int32),
                flags=np.ones(count, np.uint8),
                resources=("cpu", "pods"),
                allocatable=np.tile([[self.cpu, 110]], (count, 1)),
                free=np.tile([[self.cpu, 110]], (count, 1)),
            )
        }


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def _outlook(leader: Leader, clock: Clock) -> ClassOutlook:
    return ClassOutlook(leader, KnownNodes(clock), clock)  # type: ignore[arg-type]


async def test_what_no_node_can_hold_is_remembered_for_half_a_minute() -> None:
    """A submit of known classes asks nobody."""
    leader, clock = Leader(), Clock()
    outlook = _outlook(leader, clock)
    assert await outlook.missing("p", [_SMALL, _LARGE]) == {_SMALL: (), _LARGE: (_MISSING,)}
    clock.now_s += 29.0
    assert (await outlook.missing("p", [_LARGE]))[_LARGE] == (_MISSING,)
    assert leader.asked == 1
    leader.cpu, clock.now_s = 16_000, clock.now_s + 2.0
    assert await outlook.missing("p", [_LARGE]) == {_LARGE: ()}


async def test_that_some_node_can_hold_a_class_is_remembered_for_five_minutes() -> None:
    """A thousand classes that all fit somewhere cost the leader next to nothing; nodes that go are told of later."""
    leader, clock = Leader(), Clock()
    outlook = _outlook(leader, clock)
    assert await outlook.missing("p", [_SMALL]) == {_SMALL: ()}
    leader.cpu, clock.now_s = 500, clock.now_s + 299.0
    assert await outlook.missing("p", [_SMALL]) == {_SMALL: ()}
    assert leader.asked == 1
    clock.now_s += 2.0
    assert (await outlook.missing("p", [_SMALL]))[_SMALL]


async def test_leader_is_asked_at_most_twice_a_second() -> None:
    """New classes go without a word meanwhile."""
    leader, clock = Leader(), Clock()
    outlook = _outlook(leader, clock)
    await outlook.missing("p", [_SMALL])
    assert await outlook.missing("p", [_LARGE]) == {}
    clock.now_s += 0.5
    assert await outlook.missing("p", [_LARGE]) == {_LARGE: (_MISSING,)}


class OtherVersion(Leader):
    """A leader of another replica, which refuses the call as one of another version does."""

    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__()
        self.code = code
        self.is_away = True

    async def forward(self, *_: Any, **__: Any) -> Any:
        """Fail as the call to the leader would."""
        self.asked += 1
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(self.code, nothing, nothing)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED])
async def test_leader_of_another_version_costs_a_submit_its_warnings_alone(code: grpc.StatusCode) -> None:
    """While replicas are replaced one of them may not know the call, with or without access control."""
    leader = OtherVersion(code)
    assert await _outlook(leader, Clock()).missing("p", [_LARGE]) == {}
    assert leader.asked == 1


async def test_reasons_of_lists_are_found_once_per_look_at_the_nodes_and_for_some_classes_at_a_time() -> None:
    """A list of many classes is not kept up: the rest of them is told as the leader's memory has it, for now."""
    leader, clock, told = Leader(), Clock(), []
    nodes = KnownNodes(clock)

    def standings() -> dict[str, ClusterStanding]:
        told.append(1)
        return {"a": ClusterStanding()}

    kinds = [SchedulingClass(requests=(("cpu", 9000 + at),)).definition() for at in range(40)]
    waits = [(WaitReason.LIMIT, kind, False) for kind in [_SMALL, *kinds]]
    found = await nodes.find_reasons(leader, waits, standings)  # type: ignore[arg-type]
    assert (len(found), set(found.values())) == (32, {WaitReason.LIMIT, WaitReason.MISMATCH})
    assert found[waits[0]] == WaitReason.LIMIT
    for _ in range(2):
        whole = await nodes.find_reasons(leader, waits, standings)  # type: ignore[arg-type]
        assert set(whole) == set(waits)
    assert (leader.asked, len(told)) == (1, 2)
    leader.cpu, clock.now_s = 64_000, clock.now_s + 6.0
    assert (await nodes.find_reasons(leader, waits[-1:], standings)) == {waits[-1]: WaitReason.LIMIT}  # type: ignore[arg-type]


async def test_nobody_is_warned_if_no_leader_or_no_node_is_known() -> None:
    """Nothing is known that could be missing, and nothing is remembered of a leader that was away."""
    leader, clock = Leader(), Clock()
    outlook = _outlook(leader, clock)
    leader.is_away = True
    assert await outlook.missing("p", [_LARGE]) == {}
    leader.is_away, leader.cpu, clock.now_s = False, 0, clock.now_s + 1.0
    assert await outlook.missing("p", [_LARGE]) == {_LARGE: ()}

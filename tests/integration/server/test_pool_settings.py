"""Settings of rounds that change while a pool is led: by command, without a leader, and over a change of leader."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from argosy.api.v1 import scheduling_pb2

_TIMEOUT_S = 50.0
_HALF_TIME = "leader.round.half_time_s"


async def _get(api: Any) -> Any:
    return await api.scheduling.GetPoolSettings(scheduling_pb2.GetPoolSettingsRequest())


async def _set(api: Any, *, unset: tuple[str, ...] = (), **fields: Any) -> Any:
    settings = fields.pop("settings", {})
    request = scheduling_pb2.SetPoolSettingsRequest(settings=settings, unset_keys=unset, **fields)
    return (await api.scheduling.SetPoolSettings(request)).version


async def _in_effect(api: Any, version: int) -> Any:
    """Return the settings once a round goes by a version."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            answer = await _get(api)
            if answer.version_in_effect == version:
                return answer
            await asyncio.sleep(0.02)


async def _led(api: Any) -> None:
    """Return once the pool is led."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            try:
                await api.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest())
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.02)
            else:
                return


def _value(answer: Any, key: str) -> tuple[str, str, bool]:
    (found,) = (one for one in answer.settings if one.key == key)
    return found.value, found.configured_value, found.is_set


async def test_settings_hold_from_the_next_round_on_and_over_a_change_of_leader(database_url: str, serve: Any) -> None:
    """A leader takes what was set while it led, and the next one begins with it."""
    async with serve(database_url, role="both") as api:
        await _led(api)
        version = await _set(api, settings={_HALF_TIME: "60"}, comment="bursts")
        assert (version.version, dict(version.settings), version.comment) == (1, {_HALF_TIME: "60"}, "bursts")
        answer = await _in_effect(api, 1)
        assert _value(answer, _HALF_TIME) == ("60.0", "300.0", True)
        assert (await _set(api, settings={_HALF_TIME: "60"})).version == 1, "what changes nothing is no version"
        await _set(api, settings={"leader.round.waiting_heads": "2"}, expected_version=1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _set(api, settings={_HALF_TIME: "30"}, expected_version=1)
        assert caught.value.code() == grpc.StatusCode.ABORTED
        assert (await _set(api, settings={_HALF_TIME: "30"}, validate_only=True)).version == 3
        short = await _set(api, settings={"half_time_s": "30"}, validate_only=True)
        assert dict(short.settings)[_HALF_TIME] == "30", "the end of one key alone is enough"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _set(api, settings={"half_time_s": "30", _HALF_TIME: "40"}, validate_only=True)
        assert "is set twice" in (caught.value.details() or "")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.scheduling.GetShares(scheduling_pb2.GetSharesRequest(pool="nope"))
        assert (caught.value.code(), caught.value.details()) == (
            grpc.StatusCode.NOT_FOUND,
            "there is no pool 'nope'; there is default",
        )
    async with serve(database_url, role="both") as api:
        answer = await _in_effect(api, 2)
        assert _value(answer, _HALF_TIME) == ("60.0", "300.0", True)
        await _set(api, unset=(_HALF_TIME,))
        answer = await _in_effect(api, 3)
        assert _value(answer, _HALF_TIME) == ("300.0", "300.0", False)
        assert dict(answer.newest.settings) == {"leader.round.waiting_heads": "2"}
        listed = await api.scheduling.ListPoolSettings(scheduling_pb2.ListPoolSettingsRequest(page_size=2))
        assert [one.version for one in listed.versions] == [3, 2]
        request = scheduling_pb2.ListPoolSettingsRequest(page_token=listed.next_page_token)
        rest = await api.scheduling.ListPoolSettings(request)
        assert ([one.version for one in rest.versions], rest.next_page_token) == ([1], "")


async def test_settings_are_refused_whole(api: Any) -> None:
    """One bad value, and nothing is stored."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _set(api, settings={_HALF_TIME: "60", "leader.round.max_runs": "0"})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "leader.round.max_runs" in str(caught.value.details())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _set(api, settings={_HALF_TIME: "60"}, unset=(_HALF_TIME,))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert (await _get(api)).newest.version == 0


async def test_settings_set_while_nobody_leads_are_checked_here_and_shown(api: Any) -> None:
    """So during a takeover: the next leader begins with them."""
    await _set(api, settings={_HALF_TIME: "60"})
    answer = await _get(api)
    assert (answer.newest.version, answer.version_in_effect) == (1, 0)
    assert _value(answer, _HALF_TIME) == ("60.0", "300.0", True)

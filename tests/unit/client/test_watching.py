"""Watching a job set while connections break."""

import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from argosy.api.v1 import event_pb2
from argosy.issuer import ask_issuer
from argosy_client import ArgosyClient
from argosy_client.login import Login, LoginSettings
from argosy_core.errors import OutOfRange
from argosy_testkit.fake_api import FakeApi, start_fake
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).parents[2] / "certificates"


def add_events(api: FakeApi, count: int) -> None:
    """Give the job set numbered events."""
    for number in range(1, count + 1):
        event = event_pb2.JobEvent(number=number, job_id="j", kind=event_pb2.JOB_EVENT_KIND_RUNNING, cluster="c1")
        event.event_time.FromMilliseconds(1_700_000_000_250)
        api.events.append(event)


async def test_watch_gives_every_event_once_across_broken_connections(api: FakeApi, client: ArgosyClient) -> None:
    """Events are numbered 1..n without gap or repeat, whatever happens to the connection (invariant 6)."""
    add_events(api, 7)
    api.watch_breaks_after.extend([0, 3, 2])

    batches = [batch async for batch in client.watch("science", "first", until_finished=True)]

    assert [event.number for batch in batches for event in batch.events] == [1, 2, 3, 4, 5, 6, 7]
    assert [request.cursor for request in api.requests["WatchJobSet"]] == ["", "", "3", "5"]
    assert batches[0].events[0].kind == "running"
    assert batches[0].events[0].time_s == pytest.approx(1_700_000_000.25)
    assert batches[-1].state_counts == {"succeeded": 1}


async def test_watch_goes_on_from_a_cursor(api: FakeApi, client: ArgosyClient) -> None:
    """A cursor that was kept leads to what came after it."""
    add_events(api, 4)

    batches = [batch async for batch in client.watch("science", "first", cursor="2", until_finished=True)]

    assert [event.number for batch in batches for event in batch.events] == [3, 4]


async def test_watch_drops_events_that_a_server_repeats(api: FakeApi, client: ArgosyClient) -> None:
    """A server that goes back behind the cursor does not make an event happen twice."""
    add_events(api, 3)
    api.events.insert(2, api.events[1])

    batches = [batch async for batch in client.watch("science", "first", until_finished=True)]

    assert [event.number for batch in batches for event in batch.events] == [1, 2, 3]


async def test_watch_does_not_take_a_drained_stream_for_the_end(api: FakeApi, client: ArgosyClient) -> None:
    """A replica that shuts down ends its streams in good order while jobs are open."""
    add_events(api, 3)
    api.watch_ends_after.append(1)

    batches = [batch async for batch in client.watch("science", "first", until_finished=True)]

    assert [event.number for batch in batches for event in batch.events] == [1, 2, 3]


async def test_watch_ends_when_there_is_nothing_left_to_say(api: FakeApi, client: ArgosyClient) -> None:
    """A job set that was finished before the cursor gives an empty watch, not an endless one."""
    batches = [batch async for batch in client.watch("science", "first", until_finished=True)]

    assert batches == []
    assert len(api.requests["WatchJobSet"]) == 2


async def test_watch_raises_what_the_server_refuses(api: FakeApi, client: ArgosyClient) -> None:
    """A cursor older than retention cannot be mended by trying again."""
    api.failures["WatchJobSet"].append(grpc.StatusCode.OUT_OF_RANGE)

    with pytest.raises(OutOfRange):
        _ = [batch async for batch in client.watch("science", "first")]

    assert len(api.requests["WatchJobSet"]) == 1


async def test_watch_goes_on_with_a_fresh_token_when_that_of_a_login_has_ended(api: FakeApi, tmp_path: Path) -> None:
    """A server ends a stream with its token; who is logged in opens it again with the next one."""
    add_events(api, 2)
    api.failures["WatchJobSet"].append(grpc.StatusCode.UNAUTHENTICATED)
    settings = LoginSettings(
        issuer="",
        client_id=CLIENT_ID,
        authority_file=str(CERTIFICATES / "authority.pem"),
        file=str(tmp_path / "l.json"),
    )
    with FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as issuer:

        def clock_s() -> float:  # hours pass while the first stream is open
            return time.time() + (7200 if api.requests["WatchJobSet"] else 0)

        login = Login(replace(settings, issuer=issuer.url), clock_s=clock_s)
        form = {"grant_type": "device_code", "client_id": CLIENT_ID, "device_code": "x"}
        issuer.allow_device("x")
        login.save(ask_issuer(f"{issuer.url}/token", form=form, authority_file=settings.authority_file)[1])
        first, issuer.lifetime_s = login.token(), 20_000
        server, address = await start_fake(api)
        async with ArgosyClient(address, login=login) as client:
            batches = [batch async for batch in client.watch("science", "first", until_finished=True)]
        await server.stop(None)

    assert [event.number for batch in batches for event in batch.events] == [1, 2]
    assert api.metadata["WatchJobSet"]["authorization"] not in {"", f"Bearer {first}"}
    assert issuer.asked["/token"] == 2


async def test_watch_that_is_left_ends_its_stream(api: FakeApi, client: ArgosyClient) -> None:
    """A reader that stops reading leaves no stream behind on the server."""
    add_events(api, 2)

    async with aclosing(client.watch("science", "first")) as batches:  # type: ignore[type-var]
        async for batch in batches:
            if batch.cursor == "2":
                break
    while api.open_watches:
        await client.get_shares()

    assert api.open_watches == 0

"""A client and the server it talks to, in one process."""

from collections.abc import AsyncIterator
from random import Random

import pytest

from argosy_client import ArgosyClient, RetryPolicy
from argosy_testkit.fake_api import FakeApi, start_fake

QUICK = RetryPolicy(first_delay_s=0.001, max_delay_s=0.01, total_s=60.0)


@pytest.fixture
def api() -> FakeApi:
    """The server's state."""
    return FakeApi()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[ArgosyClient]:
    """A client that repeats quickly."""
    server, address = await start_fake(api)
    async with ArgosyClient(address, retries=QUICK, random=Random(1)) as client:
        yield client
    await server.stop(None)

"""The adapter on a fake API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import kubernetes.config  # noqa: F401 - takes a second, which no test's call shall wait for
import pytest

from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[FakeKubeLab, None]:
    """Serve a fake API server for one test."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
        yield FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)

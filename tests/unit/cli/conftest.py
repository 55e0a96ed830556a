"""The command line against a server in another thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy_cli.root import run
from argosy_testkit.fake_api import FakeApi, start_fake


@dataclass(frozen=True)
class Outcome:
    """What a command line ended with."""

    code: int
    """Exit code."""
    out: str
    """Standard output."""
    err: str
    """Standard error."""


Argosy = Callable[..., Outcome]


@pytest.fixture
def api() -> FakeApi:
    """The server's state; to be written before a command runs, and read afterwards."""
    return FakeApi()


@pytest.fixture
def server(api: FakeApi) -> Iterator[str]:
    """Address of a server that runs while the test does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    started, address = asyncio.run_coroutine_threadsafe(start_fake(api), loop).result(10)
    yield address
    asyncio.run_coroutine_threadsafe(started.stop(None), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Argosy:
    """Runs command lines in an empty home, without a server."""
    monkeypatch.setenv("ARGOSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ARGOSY_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("ARGOSY_SERVER", raising=False)
    monkeypatch.setattr("argosy_cli.session.DEFAULT_ADDRESS", "127.0.0.1:1")  # this machine may have a server

    def call(*arguments: str) -> Outcome:
        code = run(arguments)
        out, err = capfd.readouterr()
        return Outcome(int(code), out, err)

    return call


@pytest.fixture
def argosy(offline: Argosy, server: str, monkeypatch: pytest.MonkeyPatch) -> Argosy:
    """Runs command lines with a server."""
    monkeypatch.setenv("ARGOSY_SERVER", server)
    return offline


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    """A file with one job."""
    path = tmp_path / "job.yaml"
    path.write_text("kind: Pod\napiVersion: v1\n")
    return str(path)


@pytest.fixture
def job_id(argosy: Argosy, job_file: str) -> str:
    """A job in queue science, job set first."""
    return str(argosy("submit", "-f", job_file, "--queue", "science", "--job-set", "first").out.strip())

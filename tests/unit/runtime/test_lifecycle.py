"""Tests of the life of a service."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from argosy_core.errors import InvalidRequest
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import get_logger, set_up_logs
from argosy_runtime.metrics import METRICS, MetricsServer


async def test_lifecycle_stops_in_order_intake_drain_tasks_close() -> None:
    """Intake first, then what was accepted, then tasks, then closing in reverse order of opening."""
    steps: list[str] = []
    life = Lifecycle("probe")

    async def note(step: str) -> None:
        steps.append(step)

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("task")

    async def start(of: Lifecycle) -> None:
        of.on_close(lambda: note("close first opened"))
        of.on_close(lambda: note("close last opened"))
        of.on_stop_intake(lambda: note("intake"))
        of.on_drain(lambda: note("drain"))
        of.spawn(work(), name="work")
        asyncio.get_running_loop().call_later(0, of.request_stop)

    await life.run(start)
    assert steps == ["intake", "drain", "task", "close last opened", "close first opened"]


async def test_lifecycle_closes_everything_when_a_task_fails() -> None:
    """A failed task ends the service with its error, and nothing stays open."""
    closed = asyncio.Event()
    life = Lifecycle("probe")

    async def fail() -> None:
        raise ValueError("odd")

    async def close() -> None:
        closed.set()

    async def start(of: Lifecycle) -> None:
        of.on_close(close)
        of.spawn(fail(), name="fail")

    with pytest.raises(ExceptionGroup) as caught:
        await life.run(start)
    assert isinstance(caught.value.exceptions[0], ValueError)
    assert closed.is_set()


async def test_lifecycle_cuts_drain_short_at_deadline_and_at_second_request() -> None:
    """Draining ends at its deadline; asking twice ends it at once; later steps are done all the same."""
    for drain_s, hurry in ((0.01, False), (60.0, True)):
        closed = asyncio.Event()
        life = Lifecycle("probe", drain_s=drain_s)

        async def start(of: Lifecycle, *, closed: asyncio.Event = closed, hurry: bool = hurry) -> None:
            async def drain() -> None:
                if hurry:
                    of.request_stop()
                await asyncio.Event().wait()

            async def close() -> None:
                closed.set()

            of.on_drain(drain)
            of.on_close(close)
            of.request_stop()

        async with asyncio.timeout(50):
            await life.run(start)
        assert closed.is_set()


async def test_lifecycle_gives_up_a_start_that_is_asked_to_stop() -> None:
    """A start that waits for what does not come ends where it waits; what it opened is drained and closed."""
    steps: list[str] = []
    life = Lifecycle("probe", drain_s=60.0)

    async def note(step: str) -> None:
        steps.append(step)

    async def start(of: Lifecycle) -> None:
        of.on_stop_intake(lambda: note("intake"))
        of.on_drain(lambda: note("drain"))
        of.on_close(lambda: note("close"))
        of.spawn(asyncio.Event().wait(), name="work")  # type: ignore[arg-type]
        asyncio.get_running_loop().call_soon(of.request_stop)
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("given up")

    async with asyncio.timeout(50):
        await life.run(start)
    assert steps == ["given up", "intake", "drain", "close"]


async def test_lifecycle_gives_up_a_start_when_a_task_fails() -> None:
    """What the start spawned may fail before it is done: that ends it, with the task's error alone."""
    life = Lifecycle("probe")

    async def fail() -> None:
        raise ValueError("odd")

    async def start(of: Lifecycle) -> None:
        of.spawn(fail(), name="fail")
        await asyncio.Event().wait()

    async with asyncio.timeout(50):
        with pytest.raises(ExceptionGroup) as caught:
            await life.run(start)
    assert [str(error) for error in caught.value.exceptions] == ["odd"]


def test_run_service_exits_2_when_it_cannot_start_as_configured() -> None:
    """An error of ours at the start is a message and exit code 2; a fault of ours is 1."""
    set_up_logs("probe", stream=io.StringIO())

    async def refuse(_: Lifecycle) -> None:
        raise InvalidRequest("the port is taken")

    async def fail(_: Lifecycle) -> None:
        raise ValueError("odd")

    assert run_service("probe", refuse) == 2
    assert run_service("probe", fail) == 1


_PROGRAM = """
import asyncio, sys
from argosy_runtime.lifecycle import run_service

async def start(life):
    async def drain():
        print("draining", flush=True)
        if "hang" in sys.argv:
            await asyncio.Event().wait()
    life.on_drain(drain)
    print("ready", flush=True)

sys.exit(run_service("probe", start, drain_s=60.0))
"""


@pytest.mark.parametrize(("argument", "signal_count"), [("", 1), ("hang", 2)])
def test_process_drains_on_first_signal_and_hurries_on_second(argument: str, signal_count: int) -> None:
    """SIGTERM drains; a second signal cuts it short; both end with exit code 0."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process:
        lines = []
        while "ready" not in lines:
            lines.append(process.stdout.readline().strip())
        for _ in range(signal_count):
            process.send_signal(signal.SIGTERM)
            while "draining" not in lines:
                lines.append(process.stdout.readline().strip())
        assert process.wait(timeout=10) == 0


def test_logs_are_json_lines_with_fixed_keys() -> None:
    """Each line is an object with service, level, time and event; lower levels are left out."""
    stream = io.StringIO()
    set_up_logs("probe", level="info", stream=stream)
    log = get_logger(cluster="a")
    log.debug("too fine")
    log.info("run leased", job_id="j", run_id="j/1")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "service": "probe", "level": "info", "event": "run leased", "cluster": "a", "job_id": "j", "run_id": "j/1",
    }  # fmt: skip


def test_metrics_page_shows_what_was_counted() -> None:
    """The page answers with our names."""
    METRICS.submitted_jobs.inc(3)
    server = MetricsServer("127.0.0.1:0")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=50) as response:
            text = response.read().decode()
    finally:
        server.close()
    assert "argosy_submitted_jobs_total" in text
    assert "process_resident_memory_bytes" in text

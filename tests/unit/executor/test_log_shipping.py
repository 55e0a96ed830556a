"""Logs that outlive their pods: noted as pods end, kept in bounds, found again by whoever asks for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.executor.conftest import TIMEOUT_S, FakeLeader, body, running_executor

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotFound
from argosy_executor.log_archive import (
    DirectoryArchive,
    HttpArchive,
    KeptLog,
    LogArchiveSettings,
    log_key,
    open_archive,
)
from argosy_executor.log_shipping import LogShipper
from argosy_kube.port import Cluster
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.metrics import METRICS

pytestmark = pytest.mark.timeout(60)


class TwoContainers:
    """A cluster whose pods have two containers; what they wrote is given."""

    def __init__(self, logs: dict[str, bytes]) -> None:
        """Have logs by container."""
        self.logs = logs

    async def container_names(self, *run: int) -> tuple[str, ...]:
        """Name them."""
        if run[0] == 404:
            raise NotFound("the cluster has no such pod")
        return tuple(self.logs)

    async def read_log(self, *run: int, container: str, **options: Any) -> AsyncGenerator[bytes, None]:
        """Give one in small pieces."""
        data = self.logs[container]
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]


def names_in(directory: Path) -> list[str]:
    """Return the names of files, sorted."""
    return sorted(path.name for path in directory.iterdir())


async def settle(condition: Any) -> None:
    """Return once a condition holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.01)


async def test_log_of_a_failed_pod_is_read_when_its_pod_is_gone(
    host: ClusterHost, leader: FakeLeader, tmp_path: Path
) -> None:
    """The executor keeps it while the pod is there, and answers with it afterwards; a pod that succeeded has none."""
    leader.keep_finished_s = 0.0
    settings = LogArchiveSettings(target=str(tmp_path))
    async with running_executor(host, leader.address, log_archive=settings):
        session = await leader.next_session()
        session.is_storing = False  # pods stay until their ends are stored
        await session.give([(7, 1)], body(run_time="0s", exit_code=3))
        await session.give([(8, 1)], body(run_time="0s"), spec_hash=b"i" * 16)
        await session.wait_for(lambda: "FAILED" in session.states.get((7, 1, 0), []))
        await session.wait_for(lambda: "SUCCEEDED" in session.states.get((8, 1, 0), []))
        await settle(lambda: any(tmp_path.glob("7-*.log")))
        session.is_storing = True
        await session.store()
        number = 0

        async def read(handle: int, **fields: Any) -> tuple[bytes, int]:
            nonlocal number
            number += 1
            fields = {"tail_line_count": -1} | fields
            request = executor_pb2.LogRequest(
                request=number, handle=handle, attempt=1, object=0, credit_bytes=1 << 20, **fields
            )
            await session.send(log_request=request)
            await session.wait_for(lambda: number in session.log_ends)
            return b"".join(session.chunks.get(number, [])), session.log_ends[number][0]

        async with asyncio.timeout(TIMEOUT_S):
            while (await read(8))[1] == 0:  # noqa: ASYNC110 - until both pods are gone
                await asyncio.sleep(0.02)
        data, code = await read(7)
        assert (code, b"exit code 3" in data, len(data.splitlines())) == (0, True, 2)
        assert (await read(7, tail_line_count=1))[0] == data.splitlines(keepends=True)[-1]
        assert (await read(7, container="main"))[0] == data
        stamped = (await read(7, timestamps=True))[0].splitlines(keepends=True)
        assert b"".join(line.partition(b" ")[2] for line in stamped) == data
        assert stamped[0].startswith(b"20")
        assert (await read(7, container="other"))[1] == 5
        assert "nothing was kept" in session.log_ends[number][1]


async def test_every_container_is_kept_by_its_last_whole_lines(tmp_path: Path) -> None:
    """Memory and files are bounded, whatever a container wrote; the end is what tells."""
    lines = b"".join(b"line %06d\n" % number for number in range(5000))
    cluster: Any = TwoContainers({"main": lines, "side": b"short\n"})
    archive = DirectoryArchive(directory=tmp_path, max_total_bytes=1 << 20)
    settings = LogArchiveSettings(target=str(tmp_path), max_log_bytes=1000)
    shipper = LogShipper(cluster, archive, settings, name="c")
    await shipper.ship((7, 1, 0))
    main = KeptLog.decode(await archive.get(log_key(7, 1, 0)) or b"")
    side = KeptLog.decode(await archive.get(log_key(7, 1, 0, "side")) or b"")
    assert main is not None
    assert side is not None
    assert (main.container, main.is_whole, main.data[-12:]) == ("main", False, b"line 004999\n")
    assert main.data.startswith(b"line ")
    assert len(main.data) <= 1000
    assert (side.data, side.is_whole) == (b"short\n", True)


async def test_directory_keeps_the_newest_within_its_bytes(tmp_path: Path) -> None:
    """The oldest go first, those of an earlier process included; nobody else may read them."""
    for number in range(3):
        path = tmp_path / f"{number}-1-0.log"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number + 1, number + 1))
    archive = DirectoryArchive(directory=tmp_path, max_total_bytes=350)
    await archive.put("9-1-0.log", b"y" * 100)
    assert names_in(tmp_path) == ["1-1-0.log", "2-1-0.log", "9-1-0.log"]
    assert (tmp_path / "9-1-0.log").stat().st_mode & 0o777 == 0o600
    await archive.put("9-1-0.log", b"z" * 300)
    assert names_in(tmp_path) == ["9-1-0.log"]
    assert await archive.get("1-1-0.log") is None


async def test_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A full or foreign disk is no fault of the executor."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="file"):
        await DirectoryArchive(directory=tmp_path / "file", max_total_bytes=1).put("k.log", b"")


@asynccontextmanager
async def serving_texts(token: str) -> AsyncGenerator[tuple[str, dict[str, bytes]], None]:
    """Serve PUT and GET of texts to callers with a token."""
    texts: dict[str, bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.Response(status=403)
        if request.method == "PUT":
            texts[request.path] = await request.read()
            return web.Response(status=201)
        text = texts.get(request.path)
        return web.Response(status=404) if text is None else web.Response(body=text)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/logs/", texts
    await runner.cleanup()


async def test_http_server_keeps_logs_by_put_and_get(tmp_path: Path) -> None:
    """Any server that takes PUT does; a refusal is an error, a log that is not there is none."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with serving_texts("secret") as (url, texts):
        archive = HttpArchive(url, timeout_s=5.0, token_file=str(token))
        await archive.put("7-1-0.log", b"text")
        assert texts == {"/logs/7-1-0.log": b"text"}
        assert await archive.get("7-1-0.log") == b"text"
        assert await archive.get("8-1-0.log") is None
        token.write_text("wrong")
        with pytest.raises(BackendUnavailable, match="403"):
            await archive.put("7-1-0.log", b"")
        with pytest.raises(BackendUnavailable, match="403"):
            await archive.get("7-1-0.log")
        await archive.close()
    with pytest.raises(BackendUnavailable, match=url.rstrip("/")):
        await (gone := HttpArchive(url, timeout_s=5.0)).get("k")
    await gone.close()


async def test_what_does_not_fit_the_queue_is_counted_and_each_pod_is_noted_once(
    host: ClusterHost, leader: FakeLeader, tmp_path: Path
) -> None:
    """A flood of failures costs bounded memory and never waits; a pod seen again is not shipped again."""
    from argosy_kube.port import PodPhase, Selector
    from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod
    from argosy_testkit.in_process_cluster import InProcessCluster

    cluster: Cluster = InProcessCluster(host, "one")
    runs = [(handle, 1) for handle in range(1, 8)]
    await cluster.create_objects(make_create_batch(runs, bag=make_bag(make_pod(run_time="0s", exit_code=1))))
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            listing = await cluster.list_objects(Selector.OURS)
            if (listing.phase_column == PodPhase.FAILED).sum() == len(runs):
                break
            await asyncio.sleep(0.01)
    settings = LogArchiveSettings(target=str(tmp_path), queue_count=5)
    shipper = LogShipper(cluster, DirectoryArchive(directory=tmp_path, max_total_bytes=1 << 20), settings, name="full")
    dropped = METRICS.shipped_logs.labels("full", "dropped")
    before = dropped._value.get()
    shipper.note(listing)
    shipper.note(listing)
    assert dropped._value.get() - before == 2
    task = asyncio.create_task(shipper.run())
    await settle(lambda: len(names_in(tmp_path)) == 5)
    task.cancel()


def test_settings_name_a_place_or_none() -> None:
    """Whoever mistypes a place keeps nothing, and is told at the start."""
    assert open_archive(LogArchiveSettings()) is None
    assert isinstance(open_archive(LogArchiveSettings(target="/kept/logs")), DirectoryArchive)
    assert isinstance(open_archive(LogArchiveSettings(target="https://h/x")), HttpArchive)
    with pytest.raises(InvalidRequest, match="absolute path"):
        LogArchiveSettings(target="logs")


def test_text_that_is_no_kept_log_is_none() -> None:
    """Somebody else's file is not shown as a log."""
    assert KeptLog.decode(b"hello\n") is None
    assert KeptLog.decode(b"[]\n") is None

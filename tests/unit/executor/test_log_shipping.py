"""Logs that outlive their pods: noted as pods end, kept in bounds, found again by whoever asks for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.executor.conftest import TIMEOUT_S, FakeLeader, body, running_executor

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import BackendUnavailable, InvalidRequest, NotFound
from argosy_executor.log_shipping import LogShipper
from argosy_kube.port import Cluster
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.log_archives.archive import DirectoryArchive, KeptLog, LogArchiveSettings, log_key
from argosy_runtime.log_archives.http_archive import HttpArchive, authorization
from argosy_runtime.log_archives.loki_archive import LokiArchive
from argosy_runtime.log_archives.opening import open_archive
from argosy_runtime.log_archives.s3_archive import S3Archive, S3Credentials, read_credentials, sign_headers
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
        assert (await read(7, since_s=4_000_000_000)) == (b"", 0)
        assert (await read(7, since_s=1))[0] == data
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


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("", type(None)),
        ("/kept/logs", DirectoryArchive),
        ("https://h/x", HttpArchive),
        ("s3://bucket/of/ours", S3Archive),
        ("loki+http://loki:3100", LokiArchive),
    ],
)
def test_settings_name_a_place_or_none(target: str, kind: type) -> None:
    """Nothing is touched before it is used."""
    assert isinstance(open_archive(LogArchiveSettings(target=target), cluster="c"), kind)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"target": "logs"}, "absolute path"),
        ({"target": "s3:bucket"}, "absolute path"),
        ({"target": "s3://Bucket"}, "s3://BUCKET/PREFIX"),
        ({"target": "s3://bucket/a b"}, "s3://BUCKET/PREFIX"),
        ({"target": "s3://bucket", "s3_endpoint": "minio:9000"}, "s3_endpoint"),
    ],
)
def test_mistyped_place_is_told_at_the_start(settings: dict[str, str], fault: str) -> None:
    """Whoever mistypes a place would keep nothing, and learn it when a log is missed."""
    with pytest.raises(InvalidRequest, match=fault):
        LogArchiveSettings(**settings)  # type: ignore[arg-type] # all of these are text


EXAMPLE = S3Credentials(key_id="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.mark.parametrize(
    ("call", "headers", "body", "signature"),
    [
        (
            ("GET", "/test.txt"),
            {"Range": "bytes=0-9"},
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            ("PUT", "/test$file.text"),
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    ],
)
def test_calls_of_s3_are_signed_as_in_the_examples_of_aws(
    call: tuple[str, str], headers: dict[str, str], body: bytes, signature: str
) -> None:
    """The two examples of the API reference, "Authenticating Requests: Using the Authorization Header"."""
    signed = sign_headers(
        call[0],
        f"https://examplebucket.s3.amazonaws.com{call[1]}",
        headers,
        body,
        credentials=EXAMPLE,
        region="us-east-1",
        now=datetime(2013, 5, 24, tzinfo=UTC),
    )
    assert signed["Authorization"].endswith(f"Signature={signature}")
    assert "wJalr" not in repr(EXAMPLE)


def test_key_of_s3_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named; what a file holds is not told."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BackendUnavailable, match="the environment says no AWS_ACCESS_KEY_ID"):
        read_credentials("")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b%c")
    assert read_credentials("") == S3Credentials(key_id="a", secret="b%c")
    file = tmp_path / "key"
    file.write_text("[default]\naws_access_key_id=d\naws_secret_access_key = e%f\naws_session_token = g\n")
    assert read_credentials(str(file)) == S3Credentials(key_id="d", secret="e%f", session_token="g")
    for text, fault in (("[other]\n", "no section"), ("e%f", "no section"), ("[default]\n", "says no AWS_ACCESS")):
        file.write_text(text)
        with pytest.raises(BackendUnavailable, match=fault) as caught:
            read_credentials(str(file))
        assert "e%f" not in str(caught.value)
    with pytest.raises(BackendUnavailable, match="No such file"):
        read_credentials(str(tmp_path / "none"))


def test_token_is_sent_by_itself_or_as_the_password_of_a_name(tmp_path: Path) -> None:
    """It is read at each call, so that it may be changed."""
    (tmp_path / "token").write_text("word\n")
    settings = LogArchiveSettings(target="https://h/x", token_file=str(tmp_path / "token"))
    assert authorization(settings) == {"Authorization": "Bearer word"}
    (tmp_path / "token").write_text("other")
    assert authorization(replace(settings, user="me")) == {"Authorization": "Basic bWU6b3RoZXI="}
    assert authorization(LogArchiveSettings(tenant="t")) == {"X-Scope-OrgID": "t"}


def test_text_that_is_no_kept_log_is_none() -> None:
    """Somebody else's file is not shown as a log."""
    assert KeptLog.decode(b"hello\n") is None
    assert KeptLog.decode(b"[]\n") is None

"""One suite for every place where the ends of logs are kept: a directory, an HTTP server, S3 and Loki.

The servers are played in this process; what speaks for S3 works out signatures by itself and refuses wrong ones.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from argosy_core.errors import BackendUnavailable
from argosy_runtime.log_archives.archive import KeptLog, LogArchive, LogArchiveSettings, log_key
from argosy_runtime.log_archives.opening import open_archive

pytestmark = pytest.mark.timeout(60)

KEY_ID, SECRET, TOKEN = "AKIAEXAMPLE", "wJalr/Secret+Key", "lent-for-an-hour"
SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([\w-]+)/s3/aws4_request,"
    r"SignedHeaders=([\w;-]+),Signature=([0-9a-f]{64})"
)


class FakeS3:
    """Objects by path, for callers who sign with the key."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.objects: dict[str, bytes] = {}
        self.refusal = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Take or give an object."""
        body = await request.read()
        if self.refusal:
            return web.Response(status=self.refusal, text="<Error><Code>SlowDown</Code></Error>")
        if not self.is_signed(request, body):
            return web.Response(status=403, text="<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if request.method == "PUT":
            self.objects[request.path] = body
            return web.Response()
        found = self.objects.get(request.path)
        return web.Response(status=404) if found is None else web.Response(body=found)

    @staticmethod
    def is_signed(request: web.Request, body: bytes) -> bool:
        """Return whether a call is signed as the documentation of AWS says, over what came."""
        found = SIGNATURE.fullmatch(request.headers.get("Authorization", ""))
        if found is None or found[1] != KEY_ID or found[3] != "eu-west-9":
            return False
        names = found[4].split(";")
        if not {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"} <= {*names}:
            return False
        if request.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return False
        stamp = request.headers["x-amz-date"]
        told = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs((datetime.now(UTC) - told).total_seconds()) > 900 or request.headers["x-amz-security-token"] != TOKEN:
            return False
        lines = [f"{name}:{request.headers[name]}" for name in names]
        text = "\n".join([request.method, request.raw_path, "", *lines, "", found[4], hashlib.sha256(body).hexdigest()])
        scope = f"{found[2]}/{found[3]}/s3/aws4_request"
        meant = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(text.encode()).hexdigest()}"
        key = f"AWS4{SECRET}".encode()
        for word in scope.split("/"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        return hmac.compare_digest(hmac.new(key, meant.encode(), hashlib.sha256).hexdigest(), found[5])


class FakeLoki:
    """Lines with labels and structured metadata; queries by equality of these, in pages."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.lines: list[tuple[int, str, dict[str, str]]] = []
        self.streams: set[str] = set()
        self.refusal = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Take lines, or answer a query."""
        if self.refusal:
            return web.Response(status=self.refusal)
        if request.headers.get("X-Scope-OrgID") != "batch" or request.headers.get("Authorization") != "Bearer word":
            return web.Response(status=401)
        if request.method == "POST" and request.path == "/loki/api/v1/push":
            for stream in (await request.json())["streams"]:
                self.streams.add(json.dumps(stream["stream"], sort_keys=True))
                for at, line, about in stream["values"]:
                    if len(line) > 256_000:
                        return web.Response(status=400, text="max entry size exceeded")
                    self.lines.append((int(at), line, {**stream["stream"], **about}))
            return web.Response(status=204)
        assert request.path == "/loki/api/v1/query_range"
        asked = request.query
        wanted = {name: json.loads(text) for name, text in re.findall(r'(\w+)=("[^"]*")', asked["query"])}
        found = [
            entry
            for entry in self.lines
            if int(asked["start"]) <= entry[0] < int(asked["end"]) and wanted.items() <= entry[2].items()
        ]
        found.sort(key=lambda entry: -entry[0])
        result = [{"stream": about, "values": [[str(at), line]]} for at, line, about in found[: int(asked["limit"])]]
        return web.json_response({"status": "success", "data": {"resultType": "streams", "result": result}})


class FakeFolder:
    """Texts by path."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.texts: dict[str, bytes] = {}
        self.refusal = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Take or give a text."""
        if self.refusal:
            return web.Response(status=self.refusal)
        if request.method == "PUT":
            self.texts[request.path] = await request.read()
            return web.Response(status=201)
        found = self.texts.get(request.path)
        return web.Response(status=404) if found is None else web.Response(body=found)


Server = FakeS3 | FakeLoki | FakeFolder
PLACES: dict[str, Callable[[], Server] | None] = {"directory": None, "http": FakeFolder, "s3": FakeS3, "loki": FakeLoki}


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[str, None]:
    """Give the address at which a server answers."""
    application = web.Application(client_max_size=64 << 20)
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def settings_of(place: str, address: str, folder: Path, max_log_bytes: int = 262_144) -> LogArchiveSettings:
    """Return settings that name a place."""
    (folder / "key").write_text(
        f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n"
    )
    (folder / "token").write_text("word\n")
    targets = {
        "directory": str(folder / "kept"),
        "http": f"http://{address}/logs",
        "s3": "s3://logs.batch/west/end",
        "loki": f"loki+http://{address}",
    }
    return LogArchiveSettings(
        target=targets[place],
        s3_endpoint=f"http://{address}",
        s3_region="eu-west-9",
        s3_credentials_file=str(folder / "key"),
        token_file=str(folder / "token"),
        tenant="batch",
        max_log_bytes=max_log_bytes,
    )


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[LogArchive, Server | None]]:
    """Give an archive, and the server that has it."""
    kind = PLACES[request.param]
    server = kind() if kind is not None else None
    if server is None:
        archive = open_archive(settings_of(request.param, "", tmp_path), cluster="west")
        assert archive is not None
        yield archive, None
        return
    async with serving(server) as address:
        archive = open_archive(settings_of(request.param, address, tmp_path), cluster="west")
        assert archive is not None
        yield archive, server
        await archive.close()


def kept(data: bytes, container: str = "main", *, is_whole: bool = True) -> bytes:
    """Return a log as it is kept."""
    return KeptLog(container=container, data=data, is_whole=is_whole).encode()


async def test_log_is_found_as_it_was_put(place: tuple[LogArchive, Server | None]) -> None:
    """By its key, to the letter, with its container and whether it is whole; that of another is not taken for it."""
    archive, _ = place
    text = kept(b"2026-11-23T05:00:00.1Z one\n2026-11-23T05:00:01Z  two \xe2\x80\xa8\x0b\r three\n", is_whole=False)
    await archive.put(log_key(7, 1, 0), text)
    await archive.put(log_key(7, 1, 0, "side"), kept(b"2026-11-23T05:00:00Z aside\n", "side"))
    await archive.put(log_key(77, 1, 0), kept(b""))
    assert await archive.get(log_key(7, 1, 0)) == text
    assert await archive.get(log_key(7, 1, 0, "side")) == kept(b"2026-11-23T05:00:00Z aside\n", "side")
    assert await archive.get(log_key(77, 1, 0)) == kept(b"")


async def test_log_that_was_never_put_is_none(place: tuple[LogArchive, Server | None]) -> None:
    """That is an answer, not an error."""
    assert await place[0].get(log_key(8, 1, 0)) is None


async def test_log_that_is_put_again_is_the_newer_one(place: tuple[LogArchive, Server | None]) -> None:
    """An executor that was started again keeps what it sees, whoever kept it before."""
    archive, _ = place
    await archive.put(log_key(7, 1, 0), kept(b"t first\nt of it\n"))
    await archive.put(log_key(7, 1, 0), kept(b"t second\n"))
    assert await archive.get(log_key(7, 1, 0)) == kept(b"t second\n")


async def test_log_of_many_lines_is_found_whole(place: tuple[LogArchive, Server | None]) -> None:
    """More lines than a server answers at once are fetched in pages."""
    text = kept(b"".join(b"2026-11-23T05:00:00Z line %d\n" % number for number in range(7000)))
    await place[0].put(log_key(7, 1, 0), text)
    assert await place[0].get(log_key(7, 1, 0)) == text


async def test_server_that_is_not_there_is_said_without_its_secrets(
    place: tuple[LogArchive, Server | None], tmp_path: Path
) -> None:
    """Nobody can tell now whether there is such a log; what calls are signed with is in no message."""
    archive, server = place
    if server is None:
        return
    server.refusal = 403
    for call in (archive.put(log_key(7, 1, 0), kept(b"t x\n")), archive.get(log_key(7, 1, 0))):
        with pytest.raises(BackendUnavailable, match="403") as caught:
            await call
        assert not any(word in str(caught.value) for word in (SECRET, TOKEN, "word"))


async def test_busy_server_is_asked_again(place: tuple[LogArchive, Server | None]) -> None:
    """A log is not lost because a server was busy for a moment."""
    archive, server = place
    if server is None:
        return
    answered = 0
    answer = server.answer

    async def busy_once(request: web.Request) -> web.Response:
        nonlocal answered
        answered += 1
        server.refusal = 503 if answered == 1 else 0
        return await answer(request)

    server.answer = busy_once  # type: ignore[method-assign] # the server's next call
    await archive.put(log_key(7, 1, 0), kept(b"t x\n"))
    assert await archive.get(log_key(7, 1, 0)) == kept(b"t x\n")


async def test_endless_answer_is_refused(tmp_path: Path) -> None:
    """A server that answers gigabytes costs bounded memory."""
    server = FakeFolder()
    async with serving(server) as address:
        archive = open_archive(settings_of("http", address, tmp_path, max_log_bytes=1000), cluster="west")
        assert archive is not None
        server.texts["/logs/7-1-0.log"] = b"x" * (5 << 20)
        with pytest.raises(BackendUnavailable, match="more than"):
            await archive.get("7-1-0.log")
        await archive.close()


async def test_stream_of_loki_is_one_of_a_cluster(tmp_path: Path) -> None:
    """Each combination of labels costs Loki memory; jobs are told apart by structured metadata."""
    server = FakeLoki()
    async with serving(server) as address:
        archive = open_archive(settings_of("loki", address, tmp_path), cluster="west")
        assert archive is not None
        for handle in range(20):
            await archive.put(log_key(handle, 1, 0), kept(b"t " + b"x" * 300_000 + b"\n"))
        await archive.close()
    assert server.streams == {json.dumps({"cluster": "west", "service_name": "argosy"})}

"""Ends of logs at a real MinIO and a real Loki: the contract of archives, and a mesh whose executor is away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest
from testbed.log_servers import Loki, Minio, loki, loki_version, minio, minio_version
from tests.contract.runtime.test_log_archives import (
    kept,
    test_log_is_found_as_it_was_put,
    test_log_of_many_lines_is_found_whole,
    test_log_that_is_put_again_is_the_newer_one,
    test_log_that_was_never_put_is_none,
)

from argosy_core.errors import BackendUnavailable
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_local.processes import await_true
from argosy_runtime.log_archives.archive import LogArchive, LogArchiveSettings, log_key
from argosy_runtime.log_archives.opening import open_archive

__all__ = [
    "test_log_is_found_as_it_was_put",
    "test_log_of_many_lines_is_found_whole",
    "test_log_that_is_put_again_is_the_newer_one",
    "test_log_that_was_never_put_is_none",
]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "wreck",
        "annotations": {"argosy.dev/simulated-run-time": "0s", "argosy.dev/simulated-exit-code": "7"},
    },
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {"name": "main", "image": "busybox:1.36", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
        ],
    },
}
BUCKET = "logs.batch"


@pytest.fixture(scope="module")
def object_store(tmp_path_factory: pytest.TempPathFactory, note_part: Callable[[str, str], None]) -> Iterator[Minio]:
    """A MinIO with one bucket."""
    with minio(tmp_path_factory.mktemp("minio") / "it", BUCKET) as server:
        note_part("MinIO", minio_version())
        yield server


@pytest.fixture(scope="module")
def log_store(tmp_path_factory: pytest.TempPathFactory, note_part: Callable[[str, str], None]) -> Iterator[Loki]:
    """A Loki for callers that name their tenant."""
    with loki(tmp_path_factory.mktemp("loki") / "it") as server:
        note_part("Loki", loki_version())
        yield server


@pytest.fixture(params=["s3", "loki"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> LogArchiveSettings:
    """How an executor is told of each; keys and streams of a test are its own."""
    name = tmp_path.name.replace("_", "-")
    if request.param == "s3":
        server: Minio = request.getfixturevalue("object_store")
        return s3_settings(server, tmp_path, secret=server.secret, prefix=name)
    log_server: Loki = request.getfixturevalue("log_store")
    return LogArchiveSettings(target=f"loki+{log_server.url}", tenant=name)


def s3_settings(server: Minio, folder: Path, *, secret: str, prefix: str) -> LogArchiveSettings:
    """Return settings that name the bucket of a MinIO."""
    key_file = folder / "key"
    key_file.write_text(f"[default]\naws_access_key_id = {server.key_id}\naws_secret_access_key = {secret}\n")
    return LogArchiveSettings(
        target=f"s3://{BUCKET}/{prefix}", s3_endpoint=server.url, s3_credentials_file=str(key_file)
    )


@pytest.fixture
async def place(settings: LogArchiveSettings) -> AsyncGenerator[tuple[LogArchive, None]]:
    """Give an archive, as the contract wants it."""
    archive = open_archive(settings, cluster="west")
    assert archive is not None
    yield archive, None
    await archive.close()


async def test_key_that_signs_wrongly_is_refused_by_minio(object_store: Minio, tmp_path: Path) -> None:
    """What is signed is what MinIO checks: a wrong secret is told as its refusal, without the secret."""
    archive = open_archive(s3_settings(object_store, tmp_path, secret="guessed", prefix="x"), cluster="west")
    assert archive is not None
    with pytest.raises(BackendUnavailable, match="403") as caught:
        await archive.put(log_key(7, 1, 0), kept(b"t x\n"))
    assert "guessed" not in str(caught.value)
    await archive.close()


async def test_line_that_loki_would_refuse_is_cut(log_store: Loki, tmp_path: Path) -> None:
    """Its bound is 256 KB unless it is configured otherwise; the rest of the log is there."""
    archive = open_archive(LogArchiveSettings(target=f"loki+{log_store.url}", tenant=tmp_path.name), cluster="west")
    assert archive is not None
    await archive.put(log_key(7, 1, 0), kept(b"t " + b"x" * 250_000 + b"\nt end\n"))
    text = await archive.get(log_key(7, 1, 0))
    assert text is not None
    assert text.endswith(b"x\nt end\n")
    assert 200_000 <= len(text) < 201_000
    await archive.close()


def flags_of(settings: LogArchiveSettings) -> tuple[str, ...]:
    """Return the command line that says settings to a service."""
    names = ("target", "tenant", "s3_endpoint", "s3_credentials_file")
    pairs = ((f"--log-archive-{name.replace('_', '-')}", str(getattr(settings, name))) for name in names)
    return tuple(word for flag, value in pairs if value for word in (flag, value))


def test_log_of_a_failed_job_is_read_when_its_pod_and_its_executor_are_gone(
    settings: LogArchiveSettings, tmp_path: Path
) -> None:
    """The executor ships it there as the pod ends; once that is down the server reads it where it was put."""
    manifest = tmp_path / "wreck.json"
    manifest.write_text(json.dumps(POD))
    flags = {"executor": flags_of(settings), "server": flags_of(settings)}
    plan = MeshPlan(clusters=(ClusterPlan(name="west", kinds="2:cpu=4,memory=16Gi"),), flags=flags)
    with Mesh(tmp_path / "mesh") as mesh:
        mesh.up(plan)

        def argosy(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(Path(sys.executable).with_name("argosy")), *words, "--server", mesh.server],
                capture_output=True, text=True, check=False, env={**os.environ, "ARGOSY_HOME": str(tmp_path)},
            )  # fmt: skip

        assert argosy("queue", "create", "science").returncode == 0
        submitted = argosy("submit", str(manifest), "--queue", "science", "--job-set", "s")
        assert submitted.returncode == 0, submitted.stderr
        job_id = submitted.stdout.split()[-1]
        assert argosy("wait", job_id).returncode == 5
        live = argosy("logs", job_id)
        assert "exit code 7" in live.stdout, live.stderr
        mesh.kill("executor-west")
        mesh.kill("cluster-west")

        def said() -> subprocess.CompletedProcess[str]:
            return argosy("logs", job_id, "--timeout", "1")

        await_true(lambda: said().stdout == live.stdout, "what was kept to be read", timeout_s=120.0)
        last = argosy("logs", job_id, "--tail", "1", "--timestamps")
        assert (last.returncode, last.stdout.count("\n")) == (0, 1)
        assert last.stdout.startswith("20")
        wrong = argosy("logs", job_id, "--container", "nope")
        assert (wrong.returncode, "has no container 'nope'; it has main" in wrong.stderr) == (3, True)

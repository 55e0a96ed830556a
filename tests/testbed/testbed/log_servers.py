"""The servers that keep ends of logs: MinIO, which speaks S3, and Loki, built from Go modules.

Both are built as their projects release them: a go.mod names the program as a tool, and its go.sum every module that it
is made of, with its checksum. They run in folders that are removed with them, and listen on this machine only.
"""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_local.processes import free_ports
from testbed import go_programs
from testbed.cache import Tell
from testbed.programs import Program

__all__ = [
    "LOKI_VARIABLE",
    "MINIO_VARIABLE",
    "Loki",
    "Minio",
    "build_loki",
    "build_minio",
    "loki",
    "loki_version",
    "minio",
    "minio_version",
]

MINIO_VARIABLE: Final = "ARGOSY_TESTBED_MINIO"
"""Variable that names a MinIO that is used as it is."""
LOKI_VARIABLE: Final = "ARGOSY_TESTBED_LOKI"
"""Variable that names a Loki that is used as it is."""
_SOURCES: Final = Path(__file__).resolve().parent.parent
_MINIO: Final = "github.com/minio/minio"
_LOKI: Final = "github.com/grafana/loki/v3"
_START_S: Final = 60.0
_LOKI_CONFIGURATION: Final = """\
auth_enabled: true
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {port}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {grpc_port}
  log_level: warn
common:
  instance_addr: 127.0.0.1
  path_prefix: {folder}
  replication_factor: 1
  ring: {{kvstore: {{store: inmemory}}}}
  storage: {{filesystem: {{chunks_directory: {folder}/chunks, rules_directory: {folder}/rules}}}}
ingester: {{lifecycler: {{min_ready_duration: 0s, final_sleep: 0s}}}}
schema_config:
  configs:
    - {{from: "2024-01-01", store: tsdb, object_store: filesystem, schema: v13, index: {{prefix: index_, period: 24h}}}}
analytics: {{reporting_enabled: false}}
"""
"""What one process needs; limits and retention are Loki's own."""


def _quiet(_: str) -> None:
    """Tell nobody."""


def minio_version() -> str:
    """Return the release of MinIO: a moment and a commit, since its modules have no other."""
    return go_programs.module_version(_SOURCES / "minio", _MINIO)


def loki_version() -> str:
    """Return the release of Loki."""
    return go_programs.module_version(_SOURCES / "loki", _LOKI)


def build_minio(tell: Tell = _quiet) -> Path:
    """Return the path of MinIO, built first if it is not there.

    From nothing that takes four minutes of CPU.

    Raises:
        NotAllowedNow: There is no Go, or the named binary does not exist.
        BackendUnavailable: It cannot be built; the message ends with what the compiler said.
    """
    return go_programs.build(
        _SOURCES / "minio",
        f"minio-{minio_version()}",
        binary_variable=MINIO_VARIABLE,
        linked={},
        tell=tell,
        package=_MINIO,
    )


def build_loki(tell: Tell = _quiet) -> Path:
    """Return the path of Loki, built first if it is not there.

    From nothing that takes five minutes of CPU.

    Raises:
        NotAllowedNow: There is no Go, or the named binary does not exist.
        BackendUnavailable: It cannot be built; the message ends with what the compiler said.
    """
    return go_programs.build(
        _SOURCES / "loki",
        f"loki-{loki_version()}",
        binary_variable=LOKI_VARIABLE,
        linked={},
        tell=tell,
        package=f"{_LOKI}/cmd/loki",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Minio:
    """A MinIO that runs."""

    url: str
    """Where it answers."""
    key_id: str
    """Key of its administrator."""
    secret: str
    """What calls with that key are signed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loki:
    """A Loki that runs, for callers that name a tenant."""

    url: str
    """Where it answers."""
    program: Program
    """The process."""


@contextmanager
def minio(folder: Path, *buckets: str) -> Iterator[Minio]:
    """Run a MinIO in a folder that is removed in the end.

    Args:
        folder: Is made; each folder in it is a bucket.
        buckets: Buckets that it has.
    """
    port, console_port = free_ports(2)
    for bucket in buckets:
        (folder / "data" / bucket).mkdir(parents=True)
    server = Minio(url=f"http://127.0.0.1:{port}", key_id="argosy-test", secret="not/much+of=a secret")
    addresses = ("--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{console_port}")
    program = Program(
        "minio",
        [str(build_minio()), "server", *addresses, str(folder / "data")],
        log=folder / "minio.log",
        environment={"MINIO_ROOT_USER": server.key_id, "MINIO_ROOT_PASSWORD": server.secret, "HOME": str(folder)},
    )
    try:
        program.start()
        program.await_ready(lambda: _answers(f"{server.url}/minio/health/ready"), timeout_s=_START_S)
        yield server
    finally:
        program.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def loki(folder: Path) -> Iterator[Loki]:
    """Run a Loki in a folder that is removed in the end."""
    port, grpc_port = free_ports(2)
    folder.mkdir(parents=True)
    configuration = folder / "loki.yaml"
    configuration.write_text(_LOKI_CONFIGURATION.format(port=port, grpc_port=grpc_port, folder=folder), "utf-8")
    program = Program("loki", [str(build_loki()), f"-config.file={configuration}"], log=folder / "loki.log")
    server = Loki(url=f"http://127.0.0.1:{port}", program=program)
    try:
        program.start()
        program.await_ready(lambda: _answers(f"{server.url}/ready"), timeout_s=_START_S)
        yield server
    finally:
        program.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False

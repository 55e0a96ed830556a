"""A Pulsar broker with its bookie, in one process or container."""

from __future__ import annotations

import shutil
import ssl
import tarfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from argosy_local.processes import free_ports
from testbed.artifacts import Artifact, fetched
from testbed.cache import Tell, obtain
from testbed.containers import Container, is_container_part
from testbed.programs import Program
from testbed.pulsar_security import HOST, Security

__all__ = ["IMAGE", "VERSION", "Broker", "build"]

VERSION: Final = "4.0.8"
"""Release of Pulsar."""
IMAGE: Final = f"apachepulsar/pulsar:{VERSION}"
"""Image that is taken where a container engine has or gets it."""

_ARTIFACT: Final = Artifact(
    coordinates=f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin",
    sha256="35c7d064c9e0928edbf2e708989faba0379662f98aa84ce0d4190c59efb6765e",
)
_FOLDER: Final = f"pulsar-{VERSION}"
_SETTINGS: Final = Path(__file__).resolve().parent.parent / "pulsar" / "standalone.conf"
_MEMORY: Final = ("-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ADDRESS: Final = "127.0.0.1"
_INSIDE: Final = "/pulsar/conf/testbed"
"""Folder of settings and certificates in a container."""
_INSIDE_DISK: Final = "/pulsar/data/standalone/bookkeeper"
_OPENED: Final = (
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Packages of Java that the broker looks into."""


def _quiet(_: str) -> None:
    """Tell nobody."""


class _Runner(Protocol):
    """A program or container."""

    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def last_words(self) -> str: ...


def build(tell: Tell = _quiet) -> Path | None:
    """Return the folder of the distribution, fetched first if it is not there; None if a container is used.

    Raises:
        NotAllowedNow: There is neither a container engine with the image nor Maven and Java.
        BackendUnavailable: The distribution cannot be had.
    """
    if is_container_part(IMAGE, _FOLDER, tell):
        return None
    if shutil.which("java") is None:
        raise NotAllowedNow("the Pulsar broker needs Java 17 or a container engine; install one of them")
    return obtain(_FOLDER, lambda staging: _unpack(staging, tell), tell)


def _unpack(folder: Path, tell: Tell) -> None:
    with fetched(_ARTIFACT, tell) as path:
        tell("unpacking the Pulsar distribution")
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    for child in list(inner.iterdir()):
        child.rename(folder / child.name)
    inner.rmdir()


def _merged(settings: Mapping[str, object]) -> str:
    """Return our settings, with those given in place of ones of the same name: the bookie takes the first it meets."""
    lines = _SETTINGS.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in settings]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in settings.items()), ""])


class Broker:
    """A broker in a directory of its own, on the same ports for its whole life.

    Args:
        directory: Its directory; the caller's to remove.
        settings: Settings that differ from ours, as in standalone.conf.
        security: Makes it demand TLS and tokens; without, it takes everybody.
        disk: Where its bookie keeps journal and ledgers; below the directory unless given.
        is_tied: It ends with this process.
        tell: Is told what fetching does.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        security: Security | None = None,
        disk: Path | None = None,
        is_tied: bool = True,
        tell: Tell = _quiet,
    ) -> None:
        """Choose ports and write the settings; nothing runs yet."""
        self.directory = directory
        """Data and log."""
        service, admin, bookie = free_ports(3)
        self._security = security
        self._disk = disk
        self._host = _ADDRESS if security is None else HOST
        self.service_url = f"{'pulsar' if security is None else 'pulsar+ssl'}://{self._host}:{service}"
        """URL for producers and consumers."""
        self.admin_url = f"{'http' if security is None else 'https'}://{self._host}:{admin}"
        """URL of the admin API."""
        directory.mkdir(parents=True, exist_ok=True)
        distribution = build(tell)
        self.is_container = distribution is None
        """Whether it is a container rather than a process."""
        configuration = directory / "standalone.conf"
        configuration.write_text(_merged({**self._places(service, admin), **(settings or {})}), encoding="utf-8")
        configuration.chmod(0o644)
        self._runner: _Runner = (
            self._container((service, admin), configuration, is_tied=is_tied)
            if distribution is None
            else self._program(distribution, configuration, bookie, is_tied=is_tied)
        )

    def _places(self, service: int, admin: int) -> dict[str, object]:
        """Return the settings that say where it listens, and where it finds its certificates."""
        places: dict[str, object] = {"advertisedAddress": self._host}
        if not self.is_container:
            places["bindAddress"] = _ADDRESS
        if self._security is None:
            return {**places, "brokerServicePort": service, "webServicePort": admin}
        plain = {"brokerServicePort": "", "webServicePort": ""}
        listens = {"brokerServicePortTls": service, "webServicePortTls": admin}
        return {**places, **plain, **listens, **self._security.settings(self._place)}

    def _place(self, path: Path) -> str:
        """Return where the broker finds one of its files."""
        return f"{_INSIDE}/{path.name}" if self.is_container else str(path)

    @property
    def version(self) -> str:
        """Version of the broker, from itself."""
        return self._ask("/admin/v2/brokers/version").strip('"') or "unknown"

    @property
    def is_running(self) -> bool:
        """Whether its process or container runs."""
        return self._runner.is_running

    @property
    def program(self) -> Program | None:
        """Its program, None if it is a container."""
        return self._runner if isinstance(self._runner, Program) else None

    @property
    def container(self) -> Container | None:
        """Its container, None if it is a process."""
        return self._runner if isinstance(self._runner, Container) else None

    def start(self, *, timeout_s: float = 120.0) -> None:
        """Start it, again if need be, and wait until it is healthy.

        Raises:
            BackendUnavailable: It did not come up; the message ends with what it said.
        """
        self._runner.start()
        deadline_s = time.monotonic() + timeout_s
        while self._ask("/admin/v2/brokers/health") != "ok":
            if not self._runner.is_running:
                raise BackendUnavailable(f"the Pulsar broker ended: {self._runner.last_words()}")
            if time.monotonic() > deadline_s:
                raise BackendUnavailable(
                    f"the Pulsar broker is not healthy after {timeout_s:g} s: {self._runner.last_words()}"
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in order; its data stays."""
        self._runner.stop()

    def kill(self) -> None:
        """End it as a power failure of its process would; its data stays."""
        self._runner.kill()

    def remove(self) -> None:
        """End it for good."""
        self._runner.kill()
        if isinstance(self._runner, Container):
            self._runner.remove()

    def _ask(self, path: str) -> str:
        """Return what the admin API answers to a GET, nothing if it does not."""
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        request = urllib.request.Request(self.admin_url + path)
        if self._security is not None:
            context = ssl.create_default_context(cafile=str(self._security.authority))
            handlers.append(urllib.request.HTTPSHandler(context=context))
            request.add_header("Authorization", f"Bearer {self._security.token.read_text(encoding='ascii')}")
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(request, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError as error:
            close = getattr(error, "close", None)
            if close is not None:
                close()
            return ""

    def _program(self, distribution: Path, configuration: Path, bookie_port: int, *, is_tied: bool) -> Program:
        data = self.directory
        arguments = [
            "java",
            *_MEMORY,
            "-XX:+PerfDisableSharedMem",
            *(word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
            "-Djava.net.preferIPv4Stack=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Djute.maxbuffer=10485760",
            f"-Dlog4j.configurationFile={distribution / 'conf' / 'log4j2.yaml'}",
            "-Dpulsar.log.appender=Console",
            "-Dpulsar.routing.appender.default=Console",
            f"-Dpulsar.log.dir={data}",
            "-Dpulsar.log.level=warn",
            "-Dpulsar.log.root.level=warn",
            f"-Djava.io.tmpdir={data}",
            "-cp",
            f"{distribution / 'conf'}:{distribution / 'lib' / '*'}",
            "org.apache.pulsar.PulsarStandaloneStarter",
            f"--config={configuration}",
            "--no-functions-worker",
            "--no-stream-storage",
            f"--advertised-address={self._host}",
            f"--metadata-dir={data / 'metadata'}",
            f"--bookkeeper-dir={self._disk or data / 'bookkeeper'}",
            f"--bookkeeper-port={bookie_port}",
        ]
        return Program("pulsar", arguments, log=data / "pulsar.log", is_tied=is_tied)

    def _container(self, ports: tuple[int, int], configuration: Path, *, is_tied: bool) -> Container:
        files = self._security.files if self._security is not None else ()
        disk = ["--volume", f"{self._disk}:{_INSIDE_DISK}"] if self._disk is not None else []
        return Container(
            "pulsar",
            IMAGE,
            ports={port: port for port in ports},  # clients are sent to the address that the broker advertises
            environment={"PULSAR_MEM": " ".join(_MEMORY[:3]), "PULSAR_GC": " ".join(_MEMORY[3:])},
            files={self._place(path): path for path in (configuration, *files)},
            options=["--memory", "1500m", *disk],
            is_tied=is_tied,
            arguments=[
                "bin/pulsar",
                "standalone",
                f"--config={self._place(configuration)}",
                "--no-functions-worker",
                "--no-stream-storage",
                f"--advertised-address={self._host}",
            ],
        )

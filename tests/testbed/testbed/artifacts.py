"""Artifacts of a Maven repository, fetched by the `mvn` of this machine with the settings of this machine.

Maven checks the checksum that the repository tells; ours, written down here, is checked on top.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_core.errors import BackendUnavailable, NotAllowedNow
from testbed.cache import Tell, cache_directory

__all__ = ["Artifact", "check_sum", "fetched"]

_TIMEOUT_S: Final = 1800.0
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file of a Maven repository."""

    coordinates: str
    """group:artifact:version[:type[:classifier]]."""
    sha256: str
    """Checksum, hexadecimal."""


def check_sum(path: Path, sha256: str) -> None:
    """Do nothing if a file has the checksum.

    Raises:
        BackendUnavailable: It has another one.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise BackendUnavailable(f"{path.name} has the SHA-256 {found}, expected {sha256}; it is not used")


@contextmanager
def fetched(artifact: Artifact, tell: Tell) -> Iterator[Path]:
    """Give the path of an artifact's checked copy, which is removed afterwards.

    Raises:
        NotAllowedNow: There is no Maven on this machine.
        BackendUnavailable: The artifact cannot be had, or is not what it should be.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise NotAllowedNow(f"{artifact.coordinates} comes from a Maven repository; install Maven (`mvn`) and Java 17")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_directory()) as folder:
        tell(f"fetching {artifact.coordinates}")
        arguments = [maven, "-B", "-q", "-C", _COPY, f"-Dartifact={artifact.coordinates}"]
        try:
            done = subprocess.run(
                [*arguments, f"-DoutputDirectory={folder}"],
                check=False,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                cwd=folder,
            )
        except subprocess.TimeoutExpired as error:
            raise BackendUnavailable(f"Maven did not fetch {artifact.coordinates} in {_TIMEOUT_S:g} s") from error
        files = [path for path in Path(folder).iterdir() if path.is_file()]
        if done.returncode != 0 or len(files) != 1:
            words = (done.stdout + done.stderr).strip()[-800:]
            raise BackendUnavailable(f"Maven cannot fetch {artifact.coordinates}: {words}")
        check_sum(files[0], artifact.sha256)
        yield files[0]

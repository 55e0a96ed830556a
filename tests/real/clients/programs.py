"""The quick starts of `docs/clients`: how each is built and started."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import stubs
from testbed import debian

EXAMPLES = stubs.ROOT / "examples" / "clients"


@dataclass(frozen=True, kw_only=True)
class Program:
    """One quick start."""

    tools: dict[str, str]
    """Programs that must be on PATH, each with what to install."""
    build: Callable[[Path], list[str]]
    """Compiles it, with what it makes in the given folder where the language allows; returns the command."""
    libraries: tuple[str, ...] = ()
    """Libraries that pkg-config must find."""
    debian: tuple[str, ...] = ()
    """Packages of Debian that bring tools and libraries."""

    def missing(self) -> list[str]:
        """Name what is not on this machine."""
        tools = [f"{name} (install {what})" for name, what in self.tools.items() if shutil.which(name) is None]
        absent = [name for name in self.libraries if not has_library(name)]
        return tools + [f"the library {name} (Debian: {' '.join(self.debian)})" for name in absent]


def has_library(name: str) -> bool:
    """Whether pkg-config is there and knows a library."""
    program = shutil.which("pkg-config")
    return program is not None and subprocess.run([program, "--exists", name], check=False).returncode == 0


def run(*command: str, folder: Path) -> None:
    """Run a build command; what it prints is the message if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def build_go(scratch: Path) -> list[str]:
    """Compile the Go program."""
    program = scratch / "quickstart-go"
    run("go", "build", "-mod=readonly", "-o", str(program), ".", folder=EXAMPLES / "go")
    return [str(program)]


def build_java(scratch: Path) -> list[str]:
    """Compile and pack the Java program."""
    del scratch
    folder = EXAMPLES / "java"
    run("mvn", "--batch-mode", "--quiet", "clean", "package", folder=folder)
    return ["java", "-jar", str(folder / "target" / "quickstart.jar")]


def build_typescript(scratch: Path) -> list[str]:
    """Install what the TypeScript program needs by its lock file, and compile it."""
    del scratch
    folder = EXAMPLES / "typescript"
    run("npm", "ci", "--no-audit", "--no-fund", folder=folder)
    run("npm", "run", "build", folder=folder)
    return ["node", str(folder / "dist" / "main.js")]


def build_rust(scratch: Path) -> list[str]:
    """Compile the Rust program; without a lock file, by the exact versions and the oldest Rust of its Cargo.toml."""
    del scratch
    folder = EXAMPLES / "rust"
    run("cargo", "build", "--quiet", folder=folder)
    return [str(folder / "target" / "debug" / "argosy-quickstart")]


def build_cpp(scratch: Path) -> list[str]:
    """Compile the C++ program against the machine's gRPC."""
    folder = scratch / "build"
    run("cmake", "-S", str(EXAMPLES / "cpp"), "-B", str(folder), "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", folder=scratch)
    run("cmake", "--build", str(folder), "--parallel", "2", folder=scratch)
    return [str(folder / "quickstart")]


def build_python(scratch: Path) -> list[str]:
    """Return the command of the Python program; there is nothing to compile."""
    del scratch
    return [sys.executable, str(EXAMPLES / "python" / "quickstart.py")]


PROGRAMS = {
    "go": Program(tools={"go": "Go 1.25 or newer"}, build=build_go),
    "java": Program(tools={"mvn": "Maven", "javac": "a JDK 17 or newer", "java": "a JDK 17"}, build=build_java),
    "typescript": Program(tools={"node": "Node.js 20 or newer", "npm": "npm"}, build=build_typescript),
    "python": Program(tools={}, build=build_python),
    "rust": Program(tools={"cargo": "Rust 1.88 or newer"}, build=build_rust),
    "cpp": Program(
        tools={"c++": "a C++17 compiler", "cmake": "CMake 3.20 or newer", "pkg-config": "pkg-config",
               "protoc": "the protobuf compiler", "grpc_cpp_plugin": "gRPC's generators"},
        build=build_cpp,
        libraries=("grpc++", "protobuf"),
        debian=("g++", "make", "cmake", "pkg-config", "protobuf-compiler", "protobuf-compiler-grpc", "libgrpc++-dev",
                "libprotobuf-dev"),
    ),
}  # fmt: skip


def build(language: str, scratch: Path) -> list[str]:
    """Make the stubs of a language, compile its quick start, and return the command that starts it."""
    program = PROGRAMS[language]
    if program.missing():
        debian.install(program.debian, say=print)
    missing = program.missing()
    assert not missing, f"cannot build the {language} quick start without {', '.join(missing)}"
    if language in stubs.LANGUAGES:
        assert stubs.main([language]) == 0, f"`make stubs-{language}` failed"
    return program.build(scratch)

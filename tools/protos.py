"""Generate, lint and compare everything that comes out of `proto/`.

The compiler (`grpcio-tools`) pins its own protobuf and therefore lives in a virtual environment of its own, made from
`requirements-proto.txt`; this script runs in the project's environment and starts that compiler.

Our files import `buf/validate/validate.proto`. No package carries its text, but the `protovalidate` wheel carries its
descriptor, so the script hands that descriptor to the compiler and generates the Python module for it next to ours.
`buf` has no module registry to ask either, and is given compiled images instead of sources.

Usage: python tools/protos.py {generate,check,lint,breaking,baseline} [--compiler PYTHON]
"""

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2, duration_pb2, field_mask_pb2, timestamp_pb2

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
BASELINE = SOURCES / "baseline.binpb"
OUTPUT = ROOT / "libs" / "proto" / "src"
GENERATED_PACKAGES = ("argosy", "buf")
IMAGE_IN_PACKAGE = Path("argosy") / "argosy.binpb"
# Stand among the generated modules and are left as they are.
_OURS = ("channel_credentials.py", "descriptors.py", "error_details.py", "issuer.py", "openssl.py")
HAND_WRITTEN = tuple(Path("argosy") / name for name in _OURS)
VALIDATE_PROTO = "buf/validate/validate.proto"
WIRE_TYPES = '''"""Generated wire types of Argosy; see `make proto`.

Owns: the messages and stubs of `proto/`, and their descriptors.
May import: protobuf and gRPC alone.
Start: `proto/argosy/api/v1/` (what users call), `proto/argosy/lease/v1/` (what a decision looks like on the log).
"""
'''
"""What the package of all wire types says of itself."""
DEFAULT_COMPILER = ROOT / ".venv-proto" / "bin" / "python"


class ToolError(Exception):
    """A started program failed, or what it wrote is not what is committed; the message is for the user."""


def run(*command: str | Path) -> None:
    """Run a program from the project root and pass its output through.

    Raises:
        ToolError: if it exits with another code than 0.
    """
    finished = subprocess.run([str(part) for part in command], cwd=ROOT, check=False)
    if finished.returncode != 0:
        raise ToolError(f"{Path(command[0]).name} exited with {finished.returncode}")


def validate_descriptors() -> bytes:
    """Return a serialised FileDescriptorSet of `buf/validate/validate.proto` and its imports.

    Options that only matter to other languages are dropped, so that the generated module names no foreign host.
    """
    from protovalidate._gen.buf.validate import validate_pb  # the only carrier of the descriptor

    rules = descriptor_pb2.FileDescriptorProto.FromString(validate_pb.desc().proto.to_binary())
    rules.ClearField("options")
    descriptors = descriptor_pb2.FileDescriptorSet()
    for module in (descriptor_pb2, duration_pb2, timestamp_pb2, field_mask_pb2):
        module.DESCRIPTOR.CopyToProto(descriptors.file.add())
    descriptors.file.append(rules)
    return descriptors.SerializeToString(deterministic=True)


def source_names() -> list[str]:
    """Return the paths of our .proto files relative to `proto/`, sorted."""
    return sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.proto"))


def compile_image(compiler: Path, image: Path, *, with_comments: bool) -> None:
    """Write a self-contained FileDescriptorSet of all our files to `image`."""
    with tempfile.TemporaryDirectory() as scratch:
        descriptors = Path(scratch) / "validate.binpb"
        descriptors.write_bytes(validate_descriptors())
        run(
            compiler, "-m", "grpc_tools.protoc", "-I", SOURCES, f"--descriptor_set_in={descriptors}",
            "--include_imports", *(["--include_source_info"] if with_comments else []),
            f"--descriptor_set_out={image}", *source_names(),
        )  # fmt: skip


def replace_generated(compiler: Path) -> None:
    """Replace the committed generated code; a source that does not compile leaves it as it was."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(compiler, fresh)
        for package in GENERATED_PACKAGES:
            shutil.rmtree(OUTPUT / package, ignore_errors=True)
            shutil.copytree(fresh / package, OUTPUT / package)


def generate(compiler: Path, output: Path) -> None:
    """Write the Python modules, their stubs, package files and the image below the empty folder `output`."""
    plugins = compiler.parent
    with tempfile.TemporaryDirectory() as scratch:
        descriptors = Path(scratch) / "validate.binpb"
        descriptors.write_bytes(validate_descriptors())
        messages: list[str | Path] = ["--python_out", output, "--pyi_out", output]
        services: list[str | Path] = [
            "--grpc_python_out", output, f"--mypy_grpc_out=quiet:{output}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        ]  # fmt: skip
        base: list[str | Path] = [compiler, "-m", "grpc_tools.protoc", f"--descriptor_set_in={descriptors}"]
        run(*base, *messages, VALIDATE_PROTO)
        run(*base, "-I", SOURCES, *messages, *services, *source_names())
    remove_empty_services(output)
    write_package_files(output)
    for path in HAND_WRITTEN:
        shutil.copyfile(OUTPUT / path, output / path)
    compile_image(compiler, output / IMAGE_IN_PACKAGE, with_comments=False)


def remove_empty_services(output: Path) -> None:
    """Remove the gRPC modules of files that define no service: protoc writes one for every file."""
    for module in [*output.rglob("*_pb2_grpc.py")]:
        if "Servicer" not in module.read_text(encoding="utf-8"):
            module.unlink()
            module.with_suffix(".pyi").unlink()


def write_package_files(output: Path) -> None:
    """Write `__init__.py` (protoc writes none) into every generated folder, and the typing markers."""
    for package in GENERATED_PACKAGES:
        (output / package / "py.typed").touch()
        for folder in [output / package, *(p for p in (output / package).rglob("*") if p.is_dir())]:
            name = folder.relative_to(output).as_posix().replace("/", ".")
            text = f'"""Generated wire types of the package `{name}`; see `make proto`."""\n'
            if name == "argosy":
                text = WIRE_TYPES
            (folder / "__init__.py").write_text(text, encoding="utf-8")


def generated_files(folder: Path) -> Iterator[Path]:
    """Yield the paths, relative to `folder`, of all generated files in it."""
    for package in GENERATED_PACKAGES:
        for path in sorted((folder / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(folder)


def check(compiler: Path) -> None:
    """Raise ToolError if the committed generated code differs from what the sources give now."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(compiler, fresh)
        names = sorted({*generated_files(fresh), *generated_files(OUTPUT)})
        _, changed, missing = filecmp.cmpfiles(fresh, OUTPUT, [str(n) for n in names], shallow=False)
    if changed or missing:
        raise ToolError(f"generated code is stale, run `make proto`: {', '.join(changed + missing)}")


def buf_on_image(compiler: Path, *arguments: str | Path) -> None:
    """Run a `buf` command on a fresh image of our files; the image takes the place of `IMAGE` in the arguments."""
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "image.binpb"
        compile_image(compiler, image, with_comments=True)
        buf = Path(sys.executable).parent / "buf"
        run(buf, *(image if part == "IMAGE" else part for part in arguments))


def main() -> int:
    """Run the command that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(description="Generate, lint and compare what comes out of proto/.")
    parser.add_argument("command", choices=["generate", "check", "lint", "breaking", "baseline"])
    parser.add_argument("--compiler", type=Path, default=DEFAULT_COMPILER, help="Python that has grpcio-tools")
    arguments = parser.parse_args()
    compiler: Path = arguments.compiler.absolute()
    try:
        match arguments.command:
            case "generate":
                replace_generated(compiler)
            case "check":
                check(compiler)
            case "lint":
                buf_on_image(compiler, "lint", "IMAGE", "--config", ROOT / "buf.yaml")
            case "breaking":
                buf_on_image(
                    compiler, "breaking", "IMAGE", "--against", BASELINE, "--config", ROOT / "buf.yaml",
                    "--exclude-imports",
                )  # fmt: skip
            case _:
                compile_image(compiler, BASELINE, with_comments=False)
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

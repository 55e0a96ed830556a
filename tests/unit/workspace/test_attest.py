"""What was built is signed with what it was built from, and only that passes: a wheel, made twice, and its bill."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("attest", ROOT / "tools" / "attest.py")
assert _SPEC is not None
assert _SPEC.loader is not None
attest = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(attest)
COMMIT = "1" * 40
PRIVATE, PUBLIC = attest.make_keys()


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the event log, the smallest of ours."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT / "libs" / "eventlog")], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Give a wheel and its bill of materials."""
    folder = tmp_path_factory.mktemp("built")
    wheel, bill = build_wheel(folder), folder / "argosy-eventlog.cdx.json"
    command = [sys.executable, str(ROOT / "tools" / "sbom.py"), "argosy-eventlog"]
    bill.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return [wheel, bill]


@pytest.fixture(scope="module")
def envelope(files: list[Path]) -> bytes:
    """Give what was signed of them."""
    return json.dumps(attest.sign(attest.make_statement(files, commit=COMMIT), PRIVATE)).encode()


def test_what_was_built_passes_and_says_what_it_was_built_from(files: list[Path], envelope: bytes) -> None:
    """Wheel and bill by their digests; commit and pinned requirements by theirs."""
    statement = attest.verify(envelope, files, PUBLIC, commit=COMMIT)
    told = {one["uri"]: one["digest"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert told["git"] == {"gitCommit": COMMIT}
    assert told["file:requirements.txt"] == {"sha256": attest.digest(ROOT / "requirements.txt")}
    assert {one["name"] for one in statement["subject"]} == {file.name for file in files}


def save_image(path: Path, layer: bytes) -> str:
    """Write an archive as `docker save` does, of one image with one layer; return the image's id."""
    layer_id = hashlib.sha256(layer).hexdigest()
    config = json.dumps({"rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]}}).encode()
    name = f"blobs/sha256/{hashlib.sha256(config).hexdigest()}"
    manifest = [{"Config": name, "RepoTags": ["argosy/server:1"], "Layers": [f"blobs/sha256/{layer_id}"]}]
    contents = {name: config, f"blobs/sha256/{layer_id}": layer, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w") as archive:
        for member, data in contents.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return name.rpartition("/")[2]


def test_image_is_named_by_the_id_that_its_machine_tells(tmp_path: Path) -> None:
    """Beside the digest of its archive; with another layer neither is the same, and the archive does not pass."""
    path = tmp_path / "server.tar"
    image = save_image(path, b"one layer")
    envelope = json.dumps(attest.sign(attest.make_statement([path], commit=COMMIT), PRIVATE)).encode()
    told = {one["name"]: one["digest"]["sha256"] for one in attest.verify(envelope, [path], PUBLIC)["subject"]}
    assert told == {"server.tar": attest.digest(path), "argosy/server:1": image}
    assert save_image(path, b"two layers") != image
    with pytest.raises(attest.AttestError, match=r"server.tar is not the file that was signed"):
        attest.verify(envelope, [path], PUBLIC)


def test_wheel_that_is_built_again_is_the_one_that_was_signed(
    files: list[Path], envelope: bytes, tmp_path: Path
) -> None:
    """Anybody who has the commit can check that the wheel was made from it."""
    assert attest.verify(envelope, [build_wheel(tmp_path)], PUBLIC)
    assert files[0].name == next(tmp_path.glob("*.whl")).name


def test_changed_file_or_another_of_its_name_does_not_pass(files: list[Path], envelope: bytes, tmp_path: Path) -> None:
    """One byte more, and a file that was never signed, are told by name."""
    changed = tmp_path / files[0].name
    changed.write_bytes(files[0].read_bytes() + b"\0")
    with pytest.raises(attest.AttestError, match=rf"{changed.name} is not the file that was signed"):
        attest.verify(envelope, [changed], PUBLIC)
    with pytest.raises(attest.AttestError, match="is not the file"):
        attest.verify(envelope, [ROOT / "requirements.txt"], PUBLIC)
    with pytest.raises(attest.AttestError, match="no file to check"):
        attest.verify(envelope, [], PUBLIC)
    with pytest.raises(attest.AttestError, match="not from 2222"):
        attest.verify(envelope, files, PUBLIC, commit="2" * 40)


def resigned(envelope: bytes, **changes: Any) -> bytes:
    """Return an envelope with other parts, under the signature that it had."""
    return json.dumps({**json.loads(envelope), **changes}).encode()


def test_nobody_else_signs_and_nothing_signed_is_changed(files: list[Path], envelope: bytes) -> None:
    """Another key, a changed payload, type or signature, and what is no envelope are refused without a traceback."""
    other, _ = attest.make_keys()
    forged = attest.make_statement(files, commit="2" * 40)
    body = base64.b64encode(json.dumps(forged).encode()).decode()
    for untrue in (
        json.dumps(attest.sign(forged, other)).encode(),
        resigned(envelope, payload=body),
        resigned(envelope, payloadType="text/plain"),
        resigned(envelope, signatures=[]),
        resigned(envelope, signatures=[{"sig": "AAAA"}]),
        resigned(envelope, payload="%"),
        envelope[:-5],
        b"[]",
        b"[" * 100_000,
        b" " * (1 << 21),
    ):
        with pytest.raises(attest.AttestError):
            attest.verify(untrue, files, PUBLIC)


@pytest.mark.parametrize("statement", [[], {}, {"_type": 1}, {"subject": [1]}])
def test_other_statements_of_the_same_key_are_no_provenance(statement: Any, files: list[Path]) -> None:
    """A key that signs other things, too, does not vouch for files by them."""
    with pytest.raises(attest.AttestError, match="no provenance"):
        attest.verify(json.dumps(attest.sign(statement, PRIVATE)).encode(), files, PUBLIC)


def test_command_signs_and_checks(files: list[Path], tmp_path: Path) -> None:
    """As in SECURITY.md: key, sign, verify; a private key is its owner's alone, and a fault is one line."""
    said, names = tmp_path / "provenance.json", [str(file) for file in files]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools" / "attest.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    private, public = tmp_path / "own.key", tmp_path / "own.pub"
    assert run("key", str(private), str(public)).returncode == 0
    assert private.stat().st_mode & 0o777 == 0o600
    assert run("sign", "--key", str(private), "--out", str(said), *names).returncode == 0
    assert "2 files are as they were signed" in run("verify", "--key", str(public), str(said), *names).stdout
    refused = run("verify", "--key", str(public), str(said), str(ROOT / "README.md"))
    assert (refused.returncode, refused.stderr) == (1, "error: README.md is not the file that was signed\n")

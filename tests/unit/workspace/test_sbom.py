"""The bill of materials names everything that is pinned, and everything that is asked for."""

import importlib.metadata
import importlib.util
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sbom = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sbom)


def test_bill_of_the_images_has_every_pinned_package_with_its_hashes() -> None:
    """Nothing is installed that it does not name, and every package of others has a hash."""
    bill = sbom.make_bill()
    names = {one["name"] for one in bill["components"]}
    pinned = sbom.read_pinned((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    assert len(pinned) == len(lines) > 30
    assert names == pinned.keys() | sbom.read_ours().keys()
    assert all(one["properties"] for one in bill["components"] if "purl" in one)


def test_bill_of_a_wheel_has_what_it_asks_for() -> None:
    """Those that it names, and those that our own among them name; the program prints the same every time."""
    said = [
        subprocess.run(
            [sys.executable, str(ROOT / "tools" / "sbom.py"), "argosy-sampler"], capture_output=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    bill = json.loads(said[0])
    names = {one["name"] for one in bill["components"]}
    assert {"argosy-sampler", "argosy-core", "argosy-proto", "grpcio", "numpy"} <= names
    assert "alembic" not in names
    (own,) = [one for one in bill["dependencies"] if one["ref"] == "argosy-sampler"]
    assert "argosy-runtime" in own["dependsOn"]


def test_unknown_distribution_is_refused_by_name() -> None:
    """A misspelt name gives no empty bill."""
    with pytest.raises(KeyError, match="argosy-samplr"):
        sbom.make_bill("argosy-samplr")


ALLOWED = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib"}
"""Licences under which anybody may pass images on with a copy of the text."""
WITH_SOURCE = {"certifi": "MPL-2.0", "psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only",
               "psycopg-pool": "LGPL-3.0-only"}  # fmt: skip
"""Those that ask for more: who changes these packages passes their source on; they are used unchanged."""


def test_licence_of_everything_that_images_carry_is_known_and_lets_them_be_passed_on() -> None:
    """A package that is new, or changed its licence, is looked at by somebody before it is in an image."""
    told = {one["name"]: one["licenses"][0]["expression"] for one in sbom.make_bill()["components"] if "purl" in one}
    others = {name: text for name, text in told.items() if set(re.split(" AND | OR ", text)) - ALLOWED}
    assert others == WITH_SOURCE


def test_licences_are_what_the_packages_say() -> None:
    """The list goes by the metadata of the very versions that are pinned, as far as they say it in one word."""
    wrong, checked = [], 0
    for name, text in json.loads((ROOT / "tools" / "licences.json").read_text(encoding="utf-8")).items():
        said = importlib.metadata.metadata(name).get("License-Expression")
        checked += said is not None
        wrong += [name] if said not in {None, text} else []
    assert (wrong, checked > 40) == ([], True)


def test_bill_of_an_unpacked_image_has_its_debian_packages_with_the_licences_that_they_name(tmp_path: Path) -> None:
    """Of every form of their files; what was removed is not in it, and what names no licence is not given one."""
    status = "".join(
        f"Package: {name}\nStatus: {state}\nArchitecture: amd64\nVersion: 1.2-3\nDescription: text\n more\n\n"
        for name, state in (
            ("libnew", "install ok installed"),
            ("libold", "install ok installed"),
            ("libsilent", "install ok installed"),
            ("gone", "deinstall ok config-files"),
        )
    )
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(status)
    texts = {
        "libnew": "Files: *\nLicense: MIT\n words\n\nFiles: x\nLicense: BSD-3-clause\n",
        "libold": "free text; see `/usr/share/common-licenses/GPL-2'.\n",
    }
    for name, text in texts.items():
        (tmp_path / "usr/share/doc" / name).mkdir(parents=True)
        (tmp_path / "usr/share/doc" / name / "copyright").write_text(text)
    program = [sys.executable, str(ROOT / "tools" / "sbom.py"), "--root"]
    bill = json.loads(subprocess.run([*program, str(tmp_path)], capture_output=True, check=True).stdout)
    found = {one["name"]: one for one in bill["components"] if one.get("purl", "").startswith("pkg:deb/")}
    assert {name: [one["license"]["name"] for one in each.get("licenses", ())] for name, each in found.items()} == {
        "libnew": ["BSD-3-clause", "MIT"],
        "libold": ["GPL-2"],
        "libsilent": [],
    }
    assert found["libnew"]["purl"] == "pkg:deb/debian/libnew@1.2-3?arch=amd64"
    assert len(bill["components"]) == len(sbom.make_bill()["components"]) + 3
    refused = subprocess.run([*program, str(tmp_path / "usr")], capture_output=True, check=False)
    assert refused.returncode == 1
    assert b"no list of Debian packages" in refused.stderr


def pack(path: Path, members: dict[str, bytes | str]) -> bytes:
    """Write an archive of files, and of links where a text stands; return its bytes."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return path.read_bytes()


def test_bill_of_an_archive_is_that_of_its_last_layer_and_nothing_is_written_beside(tmp_path: Path) -> None:
    """A later list replaces an earlier one, folders that are links are followed, and other paths are left alone."""
    status = "Package: {}\nStatus: install ok installed\nVersion: {}\nArchitecture: amd64\n"
    licence = "usr/share/doc/libold/copyright"
    first = pack(
        tmp_path / "1", {"var/lib/dpkg/status": status.format("libold", 1).encode(), licence: b"License: MIT\n"}
    )
    both = "\n".join((status.format("libold", 2), status.format("libtwin", 3))).encode()
    second: dict[str, bytes | str] = {
        "var/lib/dpkg/status": both,
        "usr/share/doc/libtwin": "libold",
        "usr/share/doc/../../../../../stray": b"x",
        "usr/share/doc/libstray": "/etc",
    }
    manifest = json.dumps([{"Config": "c", "RepoTags": ["a:1"], "Layers": ["1", "2"]}]).encode()
    archive = tmp_path / "image.tar"
    pack(archive, {"manifest.json": manifest, "1": first, "2": pack(tmp_path / "2", second)})
    root = tmp_path / "root"
    sbom.unpack_lists(archive, root)
    found = {one["name"]: (one["version"], one["licenses"]) for one in sbom.read_debian(root)}
    assert found == {
        name: (version, [{"license": {"name": "MIT"}}]) for name, version in (("libold", "2"), ("libtwin", "3"))
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "image.tar", "root"]
    assert not (root / "usr/share/doc/libstray").exists()
    with pytest.raises(ValueError, match="no archive of one image"):
        sbom.unpack_lists(tmp_path / "1", root)

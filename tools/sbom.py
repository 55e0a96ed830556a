"""Say what an image or a wheel holds: a software bill of materials, CycloneDX 1.5, JSON.

It is read from the pinned requirements, in which every package stands with its version and hashes, from the list of
their licences, and from the distributions of this workspace; nothing is asked of the network, and the same sources give
the same bytes.

Usage: python tools/sbom.py [DISTRIBUTION]    (all of them, as the images have; else one with what it needs)
       python tools/sbom.py --root FOLDER     (all of them, and the Debian packages of an image that was unpacked there)
       python tools/sbom.py --archive FILE    (the same of an image in an archive, as `docker save` writes it)
"""

import hashlib
import json
import re
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LICENCE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9])")
_LISTS = re.compile(r"^(?:\./)?(var/lib/dpkg/status|usr/share/doc/[a-z0-9][a-z0-9+.-]*(?:/copyright)?)$")
_PACKAGE = re.compile(r"^[a-z0-9][a-z0-9+.-]*$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """Return a distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pinned(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return version and SHA-256 hashes of each package of a file of requirements, by its name."""
    found: dict[str, tuple[str, list[str]]] = {}
    hashes: list[str] = []
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            hashes = []
            found[normal(entry[1])] = entry[2], hashes
        hashes += _HASH.findall(line)
    return found


def read_ours() -> dict[str, dict[str, Any]]:
    """Return the `project` table of each distribution of the workspace, by its name."""
    paths = sorted([*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")])
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in paths]
    return {normal(table["name"]): table for table in tables}


def needs_of(table: dict[str, Any]) -> list[str]:
    """Return the names of what a distribution asks for, extras apart."""
    return sorted({normal(name[0]) for text in table.get("dependencies", ()) if (name := _NAME.match(text))})


def make_bill(chosen: str = "") -> dict[str, Any]:
    """Return the bill of all distributions, or of one and what it asks for.

    Raises:
        KeyError: There is no such distribution.
    """
    ours, ends = read_ours(), ("", "-dev")
    pins = [read_pinned((ROOT / f"requirements{end}.txt").read_text(encoding="utf-8")) for end in ends]
    pinned = pins[1] | pins[0]
    # What packages of others need, only the pins tell; an image has all of the first file.
    wanted, left = set(), [normal(chosen)] if chosen else []
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += needs_of(ours[name]) if name in ours else []
            if name not in ours and name not in pinned:
                raise KeyError(name)
    licences = json.loads((ROOT / "tools" / "licences.json").read_text(encoding="utf-8"))
    shown = sorted(wanted if chosen else ours.keys() | pins[0].keys())
    components = []
    for name in shown:
        version, hashes = (ours[name]["version"], []) if name in ours else pinned[name]
        component = {"type": "library", "bom-ref": name, "name": name, "version": version}
        if name not in ours:
            component["purl"] = f"pkg:pypi/{name}@{version}"
            if name in licences:
                component["licenses"] = [{"expression": licences[name]}]
            component["properties"] = [{"name": "argosy:sha256", "value": value} for value in sorted(hashes)]
        components.append(component)
    dependencies = [{"ref": name, "dependsOn": needs_of(ours[name])} for name in shown if name in ours]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "argosy", "name": chosen or "argosy"}},
        "components": components,
        "dependencies": dependencies,
    }


def read_debian(root: Path) -> list[dict[str, Any]]:
    """Return the Debian packages of an unpacked image as components, with the licences that their own files name.

    Names are those that Debian uses in them. A package without such a file, or whose file names none, has none here:
    its component says so by what it lacks.

    Raises:
        FileNotFoundError: The folder holds no list of packages.
    """
    components = []
    for paragraph in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        component: dict[str, Any] = {"type": "library", "bom-ref": f"deb/{name}", "name": name, "version": version}
        component["purl"] = f"pkg:deb/debian/{name}@{version}?arch={fields.get('Architecture', 'all')}"
        copyright_file = root / "usr/share/doc" / name / "copyright"
        if copyright_file.is_file():
            data = copyright_file.read_bytes()
            text = data.decode("utf-8", "replace")
            if named := sorted({*map(str.strip, _LICENCE.findall(text)), *_COMMON.findall(text)}):
                component["licenses"] = [{"license": {"name": one}} for one in named]
            said = hashlib.sha256(data).hexdigest()
            component["properties"] = [{"name": "argosy:copyright-sha256", "value": said}]
        components.append(component)
    return sorted(components, key=lambda one: str(one["name"]))


def unpack_lists(archive: Path, root: Path) -> None:
    """Put what `read_debian` reads of the one image of an archive into a folder.

    Raises:
        ValueError: It is no archive of one image.
    """
    try:
        with tarfile.open(archive) as outer:
            listed = outer.extractfile("manifest.json")
            images: list[Any] = json.load(listed) if listed is not None else []
            if len(images) != 1:
                raise ValueError(len(images))
            for name in images[0]["Layers"]:
                layer = outer.extractfile(name)
                with tarfile.open(fileobj=layer) as members:
                    for member in members:
                        _unpack(members, member, root)
    except (tarfile.TarError, KeyError, TypeError, ValueError) as cause:
        raise ValueError(f"{archive} is no archive of one image") from cause


def _unpack(layer: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    found = _LISTS.match(member.name)
    if found is None:
        return
    place = root / found[1]
    if place.is_symlink() or place.is_file():
        place.unlink()  # a later layer's counts
    place.parent.mkdir(parents=True, exist_ok=True)
    if member.isfile() and (data := layer.extractfile(member)) is not None:
        place.write_bytes(data.read())
    elif member.issym() and _PACKAGE.match(member.linkname):  # the folder of another package, beside this one's
        place.symlink_to(member.linkname)


def main() -> None:
    """Print it."""
    kind, *rest = sys.argv[1:] or [""]
    try:
        bill = make_bill("" if kind.startswith("--") else kind)
        if kind == "--root":
            bill["components"] += read_debian(Path(*rest[:1]))
        elif kind == "--archive":
            with tempfile.TemporaryDirectory() as root:
                unpack_lists(Path(*rest[:1]), Path(root))
                bill["components"] += read_debian(Path(root))
    except ValueError as error:
        sys.exit(str(error))
    except KeyError as error:
        sys.exit(f"there is no distribution, and no pinned package, called {error.args[0]}")
    except FileNotFoundError as error:
        sys.exit(f"there is no list of Debian packages at {error.filename}")
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

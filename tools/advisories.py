"""Tell which pinned packages a stored list of advisories names: a folder of OSV records, in JSON or in YAML.

Nothing is asked of the network, so that it runs where there is none; how new the list is, is up to whoever stored it.

Usage: python tools/advisories.py FOLDER [REQUIREMENTS...]    (all of ours unless named; ends with 1 if one is named)
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
OURS = ("requirements.txt", "requirements-dev.txt", "requirements-build.txt", "requirements-proto.txt")
_SPEC = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sbom = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sbom)


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Return whether an entry of a record means a version: it is listed, or lies in a range.

    A version that cannot be compared is taken for one that is meant: somebody shall look.
    """
    if version in affected.get("versions", ()):
        return True
    return any(
        _is_within(version, one.get("events", ()))
        for one in affected.get("ranges", ())
        if one.get("type") in {"ECOSYSTEM", "SEMVER"}
    )


def _is_within(version: str, events: Sequence[Mapping[str, str]]) -> bool:
    try:
        own = Version(version)
        steps = sorted((Version(value), kind) for event in events for kind, value in event.items() if kind != "limit")
    except InvalidVersion:
        return True
    within = False
    for at, kind in steps:
        if kind == "introduced" and own >= at:
            within = True
        elif (kind == "fixed" and own >= at) or (kind == "last_affected" and own > at):
            within = False
    return within


def _read_yaml(text: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Return a document whose times are left texts, as they are in JSON.

    Raises:
        ValueError: It is none.
    """
    try:
        return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))  # noqa: S506 - makes texts only
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from error


_READERS: Mapping[str, Callable[[str], Any]] = {".json": json.loads, ".yaml": _read_yaml}


def find_advisories(folder: Path, pinned: Mapping[str, tuple[str, list[str]]]) -> Iterator[str]:
    """Yield a line for each pinned package that a record of a folder means, in order.

    Raises:
        ValueError: The folder has no record, or one cannot be read: no list must not look like a clean one.
    """
    paths = sorted(path for suffix in _READERS for path in folder.glob(f"**/*{suffix}"))
    if not paths:
        raise ValueError(f"there is no record in {folder}")
    for path in paths:
        record = _READERS[path.suffix](path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or "id" not in record:
            raise ValueError(f"{path} is no record of OSV")
        if "withdrawn" in record:
            continue
        for affected in record.get("affected", ()):
            package = affected.get("package", {})
            name = sbom.normal(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in pinned and is_affected(pinned[name][0], affected):
                yield f"{name} {pinned[name][0]}: {record['id']} {record.get('summary', '')}".rstrip()


def main() -> None:
    """Print what is found."""
    if len(sys.argv) < 2:
        sys.exit("usage: python tools/advisories.py FOLDER [REQUIREMENTS...]")
    found = set()
    try:
        for name in sys.argv[2:] or [str(ROOT / one) for one in OURS]:
            pinned = sbom.read_pinned(Path(name).read_text(encoding="utf-8"))
            found |= set(find_advisories(Path(sys.argv[1]), pinned))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(sorted(found)) or "no pinned package is named")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

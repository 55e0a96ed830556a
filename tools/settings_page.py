"""Write `docs/settings.md`: every setting of every service, as its configuration class says it.

A configuration class is one with a class variable `SERVICE`, wherever it stands in `libs/` and `services/`.

Usage: python tools/settings_page.py [--check]
"""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from argosy_runtime.config import SettingText, setting_texts
from argosy_server.leader.settings import is_hot

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
ORDER = ("server", "executor", "sampler")
"""Services whose settings are told in full come first; what others have in common with them is referred to."""
UNITS = {
    "_jobs_per_s": "jobs/s",
    "_per_s": "1/s",
    "_ms": "ms",
    "_s": "s",
    "_days": "days",
    "_bytes": "bytes",
    "_count": "count",
    "_ratio": "share",
}
HEAD = """# Settings

Generated from the configuration classes by `make docs`; do not edit. `argosy-SERVICE --help` says the same.

A setting is taken from the first place that has it: its flag, its environment variable, the file named by `--config`
(YAML, JSON or TOML), its default. The setting `leader.lease_s` of the server is the flag `--leader-lease-s`, the
variable `ARGOSY_SERVER_LEADER_LEASE_S`, and in a file the key `lease_s` of the section `leader`.

Settings of the server marked *hot* change while a pool is led, by `argosy config set`: all or none, from the next round
on, over a change of leader, and for whoever reads `argosy config history` with who, when and why. What is not set there
is as configured.

Lists are written `a,b`, mappings `name=value,name=value`. A name that no service reads is an error, and so is a number
that means nothing.
"""


def config_types(root: Path = ROOT) -> list[type[Any]]:
    """Return the configuration classes of all services."""
    found: list[type[Any]] = []
    for path in sorted([*root.glob("libs/*/src/argosy_*/**/*.py"), *root.glob("services/*/src/argosy_*/**/*.py")]):
        if not re.search(r"^    SERVICE: ClassVar", path.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        parts = path.relative_to(root).with_suffix("").parts
        source = str(root.joinpath(*parts[: parts.index("src") + 1]))
        if source not in sys.path:  # it may not have been installed yet
            sys.path.append(source)
        module = importlib.import_module(".".join(parts[parts.index("src") + 1 :]))
        found.extend(
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and kind.__module__ == module.__name__ and "SERVICE" in vars(kind)
        )
    rank = {name: position for position, name in enumerate(ORDER)}
    return sorted(found, key=lambda kind: (rank.get(kind.SERVICE, len(rank)), kind.SERVICE))


def page(types: Sequence[type[Any]]) -> str:
    """Return the text of the page."""
    told: dict[SettingText, str] = {}
    lines = [HEAD]
    for kind in types:
        settings = setting_texts(kind)
        lines += [f"## argosy-{kind.SERVICE}" if kind.SERVICE in ORDER else f"## {kind.SERVICE}", ""]
        lines += [(kind.__doc__ or "").strip().splitlines()[0], ""]
        same = {told[_meaning(one)] for one in settings if _meaning(one) in told}
        if same:
            lines += [f"Settings that are the same for others stand there: {', '.join(sorted(same))}.", ""]
        own = [one for one in settings if _meaning(one) not in told]
        for section, group in groupby(own, key=lambda one: one.key.rpartition(".")[0]):
            lines += [f"### Section `{section}` of the {kind.SERVICE}", ""] if section else []
            lines += ["| setting | default | unit or values | meaning |", "|---|---|---|---|", *map(_row, group), ""]
        told.update({_meaning(one): kind.SERVICE for one in settings if _meaning(one) not in told})
    return "\n".join(lines).rstrip() + "\n"


def _meaning(setting: SettingText) -> SettingText:
    """Return a setting without what differs between services that share it."""
    return SettingText(**{**{name: getattr(setting, name) for name in SettingText.__slots__}, "variable": ""})


def _row(setting: SettingText) -> str:
    name = setting.key.rpartition(".")[2]
    unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), setting.kind)
    default = "needed" if setting.default is None else "" if setting.default == "none" else f"`{setting.default}`"
    if setting.kind == "[true|false]":
        default = default.lower()
    words = {"TEXT": "text", "TEXT,...": "list", "N": "number", "X": "number", "[true|false]": "true, false"}
    hot = " *hot*" if is_hot(setting.key) else ""
    cells = (f"`{setting.key}`{hot}", default, words.get(unit, unit.replace("|", ", ")), setting.text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def faults(text: str) -> Iterator[str]:
    """Tell if the committed page is not the text."""
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        yield f"{PAGE.relative_to(ROOT)} is stale: make docs"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or only look; return the exit code."""
    text = page(config_types())
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    stale = list(faults(text))
    print(*stale, sep="\n", end="\n" if stale else "")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
